// The tables of statuses and methods: names, what they come to, and what there is to say.

#include "krylov/statuses.hpp"

#include "krylov/spelling.hpp"

#include <shardsolve/krylov.hpp>

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace shardsolve::krylov {
namespace {

using Common = shardsolve::Status;

std::string best(const Ending& e) {
  constexpr double much = 0.1;
  const std::string hidden =
      e.doubt > much * e.residual
          ? fmt::format(" as computed (rounding in that may hide up to {:.1e})", e.doubt)
          : "";
  return fmt::format("Best iterate: ||b - A x|| / ||b|| = {:.2e}{}, where {:.2e} was asked for.",
                     e.residual, hidden, e.tolerance);
}

std::string nothing(const Ending&) { return ""; }

std::string converged(const Ending& e) {
  return fmt::format(
      "||b - A x|| / ||b|| = {:.2e}, recomputed, after {} iterations ({:.2e} was "
      "asked for).",
      e.residual, e.iterations, e.tolerance);
}
std::string zero_rhs(const Ending&) { return "b = 0, so x = 0."; }
std::string at_start(const Ending& e) {
  return fmt::format("the guess solves the system: ||b - A x0|| / ||b|| = {:.2e}.", e.residual);
}
std::string happy(const Ending& e) {
  return fmt::format(
      "the Krylov space of {} vectors holds the solution: ||b - A x|| / ||b|| = "
      "{:.2e}, recomputed.",
      e.iterations, e.residual);
}
/// What to do where restarts throw away what the method knows; empty where they do not.
std::string longer_cycle(const Ending& e) {
  return e.cycle > 0 ? fmt::format("{} keeps {} vectors and begins anew then, allow more ({}); ",
                                   name(Method::fgmres), e.cycle, option("restart"))
                     : "";
}

std::string max_iterations(const Ending& e) {
  return fmt::format(
      "the limit of {} iterations was reached; {}allow more ({}), or look for a better "
      "preconditioner. {}",
      e.iterations, longer_cycle(e), option("max_iterations"), best(e));
}
std::string stagnated(const Ending& e) {
  return fmt::format(
      "at iteration {} the residual had not fallen by 1 % in three restarts in a "
      "row; {}the system may be singular and b outside of the range of A, or needs "
      "another preconditioner or method. {}",
      e.at_iteration, longer_cycle(e), best(e));
}
/// b - A x is small enough as computed, and nobody can tell whether it is.
std::string hidden_residual(const Ending& e) {
  return fmt::format(
      "at iteration {} ||b - A x|| / ||b|| = {:.2e} as computed, where {:.2e} was asked for, but "
      "rounding in that may hide up to {:.1e}: {}use a wider dtype{}. x is that iterate.",
      e.at_iteration, e.residual, e.tolerance, e.doubt,
      e.value < 1.0 ? fmt::format("ask for {} of no less than {:.1e}, or ", option("rtol"), e.value)
                    : "",
      e.is_twofold ? "" : ", or a sparse matrix, whose products have twice the digits there");
}
std::string accuracy_limit(const Ending& e) {
  if (e.residual <= e.tolerance) {
    return hidden_residual(e);
  }
  return fmt::format(
      "at iteration {} rounding in A x alone kept the residual up: about {:.1e} is "
      "attainable; ask for {} of no less, or use a wider dtype. {}",
      e.at_iteration, e.value, option("rtol"), best(e));
}
std::string diverged(const Ending& e) {
  return fmt::format(
      "at iteration {} the residual had grown beyond {} times the best one, also "
      "after restarts; use another method or preconditioner. {}",
      e.at_iteration, e.value > 0 ? fmt::format("{:.0e}", e.value) : "1e300", best(e));
}
std::string breakdown(const Ending& e, std::string_view what) {
  return fmt::format(
      "{} is zero to working precision ({:.1e}, relative) at iteration {}, and three "
      "restarts brought nothing; use {}, or cg or minres if A is "
      "Hermitian. {}",
      what, e.value, e.at_iteration, choice("method", "fgmres"), best(e));
}
std::string breakdown_rho(const Ending& e) { return breakdown(e, "<r^, r>"); }
std::string breakdown_sigma(const Ending& e) { return breakdown(e, "<r^, A p>"); }
std::string breakdown_omega(const Ending& e) { return breakdown(e, "<t, s>"); }
std::string breakdown_hessenberg(const Ending& e) {
  return fmt::format(
      "the Hessenberg matrix is singular to working precision ({:.1e}) at iteration "
      "{}: A or M is singular; see whether b is in the range of A, or use another "
      "preconditioner. {}",
      e.value, e.at_iteration, best(e));
}
std::string indefinite_operator(const Ending& e) {
  return fmt::format(
      "p'Ap = {:.2e} ||p||^2 at iteration {}, so A is not positive definite; use "
      "{} (Hermitian A) or fgmres. {}",
      e.value, e.at_iteration, choice("method", "minres"), best(e));
}
std::string indefinite_preconditioner(const Ending& e) {
  return fmt::format(
      "r'Mr = {:.2e} ||r||^2 at iteration {}, so the preconditioner is not positive "
      "definite; use another one, or {}. {}",
      e.value, e.at_iteration, choice("method", "fgmres"), best(e));
}
std::string nonsymmetric_operator(const Ending& e) {
  return fmt::format(
      "A is not Hermitian: <v, A u> and <u, A v> differ by {:.1e}, relative, at "
      "iteration {}; use {} or fgmres.",
      e.value, e.at_iteration, choice("method", "bicgstab"));
}
std::string nonsymmetric_preconditioner(const Ending& e) {
  return fmt::format(
      "the preconditioner is not Hermitian: <v, M u> and <u, M v> differ by {:.1e}, "
      "relative, at iteration {}; use another one, or {} or fgmres.",
      e.value, e.at_iteration, choice("method", "bicgstab"));
}
std::string nonfinite_rhs(const Ending& e) {
  return fmt::format(
      "b holds a NaN or an infinity in row {} (0-based): find out where it was made.", e.row);
}
std::string nonfinite_guess(const Ending& e) {
  return fmt::format(
      "x0 holds a NaN or an infinity in row {} (0-based): find out where it was "
      "made, or start from 0.",
      e.row);
}
std::string nonfinite_operator(const Ending& e) {
  return fmt::format(
      "a product with A held a NaN or an infinity at iteration {}, though the vector "
      "did not; look at the operator. {}",
      e.at_iteration, best(e));
}
std::string nonfinite_preconditioner(const Ending& e) {
  return fmt::format(
      "a product with the preconditioner held a NaN or an infinity at iteration {}, "
      "though the vector did not; look at the preconditioner (jacobi: is there a "
      "zero on the diagonal?). {}",
      e.at_iteration, best(e));
}
std::string cancelled(const Ending& e) {
  return fmt::format("the solve was cancelled as asked at iteration {}. {}", e.at_iteration,
                     best(e));
}

/// What is known of a vector that A maps to 0.
std::string null_vector(const Ending& e) {
  return e.has_null_constants ? "A maps the vector of ones to 0, to rounding, so constants are in "
                                "its null space"
                              : "A maps a vector that the method has found to 0, to rounding";
}
/// Likewise of the vector that b has a part along.
std::string blamed_vector(const Ending& e) {
  return e.has_null_constants && !e.is_of_constants
             ? "A maps a vector that the method has found to 0, to rounding, and not only the "
               "vector of ones"
             : null_vector(e);
}
/// How b comes into the range of A.
std::string way_into_the_range(const Ending& e) {
  if (e.is_of_constants) {
    return "Take away the part of b along that vector (its mean), or fix one value of x";
  }
  return e.has_null_constants
             ? "Take away the part of b along all that A maps to 0: where A falls into parts that "
               "no entry joins, the mean of b on each (diagnose tells)"
             : "Take away the part of b along that vector";
}
/// Who has the x of the least residual.
std::string least_squares(const Ending& e) {
  return e.has_least_residual ? "; x has the least residual"
         : e.is_minres_alone
             ? ""
             : fmt::format(", or use {} without a preconditioner, whose x has the least residual",
                           choice("method", "minres"));
}
/// A vector that the method has found is known to the root of the roundoff only.
std::string nearly(const Ending& e) {
  return e.has_null_constants || e.is_of_constants
             ? ""
             : "Or A is only nearly singular: from a condition of some 1e14 on "
               "(in single precision "
               "1e5) the method cannot tell. ";
}
std::string singular_operator(const Ending& e) {
  if (!e.is_hermitian) {
    return fmt::format(
        "A is singular: {}; see whether b is in the range of A, and fix what A leaves free, for "
        "constants one value of x. {}",
        null_vector(e), best(e));
  }
  const std::string least =
      e.value > 0.0 ? fmt::format("every x has a residual of at least {:.2e} ||b||", e.value)
                    : "no x has a residual as small as was asked for";
  return fmt::format(
      "A is singular and b outside of its range, seen at iteration {}: {}, and {}. {}{}. {}{}",
      e.at_iteration, blamed_vector(e), least, way_into_the_range(e), least_squares(e), nearly(e),
      best(e));
}

std::string overflow(const Ending& e) {
  return fmt::format(
      "the solution, after {} iterations, is above or below the range of its dtype, or parts of it "
      "are that A makes large: scale A or b, or use a wider dtype. x is 0.",
      e.iterations);
}

struct Row {
  std::string_view name;
  Common common;
  bool is_converged;
  std::string (*message)(const Ending& ending);
};

/// The table of statuses. One that is missing does not compile.
Row row_of(Status status) {
  switch (status) {
    case Status::running:
      return {"running", Common::not_converged, false, nothing};
    case Status::converged_rtol:
      return {"converged_rtol", Common::ok, true, converged};
    case Status::converged_atol:
      return {"converged_atol", Common::ok, true, converged};
    case Status::zero_rhs:
      return {"zero_rhs", Common::ok, true, zero_rhs};
    case Status::converged_at_start:
      return {"converged_at_start", Common::ok, true, at_start};
    case Status::happy_breakdown:
      return {"happy_breakdown", Common::ok, true, happy};
    case Status::max_iterations:
      return {"max_iterations", Common::not_converged, false, max_iterations};
    case Status::stagnated:
      return {"stagnated", Common::not_converged, false, stagnated};
    case Status::accuracy_limit:
      return {"accuracy_limit", Common::not_converged, false, accuracy_limit};
    case Status::diverged:
      return {"diverged", Common::not_converged, false, diverged};
    case Status::breakdown_rho:
      return {"breakdown_rho", Common::breakdown, false, breakdown_rho};
    case Status::breakdown_sigma:
      return {"breakdown_sigma", Common::breakdown, false, breakdown_sigma};
    case Status::breakdown_omega:
      return {"breakdown_omega", Common::breakdown, false, breakdown_omega};
    case Status::breakdown_hessenberg:
      return {"breakdown_hessenberg", Common::breakdown, false, breakdown_hessenberg};
    case Status::indefinite_operator:
      return {"indefinite_operator", Common::unsuitable_method, false, indefinite_operator};
    case Status::indefinite_preconditioner:
      return {"indefinite_preconditioner", Common::unsuitable_method, false,
              indefinite_preconditioner};
    case Status::nonsymmetric_operator:
      return {"nonsymmetric_operator", Common::unsuitable_method, false, nonsymmetric_operator};
    case Status::nonsymmetric_preconditioner:
      return {"nonsymmetric_preconditioner", Common::unsuitable_method, false,
              nonsymmetric_preconditioner};
    case Status::nonfinite_rhs:
      return {"nonfinite_rhs", Common::nonfinite_input, false, nonfinite_rhs};
    case Status::nonfinite_guess:
      return {"nonfinite_guess", Common::nonfinite_input, false, nonfinite_guess};
    case Status::nonfinite_operator:
      return {"nonfinite_operator", Common::nonfinite_product, false, nonfinite_operator};
    case Status::nonfinite_preconditioner:
      return {"nonfinite_preconditioner", Common::nonfinite_product, false,
              nonfinite_preconditioner};
    case Status::cancelled:
      return {"cancelled", Common::stopped, false, cancelled};
    case Status::overflow:
      return {"overflow", Common::overflow, false, overflow};
    case Status::singular_operator:
      return {"singular_operator", Common::not_converged, false, singular_operator};
  }
  return {"unknown", Common::not_converged, false, nothing};
}

/// What else is to be said beside the status.
std::string beside(Status status, const Ending& e) {
  if (e.has_null_constants && status != Status::singular_operator) {
    return fmt::format(" A is singular: {}.", null_vector(e));
  }
  constexpr double few_digits = 0.01;
  if (row_of(status).is_converged && std::isinf(e.error_estimate)) {
    return " But x is 0, which the tolerance allows: ask for a smaller residual.";
  }
  if (row_of(status).is_converged && e.error_estimate >= few_digits) {
    const std::string why =
        e.residual >= few_digits ? "the tolerance allows a large residual"
        : e.condition > 0.0
            ? fmt::format("A is ill-conditioned (condition {:.1e} or more)", e.condition)
            : "A is ill-conditioned";
    return fmt::format(
        " But x may have few correct digits or none: its error may be about {:.1e} of ||x||, as "
        "{}; ask for a smaller residual{}.",
        e.error_estimate, why, e.residual >= few_digits ? "" : ", or use a wider dtype");
  }
  return "";
}

std::string hex(double x) { return std::isfinite(x) ? fmt::format("\"{:a}\"", x) : "null"; }
std::string hex(std::complex<double> x) {
  return fmt::format("[{}, {}]", hex(x.real()), hex(x.imag()));
}

}  // namespace

std::string_view name(Status status) { return row_of(status).name; }
bool is_converged(Status status) { return row_of(status).is_converged; }
shardsolve::Status outcome_status(Status status) { return row_of(status).common; }
std::string message(Status status, const Ending& ending) {
  const Row row = row_of(status);
  return fmt::format("{}: {}{}", row.name, row.message(ending), beside(status, ending));
}

std::string message(const Report& report, std::int64_t cycle) {
  return message(static_cast<Status>(report.status),
                 {.iterations = report.iterations,
                  .at_iteration = report.at_iteration,
                  .value = report.value,
                  .residual = report.residual,
                  .tolerance = report.tolerance,
                  .row = report.row,
                  .cycle = cycle,
                  .condition = report.condition,
                  .error_estimate = report.error_estimate,
                  .has_null_constants = report.has_null_constants != 0,
                  .is_hermitian = report.is_hermitian != 0,
                  .is_of_constants = report.is_of_constants != 0,
                  .has_least_residual = report.has_least_residual != 0,
                  .is_minres_alone = report.is_minres_alone != 0,
                  .is_twofold = report.is_twofold != 0,
                  .doubt = report.doubt});
}

std::string_view name(Method method) {
  switch (method) {
    case Method::cg:
      return "cg";
    case Method::minres:
      return "minres";
    case Method::bicgstab:
      return "bicgstab";
    case Method::fgmres:
      return "fgmres";
  }
  return "unknown";
}

std::string_view name(Event event) {
  switch (event) {
    case Event::none:
      return "iteration";
    case Event::residual_recomputed:
      return "residual_recomputed";
    case Event::restarted:
      return "restarted";
    case Event::shadow_changed:
      return "shadow_changed";
    case Event::ended:
      return "ended";
  }
  return "unknown";
}

std::string to_json(const LogRecord& record) {
  return fmt::format(R"({{"iteration": {}, "event": "{}", "status": "{}", "residual": {}, )"
                     R"("rho": {}, "alpha": {}, )"
                     R"("omega": {}}})",
                     record.iteration, name(record.event), name(record.status),
                     hex(record.residual), hex(record.rho), hex(record.alpha), hex(record.omega));
}

}  // namespace shardsolve::krylov
