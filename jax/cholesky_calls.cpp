#include "jax/cholesky_calls.hpp"

#include "dense/cholesky/solve.hpp"
#include "jax/kept_factor.hpp"
#include "jax/task.hpp"

#include <shardsolve/cholesky.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace shardsolve::jax {
namespace {

constexpr CallBuffers factor_buffers = {
    .operands = {slab("a")},
    .results = {slab("slab"), rows("diagonal", Element::real),
                small("log_determinant", Element::real), record<FactorRecord>("record")}};
constexpr CallBuffers solve_buffers = {
    .operands = {slab("slab"), rows("diagonal", Element::real), record<FactorRecord>("record"),
                 sides("b")},
    .results = {sides("x"), record<Verdict>("verdict"), small("error", Element::real)}};
constexpr CallBuffers half_buffers = {.operands = {slab("slab"), rows("diagonal", Element::real),
                                                   record<FactorRecord>("record"), sides("b")},
                                      .results = {sides("x"), record<Verdict>("verdict")}};
constexpr CallBuffers inverse_buffers = {
    .operands = {slab("slab"), rows("diagonal", Element::real), record<FactorRecord>("record")},
    .results = {slab("inverse"), record<Verdict>("verdict"),
                small("error_and_rcond", Element::real, 2)}};
constexpr CallBuffers condition_buffers = {
    .operands = {slab("slab"), rows("diagonal", Element::real), record<FactorRecord>("record"),
                 sides("x"), small("error", Element::real)},
    .results = {small("rcond", Element::real), record<Verdict>("verdict")}};

/// The verdict on `body`, which is given the record of the factor and returns an outcome; or why
/// there is nothing to do it with.
template <class Body>
Verdict judge_with_factor(const Task& task, BufferIndex record_buffer, Body body) {
  const auto record = task.read_record<FactorRecord>(record_buffer);
  const Verdict verdict = before_use(task, record);
  return verdict.ok() ? judge([&] { return body(record); }) : verdict;
}

template <Scalar T>
void factor(Task& task) {
  static constexpr const CallBuffers& at = factor_buffers;
  const Job& job = task.job();
  FactorRecord record;
  record.n = static_cast<std::int32_t>(job.n);
  record.devices = static_cast<std::int32_t>(job.devices);
  record.ranks = static_cast<std::int32_t>(job.ranks);
  RealOf<T> log_determinant = not_a_number<RealOf<T>>;
  record.verdict = task.before();
  if (record.verdict.ok()) {
    record.verdict = judge([&] {
      const SlabLayout layout = task.layout();
      record.tile = static_cast<std::int32_t>(layout.tile());
      const auto a = task.matrix<T>(layout, at["slab"]);
      const CholeskyFactor<T> factor = task.with_mesh(
          [&](Mesh& mesh, const RunOptions& run) { return cholesky_factor(mesh, a, run); });
      if (factor.outcome.ok()) {
        record.set_norm(factor.norm);
        log_determinant = static_cast<RealOf<T>>(shardsolve::log_determinant(factor));
        task.write_rows(layout, at["diagonal"], factor.diagonal->data());
      }
      return factor.outcome;
    });
  }
  if (!record.verdict.ok()) {
    task.fill_nan<RealOf<T>>(at["diagonal"]);
  }
  task.write_to_all(at["record"], &record);
  task.write_to_all(at["log_determinant"], &log_determinant);
}

template <Scalar T>
void solve(Task& task) {
  static constexpr const CallBuffers& at = solve_buffers;
  RealOf<T> backward_error = not_a_number<RealOf<T>>;
  const Verdict verdict = judge_with_factor(task, at["record"], [&](const FactorRecord& record) {
    const auto factor = adopt<T>(task, record, at["slab"], at["diagonal"]);
    const auto x = task.right_hand_sides<T>(factor.layout(), at["x"]);
    const Outcome outcome = task.with_mesh(
        [&](Mesh& mesh, const RunOptions& run) { return cholesky_solve(mesh, factor, x, run); });
    backward_error = number<T>(outcome.backward_error);
    return outcome;
  });
  if (!verdict.ok()) {
    task.fill_nan<T>(at["x"]);
    backward_error = not_a_number<RealOf<T>>;
  }
  task.write_to_all(at["verdict"], &verdict);
  task.write_to_all(at["error"], &backward_error);
}

/// x = F^-1 b, or with the options F^-H b, F b or F^H b.
template <Scalar T>
void half(Task& task) {
  static constexpr const CallBuffers& at = half_buffers;
  const bool adjoint = task.job().option<bool>("adjoint");
  const Half which = task.job().option<bool>("product")
                         ? (adjoint ? Half::multiply_adjoint : Half::multiply)
                         : (adjoint ? Half::solve_adjoint : Half::solve);
  const Verdict verdict = judge_with_factor(task, at["record"], [&](const FactorRecord& record) {
    const auto factor = adopt<T>(task, record, at["slab"], at["diagonal"]);
    const auto x = task.right_hand_sides<T>(factor.layout(), at["x"]);
    return task.with_mesh([&](Mesh& mesh, const RunOptions& run) {
      return cholesky_half(mesh, factor, x, which, run);
    });
  });
  if (!verdict.ok()) {
    task.fill_nan<T>(at["x"]);
  }
  task.write_to_all(at["verdict"], &verdict);
}

template <Scalar T>
void invert(Task& task) {
  static constexpr const CallBuffers& at = inverse_buffers;
  RealOf<T> numbers[2] = {not_a_number<RealOf<T>>, not_a_number<RealOf<T>>};
  const Verdict verdict = judge_with_factor(task, at["record"], [&](const FactorRecord& record) {
    auto factor = adopt<T>(task, record, at["inverse"], at["diagonal"]);
    const Outcome outcome = task.with_mesh([&](Mesh& mesh, const RunOptions& run) {
      return cholesky_inverse(mesh, std::move(factor), run);
    });
    numbers[0] = number<T>(outcome.backward_error);
    numbers[1] = number<T>(outcome.rcond);
    return outcome;
  });
  if (!verdict.ok()) {
    task.fill_nan<T>(at["inverse"]);
  }
  task.write_to_all(at["verdict"], &verdict);
  task.write_to_all(at["error_and_rcond"], numbers, 2);
}

/// rcond, and the verdict on x with this backward error; below 0: there is no x.
template <Scalar T>
void condition(Task& task) {
  static constexpr const CallBuffers& at = condition_buffers;
  RealOf<T> rcond = not_a_number<RealOf<T>>;
  RealOf<T> error{};
  task.read_whole(at["error"], &error, 1);
  const Verdict verdict = judge_with_factor(task, at["record"], [&](const FactorRecord& record) {
    const auto factor = adopt<T>(task, record, at["slab"], at["diagonal"]);
    std::optional<dense::cholesky::Solved<T>> solved;
    if (!(error < 0)) {
      solved = {task.right_hand_sides<T>(factor.layout(), at["x"]), double{error}};
    }
    const Outcome outcome = task.with_mesh([&](Mesh& mesh, const RunOptions& run) {
      return dense::cholesky::judge(mesh, factor, solved, run);
    });
    rcond = number<T>(outcome.rcond);
    return outcome;
  });
  task.write_to_all(at["verdict"], &verdict);
  task.write_to_all(at["rcond"], &rcond);
}

}  // namespace

