/// What a status has to say of a solve.
#pragma once

#include "runtime/krylov/ends.hpp"

#include <shardsolve/krylov_status.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardsolve::krylov {

/// The numbers of a message.
struct Ending {
  std::int64_t iterations = 0;
  std::int64_t at_iteration = 0;  ///< where what ends the solve was seen
  double value = 0.0;             ///< what was seen; see the statuses
  double residual = 0.0;          ///< ||b - A x|| / ||b||
  double tolerance = 0.0;         ///< what it had to be
  std::int64_t row = -1;          ///< of b or x0
  std::int64_t cycle = 0;         ///< see cycle_of()
  double condition = 0.0;         ///< of A, from below; 0 if it is not known
  double error_estimate = 0.0;    ///< see Result
  bool has_null_constants = false;
  bool is_hermitian = false;
  bool is_of_constants = false;     ///< singular_operator is said of the vector of ones
  bool has_least_residual = false;  ///< x has the least one that there is
  bool is_minres_alone = false;     ///< minres without a preconditioner
  bool is_twofold = false;          ///< b - A x was computed with twice the digits
  double doubt = 0.0;               ///< by how much ||b - A x|| / ||b|| may be wrong
};

/// "iteration", "residual_recomputed", ...
std::string_view name(Event event);

/// One sentence: the status, numbers, the iteration, what to do.
std::string message(Status status, const Ending& ending);

/// Vectors of a basis, fewer than rows, that the method throws away at each restart; 0 if it keeps
/// none or all.
inline std::int64_t cycle_of(const Problem& problem) {
  return problem.cycle < problem.n ? problem.cycle : 0;
}

/// Likewise, of a report and the cycle of its solve.
std::string message(const Report& report, std::int64_t cycle);

}  // namespace shardsolve::krylov
