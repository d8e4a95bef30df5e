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
Scaled inf_norm(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                Scaled one_norm) {
  const int exponent = one_norm.normalised().exponent;
  // No power of two that is out of range: sums of what is scaled by this one are not either.
  const int scale = std::clamp(-exponent, -1000, 1000);
  const MatrixView<double> sums = rank.workspace<double>(layout.size(), 1);
  const MatrixView<double> shares = rank.workspace<double>(slab.columns(), rank.count());
  runtime::Event& ready = rank.event();
  rank.kernels<runtime::LuKernels<T>>().row_sums(rank.update(), std::ldexp(1.0, scale), slab,
                                                 sums.data());
  rank.update().record(ready);
  std::vector<comm::Bytes> send;
  std::vector<comm::Bytes> receive;
  for (std::int64_t r = 0; r < rank.count(); ++r) {
    const GlobalRange rows = layout.segment(r);
    send.push_back(programs::bytes_of(sums.block(rows.begin.value(), 0, rows.size(), 1)));
    receive.push_back(programs::bytes_of(shares.columns_from(r, 1)));
  }
  rank.transfer().wait(ready, sites::row_sums_ready);
  const comm::Bytes own = send[static_cast<std::size_t>(rank.index())];
  rank.transfer().copy(receive[static_cast<std::size_t>(rank.index())].data, own.data, own.size);
  rank.communicator().all_to_all(rank.transfer(), std::move(send), std::move(receive));
  const std::vector<double> all =
      rank.fetch(rank.transfer(), shares.data(), slab.columns() * rank.count());
  double mine = 0.0;
  for (std::int64_t i = 0; i < slab.columns(); ++i) {
    double sum = 0.0;
    for (std::int64_t r = 0; r < rank.count(); ++r) {
      sum += all[static_cast<std::size_t>(r * slab.columns() + i)];
    }
    mine = programs::largest(mine, sum);
  }
  return Scaled{programs::largest_of_all(rank, mine), -scale}.normalised();
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template Scaled inf_norm(mesh::Rank&, const SlabLayout&, MatrixView<const T>, Scaled);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::lu
