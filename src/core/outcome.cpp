#include <shardsolve/outcome.hpp>

#include <fmt/format.h>

namespace shardsolve {

std::string_view name(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::not_positive_definite:
      return "not_positive_definite";
    case Status::not_hermitian:
      return "not_hermitian";
    case Status::nonfinite_input:
      return "nonfinite_input";
    case Status::overflow:
      return "overflow";
  }
  return "unknown";
}

std::string Outcome::message() const {
  switch (status) {
    case Status::ok:
      return "";
    case Status::not_positive_definite:
      // A pivot that rounding has made negative looks the same: the exact matrix may be definite.
      return fmt::format(
          "the matrix is not positive definite to working precision: the pivot of row {} (0-based) "
          "is not positive after {} rows were eliminated; add to the diagonal (regularise) or use "
          "a solver for indefinite matrices",
          pivot ? pivot->row.value() : -1, pivot ? pivot->rows_before : -1);
    case Status::not_hermitian:
      if (entry && entry->row == entry->column) {
        return fmt::format(
            "the matrix is not Hermitian: entry ({0}, {0}) of the diagonal is not real, by more "
            "than rounding explains; pass (A + A^H) / 2 if the imaginary part is not meant",
            entry->row.value());
      }
      return fmt::format(
          "the matrix is not Hermitian: entry ({0}, {1}) differs from the conjugate of entry "
          "({1}, {0}) by more than rounding explains; both triangles are needed, so pass "
          "(A + A^H) / 2 if the difference is meant",
          entry ? entry->row.value() : -1, entry ? entry->column.value() : -1);
    case Status::nonfinite_input:
      return fmt::format(
          "the {} holds a NaN or an infinity at row {}, column {} (0-based): find out where "
          "it was made, there is no answer to compute from it",
          entry_in_right_hand_side ? "right-hand side" : "matrix", entry ? entry->row.value() : -1,
          entry ? entry->column.value() : -1);
    case Status::overflow:
      return "the result does not fit the range of its dtype: scale the matrix or the right-hand "
             "sides, or use a wider dtype";
  }
  return "unknown status";
}

}  // namespace shardsolve
