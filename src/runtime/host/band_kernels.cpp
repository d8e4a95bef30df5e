#include "runtime/host/band_kernels.hpp"

#include "runtime/host/avx512.hpp"
#include "runtime/host/blas.hpp"
#include "runtime/host/chase_vectors.hpp"
#include "runtime/host/conjugate.hpp"
#include "runtime/host/operands.hpp"
#include "runtime/host/panel_qr.hpp"
#include "runtime/host/sliding_windows.hpp"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace shardsolve::runtime::host {
namespace {

/// Columns j of `a` from row `first(j)` on.
template <Scalar T, class First>
void clear_below(MatrixView<T> a, First first) {
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = std::min(first(j), a.rows()); i < a.rows(); ++i) {
      a(i, j) = T{0};
    }
  }
}

/// The block with its first entry at (row, column), as a matrix: in a band the next entry of a row
/// is one column further and one row higher.
template <Scalar T>
MatrixView<T> dense_block(MatrixView<T> band, std::int64_t row, std::int64_t rows,
                          std::int64_t column, std::int64_t columns) {
  return {&band(row - column, column), rows, columns, band.stride() - 1};
}

/// The columns of the band that the tasks of these waves touch.
template <Scalar T>
MatrixView<T> columns_of(const Chase& chase, const SweepGroup& sweeps, const WaveRange& waves,
                         MatrixView<T> band) {
  std::int64_t first = chase.size;
  std::int64_t last = 0;
  for (std::int64_t sweep = sweeps.first; sweep < sweeps.first + sweeps.count; ++sweep) {
    const auto [begin, end] = SweepGroup::numbers(chase, sweep, waves);
    if (begin < end) {
      const ChaseTask lowest = chase.task(sweep, end - 1);
      first = std::min(first, chase.task(sweep, begin).column);
      last = std::max(last, lowest.row + lowest.rows);
    }
  }
  return band.columns_from(std::min(first, last), last - std::min(first, last));
}

/// w -= (Re(v^H w) / ||v||^2) v
template <Scalar T>
void take_off(std::int64_t count, const T* v, T* w) {
  RealOf<T> projection{0};
  RealOf<T> square{0};
  for (std::int64_t i = 0; i < count; ++i) {
    projection += std::real(conjugate(v[i]) * w[i]);
    square += std::real(conjugate(v[i]) * v[i]);
  }
  const RealOf<T> factor = projection / square;
  for (std::int64_t i = 0; i < count; ++i) {
    w[i] -= factor * v[i];
  }
}

/// number + remainder + change; the remainder becomes what its sum lacks. Source: D. E. Knuth, The
/// Art of Computer Programming 2, 4.2.2.
template <Scalar T>
RealOf<T> add(RealOf<T> number, RealOf<T> change, T& remainder) {
  change += std::real(remainder);
  const RealOf<T> sum = number + change;
  const RealOf<T> part = sum - number;
  remainder = (number - (sum - part)) + (change - part);
  return sum;
}

/// Applies from the right the reflector (tau, then v) `before`, null for none; makes that of the
/// block's first column, and applies it from the left.
template <Scalar T>
void run_chase_block(MatrixView<T> block, const T* before, T* reflector, T* work) {
  using Blas = blas::Blas<T>;
  const std::int64_t rows = block.rows();
  if (before != nullptr) {
    // block -= (block v) (tau v^H)
    Blas::gemv(Op::none, T{1}, block, before + 1, T{0}, work);
    Blas::gerc(-before[0], work, before + 1, block);
  }
  T* const v = reflector + 1;
  std::copy(&block(0, 0), &block(0, 0) + rows, v);
  const T tau = Blas::larfg(rows, v);
  reflector[0] = tau;
  std::fill(&block(0, 0), &block(0, 0) + rows, T{0});
  block(0, 0) = std::real(v[0]);
  v[0] = T{1};
  if (block.columns() > 1 && tau != T{0}) {
    // block -= conj(tau) v (v^H block)
    const MatrixView<T> rest = block.columns_from(1, block.columns() - 1);
    Blas::gemv(Op::conjugate_transpose, T{1}, rest, v, T{0}, work);
    Blas::gerc(-conjugate(tau), v, work, rest);
  }
}

