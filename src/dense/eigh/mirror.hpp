/// The upper triangle of what remains of a Hermitian matrix, from its lower one.
#pragma once

#include "dense/eigh/wait_sites.hpp"
#include "dense/shared/bytes_of.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::dense::eigh {

/// In round i every rank gives what stands below its block i to the ranks whose columns have the
/// numbers of these rows; there it stands above the diagonal, in the rows of the giver's block.
/// While one round is on its way the next one is packed.
template <Scalar T>
class Mirror {
 public:
  Mirror(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab)
      : rank_(rank), layout_(layout), slab_(slab), kernels_(rank.kernels<T>()) {
    if (rank.count() == 1) {
      return;
    }
    for (Slot& slot : slots_) {
      slot.outgoing = rank.workspace<T>(layout.size() * layout.tile(), 1);
      slot.incoming = rank.workspace<T>(slab.columns() * layout.tile(), rank.count());
      slot.packed = &rank.event();
      slot.arrived = &rank.event();
    }
  }

  /// For the rows and columns that are left before `first`; of blocks on the diagonal nothing is
  /// changed. Enqueued behind and before what the update queue does; all ranks alike.
  void run(Step first) {
    const std::int64_t rounds = (layout_.max_width() + layout_.tile() - 1) / layout_.tile();
    std::optional<Round> last;
    for (std::int64_t index = 0; index < rounds; ++index) {
      Round round = find_steps(first, index);
      if (!round.any) {
        continue;
      }
      pack(round);
      if (last) {
        unpack(*last);
      }
      last = std::move(round);
    }
    if (last) {
      unpack(*last);
    }
  }

 private:
  /// The step of each rank's block of one round; none for a rank that has run out or has not come
  /// to what is left.
  struct Round {
    std::int64_t index = 0;
    std::vector<std::optional<Step>> steps;
    bool any = false;
  };
  struct Slot {
    MatrixView<T> outgoing;
    MatrixView<T> incoming;  // one column a rank
    runtime::Event* packed = nullptr;
    runtime::Event* arrived = nullptr;
  };

  Round find_steps(Step first, std::int64_t index) const {
    Round round{index, std::vector<std::optional<Step>>(static_cast<std::size_t>(rank_.count())),
                false};
    for (Step step = first; step.value() < layout_.steps(); ++step) {
      if (layout_.columns(step).begin.value() == index * layout_.tile()) {
        round.steps[static_cast<std::size_t>(layout_.owner(step))] = step;
        round.any = true;
      }
    }
    return round;
  }
  static const std::optional<Step>& step_of(const Round& round, std::int64_t rank) {
    return round.steps[static_cast<std::size_t>(rank)];
  }
  Slot& slot(const Round& round) { return slots_[static_cast<std::size_t>(round.index) % 2]; }

  /// Columns of a rank after a step.
  LocalRange columns_after(std::int64_t rank, Step step) const {
    return {layout_.eliminated(rank, step + 1), LocalIndex(layout_.width(rank))};
  }
  /// What `from` gives to `to`, as the columns of `to` see it; without gaps in `memory`.
  MatrixView<T> piece(MatrixView<T> memory, std::int64_t offset, std::int64_t column,
                      const Round& round, std::int64_t from, std::int64_t to) const {
    const auto& step = step_of(round, from);
    const std::int64_t rows = step ? layout_.columns(*step).size() : 0;
    const std::int64_t columns = step ? columns_after(to, *step).size() : 0;
    return {memory.block(offset, column, rows * columns, 1).data(), rows, columns};
  }
  MatrixView<T> outgoing(const Round& round, std::int64_t to) {
    return piece(slot(round).outgoing, layout_.segment(to).begin.value() * layout_.tile(), 0, round,
                 rank_.index(), to);
  }
  MatrixView<T> incoming(const Round& round, std::int64_t from) {
    return piece(slot(round).incoming, 0, from, round, from, rank_.index());
  }
  /// Above the diagonal: the rows of the block that `step` eliminates, in this rank's later
  /// columns.
  MatrixView<T> above(Step step) const {
    const GlobalRange rows = layout_.rows(step);
    const LocalRange columns = columns_after(rank_.index(), step);
    return slab_.block(rows.begin.value(), columns.begin.value(), rows.size(), columns.size());
  }

  void pack(const Round& round) {
    if (const auto& step = step_of(round, rank_.index())) {
      const LocalRange block = layout_.columns(*step);
      for (std::int64_t to = 0; to < rank_.count(); ++to) {
        const LocalRange rows = columns_after(to, *step);
        const MatrixView<T> below = slab_.block(layout_.global(to, rows.begin).value(),
                                                block.begin.value(), rows.size(), block.size());
        kernels_.conjugate_transpose(rank_.update(), below,
                                     to == rank_.index() ? above(*step) : outgoing(round, to));
      }
    }
    if (rank_.count() > 1) {
      exchange(round);
    }
  }

  void exchange(const Round& round) {
    std::vector<comm::Bytes> send(static_cast<std::size_t>(rank_.count()));
    std::vector<comm::Bytes> receive(send.size());
    for (std::int64_t r = 0; r < rank_.count(); ++r) {
      if (r != rank_.index()) {
        send[static_cast<std::size_t>(r)] = bytes_of(outgoing(round, r));
        receive[static_cast<std::size_t>(r)] = bytes_of(incoming(round, r));
      }
    }
    rank_.update().record(*slot(round).packed);
    rank_.transfer().wait(*slot(round).packed, sites::mirror_packed);
    rank_.communicator().all_to_all(rank_.transfer(), std::move(send), std::move(receive));
    rank_.transfer().record(*slot(round).arrived);
  }

  void unpack(const Round& round) {
    if (rank_.count() == 1) {
      return;
    }
    rank_.update().wait(*slot(round).arrived, sites::mirror_arrived);
    for (std::int64_t from = 0; from < rank_.count(); ++from) {
      const auto& step = step_of(round, from);
      if (step && from != rank_.index()) {
        kernels_.copy(rank_.update(), incoming(round, from), above(*step));
      }
    }
  }

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<T> slab_;
  const runtime::Kernels<T>& kernels_;
  std::array<Slot, 2> slots_;  // one on its way, one being packed
};

}  // namespace shardsolve::dense::eigh
