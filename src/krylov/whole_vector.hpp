/// A vector of all ranks, whole on each.
#pragma once

#include "comm/communicator.hpp"
#include "krylov/wait_sites.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/slab_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::krylov {

template <Scalar T>
class WholeVector {
 public:
  WholeVector(mesh::Rank& rank, const SlabLayout& layout)
      : whole_(rank.workspace<T>(layout.size(), 1)), ready_(rank.event()), arrived_(rank.event()) {
    for (std::int64_t r = 0; r < rank.count(); ++r) {
      pieces_.push_back({whole_.data() + layout.segment(r).begin.value(),
                         static_cast<std::size_t>(layout.width(r)) * sizeof(T)});
    }
  }

  /// Enqueues the exchange of what `queue` has made, and returns where all of it is for what
  /// `queue` gets next; until the next gather().
  const T* gather(mesh::Rank& rank, runtime::Queue& queue, const T* own_rows) {
    if (rank.count() == 1) {
      return own_rows;
    }
    const comm::Bytes own = pieces_[static_cast<std::size_t>(rank.index())];
    queue.copy(own.data, own_rows, own.size);
    queue.record(ready_);
    rank.transfer().wait(ready_, sites::vector_ready);
    rank.communicator().all_gather(rank.transfer(), pieces_);
    rank.transfer().record(arrived_);
    queue.wait(arrived_, sites::vector_arrived);
    return whole_.data();
  }

 private:
  MatrixView<T> whole_;
  std::vector<comm::Bytes> pieces_;
  runtime::Event& ready_;
  runtime::Event& arrived_;
};

}  // namespace shardsolve::krylov
