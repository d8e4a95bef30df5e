// X = M^H M for M = L^-1, in one sweep from the last step to the first. At step t, with l11 the
// diagonal tile of the owner's block and l21 the rows below it, the rows below in M are known
// (m22), and column block t of M and row block t of X are made:
//
//   l   = [l11; l21] -> all ranks                               owner, panel queue
//   s   = -(m22 l21)          each rank from its own columns     panel queue
//   m21 = s l11^-1            shares summed, each rank the rows of its segment; m11 = l11^-1
//   m   = [m11; m21] -> all ranks; the owner puts it in place of l
//   x   = m^H [m11 0; m21 m22]   row block t, each rank its own columns, update queue
//
// From the last step to the first because X = M^H M needs M L = I to be accurate: the other way
// round makes L M = I accurate, and X is worse by about the square root of the condition number.
//
// The term of x_ij with an entry on M's diagonal is as a rule by far the largest. Terms that are
// added to it one by one each cost a rounding of that size, terms that have been added up before
// cost one: so what lies on diagonals comes last, in narrow squares. For Gaussian kernels the
// residual of X is then 1 to 3 u instead of 3 to 10 u.
//
// In elimination order M lies in the lower triangle, X grows in the upper one, and the diagonal
// tiles of X, which M's still cover, wait in memory of their own. What travels is packed
// transposed, like the panels of the factorisation.

#include "dense/inverse.hpp"

#include "dense/bytes_of.hpp"
#include "dense/message_ring.hpp"
#include "dense/step_flags.hpp"
#include "dense/wait_sites.hpp"
#include "layout/staircase.hpp"

#include <vector>

namespace shardsolve::dense {
namespace {

using layout::Batch;
using layout::Piece;
using runtime::Op;
using runtime::Side;
using runtime::Triangle;

/// Of l and of m: one being used, one arriving.
constexpr std::int64_t slots = 2;

/// Columns of these squares: 16, or a few less if that divides a tile. Then those of all tiles are
/// equally far apart and few batches.
std::int64_t square_in(std::int64_t tile) {
  constexpr std::int64_t widest = 16;
  constexpr std::int64_t narrowest = 8;
  for (std::int64_t square = widest; square >= narrowest; --square) {
    if (tile % square == 0) {
      return square;
    }
  }
  return widest;
}

template <Scalar T>
class Inverse {
 public:
  Inverse(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab)
      : rank_(rank),
        layout_(layout),
        slab_(slab),
        kernels_(rank.kernels<T>()),
        flags_(rank),
        l_(rank, slots, layout.size() * layout.tile()),
        m_(rank, slots, layout.size() * layout.tile()),
        shares_(rank.workspace<T>(layout.size() * layout.tile(), 1)),
        incoming_(rank.workspace<T>(slab.columns() * layout.tile(), rank.count())),
        diagonal_tiles_(rank.workspace<T>(layout.tile(), slab.columns())),
        packed_(rank.event()),
        shares_ready_(rank.event()),
        part_ready_(rank.event()),
        finished_(rank.event()) {}

  void run() {
    const std::int64_t steps = layout_.steps();
    for (turn_ = 0; turn_ < steps && flags_.may_enqueue(turn_); ++turn_) {
      const Step step(steps - 1 - turn_);
      rank_.set_step(step.value());
      rank_.report("invert", static_cast<double>(turn_) / static_cast<double>(steps));
      send_column_of_l(step);
      add_up_shares(step);
      send_column_of_m(step);
      make_row_of_x(step);
    }
    flags_.finish(steps);
    flags_.throw_if_cancelled();
    put_diagonal_tiles();
  }

 private:
  bool owns(Step step) const { return layout_.owner(step) == rank_.index(); }
  std::int64_t size(Step step) const { return layout_.columns(step).size(); }
  std::int64_t blocks() const { return (slab_.columns() + layout_.tile() - 1) / layout_.tile(); }
  /// First block of this rank that was eliminated after `step`.
  std::int64_t block_after(Step step) const {
    return (layout_.eliminated(rank_.index(), step + 1).value() + layout_.tile() - 1) /
           layout_.tile();
  }

