#include "dense/lu/inf_norm.hpp"

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
#include <utility>
#include <vector>

namespace shardsolve::dense::lu {

template <Scalar T>
InfNorm<T>::InfNorm(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                    Scaled one_norm, runtime::Queue& queue)
    : rank_(rank),
      layout_(layout),
      // No power of two that is out of range: sums of what is scaled by this one are not either.
      scale_(std::clamp(-one_norm.normalised().exponent, -1000, 1000)),
      sums_(rank.workspace<double>(layout.size(), 1)),
      shares_(rank.workspace<double>(slab.columns(), rank.count())),
      ready_(rank.event()) {
  rank.kernels<runtime::LuKernels<T>>().row_sums(queue, std::ldexp(1.0, scale_), slab,
                                                 sums_.data());
  queue.record(ready_);
}

template <Scalar T>
Scaled InfNorm<T>::get() {
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
  return Scaled{programs::largest_of_all(rank_, mine), -scale_}.normalised();
}

#define SHARDSOLVE_INSTANTIATE(T) template class InfNorm<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::lu
