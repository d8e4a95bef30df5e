#include "dense/shared/persistent_solve.hpp"

#include "programs/bytes_of.hpp"

#include <algorithm>
#include <bit>
#include <complex>
#include <cstdint>
#include <iterator>
#include <limits>
#include <type_traits>
#include <vector>

namespace shardsolve::dense {

using runtime::Op;
using runtime::SolveBlock;
using runtime::SolveSweep;

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

/// The same blocks from the last to the first, counted from there.
std::vector<SolveBlock> turned(std::vector<SolveBlock> blocks, const std::vector<SolveBlock>& own,
                               std::int64_t count) {
  std::reverse(blocks.begin(), blocks.end());
  for (SolveBlock& block : blocks) {
    const bool is_own = !own.empty() && block.owner == own.front().owner;
    block.row += block.size - 1;
    block.column += block.size - 1;
    block.number = static_cast<std::int32_t>(count) - 1 - block.number;
    block.before = static_cast<std::int32_t>(own.size()) - block.before - (is_own ? 1 : 0);
  }
  return blocks;
}

}  // namespace

template <Scalar T>
std::unique_ptr<PersistentSolve<T>> PersistentSolve<T>::make(mesh::Rank& rank,
                                                             const SlabLayout& layout,
                                                             MatrixView<const T> slab,
                                                             SlabOf what) {
  const std::int64_t block_rows = rank.kernels<T>().solve_block_rows();
  if (block_rows == 0 || rank.count() > SolveSweep::max_ranks || layout.size() == 0) {
    return nullptr;
  }
  std::unique_ptr<PersistentSolve> solve(new PersistentSolve(rank, layout, slab, what));
  const bool possible =
      std::all_of(solve->memories_.begin(), solve->memories_.end(),
                  [](const RunMemory& memory) { return memory.peers != nullptr; });
  return possible ? std::move(solve) : nullptr;
}

template <Scalar T>
PersistentSolve<T>::PersistentSolve(mesh::Rank& rank, const SlabLayout& layout,
                                    MatrixView<const T> slab, SlabOf what)
    : rank_(rank), what_(what) {
  arguments_.slab = slab;
  arguments_.rank = static_cast<std::int32_t>(rank.index());
  arguments_.ranks = static_cast<std::int32_t>(rank.count());
  arguments_.width = layout.max_width();
  list_blocks(layout, rank.kernels<T>().solve_block_rows());
  for (RunMemory& memory : memories_) {
    memory.own = rank.reachable_workspace<T>(
        persistent_solve_elements(what, layout.size(), arguments_.width, rank.count()), 1);
    memory.peers = rank.communicator().make_peer_memory(programs::bytes_of(memory.own));
  }
}

template <Scalar T>
void PersistentSolve<T>::list_blocks(const SlabLayout& layout, std::int64_t max_rows) {
  std::vector<SolveBlock> blocks;
  std::vector<SolveBlock> own;
  for (Step step(0); step.value() < layout.steps(); ++step) {
    const std::int64_t owner = layout.owner(step);
    const std::int64_t rows = layout.rows(step).size();
    const std::int64_t row =
        what_ == SlabOf::lu ? layout.eliminated(step) : layout.rows(step).begin.value();
    for (std::int64_t done = 0; done < rows; done += max_rows) {
      const SolveBlock block{row + done,
                             layout.columns(step).begin.value() + done,
                             static_cast<std::int32_t>(std::min(max_rows, rows - done)),
                             static_cast<std::int32_t>(owner),
                             static_cast<std::int32_t>(blocks.size()),
                             static_cast<std::int32_t>(own.size())};
      blocks.push_back(block);
      if (owner == rank_.index()) {
        own.push_back(block);
        // this column block of L, there and back, or of L and of U
        flops_ += static_cast<double>(block.size) *
                  (what_ == SlabOf::lu
                       ? 2.0 * static_cast<double>(layout.size())
                       : 4.0 * static_cast<double>(layout.size() - layout.eliminated(step) - done));
      }
    }
  }
  const auto count = static_cast<std::int64_t>(blocks.size());
  arguments_.count = static_cast<std::int32_t>(count);
  arguments_.own_count = static_cast<std::int32_t>(own.size());
  there_ = sweep_over(blocks, own);
  back_ = sweep_over(turned(blocks, own, count), turned(own, own, count));
}

template <Scalar T>
SolveSweep PersistentSolve<T>::sweep_over(const std::vector<SolveBlock>& blocks,
                                          const std::vector<SolveBlock>& own) {
  SolveSweep sweep;
  std::fill(std::begin(sweep.first), std::end(sweep.first),
            std::numeric_limits<std::int32_t>::max());
  for (const SolveBlock& block : blocks) {
    sweep.first[block.owner] = std::min(sweep.first[block.owner], block.number);
  }
  std::vector<SolveBlock> both = blocks;
  both.insert(both.end(), own.begin(), own.end());
  sweep.blocks = rank_.upload(rank_.update(), both.data(), static_cast<std::int64_t>(both.size()));
  sweep.own = sweep.blocks + blocks.size();
  return sweep;
}

template <Scalar T>
void PersistentSolve<T>::clear() {
  const RunMemory& memory = memories_[runs_ % memories];
  rank_.kernels<T>().fill(rank_.update(), unwritten<T>(), memory.own);
  memory.peers->fence(rank_.update());
}

template <Scalar T>
void PersistentSolve<T>::start(Op op, MatrixView<T> b) {
  const RunMemory& memory = memories_[runs_++ % memories];
  arguments_.b = b.data();
  SolveSweep& first = arguments_.sweeps[0] = there_;
  SolveSweep& second = arguments_.sweeps[1] = back_;
  if (what_ == SlabOf::cholesky) {  // L, L^H
    second.by_columns = true;
    second.conjugated = true;
  } else if (op == Op::none) {  // L, U
    first.unit = true;
  } else {  // U^T, L^T
    second.unit = true;
    first.by_columns = second.by_columns = true;
    first.conjugated = second.conjugated = op == Op::conjugate_transpose;
  }
  arguments_.second =
      first.by_columns ? arguments_.slab.rows() : (rank_.count() + 1) * arguments_.width;
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    arguments_.memory[r] = static_cast<T*>(memory.peers->of(r));
  }
  rank_.kernels<T>().persistent_solve(rank_.update(), arguments_,
                                      is_complex<T> ? 4 * flops_ : flops_);
}

std::int64_t persistent_solve_elements(SlabOf what, std::int64_t n, std::int64_t width,
                                       std::int64_t ranks) {
  const std::int64_t by_rows = (ranks + 1) * width;
  return what == SlabOf::cholesky ? by_rows + n : 2 * std::max(by_rows, n);
}

template class PersistentSolve<float>;
template class PersistentSolve<double>;
template class PersistentSolve<std::complex<float>>;
template class PersistentSolve<std::complex<double>>;

}  // namespace shardsolve::dense
