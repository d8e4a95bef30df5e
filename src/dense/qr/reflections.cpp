// Each rank factors its rows, q_r = Q_r R_r; the first rank factors what the R_r are, one below the
// other: [R_1; R_2; ...] = [S_1; S_2; ...] R. Then q = [Q_1 S_1; Q_2 S_2; ...] R.

#include "dense/qr/reflections.hpp"

#include "core/each_dtype.hpp"
#include "dense/qr/first_rank.hpp"
#include "dense/qr/wait_sites.hpp"
#include "programs/bytes_of.hpp"
#include "programs/gather.hpp"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardsolve::dense::qr {
namespace {

using runtime::Op;
using runtime::WideOf;

/// Rows of Q_r S_r that are made at a time.
constexpr std::int64_t tile_rows = 256;

/// The matrices R_r, or S_r, of all ranks, one behind the other.
template <Scalar W>
class Parts {
 public:
  Parts(mesh::Rank& rank, std::int64_t own_rows, std::int64_t columns) : columns_(columns) {
    for (const auto& one : programs::gather_from_all(rank, std::vector{own_rows})) {
      first_.push_back(first_.back() + one.front());
    }
    memory_ = rank.workspace<W>(rows() * columns, 1);
  }

  std::int64_t rows() const { return first_.back(); }
  std::int64_t first_row(std::int64_t rank) const { return first_[static_cast<std::size_t>(rank)]; }
  MatrixView<W> part(std::int64_t rank) const {
    return {memory_.data() + first_row(rank) * columns_, first_row(rank + 1) - first_row(rank),
            columns_};
  }
  MatrixView<W> all() const { return memory_; }

 private:
  std::int64_t columns_;
  std::vector<std::int64_t> first_{0};
  MatrixView<W> memory_;
};

/// Every rank's part to the first rank.
template <Scalar W>
void collect(mesh::Rank& rank, const Parts<W>& parts) {
  std::vector<comm::Bytes> pieces;
  for (std::int64_t r = 0; r < rank.count(); ++r) {
    pieces.push_back(rank.index() == 0 ? programs::bytes_of(parts.part(r)) : comm::Bytes{});
  }
  runtime::Event& ready = rank.event();
  runtime::Event& here = rank.event();
  rank.update().record(ready);
  rank.transfer().wait(ready, sites::rows_ready);
  rank.communicator().gather(rank.transfer(), programs::bytes_of(parts.part(rank.index())),
                             std::move(pieces), 0);
  rank.transfer().record(here);
  rank.update().wait(here, sites::rows_here);
}

/// Of the matrices R_r the S_r, on the first rank, and R.
template <Scalar W>
void reflect_stack(mesh::Rank& rank, const Parts<W>& parts, MatrixView<W> r) {
  const runtime::Kernels<W>& kernels = rank.kernels<W>();
  const MatrixView<W> stack = rank.workspace<W>(parts.rows(), r.columns());
  const auto rows_of = [&](std::int64_t i) {
    return stack.block(parts.first_row(i), 0, parts.part(i).rows(), r.columns());
  };
  for (std::int64_t i = 0; i < rank.count(); ++i) {
    kernels.copy(rank.update(), parts.part(i), rows_of(i));
  }
  rank.kernels<runtime::QrKernels<W>>().reflect(rank.update(), stack, r);
  for (std::int64_t i = 0; i < rank.count(); ++i) {
    kernels.copy(rank.update(), rows_of(i), parts.part(i));
  }
}

/// q = q s, from the first columns of q, a few rows at a time.
template <Scalar T>
void multiply_rows(mesh::Rank& rank, MatrixView<const WideOf<T>> s, MatrixView<T> q) {
  const runtime::Kernels<T>& kernels = rank.kernels<T>();
  const MatrixView<T> rounded = rank.workspace<T>(s.rows(), s.columns());
  const MatrixView<T> product = rank.workspace<T>(tile_rows * q.columns(), 1);
  if constexpr (std::is_same_v<T, WideOf<T>>) {
    kernels.copy(rank.update(), s, rounded);
  } else {
    kernels.convert(rank.update(), s, rounded);
  }
  for (std::int64_t row = 0; row < q.rows(); row += tile_rows) {
    const std::int64_t rows = std::min(tile_rows, q.rows() - row);
    const MatrixView<T> some(product.data(), rows, q.columns());
    kernels.gemm(rank.update(), Op::none, Op::none, T{1}, q.block(row, 0, rows, s.rows()), rounded,
                 T{0}, some);
    kernels.copy(rank.update(), some, q.block(row, 0, rows, q.columns()));
  }
}

}  // namespace

template <Scalar T>
MatrixView<WideOf<T>> reflect_slabs(mesh::Rank& rank, MatrixView<T> q) {
  using Wide = WideOf<T>;
  const std::int64_t n = q.columns();
  const MatrixView<Wide> r = rank.workspace<Wide>(n, n);
  const Parts<Wide> parts(rank, std::min(q.rows(), n), n);
  const MatrixView<Wide> own = parts.part(rank.index());
  rank.kernels<runtime::QrKernels<T>>().reflect(rank.update(), q, own);
  if (rank.count() == 1) {
    rank.kernels<Wide>().copy(rank.update(), own, r);
    return r;
  }
  collect(rank, parts);
  if (rank.index() == 0) {
    reflect_stack(rank, parts, r);
  }
  from_first(rank, parts.all());
  multiply_rows<T>(rank, own, q);
  return r;
}

std::int64_t reflections_bytes(std::int64_t ranks, std::int64_t columns, Dtype dtype) {
  const std::int64_t element = element_size(dtype);
  const std::int64_t wide = std::max<std::int64_t>(
      element, dtype == Dtype::complex64 || dtype == Dtype::complex128 ? 16 : 8);
  return wide * columns * columns * (1 + 2 * ranks) + element * columns * (columns + tile_rows);
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template MatrixView<WideOf<T>> reflect_slabs(mesh::Rank&, MatrixView<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::qr
