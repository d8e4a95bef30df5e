/// What a numerical routine reports: an answer with a certificate, or no answer with a reason.
#pragma once

#include <shardsolve/export.hpp>
#include <shardsolve/index.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardsolve {

enum class Status : std::uint8_t {
  ok,
  not_positive_definite,  ///< a pivot was not positive; `Outcome::pivot` names it
  not_hermitian,          ///< A differs from its conjugate transpose; `Outcome::entry` names where
  nonfinite_input,        ///< A or b holds a NaN or an infinity; `Outcome::entry` names where
  overflow,               ///< the answer does not fit the dtype's range
};

/// "ok", "not_positive_definite", ...
SHARDSOLVE_EXPORT std::string_view name(Status status);

/// A pivot that was not positive.
struct Pivot {
  GlobalIndex row;               ///< row of the caller's matrix, 0-based
  std::int64_t rows_before = 0;  ///< rows eliminated before it (with one rank: LAPACK's info - 1)
};

/// An entry of the caller's matrix or right-hand sides, 0-based.
struct Entry {
  GlobalIndex row;
  GlobalIndex column;
};

/// The result of a numerical routine. Never thrown.
struct SHARDSOLVE_EXPORT Outcome {
  Status status = Status::ok;
  std::optional<Pivot> pivot;
  std::optional<Entry> entry;
  bool entry_in_right_hand_side = false;

  /// Normwise backward error of a solve, the largest over the right-hand sides:
  /// ||b - A x|| / (||A|| ||x|| + ||b||) in the infinity norm. For an inverse, with v of random
  /// signs and w = A v computed before A was overwritten: ||v - X w|| / (||A|| ||X|| ||v||).
  /// Rounding alone gives a small multiple of the unit roundoff.
  std::optional<double> backward_error;
  /// Reciprocal condition number 1 / (||A||_1 ||A^-1||_1): an estimate (never below the true one
  /// but for rounding), exact for an inverse.
  std::optional<double> rcond;

  double seconds = 0.0;  ///< wall-clock time of the call
  double flops = 0.0;    ///< floating-point operations counted as real ones, over all ranks

  bool ok() const { return status == Status::ok; }
  /// One sentence: what happened, where, and what to do about it. Empty if all is well.
  std::string message() const;
};

}  // namespace shardsolve
