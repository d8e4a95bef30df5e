/// The upper triangle of what remains of a Hermitian matrix, from its lower one.
#pragma once

#include "dense/eigh/row_order.hpp"
#include "dense/eigh/wait_sites.hpp"
#include "mesh/rank.hpp"
#include "programs/bytes_of.hpp"
#include "runtime/band_kernels.hpp"

#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::dense::eigh {

/// Round i fills a part of the upper triangle: each rank sends the conjugate transpose of its i-th
/// few blocks of columns to the ranks that own those rows as columns. More is sent than is below
/// the diagonal; the receiver leaves the rest unused. While one round is on its way the next one is
/// packed.
template <Scalar T>
class Mirror {
 public:
  /// `slab`: the rank's columns, rows in elimination order.
  Mirror(mesh::Rank& rank, const SlabLayout& layout, const RowOrder<T>& order, MatrixView<T> slab)
      : rank_(rank),
        layout_(layout),
        order_(order),
        slab_(slab),
        band_kernels_(rank.kernels<runtime::BandKernels<T>>()) {
    if (rank.count() == 1) {
      return;
    }
    const std::int64_t columns = columns_at_once(layout);
    for (Slot& slot : slots_) {
      slot.outgoing = rank.workspace<T>(layout.size() * columns, 1);
      slot.incoming = rank.workspace<T>(slab.columns() * columns, rank.count());
      slot.packed = &rank.event();
      slot.arrived = &rank.event();
    }
  }

  /// Elements of workspace, of the rank that needs most.
  static std::int64_t elements(const SlabLayout& layout) {
    return layout.ranks() == 1 ? 0
                               : 2 * columns_at_once(layout) *
                                     (layout.size() + layout.ranks() * layout.max_width());
  }

