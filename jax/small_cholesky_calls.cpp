#include "jax/small_cholesky_calls.hpp"

#include "core/each_dtype.hpp"
#include "dense/cholesky/small.hpp"
#include "jax/session.hpp"
#include "jax/small_calls.hpp"

#include <shardsolve/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <string_view>

namespace shardsolve::jax {
namespace {

// The results of cholesky_factor and cholesky_solve on one device, for each matrix of a batch. The
// first result's dimensions tell the batch. The memory of a becomes the slab, on a CPU device. On a
// GPU what would be left to the usual call is left undecided.
constexpr CallBuffers small_factor_buffers = {
    .operands = {vectors("a")},
    .results = {any("diagonal", Element::real), vectors("slab"),
                any("log_determinant", Element::real), any("record", Element::words)}};
constexpr CallBuffers small_solve_buffers = {
    .operands = {vectors("slab"), any("diagonal", Element::real), any("record", Element::words),
                 vectors("b")},
    .results = {any("verdict", Element::words), vectors("x"), any("error", Element::real)}};

template <Scalar T>
void factor_small_ones(const LocalTask& task) {
  static constexpr const CallBuffers& at = small_factor_buffers;
  using Real = RealOf<T>;
  const std::int64_t n = task.at(at["diagonal"]).length;
  task.require_length(at["a"], n * n);
  task.require_length(at["slab"], n * n);
  task.require_length(at["log_determinant"], 1);
  task.require_length(at["record"], words<FactorRecord>);
  if (task.stream) {
    runtime::SmallSystems call = on_gpu(task, runtime::SmallStep::cholesky_factor, n);
    call.a = items_on_gpu(task, at["a"], sizeof(T));
    call.diagonal = items_on_gpu(task, at["diagonal"], sizeof(Real));
    call.slab = items_on_gpu(task, at["slab"], sizeof(T));
    call.log = items_on_gpu(task, at["log_determinant"], sizeof(Real));
    call.record = items_on_gpu(task, at["record"], sizeof(std::int32_t));
    solve_on_gpu(task, call);
    return;
  }
  if (task.at(at["a"]).data != task.at(at["slab"]).data) {
    throw Error(ErrorKind::internal,
                "internal: XLA gave a factor memory of its own where it was to have the matrix's");
  }
  const bool watched = is_watched();
  each_item(task, n, [&](std::int64_t item) {
    auto* const slab = static_cast<T*>(task.item(at["slab"], item, sizeof(T)));
    auto* const diagonal = static_cast<Real*>(task.item(at["diagonal"], item, sizeof(Real)));
    auto* const log = static_cast<Real*>(task.item(at["log_determinant"], item, sizeof(Real)));
    void* const words = task.item(at["record"], item, sizeof(std::int32_t));
    if (!watched) {
      if (const auto made = dense::cholesky::factor_small<T>(MatrixView<T>(slab, n, n), diagonal)) {
        FactorRecord record = record_of_one(task, n);
        record.set_norm(made->norm);
        write(record, words);
        *log = static_cast<Real>(made->log_determinant);
        return;
      }
    }
    do_usual_call("cholesky_factor", Job{.dtype = task.dtype, .n = n},
                  {slab, slab, diagonal, log, words});
  });
}

template <Scalar T>
void solve_small_ones(const LocalTask& task) {
  static constexpr const CallBuffers& at = small_solve_buffers;
  using Real = RealOf<T>;
  const std::int64_t n = task.at(at["diagonal"]).length;
  const std::int64_t columns = task.at(at["b"]).length / n;
  task.require_length(at["slab"], n * n);
  task.require_length(at["record"], words<FactorRecord>);
  task.require_length(at["b"], columns * n);
  task.require_length(at["verdict"], words<Verdict>);
  task.require_length(at["x"], columns * n);
  task.require_length(at["error"], 1);
  if (task.stream) {
    runtime::SmallSystems call = on_gpu(task, runtime::SmallStep::cholesky_solve, n);
    call.columns = columns;
    call.slab = items_on_gpu(task, at["slab"], sizeof(T));
    call.diagonal = items_on_gpu(task, at["diagonal"], sizeof(Real));
    call.record = items_on_gpu(task, at["record"], sizeof(std::int32_t));
    call.b = items_on_gpu(task, at["b"], sizeof(T));
    call.verdict = items_on_gpu(task, at["verdict"], sizeof(std::int32_t));
    call.x = items_on_gpu(task, at["x"], sizeof(T));
    call.errors = items_on_gpu(task, at["error"], sizeof(Real));
    solve_on_gpu(task, call);
    return;
  }
  const bool small = columns <= most_small_columns && !is_watched();
  each_item(task, n, [&](std::int64_t item) {
    auto* const slab = static_cast<T*>(task.item(at["slab"], item, sizeof(T)));
    auto* const diagonal = static_cast<Real*>(task.item(at["diagonal"], item, sizeof(Real)));
    void* const words = task.item(at["record"], item, sizeof(std::int32_t));
    auto* const b = static_cast<T*>(task.item(at["b"], item, sizeof(T)));
    void* const verdict = task.item(at["verdict"], item, sizeof(std::int32_t));
    auto* const x = static_cast<T*>(task.item(at["x"], item, sizeof(T)));
    auto* const error = static_cast<Real*>(task.item(at["error"], item, sizeof(Real)));
    const auto record = read<FactorRecord>(words);
    if (small && record.verdict.ok() && record.n == n && record.devices == 1 && record.ranks == 1) {
      if (const auto found = dense::cholesky::solve_small<T>(
              MatrixView<const T>(slab, n, n), diagonal, record.norm(),
              MatrixView<const T>(b, n, columns), MatrixView<T>(x, n, columns))) {
        write(Verdict{}, verdict);
        *error = static_cast<Real>(*found);
        return;
      }
    }
    do_usual_call("cholesky_solve", Job{.dtype = task.dtype, .n = n, .columns = columns},
                  {slab, diagonal, words, b, x, verdict, error});
  });
}

}  // namespace

std::vector<CallRow> small_cholesky_calls() {
  return {{.name = "small_cholesky_factor",
           .phrase = "a factorisation",
           .buffers = small_factor_buffers,
           .matrix = small_factor_buffers["a"],
           .local =
               [](const LocalTask& task) {
                 with_dtype(task.dtype, [&]<Scalar T>() { factor_small_ones<T>(task); });
               }},
          {.name = "small_cholesky_solve",
           .phrase = "a solve",
           .buffers = small_solve_buffers,
           .matrix = small_solve_buffers["slab"],
           .local = [](const LocalTask& task) {
             with_dtype(task.dtype, [&]<Scalar T>() { solve_small_ones<T>(task); });
           }}};
}

}  // namespace shardsolve::jax
