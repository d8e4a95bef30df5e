#include "jax/eigh_calls.hpp"

#include "dense/eigh/look.hpp"
#include "jax/kept_factor.hpp"
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
constexpr ShortList<CallBuffer, Seat::max_buffers> results = {
    slab("vectors"), whole("values", Element::real), small("count", Element::words),
    small("residual_and_orthogonality", Element::real, 2), record<Verdict>("verdict")};

constexpr CallBuffers eigh_buffers = {.operands = {slab("a"), small("interval", Element::real, 2)},
                                      .results = results};
// The factor of B comes first: where its slab lies decides who the ranks are.
constexpr CallBuffers generalised_buffers = {
    .operands = {slab("slab"), rows("diagonal", Element::real), record<FactorRecord>("record"),
                 slab("a"), small("interval", Element::real, 2)},
    .results = results};

/// Where the buffers that both calls have are.
struct Places {
  BufferIndex interval, vectors, values, count, figures, verdict;
};
consteval Places places_in(const CallBuffers& at) {
  return {.interval = at["interval"],
          .vectors = at["vectors"],
          .values = at["values"],
          .count = at["count"],
          .figures = at["residual_and_orthogonality"],
          .verdict = at["verdict"]};
}

template <Scalar T>
EighRequest request_of(const Task& task, BufferIndex interval) {
  const Job& job = task.job();
  EighRequest request;
  request.vectors = job.option<bool>("vectors");
  // The slabs are columns of conj(A), whose vectors are conj(Z): columns J of Z^T are rows J of Z.
  request.adjoint = true;
  if (const auto last = job.option<std::int64_t>("last"); last >= 0) {
    request.indices = {.first = job.option<std::int64_t>("first"), .last = last};
  }
  if (job.option<bool>("by_value")) {
    const auto [low, high] = task.read_record<std::array<RealOf<T>, 2>>(interval);
    request.values = {.low = low, .high = high};
  }
  return request;
}

/// `find`: what is asked for, and in whose memory, to Eigenvalues. `before`: why there are none.
template <Scalar T, class Find>
void find_eigenpairs(Task& task, const Places& at, const Verdict& before, Find find) {
  using Real = RealOf<T>;
  const Job& job = task.job();
  std::vector<Real> values(static_cast<std::size_t>(job.n), not_a_number<Real>);
  Real figures[2] = {not_a_number<Real>, not_a_number<Real>};
  std::int32_t count = 0;
  Verdict verdict = before;
  if (verdict.ok()) {
    verdict = judge([&] {
      const Eigenvalues<T> found = find(request_of<T>(task, at.interval));
      if (found.outcome.ok()) {
        std::fill(std::copy(found.values.begin(), found.values.end(), values.begin()), values.end(),
                  Real{0});
        count = static_cast<std::int32_t>(found.values.size());
      }
      figures[0] = number<T>(found.outcome.residual);
      figures[1] = number<T>(found.outcome.orthogonality);
      return found.outcome;
    });
  }
  if (!verdict.ok()) {
    task.fill_nan<T>(at.vectors);
  }
  task.write_to_all(at.values, values.data(), job.n);
  task.write_to_all(at.count, &count);
  task.write_to_all(at.figures, figures, 2);
  task.write_to_all(at.verdict, &verdict);
}

template <Scalar T>
void standard(Task& task) {
  static constexpr Places at = places_in(eigh_buffers);
  find_eigenpairs<T>(task, at, task.before(), [&](const EighRequest& request) {
    const auto a = task.matrix<T>(task.layout(), at.vectors);
    return task.with_mesh(
        [&](Mesh& mesh, const RunOptions& run) { return eigh(mesh, a, request, run); });
  });
}

template <Scalar T>
void generalised(Task& task) {
  static constexpr const CallBuffers& buffers = generalised_buffers;
  static constexpr Places at = places_in(buffers);
  const auto record = task.read_record<FactorRecord>(buffers["record"]);
  find_eigenpairs<T>(task, at, before_use(task, record), [&](const EighRequest& request) {
    const auto b = adopt<T>(task, record, buffers["slab"], buffers["diagonal"]);
    const auto a = task.matrix<T>(b.layout(), at.vectors);
    return task.with_mesh(
        [&](Mesh& mesh, const RunOptions& run) { return eigh(mesh, a, b, request, run); });
  });
}

// Of a matrix whose eigenvalues XLA finds.
constexpr CallBuffers look_buffers = {.operands = {slab("a")},
                                      .results = {record<Verdict>("verdict")}};

template <Scalar T>
void look(Task& task) {
  static constexpr const CallBuffers& at = look_buffers;
  const Verdict verdict = judge([&] {
    const auto a = task.matrix<T>(task.layout(), at["a"]);
    return task.with_mesh(
        [&](Mesh& mesh, const RunOptions& run) { return dense::eigh::look_at(mesh, a, run); });
  });
  task.write_to_all(at["verdict"], &verdict);
}

constexpr ShortList<Option, max_options> options = {{"vectors", true},
                                                    {"first", std::int64_t{0}},
                                                    {"last", std::int64_t{-1}},  // all
                                                    {"by_value", false}};

}  // namespace

std::vector<CallRow> eigh_calls() {
  return {{.name = "eigh",
           .phrase = "eigenvalues",
           .buffers = eigh_buffers,
           .matrix = eigh_buffers["a"],
           .verdict = eigh_buffers["verdict"],
           .copy = {{eigh_buffers["a"], eigh_buffers["vectors"]}},
           .options = options,
           .work = by_dtype([]<Scalar T>(Task& task) { standard<T>(task); })},
          {.name = "eigh_look",
           .phrase = "eigenvalues",
           .buffers = look_buffers,
           .matrix = look_buffers["a"],
           .verdict = look_buffers["verdict"],
           .work = by_dtype([]<Scalar T>(Task& task) { look<T>(task); })},
          {.name = "eigh_generalised",
           .phrase = "eigenvalues of two matrices",
           .buffers = generalised_buffers,
           .matrix = generalised_buffers["slab"],
           .record = generalised_buffers["record"],
           .verdict = generalised_buffers["verdict"],
           .copy = {{generalised_buffers["a"], generalised_buffers["vectors"]}},
           .options = options,
           .work = by_dtype([]<Scalar T>(Task& task) { generalised<T>(task); })}};
}

}  // namespace shardsolve::jax
