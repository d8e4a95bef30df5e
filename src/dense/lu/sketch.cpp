#include "dense/lu/sketch.hpp"

#include "core/each_dtype.hpp"
#include "dense/lu/general_multiply.hpp"
#include "dense/qr/column_norms.hpp"
#include "dense/shared/check_input.hpp"
#include "dense/shared/right_hand_sides.hpp"
#include "programs/gather.hpp"
#include "runtime/lu_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>

namespace shardsolve::dense::lu {
namespace {

using runtime::Op;

/// Of a power of two that T has, with its reciprocal.
template <Scalar T>
inline constexpr int largest_exponent = std::numeric_limits<RealOf<T>>::max_exponent - 2;

}  // namespace

template <Scalar T>
int sketch_exponent(Scaled one_norm) {
  return std::clamp(one_norm.normalised().exponent, -largest_exponent<T>, largest_exponent<T>);
}

template <Scalar T>
MatrixView<T> place_signs(mesh::Rank& rank, const SlabLayout& layout, double size) {
  const GlobalRange own = layout.segment(rank.index());
  const std::vector<double> all = probe_signs(layout.size(), sketch_vectors);
  std::vector<T> mine;
  for (std::int64_t vector = 0; vector < sketch_vectors; ++vector) {
    for (std::int64_t i = 0; i < own.size(); ++i) {
      const std::int64_t at = vector * layout.size() + own.begin.value() + i;
      mine.push_back(static_cast<RealOf<T>>(size * all[static_cast<std::size_t>(at)]));
    }
  }
  const MatrixView<T> signs = rank.workspace<T>(own.size(), sketch_vectors);
  rank.update().copy(signs.data(), mine.data(), mine.size() * sizeof(T));
  rank.update().synchronize();  // from here on `mine` may go
  return signs;
}

namespace {

/// The rank's rows of op(A) G, divided by a power of two, summed in twice the precision and
/// rounded.
template <Scalar T>
class SignedSums {
 public:
  SignedSums(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab, Scaled one_norm)
      : signs_(place_signs<T>(rank, layout, std::ldexp(1.0, -sketch_exponent<T>(one_norm)))),
        nothing_(rank.workspace<T>(signs_.rows(), sketch_vectors)),
        multiply_(rank, layout, slab, sketch_vectors, Sums::exact) {
    rank.kernels<T>().fill(rank.update(), T{0}, nothing_);
  }
  void run(Op op, MatrixView<T> sums) { multiply_.residual(op, signs_, nothing_, sums); }

