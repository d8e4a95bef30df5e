// Singular values and vectors of A of any shape, from a file to one or three.

#include "file_job.hpp"
#include "report_lines.hpp"
#include "shared_options.hpp"
#include "verb.hpp"

#include <shardsolve/device_memory.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/svd.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::cli {
namespace {

/// A of any shape (m, n), and the layouts of what has as many rows as A, or columns.
struct SvdProblem {
  Input a;
  std::int64_t rows = 0;
  std::int64_t count = 0;  ///< of singular values
  SlabLayout of_rows;
  SlabLayout of_columns;
};

Input open_any_matrix(Workplace& workplace) {
  Input a = workplace.everywhere([&options = workplace.options()] {
    auto matrix = std::make_shared<const io::NpyReader>(options.matrix);
    const std::int64_t columns = io::require_matrix(matrix->header(), options.matrix).second;
    return Input{std::move(matrix), columns};
  });
  require_same_files(workplace, {a});
  return a;
}

/// The tile is that of the Cholesky factors of the smaller side.
SvdProblem problem_of(const Workplace& workplace, const Input& a) {
  const std::int64_t rows = a.shape().front();
  const std::int64_t count = std::min(rows, a.columns);
  const std::int64_t tile = workplace.layout_to_factor(count, a.dtype()).tile();
  const std::int64_t ranks = workplace.options().devices;
  return {a, rows, count, SlabLayout::even(rows, ranks, tile),
          SlabLayout::even(a.columns, ranks, tile)};
}

std::vector<Result> results_of(const Options& options, const SvdProblem& problem) {
  const Dtype dtype = problem.a.dtype();
  std::vector<Result> all = {{.key = "values",
                              .name = "singular values",
                              .path = options.output + ".values.npy",
                              .dtype = real_dtype(dtype),
                              .shape = {{problem.count}}}};
  if (options.singular_vectors) {  // each of them in one piece
    all.push_back({.key = "u",
                   .name = "U",
                   .path = options.output + ".u.npy",
                   .dtype = dtype,
                   .shape = {{problem.rows, problem.count}},
                   .fortran_order = true});
    all.push_back({.key = "vh",
                   .name = "V^H",
                   .path = options.output + ".vh.npy",
                   .dtype = dtype,
                   .shape = {{problem.count, problem.a.columns}}});
  }
  return all;
}

/// That of the call, with U and V.
Plan plan_of(const Options& options, const SvdProblem& problem, Memory memory) {
  const Dtype dtype = problem.a.dtype();
  Plan plan = plan_svd(problem.of_rows, dtype, problem.a.columns, options.singular_vectors, memory);
  if (options.singular_vectors) {
    plan.matrix_bytes += element_size(dtype) * problem.count *
                         (problem.of_rows.max_width() + problem.of_columns.max_width());
  }
  return plan;
}

/// What was found, and the vectors if they are wanted.
template <Scalar T>
struct Decomposition {
  SingularValues<T> found;
  std::optional<RowBlocks<T>> u;
  std::optional<RowBlocks<T>> v;
};

template <Scalar T>
Decomposition<T> decompose(Workplace& workplace, const SvdProblem& problem, const RowBlocks<T>& a) {
  if (!workplace.options().singular_vectors) {
    return {svdvals(workplace.mesh(), a, workplace.run_options()), std::nullopt, std::nullopt};
  }
  const auto u = make_right_hand_sides<T>(workplace.mesh(), problem.of_rows, problem.count);
  const auto v = make_right_hand_sides<T>(workplace.mesh(), problem.of_columns, problem.count);
  return {svd(workplace.mesh(), a, u, v, workplace.run_options()), u, v};
}

template <Scalar T>
double write_all(Workplace& workplace, const Decomposition<T>& made, const ArrayFiles& files) {
  double seconds = write_numbers(workplace, made.found.values, files.front());
  if (made.u && made.v) {
    seconds += write_solution(workplace, *made.u, files[1]);
    seconds += write_adjoint(workplace, *made.v, files[2]);
  }
  return seconds;
}

/// How many values are above max(m, n) eps times the largest, as NumPy counts them.
std::int64_t rank_of_values(const std::vector<double>& values, const Report& report) {
  const double eps = 2.0 * unit_roundoff_of(report.dtype);
  const auto longer = static_cast<double>(std::max(report.n, report.rows.value_or(report.n)));
  const double limit = longer * eps * values.front();
  return std::count_if(values.begin(), values.end(), [=](double one) { return one > limit; });
}

/// What error of the singular values the certificate leaves, relative to ||A||_F: where
/// ||A v - s u|| and ||A^H u - s v|| are at most r, a singular value lies within r of s. The
/// residual has both but for products with U^H U and V^H V, and s is rounded once. Nothing without
/// vectors.
std::optional<double> error_of_singular_values(const Outcome& outcome, Dtype dtype) {
  if (!outcome.residual || !outcome.orthogonality) {
    return std::nullopt;
  }
  return *outcome.residual + *outcome.orthogonality + unit_roundoff_of(dtype);
}

void take_values(std::vector<double> values, Report& report) {
  report.rank = rank_of_values(values, report);
  report.condition = values.front() / values.back();
  report.error_estimate = error_of_singular_values(report.outcome, report.dtype);
  report.singular_values = std::move(values);
}

template <Scalar T>
void run_svd_on(Workplace& workplace, const SvdProblem& problem, Report& report) {
  const ArrayFiles outputs = open_results(workplace, report.results);
  const auto trace = open_trace(workplace);
  const auto a = load_right_hand_sides<T>(workplace, problem.a, problem.of_rows);
  report.read_seconds = a.seconds;
  const Decomposition<T> made = decompose<T>(workplace, problem, a.data);
  report.outcome = made.found.outcome;
  if (!has_answer(report.outcome)) {
    return;
  }
  take_values({made.found.values.begin(), made.found.values.end()}, report);
  const double written = write_all(workplace, made, outputs);
  report.write_seconds = written + commit(workplace, outputs, trace);
}

std::string condition_line(const Report& report) {
  const double condition = report.condition.value();
  if (!std::isfinite(condition)) {
    return line("condition", "infinite",
                "in the 2-norm: the smallest singular value is 0 beside the largest");
  }
  const bool is_full = report.rank == std::min(report.n, report.rows.value_or(report.n));
  return line("condition", fmt::format("{:.1e}", condition),
              fmt::format("in the 2-norm: the largest singular value over the smallest{}",
                          is_full ? "" : ", which may be rounding alone"));
}

/// What the text report says where there is an answer.
Words words_of_svd(const Options& options, const Report& report) {
  const auto& values = report.singular_values.value();
  std::string headline = fmt::format(
      "Found {}{}, from {:.10g} down to {:.10g}\n  A {}, of rank {}\n",
      plural(std::ssize(values), "singular value"), options.singular_vectors ? " with vectors" : "",
      values.front(), values.back(), matrix_of(options, report), rank_of(report));
  const std::string remark =
      report.error_estimate
          ? fmt::format("; singular values within about {:.1e} ||A||_F", *report.error_estimate)
          : "";
  return {.headline = headline + condition_line(report), .remarks = {{&Outcome::residual, remark}}};
}

int run_svd(Workplace& workplace, ProgressDisplay& progress) {
  const Options& options = workplace.options();
  const SvdProblem problem = problem_of(workplace, open_any_matrix(workplace));
  Report report{.n = problem.a.columns, .dtype = problem.a.dtype()};
  report.rows = problem.rows;
  report.results = results_of(options, problem);
  require_distinct_files(workplace, report.results);
  workplace.require_memory({plan_of(options, problem, workplace.mesh().memory())},
                           fmt::format("finding singular values of '{}'", problem.a.path()));
  with_dtype(report.dtype, [&]<class T>() { run_svd_on<T>(workplace, problem, report); });
  if (has_answer(report.outcome)) {
    report.words = words_of_svd(options, report);
  }
  return conclude(workplace, progress, report);
}

void add_svd_options(CLI::App& command, TypedOptions& typed, Options& options) {
  add_input(command, "A", options.matrix, "the matrix, an .npy file of any shape (m, n)");
  add_output(command, options, "PREFIX.values.npy, PREFIX.u.npy, PREFIX.vh.npy are written",
             "PREFIX");
  command.add_flag_callback(
      "--values-only", [&options] { options.singular_vectors = false; },
      "no singular vectors; takes less time and memory, and there is no certificate");
  add_run_options(command, options, typed);
}

void take_svd_options(const TypedOptions& typed, Options& options) {
  take_devices(typed.devices, options);
}

constexpr std::string_view svd_notes =
    R"(A: shape (m, n), of any rank. A = U diag(s) V^H with k = min(m, n):

