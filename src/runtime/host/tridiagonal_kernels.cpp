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
/// None of a list that is not there.
Operand indices(const std::int64_t* list, std::int64_t count) {
  return {list, list == nullptr ? 0 : count};
}

}  // namespace

template <Scalar Real>
void HostTridiagonalKernels<Real>::do_solve_small(Queue& queue, const WorkInfo& info,
                                                  const Tridiagonal<Real>& t, Real* values,
                                                  Out vectors, std::int64_t* failed) const {
  launch(queue, info, {diagonal_of(t), off_diagonal_of(t)},
         {Operand(values, t.order), vectors, Operand(failed, 1)}, [=] {
           std::vector<Real> off_diagonal(t.off_diagonal,
                                          t.off_diagonal + std::max<std::int64_t>(t.order - 1, 0));
           std::copy_n(t.diagonal, t.order, values);
           *failed = blas::steqr(values, off_diagonal.data(), vectors);
         });
}

template <Scalar Real>
void HostTridiagonalKernels<Real>::do_secular_roots(Queue& queue, const WorkInfo& info,
                                                    const SecularEquation<Real>& equation,
                                                    std::int64_t first, std::int64_t count,
                                                    Root* roots) const {
  launch(queue, info, {poles_of(equation), weights_of(equation)}, {Operand(roots + first, count)},
         [=] {
           for (std::int64_t i = first; i < first + count; ++i) {
             roots[i] = secular_root(equation, i);
           }
         });
}

template <Scalar Real>
void HostTridiagonalKernels<Real>::do_secular_weights(Queue& queue, const WorkInfo& info,
                                                      const SecularEquation<Real>& equation,
                                                      const Root* roots, Real* weights) const {
  launch(queue, info, {poles_of(equation), weights_of(equation), Operand(roots, equation.count)},
         {Operand(weights, equation.count)},
         [=] { make_secular_weights(equation, roots, weights); });
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
  launch(queue, info, {diagonal_of(t), off_diagonal_of(t)}, {Operand(values, count)},
         [=] { host::bisect(t, low, high, width, first, count, values); });
}

template class HostTridiagonalKernels<float>;
template class HostTridiagonalKernels<double>;

}  // namespace shardsolve::runtime::host
