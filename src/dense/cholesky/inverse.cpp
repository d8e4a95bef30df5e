// X = M^H M for M = L^-1, in one sweep from the last step to the first. At step t, with l11 the
// diagonal tile of the owner's block, the columns after t hold M already, and those up to t hold
//
//   s = -(M L)   below row block t, summed up over the columns of M that are there
//
// and what is left of L above it. Then column block t of M and row block t of X are made:
//
//   m11 = l11^-1                         ahead, all at once       owner, update queue
//   m21 = s21 l11^-1                     in place                 owner, panel queue
//   m   = [m11; m21] -> all ranks, packed transposed              transfer queue
//   r   = row block t of L, left of l11, s = 0 in its place       each rank its own columns,
//   s  -= m r            all rows from t on                       update queue
//   x   = m^H [m11 0; m21 m22]           row block t of X         likewise
//
// As in the factorisation, the column block of the next step is the exception: its owner's panel
// queue updates it, in chunks of rows. A row of M depends on no other row, so chunks follow each
// other through all steps.
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
// tiles of X, which M's still cover, wait in memory of their own.

#include "dense/cholesky/inverse.hpp"

#include "dense/cholesky/wait_sites.hpp"
#include "layout/panel_chunks.hpp"
#include "layout/staircase.hpp"
#include "programs/message_ring.hpp"
#include "programs/step_flags.hpp"
#include "runtime/cholesky_kernels.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace shardsolve::dense::cholesky {
namespace {

using layout::Batch;
using layout::Piece;
using layout::RowChunk;
using runtime::Op;
using runtime::Triangle;

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
        cholesky_(rank.kernels<runtime::CholeskyKernels<T>>()),
        tuning_(cholesky_.tuning(layout.tile())),
        flags_(rank),
        m_(rank, slots, layout.size() * layout.tile()),
        prepared_ready_(rank.event()),
        row_(rank.workspace<T>(max_packed_rows(), slab.columns())),
        next_row_(rank.workspace<T>(max_packed_rows(), layout.tile())),
        tile_(rank.workspace<T>(layout.tile(), layout.tile())),
        diagonal_tiles_(rank.workspace<T>(layout.tile(), slab.columns())),
        tiles_inverted_(rank.event()),
        column_ready_{&rank.event(), &rank.event()} {
    if (prepares_any()) {
      for (MatrixView<T>& prepared : prepared_) {
        prepared = rank.workspace<T>(max_packed_rows(), layout.size());
      }
    }
    if (layout.steps() > 0) {
      packed_.resize(chunks(Step(0)).size());
    }
    for (runtime::Event*& packed : packed_) {
      packed = &rank.event();
    }
    chunk_arrived_.resize(slots * packed_.size());
    for (runtime::Event*& arrived : chunk_arrived_) {
      arrived = &rank.event();
    }
  }

  void run() {
    const std::int64_t steps = layout_.steps();
    m_.begin(0, steps > 0 && owns(Step(steps - 1)));
    invert_tiles();
    for (turn_ = 0; turn_ < steps && flags_.may_enqueue(turn_); ++turn_) {
      const Step step(steps - 1 - turn_);
      rank_.set_step(step.value());
      rank_.report("invert", static_cast<double>(turn_) / static_cast<double>(steps));
      if (owns(step)) {
        make_column(step);
      }
      // The next column begins while this one is on its way.
      m_.await_done(turn_ + 1, sites::inverse_m_used);
      m_.begin(turn_ + 1, step.value() > 0 && owns(step - 1));
      send_column(step);
      prepare_column(step);
      update_columns(step);
      make_row_of_x(step);
    }
    flags_.finish(steps);
    flags_.throw_if_cancelled();
    put_diagonal_tiles();
  }

 private:
  /// Columns of M in memory: one being used, one arriving, one being made.
  static constexpr std::int64_t slots = 3;

  bool owns(Step step) const { return layout_.owner(step) == rank_.index(); }
  std::int64_t size(Step step) const { return layout_.columns(step).size(); }
  std::int64_t blocks() const { return (slab_.columns() + layout_.tile() - 1) / layout_.tile(); }
  /// First block of this rank that was eliminated after `step`.
  std::int64_t block_after(Step step) const {
    return (layout_.eliminated(rank_.index(), step + 1).value() + layout_.tile() - 1) /
           layout_.tile();
  }
  /// Rows of a chunk; one rank waits for none.
  std::int64_t chunk_rows() const {
    return layout_.ranks() == 1 ? layout_.size()
                                : std::max(layout_.size() / 8, tuning_.least_inverse_panel_rows);
  }
  std::vector<RowChunk> chunks(Step step) const {
    return layout::segment_chunks(layout_, step, chunk_rows());
  }
  /// Complete when that chunk of the column of that turn is on this rank.
  runtime::Event& chunk_arrived(std::int64_t turn, std::size_t chunk) const {
    return *chunk_arrived_[static_cast<std::size_t>(turn % slots) * packed_.size() + chunk];
  }

