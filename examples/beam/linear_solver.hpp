/// What Newton's method wants of whatever solves its linear systems.
#pragma once

#include "csr.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace beam {

/// How a linear solve ended.
struct LinearOutcome {
  bool is_solved = false;
  std::int64_t iterations = 0;  ///< 0 for direct methods
  std::string message;          ///< why there is no answer
};

/// Solves A x = b so that ||b - A x||_2 <= rtol ||b||_2. x has the size of b, its entries may be
/// anything before.
using LinearSolver =
    std::function<LinearOutcome(const Csr& a, const Vector& b, double rtol, Vector& x)>;

}  // namespace beam
