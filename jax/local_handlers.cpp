// The handlers of calls that each device makes by itself; see local_task.hpp.

#include "jax/ffi_calls.hpp"
#include "jax/local_task.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>

namespace shardsolve::jax {
namespace {

/// Fills in one buffer after a look at its elements and its batch, which the first one decides.
ffi::Error take_local(const ffi::AnyBuffer& given, std::size_t index, LocalTask& task) {
  const CallBuffer& expected = task.row->buffers.at(index);
  const auto dimensions = given.dimensions();
  std::int64_t batch = 1;
  for (std::size_t at = 0; at + 1 < dimensions.size(); ++at) {
    batch *= dimensions[at];
  }
  if (index == 0) {
    task.batch = batch;
  }
  if (dimensions.size() == 0 || batch != task.batch ||
      given.element_type() != type_of(expected.element, task.dtype)) {
    return broken(fmt::format(
        "{} of {} has XLA's element type {}, {} dimensions and a batch of {}, where type {} and a "
        "batch of {} belong",
        expected.name, task.row->name, static_cast<int>(given.element_type()), dimensions.size(),
        batch, static_cast<int>(type_of(expected.element, task.dtype)), task.batch));
  }
  task.buffers[index] = {given.untyped_data(), dimensions.back()};
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
  for (std::size_t index = 0; index < buffers.size(); ++index) {
    ffi::Error error = ffi::Error::Success();
    if (index < operands.size()) {
      const auto operand = operands.get<ffi::AnyBuffer>(index);
      error = operand ? take_local(*operand, index, task) : operand.error();
    } else {
      auto result = results.get<ffi::AnyBuffer>(index - operands.size());
      error = result ? take_local(**result, index, task) : result.error();
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

ffi::Error local_on_cpu(ffi::RemainingArgs operands, ffi::RemainingRets results,
                        ffi::Dictionary attributes) {
  const auto task = local_task(operands, results, attributes);
  return task ? do_local(*task) : task.error();
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
XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_local_cpu, jax::local_on_cpu,
                              ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_local_gpu, jax::local_on_gpu,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void*>>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs());
#pragma GCC visibility pop
