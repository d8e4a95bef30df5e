#include "dense/shared/persistent_solve.hpp"

#include "core/each_dtype.hpp"
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

SolveLists solve_lists(const SlabLayout& layout, Factors what, std::int64_t rank,
                       std::int64_t max_rows) {
  SolveLists lists;
  std::vector<SolveBlock>& all = lists.all;
  std::int32_t own = 0;
  for (Step step(0); step.value() < layout.steps(); ++step) {
    const auto owner = static_cast<std::int32_t>(layout.owner(step));
    const std::int64_t row =
        what == Factors::l_and_u ? layout.eliminated(step) : layout.rows(step).begin.value();
    const std::int64_t column = layout.columns(step).begin.value();
    const std::int64_t rows = layout.rows(step).size();
    for (std::int64_t done = 0; done < rows;) {
      // Steps of a rank that follow each other are no ends of blocks.
      const bool goes_on = !all.empty() && all.back().owner == owner &&
                           all.back().row + all.back().size == row + done &&
                           all.back().column + all.back().size == column + done &&
                           all.back().size < max_rows;
      if (!goes_on) {
        all.push_back(
            {row + done, column + done, 0, owner, static_cast<std::int32_t>(all.size()), own});
        own += owner == rank ? 1 : 0;
      }
      const std::int64_t more = std::min(rows - done, max_rows - all.back().size);
      all.back().size += static_cast<std::int32_t>(more);
      done += more;
    }
  }
  std::copy_if(all.begin(), all.end(), std::back_inserter(lists.own),
               [rank](const SolveBlock& block) { return block.owner == rank; });
  return lists;
}

SolveLists turned(const SolveLists& lists) {
  const auto count = static_cast<std::int32_t>(lists.all.size());
  const auto own_count = static_cast<std::int32_t>(lists.own.size());
  const auto turn = [&](std::vector<SolveBlock> blocks) {
    std::reverse(blocks.begin(), blocks.end());
    for (SolveBlock& block : blocks) {
      const bool is_own = own_count > 0 && block.owner == lists.own.front().owner;
      block.row += block.size - 1;
      block.column += block.size - 1;
      block.number = count - 1 - block.number;
      block.before = own_count - block.before - (is_own ? 1 : 0);
    }
    return blocks;
  };
  return {turn(lists.all), turn(lists.own)};
}

template <Scalar T>
void describe_sweeps(Factors what, Op op, runtime::PersistentSolveArguments<T>& arguments) {
  SolveSweep& first = arguments.sweeps[0];
  SolveSweep& second = arguments.sweeps[1];
  first.by_columns = what == Factors::l_and_u && op != Op::none;
  second.by_columns = what == Factors::l_and_adjoint || op != Op::none;
  first.unit = what == Factors::l_and_u && op == Op::none;   // L, before U
  second.unit = what == Factors::l_and_u && op != Op::none;  // L^T, after U^T
  first.conjugated = first.by_columns && op == Op::conjugate_transpose;
  second.conjugated =
      what == Factors::l_and_adjoint || (second.by_columns && op == Op::conjugate_transpose);
  arguments.second =
      first.by_columns ? arguments.slab.rows() : (arguments.ranks + 1) * arguments.width;
}

namespace {

/// Of a rank, real ones: its columns of L, there and back, or of L and of U.
double flops_of(const SolveLists& lists, Factors what, std::int64_t n, std::int32_t rank) {
  double flops = 0.0;
  std::int64_t before = 0;
  for (const SolveBlock& block : lists.all) {
    if (block.owner == rank) {
      flops += static_cast<double>(block.size) * (what == Factors::l_and_u
                                                      ? 2.0 * static_cast<double>(n)
                                                      : 4.0 * static_cast<double>(n - before));
    }
    before += block.size;
  }
  return flops;
}

}  // namespace