  /// A packed column: its rows are those of SlabLayout::rows_from(step), its height a tile's.
  MatrixView<T> l(Step step) const { return l_rows(step, 0, rows(step)); }
  MatrixView<T> l_rows(Step step, std::int64_t first, std::int64_t count) const {
    return l_.payload(turn_, layout_.owner(step), first * size(step), size(step), count);
  }
  std::int64_t rows(Step step) const { return layout_.size() - layout_.eliminated(step); }
  /// The part of m that one rank makes: the rows of its segment.
  MatrixView<T> m_part(Step step, const RowRun& run) const {
    return m_.payload(turn_, run.rank, run.packed * size(step), size(step), run.rows.size());
  }
  /// Rows of m, inside one segment, given by their place.
  MatrixView<T> m_rows(Step step, std::int64_t segment, std::int64_t first,
                       std::int64_t count) const {
    return m_.payload(turn_, segment, first * size(step), size(step), count);
  }
  MatrixView<T> share(Step step, std::int64_t first, std::int64_t count) const {
    return {shares_.data() + first * size(step), size(step), count};
  }
  /// The rows of the slab that `run` stands for, in the columns of `step`.
  MatrixView<T> column(Step step, const RowRun& run) const {
    const LocalRange columns = layout_.columns(step);
    return slab_.block(run.rows.begin.value(), columns.begin.value(), run.rows.size(),
                       columns.size());
  }

  void send_column_of_l(Step step) {
    // The panel queue may write to the slot at once: it has waited for the shares of the last turn
    // (await_free of m), which each rank sends when it has read the l of the turn before, the
    // slot's last.
    l_.begin(turn_, owns(step));
    if (owns(step)) {
      l_.stamp(rank_.panel(), turn_);
      for (const RowRun& run : layout_.rows_from(step)) {
        kernels_.conjugate_transpose(rank_.panel(), column(step, run),
                                     l_rows(step, run.packed, run.rows.size()));
      }
      rank_.panel().record(packed_);
      rank_.transfer().wait(packed_, sites::inverse_l_packed);
    }
    const std::int64_t owner = layout_.owner(step);
    l_.publish(turn_, owner, size(step) * rows(step));
    flags_.receive(turn_, l_.header(turn_, owner));
    rank_.transfer().record(l_.arrived(turn_));
  }

  /// s^H = -(l21^H m22^H) from this rank's columns, then everybody's for the rows of this segment.
  void add_up_shares(Step step) {
    const std::vector<RowRun> runs = layout_.rows_from(step);
    const auto place = [&](std::int64_t segment, GlobalIndex row) {
      const RowRun& run = runs[static_cast<std::size_t>(segment)];
      return run.packed + (row - run.rows.begin);
    };
    rank_.panel().wait(l_.arrived(turn_), sites::inverse_l_arrived);
    kernels_.fill(rank_.panel(), T{0}, share(step, 0, rows(step)));
    for (const Batch& batch : layout::in_batches(
             layout::lower_staircase(layout_, rank_.index(), block_after(step), blocks()))) {
      const Piece& piece = batch.first;
      const MatrixView<T> m22 = slab_.block(piece.rows.begin.value(), piece.columns.begin.value(),
                                            piece.rows.size(), piece.columns.size());
      const MatrixView<T> l21 =
          l_rows(step, place(rank_.index(), layout_.global(rank_.index(), piece.columns.begin)),
                 piece.columns.size());
      const runtime::Steps steps{batch.count, batch.distance * size(step),
                                 batch.distance * (m22.stride() + 1), batch.distance * size(step)};
      kernels_.gemm_batch(rank_.panel(), Op::none, Op::conjugate_transpose, T{-1}, l21, m22, T{1},
                          share(step, place(piece.segment, piece.rows.begin), piece.rows.size()),
                          steps);
    }
    rank_.panel().record(shares_ready_);

    std::vector<comm::Bytes> send;
    std::vector<comm::Bytes> receive;
    for (const RowRun& run : runs) {
      send.push_back(bytes_of(share(step, run.packed, run.rows.size())));
      receive.push_back(bytes_of(incoming(step, run.rank)));
    }
    rank_.transfer().wait(shares_ready_, sites::inverse_shares_ready);
    rank_.communicator().all_to_all(rank_.transfer(), std::move(send), std::move(receive));
  }

