#include "runtime/host/host_kernels.hpp"

#include "runtime/host/blas.hpp"
#include "runtime/host/conjugate.hpp"
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
void HostKernels<T>::do_gemm(Queue& queue, const WorkInfo& info, Op op_a, Op op_b, T alpha, In a,
                             In b, T beta, Out c) const {
  const std::int64_t k = columns_of(op_a, a);
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
void HostKernels<T>::do_herk(Queue& queue, const WorkInfo& info, Triangle triangle, Op op,
                             Real alpha, In a, Real beta, Out c) const {
  launch(queue, info, {a}, {Operand(c, part_of(triangle))},
         [=] { blas::Blas<T>::herk(triangle, op, alpha, a, beta, c); });
}

template <Scalar T>
void HostKernels<T>::do_trsm(Queue& queue, const WorkInfo& info, Side side, Triangle triangle,
                             Op op, In a, Out b) const {
  launch(queue, info, {Operand(a, part_of(triangle))}, {b},
         [=] { blas::Blas<T>::trsm(side, triangle, op, a, b); });
}

template <Scalar T>
void HostKernels<T>::do_copy(Queue& queue, const WorkInfo& info, In source, Out target) const {
  launch(queue, info, {source}, {target}, [=] {
    for (std::int64_t j = 0; j < source.columns(); ++j) {
      std::copy_n(source.columns_from(j, 1).data(), source.rows(),
                  target.columns_from(j, 1).data());
    }
  });
}

template <Scalar T>
void HostKernels<T>::do_convert(Queue& queue, const WorkInfo& info, InOther source,
                                Out target) const {
  launch(queue, info, {source}, {target}, [=] {
    for (std::int64_t j = 0; j < source.columns(); ++j) {
      for (std::int64_t i = 0; i < source.rows(); ++i) {
        target(i, j) = static_cast<T>(source(i, j));
      }
    }
  });
}

template <Scalar T>
void HostKernels<T>::do_from_real(Queue& queue, const WorkInfo& info, InReal source,
                                  Out target) const {
  launch(queue, info, {source}, {target}, [=] {
    for (std::int64_t j = 0; j < source.columns(); ++j) {
      std::copy_n(source.columns_from(j, 1).data(), source.rows(),
                  target.columns_from(j, 1).data());
    }
  });
}

template <Scalar T>
void HostKernels<T>::do_conjugate_transpose(Queue& queue, const WorkInfo& info, In source,
                                            Out target) const {
  launch(queue, info, {source}, {target}, [=] { conjugate_transpose_squares(source, target); });
}

template <Scalar T>
void HostKernels<T>::do_fill(Queue& queue, const WorkInfo& info, T value, Out target) const {
  launch(queue, info, {}, {target}, [=] { fill_view(value, target); });
}

template <Scalar T>
void HostKernels<T>::do_identity(Queue& queue, const WorkInfo& info, Out target) const {
  launch(queue, info, {}, {target}, [=] {
    fill_view(T{0}, target);
    for (std::int64_t j = 0; j < target.columns(); ++j) {
      target(j, j) = T{1};
    }
  });
}

template <Scalar T>
void HostKernels<T>::do_lower_triangle(Queue& queue, const WorkInfo& info, In source,
                                       Out target) const {
  launch(queue, info, {source}, {target}, [=] {
    for (std::int64_t j = 0; j < source.columns(); ++j) {
      for (std::int64_t i = 0; i < source.rows(); ++i) {
        target(i, j) = i < j ? T{0} : source(i, j);
      }
    }
  });
}

template <Scalar T>
void HostKernels<T>::do_scale_rows(Queue& queue, const WorkInfo& info, In scales, bool inverted,
                                   In source, Out target) const {
  launch(queue, info, {scales, source}, {target}, [=] {
    for (std::int64_t i = 0; i < source.rows(); ++i) {
      const Real factor = power_of_two(std::real(scales(i, i)), inverted);
      for (std::int64_t j = 0; j < source.columns(); ++j) {
        target(i, j) = source(i, j) * factor;
      }
    }
  });
}

template <Scalar T>
void HostKernels<T>::do_add(Queue& queue, const WorkInfo& info, T alpha, In source,
                            Out target) const {
  launch(queue, info, {source}, {target}, [=] {
    for (std::int64_t j = 0; j < source.columns(); ++j) {
      for (std::int64_t i = 0; i < source.rows(); ++i) {
        target(i, j) += alpha * source(i, j);
      }
    }
  });
}

template <Scalar T>
void HostKernels<T>::do_scale(Queue& queue, const WorkInfo& info, Real factor, Out target) const {
  launch(queue, info, {}, {target}, [=] {
    for (std::int64_t j = 0; j < target.columns(); ++j) {
      for (std::int64_t i = 0; i < target.rows(); ++i) {
        target(i, j) *= factor;
      }
    }
  });
}

template <Scalar T>
void HostKernels<T>::do_diagonal(Queue& queue, const WorkInfo& info, In a, Real* target) const {
  const std::int64_t n = a.columns();
  // The diagonal alone, as a row of its own: its neighbours may belong to other work.
  const In diagonal(a.data(), n == 0 ? 0 : 1, n, a.stride() + 1);
  launch(queue, info, {diagonal}, {Operand(target, n)}, [=] {
    for (std::int64_t j = 0; j < n; ++j) {
      target[j] = std::real(diagonal(0, j));
    }
  });
}

template <Scalar T>
void HostKernels<T>::do_hermitian_tile(Queue& queue, const WorkInfo& info, In upper,
                                       const Real* diagonal, Out target) const {
  const std::int64_t n = upper.columns();
  launch(queue, info, {Operand(upper, Part::strictly_upper), Operand(diagonal, n)}, {target}, [=] {
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
void HostKernels<T>::do_column_max(Queue& queue, const WorkInfo& info, In a, double* target) const {
  launch(queue, info, {a}, {Operand(target, a.columns())}, [=] {
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
void HostKernels<T>::do_inspect(Queue& queue, const WorkInfo& info, In a, std::int64_t first,
                                const double* weights, double scale, Inspection result) const {
  constexpr std::int64_t parts = is_complex<T> ? 2 : 1;
  const std::int64_t n = a.columns();
  launch(queue, info, {a, Operand(weights, a.rows())},
         {Operand(result.column_sums, n), Operand(result.probe, parts * n),
          Operand(result.partial_product, parts * a.rows())},
         [=] { inspect_columns(a, first, weights, scale, result); });
}

template class HostKernels<float>;
template class HostKernels<double>;
template class HostKernels<std::complex<float>>;
template class HostKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::host
