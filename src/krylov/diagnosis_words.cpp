#include "krylov/diagnosis_words.hpp"

#include "krylov/spelling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace shardsolve::krylov {
namespace words {
namespace {

/// "row 5", "3 rows, the first of them 5".
std::string in_rows(const Places& places, std::string_view one, std::string_view several) {
  return places.count == 1
             ? fmt::format("{} {}", one, places.first)
             : fmt::format("{} {}, the first of them {},", places.count, several, places.first);
}

void add_findings_of_entries(const MatrixFigures& figures, std::vector<std::string>& findings) {
  if (figures.nonfinite) {
    findings.push_back(
        fmt::format("the entry at ({}, {}) is a NaN or an infinity: find out where it was made.",
                    figures.nonfinite->row, figures.nonfinite->column));
  }
  for (const auto& [places, one, several] :
       {std::tuple{figures.empty_rows, "row", "rows"},
        std::tuple{figures.empty_columns, "column", "columns"}}) {
    if (places.count > 0) {
      findings.push_back(
          fmt::format("{} {} empty, so A is singular: look at how the unknowns are numbered.",
                      in_rows(places, one, several), places.count == 1 ? "is" : "are"));
    }
  }
  if (figures.identity_rows.count > 0) {
    const double left = figures.asymmetry_without_identity_rows;
    findings.push_back(
        left <= 1e-3 * figures.asymmetry
            ? fmt::format("A is asymmetric (||A - A^H|| / ||A|| = {:.1e}) only by its {} rows of "
                          "the identity, Dirichlet conditions most likely: eliminate their columns "
                          "too, moving their part to b, and it is Hermitian ({:.1e}). What follows "
                          "is about the matrix without them.",
                          figures.asymmetry, figures.identity_rows.count, left)
            : fmt::format("A has {} rows of the identity whose columns are not eliminated, and is "
                          "asymmetric without them too ({:.1e}, {:.1e} with them).",
                          figures.identity_rows.count, left, figures.asymmetry));
  }
  if (figures.zero_diagonal.count > 0) {
    findings.push_back(
        fmt::format("the diagonal is 0 in {} jacobi and incomplete factors need another one; exact "
                    "factors of blocks ({}) do not, {}.",
                    in_rows(figures.zero_diagonal, "row", "rows") +
                        (figures.zero_diagonal.count == 1 ? ":" : ""),
                    preconditioner_name("block_jacobi"), choice("method", "fgmres")));
  }
  constexpr double badly_scaled = 1e6;
  if (figures.least_row > 0.0 && figures.largest_row / figures.least_row > badly_scaled) {
    findings.push_back(
        fmt::format("norms of rows lie between {:.1e} and {:.1e}: A is badly "
                    "scaled; jacobi makes up for it, or choose other units.",
                    figures.least_row, figures.largest_row));
  }
}

void add_findings_of_products(const Diagnosis& diagnosis, std::vector<std::string>& findings) {
  const ProductFigures& products = *diagnosis.products;
  if (!products.is_finite) {
    findings.emplace_back(
        "a product with a vector of random numbers holds a NaN or an infinity: "
        "look at the operator.");
  } else if (diagnosis.trials.empty()) {
    findings.push_back(
        fmt::format("the operator is not linear: A (u + v) differs from A u + A v by "
                    "{:.1e}, relative; a Krylov method solves linear systems only.",
                    products.nonlinearity));
  }
  if (!products.is_repeatable) {
    findings.emplace_back(
        "products with the same vector have other bits the second time, as sums "
        "in a changing order have: verdicts hold, bits of x and log change from "
        "run to run.");
  }
}

/// What A maps to 0, and what to do.
std::string singular(const Diagnosis& diagnosis) {
  const std::int64_t parts = diagnosis.figures ? diagnosis.figures->null_parts.count : 1;
  const bool are_constants = diagnosis.figures ? parts > 0 : diagnosis.products->constants < 1e-3;
  if (!are_constants) {
    return "A is singular, to rounding: a solve with random numbers for b ended as "
           "singular_operator. A x = b has a solution only if b is in the range of A, as that of "
           "the trials is; minres without a preconditioner finds the least residual of any b.";
  }
  const std::string where =
      parts == 1 ? "constants are in its null space"
                 : fmt::format(
                       "constants on each of {} parts that no entry joins are in its null "
                       "space, the first one that of row {}",
                       parts, diagnosis.figures->null_parts.first);
  const std::string of_each = parts == 1 ? "" : " of each part";
  return diagnosis.is_hermitian
             ? fmt::format(
                   "A is singular: {}. A x = b has a solution only if the sum of b{} is 0, "
                   "as that of the trials is: subtract the mean from b{}, or fix one value "
                   "of x{}, or take minres without a preconditioner, which finds the least "
                   "residual of any b.",
                   where, of_each, of_each, of_each)
             : fmt::format(
                   "A is singular: {}. A x = b has a solution only if b is in the range of "
                   "A, as that of the trials is: fix one value of x{}.",
                   where, of_each);
}

void add_findings_of_solves(const Diagnosis& diagnosis, std::vector<std::string>& findings) {
  if (diagnosis.is_singular) {
    findings.push_back(singular(diagnosis));
  }
  switch (diagnosis.definiteness) {
    case Definiteness::negative:
      findings.emplace_back("A is Hermitian and negative definite: solve -A x = -b, by cg.");
      break;
    case Definiteness::indefinite:
      findings.push_back(fmt::format("A is Hermitian and indefinite: {} suits it, cg does not.",
                                     choice("method", "minres")));
      break;
    case Definiteness::positive:
      findings.push_back(
          fmt::format("A is Hermitian and, as far as was seen, positive definite: {} suits it.",
                      choice("method", "cg")));
      break;
    case Definiteness::positive_semidefinite:
      findings.push_back(fmt::format(
          "A is Hermitian and, as far as was seen, has no negative eigenvalue: {} suits it if b is "
          "in its range, minres whatever b is.",
          choice("method", "cg")));
      break;
    case Definiteness::negative_semidefinite:
      findings.emplace_back(
          "A is Hermitian and has no positive eigenvalue: solve -A x = -b, by cg if b is in its "
          "range, else by minres.");
      break;
    case Definiteness::unknown:
      if (!diagnosis.is_hermitian && !diagnosis.trials.empty()) {
        findings.push_back(fmt::format("A is not Hermitian: {} is for it, or fgmres.",
                                       choice("method", "bicgstab")));
      }
      break;
  }
  if (diagnosis.attainable > diagnosis.rtol) {
    findings.push_back(fmt::format(
        "rounding may keep the residual up at {:.0e} of ||b||, and {} was asked for: a solve may "
        "end as accuracy_limit.",
        diagnosis.attainable, option("rtol", fmt::format("{:.0e}", diagnosis.rtol))));
  }
}

std::string iterations_of(const Trial& trial) {
  return fmt::format("{}{}", trial.is_converged() ? "" : "more than ", trial.iterations);
}

/// "about 45x fewer", or at least so many.
std::string factor(const Diagnosis& diagnosis) {
  const bool is_bound = !diagnosis.trials.front().is_converged();
  const double gain = diagnosis.gain;
  return fmt::format("{} {}x fewer", is_bound ? "more than" : "about",
                     gain < 10.0 ? fmt::format("{:.1f}", gain) : fmt::format("{:.0f}", gain));
}

std::string answer_of(const Diagnosis& diagnosis) {
  if (diagnosis.rows == 0) {
    return "there is nothing to solve: A is 0 x 0.";
  }
  const std::string question = "should I look for a better preconditioner? ";
  if (diagnosis.trials.empty()) {
    return question + "not before A is mended: " + diagnosis.findings.front();
  }
  const Trial& plain = diagnosis.trials.front();
  if (diagnosis.best < 0) {
    return question + fmt::format(
                          "yes, and none of those tried is one: after {} iterations of {} "
                          "with {} the residual is {:.1e}. A hierarchy of coarser matrices "
                          "(multigrid), or larger blocks, may be. That solve said: {}",
                          plain.iterations, name(plain.method), plain.name, plain.residual,
                          plain.message);
  }
  const Trial& best = diagnosis.trials[static_cast<std::size_t>(diagnosis.best)];
  constexpr double worth_it = 2.0;
  if (diagnosis.best > 0 && (diagnosis.gain >= worth_it || !plain.is_converged())) {
    return question + fmt::format("yes: {}, {} iterations ({} instead of {} with {}, {}).",
                                  best.name, factor(diagnosis), best.iterations,
                                  iterations_of(plain), plain.name,
                                  choice("method", name(best.method)));
  }
  return question + fmt::format("no: {} with {} needs {} iterations, and {}.", name(best.method),
                                best.name, best.iterations,
                                diagnosis.trials.size() > 1
                                    ? "none of the others tried is worth its work"
                                    : "no other one was tried");
}

std::string line(std::string_view what, const std::string& value) {
  return fmt::format("{:<24} {}\n", what, value);
}

std::string places(const Places& places) {
  return places.count == 0 ? "none" : fmt::format("{}, the first {}", places.count, places.first);
}

std::string text_of(const MatrixFigures& figures) {
  std::string text = line("entries", fmt::format("{}", figures.entries));
  text += line("bandwidth", fmt::format("{}", figures.bandwidth));
  text += line("empty rows", places(figures.empty_rows));
  text += line("empty columns", places(figures.empty_columns));
  text += line("diagonal", fmt::format("moduli {:.2e} to {:.2e}", figures.least_diagonal,
                                       figures.largest_diagonal));
  text += line("  zero or missing", places(figures.zero_diagonal));
  text += line("  negative", places(figures.negative_diagonal));
  text += line("norms of rows",
               fmt::format("{:.2e} to {:.2e}", figures.least_row, figures.largest_row));
  text += line("entries unmatched", fmt::format("{}", figures.unmatched_entries));
  text += line("||A - A^H|| / ||A||", fmt::format("{:.2e}", figures.asymmetry));
  if (figures.identity_rows.count > 0) {
    text += line("rows of the identity", places(figures.identity_rows));
    text +=
        line("  asymmetry without", fmt::format("{:.2e}", figures.asymmetry_without_identity_rows));
  }
  return text;
}

std::string text_of(const Trial& trial) {
  std::string text =
      fmt::format("  {:<32} {:<9} {:<20} {:>6} iterations, residual {:.1e}", trial.name,
                  name(trial.method), name(trial.status), trial.iterations, trial.residual);
  if (trial.condition > 0.0) {
    text += fmt::format(", condition {:.1e}, predicted {}", trial.condition,
                        trial.predicted_iterations);
  }
  return text + "\n";
}

}  // namespace
}  // namespace words