  /// What `from` has summed up for the rows of this rank's segment.
  MatrixView<T> incoming(Step step, std::int64_t from) const {
    const std::int64_t count = slab_.columns() - layout_.eliminated(rank_.index(), step).value();
    return {incoming_.columns_from(from, 1).data(), size(step), count};
  }

  /// m^H = l11^-H s^H (l11^-H itself in the rows of the step), from each rank to all.
  void send_column_of_m(Step step) {
    const std::vector<RowRun> runs = layout_.rows_from(step);
    const RowRun& own = runs[static_cast<std::size_t>(rank_.index())];
    // Behind the exchange of the shares on the transfer queue: when the slot is free, they are
    // here.
    m_.await_done(turn_, sites::inverse_m_used);
    m_.begin(turn_, true);
    m_.await_free(rank_.panel(), sites::inverse_m_slot_free);
    const MatrixView<T> part = m_part(step, own);
    kernels_.copy(rank_.panel(), share(step, own.packed, own.rows.size()), part);
    for (const RowRun& run : runs) {
      if (run.rank != rank_.index()) {
        kernels_.add(rank_.panel(), T{1}, incoming(step, run.rank), part);
      }
    }
    if (owns(step)) {
      kernels_.identity(rank_.panel(), part.columns_from(0, size(step)));
    }
    // l11 leads the owner's run
    const RowRun& owners = runs[static_cast<std::size_t>(layout_.owner(step))];
    kernels_.trsm(rank_.panel(), Side::left, Triangle::upper, Op::none,
                  l_rows(step, owners.packed, size(step)), part);
    rank_.panel().record(part_ready_);

    std::vector<std::int64_t> offsets;
    offsets.reserve(runs.size() + 1);
    for (const RowRun& run : runs) {
      offsets.push_back(run.packed * size(step));
    }
    offsets.push_back(rows(step) * size(step));
    rank_.transfer().wait(part_ready_, sites::inverse_part_ready);
    m_.publish_parts(turn_, offsets);
    rank_.transfer().record(m_.arrived(turn_));
    if (owns(step)) {
      // M in place of L; above the diagonal of the tile come the zeros of m11
      rank_.panel().wait(m_.arrived(turn_), sites::inverse_m_stored);
      for (const RowRun& run : runs) {
        kernels_.conjugate_transpose(rank_.panel(), m_part(step, run), column(step, run));
      }
    }
  }

  void make_row_of_x(Step step) {
    const std::vector<RowRun> runs = layout_.rows_from(step);
    const GlobalRange x_rows = layout_.rows(step);
    const std::int64_t first = layout_.eliminated(rank_.index(), step + 1).value();
    rank_.update().wait(m_.arrived(turn_), sites::inverse_m_arrived);
    if (owns(step)) {
      make_diagonal_tile(step, runs);
    }
    const MatrixView<T> x =
        slab_.block(x_rows.begin.value(), first, x_rows.size(), slab_.columns() - first);
    kernels_.fill(rank_.update(), T{0}, x);
    for (const Batch& batch : layout::in_batches(layout::lower_staircase(
             layout_, rank_.index(), block_after(step), blocks(), square_))) {
      const Piece& piece = batch.first;
      const RowRun& run = runs[static_cast<std::size_t>(piece.segment)];
      const MatrixView<T> m22 = slab_.block(piece.rows.begin.value(), piece.columns.begin.value(),
                                            piece.rows.size(), piece.columns.size());
      const MatrixView<T> m = m_rows(
          step, piece.segment, run.packed + (piece.rows.begin - run.rows.begin), piece.rows.size());
      const runtime::Steps steps{batch.count, batch.distance * size(step),
                                 batch.distance * (m22.stride() + 1), batch.distance * x.stride()};
      kernels_.gemm_batch(rank_.update(), Op::none, Op::none, T{1}, m, m22, T{1},
                          x.columns_from(piece.columns.begin.value() - first, piece.columns.size()),
                          steps);
    }
    rank_.update().record(m_.done(turn_));
  }