/// Many comparisons side by side, then a search.
template <Scalar T>
T* first_of_largest_norm(T* numbers, std::int64_t count) {
  constexpr std::int64_t at_once = 16;
  RealOf<T> largest[at_once] = {};
  std::int64_t i = 0;
  for (; i + at_once <= count; i += at_once) {
    for (std::int64_t l = 0; l < at_once; ++l) {
      const RealOf<T> norm = std::norm(numbers[i + l]);
      largest[l] = norm > largest[l] ? norm : largest[l];
    }
  }
  RealOf<T> most = *std::max_element(largest, largest + at_once);
  for (; i < count; ++i) {
    most = std::max(most, std::norm(numbers[i]));
  }
  T* const found = std::find_if(numbers, numbers + count,
                                [most](const T& number) { return !(std::norm(number) < most); });
  return found == numbers + count ? numbers : found;
}

/// Whether the windows of a group are made by make_sliding_windows.
template <Scalar T>
bool slide(MatrixView<const T> v, MatrixView<const T> vt) {
  return !is_complex<T> && v.stride() == v.rows() && vt.stride() == vt.rows() &&
         avx512::has_avx512();
}

/// z -= V t (V^H z), window after window. All groups go through their windows k before one goes on:
/// what they have in common stays in the cache.
template <Scalar T>
void multiply_by_windows(const Chase& chase, std::span<const SweepWindows<T>> groups,
                         MatrixView<T> z) {
  std::int64_t most = 0;
  for (const SweepWindows<T>& group : groups) {
    most = std::max(most, group.sweeps.count);
  }
  std::vector<T> sums(static_cast<std::size_t>(most * z.columns()));
  for (std::int64_t k = 0; k < chase.tasks(groups.back().sweeps.first); ++k) {
    for (const auto& [sweeps, v, vt] : groups) {
      if (k >= chase.tasks(sweeps.first)) {
        continue;
      }
      const std::int64_t count = sweeps.count;
      const MatrixView<T> vz(sums.data(), count, z.columns());
      const std::int64_t row = chase.task(sweeps.first, k).row;
      const std::int64_t rows = std::min(v.rows(), chase.size - row);
      const MatrixView<T> z_rows = z.block(row, 0, rows, z.columns());
      blas::Blas<T>::gemm(Op::conjugate_transpose, Op::none, T{1},
                          v.block(0, k * count, rows, count), z_rows, T{0}, vz);
      blas::Blas<T>::gemm(Op::none, Op::none, T{-1}, vt.block(0, k * count, rows, count), vz, T{1},
                          z_rows);
    }
  }
}

}  // namespace

template <Scalar T>
void run_chase_task(const ChaseTask& task, const SweepGroup& sweeps, MatrixView<T> band,
                    MatrixView<T> reflectors, T* work) {
  const std::int64_t rows = task.rows;
  const MatrixView<T> block = dense_block(band, task.row, rows, task.column, task.columns);
  const std::int64_t place = task.number * sweeps.count + task.sweep - sweeps.first;
  const T* const before = task.number > 0 ? &reflectors(0, place - sweeps.count) : nullptr;
  T* const tau = &reflectors(0, place);
  T* const v = tau + 1;
  bool by_vectors = false;
  if constexpr (!is_complex<T>) {
    by_vectors = rows <= max_chase_rows<T> && avx512::has_avx512();
    if (by_vectors) {
      chase_block(block, before, tau);
    }
  }
  if (!by_vectors) {
    run_chase_block(block, before, tau, work);
  }
  std::fill(v + rows, tau + reflectors.rows(), T{0});
  if (*tau == T{0}) {
    return;
  }
  // d -= w v^H + v w^H with p = tau d v, w = p - 1/2 |tau|^2 (v^H d v) v. With all of p along v
  // taken off but for an imaginary part, Re(v^H w) is 0 whatever the roundings of tau and p were. A
  // multiple of the identity changes nothing then, so one is left out. Without these two and the
  // remainders the diagonal would drift from sweep to sweep.
  const MatrixView<T> d = dense_block(band, task.row, rows, task.row, rows);
  T* const diagonal = work + rows;
  const RealOf<T> shift = std::real(d(0, 0));
  for (std::int64_t i = 0; i < rows; ++i) {
    diagonal[i] = d(i, i);
    d(i, i) = std::real(d(i, i)) - shift + std::real(band(band.rows() - 1, task.row + i));
  }
  if constexpr (!is_complex<T>) {
    if (by_vectors) {
      chase_triangle(d, tau, work);
    }
  }
  if (!by_vectors) {
    blas::Blas<T>::hemv(Triangle::lower, *tau, d, v, T{0}, work);
    take_off(rows, v, work);
    take_off(rows, v, work);
    blas::Blas<T>::her2(Triangle::lower, T{-1}, work, v, d);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    d(i, i) = add(std::real(diagonal[i]), -2 * std::real(work[i] * conjugate(v[i])),
                  band(band.rows() - 1, task.row + i));
  }
}

