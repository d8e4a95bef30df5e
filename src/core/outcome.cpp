#include <shardsolve/outcome.hpp>

#include <fmt/format.h>

namespace shardsolve {
namespace {

/// What there is to say of a status.
struct StatusRow {
  std::string_view name;
  StatusClass kind;
  /// One sentence: what happened, where, and what to do about it.
  std::string (*message)(const Location& location);
};

std::string nothing(const Location&) { return ""; }

std::string not_positive_definite(const Location& pivot) {
  // A pivot that rounding has made negative looks the same: the exact matrix may be definite.
  return fmt::format(
      "the matrix is not positive definite to working precision: the pivot of row {} (0-based) "
      "is not positive after {} rows were eliminated; add to the diagonal (regularise) or use "
      "a solver for indefinite matrices",
      pivot.row.value(), pivot.rows_before);
}

std::string not_hermitian(const Location& entry) {
  if (entry.row == entry.column) {
    return fmt::format(
        "the matrix is not Hermitian: entry ({0}, {0}) of the diagonal is not real, by more "
        "than rounding explains; pass (A + A^H) / 2 if the imaginary part is not meant",
        entry.row.value());
  }
  return fmt::format(
      "the matrix is not Hermitian: entry ({0}, {1}) differs from the conjugate of entry "
      "({1}, {0}) by more than rounding explains; both triangles are needed: if only one is "
      "filled, call it T and pass T + T^H - diag(T); if both are and may differ so, pass "
      "(A + A^H) / 2, which would halve what only one of them holds",
      entry.row.value(), entry.column.value());
}

std::string nonfinite_input(const Location& entry) {
  return fmt::format(
      "the {} holds a NaN or an infinity at row {}, column {} (0-based): find out where "
      "it was made, there is no answer to compute from it",
      entry.what == Located::right_hand_side_entry ? "right-hand side" : "matrix",
      entry.row.value(), entry.column.value());
}

std::string overflow(const Location&) {
  return "the result does not fit the range of its dtype: scale the matrix or the right-hand "
         "sides, or use a wider dtype";
}

std::string underflow(const Location&) {
  return "the result is below the range of its dtype, where it would be 0 or lose its digits: "
         "scale "
         "the matrices, or use a wider dtype";
}

std::string not_converged(const Location&) {
  return "an iteration did not converge, and there is no answer: of one for eigenvalues this is "
         "not known to happen with finite numbers, so please report the matrix; a Krylov solve "
         "says in its own message how far it came and what to do";
}

std::string breakdown(const Location&) {
  return "the method broke down, also after restarts: use another one (the solve's own message "
         "says which)";
}

std::string unsuitable_method(const Location&) {
  return "the matrix or the preconditioner is not Hermitian or not positive definite, as the "
         "method needs it: use another method (the solve's own message says which)";
}

std::string nonfinite_product(const Location&) {
  return "a product with the matrix or with the preconditioner holds a NaN or an infinity, though "
         "the vector does not: look at what computes it (the solve's own message says where)";
}

std::string stopped(const Location&) {
  return "the call was stopped as asked; what there is has not converged";
}

std::string singular(const Location& pivot) {
  return fmt::format(
      "the matrix is singular: at step {} of the elimination nothing but zeros is left of line {} "
      "(0-based); look for equations or unknowns that are copies or combinations of others",
      pivot.rows_before + 1, pivot.row.value());
}

std::string nearly_singular(const Location&) {
  return "the matrix is singular to working precision: what was found is right for one that "
         "differs "
         "by rounding alone, but none of its digits need be right; scale or regularise the "
         "problem, "
         "or use a wider dtype";
}

std::string inaccurate(const Location&) {
  return "what was found does not solve the system to working precision: x, or a part of it, is "
         "too "
         "small for the range of the dtype, or elimination with row exchanges lost too many digits "
         "on this matrix, and neither refinement nor QR, if there was memory for it, brought them "
         "back: there is no answer to rely on; scale b, rows or columns, use a wider dtype, or "
         "lstsq";
}

std::string rank_deficient(const Location&) {
  return "columns of the matrix (rows, if it has fewer) depend on each other to working precision, "
         "so no single x is the solution: lstsq finds the shortest one and the rank, ridge "
         "regularises; or leave out what is a combination of others";
}

std::string unknown(const Location&) { return "unknown status"; }

/// The table of statuses. One that is missing does not compile.
StatusRow row_of(Status status) {
  switch (status) {
    case Status::ok:
      return {"ok", StatusClass::answered, nothing};
    case Status::not_positive_definite:
      return {"not_positive_definite", StatusClass::numerical, not_positive_definite};
    case Status::not_hermitian:
      return {"not_hermitian", StatusClass::input, not_hermitian};
    case Status::nonfinite_input:
      return {"nonfinite_input", StatusClass::input, nonfinite_input};
    case Status::overflow:
      return {"overflow", StatusClass::numerical, overflow};
    case Status::not_converged:
      return {"not_converged", StatusClass::numerical, not_converged};
    case Status::breakdown:
      return {"breakdown", StatusClass::numerical, breakdown};
    case Status::unsuitable_method:
      return {"unsuitable_method", StatusClass::input, unsuitable_method};
    case Status::nonfinite_product:
      return {"nonfinite_product", StatusClass::numerical, nonfinite_product};
    case Status::stopped:
      return {"stopped", StatusClass::resources, stopped};
    case Status::underflow:
      return {"underflow", StatusClass::numerical, underflow};
    case Status::singular:
      return {"singular", StatusClass::numerical, singular};
    case Status::nearly_singular:
      return {"nearly_singular", StatusClass::answered, nearly_singular};
    case Status::inaccurate:
      return {"inaccurate", StatusClass::numerical, inaccurate};
    case Status::rank_deficient:
      return {"rank_deficient", StatusClass::numerical, rank_deficient};
  }
  return {"unknown", StatusClass::numerical, unknown};
}

constexpr Figure table_of_figures[] = {
    {.name = "backward_error",
     .label = "backward error",
     .meaning = "distance of the system that the answer solves exactly, relative",
     .format = "{:.1e}",
     .rounding = 10.0,
     .value = &Outcome::backward_error},
    {.name = "component_error",
     .label = "by components",
     .meaning = "the same for each equation, relative to its own terms",
     .format = "{:.1e}",
     .value = &Outcome::component_error},
    {.name = "growth",
     .label = "growth",
     .meaning = "largest entry of U over that of A",
     .format = "{:.1e}",
     .value = &Outcome::growth},
    {.name = "rcond",
     .label = "rcond",
     .meaning = "1 / condition number",
     .format = "{:.1e}",
     .value = &Outcome::rcond},
    {.name = "forward_error",
     .label = "forward error",
     .meaning = "of x itself, whatever the units of equations are",
     .format = "{:.1e}",
     .value = &Outcome::forward_error},
    {.name = "residual",
     .label = "residual",
     .meaning = "distance of A z from w z, the largest, relative to A",
     .format = "{:.1e}",
     .rounding = 1000.0,  // 4 for random matrices, 90 for a chain of 2000 sites
     .value = &Outcome::residual},
    {.name = "orthogonality",
     .label = "orthogonality",
     .meaning = "distance of Z^H Z from the identity",
     .format = "{:.1e}",
     .rounding = 1000.0,  // that of a row: 50 for 100 rows, 150 for 2000
     .value = &Outcome::orthogonality},
};

}  // namespace

std::string_view name(Status status) { return row_of(status).name; }

StatusClass class_of(Status status) { return row_of(status).kind; }

std::string Outcome::message() const {
  return row_of(status).message(
      location.value_or(Location::in_matrix(GlobalIndex(-1), GlobalIndex(-2))));
}

std::string Outcome::warning(double unit_roundoff) const {
  std::string text;
  for (const Figure& figure : figures()) {
    const std::optional<double>& value = this->*figure.value;
    if (ok() && figure.rounding > 0.0 && value && !(*value <= figure.rounding * unit_roundoff)) {
      text += fmt::format(
          "{}the {} is {:.1e} ({}), {:.1e} times what rounding alone may make of it: if there is a "
          "second matrix B, it is badly conditioned; do not rely on more digits",
          text.empty() ? "" : "; ", figure.label, *value, figure.meaning,
          *value / (figure.rounding * unit_roundoff));
    }
  }
  return text;
}

std::span<const Figure> Outcome::figures() { return table_of_figures; }

}  // namespace shardsolve
