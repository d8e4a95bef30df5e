#include "krylov/local_call.hpp"

#include "core/each_dtype.hpp"
#include "krylov/enqueue_local_call.hpp"
#include "runtime/host/in_caller.hpp"
#include "runtime/host/krylov_kernels.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace shardsolve::krylov {

LocalLengths local_lengths(const Problem& problem, std::int64_t rows, std::int64_t ranks) {
  std::vector<std::int64_t> boundaries;
  for (std::int64_t r = 0; r <= ranks; ++r) {
    boundaries.push_back(std::min(r * rows, problem.n));
  }
  const SumLayout layout{.n = problem.n,
                         .ranks = ranks,
                         .boundaries = boundaries.data(),
                         .block_leaves = SumLayout::block_leaves_of(problem.n)};
  std::int64_t longest = 0;
  for (std::int64_t r = 0; r < ranks; ++r) {
    longest = std::max(longest, layout.part(r).length());
  }
  LocalLengths lengths;
  const RoomLayout room = room_layout(problem);
  lengths.room_words = room.bytes / static_cast<std::int64_t>(sizeof(std::int32_t));
  lengths.record_words = room.records / static_cast<std::int64_t>(sizeof(std::int32_t));
  std::size_t at = 0;
  for (const TableReduction& shape : table_of(problem.method).reductions) {
    const std::int64_t slots = slots_of(shape, problem);
    lengths.begin.at(at) = lengths.parts;
    lengths.length.at(at) = slots * longest + 1;
    lengths.parts += slots * SumLayout::most_length(problem.n) + 1;
    ++at;
  }
  return lengths;
}

void run_on_host(const LocalCall& call) {
  runtime::host::in_caller([&](runtime::Queue& queue) {
    with_dtype(call.dtype,
               [&]<class T>() { enqueue<T>(runtime::host::HostKrylovKernels<T>(), queue, call); });
  });
}

}  // namespace shardsolve::krylov
