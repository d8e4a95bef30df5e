#include "dense/lu/matrix_sizes.hpp"

#include "core/each_dtype.hpp"
#include "dense/lu/wait_sites.hpp"
#include "programs/bytes_of.hpp"
#include "programs/gather.hpp"
#include "runtime/lu_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace shardsolve::dense::lu {

template <Scalar T>
MatrixSizes<T>::MatrixSizes(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                            Scaled one_norm, runtime::Queue& queue)
    : rank_(rank),
      layout_(layout),
      // No power of two that is out of range: sums of what is scaled by this one are not either.
      scale_(std::clamp(-one_norm.normalised().exponent, -1000, 1000)),
      sums_(rank.workspace<double>(layout.size(), 1)),
      shares_(rank.workspace<double>(slab.columns(), rank.count())),
      ready_(rank.event()),
      queue_(queue) {
  const MatrixView<double> largest = rank.workspace<double>(layout.size(), 1);
  rank.kernels<runtime::LuKernels<T>>().row_sums(queue, std::ldexp(1.0, scale_), slab, sums_.data(),
                                                 largest.data());
  queue.record(ready_);
  largest_ = rank.fetch_later(queue, largest.data(), layout.size());
}

template <Scalar T>
Sizes MatrixSizes<T>::get() {
  std::vector<comm::Bytes> send;
  std::vector<comm::Bytes> receive;
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    const GlobalRange rows = layout_.segment(r);
    send.push_back(programs::bytes_of(sums_.block(rows.begin.value(), 0, rows.size(), 1)));
    receive.push_back(programs::bytes_of(shares_.columns_from(r, 1)));
  }
  rank_.transfer().wait(ready_, sites::row_sums_ready);
  const auto own = static_cast<std::size_t>(rank_.index());
  rank_.transfer().copy(receive[own].data, send[own].data, send[own].size);
  rank_.communicator().all_to_all(rank_.transfer(), std::move(send), std::move(receive));
  const std::int64_t width = shares_.rows();
  const std::vector<double> all =
      rank_.fetch(rank_.transfer(), shares_.data(), width * rank_.count());
  double mine = 0.0;
  for (std::int64_t i = 0; i < width; ++i) {
    double sum = 0.0;
    for (std::int64_t r = 0; r < rank_.count(); ++r) {
      sum += all[static_cast<std::size_t>(r * width + i)];
    }
    mine = programs::largest(mine, sum);
  }
  const Scaled inf_norm = Scaled{programs::largest_of_all(rank_, mine), -scale_}.normalised();
  rank_.finish(queue_);
  const double largest =
      std::accumulate(largest_, largest_ + layout_.size(), 0.0, programs::largest);
  return {inf_norm, std::ldexp(programs::largest_of_all(rank_, largest), -scale_)};
}

#define SHARDSOLVE_INSTANTIATE(T) template class MatrixSizes<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::lu
