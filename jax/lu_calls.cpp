#include "jax/lu_calls.hpp"

#include "dense/lu/solve.hpp"
#include "jax/kept_factor.hpp"
#include "jax/task.hpp"

#include <shardsolve/lu.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace shardsolve::jax {
namespace lu {
namespace {

// Rows of A, read column by column, are columns of C = A^T: C is the matrix that is factored.
// Right- hand sides come conjugated, and conj(A) conj(x) = conj(b) is a system with C^H.

constexpr CallBuffers factor_buffers = {
    .operands = {slab("a")},
    .results = {slab("slab"), whole("rows", Element::words), small("sign", Element::matrix),
                small("log_modulus", Element::real), record<LuRecord>("record")}};
constexpr CallBuffers solve_buffers = {
    .operands = {slab("slab"), slab("a"), whole("rows", Element::words), record<LuRecord>("record"),
                 sides("b")},
    .results = {sides("x"), record<Verdict>("verdict"), small("errors", Element::real, 2)}};
constexpr CallBuffers condition_buffers = {
    .operands = {slab("slab"), slab("a"), whole("rows", Element::words), record<LuRecord>("record"),
                 sides("x"), small("errors", Element::real, 2)},
    .results = {small("rcond_and_forward_error", Element::real, 2), record<Verdict>("verdict")}};
constexpr CallBuffers inverse_buffers = {
    .operands = {slab("slab"), slab("a"), whole("rows", Element::words),
                 record<LuRecord>("record")},
    .results = {slab("inverse"), record<Verdict>("verdict"),
                small("error_and_rcond", Element::real, 2)}};

// The room for the sketch is an operand, as its shape says that of the result.
constexpr CallBuffers factor_in_place_buffers = {
    .operands = {slab("a"), tall("room")},
    .results = {slab("slab"), tall("sketch"), whole("rows", Element::words),
                small("sign", Element::matrix), small("log_modulus", Element::real),
                record<SketchedLuRecord>("record")}};
constexpr CallBuffers solve_in_place_buffers = {
    .operands = {slab("slab"), tall("sketch"), whole("rows", Element::words),
                 record<SketchedLuRecord>("record"), sides("b")},
    .results = {sides("x"), record<Verdict>("verdict"), small("error", Element::real)}};
constexpr CallBuffers inverse_in_place_buffers = {
    .operands = {slab("slab"), tall("sketch"), whole("rows", Element::words),
                 record<SketchedLuRecord>("record")},
    .results = {slab("inverse"), record<Verdict>("verdict"),
                small("error_and_rcond", Element::real, 2)}};
constexpr CallBuffers condition_in_place_buffers = {
    .operands = {slab("slab"), tall("sketch"), whole("rows", Element::words),
                 record<SketchedLuRecord>("record")},
    .results = {small("rcond", Element::real), record<Verdict>("verdict")}};

/// The factor in some buffers.
template <Scalar T>
LuFactor<T> adopt_lu(const Task& task, const LuRecord& record, BufferIndex slab, BufferIndex a,
                     BufferIndex rows) {
  const Job& job = task.job();
  require_made_for(job, record.factor);
  const SlabLayout layout = rows_layout(job.n, job.ranks, record.factor.tile);
  std::vector<std::int32_t> places(static_cast<std::size_t>(job.n));
  task.read_whole(rows, places.data(), job.n);
  LuFactor<T> factor{task.matrix<T>(layout, slab),
                     task.matrix<T>(layout, a),
                     std::make_shared<std::vector<std::int64_t>>(places.begin(), places.end()),
                     record.factor.norm(),
                     record.inf_norm.value(),
                     {}};
  factor.outcome.growth = record.growth.value().value();
  return factor;
}

template <Scalar T>
LuFactor<T> adopt_in_place(const Task& task, const SketchedLuRecord& record, BufferIndex slab,
                           BufferIndex sketch, BufferIndex rows) {
  LuFactor<T> factor = adopt_lu<T>(task, record.general, slab, slab, rows);
  factor.sketch =
      LuSketch<T>{task.tall_matrix<T>(factor.layout(), sketch), record.frobenius_norm.value()};
  return factor;
}

/// Which system with C: conj(A^H) is C as it is.
Transpose system_of(const Job& job) {
  return job.option<bool>("adjoint") ? Transpose::none : Transpose::adjoint;
}

const FactorRecord& factor_record(const LuRecord& record) { return record.factor; }
const FactorRecord& factor_record(const SketchedLuRecord& record) { return record.general.factor; }

/// Whether elimination has left the range: L and U are of no use, but A is still there, and solved
/// with by QR.
bool has_matrix_alone(const LuRecord& record) { return std::isinf(record.growth.value().value()); }
bool has_matrix_alone(const SketchedLuRecord& /*record*/) { return false; }

/// The verdict on `body`, which is given the record of the factor; or why there is nothing to do it
/// with.
template <class Record, class Body>
Verdict judge_with_lu(const Task& task, BufferIndex record_buffer, Body body) {
  const auto record = task.read_record<Record>(record_buffer);
  Verdict verdict = before_use(task, factor_record(record));
  if (has_matrix_alone(record) && task.before().ok()) {
    verdict = {};
  }
  return verdict.ok() ? judge([&] { return body(record); }) : verdict;
}

/// Where what is known of a factor goes.
struct FactorBuffers {
  BufferIndex slab;
  BufferIndex rows;
  BufferIndex sign;
  BufferIndex log_modulus;
};

/// Makes the factor by `make`, given the mesh, the matrix and options, and writes all but its
/// record.
template <Scalar T, class Make>
void factor_by(Task& task, const FactorBuffers& at, LuRecord& record, Make make) {
  const Job& job = task.job();
  record.factor.n = static_cast<std::int32_t>(job.n);
  record.factor.devices = static_cast<std::int32_t>(job.devices);
  record.factor.ranks = static_cast<std::int32_t>(job.ranks);
  T sign = not_a_number<T>;
  RealOf<T> log_modulus = not_a_number<RealOf<T>>;
  std::vector<std::int32_t> rows(static_cast<std::size_t>(job.n), 0);
  record.factor.verdict = task.before();
  if (record.factor.verdict.ok()) {
    record.factor.verdict = judge([&] {
      const SlabLayout layout = task.layout();
      record.factor.tile = static_cast<std::int32_t>(layout.tile());
      const auto a = task.matrix<T>(layout, at.slab);
      const LuFactor<T> made =
          task.with_mesh([&](Mesh& mesh, const RunOptions& run) { return make(mesh, a, run); });
      if (made.outcome.growth) {  // of a factor, or why there is none
        record.factor.set_norm(made.one_norm);
        record.inf_norm = ScaledWords::of(made.inf_norm);
        record.growth = ScaledWords::of({*made.outcome.growth, 0});
      }
      if (made.rows) {
        rows.assign(made.rows->begin(), made.rows->end());
        sign = made.sign;
        log_modulus = static_cast<RealOf<T>>(made.log_modulus);
      }
      return made.outcome;
    });
  }
  task.write_to_all(at.rows, rows.data(), job.n);
  task.write_to_all(at.sign, &sign);
  task.write_to_all(at.log_modulus, &log_modulus);
}

template <Scalar T>
void factor(Task& task) {
  static constexpr const CallBuffers& at = factor_buffers;
  LuRecord record;
  factor_by<T>(task, {at["slab"], at["rows"], at["sign"], at["log_modulus"]}, record,
               [](Mesh& mesh, const ShardedMatrix<T>& a, const RunOptions& run) {
                 return dense::lu::factor_in_place(mesh, a, run);  // JAX keeps A
               });
  task.write_to_all(at["record"], &record);
}

template <Scalar T>
void factor_in_place(Task& task) {
  static constexpr const CallBuffers& at = factor_in_place_buffers;
  SketchedLuRecord record;
  bool has_sketch = false;
  factor_by<T>(task, {at["slab"], at["rows"], at["sign"], at["log_modulus"]}, record.general,
               [&](Mesh& mesh, const ShardedMatrix<T>& a, const RunOptions& run) {
                 const auto sketch = task.tall_matrix<T>(a.layout(), at["sketch"]);
                 const LuFactor<T> made =
                     dense::lu::factor_in_place<T>(mesh, a, run, {true, sketch});
                 has_sketch = made.sketch.has_value();
                 if (has_sketch) {
                   record.frobenius_norm = ScaledWords::of(made.sketch->frobenius_norm);
                 }
                 return made;
               });
  if (!has_sketch) {
    task.fill_nan<T>(at["sketch"]);
  }
  task.write_to_all(at["record"], &record);
}

template <Scalar T>
void solve(Task& task) {
  static constexpr const CallBuffers& at = solve_buffers;
  constexpr RealOf<T> nan = not_a_number<RealOf<T>>;
  std::array<RealOf<T>, 2> errors{nan, nan};
  const Verdict verdict = judge_with_lu<LuRecord>(task, at["record"], [&](const auto& record) {
    const auto factor = adopt_lu<T>(task, record, at["slab"], at["a"], at["rows"]);
    const auto x = task.right_hand_sides<T>(factor.layout(), at["x"]);
    const Outcome outcome = task.with_mesh([&](Mesh& mesh, const RunOptions& run) {
      return lu_solve(mesh, factor, x, run, system_of(task.job()));
    });
    errors = {number<T>(outcome.backward_error), number<T>(outcome.component_error)};
    return outcome;
  });
  if (!verdict.ok()) {
    task.fill_nan<T>(at["x"]);
    errors = {nan, nan};
  }
  task.write_to_all(at["verdict"], &verdict);
  task.write_to_all(at["errors"], errors.data(), std::ssize(errors));
}

template <Scalar T>
void condition(Task& task) {
  static constexpr const CallBuffers& at = condition_buffers;
  constexpr RealOf<T> nan = not_a_number<RealOf<T>>;
  std::array<RealOf<T>, 2> figures{nan, nan};
  std::array<RealOf<T>, 2> errors{};
  task.read_whole(at["errors"], errors.data(), std::ssize(errors));
  const Verdict verdict = judge_with_lu<LuRecord>(task, at["record"], [&](const auto& record) {
    const auto factor = adopt_lu<T>(task, record, at["slab"], at["a"], at["rows"]);
    const dense::lu::Solved<T> solved{task.right_hand_sides<T>(factor.layout(), at["x"]),
                                      system_of(task.job()), double{errors[1]}};
    const Outcome outcome = task.with_mesh([&](Mesh& mesh, const RunOptions& run) {
      return dense::lu::judge(mesh, factor, solved, run, Transpose::transpose);
    });
    figures = {number<T>(outcome.rcond), number<T>(outcome.forward_error)};
    return outcome;
  });
  task.write_to_all(at["verdict"], &verdict);
  task.write_to_all(at["rcond_and_forward_error"], figures.data(), std::ssize(figures));
}

/// Where an inverse and what is known of it go, and its factor's record lies.
struct InverseBuffers {
  BufferIndex inverse;
  BufferIndex record;
  BufferIndex verdict;
  BufferIndex error_and_rcond;
};

/// The inverse of C, whose columns are the rows of that of A, of a factor that `adopt_factor` makes
/// of the record. rcond is A's.
template <Scalar T, class Record, class Adopt>
void invert_by(Task& task, const InverseBuffers& at, Adopt adopt_factor) {
  constexpr RealOf<T> nan = not_a_number<RealOf<T>>;
  std::array<RealOf<T>, 2> figures{nan, nan};
  const Verdict verdict = judge_with_lu<Record>(task, at.record, [&](const Record& record) {
    LuFactor<T> factor = adopt_factor(record);
    const Outcome outcome = task.with_mesh([&](Mesh& mesh, const RunOptions& run) {
      return dense::lu::inverse(mesh, std::move(factor), run, Transpose::transpose);
    });
    figures = {number<T>(outcome.backward_error), number<T>(outcome.rcond)};
    return outcome;
  });
  if (!verdict.ok()) {
    task.fill_nan<T>(at.inverse);
    figures = {nan, nan};
  }
  task.write_to_all(at.verdict, &verdict);
  task.write_to_all(at.error_and_rcond, figures.data(), std::ssize(figures));
}

template <Scalar T>
void invert(Task& task) {
  static constexpr const CallBuffers& at = inverse_buffers;
  invert_by<T, LuRecord>(task, {at["inverse"], at["record"], at["verdict"], at["error_and_rcond"]},
                         [&](const LuRecord& record) {
                           return adopt_lu<T>(task, record, at["inverse"], at["a"], at["rows"]);
                         });
}

template <Scalar T>
void invert_in_place(Task& task) {
  static constexpr const CallBuffers& at = inverse_in_place_buffers;
  invert_by<T, SketchedLuRecord>(
      task, {at["inverse"], at["record"], at["verdict"], at["error_and_rcond"]},
      [&](const SketchedLuRecord& record) {
        return adopt_in_place<T>(task, record, at["inverse"], at["sketch"], at["rows"]);
      });
}

template <Scalar T>
void solve_in_place(Task& task) {
  static constexpr const CallBuffers& at = solve_in_place_buffers;
  RealOf<T> error = not_a_number<RealOf<T>>;
  const auto run = [&](const SketchedLuRecord& record) {
    const auto factor = adopt_in_place<T>(task, record, at["slab"], at["sketch"], at["rows"]);
    const auto x = task.right_hand_sides<T>(factor.layout(), at["x"]);
    const Outcome outcome = task.with_mesh([&](Mesh& mesh, const RunOptions& options) {
      return lu_solve(mesh, factor, x, options, system_of(task.job()));
    });
    error = number<T>(outcome.backward_error);
    return outcome;
  };
  const Verdict verdict = judge_with_lu<SketchedLuRecord>(task, at["record"], run);
  if (!verdict.ok()) {
    task.fill_nan<T>(at["x"]);
    error = not_a_number<RealOf<T>>;
  }
  task.write_to_all(at["verdict"], &verdict);
  task.write_to_all(at["error"], &error);
}

template <Scalar T>
void condition_in_place(Task& task) {
  static constexpr const CallBuffers& at = condition_in_place_buffers;
  RealOf<T> rcond = not_a_number<RealOf<T>>;
  const auto run = [&](const SketchedLuRecord& record) {
    const auto factor = adopt_in_place<T>(task, record, at["slab"], at["sketch"], at["rows"]);
    const dense::lu::Solved<T> solved{RightHandSides<T>(factor.layout(), 0)};
    const Outcome outcome = task.with_mesh([&](Mesh& mesh, const RunOptions& options) {
      return dense::lu::judge(mesh, factor, solved, options, Transpose::transpose);
    });
    rcond = number<T>(outcome.rcond);
    return outcome;
  };
  const Verdict verdict = judge_with_lu<SketchedLuRecord>(task, at["record"], run);
  task.write_to_all(at["verdict"], &verdict);
  task.write_to_all(at["rcond"], &rcond);
}

}  // namespace
}  // namespace lu

