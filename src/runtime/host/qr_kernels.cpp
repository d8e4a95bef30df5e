#include "runtime/host/qr_kernels.hpp"

#include "core/each_dtype.hpp"
#include "runtime/host/blas.hpp"
#include "runtime/host/operands.hpp"
#include "runtime/host/tall_products.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

namespace shardsolve::runtime::host {
namespace qr {
namespace {

/// Times 2^exponent in two steps: the power itself may be out of range where the product is not.
template <class Real>
struct PowerOfTwo {
  explicit PowerOfTwo(std::int64_t exponent)
      : first(power(exponent / 2)), second(power(exponent - exponent / 2)) {}
  template <class V>
  V operator()(V value) const {
    return (value * first) * second;
  }
  static Real power(std::int64_t exponent) {
    using Limits = std::numeric_limits<Real>;
    constexpr std::int64_t most = Limits::max_exponent - 1;
    return std::ldexp(Real{1}, static_cast<int>(std::clamp(exponent, -most, most)));
  }
  Real first;
  Real second;
};

template <Scalar T>
double modulus(T value) {
  return std::hypot(double{std::real(value)}, double{std::imag(value)});
}

template <Scalar T>
void size_column(const T* column, std::int64_t rows, double* target) {
  double most = 0.0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const double size = modulus(column[i]);
    most = size <= most ? most : size;  // a NaN stays
    if (std::isnan(size)) {
      break;
    }
  }
  double sum = 0.0;
  if (most > 0.0) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const double part = modulus(column[i]) / most;
      sum += part * part;
    }
  }
  target[0] = most;
  target[1] = std::isnan(most) ? most : sum;
}

template <Scalar T>
void reflect(MatrixView<T> a, MatrixView<WideOf<T>> r) {
  const std::int64_t k = r.rows();
  std::vector<T> tau(static_cast<std::size_t>(k));
  blas::Blas<T>::geqrf(a, tau.data());
  for (std::int64_t j = 0; j < r.columns(); ++j) {
    for (std::int64_t i = 0; i < k; ++i) {
      r(i, j) = i <= j ? static_cast<WideOf<T>>(a(i, j)) : WideOf<T>{0};
    }
  }
  blas::Blas<T>::form_q(a.columns_from(0, k), tau.data());
}

}  // namespace
}  // namespace qr

template <Scalar T>
void HostQrKernels<T>::do_scale_columns(Queue& queue, const WorkInfo& info, In source,
                                        const std::int64_t* exponents, Out target) const {
  launch(queue, info, {source, Operand(exponents, source.columns())}, {target}, [=] {
    for (std::int64_t j = 0; j < source.columns(); ++j) {
      const qr::PowerOfTwo<RealOf<T>> scaled(exponents[j]);
      for (std::int64_t i = 0; i < source.rows(); ++i) {
        target(i, j) = scaled(source(i, j));
      }
    }
  });
}

template <Scalar T>
void HostQrKernels<T>::do_adjoint_product(Queue& queue, const WorkInfo& info, In a, In b,
                                          OutWide target) const {
  launch(queue, info, {a, b}, {target}, [=] { adjoint_product<T>(a, b, target); });
}

template <Scalar T>
void HostQrKernels<T>::do_gram(Queue& queue, const WorkInfo& info, In a, OutWide g) const {
  launch(queue, info, {a}, {g}, [=] { gram<T>(a, g); });
}

template <Scalar T>
void HostQrKernels<T>::do_gram_factor(Queue& queue, const WorkInfo& info, double shift, OutWide g,
                                      std::int64_t* verdict) const {
  launch(queue, info, {}, {g, Operand(verdict, 1)},
         [=] { *verdict = static_cast<std::int64_t>(gram_factor<Wide>(shift, g)); });
}

template <Scalar T>
void HostQrKernels<T>::do_divide(Queue& queue, const WorkInfo& info, InWide r, Out q,
                                 bool /*is_near*/) const {
  launch(queue, info, {Operand(r, Operand::Part::upper)}, {q}, [=] { divide<T>(r, q); });
}

template <Scalar T>
void HostQrKernels<T>::do_reflect(Queue& queue, const WorkInfo& info, Out a, OutWide r) const {
  launch(queue, info, {}, {a, r}, [=] { qr::reflect<T>(a, r); });
}

template <Scalar T>
void HostQrKernels<T>::do_singular_values(Queue& queue, const WorkInfo& info, OutWide a, double* s,
                                          OutWide u, OutWide vh, std::int64_t* verdict) const {
  launch(queue, info, {}, {a, u, vh, Operand(s, a.rows()), Operand(verdict, 1)},
         [=] { *verdict = blas::Blas<Wide>::gesdd(a, s, u, vh); });
}

template <Scalar T>
void HostQrKernels<T>::do_column_sizes(Queue& queue, const WorkInfo& info, In a,
                                       double* target) const {
  launch(queue, info, {a}, {Operand(target, 2 * a.columns())}, [=] {
    for (std::int64_t j = 0; j < a.columns(); ++j) {
      qr::size_column(a.data() + j * a.stride(), a.rows(), target + 2 * j);
    }
  });
}

#define SHARDSOLVE_INSTANTIATE(T) template class HostQrKernels<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::host
