#include "runtime/host/block_sweeps.hpp"

#include <algorithm>
#include <complex>
#include <utility>

namespace shardsolve::runtime::host {
namespace block_sweeps {
namespace {

using krylov::BlockFactors;
using krylov::BlockSweep;

template <Scalar T>
using NumberOf = krylov::BlockNumber<RealOf<T>, is_complex<T> ? 2 : 1>;

template <Scalar T>
const RealOf<T>* reals(const T* place) {
  return reinterpret_cast<const RealOf<T>*>(place);
}
template <Scalar T>
RealOf<T>* reals(T* place) {
  return reinterpret_cast<RealOf<T>*>(place);
}
template <Scalar T>
NumberOf<T> load(const T* place) {
  return NumberOf<T>::from(reals(place));
}

template <Scalar T>
void divide(const BlockFactors<T>& factors, const BlockSweep& sweep, std::int64_t row,
            NumberOf<T>& x) {
  if (sweep.divisors != BlockSweep::none) {
    x.divide(load(factors.numbers + sweep.divisors + row));
  }
}

template <Scalar T>
void sweep_band(const BlockFactors<T>& factors, const BlockSweep& sweep, std::int64_t n, T* x) {
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t row = sweep.is_backward != 0 ? n - 1 - step : step;
    if (sweep.lists != BlockSweep::none) {
      std::swap(x[row], x[factors.lists[sweep.lists + row]]);
    }
    NumberOf<T> own = load(x + row);
    divide(factors, sweep, row, own);
    own.store(reals(x + row));
    const std::int64_t first = sweep.is_backward != 0 ? row - sweep.width : row + 1;
    const std::int64_t begin = std::max<std::int64_t>(first, 0);
    const std::int64_t end = std::min(first + sweep.width, n);
    const T* const entries = factors.numbers + sweep.entries + row * sweep.width - first;
#pragma GCC ivdep
    for (std::int64_t i = begin; i < end; ++i) {
      NumberOf<T> other = load(x + i);
      other.subtract(load(entries + i), own);
      other.store(reals(x + i));
    }
  }
}

template <Scalar T>
void sweep_sparse(const BlockFactors<T>& factors, const BlockSweep& sweep, std::int64_t n, T* x) {
  const krylov::SparseLists lists(sweep, n, factors.lists);
  const T* const entries = factors.numbers + sweep.entries;
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t row = sweep.is_backward != 0 ? n - 1 - step : step;
    NumberOf<T> own = load(x + row);
    if (sweep.divides_before != 0) {
      divide(factors, sweep, row, own);
    }
    for (std::int32_t k = lists.row_pointers[row]; k < lists.row_pointers[row + 1]; ++k) {
      own.subtract(load(entries + k), load(x + lists.columns[k]));
    }
    if (sweep.divides_before == 0) {
      divide(factors, sweep, row, own);
    }
    own.store(reals(x + row));
  }
}

}  // namespace
}  // namespace block_sweeps

template <Scalar T>
void solve_block(const krylov::BlockFactors<T>& factors, const krylov::FactoredBlock& block, T* x) {
  for (const krylov::BlockSweep& sweep : block.sweeps) {
    if (factors.is_band) {
      block_sweeps::sweep_band(factors, sweep, block.size, x);
    } else {
      block_sweeps::sweep_sparse(factors, sweep, block.size, x);
    }
  }
}

template void solve_block(const krylov::BlockFactors<float>&, const krylov::FactoredBlock&, float*);
template void solve_block(const krylov::BlockFactors<double>&, const krylov::FactoredBlock&,
                          double*);
template void solve_block(const krylov::BlockFactors<std::complex<float>>&,
                          const krylov::FactoredBlock&, std::complex<float>*);
template void solve_block(const krylov::BlockFactors<std::complex<double>>&,
                          const krylov::FactoredBlock&, std::complex<double>*);

}  // namespace shardsolve::runtime::host
