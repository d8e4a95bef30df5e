/// What one device brings to a call.
#pragma once

#include "mesh/cuda_loader.hpp"
#include "runtime/workspace.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace shardsolve::jax {

/// A GPU's side of a seat.
struct Gpu {
  mesh::CudaStream stream;     ///< XLA's; all that was enqueued there has been done
  runtime::Allocate allocate;  ///< memory of XLA's pool, for as long as the call takes
};

struct Invitation;

/// Which of a seat's buffers; made from the names in the call's row.
enum class BufferIndex : std::size_t {};

/// The memory of a device's operands and results, as the handler knows them.
struct Seat {
  static constexpr std::size_t max_buffers = 28;

  void* at(BufferIndex buffer) const { return buffers.at(static_cast<std::size_t>(buffer)); }

  std::array<void*, max_buffers> buffers{};
  std::optional<Gpu> gpu;  ///< none on the CPU
  std::int64_t rank = 0;
  /// The invitations of all ranks, if the ranks are in several processes; a call then has this one
  /// seat alone. Null if the seats of all ranks come together.
  std::shared_ptr<const std::vector<Invitation>> others;
};

}  // namespace shardsolve::jax
