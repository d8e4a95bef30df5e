#include "dense/lu/judge_inverse.hpp"

#include "core/each_dtype.hpp"
#include "dense/lu/certified_solve.hpp"
#include "dense/lu/general_multiply.hpp"
#include "dense/lu/matrix_sizes.hpp"
#include "dense/lu/sketch.hpp"
#include "dense/shared/check_input.hpp"
#include "dense/shared/right_hand_sides.hpp"
#include "programs/gather.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

namespace shardsolve::dense::lu {
namespace {

/// X, and what its norms say; the same on all ranks.
struct Measured {
  Outcome outcome;
  Scaled one_norm;
};

template <Scalar T>
Measured measure(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> x,
                 const Inverted<T>& of, bool transposed) {
  const InputCheck check = check_finite<T>(rank, layout, x);
  Measured measured{{}, check.norm};
  if (!check.outcome.ok()) {
    measured.outcome.status = Status::overflow;
    return measured;
  }
  // ||A^T||_1 is ||A||_inf.
  const Scaled size =
      transposed
          ? of.inf_norm * MatrixSizes<T>(rank, layout, x, check.norm, rank.update()).get().inf_norm
          : of.one_norm * check.norm;
  measured.outcome.rcond = layout.size() > 0 ? ratio(Scaled{1.0, 0}, size) : 1.0;
  return measured;
}

/// The root of the mean square of some numbers, of which `stride` is the distance, whatever their
/// size; not finite if one is not.
template <Scalar T>
double mean_size(const T* numbers, std::int64_t stride, std::int64_t count) {
  double most = 0.0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::complex<double> number = numbers[i * stride];
    most = programs::largest(most,
                             programs::largest(std::abs(number.real()), std::abs(number.imag())));
  }
  if (most == 0.0 || !std::isfinite(most)) {
    return most;
  }
  double square = 0.0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::complex<double> number = numbers[i * stride];
    square += std::norm(std::complex<double>(number.real() / most, number.imag() / most));
  }
  return most * std::sqrt(square / static_cast<double>(count));
}

/// The largest 2-norm of a column of A X - I, as the vectors see it.
template <Scalar T>
Scaled largest_residual(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> x,
                        Scaled norm_of_x, const Inverted<T>& of) {
  // A^T G is divided by two to the power `of_a`. It is given the half of X's size, so that neither
  // it nor X^T A^T G leaves the range. G may then be 0: beside ||A|| ||X|| it is.
  using Limits = std::numeric_limits<RealOf<T>>;
  const int of_a = sketch_exponent<T>(of.one_norm);
  const int exponent = std::clamp(-norm_of_x.normalised().exponent / 2, Limits::min_exponent,
                                  Limits::max_exponent - 1);
  const MatrixView<T> sums = rank.workspace<T>(x.columns(), sketch_vectors);
  rank.kernels<T>().copy(rank.update(), of.half_sketch, sums);
  scale_columns(rank, sums, std::vector<int>(sketch_vectors, exponent));
  const MatrixView<T> signs = place_signs<T>(rank, layout, std::ldexp(1.0, exponent - of_a));
  const MatrixView<T> residual = rank.workspace<T>(x.columns(), sketch_vectors);
  // (G^T A X - G^T)^T = X^T (A^T G) - G, of this rank's columns of X
  GeneralMultiply<T> multiply(rank, layout, x, sketch_vectors, Sums::exact);
  multiply.residual(runtime::Op::transpose, sums, signs, residual);
  const std::vector<T> entries =
      rank.fetch(rank.update(), residual.data(), residual.rows() * residual.columns());
  double mine = 0.0;
  for (std::int64_t j = 0; j < residual.rows(); ++j) {
    mine = programs::largest(mine, mean_size(entries.data() + j, residual.rows(), sketch_vectors));
  }
  return {programs::largest_of_all(rank, mine), of_a - exponent};
}

}  // namespace

template <Scalar T>
Outcome judge_inverse(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> x,
                      const Inverted<T>& of, bool transposed) {
  rank.report("certify", 0.0);
  Measured measured = measure(rank, layout, x, of, transposed);
  Outcome& outcome = measured.outcome;
  if (!outcome.ok()) {
    return outcome;
  }
  outcome.backward_error = 0.0;
  if (layout.size() > 0) {
    const Scaled worst = largest_residual(rank, layout, x, measured.one_norm, of);
    outcome.backward_error = std::isfinite(worst.fraction)
                                 ? ratio(worst, of.one_norm * measured.one_norm)
                                 : worst.fraction;
  }
  if (!(*outcome.backward_error <= given_up_from * unit_roundoff<T>)) {
    outcome.status = Status::inaccurate;
  }
  return outcome;
}

template <Scalar T>
Outcome condition_of_inverse(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> x,
                             const Inverted<T>& of, bool transposed) {
  return measure(rank, layout, x, of, transposed).outcome;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                            \
  template Outcome judge_inverse(mesh::Rank&, const SlabLayout&, MatrixView<const T>,        \
                                 const Inverted<T>&, bool);                                  \
  template Outcome condition_of_inverse(mesh::Rank&, const SlabLayout&, MatrixView<const T>, \
                                        const Inverted<T>&, bool);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::lu