  /// The packed column of M that this turn makes, m^H: its columns are the rows of
  /// SlabLayout::rows_from(step).
  MatrixView<T> m(Step step) const {
    return m_.payload(turn_of(step), layout_.owner(step), 0, size(step),
                      layout_.size() - layout_.eliminated(step));
  }
  std::int64_t turn_of(Step step) const { return layout_.steps() - 1 - step.value(); }
  /// Whether updates take it in another form than products do.
  bool prepares(Step step) const { return cholesky_.packed_rows(size(step)) > size(step); }
  /// The form that updates take.
  MatrixView<T> left_panel(Step step) const {
    return prepares(step) ? panel_in(prepared_[turn_of(step) % 2], step, m(step).columns())
                          : m(step);
  }
  /// m11^H. In a product of a column of M and a row block of L the numbers of one term may be as
  /// large and as small as A's scaling makes them; with the powers of two of m11's diagonal they
  /// are of one size, as forms that keep few digits of small numbers need it.
  MatrixView<T> scales(Step step) const {
    const RowRun run = layout_.rows_from(step)[static_cast<std::size_t>(layout_.owner(step))];
    return m(step).columns_from(run.packed, size(step));
  }
  bool prepares_any() const {
    bool any = false;
    for (Step step(0); step.value() < layout_.steps(); ++step) {
      any = any || prepares(step);
    }
    return any;
  }
  std::int64_t max_packed_rows() const {
    std::int64_t most = layout_.tile();
    for (Step step(0); step.value() < layout_.steps(); ++step) {
      most = std::max(most, cholesky_.packed_rows(size(step)));
    }
    return most;
  }
  /// Room for a panel of `step` of so many columns.
  MatrixView<T> panel_in(MatrixView<T> memory, Step step, std::int64_t columns) const {
    return MatrixView<T>(memory.data(), cholesky_.packed_rows(size(step)), columns)
        .block(0, 0, size(step), columns);
  }

  /// Some rows of the column block of `step`.
  MatrixView<T> column(Step step, GlobalRange rows) const {
    const LocalRange columns = layout_.columns(step);
    return slab_.block(rows.begin.value(), columns.begin.value(), rows.size(), columns.size());
  }
  /// Row block `step` in some columns of the slab.
  MatrixView<T> row(Step step, LocalRange columns) const {
    const GlobalRange rows = layout_.rows(step);
    return slab_.block(rows.begin.value(), columns.begin.value(), rows.size(), columns.size());
  }

  /// All m11 of this rank at once, to where their tiles of X will be. The update queue has nothing
  /// else to do yet, and room for the tiles of L.
  void invert_tiles() {
    const std::int64_t tile = layout_.tile();
    const GlobalIndex first = layout_.segment(rank_.index()).begin;
    const auto l11 = [&](std::int64_t column, std::int64_t size) {
      return MatrixView<T>(row_.data() + column * tile, size, size);
    };
    const auto invert = [&](std::int64_t column, std::int64_t size, std::int64_t count) {
      cholesky_.invert(rank_.update(), l11(column, size),
                       diagonal_tiles_.block(0, column, size, size),
                       {.count = count, .a = tile * tile, .c = tile * tile});
    };
    const std::int64_t whole = slab_.columns() / tile;
    const std::int64_t left = slab_.columns() % tile;
    for (std::int64_t block = 0; block < blocks(); ++block) {
      const std::int64_t column = block * tile;
      const std::int64_t size = block < whole ? tile : left;
      kernels_.lower_triangle(rank_.update(),
                              slab_.block(first.value() + column, column, size, size),
                              l11(column, size));
    }
    if (whole > 0) {
      invert(0, tile, whole);
    }
    if (left > 0) {
      invert(whole * tile, left, 1);
    }
    rank_.update().record(tiles_inverted_);
  }