template <Scalar T>
void HostBandKernels<T>::do_panel_qr(Queue& queue, const WorkInfo& info, Out a, Out r, Out t,
                                     void* scratch) const {
  launch(queue, info, {}, {a, r, t, Operand(static_cast<T*>(scratch), t.rows() * a.columns())},
         [=] { panel_qr<T>(a, r, t, static_cast<T*>(scratch)); });
}

template <Scalar T>
void HostBandKernels<T>::do_store_band(Queue& queue, const WorkInfo& info, In top, In r,
                                       Out band) const {
  launch(queue, info, {top, r}, {band}, [=] {
    for (std::int64_t j = 0; j < band.columns(); ++j) {
      for (std::int64_t i = 0; i < band.rows(); ++i) {
        const std::int64_t row = i + j;
        const std::int64_t row_of_r = row - top.rows();
        band(i, j) = row_of_r < 0                           ? top(row, j)
                     : row_of_r < r.rows() && row_of_r <= j ? r(row_of_r, j)
                                                            : T{0};
      }
      band(0, j) = std::real(band(0, j));
    }
  });
}

template <Scalar T>
void HostBandKernels<T>::do_chase(Queue& queue, const WorkInfo& info, const Chase& chase,
                                  const SweepGroup& sweeps, const WaveRange& waves, Out band,
                                  Out reflectors, void* scratch) const {
  launch(queue, info, {},
         {columns_of(chase, sweeps, waves, band), reflectors,
          Operand(static_cast<T*>(scratch), 2 * chase.bandwidth)},
         [=] {
           if (waves.begin <= sweeps.waves(chase).begin) {
             clear_below(reflectors, [](std::int64_t) { return std::int64_t{0}; });
           }
           // In waves, so that what consecutive sweeps have in common stays in the cache.
           for (std::int64_t wave = waves.begin; wave < waves.end; ++wave) {
             for (std::int64_t sweep = sweeps.first; sweep < sweeps.first + sweeps.count; ++sweep) {
               const auto [begin, end] = SweepGroup::numbers(chase, sweep, {wave, wave + 1});
               if (begin < end) {
                 run_chase_task(chase.task(sweep, begin), sweeps, band, reflectors,
                                static_cast<T*>(scratch));
               }
             }
           }
         });
}

template <Scalar T>
void HostBandKernels<T>::do_tridiagonal(Queue& queue, const WorkInfo& info, In band, Real* diagonal,
                                        Real* off_diagonal) const {
  const std::int64_t n = band.columns();
  launch(queue, info, {band.block(0, 0, 2, n)},
         {Operand(diagonal, n), Operand(off_diagonal, n - 1)}, [=] {
           for (std::int64_t j = 0; j < n; ++j) {
             diagonal[j] = std::real(band(0, j));
             if (j + 1 < n) {
               off_diagonal[j] = std::real(band(1, j));
             }
           }
         });
}

template <Scalar T>
void HostBandKernels<T>::do_windows(Queue& queue, const WorkInfo& info, const Chase& chase,
                                    const SweepGroup& sweeps, In reflectors, Out v, Out vt) const {
  launch(queue, info, {reflectors}, {v, vt}, [=] {
    if constexpr (!is_complex<T>) {
      if (slide<T>(v, vt)) {
        make_sliding_windows<T>(chase, sweeps, reflectors, v, vt);
        return;
      }
    }
    const std::int64_t count = sweeps.count;
    std::vector<T> taus(static_cast<std::size_t>(count));
    std::vector<T> triangle(static_cast<std::size_t>(count * count));  // zeros below
    const Out t(triangle.data(), count, count);
    for (std::int64_t first = 0; first < v.columns(); first += count) {
      const Out window = v.columns_from(first, count);
      clear_below(window, [](std::int64_t) { return std::int64_t{0}; });
      for (std::int64_t j = 0; j < count; ++j) {
        const T* const reflector = &reflectors(0, first + j);
        taus[static_cast<std::size_t>(j)] = reflector[0];
        std::copy(reflector + 1, reflector + reflectors.rows(), &window(j, j));
      }
      blas::Blas<T>::larft(window, taus.data(), t);
      blas::Blas<T>::gemm(Op::none, Op::none, T{1}, window, t, T{0}, vt.columns_from(first, count));
    }
  });
}

