// The handlers by which a device writes its invitation to a call; see invitation.hpp.

#include "jax/ffi_buffers.hpp"
#include "jax/invitation.hpp"
#include "jax/records.hpp"
#include "mesh/cuda_loader.hpp"

#include <cstdint>
#include <exception>

namespace shardsolve::jax {
namespace {

/// One device's invitation to a call of which `operands` are what it brings: they are here so that
/// there is one invitation a call, and none before its operands are there.
ffi::ErrorOr<Invitation> invitation_for(const ffi::RemainingArgs& operands, CallKind kind,
                                        std::int64_t n, std::int64_t ranks, std::int64_t tile,
                                        std::int64_t columns) {
  const auto matrix = operands.get<ffi::AnyBuffer>(0);
  const auto dtype = matrix ? dtype_of_buffer(matrix->element_type()) : std::nullopt;
  if (!dtype) {
    return ffi::Unexpected(
        failed(XLA_FFI_Error_Code_INVALID_ARGUMENT, "internal: an invitation without a matrix"));
  }
  try {
    return invite(kind, Job{*dtype, n, ranks, ranks, tile, columns});
  } catch (const std::exception& error) {
    return ffi::Unexpected(failed(XLA_FFI_Error_Code_INTERNAL, error.what()));
  }
}

ffi::Error invite_on_cpu(ffi::RemainingArgs operands, ffi::Result<Words> words, std::int32_t kind,
                         std::int64_t n, std::int64_t ranks, std::int64_t tile,
                         std::int64_t columns) {
  const auto invitation =
      invitation_for(operands, static_cast<CallKind>(kind), n, ranks, tile, columns);
  if (invitation.has_error()) {
    return invitation.error();
  }
  write(*invitation, words->untyped_data());
  return ffi::Error::Success();
}

ffi::Error invite_on_gpu(void* stream, std::int32_t device, ffi::RemainingArgs operands,
                         ffi::Result<Words> words, std::int32_t kind, std::int64_t n,
                         std::int64_t ranks, std::int64_t tile, std::int64_t columns) {
  const auto invitation =
      invitation_for(operands, static_cast<CallKind>(kind), n, ranks, tile, columns);
  if (invitation.has_error()) {
    return invitation.error();
  }
  Invitation own = *invitation;
  own.gpu = device;
  try {
    const mesh::CudaStream xla{device, stream};
    xla.copy(words->untyped_data(), &own, sizeof(Invitation));
    xla.synchronize();
  } catch (const std::exception& error) {
    return failed(XLA_FFI_Error_Code_INTERNAL, error.what());
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace shardsolve::jax

namespace ffi = xla::ffi;
namespace jax = shardsolve::jax;

#define SHARDSOLVE_INVITE           \
  RemainingArgs()                   \
      .Ret<ffi::Buffer<ffi::S32>>() \
      .Attr<std::int32_t>("kind")   \
      .Attr<std::int64_t>("n")      \
      .Attr<std::int64_t>("ranks")  \
      .Attr<std::int64_t>("tile")   \
      .Attr<std::int64_t>("columns")

#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_invitation_cpu, jax::invite_on_cpu,
                              ffi::Ffi::Bind().SHARDSOLVE_INVITE);
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    shardsolve_invitation_gpu, jax::invite_on_gpu,
    ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void*>>().Ctx<ffi::DeviceOrdinal>().SHARDSOLVE_INVITE);
#pragma GCC visibility pop