 private:
  MatrixView<T> signs_;
  MatrixView<T> nothing_;
  GeneralMultiply<T> multiply_;
};

}  // namespace

template <Scalar T>
Scaled make_sketch(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                   Scaled one_norm, MatrixView<T> sketch) {
  SignedSums<T> sums(rank, layout, slab, one_norm);
  const MatrixView<T> rounded = rank.workspace<T>(slab.columns(), sketch_vectors);
  double most = 0.0;
  for (const bool of_rows : {false, true}) {
    sums.run(of_rows ? Op::none : Op::transpose, rounded);
    rank.kernels<T>().copy(rank.update(), rounded,
                           sketch.columns_from(of_rows ? sketch_vectors : 0, sketch_vectors));
    double square = 0.0;
    for (const T number :
         rank.fetch(rank.update(), rounded.data(), rounded.rows() * rounded.columns())) {
      square += std::norm(std::complex<double>(number));
    }
    most = programs::largest(most, programs::sum_of_all(rank, square));
  }
  return Scaled{std::sqrt(most / sketch_vectors), sketch_exponent<T>(one_norm)}.normalised();
}

template <Scalar T>
void make_half_sketch(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                      Scaled one_norm, MatrixView<T> half) {
  SignedSums<T>(rank, layout, slab, one_norm).run(Op::transpose, half);
}

template <Scalar T>
SketchedErrors<T>::SketchedErrors(mesh::Rank& rank, const FactorPart<T>& factor,
                                  std::int64_t columns)
    : rank_(rank),
      factor_(factor),
      signs_(place_signs<T>(rank, factor.layout, 1.0)),
      scaled_x_(rank.workspace<T>(signs_.rows(), columns)),
      scaled_b_(rank.workspace<T>(signs_.rows(), columns)),
      sums_(rank.workspace<T>(sketch_vectors, 2 * columns)),
      sizes_(rank.workspace<double>(sketch_vectors, columns)) {}

/// The rank's share of op(a) x, summed in twice the precision: real parts and imaginary parts in
/// turn.
template <Scalar T>
std::vector<double> SketchedErrors<T>::sums_of(Op op, MatrixView<const T> a,
                                               MatrixView<const T> x) {
  const std::int64_t k = x.columns();
  const MatrixView<T> sums = sums_.columns_from(0, 2 * k);
  if (x.rows() == 0) {
    rank_.kernels<T>().fill(rank_.update(), T{0}, sums);
  } else {
    rank_.kernels<runtime::LuKernels<T>>().multiply(rank_.update(), op, a, x, sums,
                                                    sizes_.columns_from(0, k));
  }
  std::vector<double> parts;
  for (const T number : rank_.fetch(rank_.update(), sums.data(), sketch_vectors * k)) {
    parts.push_back(std::real(number));
    parts.push_back(std::imag(number));
  }
  return parts;
}

template <Scalar T>
std::vector<double> SketchedErrors<T>::run(Op op, MatrixView<const T> x,
                                           const std::vector<double>& x_maxima,
                                           MatrixView<const T> b,
                                           const std::vector<double>& b_maxima) {
  const auto k = static_cast<std::size_t>(x.columns());
  const int of_a = sketch_exponent<T>(factor_.one_norm);
  // A x - b is divided by two to these powers, x and b so that both are of size 1.
  std::vector<int> x_exponents;
  std::vector<int> b_exponents;
  for (std::size_t j = 0; j < k; ++j) {
    const auto size = [](double most) { return Scaled{most, 0}.normalised().exponent; };
    int exponent = std::max(size(x_maxima[j]),
                            b_maxima[j] > 0.0 ? size(b_maxima[j]) - of_a : size(x_maxima[j]));
    exponent = std::clamp(exponent, -largest_exponent<T> + std::max(0, -of_a),
                          largest_exponent<T> + std::min(0, -of_a));
    x_exponents.push_back(-exponent);
    b_exponents.push_back(-exponent - of_a);
  }
  const MatrixView<T> some_x = scaled_x_.columns_from(0, x.columns());
  const MatrixView<T> some_b = scaled_b_.columns_from(0, x.columns());
  rank_.kernels<T>().copy(rank_.update(), x, some_x);
  rank_.kernels<T>().copy(rank_.update(), b, some_b);
  scale_columns(rank_, some_x, x_exponents);
  scale_columns(rank_, some_b, b_exponents);

  const std::int64_t first = op == Op::none ? 0 : sketch_vectors;
  const Op turned = op == Op::conjugate_transpose ? Op::conjugate_transpose : Op::transpose;
  std::vector<double> mine =
      sums_of(turned, factor_.sketch.columns_from(first, sketch_vectors), some_x);
  const std::vector<double> of_b = sums_of(Op::transpose, signs_, some_b);
  const std::size_t count = mine.size();
  mine.insert(mine.end(), of_b.begin(), of_b.end());

  // Sums that nearly cancel: in more than double precision.
  std::vector<long double> total(count, 0.0L);
  for (const auto& one : programs::gather_from_all(rank_, mine)) {
    for (std::size_t i = 0; i < count; ++i) {
      total[i] += static_cast<long double>(one[i]) - one[count + i];
    }
  }
  const std::vector<double> x_norms = qr::column_norms<T>(rank_, some_x);
  const std::vector<double> b_norms = qr::column_norms<T>(rank_, some_b);
  std::vector<double> errors;
  const auto parts = static_cast<std::size_t>(2 * sketch_vectors);  // real and imaginary
  for (std::size_t j = 0; j < k; ++j) {
    double square = 0.0;
    for (std::size_t i = 0; i < parts; ++i) {
      const auto sum = static_cast<double>(total[j * parts + i]);
      square += sum * sum;
    }
    const Scaled size = Scaled{x_norms[j], -of_a} * factor_.frobenius_norm + Scaled{b_norms[j], 0};
    errors.push_back(std::isfinite(square)
                         ? ratio(Scaled{std::sqrt(square / sketch_vectors), 0}, size)
                         : square);
  }
  return errors;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                             \
  template Scaled make_sketch(mesh::Rank&, const SlabLayout&, MatrixView<const T>, Scaled,    \
                              MatrixView<T>);                                                 \
  template void make_half_sketch(mesh::Rank&, const SlabLayout&, MatrixView<const T>, Scaled, \
                                 MatrixView<T>);                                              \
  template int sketch_exponent<T>(Scaled);                                                    \
  template MatrixView<T> place_signs<T>(mesh::Rank&, const SlabLayout&, double);              \
  template class SketchedErrors<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::lu
