#include "jax/eigh_calls.hpp"

#include "jax/task.hpp"

#include <shardsolve/eigh.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace shardsolve::jax {
namespace {

// Without vectors `vectors` is the memory in which the matrix is used up, and of no use afterwards.
// Of the n values the first `count` were asked for, and are there; of each row of vectors likewise.
constexpr CallBuffers eigh_buffers = {
    .operands = {slab("a"), small("interval", Element::real, 2)},
    .results = {slab("vectors"), whole("values", Element::real), small("count", Element::words),
                small("residual_and_orthogonality", Element::real, 2), record<Verdict>("verdict")}};

template <Scalar T>
EighRequest request_of(const Task& task) {
  const Job& job = task.job();
  EighRequest request;
  request.vectors = job.option<bool>("vectors");
  // The slabs are columns of conj(A), whose vectors are conj(Z): columns J of Z^T are rows J of Z.
  request.adjoint = true;
  if (const auto last = job.option<std::int64_t>("last"); last >= 0) {
    request.indices = {.first = job.option<std::int64_t>("first"), .last = last};
  }
  if (job.option<bool>("by_value")) {
    const auto [low, high] = task.read_record<std::array<RealOf<T>, 2>>(eigh_buffers["interval"]);
    request.values = {.low = low, .high = high};
  }
  return request;
}

template <Scalar T>
void find_eigenpairs(Task& task) {
  using Real = RealOf<T>;
  static constexpr const CallBuffers& at = eigh_buffers;
  const Job& job = task.job();
  std::vector<Real> values(static_cast<std::size_t>(job.n), not_a_number<Real>);
  Real certificate[2] = {not_a_number<Real>, not_a_number<Real>};
  std::int32_t count = 0;
  Verdict verdict = task.before();
  if (verdict.ok()) {
    verdict = judge([&] {
      const auto a = task.matrix<T>(task.layout(), at["vectors"]);
      const EighRequest request = request_of<T>(task);
      const Eigenvalues<T> found = task.with_mesh(
          [&](Mesh& mesh, const RunOptions& run) { return eigh(mesh, a, request, run); });
      if (found.outcome.ok()) {
        std::fill(std::copy(found.values.begin(), found.values.end(), values.begin()), values.end(),
                  Real{0});
        count = static_cast<std::int32_t>(found.values.size());
      }
      certificate[0] = number<T>(found.outcome.residual);
      certificate[1] = number<T>(found.outcome.orthogonality);
      return found.outcome;
    });
  }
  if (!verdict.ok()) {
    task.fill_nan<T>(at["vectors"]);
  }
  task.write_to_all(at["values"], values.data(), job.n);
  task.write_to_all(at["count"], &count);
  task.write_to_all(at["residual_and_orthogonality"], certificate, 2);
  task.write_to_all(at["verdict"], &verdict);
}

}  // namespace

std::vector<CallRow> eigh_calls() {
  return {{.name = "eigh",
           .phrase = "eigenvalues",
           .buffers = eigh_buffers,
           .matrix = eigh_buffers["a"],
           .verdict = eigh_buffers["verdict"],
           .copy = {{eigh_buffers["a"], eigh_buffers["vectors"]}},
           .options = {{"vectors", true},
                       {"first", std::int64_t{0}},
                       {"last", std::int64_t{-1}},  // all
                       {"by_value", false}},
           .work = by_dtype([]<Scalar T>(Task& task) { find_eigenpairs<T>(task); })}};
}

}  // namespace shardsolve::jax