std::vector<CallRow> cholesky_calls() {
  return {{.name = "cholesky_factor",
           .phrase = "a factorisation",
           .buffers = factor_buffers,
           .matrix = factor_buffers["a"],
           .verdict = factor_buffers["record"],
           .copy = {{factor_buffers["a"], factor_buffers["slab"]}},
           .options = {{"tile", std::int64_t{0}}},
           .work = by_dtype([]<Scalar T>(Task& task) { factor<T>(task); })},
          {.name = "cholesky_solve",
           .phrase = "a solve",
           .buffers = solve_buffers,
           .matrix = solve_buffers["slab"],
           .record = solve_buffers["record"],
           .verdict = solve_buffers["verdict"],
           .copy = {{solve_buffers["b"], solve_buffers["x"]}},
           .work = by_dtype([]<Scalar T>(Task& task) { solve<T>(task); })},
          {.name = "cholesky_half",
           .phrase = "a half of a factor",
           .buffers = half_buffers,
           .matrix = half_buffers["slab"],
           .record = half_buffers["record"],
           .verdict = half_buffers["verdict"],
           .copy = {{half_buffers["b"], half_buffers["x"]}},
           .options = {{"adjoint", false}, {"product", false}},
           .work = by_dtype([]<Scalar T>(Task& task) { half<T>(task); })},
          {.name = "cholesky_inverse",
           .phrase = "an inverse",
           .buffers = inverse_buffers,
           .matrix = inverse_buffers["slab"],
           .record = inverse_buffers["record"],
           .verdict = inverse_buffers["verdict"],
           .copy = {{inverse_buffers["slab"], inverse_buffers["inverse"]}},
           .work = by_dtype([]<Scalar T>(Task& task) { invert<T>(task); })},
          {.name = "cholesky_condition",
           .phrase = "a condition number",
           .buffers = condition_buffers,
           .matrix = condition_buffers["slab"],
           .record = condition_buffers["record"],
           .verdict = condition_buffers["verdict"],
           .work = by_dtype([]<Scalar T>(Task& task) { condition<T>(task); })}};
}

}  // namespace shardsolve::jax
