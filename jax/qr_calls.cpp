#include "jax/qr_calls.hpp"

#include "jax/task.hpp"

#include <shardsolve/qr.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::jax {
namespace qr {
namespace {

// Rows of A come conjugated and by columns, B likewise: all that is found is of conj(A) and
// conj(B), and what goes back is turned once more.

constexpr CallBuffers qr_buffers = {
    .operands = {tall("a")},
    .results = {tall("q"), square("r"), small("residual_and_orthogonality", Element::real, 2),
                record<Verdict>("verdict")}};
constexpr CallBuffers rows_buffers = {
    .operands = {tall("a")},
    .results = {tall("q"), tall("r"), small("residual_and_orthogonality", Element::real, 2),
                record<Verdict>("verdict")}};
constexpr CallBuffers solve_buffers = {
    .operands = {tall("a"), sides("b"), small("eps", Element::real)},
    .results = {unknowns("x"), each_side("residuals", Element::real), small("rank", Element::words),
                each_unknown("singular_values", Element::real),
                small("error_and_rcond", Element::real, 2), record<Verdict>("verdict")}};

/// Which solution is wanted.
enum class Wanted : std::int64_t { of_full_rank = 0, shortest = 1, damped = 2 };

/// A figure that nobody has asked for: no NaN, which jax_debug_nans would find.
template <Scalar T>
constexpr RealOf<T> not_asked_for{-1};

/// An entry by row and column: verdicts take those of slabs to be the other way round.
Outcome as_it_lies(Outcome outcome) {
  if (outcome.location && outcome.location->what == Located::matrix_entry) {
    std::swap(outcome.location->row, outcome.location->column);
  }
  return outcome;
}

QrMode mode_of(const Job& job) { return job.option<bool>("vectors") ? QrMode::reduced : QrMode::r; }

/// Residual and orthogonality, as far as they were asked for.
template <Scalar T>
struct Figures {
  RealOf<T> values[2] = {not_a_number<RealOf<T>>, not_a_number<RealOf<T>>};

