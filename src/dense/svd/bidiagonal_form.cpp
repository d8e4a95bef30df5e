// The reduction is LAPACK's, a panel of columns and rows at a time (gebrd): what is done to one
// column needs products of the rest of A with two vectors, the rest itself is updated by products
// of matrices once a panel. One sum over the ranks a column (host/bidiagonal_kernels.cpp), all on
// the transfer queue, where a rank's own work and its messages follow each other anyway.

#include "dense/svd/bidiagonal_form.hpp"

#include "core/each_dtype.hpp"
#include "dense/qr/first_rank.hpp"
#include "programs/bytes_of.hpp"
#include "programs/step_flags.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace shardsolve::dense::svd {
namespace {

using runtime::Op;

/// Columns of a panel: LAPACK's number.
constexpr std::int64_t panel_columns = 32;

/// So that rows, or columns, are eliminated one of each rank in turn.
SlabLayout in_turn(const SlabLayout& layout) { return {layout.boundaries(), 1}; }

/// What a rank gives for a column, or for a panel of reflectors on vectors.
std::int64_t most_shared(std::int64_t size, bool with_vectors) {
  const std::int64_t width = std::min(panel_columns, size);
  return std::max(2 * size + 2 * width, with_vectors ? width * (size + width) : 0);
}

/// The places of a rank's rows, or columns, in the order of elimination.
const std::int64_t* places_of(mesh::Rank& rank, const SlabLayout& layout, std::int64_t owner) {
  std::vector<std::int64_t> places;
  const GlobalRange own = layout.segment(owner);
  for (GlobalIndex i = own.begin; i < own.end; ++i) {
    places.push_back(layout.position(i).value());
  }
  return rank.upload(rank.transfer(), places.data(), own.size());
}

}  // namespace

template <Scalar T>
BidiagonalForm<T>::BidiagonalForm(mesh::Rank& rank, const SlabLayout& rows,
                                  const SlabLayout& columns, bool with_vectors)
    : rank_(rank),
      rows_(in_turn(rows)),
      columns_(in_turn(columns)),
      kernels_(rank.kernels<Kernels>()),
      own_columns_(places_of(rank, columns_, rank.index())) {
  const std::int64_t n = size();
  const std::int64_t width = std::min(panel_columns, n);
  a_ = rank.workspace<Wide>(rows.width(rank.index()), n);
  x_ = rank.workspace<Wide>(a_.rows(), width);
  y_ = rank.workspace<Wide>(n, width);
  u_ = rank.workspace<Wide>(n, width);
  diagonals_ = rank.workspace<double>(n, 2);
  tau_ = rank.workspace<Wide>(n, 2);
  shares_ = rank.workspace<Wide>(most_shared(n, with_vectors), rank.count());
  if (with_vectors) {
    right_ = rank.workspace<Wide>(columns.width(rank.index()), n);
    if (rank.index() == 0) {
      left_of_form_ = rank.workspace<double>(n, n);
      right_of_form_ = rank.workspace<double>(n, n);
    }
  }
}

template <Scalar T>
std::int64_t BidiagonalForm<T>::bytes(const SlabLayout& rows, const SlabLayout& columns,
                                      bool with_vectors) {
  const std::int64_t n = columns.size();
  const std::int64_t width = std::min(panel_columns, n);
  const std::int64_t own = rows.max_width() + columns.max_width();
  std::int64_t numbers = rows.max_width() * (n + width) + 2 * n * width + 2 * n +
                         most_shared(n, with_vectors) * rows.ranks();
  std::int64_t reals = 3 * n + columns.size() + rows.size() + columns.max_width();
  if (with_vectors) {
    numbers += (columns.max_width() + own) * n;
    reals += (2 * n + rows.size() + n) * n;  // on the first rank
  }
  return numbers * static_cast<std::int64_t>(sizeof(Wide)) + 8 * reals;
}

template <Scalar T>
auto BidiagonalForm<T>::shares(std::int64_t numbers) const -> MatrixView<Wide> {
  return {shares_.data(), numbers, rank_.count()};
}