std::vector<CallRow> lu_calls() {
  return {
      {.name = "lu_factor",
       .phrase = "an LU factorisation",
       .buffers = lu::factor_buffers,
       .matrix = lu::factor_buffers["a"],
       .verdict = lu::factor_buffers["record"],
       .copy = {{lu::factor_buffers["a"], lu::factor_buffers["slab"]}},
       .options = {{"tile", std::int64_t{0}}},
       .routine = Routine::lu,
       .work = by_dtype([]<Scalar T>(Task& task) { lu::factor<T>(task); })},
      {.name = "lu_solve",
       .phrase = "a solve",
       .buffers = lu::solve_buffers,
       .matrix = lu::solve_buffers["slab"],
       .record = lu::solve_buffers["record"],
       .verdict = lu::solve_buffers["verdict"],
       .copy = {{lu::solve_buffers["b"], lu::solve_buffers["x"]}},
       .options = {{"adjoint", false}},
       .work = by_dtype([]<Scalar T>(Task& task) { lu::solve<T>(task); })},
      {.name = "lu_condition",
       .phrase = "a condition number",
       .buffers = lu::condition_buffers,
       .matrix = lu::condition_buffers["slab"],
       .record = lu::condition_buffers["record"],
       .verdict = lu::condition_buffers["verdict"],
       .options = {{"adjoint", false}},
       .work = by_dtype([]<Scalar T>(Task& task) { lu::condition<T>(task); })},
      {.name = "lu_inverse",
       .phrase = "an inverse",
       .buffers = lu::inverse_buffers,
       .matrix = lu::inverse_buffers["slab"],
       .record = lu::inverse_buffers["record"],
       .verdict = lu::inverse_buffers["verdict"],
       .copy = {{lu::inverse_buffers["slab"], lu::inverse_buffers["inverse"]}},
       .work = by_dtype([]<Scalar T>(Task& task) { lu::invert<T>(task); })},
      {.name = "lu_factor_in_place",
       .phrase = "an LU factorisation",
       .buffers = lu::factor_in_place_buffers,
       .matrix = lu::factor_in_place_buffers["a"],
       .verdict = lu::factor_in_place_buffers["record"],
       .copy = {{lu::factor_in_place_buffers["a"], lu::factor_in_place_buffers["slab"]}},
       .options = {{"tile", std::int64_t{0}}},
       .routine = Routine::lu,
       .work = by_dtype([]<Scalar T>(Task& task) { lu::factor_in_place<T>(task); })},
      {.name = "lu_solve_in_place",
       .phrase = "a solve",
       .buffers = lu::solve_in_place_buffers,
       .matrix = lu::solve_in_place_buffers["slab"],
       .record = lu::solve_in_place_buffers["record"],
       .verdict = lu::solve_in_place_buffers["verdict"],
       .copy = {{lu::solve_in_place_buffers["b"], lu::solve_in_place_buffers["x"]}},
       .options = {{"adjoint", false}},
       .work = by_dtype([]<Scalar T>(Task& task) { lu::solve_in_place<T>(task); })},
      {.name = "lu_inverse_in_place",
       .phrase = "an inverse",
       .buffers = lu::inverse_in_place_buffers,
       .matrix = lu::inverse_in_place_buffers["slab"],
       .record = lu::inverse_in_place_buffers["record"],
       .verdict = lu::inverse_in_place_buffers["verdict"],
       .copy = {{lu::inverse_in_place_buffers["slab"], lu::inverse_in_place_buffers["inverse"]}},
       .work = by_dtype([]<Scalar T>(Task& task) { lu::invert_in_place<T>(task); })},
      {.name = "lu_condition_in_place",
       .phrase = "a condition number",
       .buffers = lu::condition_in_place_buffers,
       .matrix = lu::condition_in_place_buffers["slab"],
       .record = lu::condition_in_place_buffers["record"],
       .verdict = lu::condition_in_place_buffers["verdict"],
       .work = by_dtype([]<Scalar T>(Task& task) { lu::condition_in_place<T>(task); })}};
}

}  // namespace shardsolve::jax