  PREFIX.values.npy    shape (k,): the s, real, descending, none negative
  PREFIX.u.npy         shape (m, k), of A's dtype: column j is the left vector of values[j]
  PREFIX.vh.npy        shape (k, n), of A's dtype: row j is the right vector, conjugated

U^H U = I and V^H V = I also where singular values are 0.

From Python to Python:
  numpy.save("A.npy", A)
  $ shardsolve svd A.npy -o A
  s, u, vh = (numpy.load(f"A.{part}.npy") for part in ("values", "u", "vh"))

Either all of these files are written or none.

The rank counts the s above max(m, n) eps times the largest, as numpy.linalg.matrix_rank does; the
condition is the largest s over the smallest, as in numpy.linalg.cond.

The certificate: the residual says how well A = U diag(s) V^H holds, the orthogonality how well
U^H U = I and V^H V = I. Within their sum times ||A||_F of each s there is a singular value of A; a
vector is known the better the farther the next singular value is.)";

}  // namespace

constinit const Verb svd_verb = complete({.name = "svd",
                                          .about = "singular values and vectors of A, of any shape",
                                          .usage = "shardsolve svd A.npy -o PREFIX [options]",
                                          .notes = svd_notes,
                                          .examples = R"(shardsolve svd A.npy -o A
shardsolve svd A.npy -o A --values-only --devices 4
mpirun -np 4 shardsolve svd A.npy -o A)",
                                          .add_options = &add_svd_options,
                                          .take_options = &take_svd_options,
                                          .run = &run_svd});

}  // namespace shardsolve::cli
