#include "runtime/host/krylov_kernels.hpp"

#include "runtime/host/block_sweeps.hpp"
#include "runtime/host/dot_tree.hpp"
#include "runtime/host/krylov_program.hpp"
#include "runtime/host/leaf_sums.hpp"
#include "runtime/host/operands.hpp"
#include "runtime/host/spare_threads.hpp"
#include "runtime/krylov/number.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace shardsolve::runtime::host {
namespace krylov_host {
namespace {

/// The largest and the least |x_i| as integers: those of nonnegative numbers rise with them,
/// infinities and NaNs last. Compilers make vectors of that.
template <class Real>
using Bits = std::conditional_t<sizeof(Real) == 4, std::int32_t, std::int64_t>;
template <class Real>
struct Sizes {
  Bits<Real> largest = 0;
  Bits<Real> least = std::numeric_limits<Bits<Real>>::max();  ///< that is not 0
};
template <class Real>
SHARDSOLVE_INLINE Sizes<Real> sizes_of(const Real* x, std::int64_t count) {
  constexpr Bits<Real> all = std::numeric_limits<Bits<Real>>::max();
  Sizes<Real> sizes;
  for (std::int64_t i = 0; i < count; ++i) {
    const Bits<Real> size = std::bit_cast<Bits<Real>>(x[i]) & all;
    sizes.largest = std::max(sizes.largest, size);
    sizes.least = std::min(sizes.least, size == 0 ? all : size);
  }
  return sizes;
}
template <class Real>
Sizes<Real> sizes_plain(const Real* x, std::int64_t count) {
  return sizes_of(x, count);
}
#if defined(__x86_64__)
template <class Real>
__attribute__((target("avx2,fma"))) Sizes<Real> sizes_with_avx(const Real* x, std::int64_t count) {
  return sizes_of(x, count);
}
#endif
template <class Real>
Sizes<Real> sizes_best(const Real* x, std::int64_t count) {
#if defined(__x86_64__)
  if (has_fma()) {
    return sizes_with_avx(x, count);
  }
#endif
  return sizes_plain(x, count);
}

/// Of `count` reals; see KrylovKernels::combine.
template <class Real>
SHARDSOLVE_INLINE void combine_parts(Real a, const Real* x, Real b, Real* y, std::int64_t count) {
  if (b == 0) {
    for (std::int64_t i = 0; i < count; ++i) {
      y[i] = a * x[i];
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      y[i] = fused_multiply_add(a, x[i], b * y[i]);
    }
  }
}
template <class Real>
void combine_plain(Real a, const Real* x, Real b, Real* y, std::int64_t count) {
  combine_parts(a, x, b, y, count);
}
#if defined(__x86_64__)
template <class Real>
__attribute__((target("avx2,fma"))) void combine_with_fma(Real a, const Real* x, Real b, Real* y,
                                                          std::int64_t count) {
  combine_parts(a, x, b, y, count);
}
#endif
template <class Real>
void combine_best(Real a, const Real* x, Real b, Real* y, std::int64_t count) {
#if defined(__x86_64__)
  if (has_fma()) {
    combine_with_fma(a, x, b, y, count);
    return;
  }
#endif
  combine_plain(a, x, b, y, count);
}

/// target = 2^exponent source.
template <Scalar T>
void scale(int exponent, MatrixView<const T> source, MatrixView<T> target) {
  // A product with a power of two is rounded as ldexp rounds, which takes long.
  if (const auto factor = std::ldexp(RealOf<T>{1}, exponent); std::isnormal(factor)) {
    for (std::int64_t j = 0; j < target.columns(); ++j) {
      for (std::int64_t i = 0; i < target.rows(); ++i) {
        target(i, j) = source(i, j) * factor;
      }
    }
    return;
  }
  for (std::int64_t j = 0; j < target.columns(); ++j) {
    for (std::int64_t i = 0; i < target.rows(); ++i) {
      if constexpr (is_complex<T>) {
        target(i, j) = {std::ldexp(source(i, j).real(), exponent),
                        std::ldexp(source(i, j).imag(), exponent)};
      } else {
        target(i, j) = std::ldexp(source(i, j), exponent);
      }
    }
  }
}

/// Numbers of factors that a piece has about: what it costs to hand one to a thread is little
/// beside them.
constexpr std::int64_t entries_of_piece = 65536;

/// Solves with blocks for the rows of `target`, from `first` on of all that blocks have.
template <Scalar T>
struct BlockSolve {
  krylov::BlockFactors<T> factors;
  MatrixView<const T> source;
  MatrixView<T> work;
  std::int64_t first;
  MatrixView<T> target;

