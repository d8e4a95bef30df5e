#include "jax/small_lu_calls.hpp"

#include "core/each_dtype.hpp"
#include "dense/lu/small.hpp"
#include "jax/session.hpp"
#include "jax/small_calls.hpp"

#include <cstdint>

namespace shardsolve::jax {
namespace small_lu {
namespace {

// The results of lu_factor and lu_solve on one device, for each matrix of a batch. The first
// result's dimensions tell the batch. As there, C = A^T is what is factored. On a GPU what would be
// left to the usual call is left undecided.
constexpr CallBuffers small_factor_buffers = {
    .operands = {vectors("a")},
    .results = {any("rows", Element::words), vectors("slab"), any("sign", Element::matrix),
                any("log_modulus", Element::real), any("record", Element::words)}};
constexpr CallBuffers small_solve_buffers = {
    .operands = {vectors("slab"), vectors("a"), any("rows", Element::words),
                 any("record", Element::words), vectors("b")},
    .results = {any("verdict", Element::words), vectors("x"), any("errors", Element::real)}};

template <Scalar T>
void factor_small_ones(const LocalTask& task) {
  static constexpr const CallBuffers& at = small_factor_buffers;
  using Real = RealOf<T>;
  const std::int64_t n = task.at(at["rows"]).length;
  task.require_length(at["a"], n * n);
  task.require_length(at["slab"], n * n);
  task.require_length(at["sign"], 1);
  task.require_length(at["log_modulus"], 1);
  task.require_length(at["record"], words<LuRecord>);
  if (task.stream) {
    runtime::SmallSystems call = on_gpu(task, runtime::SmallStep::lu_factor, n);
    call.a = items_on_gpu(task, at["a"], sizeof(T));
    call.rows = items_on_gpu(task, at["rows"], sizeof(std::int32_t));
    call.slab = items_on_gpu(task, at["slab"], sizeof(T));
    call.sign = items_on_gpu(task, at["sign"], sizeof(T));
    call.log = items_on_gpu(task, at["log_modulus"], sizeof(Real));
    call.record = items_on_gpu(task, at["record"], sizeof(std::int32_t));
    solve_on_gpu(task, call);
    return;
  }
  const bool watched = is_watched();
  each_item(task, n, [&](std::int64_t item) {
    auto* const a = static_cast<T*>(task.item(at["a"], item, sizeof(T)));
    auto* const slab = static_cast<T*>(task.item(at["slab"], item, sizeof(T)));
    auto* const rows = static_cast<std::int32_t*>(task.item(at["rows"], item, sizeof(int)));
    auto* const sign = static_cast<T*>(task.item(at["sign"], item, sizeof(T)));
    auto* const log = static_cast<Real*>(task.item(at["log_modulus"], item, sizeof(Real)));
    void* const words = task.item(at["record"], item, sizeof(std::int32_t));
    if (!watched) {
      if (const auto made = dense::lu::factor_small<T>(MatrixView<const T>(a, n, n),
                                                       MatrixView<T>(slab, n, n), rows)) {
        LuRecord record;
        record.factor = record_of_one(task, n);
        record.factor.set_norm(made->one_norm);
        record.inf_norm = ScaledWords::of(made->inf_norm);
        record.growth = ScaledWords::of({made->growth, 0});
        write(record, words);
        *sign = made->sign;
        *log = static_cast<Real>(made->log_modulus);
        return;
      }
    }
    do_usual_call("lu_factor", Job{.dtype = task.dtype, .n = n}, {a, slab, rows, sign, log, words});
  });
}

template <Scalar T>
void solve_small_ones(const LocalTask& task) {
  static constexpr const CallBuffers& at = small_solve_buffers;
  using Real = RealOf<T>;
  const std::int64_t n = task.at(at["rows"]).length;
  const std::int64_t columns = task.at(at["b"]).length / n;
  task.require_length(at["slab"], n * n);
  task.require_length(at["a"], n * n);
  task.require_length(at["record"], words<LuRecord>);
  task.require_length(at["b"], columns * n);
  task.require_length(at["verdict"], words<Verdict>);
  task.require_length(at["x"], columns * n);
  task.require_length(at["errors"], 2);
  if (task.stream) {
    runtime::SmallSystems call = on_gpu(task, runtime::SmallStep::lu_solve, n);
    call.columns = columns;
    call.adjoint = task.option<bool>("adjoint");
    call.slab = items_on_gpu(task, at["slab"], sizeof(T));
    call.a = items_on_gpu(task, at["a"], sizeof(T));
    call.rows = items_on_gpu(task, at["rows"], sizeof(std::int32_t));
    call.record = items_on_gpu(task, at["record"], sizeof(std::int32_t));
    call.b = items_on_gpu(task, at["b"], sizeof(T));
    call.verdict = items_on_gpu(task, at["verdict"], sizeof(std::int32_t));
    call.x = items_on_gpu(task, at["x"], sizeof(T));
    call.errors = items_on_gpu(task, at["errors"], sizeof(Real));
    solve_on_gpu(task, call);
    return;
  }
  const bool small = columns <= most_small_columns && !is_watched();
  // conj(A^H) is C as it is
  const bool adjoint = task.option<bool>("adjoint");
  const runtime::Op op = adjoint ? runtime::Op::none : runtime::Op::conjugate_transpose;
  each_item(task, n, [&](std::int64_t item) {
    auto* const slab = static_cast<T*>(task.item(at["slab"], item, sizeof(T)));
    auto* const a = static_cast<T*>(task.item(at["a"], item, sizeof(T)));
    auto* const rows = static_cast<std::int32_t*>(task.item(at["rows"], item, sizeof(int)));
    void* const words = task.item(at["record"], item, sizeof(std::int32_t));
    auto* const b = static_cast<T*>(task.item(at["b"], item, sizeof(T)));
    void* const verdict = task.item(at["verdict"], item, sizeof(std::int32_t));
    auto* const x = static_cast<T*>(task.item(at["x"], item, sizeof(T)));
    auto* const errors = static_cast<Real*>(task.item(at["errors"], item, sizeof(Real)));
    const auto record = read<LuRecord>(words);
    const FactorRecord& made = record.factor;
    if (small && made.verdict.ok() && made.n == n && made.devices == 1 && made.ranks == 1) {
      const dense::lu::SmallFactor<T> factor{.one_norm = made.norm(),
                                             .inf_norm = record.inf_norm.value(),
                                             .growth = record.growth.value().value()};
      if (const auto found = dense::lu::solve_small<T>(
              op, MatrixView<const T>(slab, n, n), MatrixView<const T>(a, n, n), rows, factor,
              MatrixView<const T>(b, n, columns), MatrixView<T>(x, n, columns))) {
        write(Verdict{}, verdict);
        errors[0] = static_cast<Real>(found->by_norm);
        errors[1] = static_cast<Real>(found->by_components);
        return;
      }
    }
    do_usual_call("lu_solve", Job{.dtype = task.dtype, .n = n, .columns = columns},
                  {slab, a, rows, words, b, x, verdict, errors}, {{"adjoint", adjoint}});
  });
}

}  // namespace
}  // namespace small_lu

std::vector<CallRow> small_lu_calls() {
  return {{.name = "small_lu_factor",
           .phrase = "an LU factorisation",
           .buffers = small_lu::small_factor_buffers,
           .matrix = small_lu::small_factor_buffers["a"],
           .local =
               [](const LocalTask& task) {
                 with_dtype(task.dtype, [&]<Scalar T>() { small_lu::factor_small_ones<T>(task); });
               }},
          {.name = "small_lu_solve",
           .phrase = "a solve",
           .buffers = small_lu::small_solve_buffers,
           .matrix = small_lu::small_solve_buffers["slab"],
           .options = {{"adjoint", false}},
           .local = [](const LocalTask& task) {
             with_dtype(task.dtype, [&]<Scalar T>() { small_lu::solve_small_ones<T>(task); });
           }}};
}

}  // namespace shardsolve::jax
