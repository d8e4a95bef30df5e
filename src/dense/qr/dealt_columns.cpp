#include "dense/qr/dealt_columns.hpp"

#include "core/each_dtype.hpp"
#include "programs/bytes_of.hpp"
#include "runtime/qr_kernels.hpp"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <utility>
#include <vector>

namespace shardsolve::dense::qr {
namespace {

constexpr std::int64_t widest_tile = 256;
constexpr std::int64_t narrowest_tile = 4;
/// Blocks that each rank is to have at least, if they are not narrower for it than that.
constexpr std::int64_t blocks_of_a_rank = 8;

}  // namespace

SlabLayout deal_columns(std::int64_t columns, std::int64_t ranks, std::int64_t tile) {
  std::vector<std::int64_t> boundaries{0};
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    std::int64_t width = 0;
    for (std::int64_t first = rank * tile; first < columns; first += ranks * tile) {
      width += std::min(tile, columns - first);
    }
    boundaries.push_back(boundaries.back() + width);
  }
  return {std::move(boundaries), tile};
}

std::int64_t tile_of_columns(std::int64_t columns, std::int64_t ranks) {
  return std::clamp(columns / (blocks_of_a_rank * ranks), narrowest_tile, widest_tile);
}

template <Scalar T>
Dealer<T>::Dealer(mesh::Rank& rank, const SlabLayout& rows, const SlabLayout& columns)
    : rank_(rank),
      rows_(rows),
      columns_(columns),
      outgoing_(rank.workspace<T>(elements(rows, columns) / 2, 1)),
      incoming_(rank.workspace<T>(elements(rows, columns) / 2, 1)) {}

template <Scalar T>
std::int64_t Dealer<T>::elements(const SlabLayout& rows, const SlabLayout& columns) {
  return 2 * columns.tile() * std::max(rows.size(), rows.max_width() * rows.ranks());
}

template <Scalar T>
bool Dealer<T>::has_step(Step first, std::int64_t rank) const {
  return first.value() + rank < columns_.steps();
}

template <Scalar T>
MatrixView<T> Dealer<T>::by_rows(MatrixView<T> memory, std::int64_t rank,
                                 std::int64_t columns) const {
  const GlobalRange rows = rows_.segment(rank);
  return {memory.data() + rows.begin.value() * columns, rows.size(), columns};
}

template <Scalar T>
MatrixView<T> Dealer<T>::by_columns(MatrixView<T> memory, Step first, std::int64_t rank) const {
  const std::int64_t columns = has_step(first, rank) ? width(first + rank) : 0;
  return {memory.data() + rank * columns_.tile() * rows(), rows(), columns};
}

template <Scalar T>
void Dealer<T>::exchange(const std::function<MatrixView<T>(std::int64_t)>& sent,
                         const std::function<MatrixView<T>(std::int64_t)>& received) {
  std::vector<comm::Bytes> send;
  std::vector<comm::Bytes> receive;
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    send.push_back(programs::bytes_of(sent(r)));
    receive.push_back(programs::bytes_of(received(r)));
  }
  rank_.finish(rank_.update());  // which packs, and has stored what came before
  rank_.communicator().all_to_all(rank_.transfer(), std::move(send), std::move(receive));
  rank_.finish(rank_.transfer());
}

template <Scalar T>
void Dealer<T>::to_columns(MatrixView<const T> rows, const std::int64_t* exponents,
                           MatrixView<T> slab) {
  const runtime::Kernels<T>& kernels = rank_.kernels<T>();
  const std::int64_t self = rank_.index();
  for (Step first(0); first.value() < columns_.steps(); first = first + rank_.count()) {
    for (std::int64_t r = 0; r < rank_.count() && has_step(first, r); ++r) {
      const std::int64_t column = columns_.eliminated(first + r);
      rank_.kernels<runtime::QrKernels<T>>().scale_columns(
          rank_.update(), rows.columns_from(column, width(first + r)), exponents + column,
          by_columns(outgoing_, first, r));
    }
    const std::int64_t own = has_step(first, self) ? width(first + self) : 0;
    exchange([&](std::int64_t r) { return by_columns(outgoing_, first, r); },
             [&](std::int64_t r) { return by_rows(incoming_, r, own); });
    for (std::int64_t r = 0; r < rank_.count() && own > 0; ++r) {
      kernels.copy(rank_.update(),
                   r == self ? by_columns(outgoing_, first, r) : by_rows(incoming_, r, own),
                   slab.block(rows_.segment(r).begin.value(),
                              columns_.columns(first + self).begin.value(), rows_.width(r), own));
    }
  }
  rank_.finish(rank_.update());
}

template <Scalar T>
void Dealer<T>::to_rows(const std::function<MatrixView<const T>(Step)>& block, MatrixView<T> rows) {
  const runtime::Kernels<T>& kernels = rank_.kernels<T>();
  const std::int64_t self = rank_.index();
  for (Step first(0); first.value() < columns_.steps(); first = first + rank_.count()) {
    const std::int64_t own = has_step(first, self) ? width(first + self) : 0;
    if (own > 0) {
      const MatrixView<const T> made = block(first + self);
      for (std::int64_t r = 0; r < rank_.count(); ++r) {
        kernels.copy(rank_.update(),
                     made.block(rows_.segment(r).begin.value(), 0, rows_.width(r), own),
                     by_rows(outgoing_, r, own));
      }
    }
    exchange([&](std::int64_t r) { return by_rows(outgoing_, r, own); },
             [&](std::int64_t r) { return by_columns(incoming_, first, r); });
    for (std::int64_t r = 0; r < rank_.count() && has_step(first, r); ++r) {
      kernels.copy(rank_.update(),
                   r == self ? by_rows(outgoing_, r, own) : by_columns(incoming_, first, r),
                   rows.columns_from(columns_.eliminated(first + r), width(first + r)));
    }
  }
  rank_.finish(rank_.update());
}

template class Dealer<float>;
template class Dealer<double>;
template class Dealer<std::complex<float>>;
template class Dealer<std::complex<double>>;

}  // namespace shardsolve::dense::qr