  void take(const Outcome& outcome) {
    const bool is_known = outcome.residual.has_value() || !outcome.ok();
    values[0] = is_known ? number<T>(outcome.residual) : not_asked_for<T>;
    values[1] = is_known ? number<T>(outcome.orthogonality) : not_asked_for<T>;
  }
};

template <Scalar T>
void factor(Task& task) {
  static constexpr const CallBuffers& at = qr_buffers;
  const Job& job = task.job();
  std::vector<T> r;
  Figures<T> figures;
  Verdict verdict = task.before();
  if (verdict.ok()) {
    verdict = judge([&] {
      const auto a = task.tall_matrix<T>(task.layout(), at["q"]);
      QrFactor<T> made = task.with_mesh([&](Mesh& mesh, const RunOptions& run) {
        return shardsolve::qr(mesh, a, mode_of(job), run);
      });
      r = std::move(made.r);
      figures.take(made.outcome);
      return as_it_lies(made.outcome);
    });
  }
  if (!verdict.ok()) {
    task.fill_nan<T>(at["q"]);
    r.assign(static_cast<std::size_t>(job.unknowns * job.unknowns), not_a_number<T>);
  }
  task.write_to_all(at["r"], r.data(), static_cast<std::int64_t>(r.size()));
  task.write_to_all(at["residual_and_orthogonality"], figures.values, 2);
  task.write_to_all(at["verdict"], &verdict);
}

/// With [R; 0] cut as A is.
template <Scalar T>
void factor_in_rows(Task& task) {
  static constexpr const CallBuffers& at = rows_buffers;
  Figures<T> figures;
  Verdict verdict = task.before();
  if (verdict.ok()) {
    verdict = judge([&] {
      const SlabLayout layout = task.layout();
      const auto a = task.tall_matrix<T>(layout, at["q"]);
      const auto r = task.tall_matrix<T>(layout, at["r"]);
      const Outcome outcome = task.with_mesh([&](Mesh& mesh, const RunOptions& run) {
        return shardsolve::qr(mesh, a, r, mode_of(task.job()), run);
      });
      figures.take(outcome);
      return as_it_lies(outcome);
    });
  }
  if (!verdict.ok()) {
    task.fill_nan<T>(at["q"]);
    task.fill_nan<T>(at["r"]);
  }
  task.write_to_all(at["residual_and_orthogonality"], figures.values, 2);
  task.write_to_all(at["verdict"], &verdict);
}

template <Scalar T>
LeastSquares<T> find(Task& task, Mesh& mesh, const RunOptions& run) {
  static constexpr const CallBuffers& at = solve_buffers;
  const SlabLayout layout = task.layout();
  const auto a = task.tall_matrix<T>(layout, at["a"]);
  const auto b = task.right_hand_sides<T>(layout, at["b"]);
  switch (static_cast<Wanted>(task.job().option<std::int64_t>("wanted"))) {
    case Wanted::shortest: {
      const double rcond = task.job().option<double>("rcond");
      return lstsq(mesh, a, b, rcond > 0.0 ? std::optional(rcond) : std::nullopt, run);
    }
    case Wanted::damped:
      return ridge(mesh, a, b, double{task.read_record<RealOf<T>>(at["eps"])}, run);
    case Wanted::of_full_rank:
      break;
  }
  return least_squares(mesh, a, b, run);
}

template <Scalar T>
void solve(Task& task) {
  static constexpr const CallBuffers& at = solve_buffers;
  using Real = RealOf<T>;
  const Job& job = task.job();
  std::vector<T> x(static_cast<std::size_t>(job.unknowns * job.columns), not_a_number<T>);
  std::vector<Real> residuals(static_cast<std::size_t>(job.columns), not_a_number<Real>);
  std::vector<Real> values(static_cast<std::size_t>(job.unknowns), not_a_number<Real>);
  std::int32_t rank = 0;
  Real figures[2] = {not_a_number<Real>, not_a_number<Real>};
  Verdict verdict = task.before();
  if (verdict.ok()) {
    verdict = judge([&] {
      const LeastSquares<T> found = task.with_mesh(
          [&](Mesh& mesh, const RunOptions& run) { return find<T>(task, mesh, run); });
      std::copy(found.x.begin(), found.x.end(), x.begin());
      if (!found.x.empty()) {
        std::fill(values.begin(), values.end(), Real{0});  // those that there are not
      }
      std::transform(found.residuals.begin(), found.residuals.end(), residuals.begin(),
                     [](double one) { return static_cast<Real>(one); });
      std::transform(found.singular_values.begin(), found.singular_values.end(), values.begin(),
                     [](double one) { return static_cast<Real>(one); });
      rank = static_cast<std::int32_t>(found.rank);
      figures[0] = number<T>(found.outcome.backward_error);
      figures[1] = number<T>(found.outcome.rcond);
      return as_it_lies(found.outcome);
    });
  }
  task.write_to_all(at["x"], x.data(), static_cast<std::int64_t>(x.size()));
  task.write_to_all(at["residuals"], residuals.data(), job.columns);
  task.write_to_all(at["rank"], &rank);
  task.write_to_all(at["singular_values"], values.data(), job.unknowns);
  task.write_to_all(at["error_and_rcond"], figures, 2);
  task.write_to_all(at["verdict"], &verdict);
}

}  // namespace
}  // namespace qr

std::vector<CallRow> qr_calls() {
  return {{.name = "qr",
           .phrase = "a QR factorisation",
           .buffers = qr::qr_buffers,
           .matrix = qr::qr_buffers["a"],
           .verdict = qr::qr_buffers["verdict"],
           .copy = {{qr::qr_buffers["a"], qr::qr_buffers["q"]}},
           .options = {{"vectors", true}},
           .work = by_dtype([]<Scalar T>(Task& task) { qr::factor<T>(task); })},
          {.name = "qr_in_rows",
           .phrase = "a QR factorisation",
           .buffers = qr::rows_buffers,
           .matrix = qr::rows_buffers["a"],
           .verdict = qr::rows_buffers["verdict"],
           .copy = {{qr::rows_buffers["a"], qr::rows_buffers["q"]}},
           .options = {{"vectors", true}},
           .work = by_dtype([]<Scalar T>(Task& task) { qr::factor_in_rows<T>(task); })},
          {.name = "least_squares",
           .phrase = "least squares",
           .buffers = qr::solve_buffers,
           .matrix = qr::solve_buffers["a"],
           .verdict = qr::solve_buffers["verdict"],
           .options = {{"wanted", std::int64_t{0}}, {"rcond", 0.0}},
           .work = by_dtype([]<Scalar T>(Task& task) { qr::solve<T>(task); })}};
}

}  // namespace shardsolve::jax