  /// The block that has a row.
  std::int64_t block_of(std::int64_t row) const {
    return std::upper_bound(factors.blocks, factors.blocks + factors.count, row,
                            [](std::int64_t one, const krylov::FactoredBlock& block) {
                              return one < block.begin;
                            }) -
           factors.blocks - 1;
  }
  void solve(const krylov::FactoredBlock& block) const {
    const std::int64_t at = block.begin - (source.rows() == target.rows() ? first : 0);
    T* const rows = work.data() + at;
    std::copy_n(source.data() + at, block.size, rows);
    solve_block(factors, block, rows);
    const std::int64_t from = std::max(block.begin, first);
    const std::int64_t to = std::min(block.begin + block.size, first + target.rows());
    std::copy(rows + (from - block.begin), rows + (to - block.begin),
              target.data() + (from - first));
  }
  void run(SpareThreads* spare) const {
    const std::int64_t begin = block_of(first);
    const std::int64_t count = block_of(first + target.rows() - 1) + 1 - begin;
    const auto solve_some = [&](std::int64_t piece, std::int64_t pieces) {
      for (std::int64_t b = piece * count / pieces; b < (piece + 1) * count / pieces; ++b) {
        solve(factors.blocks[begin + b]);
      }
    };
    const std::int64_t pieces =
        std::min(factors.entries / factors.count * count / entries_of_piece, count);
    if (spare == nullptr || pieces < 2) {
      solve_some(0, 1);
    } else {
      in_pieces(spare, pieces, [&](std::int64_t piece) { solve_some(piece, pieces); });
    }
  }
};

}  // namespace
}  // namespace krylov_host

template <Scalar T>
void HostKrylovKernels<T>::do_scan(Queue& queue, const WorkInfo& info, MatrixView<const T> x,
                                   Scan* result) const {
  launch(queue, info, {x}, {Operand(result, 1)}, [=] {
    using Real = RealOf<T>;
    Scan found{.exponent = Scan::zero};
    const auto sizes = krylov_host::sizes_best(reinterpret_cast<const Real*>(x.data()),
                                               (is_complex<T> ? 2 : 1) * x.rows());
    if (std::isfinite(std::bit_cast<Real>(sizes.largest))) {
      if (sizes.largest != 0) {
        found.exponent = std::ilogb(std::bit_cast<Real>(sizes.largest)) + 1;
        found.least = std::ilogb(std::bit_cast<Real>(sizes.least)) + 1;
      }
      *result = found;
      return;
    }
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      for (const RealOf<T> part : {std::real(x(i, 0)), std::imag(x(i, 0))}) {
        if (!std::isfinite(part)) {
          found.first_nonfinite = found.first_nonfinite < 0 ? i : found.first_nonfinite;
        } else if (part != 0) {
          const std::int64_t exponent = std::ilogb(part) + 1;
          found.exponent = std::max(found.exponent, exponent);
          found.least = std::min(found.least, exponent);
        }
      }
    }
    *result = found;
  });
}

template <Scalar T>
void HostKrylovKernels<T>::do_scale_exactly(Queue& queue, const WorkInfo& info, int exponent,
                                            MatrixView<const T> source,
                                            MatrixView<T> target) const {
  launch(queue, info, {source}, {target}, [=] { krylov_host::scale(exponent, source, target); });
}

template <Scalar T>
void HostKrylovKernels<T>::do_begin_solve(Queue& queue, const WorkInfo& info,
                                          const krylov::Problem& problem, const Scan* of_b,
                                          const Scan* of_x, const std::int64_t* boundaries,
                                          std::int64_t ranks, krylov::SolveState* solve) const {
  launch(queue, info, {Operand(of_b, ranks), Operand(boundaries, ranks + 1)}, {Operand(solve, 1)},
         [=] {
           *solve = krylov::begin_solve(problem, krylov::merged(of_b, boundaries, ranks),
                                        krylov::merged(of_x, boundaries, ranks),
                                        std::numeric_limits<RealOf<T>>::max_exponent);
         });
}

template <Scalar T>
void HostKrylovKernels<T>::do_end_solve(Queue& queue, const WorkInfo& info,
                                        const krylov::Problem& problem, const Scan* of_x,
                                        std::int64_t ranks, krylov::SolveState* solve,
                                        krylov::Report* report, RealOf<T>* figures) const {
  launch(queue, info, {Operand(of_x, ranks)},
         {Operand(solve, 1), Operand(report, 1), Operand(figures, krylov::report_figures)},
         [=] { krylov::end_solve(problem, of_x, ranks, *solve, *report, figures); });
}

