#include "dense/cholesky/persistent_solve.hpp"

#include "programs/bytes_of.hpp"

#include <algorithm>
#include <bit>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace shardsolve::dense::cholesky {

using runtime::SolveBlock;

namespace {

/// All bits set: a NaN that no calculation gives.
template <Scalar T>
T unwritten() {
  using Real = RealOf<T>;
  using Bits = std::conditional_t<sizeof(Real) == 8, std::uint64_t, std::uint32_t>;
  const auto ones = std::bit_cast<Real>(static_cast<Bits>(~Bits{0}));
  if constexpr (is_complex<T>) {
    return {ones, ones};
  } else {
    return ones;
  }
}

/// 0 where there is no kernel for it.
template <Scalar T>
std::int64_t solve_block_rows(const mesh::Rank& rank, const SlabLayout& layout) {
  return rank.kernels<runtime::CholeskyKernels<T>>().tuning(layout.tile()).solve_block_rows;
}

}  // namespace

template <Scalar T>
std::unique_ptr<PersistentSolve<T>> PersistentSolve<T>::make(mesh::Rank& rank,
                                                             const SlabLayout& layout,
                                                             MatrixView<const T> slab) {
  if (solve_block_rows<T>(rank, layout) == 0 || rank.count() > Arguments::max_ranks ||
      layout.size() == 0) {
    return nullptr;
  }
  std::unique_ptr<PersistentSolve> solve(new PersistentSolve(rank, layout, slab));
  const bool possible =
      std::all_of(solve->memories_.begin(), solve->memories_.end(),
                  [](const RunMemory& memory) { return memory.peers != nullptr; });
  return possible ? std::move(solve) : nullptr;
}

template <Scalar T>
PersistentSolve<T>::PersistentSolve(mesh::Rank& rank, const SlabLayout& layout,
                                    MatrixView<const T> slab)
    : rank_(rank) {
  arguments_.slab = slab;
  arguments_.rank = static_cast<std::int32_t>(rank.index());
  arguments_.ranks = static_cast<std::int32_t>(rank.count());
  arguments_.width = layout.max_width();
  list_blocks(layout, solve_block_rows<T>(rank, layout));
  for (RunMemory& memory : memories_) {
    memory.own = rank.reachable_workspace<T>(arguments_.memory_size(), 1);
    memory.peers = rank.communicator().make_peer_memory(programs::bytes_of(memory.own));
  }
}

template <Scalar T>
void PersistentSolve<T>::list_blocks(const SlabLayout& layout, std::int64_t max_rows) {
  std::vector<SolveBlock> blocks;
  std::vector<SolveBlock> own;
  std::fill_n(arguments_.first, Arguments::max_ranks, std::numeric_limits<std::int32_t>::max());
  for (Step step(0); step.value() < layout.steps(); ++step) {
    const std::int64_t owner = layout.owner(step);
    const std::int64_t rows = layout.rows(step).size();
    for (std::int64_t done = 0; done < rows; done += max_rows) {
      const SolveBlock block{layout.rows(step).begin.value() + done,
                             layout.columns(step).begin.value() + done,
                             static_cast<std::int32_t>(std::min(max_rows, rows - done)),
                             static_cast<std::int32_t>(owner),
                             static_cast<std::int32_t>(blocks.size()),
                             static_cast<std::int32_t>(own.size())};
      std::int32_t& first = arguments_.first[owner];
      first = std::min(first, block.number);
      blocks.push_back(block);
      if (owner == rank_.index()) {
        own.push_back(block);
        // this column block of L, there and back
        flops_ += 4.0 * static_cast<double>(block.size) *
                  static_cast<double>(layout.size() - layout.eliminated(step) - done);
      }
    }
  }
  arguments_.count = static_cast<std::int32_t>(blocks.size());
  arguments_.own_count = static_cast<std::int32_t>(own.size());
  blocks.insert(blocks.end(), own.begin(), own.end());
  arguments_.blocks =
      rank_.upload(rank_.update(), blocks.data(), static_cast<std::int64_t>(blocks.size()));
  arguments_.own = arguments_.blocks + arguments_.count;
}

template <Scalar T>
void PersistentSolve<T>::clear() {
  const RunMemory& memory = memories_[runs_ % memories];
  rank_.kernels<T>().fill(rank_.update(), unwritten<T>(), memory.own);
  memory.peers->fence(rank_.update());
}

template <Scalar T>
void PersistentSolve<T>::start(MatrixView<T> b) {
  const RunMemory& memory = memories_[runs_++ % memories];
  arguments_.b = b.data();
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    arguments_.memory[r] = static_cast<T*>(memory.peers->of(r));
  }
  rank_.kernels<runtime::CholeskyKernels<T>>().persistent_solve(
      rank_.update(), arguments_, is_complex<T> ? 4 * flops_ : flops_);
}

template class PersistentSolve<float>;
template class PersistentSolve<double>;
template class PersistentSolve<std::complex<float>>;
template class PersistentSolve<std::complex<double>>;

}  // namespace shardsolve::dense::cholesky