  /// x11 = m^H m, in the upper triangle; m11, which leads the owner's run, comes last.
  void make_diagonal_tile(Step step, const std::vector<RowRun>& runs) {
    const MatrixView<T> tile = diagonal_tile(step);
    kernels_.fill(rank_.update(), T{0}, tile);
    MatrixView<T> m11;
    for (const RowRun& run : runs) {
      MatrixView<T> part = m_part(step, run);
      if (run.rank == rank_.index()) {
        m11 = part.columns_from(0, size(step));
        part = part.columns_from(size(step), part.columns() - size(step));
      }
      kernels_.herk(rank_.update(), Triangle::upper, Op::none, 1, part, 1, tile);
    }
    const LocalRange columns = layout_.columns(step);
    const std::int64_t block = columns.begin.value() / layout_.tile();
    for (const Batch& batch :
         layout::in_batches(layout::lower_tile(layout_, rank_.index(), block, square_))) {
      const Piece& piece = batch.first;
      const std::int64_t column = piece.columns.begin - columns.begin;
      const MatrixView<T> m =
          m11.columns_from(piece.rows.begin - layout_.rows(step).begin, piece.rows.size());
      const runtime::Steps steps{batch.count, batch.distance * m.stride(),
                                 batch.distance * (m.stride() + 1), batch.distance * tile.stride()};
      kernels_.gemm_batch(rank_.update(), Op::none, Op::conjugate_transpose, T{1}, m,
                          m.block(column, 0, piece.columns.size(), m.columns()), T{1},
                          tile.columns_from(column, piece.columns.size()), steps);
    }
  }
  MatrixView<T> diagonal_tile(Step step) const {
    return diagonal_tiles_.block(0, layout_.columns(step).begin.value(), size(step), size(step));
  }

  void put_diagonal_tiles() {
    rank_.panel().record(finished_);
    rank_.update().wait(finished_, sites::inverse_finished);
    for (Step step(0); step.value() < layout_.steps(); ++step) {
      if (owns(step)) {
        const LocalRange columns = layout_.columns(step);
        kernels_.copy(rank_.update(), diagonal_tile(step),
                      slab_.block(layout_.rows(step).begin.value(), columns.begin.value(),
                                  columns.size(), columns.size()));
      }
    }
  }

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<T> slab_;
  const runtime::Kernels<T>& kernels_;
  std::int64_t turn_ = 0;  // steps done; messages are numbered by it
  std::int64_t square_ = square_in(layout_.tile());
  StepFlags flags_;
  MessageRing<T> l_;
  MessageRing<T> m_;
  MatrixView<T> shares_;          // this rank's s^H, all rows
  MatrixView<T> incoming_;        // everybody's for this rank's rows; one column a rank
  MatrixView<T> diagonal_tiles_;  // of X, side by side
  runtime::Event& packed_;
  runtime::Event& shares_ready_;
  runtime::Event& part_ready_;
  runtime::Event& finished_;
};

}  // namespace

template <Scalar T>
void inverse(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab) {
  Inverse<T>(rank, layout, slab).run();
}

template void inverse(mesh::Rank&, const SlabLayout&, MatrixView<float>);
template void inverse(mesh::Rank&, const SlabLayout&, MatrixView<double>);
template void inverse(mesh::Rank&, const SlabLayout&, MatrixView<std::complex<float>>);
template void inverse(mesh::Rank&, const SlabLayout&, MatrixView<std::complex<double>>);

}  // namespace shardsolve::dense