// Products slide down all at once, too: see sliding_windows.cpp.
template <Scalar T>
void HostBandKernels<T>::do_apply_windows(Queue& queue, const WorkInfo& info, const Chase& chase,
                                          std::span<const SweepWindows<T>> groups, Out z) const {
  std::vector<Operand> windows;
  for (const SweepWindows<T>& group : groups) {
    windows.insert(windows.end(), {group.v, group.vt});
  }
  launch(queue, info, std::move(windows), {z},
         [chase, z, all = std::vector(groups.begin(), groups.end())] {
           if constexpr (!is_complex<T>) {
             if (slide<T>(all.front().v, all.front().vt)) {
               slide_windows<T>(chase, all, z);
               return;
             }
           }
           multiply_by_windows<T>(chase, all, z);
         });
}

template <Scalar T>
void HostBandKernels<T>::do_mirror(Queue& queue, const WorkInfo& info, In below, Out above,
                                   std::int64_t tile, std::int64_t ahead) const {
  // A piece of a block of rows at a time, which stays in the cache.
  constexpr std::int64_t at_once = 64;
  launch(queue, info, {below}, {above}, [=] {
    for (std::int64_t first = 0; first < above.rows(); first += tile) {
      const std::int64_t rows = std::min(tile, above.rows() - first);
      std::int64_t column = std::max<std::int64_t>(first / tile + 1 - ahead, 0) * tile;
      for (; column < above.columns(); column += at_once) {
        const std::int64_t end = std::min(column + at_once, above.columns());
        for (std::int64_t j = column; j < end; ++j) {
          for (std::int64_t i = first; i < first + rows; ++i) {
            above(i, j) = conjugate(below(j, i));
          }
        }
      }
    }
  });
}

template <Scalar T>
void HostBandKernels<T>::do_permute_rows(Queue& queue, const WorkInfo& info,
                                         const std::int64_t* order, In source, Out target) const {
  launch(queue, info, {source}, {target}, [=] {
    for (std::int64_t j = 0; j < target.columns(); ++j) {
      for (std::int64_t i = 0; i < target.rows(); ++i) {
        target(i, j) = source(order[i], j);
      }
    }
  });
}

template <Scalar T>
void HostBandKernels<T>::do_fix_phases(Queue& queue, const WorkInfo& info, Out z) const {
  launch(queue, info, {}, {z}, [=] {
    for (std::int64_t j = 0; j < z.columns(); ++j) {
      T* const column = &z(0, j);
      T* const largest = first_of_largest_norm(column, z.rows());
      const RealOf<T> size = std::abs(*largest);
      if (!(size > 0)) {
        continue;
      }
      const T turn = conjugate(*largest) / size;
      std::for_each(column, column + z.rows(), [turn](T& entry) { entry *= turn; });
      *largest = size;
    }
  });
}

template class HostBandKernels<float>;
template class HostBandKernels<double>;
template class HostBandKernels<std::complex<float>>;
template class HostBandKernels<std::complex<double>>;
template void run_chase_task(const ChaseTask&, const SweepGroup&, MatrixView<float>,
                             MatrixView<float>, float*);
template void run_chase_task(const ChaseTask&, const SweepGroup&, MatrixView<double>,
                             MatrixView<double>, double*);
template void run_chase_task(const ChaseTask&, const SweepGroup&, MatrixView<std::complex<float>>,
                             MatrixView<std::complex<float>>, std::complex<float>*);
template void run_chase_task(const ChaseTask&, const SweepGroup&, MatrixView<std::complex<double>>,
                             MatrixView<std::complex<double>>, std::complex<double>*);

}  // namespace shardsolve::runtime::host
