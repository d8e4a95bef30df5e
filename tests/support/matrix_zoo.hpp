/// The matrices that every solver has to cope with, by name.
#pragma once

#include "matgen/matrices.hpp"
#include "reference/dense_matrix.hpp"

#include <shardsolve/dtype.hpp>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace shardsolve::testing {

/// The verdict a solver has to reach.
enum class Expect : std::uint8_t {
  ok,                     ///< positive definite beyond doubt
  not_positive_definite,  ///< fails in any elimination order, and at `recipe.row`
  edge,                   ///< rounding decides: see verdict_is_explained; if solved, then well
};

struct ZooCase {
  std::string name;  ///< letters, digits and underscores: fit for the name of a test
  matgen::Recipe recipe;
  Expect expect = Expect::ok;
};

/// Prints the name.
std::ostream& operator<<(std::ostream& out, const ZooCase& zoo_case);

/// All matrices of size n that make sense in this dtype. n up to about 700: beyond, rounding has a
/// say in more of them than are marked.
std::vector<ZooCase> matrix_zoo(Dtype dtype, std::int64_t n);

/// The whole matrix of a recipe.
template <Scalar T>
reference::DenseMatrix<T> dense(const matgen::Recipe& recipe);

/// `count` random right-hand sides.
template <Scalar T>
reference::DenseMatrix<T> right_hand_sides(std::int64_t n, std::int64_t count,
                                           std::uint64_t seed = 1);

}  // namespace shardsolve::testing
