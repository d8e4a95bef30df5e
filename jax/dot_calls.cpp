#include "jax/dot_calls.hpp"

#include "jax/local_task.hpp"
#include "runtime/fixed_dot.hpp"
#include "runtime/host/fixed_dot.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::jax {
namespace {

// `work` is for GPUs: XLA plans its memory, so that a call allocates none.
constexpr CallBuffers dot_buffers = {.operands = {any("x"), any("y")},
                                     .results = {any("dot"), any("work")}};
constexpr CallBuffers parts_buffers = {
    .operands = {any("x"), any("y"), any("rank", Element::words)}, .results = {any("parts")}};
constexpr CallBuffers finish_buffers = {.operands = {any("parts")},
                                        .results = {any("dot"), any("work")}};

runtime::DotCall begin_dot(const LocalTask& task, runtime::DotStep step, BufferIndex result) {
  return {.step = step,
          .is_double = task.dtype == Dtype::float64 || task.dtype == Dtype::complex128,
          .is_complex = task.dtype == Dtype::complex64 || task.dtype == Dtype::complex128,
          .batch = task.batch,
          .result = task.at(result).data};
}

void run_dot(const LocalTask& task, const runtime::DotCall& call) {
  if (task.stream) {
    task.enqueue_on_gpu([&](const runtime::LocalKernels& kernels, runtime::Queue& queue) {
      kernels.dot(queue, call);
    });
  } else {
    runtime::host::fixed_dot(call);
  }
}

void dot(const LocalTask& task) {
  static constexpr const CallBuffers& at = dot_buffers;
  runtime::DotCall call = begin_dot(task, runtime::DotStep::all, at["dot"]);
  const std::int64_t n = task.at(at["x"]).length;
  call.layout = {n, n};
  call.x = task.at(at["x"]).data;
  call.y = task.at(at["y"]).data;
  call.work = task.at(at["work"]).data;
  task.require_length(at["y"], n);
  task.require_length(at["dot"], 1);
  task.require_length(at["work"], call.subtrees());
  run_dot(task, call);
}

void parts_of_dot(const LocalTask& task) {
  static constexpr const CallBuffers& at = parts_buffers;
  runtime::DotCall call = begin_dot(task, runtime::DotStep::parts, at["parts"]);
  call.layout = {task.option<std::int64_t>("n"), task.at(at["x"]).length};
  call.x = task.at(at["x"]).data;
  call.y = task.at(at["y"]).data;
  call.rank = static_cast<const std::int32_t*>(task.at(at["rank"]).data);
  task.require_length(at["y"], call.layout.rows);
  task.require_length(at["rank"], 1);
  task.require_length(at["parts"], call.layout.length());
  run_dot(task, call);
}

void dot_of_parts(const LocalTask& task) {
  static constexpr const CallBuffers& at = finish_buffers;
  runtime::DotCall call = begin_dot(task, runtime::DotStep::finish, at["dot"]);
  call.layout = {task.option<std::int64_t>("n"), task.option<std::int64_t>("rows")};
  call.x = task.at(at["parts"]).data;
  call.work = task.at(at["work"]).data;
  call.ranks = task.at(at["parts"]).length / call.layout.length();
  task.require_length(at["parts"], call.ranks * call.layout.length());
  task.require_length(at["dot"], 1);
  task.require_length(at["work"], call.subtrees());
  run_dot(task, call);
}

}  // namespace

std::vector<CallRow> dot_calls() {
  return {{.name = "dot",
           .phrase = "a dot product",
           .buffers = dot_buffers,
           .matrix = dot_buffers["x"],
           .local = dot},
          {.name = "dot_parts",
           .phrase = "the parts of a dot product",
           .buffers = parts_buffers,
           .matrix = parts_buffers["x"],
           .options = {{"n", std::int64_t{0}}},
           .local = parts_of_dot},
          {.name = "dot_of_parts",
           .phrase = "a dot product",
           .buffers = finish_buffers,
           .matrix = finish_buffers["parts"],
           .options = {{"n", std::int64_t{0}}, {"rows", std::int64_t{0}}},
           .local = dot_of_parts}};
}

}  // namespace shardsolve::jax
