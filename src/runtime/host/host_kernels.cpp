#include "runtime/host/host_kernels.hpp"

#include "runtime/host/blas.hpp"
#include "runtime/host/inspect.hpp"
#include "runtime/host/operands.hpp"
#include "runtime/operand_shapes.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

namespace shardsolve::runtime::host {
namespace {

using Part = Operand::Part;

Part part_of(Triangle triangle) { return triangle == Triangle::lower ? Part::lower : Part::upper; }

template <Scalar T>
T conjugate(T value) {
  if constexpr (is_complex<T>) {
    return std::conj(value);
  } else {
    return value;
  }
}

/// |value|; the largest double where finite parts have a modulus beyond it.
template <Scalar T>
double magnitude(T value) {
  const double re{std::real(value)};
  const double im{std::imag(value)};
  if (!std::isfinite(re) || !std::isfinite(im)) {
    return std::abs(re) + std::abs(im);
  }
  return std::min(std::hypot(re, im), std::numeric_limits<double>::max());
}

template <Scalar T>
void fill_view(T value, MatrixView<T> target) {
  for (std::int64_t j = 0; j < target.columns(); ++j) {
    std::fill_n(target.columns_from(j, 1).data(), target.rows(), value);
  }
}

/// target = source^H, by squares of a cache line a side: lines are read and written whole.
template <Scalar T>
void conjugate_transpose_squares(MatrixView<const T> source, MatrixView<T> target) {
  constexpr std::int64_t line = 64 / sizeof(T);
  for (std::int64_t row = 0; row < source.rows(); row += line) {
    const std::int64_t last_row = std::min(row + line, source.rows());
    for (std::int64_t column = 0; column < source.columns(); column += line) {
      const std::int64_t last_column = std::min(column + line, source.columns());
      for (std::int64_t i = row; i < last_row; ++i) {
        for (std::int64_t j = column; j < last_column; ++j) {
          target(j, i) = conjugate(source(i, j));
        }
      }
    }
  }
}

/// The power of two next below |x|, or its reciprocal; at most so large that neither leaves the
/// range.
template <class Real>
Real power_of_two(Real x, bool inverted) {
  if (x == Real{0} || !std::isfinite(x)) {
    return 1;
  }
  constexpr int largest = std::is_same_v<Real, float> ? 120 : 1000;
  const int exponent = std::clamp(std::ilogb(x), -largest, largest);
  return std::scalbn(Real{1}, inverted ? -exponent : exponent);
}

}  // namespace

template <Scalar T>
void HostKernels<T>::gemm(Queue& queue, Op op_a, Op op_b, T alpha, In a, In b, T beta,
                          Out c) const {
  const std::int64_t k = require_product(op_a, a, op_b, b, c);
  if (c.empty()) {
    return;
  }
  const WorkInfo info{.name = "gemm", .flops = multiply_add<T> * product(c.rows(), c.columns(), k)};
  launch(queue, info, {a, b}, {c}, [=] {
    if (c.columns() == 1 && op_b == Op::none && k > 0) {
      // A gemm with one column would pack all of a to read it once.
      if (beta == T{0}) {
        fill_view(T{0}, c);
      }
      blas::Blas<T>::gemv(op_a, alpha, a, b.data(), beta == T{0} ? T{1} : beta, c.data());
    } else {
      blas::Blas<T>::gemm(op_a, op_b, alpha, a, b, beta, c);
    }
  });
}

template <Scalar T>
void HostKernels<T>::herk(Queue& queue, Triangle triangle, Op op, Real alpha, In a, Real beta,
                          Out c) const {
  require(c.rows() == c.columns() && rows_of(op, a) == c.rows(), "herk");
  if (c.empty()) {
    return;
  }
  const std::int64_t k = columns_of(op, a);
  const WorkInfo info{.name = "herk",
                      .flops = 0.5 * multiply_add<T> * product(c.rows(), c.rows() + 1, k)};
  launch(queue, info, {a}, {Operand(c, part_of(triangle))},
         [=] { blas::Blas<T>::herk(triangle, op, alpha, a, beta, c); });
}

template <Scalar T>
void HostKernels<T>::trsm(Queue& queue, Side side, Triangle triangle, Op op, In a, Out b) const {
  require(a.rows() == a.columns() && a.rows() == (side == Side::left ? b.rows() : b.columns()),
          "trsm");
  if (b.empty()) {
    return;
  }
  const WorkInfo info{.name = "trsm",
                      .flops = 0.5 * multiply_add<T> * product(b.rows(), b.columns(), a.rows())};
  launch(queue, info, {Operand(a, part_of(triangle))}, {b},
         [=] { blas::Blas<T>::trsm(side, triangle, op, a, b); });
}

template <Scalar T>
void HostKernels<T>::copy(Queue& queue, In source, Out target) const {
  require(same_shape(source, target), "copy");
  launch(queue, {.name = "copy"}, {source}, {target}, [=] {
    for (std::int64_t j = 0; j < source.columns(); ++j) {
      std::copy_n(source.columns_from(j, 1).data(), source.rows(),
                  target.columns_from(j, 1).data());
    }
  });
}

template <Scalar T>
void HostKernels<T>::conjugate_transpose(Queue& queue, In source, Out target) const {
  require(source.rows() == target.columns() && source.columns() == target.rows(),
          "conjugate_transpose");
  launch(queue, {.name = "transpose"}, {source}, {target},
         [=] { conjugate_transpose_squares(source, target); });
}

template <Scalar T>
void HostKernels<T>::fill(Queue& queue, T value, Out target) const {
  launch(queue, {.name = "fill"}, {}, {target}, [=] { fill_view(value, target); });
}

template <Scalar T>
void HostKernels<T>::identity(Queue& queue, Out target) const {
  require(target.rows() == target.columns(), "identity");
  launch(queue, {.name = "identity"}, {}, {target}, [=] {
    fill_view(T{0}, target);
    for (std::int64_t j = 0; j < target.columns(); ++j) {
      target(j, j) = T{1};
    }
  });
}

template <Scalar T>
void HostKernels<T>::lower_triangle(Queue& queue, In source, Out target) const {
  require(source.rows() == source.columns() && same_shape(source, target), "lower_triangle");
  launch(queue, {.name = "copy"}, {source}, {target}, [=] {
    for (std::int64_t j = 0; j < source.columns(); ++j) {
      for (std::int64_t i = 0; i < source.rows(); ++i) {
        target(i, j) = i < j ? T{0} : source(i, j);
      }
    }
  });
}

template <Scalar T>
void HostKernels<T>::scale_rows(Queue& queue, In scales, bool inverted, In source,
                                Out target) const {
  require(same_shape(source, target) && scales.rows() == source.rows() &&
              scales.columns() == source.rows(),
          "scale_rows");
  launch(queue, {.name = "copy"}, {scales, source}, {target}, [=] {
    for (std::int64_t i = 0; i < source.rows(); ++i) {
      const Real factor = power_of_two(std::real(scales(i, i)), inverted);
      for (std::int64_t j = 0; j < source.columns(); ++j) {
        target(i, j) = source(i, j) * factor;
      }
    }
  });
}

template <Scalar T>
void HostKernels<T>::add(Queue& queue, T alpha, In source, Out target) const {
  require(same_shape(source, target), "add");
  launch(queue, {.name = "add"}, {source}, {target}, [=] {
    for (std::int64_t j = 0; j < source.columns(); ++j) {
      for (std::int64_t i = 0; i < source.rows(); ++i) {
        target(i, j) += alpha * source(i, j);
      }
    }
  });
}

template <Scalar T>
void HostKernels<T>::scale(Queue& queue, Real factor, Out target) const {
  launch(queue, {.name = "scale"}, {}, {target}, [=] {
    for (std::int64_t j = 0; j < target.columns(); ++j) {
      for (std::int64_t i = 0; i < target.rows(); ++i) {
        target(i, j) *= factor;
      }
    }
  });
}

template <Scalar T>
void HostKernels<T>::diagonal(Queue& queue, In a, Real* target) const {
  const std::int64_t n = a.columns();
  require(a.rows() == n, "diagonal");
  // The diagonal alone, as a row of its own: its neighbours may belong to other work.
  const In diagonal(a.data(), n == 0 ? 0 : 1, n, a.stride() + 1);
  launch(queue, {.name = "diagonal"}, {diagonal}, {Operand(target, n)}, [=] {
    for (std::int64_t j = 0; j < n; ++j) {
      target[j] = std::real(diagonal(0, j));
    }
  });
}

template <Scalar T>
void HostKernels<T>::hermitian_tile(Queue& queue, In upper, const Real* diagonal,
                                    Out target) const {
  const std::int64_t n = upper.columns();
  require(upper.rows() == n && same_shape(upper, target), "hermitian_tile");
  launch(queue, {.name = "hermitian tile"},
         {Operand(upper, Part::strictly_upper), Operand(diagonal, n)}, {target}, [=] {
           for (std::int64_t j = 0; j < n; ++j) {
             for (std::int64_t i = 0; i < j; ++i) {
               target(i, j) = upper(i, j);
               target(j, i) = conjugate(upper(i, j));
             }
             target(j, j) = T{diagonal[j]};
           }
         });
}

template <Scalar T>
void HostKernels<T>::column_max(Queue& queue, In a, double* target) const {
  launch(queue, {.name = "column max"}, {a}, {Operand(target, a.columns())}, [=] {
    for (std::int64_t j = 0; j < a.columns(); ++j) {
      double largest = 0.0;
      for (std::int64_t i = 0; i < a.rows() && !std::isnan(largest); ++i) {
        const double size = magnitude(a(i, j));
        largest = largest >= size ? largest : size;  // written so that a NaN is taken
      }
      target[j] = largest;
    }
  });
}

template <Scalar T>
void HostKernels<T>::inspect(Queue& queue, In a, std::int64_t first, const double* weights,
                             double scale, Inspection result) const {
  constexpr std::int64_t parts = is_complex<T> ? 2 : 1;
  const std::int64_t n = a.columns();
  require(first + n <= a.rows() || n == 0, "inspect");
  launch(queue, {.name = "inspect", .flops = 2.0 * multiply_add<T> * product(a.rows(), n)},
         {a, Operand(weights, a.rows())},
         {Operand(result.column_sums, n), Operand(result.probe, parts * n),
          Operand(result.partial_product, parts * a.rows())},
         [=] { inspect_columns(a, first, weights, scale, result); });
}

template class HostKernels<float>;
template class HostKernels<double>;
template class HostKernels<std::complex<float>>;
template class HostKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::host
