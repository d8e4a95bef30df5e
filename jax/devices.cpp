#include "jax/devices.hpp"

#include "mesh/device_kind.hpp"
#include "mesh/mesh_state.hpp"

#include <shardsolve/plan.hpp>
#include <shardsolve/tile_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <complex>
#include <cstdio>
#include <cstring>

namespace shardsolve::jax {

Devices::Devices(const std::vector<Seat>& seats, bool serial) : seats_(seats) {
  const auto& others = seats.front().others;
  key_.ranks = static_cast<std::int64_t>(others ? others->size() : seats.size());
  std::vector<runtime::Allocate> allocators;
  for (const Seat& seat : seats) {
    if (seat.gpu) {
      key_.gpus.push_back(seat.gpu->stream.device);
      allocators.push_back(seat.gpu->allocate);
    }
  }
  key_.serial = serial && key_.gpus.empty() && !others;
  if (!key_.gpus.empty() && !others) {
    use_ = use_mesh(key_);
    use_->mesh().state().lend_memory(std::move(allocators));
  }
}

Devices::~Devices() {
  if (memory() == Memory::device && use_) {
    use_->mesh().state().lend_memory({});
  }
}

void Devices::await_ranks(Mesh& mesh) {
  if (mesh.state().await_ranks(std::chrono::seconds(1))) {
    return;
  }
  fmt::print(stderr,
             "shardsolve: a device has not come back from a call that has failed. What it "
             "works on is JAX's memory: the call ends when the device comes back\n");
  while (!mesh.state().await_ranks(std::chrono::hours(1))) {
  }
}

Turn& Devices::turn() {
  if (!turn_) {
    const Seat& own = seats_.front();
    turn_.emplace(take_turn(*own.others, own.rank));
  }
  return *turn_;
}

Error Devices::with_advice(const Error& error) const {
  if (memory() == Memory::host || error.kind() != ErrorKind::out_of_memory) {
    return error;
  }
  return {error.kind(),
          fmt::format(
              "{}. Where GPUs are in several processes their memory for this comes out of what "
              "XLA leaves: give its pool less (XLA_PYTHON_CLIENT_MEM_FRACTION, 0.75 unless set)",
              error.what())};
}

std::int64_t Devices::default_tile(std::int64_t n, Dtype dtype, Routine routine) {
  if (seats_.front().others) {  // without a mesh of this process, for which other ranks may wait
    static const TileTable table = TileTable::find();
    if (memory() == Memory::device) {  // the others take their turns, too
      Mesh& mesh = turn().mesh();
      mesh.use_tile_table(table);
      return mesh.default_tile(n, dtype, routine);
    }
    const TileEntry* entry = table.entry_for(mesh::host_kind(), dtype, key_.ranks, n, routine);
    return entry != nullptr ? entry->tile : shardsolve::default_tile(n, key_.ranks, dtype);
  }
  if (!use_) {
    use_ = use_mesh(key_);
  }
  if (!use_->shared->has_tiles) {
    use_->mesh().use_tile_table(TileTable::find());
    use_->shared->has_tiles = true;
  }
  return use_->mesh().default_tile(n, dtype, routine);
}

void Devices::copy(std::size_t seat, void* target, const void* source, std::size_t bytes) const {
  if (seats_[seat].gpu) {
    seats_[seat].gpu->stream.copy(target, source, bytes);
  } else if (bytes > 0) {
    std::memcpy(target, source, bytes);
  }
}

void Devices::finish(std::size_t seat) const {
  if (seats_[seat].gpu) {
    seats_[seat].gpu->stream.synchronize();
  }
}

template <Scalar T>
void Devices::fill(std::size_t seat, void* buffer, T value, std::int64_t count) const {
  if (count == 0) {
    return;
  }
  auto* values = static_cast<T*>(buffer);
  if (memory() == Memory::host) {
    std::fill_n(values, count, value);
    return;
  }
  // Copies the values written so far behind themselves: their number doubles each time.
  write(seat, values, &value, 1);
  for (std::int64_t done = 1; done < count; done += std::min(done, count - done)) {
    write(seat, values + done, values, std::min(done, count - done));
  }
}

void Devices::bring(BufferIndex operand, BufferIndex result, std::size_t bytes) const {
  if (memory() == Memory::host) {
    return;
  }
  for (std::size_t seat = 0; seat < seats_.size(); ++seat) {
    void* const target = seats_[seat].at(result);
    void* const source = seats_[seat].at(operand);
    if (source != target) {
      copy(seat, target, source, bytes);
    }
  }
  for (std::size_t seat = 0; seat < seats_.size(); ++seat) {
    finish(seat);
  }
}

template void Devices::fill(std::size_t, void*, float, std::int64_t) const;
template void Devices::fill(std::size_t, void*, double, std::int64_t) const;
template void Devices::fill(std::size_t, void*, std::complex<float>, std::int64_t) const;
template void Devices::fill(std::size_t, void*, std::complex<double>, std::int64_t) const;

}  // namespace shardsolve::jax