template <Scalar T>
std::unique_ptr<PersistentSolve<T>> PersistentSolve<T>::make(mesh::Rank& rank,
                                                             const SlabLayout& layout,
                                                             MatrixView<const T> slab,
                                                             Factors what) {
  if (!rank.communicator().reaches_peers() || rank.count() > SolveSweep::max_ranks ||
      layout.size() == 0) {
    return nullptr;
  }
  std::unique_ptr<PersistentSolve> solve(new PersistentSolve(rank, what));
  return solve->prepare(layout, slab) ? std::move(solve) : nullptr;
}

template <Scalar T>
bool PersistentSolve<T>::prepare(const SlabLayout& layout, MatrixView<const T> slab) {
  const std::int64_t block_rows = rank_.kernels<T>().solve_block_rows();
  const std::int64_t needed =
      persistent_solve_elements(what_, layout.size(), layout.max_width(), rank_.count());
  bool is_everywhere = true;
  for (RunMemory& memory : memories_) {
    if (block_rows > 0) {
      memory.own = rank_.reachable_workspace<T>(needed, 1);
    }
    memory.peers = rank_.communicator().make_peer_memory(programs::bytes_of(memory.own));
    for (std::int64_t r = 0; r < rank_.count(); ++r) {
      is_everywhere = is_everywhere && memory.peers->of(r) != nullptr;
    }
  }
  if (!is_everywhere) {
    return false;
  }
  arguments_.slab = slab;
  arguments_.rank = static_cast<std::int32_t>(rank_.index());
  arguments_.ranks = static_cast<std::int32_t>(rank_.count());
  arguments_.width = layout.max_width();
  const SolveLists lists = solve_lists(layout, what_, rank_.index(), block_rows);
  flops_ = flops_of(lists, what_, layout.size(), arguments_.rank);
  arguments_.count = static_cast<std::int32_t>(lists.all.size());
  arguments_.own_count = static_cast<std::int32_t>(lists.own.size());
  there_ = sweep_over(lists);
  back_ = sweep_over(turned(lists));
  return true;
}

template <Scalar T>
SolveSweep PersistentSolve<T>::sweep_over(const SolveLists& lists) {
  SolveSweep sweep;
  std::fill(std::begin(sweep.first), std::end(sweep.first),
            std::numeric_limits<std::int32_t>::max());
  for (const SolveBlock& block : lists.all) {
    sweep.first[block.owner] = std::min(sweep.first[block.owner], block.number);
  }
  std::vector<SolveBlock> both = lists.all;
  both.insert(both.end(), lists.own.begin(), lists.own.end());
  sweep.blocks = rank_.upload(rank_.update(), both.data(), static_cast<std::int64_t>(both.size()));
  sweep.own = sweep.blocks + lists.all.size();
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
  arguments_.sweeps[0] = there_;
  arguments_.sweeps[1] = back_;
  describe_sweeps(what_, op, arguments_);
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    arguments_.memory[r] = static_cast<T*>(memory.peers->of(r));
  }
  rank_.kernels<T>().persistent_solve(rank_.update(), arguments_,
                                      is_complex<T> ? 4 * flops_ : flops_);
}

std::int64_t persistent_solve_elements(Factors what, std::int64_t n, std::int64_t width,
                                       std::int64_t ranks) {
  const std::int64_t by_rows = (ranks + 1) * width;
  return what == Factors::l_and_adjoint ? by_rows + n : 2 * std::max(by_rows, n);
}

std::int64_t persistent_solve_bytes(Factors what, const SlabLayout& layout, std::int64_t element) {
  constexpr std::int64_t least_block = 64;  // but for ends of steps
  const std::int64_t blocks = layout.size() / least_block + layout.steps();
  return 2 * (element * persistent_solve_elements(what, layout.size(), layout.max_width(),
                                                  layout.ranks()) +
              static_cast<std::int64_t>(2 * sizeof(SolveBlock)) * blocks);
}

#define SHARDSOLVE_INSTANTIATE(T)                                                    \
  template T unwritten<T>();                                                         \
  template void describe_sweeps(Factors, Op, runtime::PersistentSolveArguments<T>&); \
  template class PersistentSolve<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense
