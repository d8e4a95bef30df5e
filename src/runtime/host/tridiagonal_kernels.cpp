#include "runtime/host/tridiagonal_kernels.hpp"

#include "runtime/host/blas.hpp"
#include "runtime/host/operands.hpp"
#include "runtime/host/secular.hpp"
#include "runtime/host/sturm.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace shardsolve::runtime::host {
namespace {

template <class Real>
Operand diagonal_of(const Tridiagonal<Real>& t) {
  return {t.diagonal, t.order};
}
template <class Real>
Operand off_diagonal_of(const Tridiagonal<Real>& t) {
  return {t.off_diagonal, std::max<std::int64_t>(t.order - 1, 0)};
}
template <class Real>
Operand poles_of(const SecularEquation<Real>& equation) {
  return {equation.poles, equation.count};
}
template <class Real>
Operand weights_of(const SecularEquation<Real>& equation) {
  return {equation.weights, equation.count};
}
/// Pieces of work in which a queue shows signs of life: what takes n^2 operations, or n times as
/// many halvings, may take minutes. Calls enqueue(first, count) for each.
template <class Enqueue>
void in_pieces(std::int64_t first, std::int64_t count, std::int64_t piece, Enqueue enqueue) {
  for (std::int64_t begin = first; begin < first + count; begin += piece) {
    enqueue(begin, std::min(piece, first + count - begin));
  }
}
/// The part of a piece of work that has so much of it.
WorkInfo share_of(WorkInfo info, std::int64_t some, std::int64_t all) {
  info.flops *= static_cast<double>(some) / static_cast<double>(all);
  return info;
}
constexpr std::int64_t roots_at_once = 256;
constexpr std::int64_t poles_at_once = 512;
constexpr std::int64_t values_at_once = 64;
constexpr std::int64_t parts_at_once = 32;

/// None of a list that is not there.
Operand indices(const std::int64_t* list, std::int64_t count) {
  return {list, list == nullptr ? 0 : count};
}

/// Of one part of T; what steqr says.
template <class Real>
std::int64_t solve_part(const Tridiagonal<Real>& t, std::int64_t begin, std::int64_t end,
                        Real* values, MatrixView<Real> vectors) {
  const std::int64_t order = end - begin;
  std::vector<Real> off_diagonal(t.off_diagonal + begin,
                                 t.off_diagonal + begin + std::max<std::int64_t>(order - 1, 0));
  std::copy_n(t.diagonal + begin, order, values + begin);
  return blas::steqr(values + begin, off_diagonal.data(),
                     vectors.block(begin, begin, order, order));
}

}  // namespace

template <Scalar Real>
void HostTridiagonalKernels<Real>::do_solve_small(Queue& queue, const WorkInfo& info,
                                                  const Tridiagonal<Real>& t,
                                                  const SmallParts& parts, Real* values,
                                                  Out vectors, std::int64_t* infos) const {
  in_pieces(0, parts.count, parts_at_once, [&](std::int64_t first, std::int64_t some) {
    launch(queue, share_of(info, some, parts.count),
           {diagonal_of(t), off_diagonal_of(t), indices(parts.bounds, 2 * parts.count)},
           {Operand(values, t.order), vectors, Operand(infos + first, some)}, [=] {
             for (std::int64_t p = first; p < first + some; ++p) {
               const std::int64_t begin = parts.bounds == nullptr ? 0 : parts.bounds[2 * p];
               const std::int64_t end = parts.bounds == nullptr ? t.order : parts.bounds[2 * p + 1];
               infos[p] = solve_part(t, begin, end, values, vectors);
             }
           });
  });
}

template <Scalar Real>
void HostTridiagonalKernels<Real>::do_secular_roots(Queue& queue, const WorkInfo& info,
                                                    const SecularEquation<Real>& equation,
                                                    std::int64_t first, std::int64_t count,
                                                    Root* roots) const {
  in_pieces(first, count, roots_at_once, [&](std::int64_t begin, std::int64_t some) {
    launch(queue, share_of(info, some, count), {poles_of(equation), weights_of(equation)},
           {Operand(roots + begin, some)}, [=] {
             for (std::int64_t i = begin; i < begin + some; ++i) {
               roots[i] = secular_root(equation, i);
             }
           });
  });
}