  /// For the rows and columns that are left before `first`; of blocks on the diagonal nothing is
  /// changed. Enqueued behind and before what the update queue does; all ranks alike.
  void run(Step first) {
    if (rank_.count() == 1) {
      const std::int64_t done = layout_.eliminated(first);
      const std::int64_t left = layout_.size() - done;
      const MatrixView<T> rest = slab_.block(done, done, left, left);
      band_kernels_.mirror(rank_.update(), rest, rest, layout_.tile(), 0);
      return;
    }
    std::optional<Round> last;
    const std::int64_t step = blocks_at_once(layout_);
    for (std::int64_t block = 0; block < blocks(layout_.max_width()); block += step) {
      Round round = find_parts(first, block);
      if (!round.any) {
        continue;
      }
      pack(round);
      exchange(round);
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
  /// In one round, about, as whole blocks.
  static constexpr std::int64_t columns_of_round = 128;

  /// The columns that each rank gives in one round, which may be none, and the first of them and
  /// all behind it, which receive.
  struct Round {
    std::int64_t index = 0;
    std::vector<LocalRange> given;
    std::vector<LocalRange> receiving;
    bool any = false;
  };
  struct Slot {
    MatrixView<T> outgoing;
    MatrixView<T> incoming;  // one column a rank
    runtime::Event* packed = nullptr;
    runtime::Event* arrived = nullptr;
  };

  static std::int64_t blocks_at_once(const SlabLayout& layout) {
    return std::max<std::int64_t>(columns_of_round / layout.tile(), 1);
  }
  static std::int64_t columns_at_once(const SlabLayout& layout) {
    return std::min(blocks_at_once(layout) * layout.tile(), layout.max_width());
  }
  std::int64_t blocks(std::int64_t columns) const {
    return (columns + layout_.tile() - 1) / layout_.tile();
  }

  Round find_parts(Step first, std::int64_t block) const {
    Round round{.index = block / blocks_at_once(layout_), .given = {}, .receiving = {}};
    for (std::int64_t rank = 0; rank < rank_.count(); ++rank) {
      const LocalIndex end(layout_.width(rank));
      const LocalIndex begin = std::min(
          end, std::max(layout_.eliminated(rank, first), LocalIndex(block * layout_.tile())));
      const LocalIndex behind =
          std::clamp(LocalIndex((block + blocks_at_once(layout_)) * layout_.tile()), begin, end);
      round.given.push_back({begin, behind});
      round.receiving.push_back({begin, end});
      round.any = round.any || begin < behind;
    }
    return round;
  }
  static const LocalRange& of(const std::vector<LocalRange>& ranges, std::int64_t rank) {
    return ranges[static_cast<std::size_t>(rank)];
  }
  Slot& slot(const Round& round) { return slots_[static_cast<std::size_t>(round.index) % 2]; }

  /// What `from` gives to `to`, as it lies at the giver's; without gaps in `memory`.
  static MatrixView<T> piece(MatrixView<T> memory, std::int64_t offset, std::int64_t column,
                             const Round& round, std::int64_t from, std::int64_t to) {
    const std::int64_t rows = of(round.receiving, to).size();
    const std::int64_t columns = of(round.given, from).size();
    return {memory.block(offset, column, rows * columns, 1).data(), rows, columns};
  }
  MatrixView<T> outgoing(const Round& round, std::int64_t to) {
    const std::int64_t before = layout_.segment(to).begin.value() * columns_at_once(layout_);
    return piece(slot(round).outgoing, before, 0, round, rank_.index(), to);
  }
  /// What a rank gives to itself stays where it is packed.
  MatrixView<T> incoming(const Round& round, std::int64_t from) {
    return from == rank_.index() ? outgoing(round, from)
                                 : piece(slot(round).incoming, 0, from, round, from, rank_.index());
  }

  void pack(const Round& round) {
    const LocalRange& columns = of(round.given, rank_.index());
    const MatrixView<T> source = slab_.columns_from(columns.begin.value(), columns.size());
    for (std::int64_t to = 0; to < rank_.count(); ++to) {
      band_kernels_.permute_rows(rank_.update(),
                                 order_.positions(to, of(round.receiving, to).begin), source,
                                 outgoing(round, to));
    }
  }

  void exchange(const Round& round) {
    std::vector<comm::Bytes> send(static_cast<std::size_t>(rank_.count()));
    std::vector<comm::Bytes> receive(send.size());
    for (std::int64_t r = 0; r < rank_.count(); ++r) {
      if (r != rank_.index()) {
        send[static_cast<std::size_t>(r)] = programs::bytes_of(outgoing(round, r));
        receive[static_cast<std::size_t>(r)] = programs::bytes_of(incoming(round, r));
      }
    }
    rank_.update().record(*slot(round).packed);
    rank_.transfer().wait(*slot(round).packed, sites::mirror_packed);
    rank_.communicator().all_to_all(rank_.transfer(), std::move(send), std::move(receive));
    rank_.transfer().record(*slot(round).arrived);
  }

  void unpack(const Round& round) {
    rank_.update().wait(*slot(round).arrived, sites::mirror_arrived);
    const LocalRange& columns = of(round.receiving, rank_.index());
    const std::int64_t tile = layout_.tile();
    for (std::int64_t from = 0; from < rank_.count(); ++from) {
      const LocalRange& given = of(round.given, from);
      for (LocalIndex first = given.begin; first < given.end; first = first + tile) {
        const std::int64_t size = std::min(tile, given.end - first);
        // Block i of a rank comes before that of later ranks, which comes before its block i + 1.
        const std::int64_t ahead =
            blocks(columns.begin.value()) - blocks(first.value()) + (rank_.index() > from ? 1 : 0);
        band_kernels_.mirror(rank_.update(),
                             incoming(round, from).columns_from(first - given.begin, size),
                             slab_.block(layout_.position(layout_.global(from, first)).value(),
                                         columns.begin.value(), size, columns.size()),
                             tile, ahead);
      }
    }
  }

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  const RowOrder<T>& order_;
  MatrixView<T> slab_;
  const runtime::BandKernels<T>& band_kernels_;
  std::array<Slot, 2> slots_;  // one on its way, one being packed
};

}  // namespace shardsolve::dense::eigh