void add_words(Diagnosis& diagnosis) {
  if (diagnosis.figures) {
    words::add_findings_of_entries(*diagnosis.figures, diagnosis.findings);
  }
  if (diagnosis.products && diagnosis.rows > 0) {
    words::add_findings_of_products(diagnosis, diagnosis.findings);
  }
  words::add_findings_of_solves(diagnosis, diagnosis.findings);
  diagnosis.answer = words::answer_of(diagnosis);
}

std::string_view name(Definiteness definiteness) {
  switch (definiteness) {
    case Definiteness::unknown:
      return "unknown";
    case Definiteness::positive:
      return "positive definite";
    case Definiteness::negative:
      return "negative definite";
    case Definiteness::indefinite:
      return "indefinite";
    case Definiteness::positive_semidefinite:
      return "positive semidefinite";
    case Definiteness::negative_semidefinite:
      return "negative semidefinite";
  }
  return "unknown";
}

std::string to_text(const Diagnosis& diagnosis) {
  using words::line;
  std::string text = line("rows", fmt::format("{}", diagnosis.rows));
  if (diagnosis.figures) {
    text += words::text_of(*diagnosis.figures);
  }
  if (diagnosis.products) {
    text += line("same bits again", diagnosis.products->is_repeatable ? "yes" : "no");
    text += line("not linear by", fmt::format("{:.1e}", diagnosis.products->nonlinearity));
  }
  if (diagnosis.is_singular) {
    text += line("singular", "yes");
  }
  text += line("Hermitian", diagnosis.is_hermitian ? "yes" : "no");
  text += line("definite", std::string(name(diagnosis.definiteness)));
  if (diagnosis.least_eigenvalue != 0.0 || diagnosis.largest_eigenvalue != 0.0) {
    text +=
        line("eigenvalues", fmt::format("{:.2e} to {:.2e}, or beyond", diagnosis.least_eigenvalue,
                                        diagnosis.largest_eigenvalue));
  }
  if (diagnosis.condition > 0.0) {
    text += line("condition of A", fmt::format("{:.1e} or more", diagnosis.condition));
    text += line("rounding may leave", fmt::format("{:.0e} of ||b||", diagnosis.attainable));
  }
  if (!diagnosis.trials.empty()) {
    text += fmt::format("trials, rtol {:.0e}\n", diagnosis.rtol);
    for (const Trial& trial : diagnosis.trials) {
      text += words::text_of(trial);
    }
  }
  for (const std::string& finding : diagnosis.findings) {
    text += "- " + finding + "\n";
  }
  return text + diagnosis.answer + "\n";
}

}  // namespace shardsolve::krylov
