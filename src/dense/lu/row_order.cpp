#include "dense/lu/row_order.hpp"

#include "dense/lu/wait_sites.hpp"
#include "programs/bytes_of.hpp"

#include <complex>
#include <cstddef>

namespace shardsolve::dense::lu {

template <Scalar T>
RowOrder<T>::RowOrder(mesh::Rank& rank, const SlabLayout& layout,
                      const std::vector<std::int64_t>& rows, std::int64_t columns)
    : rank_(rank),
      layout_(layout),
      kernels_(rank.kernels<runtime::LuKernels<T>>()),
      all_(rank.workspace<T>(columns * layout.size(), 1)),
      packed_(rank.event()),
      arrived_(rank.event()) {
  std::vector<std::int64_t> place_of(rows.size());
  for (std::size_t place = 0; place < rows.size(); ++place) {
    place_of[static_cast<std::size_t>(rows[place])] = static_cast<std::int64_t>(place);
  }
  std::vector<std::int64_t> forward;
  std::vector<std::int64_t> backward;
  const GlobalRange own = layout.segment(rank.index());
  for (GlobalIndex row = own.begin; row < own.end; row = row + 1) {
    forward.push_back(rows[static_cast<std::size_t>(layout.position(row).value())]);
    const Position place(place_of[static_cast<std::size_t>(row.value())]);
    backward.push_back(layout.row_at(place).value());
  }
  forward_ = rank.upload(rank.update(), forward.data(), own.size());
  backward_ = rank.upload(rank.update(), backward.data(), own.size());
}

template <Scalar T>
void RowOrder<T>::choose(const std::int64_t* columns, MatrixView<T> b) {
  const std::int64_t k = b.columns();
  const MatrixView<T> all(all_.data(), k, layout_.size());
  std::vector<comm::Bytes> pieces;
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    pieces.push_back(
        programs::bytes_of(all.columns_from(layout_.segment(r).begin.value(), layout_.width(r))));
  }
  const GlobalRange own = layout_.segment(rank_.index());
  kernels_.transpose(rank_.update(), b, all.columns_from(own.begin.value(), own.size()));
  rank_.update().record(packed_);
  rank_.transfer().wait(packed_, sites::order_packed);
  rank_.communicator().all_gather(rank_.transfer(), std::move(pieces));
  rank_.transfer().record(arrived_);
  rank_.update().wait(arrived_, sites::order_arrived);
  kernels_.choose_columns(rank_.update(), all, columns, b);
}

template class RowOrder<float>;
template class RowOrder<double>;
template class RowOrder<std::complex<float>>;
template class RowOrder<std::complex<double>>;

}  // namespace shardsolve::dense::lu
