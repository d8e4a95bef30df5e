#include "jax/svd_calls.hpp"

#include "jax/task.hpp"

#include <shardsolve/svd.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardsolve::jax {
namespace svd {
namespace {

// Rows of A come conjugated and by columns: what is found is of conj(A), and goes back turned.

constexpr CallBuffers svd_buffers = {
    .operands = {tall("a")},
    .results = {tall("u"), each_unknown("singular_values", Element::real), square("v"),
                small("residual_and_orthogonality", Element::real, 2), record<Verdict>("verdict")}};
constexpr CallBuffers values_buffers = {
    .operands = {tall("a")},
    .results = {each_unknown("singular_values", Element::real), record<Verdict>("verdict")}};
constexpr CallBuffers polar_buffers = {
    .operands = {tall("a")},
    .results = {tall("u"), square("h"), small("residual_and_orthogonality", Element::real, 2),
                record<Verdict>("verdict")}};

/// An entry by row and column: verdicts take those of slabs to be the other way round.
Outcome as_it_lies(Outcome outcome) {
  if (outcome.location && outcome.location->what == Located::matrix_entry) {
    std::swap(outcome.location->row, outcome.location->column);
  }
  return outcome;
}

/// Residual and orthogonality.
template <Scalar T>
struct Figures {
  RealOf<T> values[2] = {not_a_number<RealOf<T>>, not_a_number<RealOf<T>>};

  void take(const Outcome& outcome) {
    values[0] = number<T>(outcome.residual);
    values[1] = number<T>(outcome.orthogonality);
  }
};

/// As many as a result has, NaN where there is no answer.
template <class V>
std::vector<V> values_or_nan(std::vector<V> found, std::int64_t count) {
  found.resize(static_cast<std::size_t>(count), not_a_number<V>);
  return found;
}

template <Scalar T>
void decompose(Task& task) {
  static constexpr const CallBuffers& at = svd_buffers;
  const std::int64_t n = task.job().unknowns;
  SingularVectors<T> found;
  Figures<T> figures;
  Verdict verdict = task.before();
  if (verdict.ok()) {
    verdict = judge([&] {
      const SlabLayout layout = task.layout();
      const auto a = task.tall_matrix<T>(layout, at["a"]);
      const auto u = task.tall_matrix<T>(layout, at["u"]);
      found = task.with_mesh(
          [&](Mesh& mesh, const RunOptions& run) { return shardsolve::svd(mesh, a, u, run); });
      figures.take(found.outcome);
      return as_it_lies(found.outcome);
    });
  }
  if (!verdict.ok()) {
    task.fill_nan<T>(at["u"]);
  }
  const auto values = values_or_nan(std::move(found.values), n);
  const auto v = values_or_nan(std::move(found.v), n * n);
  task.write_to_all(at["singular_values"], values.data(), n);
  task.write_to_all(at["v"], v.data(), n * n);
  task.write_to_all(at["residual_and_orthogonality"], figures.values, 2);
  task.write_to_all(at["verdict"], &verdict);
}

template <Scalar T>
void find_values(Task& task) {
  static constexpr const CallBuffers& at = values_buffers;
  SingularValues<T> found;
  Verdict verdict = task.before();
  if (verdict.ok()) {
    verdict = judge([&] {
      const auto a = task.tall_matrix<T>(task.layout(), at["a"]);
      found =
          task.with_mesh([&](Mesh& mesh, const RunOptions& run) { return svdvals(mesh, a, run); });
      return as_it_lies(found.outcome);
    });
  }
  const auto values = values_or_nan(std::move(found.values), task.job().unknowns);
  task.write_to_all(at["singular_values"], values.data(), task.job().unknowns);
  task.write_to_all(at["verdict"], &verdict);
}

template <Scalar T>
void find_polar_factors(Task& task) {
  static constexpr const CallBuffers& at = polar_buffers;
  const std::int64_t n = task.job().unknowns;
  PolarFactor<T> found;
  Figures<T> figures;
  Verdict verdict = task.before();
  if (verdict.ok()) {
    verdict = judge([&] {
      const SlabLayout layout = task.layout();
      const auto a = task.tall_matrix<T>(layout, at["a"]);
      const auto u = task.tall_matrix<T>(layout, at["u"]);
      found = task.with_mesh(
          [&](Mesh& mesh, const RunOptions& run) { return shardsolve::polar(mesh, a, u, run); });
      figures.take(found.outcome);
      return as_it_lies(found.outcome);
    });
  }
  if (!verdict.ok()) {
    task.fill_nan<T>(at["u"]);
  }
  const auto h = values_or_nan(std::move(found.h), n * n);
  task.write_to_all(at["h"], h.data(), n * n);
  task.write_to_all(at["residual_and_orthogonality"], figures.values, 2);
  task.write_to_all(at["verdict"], &verdict);
}

}  // namespace
}  // namespace svd

std::vector<CallRow> svd_calls() {
  return {{.name = "svd",
           .phrase = "singular vectors",
           .buffers = svd::svd_buffers,
           .matrix = svd::svd_buffers["a"],
           .verdict = svd::svd_buffers["verdict"],
           .work = by_dtype([]<Scalar T>(Task& task) { svd::decompose<T>(task); })},
          {.name = "svdvals",
           .phrase = "singular values",
           .buffers = svd::values_buffers,
           .matrix = svd::values_buffers["a"],
           .verdict = svd::values_buffers["verdict"],
           .work = by_dtype([]<Scalar T>(Task& task) { svd::find_values<T>(task); })},
          {.name = "polar",
           .phrase = "a polar factorisation",
           .buffers = svd::polar_buffers,
           .matrix = svd::polar_buffers["a"],
           .verdict = svd::polar_buffers["verdict"],
           .work = by_dtype([]<Scalar T>(Task& task) { svd::find_polar_factors<T>(task); })}};
}

}  // namespace shardsolve::jax
