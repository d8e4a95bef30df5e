/// What a numerical routine reports: an answer with a certificate, or no answer with a reason.
#pragma once

#include <shardsolve/export.hpp>
#include <shardsolve/index.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardsolve {

/// Why there is an answer, or why there is none: one enum for all routines. Records and files carry
/// the numbers, so none is ever used again for something else.
enum class Status : std::uint8_t {
  ok = 0,
  not_positive_definite = 1,  ///< a pivot was not positive; `Outcome::location` is that pivot
  not_hermitian = 2,          ///< A differs from its conjugate transpose; `location`: an entry of A
  nonfinite_input = 3,        ///< A or b holds a NaN or an infinity; `location`: the entry
  overflow = 4,               ///< the answer does not fit the dtype's range
  not_converged = 5,          ///< an iteration did not find eigenvalues, or a solution
  breakdown = 6,              ///< a Krylov method divides by zero to working precision
  unsuitable_method = 7,      ///< A or the preconditioner is not what the method is for
  nonfinite_product = 8,      ///< a product with A or the preconditioner holds a NaN or an infinity
  stopped = 9,                ///< the caller asked for the end; there is an iterate
  underflow = 10,             ///< the answer is below the dtype's range
  singular = 11,              ///< a pivot is exactly 0; `location` is that pivot
  nearly_singular = 12,       ///< there is an answer, but none of its digits need be right
  inaccurate = 13,            ///< what was found solves another system: no answer to rely on
  rank_deficient = 14,        ///< columns (or rows) depend on each other: no single solution
};

/// What a status comes to, whatever the routine.
enum class StatusClass : std::uint8_t {
  answered,   ///< there is an answer
  numerical,  ///< none: the numbers of the matrix do not allow one in this dtype
  input,      ///< none: the input is not what the routine takes; nothing was written
  resources,  ///< none within the time or the memory there was
};

/// "ok", "not_positive_definite", ...
SHARDSOLVE_EXPORT std::string_view name(Status status);
SHARDSOLVE_EXPORT StatusClass class_of(Status status);

/// What lies at a location.
enum class Located : std::uint8_t { pivot, matrix_entry, right_hand_side_entry };

/// The place that a status is about, in the caller's matrix or right-hand sides, 0-based.
struct Location {
  Located what = Located::matrix_entry;
  GlobalIndex row;
  GlobalIndex column;  ///< of an entry; of a pivot its row
  /// Of a pivot: rows eliminated before it (with one rank: LAPACK's info - 1).
  std::int64_t rows_before = 0;

  static Location pivot(GlobalIndex row, std::int64_t rows_before) {
    return {Located::pivot, row, row, rows_before};
  }
  static Location in_matrix(GlobalIndex row, GlobalIndex column) {
    return {Located::matrix_entry, row, column, 0};
  }
  static Location in_right_hand_sides(GlobalIndex row, GlobalIndex column) {
    return {Located::right_hand_side_entry, row, column, 0};
  }
};

struct Figure;

/// The result of a numerical routine. Never thrown.
struct SHARDSOLVE_EXPORT Outcome {
  Status status = Status::ok;
  std::optional<Location> location;

  // Figures: what the routine has found out about its answer; not there if it has not. Each has a
  // row in the table of figures(), from which reports are made.

  /// Normwise backward error of a solve, the largest over the right-hand sides:
  /// ||b - A x|| / (||A|| ||x|| + ||b||) in the infinity norm. For an inverse, with v of random
  /// signs and w = A v computed before A was overwritten: ||v - X w|| / (||A|| ||X|| ||v||), and of
  /// a general matrix see lu.hpp.
  /// Rounding alone gives a small multiple of the unit roundoff. Of least squares: see qr.hpp.
  std::optional<double> backward_error;
  /// Of a solve with a general matrix, the backward error by components, likewise the largest:
  /// max_i |b - A x|_i / (|A| |x| + |b|)_i.
  std::optional<double> component_error;
  /// Of a factorisation with row exchanges: the largest entry of U over that of A.
  std::optional<double> growth;
  /// Reciprocal condition number 1 / (||A||_1 ||A^-1||_1): an estimate (never below the true one
  /// but for rounding), exact for an inverse. Of least squares that of R, columns scaled: qr.hpp.
  std::optional<double> rcond;
  /// Of a solve whose rcond is below 2 u, an estimate of how far X is from the exact solution that
  /// scales of equations do not change: ||x - A^-1 b|| / ||x|| in the infinity norm, the largest of
  /// the right-hand sides.
  std::optional<double> forward_error;
  /// Of eigenpairs, the largest ||A z - w z||_2 / ||A||_1 as random vectors see it: with four
  /// vectors g of random signs, (A g)^H z - w g^H z, the root of its mean square. Rounding alone
  /// gives a multiple of the unit roundoff: about 4 where ||A||_1 is far above ||A||_2, as for
  /// random matrices, else up to about 2 sqrt(n), as for a chain. Of A = Q R likewise, see qr.hpp.
  std::optional<double> residual;
  /// Of eigenvectors, the largest 2-norm of a row of Z^H Z - I, estimated likewise by
  /// Z^H (Z g) - g. Rounding alone gives a multiple of the unit roundoff that grows with the root
  /// of n: about 50 for 100 rows, 150 for 2000.
  std::optional<double> orthogonality;

  double seconds = 0.0;  ///< wall-clock time of the call
  double flops = 0.0;    ///< floating-point operations counted as real ones, over all ranks

  bool ok() const { return status == Status::ok; }
  /// One sentence: what happened, where, and what to do about it. Empty if all is well.
  std::string message() const;
  /// Of an answer: a sentence for each error among the figures that is larger than rounding alone
  /// makes it in arithmetic of this unit roundoff. Empty if there is none.
  std::string warning(double unit_roundoff) const;

  /// All figures, in the order of a report.
  static std::span<const Figure> figures();
};

/// How a figure of an outcome is told, in reports and in JSON.
struct Figure {
  std::string_view name;     ///< of the member, and of the key in JSON: "backward_error"
  std::string_view label;    ///< for people: "backward error"
  std::string_view meaning;  ///< what it is, in a few words
  std::string_view format;   ///< of std::format: "{:.1e}"
  /// In units of the unit roundoff: what rounding alone stays below. 0 if it is no error of that
  /// kind.
  double rounding = 0.0;
  std::optional<double> Outcome::* value = nullptr;
};

}  // namespace shardsolve
