#include "jax/small_calls.hpp"

#include "runtime/host/blas.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardsolve::jax {
namespace {

/// A batch goes to XLA's threads in pieces of about so many operations, n^3 for each matrix: some
/// 20 us, to wake a thread takes two.
constexpr std::int64_t operations_a_piece = 1 << 18;

}  // namespace

void each_item(const LocalTask& task, std::int64_t n,
               const std::function<void(std::int64_t)>& do_item) {
  runtime::host::blas::use_one_thread();
  const std::int64_t items =
      std::clamp<std::int64_t>(operations_a_piece / (n * n * n + 1), 1, task.batch);
  runtime::host::in_pieces(task.spare, (task.batch + items - 1) / items, [&](std::int64_t piece) {
    const std::int64_t end = std::min((piece + 1) * items, task.batch);
    for (std::int64_t item = piece * items; item < end; ++item) {
      do_item(item);
    }
  });
}

void do_usual_call(std::string_view name, Job job, std::initializer_list<void*> buffers,
                   std::initializer_list<std::pair<std::string_view, OptionValue>> options) {
  job.row = find_call(name);
  job.devices = 1;
  job.ranks = 1;
  for (std::size_t index = 0; index < job.row->options.size(); ++index) {
    job.options.at(index) = job.row->options[index].unset;
  }
  for (const auto& [option, value] : options) {
    job.options.at(job.row->option(option)) = value;
  }
  Seat seat;
  std::copy(buffers.begin(), buffers.end(), seat.buffers.begin());
  void* const from = seat.at(job.row->copy->from);
  void* const to = seat.at(job.row->copy->to);
  if (from != to) {
    std::memcpy(to, from, bytes_of(job.row->buffers.at(job.row->copy->to), job));
  }
  do_call(job, {seat});
}

runtime::SmallSystems on_gpu(const LocalTask& task, runtime::SmallStep step, std::int64_t n) {
  runtime::SmallSystems call{.step = step, .dtype = task.dtype, .batch = task.batch, .n = n};
  const FactorRecord record = record_of_one(task, n);
  static_assert(sizeof(call.head) == offsetof(FactorRecord, norm_of_a) &&
                sizeof(Verdict) / sizeof(std::int32_t) == runtime::SmallSystems::verdict_words);
  std::memcpy(call.head, &record, sizeof(call.head));
  return call;
}

void solve_on_gpu(const LocalTask& task, const runtime::SmallSystems& call) {
  task.enqueue_on_gpu([&](const runtime::LocalKernels& kernels, runtime::Queue& queue) {
    kernels.solve_small(queue, call);
  });
}

runtime::SmallItems items_on_gpu(const LocalTask& task, BufferIndex buffer, std::size_t element) {
  const LocalTask::Buffer& from = task.at(buffer);
  const auto bytes = from.length * static_cast<std::int64_t>(element);
  if (from.items.empty()) {
    return {from.data, bytes};
  }
  if (std::any_of(from.items.begin(), from.items.end(),
                  [](std::int64_t own) { return own != 0; })) {
    throw Error(ErrorKind::internal, "internal: an operand that some of a batch share");
  }
  return {from.data, 0};
}

FactorRecord record_of_one(const LocalTask& task, std::int64_t n) {
  FactorRecord record;
  record.n = static_cast<std::int32_t>(n);
  record.devices = 1;
  record.ranks = 1;
  record.tile = static_cast<std::int32_t>(default_tile(n, 1, task.dtype));
  return record;
}

}  // namespace shardsolve::jax
