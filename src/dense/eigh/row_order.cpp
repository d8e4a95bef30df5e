#include "dense/eigh/row_order.hpp"

#include "dense/eigh/uploaded_list.hpp"
#include "runtime/band_kernels.hpp"

#include <algorithm>
#include <complex>
#include <numeric>
#include <vector>

namespace shardsolve::dense::eigh {
namespace {

constexpr std::int64_t columns_at_once = 256;

}  // namespace

template <Scalar T>
RowOrder<T>::RowOrder(mesh::Rank& rank, const SlabLayout& layout)
    : rank_(rank), layout_(layout), buffer_(rank.workspace<T>(elements(layout), 1)) {
  const std::int64_t n = layout.size();
  std::vector<std::int64_t> positions(static_cast<std::size_t>(n));
  std::vector<std::int64_t> rows(static_cast<std::size_t>(n));
  for (Step step(0); step.value() < layout.steps(); ++step) {
    const GlobalRange run = layout.rows(step);
    const std::int64_t first = layout.eliminated(step);
    std::iota(positions.begin() + run.begin.value(), positions.begin() + run.end.value(), first);
    std::iota(rows.begin() + first, rows.begin() + first + run.size(), run.begin.value());
  }
  UploadedList<std::int64_t> lists(rank, 2 * n);
  positions_ = lists.put(rank.update(), positions);
  rows_ = lists.put(rank.update(), rows, n);
}

template <Scalar T>
std::int64_t RowOrder<T>::elements(const SlabLayout& layout) {
  return layout.ranks() == 1 ? 0 : layout.size() * std::min(columns_at_once, layout.max_width());
}

template <Scalar T>
void RowOrder<T>::move(const std::int64_t* from, MatrixView<T> a) const {
  if (layout_.ranks() == 1) {
    return;  // whose blocks are eliminated one after the other
  }
  if (a.empty()) {
    return;
  }
  const std::int64_t most = buffer_.rows() / a.rows();
  for (std::int64_t first = 0; first < a.columns(); first += most) {
    const std::int64_t columns = std::min(most, a.columns() - first);
    const MatrixView<T> target = a.columns_from(first, columns);
    const MatrixView<T> source(buffer_.data(), a.rows(), columns);
    rank_.kernels<T>().copy(rank_.update(), target, source);
    rank_.kernels<runtime::BandKernels<T>>().permute_rows(rank_.update(), from, source, target);
  }
  rank_.finish(rank_.update());
}

template class RowOrder<float>;
template class RowOrder<double>;
template class RowOrder<std::complex<float>>;
template class RowOrder<std::complex<double>>;

}  // namespace shardsolve::dense::eigh
