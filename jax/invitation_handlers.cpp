// The handlers by which a device writes its invitation to a call; see invitation.hpp.

#include "jax/ffi_buffers.hpp"
#include "jax/ffi_calls.hpp"
#include "jax/invitation.hpp"
#include "jax/partners.hpp"
#include "jax/records.hpp"
#include "mesh/cuda_loader.hpp"

#include <cstdint>
#include <exception>

namespace shardsolve::jax {
namespace {

/// One device's invitation to a call of which `operands` are what it brings: they are here so that
/// there is one invitation a call, and none before its operands are there.
ffi::ErrorOr<Invitation> invitation_for(const ffi::RemainingArgs& operands,
                                        const ffi::Dictionary& attributes) {
  const auto called = job_in(attributes);
  if (!called) {
    return ffi::Unexpected(called.error());
  }
  const auto job = with_operands(*called, operands, true);
  if (!job) {
    return ffi::Unexpected(job.error());
  }
  try {
    return invite(*job);
  } catch (const std::exception& error) {
    return ffi::Unexpected(failed(XLA_FFI_Error_Code_INTERNAL, error.what()));
  }
}

ffi::Error invite_on_cpu(ffi::RemainingArgs operands, ffi::Result<Words> words,
                         ffi::Dictionary attributes) {
  const auto invitation = invitation_for(operands, attributes);
  if (!invitation) {
    return invitation.error();
  }
  write(*invitation, words->untyped_data());
  return ffi::Error::Success();
}

ffi::Error invite_on_gpu(void* stream, std::int32_t device, ffi::RemainingArgs operands,
                         ffi::Result<Words> words, ffi::Dictionary attributes) {
  const auto invitation = invitation_for(operands, attributes);
  if (!invitation) {
    return invitation.error();
  }
  Invitation own = *invitation;
  own.gpu = device;
  try {
    const mesh::CudaStream xla{device, stream};
    xla.copy(words->untyped_data(), &own, sizeof(Invitation));
    wait_for(xla, own.ranks);
  } catch (const std::exception& error) {
    return failed(XLA_FFI_Error_Code_INTERNAL, error.what());
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace shardsolve::jax

namespace ffi = xla::ffi;
namespace jax = shardsolve::jax;

#define SHARDSOLVE_INVITE RemainingArgs().Ret<ffi::Buffer<ffi::S32>>().Attrs()

#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(shardsolve_invitation_cpu, jax::invite_on_cpu,
                              ffi::Ffi::Bind().SHARDSOLVE_INVITE);
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    shardsolve_invitation_gpu, jax::invite_on_gpu,
    ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void*>>().Ctx<ffi::DeviceOrdinal>().SHARDSOLVE_INVITE);
#pragma GCC visibility pop