template <Scalar T>
void BidiagonalForm<T>::exchange(MatrixView<Wide> shares) {
  if (rank_.count() == 1) {
    return;
  }
  std::vector<comm::Bytes> pieces;
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    pieces.push_back(programs::bytes_of(shares.columns_from(r, 1)));
  }
  rank_.communicator().all_gather(rank_.transfer(), std::move(pieces));
}

template <Scalar T>
void BidiagonalForm<T>::reduce(MatrixView<const T> a) {
  const std::int64_t n = size();
  std::vector<std::int64_t> order;
  for (Position place(0); place.value() < n; ++place) {
    order.push_back(columns_.row_at(place).value());
  }
  rank_.kernels<runtime::BidiagonalKernels<T>>().take_columns(
      rank_.transfer(), a, rank_.upload(rank_.transfer(), order.data(), n), a_);
  programs::StepFlags flags(rank_);
  const MatrixView<std::int64_t> header =
      rank_.workspace<std::int64_t>(sizeof(programs::StepHeader) / sizeof(std::int64_t), 1);
  const std::int64_t panels = (n + panel_columns - 1) / panel_columns;
  for (std::int64_t p = 0; p < panels && flags.may_enqueue(p); ++p) {
    rank_.set_step(p);
    rank_.report("bidiagonal form", static_cast<double>(p) / static_cast<double>(panels));
    // Each rank in turn says whether it was asked to stop.
    const std::int64_t root = p % rank_.count();
    rank_.transfer().store(header.data(), 0, header.rows());
    if (root == rank_.index() && rank_.stop_requested()) {
      rank_.transfer().store(&reinterpret_cast<programs::StepHeader*>(header.data())->stop, 1, 1);
    }
    if (rank_.count() > 1) {
      rank_.communicator().broadcast(rank_.transfer(), programs::bytes_of(header), root);
    }
    flags.receive(p, reinterpret_cast<programs::StepHeader*>(header.data()));
    const std::int64_t first = p * panel_columns;
    reduce_panel({.a = a_,
                  .right = right_,
                  .x = x_,
                  .y = y_,
                  .u = u_,
                  .own_columns = own_columns_,
                  .diagonal = diagonals_.data(),
                  .off_diagonal = diagonals_.data() + n,
                  .tau_left = tau_.data(),
                  .tau_right = tau_.data() + n,
                  .first = first},
                 std::min(panel_columns, n - first));
  }
  flags.finish(panels);
  flags.throw_if_cancelled();
  rank_.finish(rank_.transfer());
}

template <Scalar T>
void BidiagonalForm<T>::reduce_panel(Panel panel, std::int64_t width) {
  runtime::Queue& queue = rank_.transfer();
  const std::int64_t end = panel.first + width;
  for (panel.next = panel.first; panel.next < end; ++panel.next) {
    panel.above = rows_.eliminated(rank_.index(), Step(panel.next)).value();
    panel.has_row = rows_.owner(Step(panel.next)) == rank_.index();
    const MatrixView<Wide> all = shares(panel.shared());
    kernels_.open_column(queue, panel, all.columns_from(rank_.index(), 1).data());
    exchange(all);
    kernels_.close_column(queue, panel, all);
  }
  const std::int64_t above = rows_.eliminated(rank_.index(), Step(end)).value();
  const std::int64_t rows = panel.a.rows() - above;
  const std::int64_t behind = size() - end;
  const MatrixView<Wide> rest = panel.a.block(above, end, rows, behind);
  const runtime::Kernels<Wide>& base = rank_.kernels<Wide>();
  base.gemm(queue, Op::none, Op::conjugate_transpose, Wide{-1},
            panel.a.block(above, panel.first, rows, width), panel.y.block(end, 0, behind, width),
            Wide{1}, rest);
  base.gemm(queue, Op::none, Op::conjugate_transpose, Wide{-1},
            panel.x.block(above, 0, rows, width), panel.u.block(end, 0, behind, width), Wide{1},
            rest);
}

