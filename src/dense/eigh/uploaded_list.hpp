/// Lists that the host makes and kernels read.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/matrix_view.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shardsolve::dense::eigh {

/// A list of the host's that kernels read: on the device, by way of memory that outlives the call.
template <class V>
class UploadedList {
 public:
  UploadedList(mesh::Rank& rank, std::int64_t most)
      : staging_(rank.host_workspace<V>(most)), list_(rank.workspace<V>(most, 1)) {}

  /// From place `first` of the list on. What was put there before has been copied.
  const V* put(runtime::Queue& queue, const std::vector<V>& values, std::int64_t first = 0) {
    std::copy(values.begin(), values.end(), staging_ + first);
    queue.copy(list_.data() + first, staging_ + first, values.size() * sizeof(V));
    return list_.data() + first;
  }

 private:
  V* staging_;
  MatrixView<V> list_;
};

}  // namespace shardsolve::dense::eigh
