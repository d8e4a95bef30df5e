// The handlers of calls that each device makes by itself; see local_task.hpp.

#include "jax/ffi_calls.hpp"
#include "jax/local_task.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace shardsolve::jax {
namespace {

/// Which item of a buffer belongs to each of the batch: dimensions of 1 are the same for all.
std::vector<std::int64_t> items_of(ffi::Span<const std::int64_t> own,
                                   const std::vector<std::int64_t>& batch) {
  std::vector<std::int64_t> items{0};
  for (std::size_t at = 0; at < batch.size(); ++at) {
    std::vector<std::int64_t> next;
    for (const std::int64_t before : items) {
      for (std::int64_t i = 0; i < batch[at]; ++i) {
        next.push_back(before * own[at] + (own[at] == 1 ? 0 : i));
      }
    }
    items = std::move(next);
  }
  return items;
}

/// Fills in one buffer after a look at its elements and its batch. `batch`: dimensions of the whole
/// one, which results have; operands may have 1 instead of some.
ffi::Error take_local(const ffi::AnyBuffer& given, std::size_t index,
                      const std::vector<std::int64_t>& batch, LocalTask& task) {
  const CallBuffer& expected = task.row->buffers.at(index);
  const auto dimensions = given.dimensions();
  // An item's own dimensions are the last ones.
  const std::size_t own = expected.kind == Kind::vectors ? 2 : 1;
  const std::size_t leading = dimensions.size() < own ? 0 : dimensions.size() - own;
  std::int64_t items = 1;
  bool may_repeat = index < task.row->buffers.operands.size() && leading == batch.size();
  for (std::size_t at = 0; at < leading; ++at) {
    items *= dimensions[at];
    may_repeat = may_repeat && (dimensions[at] == 1 || dimensions[at] == batch[at]);
  }
  const ffi::DataType type = type_of(expected.element, task.dtype);
  if (dimensions.size() < own || given.element_type() != type ||
      (items != task.batch && !may_repeat)) {
    return broken(fmt::format(
        "{} of {} has XLA's element type {}, {} dimensions and a batch of {}, where type {} and a "
        "batch of {} belong",
        expected.name, task.row->name, static_cast<int>(given.element_type()), dimensions.size(),
        items, static_cast<int>(type), task.batch));
  }
  const std::int64_t length =
      own == 2 ? dimensions[leading] * dimensions.back() : dimensions.back();
  task.buffers[index] = {
      given.untyped_data(), length,
      items == task.batch ? std::vector<std::int64_t>{} : items_of(dimensions, batch)};
  return ffi::Error::Success();
}

/// What XLA brings, as the row of the call has it.
ffi::ErrorOr<LocalTask> local_task(const ffi::RemainingArgs& operands,
                                   const ffi::RemainingRets& results,
                                   const ffi::Dictionary& attributes) {
  LocalTask task;
  const auto row = row_in(attributes);
  if (!row) {
    return ffi::Unexpected(row.error());
  }
  task.row = *row;
  const CallBuffers& buffers = task.row->buffers;
  if (task.row->local == nullptr || operands.size() != buffers.operands.size() ||
      results.size() != buffers.results.size() ||
      attributes.size() != 1 + task.row->options.size()) {
    return ffi::Unexpected(broken(fmt::format(
        "{} has {} operands, {} results and {} attributes, where {}, {} and {} of a local call "
        "belong",
        task.row->name, operands.size(), results.size(), attributes.size(), buffers.operands.size(),
        buffers.results.size(), 1 + task.row->options.size())));
  }
  const auto options = options_in(attributes, *task.row);
  if (!options) {
    return ffi::Unexpected(options.error());
  }
  task.options = *options;
  const auto matrix = operands.get<ffi::AnyBuffer>(static_cast<std::size_t>(task.row->matrix));
  const auto dtype = matrix ? dtype_of_buffer(matrix->element_type()) : std::nullopt;
  if (!dtype) {
    return ffi::Unexpected(broken(fmt::format("{} has no matrix", task.row->name)));
  }
  task.dtype = *dtype;
  auto first = results.get<ffi::AnyBuffer>(0);
  std::vector<std::int64_t> batch;
  if (first && (*first)->dimensions().size() > 0) {
    const auto dimensions = (*first)->dimensions();
    batch.assign(dimensions.begin(), dimensions.end() - 1);
  }
  task.batch = std::accumulate(batch.begin(), batch.end(), std::int64_t{1}, std::multiplies<>());
  for (std::size_t index = 0; index < buffers.size(); ++index) {
    ffi::Error error = ffi::Error::Success();
    if (index < operands.size()) {
      const auto operand = operands.get<ffi::AnyBuffer>(index);
      error = operand ? take_local(*operand, index, batch, task) : operand.error();
    } else {
      auto result = results.get<ffi::AnyBuffer>(index - operands.size());
      error = result ? take_local(**result, index, batch, task) : result.error();
    }
    if (error.failure()) {
      return ffi::Unexpected(std::move(error));
    }
  }
  return task;
}

ffi::Error do_local(const LocalTask& task) {
  try {
    task.row->local(task);
  } catch (const std::exception& error) {
    return failed(XLA_FFI_Error_Code_INTERNAL, error.what());
  }
  return ffi::Error::Success();
}

/// Those in which XLA spreads its own work.
class XlaThreads : public runtime::host::SpareThreads {
 public:
  explicit XlaThreads(ffi::ThreadPool pool) : pool_(pool) {}

  // The caller may or may not be one of them.
  std::int64_t count() const override { return pool_.num_threads() - 1; }
  void start(std::function<void()> task) override { pool_.Schedule(std::move(task)); }

 private:
  ffi::ThreadPool pool_;
};

ffi::Error local_on_cpu(ffi::ThreadPool pool, ffi::RemainingArgs operands,
                        ffi::RemainingRets results, ffi::Dictionary attributes) {
  auto task = local_task(operands, results, attributes);
  if (!task) {
    return task.error();
  }
  XlaThreads threads(pool);
  task->spare = &threads;
  return do_local(*task);
}

ffi::Error local_on_gpu(void* stream, std::int32_t device, ffi::RemainingArgs operands,
                        ffi::RemainingRets results, ffi::Dictionary attributes) {
  auto task = local_task(operands, results, attributes);
  if (!task) {
    return task.error();
  }
  task->stream = mesh::CudaStream{device, stream};
  return do_local(*task);
}

}  // namespace
}  // namespace shardsolve::jax

namespace ffi = xla::ffi;
namespace jax = shardsolve::jax;

#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    shardsolve_local_cpu, jax::local_on_cpu,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_local_gpu, jax::local_on_gpu,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void*>>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs());
// The same for calls that do nothing but enqueue, so that XLA may record them into a CUDA graph.
XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_recorded_gpu, jax::local_on_gpu,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void*>>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs(),
                              {ffi::Traits::kCmdBufferCompatible});
#pragma GCC visibility pop
