/// Test matrices whose every entry can be computed anywhere, so that a matrix is the same on every
/// mesh. All are Hermitian bit for bit, with an exactly real diagonal.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/index.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <string_view>

namespace shardsolve::matgen {

/// Indices in the formulas are 0-based. D is a diagonal of complex phases: I for real dtypes.
enum class Kind : std::uint8_t {
  random,               ///< |a_ij| <= 1 random, 2 sqrt(n) + |random| on the diagonal: condition < 5
  hermitian,            ///< |a_ij| <= 1 random, the diagonal too: eigenvalues of both signs, nearly
                        ///< all within 2 sqrt(n / 3)
  general,              ///< |a_ij| <= 1 random, no symmetry
  gaussian_line,        ///< D (K + jitter I) D^H, k_ij = exp(-|x_i - x_j|^2 / (2 length^2)), with
                        ///< x equidistant on [0, 1]: numerically of low rank but for the jitter
  gaussian_plane,       ///< likewise, with random points of the unit square
  minimum,              ///< D M D^H, m_ij = min(i, j) + 1: determinant 1, integers only
  laplacian_2d,         ///< D L D^H, L the 5-point Laplacian (4, -1) on a grid ceil(sqrt(n)) wide
  diagonal,             ///< 1, 2, ..., n
  spectrum_arithmetic,  ///< Q diag(d) Q^H, d from 1 down to 1 / condition in equal differences
  spectrum_geometric,   ///< Q diag(d) Q^H, d from 1 down to 1 / condition in equal ratios
  spectrum_clustered,   ///< Q diag(d) Q^H, the first half of d is 1, the rest 1 / condition
  equal_rows,           ///< random with `row` and another row equal: exactly singular, n >= 2
  zero_row,             ///< random with `row` zero: singular, the pivot of `row` is exactly 0
  indefinite,           ///< random with diagonal entry `row` negated: one negative eigenvalue, and
                        ///< Cholesky in any order fails at `row` and not before
};

/// "random", "gaussian_line", ...
std::string_view name(Kind kind);

/// Everything that defines a matrix. Fields that its kind does not use are ignored.
struct Recipe {
  Kind kind = Kind::random;
  std::int64_t n = 0;
  std::uint64_t seed = 0;
  double condition = 100.0;  ///< 2-norm condition number of the spectrum_* kinds, >= 1
  double jitter = 1e-4;      ///< on the diagonal of the gaussian_* kinds, >= 0
  double length = 0.2;       ///< length scale of the gaussian_* kinds, > 0
  GlobalIndex row;           ///< the row that equal_rows, zero_row and indefinite single out
  int scale_exponent = 0;    ///< every entry is multiplied by 2^scale_exponent, exactly
};

/// Entry (i, j), computed in double (the spectrum_* kinds: in long double) and rounded to T once.
/// O(1), but O(n) for the spectrum_* kinds: use fill_columns for more than a few entries.
/// Throws Error(invalid_argument) if the recipe makes no sense or the place is outside the matrix.
template <Scalar T>
T entry(const Recipe& recipe, GlobalIndex i, GlobalIndex j);

/// Writes whole columns of the matrix to `out`, which is n x columns.size(): what `entry` gives, in
/// O(n) operations a column.
/// Throws Error(invalid_argument) if the recipe, the range or the shape of `out` makes no sense.
template <Scalar T>
void fill_columns(const Recipe& recipe, GlobalRange columns, MatrixView<T> out);

/// Row `i` of right-hand side `j`: real and imaginary part uniform in [-1, 1).
template <Scalar T>
T rhs(std::uint64_t seed, GlobalIndex i, std::int64_t j);

}  // namespace shardsolve::matgen