template <Scalar T>
void HostKrylovKernels<T>::do_scale_for(Queue& queue, const WorkInfo& info, krylov::Way way,
                                        const krylov::SolveState* solve, MatrixView<const T> source,
                                        MatrixView<T> target) const {
  launch(queue, info, {source, Operand(solve, 1)}, {target}, [=] {
    if (krylov::is_zero_vector(*solve)) {
      std::fill_n(target.data(), target.rows(), T{0});
    } else {
      krylov_host::scale(krylov::exponent_of(*solve, way), source, target);
    }
  });
}

template <Scalar T>
void HostKrylovKernels<T>::do_run(Queue& queue, const WorkInfo& info,
                                  const krylov::Program& program, const krylov::Vectors<T>& vectors,
                                  const krylov::State* state, const krylov::StateRoom& room,
                                  const krylov::SumTable<T>& sums, const std::int32_t* rank) const {
  require(rank == nullptr, "run");
  SpareThreads* const spare = static_cast<HostQueue&>(queue).spare();
  // Vectors are written by plain code, which ThreadSanitizer sees.
  launch(queue, info, {Operand(state, 1)}, {}, [=] {
    const RowPieces pieces(sums.layout, vectors.first_row, vectors.rows);
    if (spare == nullptr || pieces.count() < 2) {
      run_program(program, vectors, *state, room, sums, 0, vectors.rows);
      return;
    }
    in_pieces(spare, pieces.count(), [&](std::int64_t piece) {
      run_program(program, vectors, *state, room, sums, pieces.begin(piece),
                  pieces.begin(piece + 1));
    });
  });
}

template <Scalar T>
void HostKrylovKernels<T>::do_finish(Queue& queue, const WorkInfo& info,
                                     const krylov::Problem& problem, int reduction,
                                     const krylov::SumTable<T>& sums, krylov::State* state,
                                     const krylov::StateRoom& room) const {
  launch(queue, info, {}, {Operand(state, 1)},
         [=] { finish_reduction(problem, reduction, sums, *state, room); });
}

template <Scalar T>
void HostKrylovKernels<T>::do_divide_rows(Queue& queue, const WorkInfo& info,
                                          MatrixView<const T> diagonal, MatrixView<const T> source,
                                          MatrixView<T> target, const std::int32_t* skip) const {
  launch(queue, info, {diagonal, source, Operand(skip, 1)}, {target}, [=] {
    if (*skip != 0) {
      return;
    }
    for (std::int64_t i = 0; i < target.rows(); ++i) {
      if (diagonal.empty()) {
        target(i, 0) = source(i, 0);
      } else if constexpr (is_complex<T>) {
        const krylov::Number quotient =
            krylov::divided({source(i, 0).real(), source(i, 0).imag()},
                            {diagonal(i, 0).real(), diagonal(i, 0).imag()});
        target(i, 0) = {static_cast<RealOf<T>>(quotient.re), static_cast<RealOf<T>>(quotient.im)};
      } else {
        target(i, 0) = source(i, 0) / diagonal(i, 0);
      }
    }
  });
}

template <Scalar T>
void HostKrylovKernels<T>::do_combine(Queue& queue, const WorkInfo& info, RealOf<T> a,
                                      MatrixView<const T> x, RealOf<T> b, MatrixView<T> y,
                                      const std::int32_t* skip) const {
  launch(queue, info, {x, Operand(skip, 1)}, {y}, [=] {
    if (*skip == 0) {
      constexpr std::int64_t width = is_complex<T> ? 2 : 1;
      krylov_host::combine_best(a, reinterpret_cast<const RealOf<T>*>(x.data()), b,
                                reinterpret_cast<RealOf<T>*>(y.data()), width * x.rows());
    }
  });
}

template <Scalar T>
void HostKrylovKernels<T>::do_solve_blocks(Queue& queue, const WorkInfo& info,
                                           const krylov::BlockFactors<T>& factors,
                                           MatrixView<const T> source, MatrixView<T> work,
                                           std::int64_t first, MatrixView<T> target,
                                           const std::int32_t* skip,
                                           const std::int32_t* rank) const {
  require(rank == nullptr, "solve_blocks");
  SpareThreads* const spare = static_cast<HostQueue&>(queue).spare();
  const krylov_host::BlockSolve<T> blocks{factors, source, work, first, target};
  launch(queue, info, {source, Operand(skip, 1)}, {work, target}, [=] {
    if (*skip == 0) {
      blocks.run(spare);
    }
  });
}

template class HostKrylovKernels<float>;
template class HostKrylovKernels<double>;
template class HostKrylovKernels<std::complex<float>>;
template class HostKrylovKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::host