template <Scalar T>
std::optional<std::vector<double>> BidiagonalForm<T>::find() {
  rank_.report("singular values", 0.0);
  const std::int64_t n = size();
  std::vector<double> values(static_cast<std::size_t>(n));
  std::int64_t info = 0;
  if (rank_.index() == 0) {
    const MatrixView<std::int64_t> verdict = rank_.workspace<std::int64_t>(1, 1);
    kernels_.bidiagonal_values(rank_.update(), diagonals_.columns_from(0, 1), diagonals_.data() + n,
                               left_of_form_, right_of_form_, verdict.data());
    info = rank_.fetch(rank_.update(), verdict.data(), 1).front();
    values = rank_.fetch(rank_.update(), diagonals_.data(), n);
  }
  if (qr::words_from_first(rank_, {info}).front() != 0) {
    return std::nullopt;
  }
  return qr::numbers_from_first(rank_, values);
}

template <Scalar T>
auto BidiagonalForm<T>::u() -> MatrixView<Wide> {
  return vectors(left_of_form_, false, {rows_, a_, tau_.data()});
}

template <Scalar T>
auto BidiagonalForm<T>::v() -> MatrixView<Wide> {
  return vectors(right_of_form_, true, {columns_, right_, tau_.data() + size()});
}

template <Scalar T>
MatrixView<double> BidiagonalForm<T>::deal_rows(MatrixView<const double> of_form, bool transposed,
                                                const SlabLayout& layout) {
  const std::int64_t n = size();
  const std::int64_t own_rows = layout.width(rank_.index());
  const bool deals = rank_.index() == 0;
  const MatrixView<double> memory = rank_.workspace<double>(deals ? layout.size() : own_rows, n);
  std::vector<comm::Bytes> send(static_cast<std::size_t>(rank_.count()));
  std::vector<comm::Bytes> receive(send.size());
  for (std::int64_t r = 0; deals && r < rank_.count(); ++r) {
    const MatrixView<double> rows(memory.data() + layout.segment(r).begin.value() * n,
                                  layout.width(r), n);
    kernels_.take_rows(rank_.transfer(), of_form, transposed, places_of(rank_, layout, r), rows);
    send[static_cast<std::size_t>(r)] = programs::bytes_of(rows);
  }
  const MatrixView<double> own(memory.data(), own_rows, n);
  if (!deals) {
    receive.front() = programs::bytes_of(own);
  }
  if (rank_.count() > 1) {
    rank_.communicator().all_to_all(rank_.transfer(), std::move(send), std::move(receive));
  }
  return own;
}

template <Scalar T>
auto BidiagonalForm<T>::vectors(MatrixView<const double> of_form, bool transposed,
                                const Reflectors& reflectors) -> MatrixView<Wide> {
  runtime::Queue& queue = rank_.transfer();
  const std::int64_t n = size();
  const MatrixView<double> dealt = deal_rows(of_form, transposed, reflectors.layout);
  const MatrixView<Wide> all_rows = rank_.workspace<Wide>(dealt.rows(), n);
  rank_.kernels<Wide>().from_real(queue, dealt, all_rows);
  for (std::int64_t p = (n - 1) / panel_columns; p >= 0; --p) {
    const std::int64_t first = p * panel_columns;
    const std::int64_t width = std::min(panel_columns, n - first);
    // They are 0 in rows that were eliminated before.
    const std::int64_t above = reflectors.layout.eliminated(rank_.index(), Step(first)).value();
    const std::int64_t rows = all_rows.rows() - above;
    const MatrixView<const Wide> v = reflectors.v.block(above, first, rows, width);
    const MatrixView<Wide> c = all_rows.block(above, 0, rows, n);
    const MatrixView<Wide> all = shares(width * (n + width));
    const MatrixView<Wide> own(all.columns_from(rank_.index(), 1).data(), width, n + width);
    kernels_.multiply_reflectors(queue, v, c, own);
    exchange(all);
    kernels_.apply_reflectors(queue, v, reflectors.tau + first,
                              {all.data(), width, (n + width) * rank_.count()}, c);
  }
  rank_.finish(queue);
  return all_rows;
}

#define SHARDSOLVE_INSTANTIATE(T) template class BidiagonalForm<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::svd
