#include "dense/lu/row_order.hpp"

#include "dense/lu/wait_sites.hpp"
#include "programs/bytes_of.hpp"

#include <complex>
#include <cstddef>

namespace shardsolve::dense::lu {

std::vector<std::int64_t> elimination_order(const SlabLayout& layout) {
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(layout.size()));
  for (Step step(0); step.value() < layout.steps(); ++step) {
    const GlobalRange rows = layout.rows(step);
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      order.push_back(rows.begin.value() + i);
    }
  }
  return order;
}

template <Scalar T>
RowOrder<T>::RowOrder(mesh::Rank& rank, const SlabLayout& layout,
                      const std::vector<std::int64_t>& rows, std::int64_t columns)
    : rank_(rank),
      layout_(layout),
      kernels_(rank.kernels<runtime::LuKernels<T>>()),
      all_(rank.workspace<T>(columns * layout.size(), 1)),
      packed_(rank.event()),
      arrived_(rank.event()) {
  const std::vector<std::int64_t> order = elimination_order(layout);
  const GlobalRange own = layout.segment(rank.index());
  std::vector<std::int64_t> both(2 * static_cast<std::size_t>(own.size()));
  // The row of A that came to a place lies, of P B, where the row of that place does.
  for (std::size_t place = 0; place < rows.size(); ++place) {
    if (const std::int64_t forward = order[place] - own.begin.value();
        0 <= forward && forward < own.size()) {
      both[static_cast<std::size_t>(forward)] = rows[place];
    }
    if (const std::int64_t backward = rows[place] - own.begin.value();
        0 <= backward && backward < own.size()) {
      both[static_cast<std::size_t>(own.size() + backward)] = order[place];
    }
  }
  forward_ = rank.upload(rank.update(), both.data(), 2 * own.size());
  backward_ = forward_ + own.size();
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