  void make_column(Step step) {
    const GlobalRange tile_rows = layout_.rows(step);
    m_.await_free(rank_.panel(), sites::inverse_m_slot_free);
    m_.stamp(rank_.panel(), turn_);
    const MatrixView<T> l11(tile_.data(), size(step), size(step));
    const MatrixView<T> m11 = column(step, tile_rows);
    kernels_.lower_triangle(rank_.panel(), m11, l11);
    if (turn_ >= 2) {
      rank_.panel().wait(*column_ready_[turn_ % 2], sites::inverse_column_ready);
    }
    MatrixView<T> r;
    if (turn_ > 0) {
      r = take_row(rank_.panel(), step + 1, layout_.columns(step), next_row_);
    }
    const RowRun own = layout_.rows_from(step)[static_cast<std::size_t>(rank_.index())];
    rank_.panel().wait(tiles_inverted_, sites::inverse_tiles);
    kernels_.copy(rank_.panel(), diagonal_tile(step), m11);
    kernels_.conjugate_transpose(rank_.panel(), m11, m(step).columns_from(own.packed, size(step)));
    const std::vector<RowChunk> all = chunks(step);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const RowChunk& chunk = all[i];
      if (chunk.rows.empty()) {
        continue;
      }
      const bool has_tile = chunk.rows.begin == tile_rows.begin;
      const GlobalRange below{has_tile ? tile_rows.end : chunk.rows.begin, chunk.rows.end};
      if (!below.empty()) {
        rank_.panel().wait(chunk_arrived(turn_ - 1, i), sites::inverse_column_arrived);
        update_column(step, below, r);
        const std::int64_t first = chunk.packed + (below.begin - chunk.rows.begin);
        cholesky_.inverse_panel(rank_.panel(), l11, m11, column(step, below),
                                m(step).columns_from(first, below.size()));
      }
      rank_.panel().record(*packed_[i]);
    }
  }

  /// Row block `step` of L in some columns, packed in `memory`; s begins in its place.
  MatrixView<T> take_row(runtime::Queue& queue, Step step, LocalRange columns,
                         MatrixView<T> memory) const {
    const MatrixView<T> r = panel_in(memory, step, columns.size());
    if (prepares(step)) {
      kernels_.scale_rows(queue, scales(step), false, row(step, columns), r);
      cholesky_.prepare_updates(queue, r);
    } else {
      kernels_.copy(queue, row(step, columns), r);
    }
    kernels_.fill(queue, T{0}, row(step, columns));
    return r;
  }

  /// s -= m r in rows of the column block of `step`, with the column of M made before.
  void update_column(Step step, GlobalRange rows, MatrixView<T> r) const {
    const Step last = step + 1;
    const std::int64_t segment = layout_.owner(rows.begin);
    const RowRun run = layout_.rows_from(last)[static_cast<std::size_t>(segment)];
    cholesky_.update(rank_.panel(), left_panel(last), r,
                     {{.left = run.packed + (rows.begin - run.rows.begin),
                       .right = 0,
                       .c = column(step, rows)}});
  }

  void send_column(Step step) {
    const std::int64_t owner = layout_.owner(step);
    const std::vector<RowChunk> all = chunks(step);
    bool is_first = true;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const RowChunk& chunk = all[i];
      if (chunk.rows.empty()) {
        continue;
      }
      if (owns(step)) {
        rank_.transfer().wait(*packed_[i], sites::inverse_m_packed);
      }
      if (is_first) {
        m_.publish(turn_, owner, 0);
        flags_.receive(turn_, m_.header(turn_, owner));
        is_first = false;
      }
      m_.publish_part(turn_, owner, size(step) * chunk.packed, size(step) * chunk.rows.size());
      rank_.transfer().record(chunk_arrived(turn_, i));
    }
    rank_.transfer().record(m_.arrived(turn_));
  }

  void prepare_column(Step step) {
    if (!prepares(step)) {
      return;
    }
    // By then this rank has used the column of two turns ago: see m_.await_done.
    rank_.panel().wait(m_.arrived(turn_), sites::inverse_prepared_arrived);
    kernels_.scale_rows(rank_.panel(), scales(step), true, m(step), left_panel(step));
    cholesky_.prepare_updates(rank_.panel(), left_panel(step));
    rank_.panel().record(prepared_ready_);
    rank_.update().wait(prepared_ready_, sites::inverse_prepared);
  }

  /// s -= m r in all columns of this rank that are left but those of the next step; first in those
  /// that it needs next.
  void update_columns(Step step) {
    rank_.update().wait(m_.arrived(turn_), sites::inverse_m_arrived);
    const LocalIndex end =
        step.value() == 0 ? LocalIndex(0) : layout_.eliminated(rank_.index(), step - 1);
    if (end.value() == 0) {
      return;
    }
    const LocalIndex first((end.value() - 1) / layout_.tile() * layout_.tile());
    const MatrixView<T> r = take_row(rank_.update(), step, {LocalIndex(0), end}, row_);
    update(step, {first, end}, r);
    rank_.update().record(*column_ready_[turn_ % 2]);
    update(step, {LocalIndex(0), first}, r);
  }
  void update(Step step, LocalRange columns, MatrixView<T> r) const {
    std::vector<runtime::PanelUpdate<T>> updates;
    for (const RowRun& run : layout_.rows_from(step)) {
      updates.push_back({.left = run.packed,
                         .right = columns.begin.value(),
                         .c = slab_.block(run.rows.begin.value(), columns.begin.value(),
                                          run.rows.size(), columns.size())});
    }
    cholesky_.update(rank_.update(), left_panel(step), r, updates);
  }

  void make_row_of_x(Step step) {
    const std::vector<RowRun> runs = layout_.rows_from(step);
    const GlobalRange x_rows = layout_.rows(step);
    const std::int64_t first = layout_.eliminated(rank_.index(), step + 1).value();
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
      const MatrixView<T> left =
          m(step).columns_from(run.packed + (piece.rows.begin - run.rows.begin), piece.rows.size());
      const runtime::BatchStrides strides{batch.count, batch.distance * size(step),
                                          batch.distance * (m22.stride() + 1),
                                          batch.distance * x.stride()};
      kernels_.gemm_batch(rank_.update(), Op::none, Op::none, T{1}, left, m22, T{1},
                          x.columns_from(piece.columns.begin.value() - first, piece.columns.size()),
                          strides);
    }
    rank_.update().record(m_.done(turn_));
  }

  /// x11 = m^H m, in the upper triangle; m11, which leads the owner's run, comes last.
  void make_diagonal_tile(Step step, const std::vector<RowRun>& runs) {
    const MatrixView<T> tile = diagonal_tile(step);
    kernels_.fill(rank_.update(), T{0}, tile);
    MatrixView<T> m11;
    for (const RowRun& run : runs) {
      MatrixView<T> part = m(step).columns_from(run.packed, run.rows.size());
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
      const MatrixView<T> left =
          m11.columns_from(piece.rows.begin - layout_.rows(step).begin, piece.rows.size());
      const runtime::BatchStrides strides{batch.count, batch.distance * left.stride(),
                                          batch.distance * (left.stride() + 1),
                                          batch.distance * tile.stride()};
      kernels_.gemm_batch(rank_.update(), Op::none, Op::conjugate_transpose, T{1}, left,
                          left.block(column, 0, piece.columns.size(), left.columns()), T{1},
                          tile.columns_from(column, piece.columns.size()), strides);
    }
  }
  MatrixView<T> diagonal_tile(Step step) const {
    return diagonal_tiles_.block(0, layout_.columns(step).begin.value(), size(step), size(step));
  }

  void put_diagonal_tiles() {
    for (Step step(0); step.value() < layout_.steps(); ++step) {
      if (owns(step)) {
        kernels_.copy(rank_.update(), diagonal_tile(step), row(step, layout_.columns(step)));
      }
    }
  }

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<T> slab_;
  const runtime::Kernels<T>& kernels_;
  const runtime::CholeskyKernels<T>& cholesky_;
  const runtime::CholeskyTuning tuning_;
  std::int64_t turn_ = 0;  // steps done; messages are numbered by it
  std::int64_t square_ = square_in(layout_.tile());
  programs::StepFlags flags_;
  programs::MessageRing<T> m_;
  std::array<MatrixView<T>, 2> prepared_;  // columns of M in the form that updates take, in turn
  runtime::Event& prepared_ready_;
  MatrixView<T> row_;                    // of L, in the columns that the update queue updates
  MatrixView<T> next_row_;               // in those that the panel queue does
  MatrixView<T> tile_;                   // l11
  MatrixView<T> diagonal_tiles_;         // of X, side by side; before, those of M
  runtime::Event& tiles_inverted_;       // all of this rank
  std::vector<runtime::Event*> packed_;  // a chunk of the owner's column is
  std::vector<runtime::Event*> chunk_arrived_;  // one a slot and chunk
  // The next own column block has all its updates but the last. Two events, for even and odd turns:
  // the update queue may have gone one turn further.
  std::array<runtime::Event*, 2> column_ready_;
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

}  // namespace shardsolve::dense::cholesky
