#include "runtime/host/lu_kernels.hpp"

#include "runtime/host/blas.hpp"
#include "runtime/host/general_multiply.hpp"
#include "runtime/host/operands.hpp"
#include "runtime/host/panel_lu.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

namespace shardsolve::runtime::host {
namespace lu {
namespace {

using Part = Operand::Part;

/// The larger one, NaN if one is.
double larger(double a, double b) { return a >= b || std::isnan(a) ? a : b; }

template <Scalar T>
double modulus(T value) {
  return std::hypot(double{std::real(value)}, double{std::imag(value)});
}

/// |r| / size, where a size of less than `least` is not judged by, and one that left the range is
/// no number.
template <Scalar T>
double component_error(T r, double size, double least) {
  if (!std::isfinite(size)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return size < least ? 0.0 : modulus(r) / size;
}

}  // namespace
}  // namespace lu

template <Scalar T>
void HostLuKernels<T>::do_panel(Queue& queue, const WorkInfo& work, std::int64_t first, Out a,
                                std::int64_t* places, std::int64_t* info) const {
  launch(queue, work, {}, {a, Operand(places, a.columns()), Operand(info, 1)},
         [=] { *info = factor_panel(first, a, places); });
}

template <Scalar T>
void HostLuKernels<T>::do_swap_rows(Queue& queue, const WorkInfo& info, std::int64_t first,
                                    const std::int64_t* places, std::int64_t count, Out a) const {
  launch(queue, info, {Operand(places, count)}, {a},
         [=] { swap_panel_rows(first, places, count, a); });
}

template <Scalar T>
void HostLuKernels<T>::do_solve_tile(Queue& queue, const WorkInfo& info, Triangle triangle, Op op,
                                     In tile, Out b) const {
  if (triangle == Triangle::upper) {
    launch(queue, info, {Operand(tile, lu::Part::upper)}, {b},
           [=] { blas::Blas<T>::trsm(Side::left, triangle, op, tile, b); });
  } else if (op == Op::none) {
    launch(queue, info, {Operand(tile, lu::Part::lower)}, {b}, [=] { solve_unit_lower(tile, b); });
  } else {
    launch(queue, info, {Operand(tile, lu::Part::lower)}, {b},
           [=] { blas::Blas<T>::trsm_unit_lower(op, tile, b); });
  }
}

template <Scalar T>
void HostLuKernels<T>::do_upper_max(Queue& queue, const WorkInfo& info, std::int64_t first, In a,
                                    double* target) const {
  const In above = a.block(0, 0, first, a.columns());
  const In triangle = a.block(first, 0, a.columns(), a.columns());
  launch(queue, info, {above, Operand(triangle, lu::Part::upper)}, {Operand(target, a.columns())},
         [=] {
           for (std::int64_t j = 0; j < a.columns(); ++j) {
             double largest = 0.0;
             for (std::int64_t i = 0; i <= first + j; ++i) {
               largest = lu::larger(largest, lu::modulus(a(i, j)));
             }
             target[j] = largest;
           }
         });
}

template <Scalar T>
void HostLuKernels<T>::do_transpose(Queue& queue, const WorkInfo& info, In source,
                                    Out target) const {
  launch(queue, info, {source}, {target}, [=] {
    for (std::int64_t j = 0; j < source.columns(); ++j) {
      for (std::int64_t i = 0; i < source.rows(); ++i) {
        target(j, i) = source(i, j);
      }
    }
  });
}

template <Scalar T>
void HostLuKernels<T>::do_choose_columns(Queue& queue, const WorkInfo& info, In source,
                                         const std::int64_t* columns, Out target) const {
  launch(queue, info, {source, Operand(columns, target.rows())}, {target}, [=] {
    for (std::int64_t i = 0; i < target.rows(); ++i) {
      for (std::int64_t j = 0; j < target.columns(); ++j) {
        target(i, j) = source(j, columns[i]);
      }
    }
  });
}

template <Scalar T>
void HostLuKernels<T>::do_choose_rows(Queue& queue, const WorkInfo& info, In source,
                                      const std::int64_t* rows, Out target) const {
  launch(queue, info, {source, Operand(rows, target.rows())}, {target}, [=] {
    for (std::int64_t j = 0; j < target.columns(); ++j) {
      for (std::int64_t i = 0; i < target.rows(); ++i) {
        target(i, j) = source(rows[i], j);
      }
    }
  });
}

template <Scalar T>
void HostLuKernels<T>::do_order_columns(Queue& queue, const WorkInfo& info, In source,
                                        const std::int64_t* columns, Out target) const {
  launch(queue, info, {source, Operand(columns, target.columns())}, {target}, [=] {
    for (std::int64_t j = 0; j < target.columns(); ++j) {
      const T* const from = source.columns_from(columns[j], 1).data();
      std::copy(from, from + target.rows(), target.columns_from(j, 1).data());
    }
  });
}

template <Scalar T>
void HostLuKernels<T>::do_multiply(Queue& queue, const WorkInfo& info, Op op, In a, In x, Out y,
                                   MatrixView<double> sizes) const {
  launch(queue, info, {a, x}, {y, sizes}, [=] {
    if (op == Op::none) {
      multiply_wide(a, x, y, sizes);
    } else {
      multiply_transposed_wide(op, a, x, y, sizes);
    }
  });
}

template <Scalar T>
void HostLuKernels<T>::do_moduli(Queue& queue, const WorkInfo& info, In source,
                                 MatrixView<Real> target) const {
  launch(queue, info, {source}, {target}, [=] { moduli(source, target); });
}

template <Scalar T>
void HostLuKernels<T>::do_row_sums(Queue& queue, const WorkInfo& info, double scale, In a,
                                   double* sums, double* largest) const {
  launch(queue, info, {a}, {Operand(sums, a.rows()), Operand(largest, a.rows())},
         [=] { row_sums(scale, a, sums, largest); });
}

template <Scalar T>
void HostLuKernels<T>::do_component_errors(Queue& queue, const WorkInfo& info, double least, In r,
                                           MatrixView<const double> sizes, In b,
                                           double* target) const {
  launch(queue, info, {r, sizes, b}, {Operand(target, r.columns())}, [=] {
    for (std::int64_t j = 0; j < r.columns(); ++j) {
      double largest = 0.0;
      for (std::int64_t i = 0; i < r.rows(); ++i) {
        const double size = sizes(i, j) + lu::modulus(b(i, j));
        largest = lu::larger(largest, lu::component_error(r(i, j), size, least));
      }
      target[j] = largest;
    }
  });
}

template class HostLuKernels<float>;
template class HostLuKernels<double>;
template class HostLuKernels<std::complex<float>>;
template class HostLuKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::host