template <Scalar Real>
void HostTridiagonalKernels<Real>::do_secular_weights(Queue& queue, const WorkInfo& info,
                                                      const SecularEquation<Real>& equation,
                                                      const Root* roots, Real* weights) const {
  in_pieces(0, equation.count, poles_at_once, [&](std::int64_t begin, std::int64_t some) {
    launch(queue, share_of(info, some, equation.count),
           {poles_of(equation), weights_of(equation), Operand(roots, equation.count)},
           {Operand(weights + begin, some)},
           [=] { make_secular_weights(equation, roots, begin, some, weights); });
  });
}

template <Scalar Real>
void HostTridiagonalKernels<Real>::do_secular_vectors(Queue& queue, const WorkInfo& info,
                                                      const SecularEquation<Real>& equation,
                                                      const Root* roots, const std::int64_t* rows,
                                                      std::int64_t first, Out u) const {
  launch(queue, info,
         {poles_of(equation), weights_of(equation), Operand(roots + first, u.columns()),
          Operand(rows, u.rows())},
         {u}, [=] {
           for (std::int64_t j = 0; j < u.columns(); ++j) {
             make_secular_vector(equation, roots[first + j], rows, u.columns_from(j, 1).data());
           }
         });
}

template <Scalar Real>
void HostTridiagonalKernels<Real>::do_rotate_columns(Queue& queue, const WorkInfo& info,
                                                     const ColumnRotation<Real>* rotations,
                                                     std::int64_t count, Out z) const {
  launch(queue, info, {Operand(rotations, count), z}, {z}, [=] {
    for (std::int64_t r = 0; r < count; ++r) {
      const ColumnRotation<Real> rotation = rotations[r];
      Real* const x = z.columns_from(rotation.x, 1).data();
      Real* const y = z.columns_from(rotation.y, 1).data();
      for (std::int64_t i = 0; i < z.rows(); ++i) {
        const Real old = x[i];
        x[i] = rotation.c * old + rotation.s * y[i];
        y[i] = rotation.c * y[i] - rotation.s * old;
      }
    }
  });
}

template <Scalar Real>
void HostTridiagonalKernels<Real>::do_copy_columns(Queue& queue, const WorkInfo& info,
                                                   std::int64_t count, In source,
                                                   const std::int64_t* from, Out target,
                                                   const std::int64_t* to) const {
  launch(queue, info, {indices(from, count), indices(to, count), source}, {target}, [=] {
    for (std::int64_t j = 0; j < count; ++j) {
      std::copy_n(source.columns_from(from == nullptr ? j : from[j], 1).data(), source.rows(),
                  target.columns_from(to == nullptr ? j : to[j], 1).data());
    }
  });
}

template <Scalar Real>
void HostTridiagonalKernels<Real>::do_count_eigenvalues(Queue& queue, const WorkInfo& info,
                                                        const Tridiagonal<Real>& t,
                                                        const Real* points, std::int64_t count,
                                                        std::int64_t* below) const {
  launch(queue, info, {diagonal_of(t), off_diagonal_of(t), Operand(points, count)},
         {Operand(below, count)}, [=] { count_eigenvalues(t, points, count, below); });
}

template <Scalar Real>
void HostTridiagonalKernels<Real>::do_bisect(Queue& queue, const WorkInfo& info,
                                             const Tridiagonal<Real>& t, Real low, Real high,
                                             Real width, std::int64_t first, std::int64_t count,
                                             Real* values) const {
  in_pieces(0, count, values_at_once, [&](std::int64_t begin, std::int64_t some) {
    launch(queue, share_of(info, some, count), {diagonal_of(t), off_diagonal_of(t)},
           {Operand(values + begin, some)},
           [=] { host::bisect(t, low, high, width, first + begin, some, values + begin); });
  });
}

template class HostTridiagonalKernels<float>;
template class HostTridiagonalKernels<double>;

}  // namespace shardsolve::runtime::host
