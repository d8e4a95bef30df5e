// QDWH (Y. Nakatsukasa, N. J. Higham, SIAM J. Sci. Comput. 35 (2013) A1325) with Cholesky factors
// alone. Of X, m x n, the ranks have rows, that is columns of D = X^H. With Z = I + c X^H X:
//
//   mild c   Z = L L^H                          D = b/c D + (a - b/c) Z^-1 D
//   large c  [sqrt(c) X; I] = [Q1; Q2] R        D = b/c D + (a - b/c) / sqrt(c) Q2 Q1^H
//            by Cholesky factors of two Gram matrices one after the other, the first of them Z: the
//            I below X bounds the condition number by sqrt(c), so that two are enough
//
// Gram matrices are products of columns that travel with those that stay; solves with factors need
// no sums over ranks either.

#include "dense/svd/polar_factor.hpp"

#include "core/each_dtype.hpp"
#include "dense/cholesky/factor.hpp"
#include "dense/eigh/solve_columns.hpp"
#include "dense/eigh/store_adjoint.hpp"
#include "dense/svd/relay.hpp"
#include "programs/gather.hpp"
#include "programs/plan_parts.hpp"

#include <shardsolve/plan.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardsolve::dense::svd {
namespace {

using runtime::Op;

/// In the dtype.
template <Scalar T>
T number(double value) {
  return static_cast<T>(static_cast<RealOf<T>>(value));
}

/// This rank's columns of the identity.
template <Scalar T>
void fill_identity(mesh::Rank& rank, GlobalRange own, MatrixView<T> target) {
  rank.kernels<T>().fill(rank.update(), T{0}, target);
  rank.kernels<T>().identity(rank.update(),
                             target.block(own.begin.value(), 0, own.size(), own.size()));
}

/// How often Z^-1 is applied to the random vectors that show the smallest singular value.
constexpr int look_powers = 8;

template <Scalar T>
class Iteration {
 public:
  Iteration(mesh::Rank& rank, const Shape& shape, const Weights& weights, MatrixView<T> x)
      : rank_(rank),
        shape_(shape),
        own_(shape.columns.segment(rank.index())),
        weights_(weights),
        x_(x),
        kernels_(rank.kernels<T>()),
        relay_(rank, shape.of_relay()),
        z_(rank.workspace<T>(x.rows(), own_.size())),
        y_(rank.workspace<T>(x.rows(), x.columns())) {}

  Outcome run(double* least) {
    const auto share = number<T>(weights_.b / weights_.c);
    const double rest = weights_.a - weights_.b / weights_.c;
    // Z = I + c X^H X
    fill_identity(rank_, own_, z_);
    relay_.gram(shape_.rows, number<T>(weights_.c), x_, own_, T{1}, z_);
    if (!factored()) {
      return {.status = Status::not_converged};
    }
    kernels_.copy(rank_.update(), x_, y_);
    if (weights_.is_mild()) {
      solve(Op::none, y_);
      solve(Op::conjugate_transpose, y_);
      kernels_.scale(rank_.update(), std::real(share), x_);
      kernels_.add(rank_.update(), number<T>(rest), y_, x_);
      rank_.finish(rank_.update());
      return {};
    }
    // Q1^H = sqrt(c) L^-1 X^H, Q2^H = L^-1
    const double root = std::sqrt(weights_.c);
    const MatrixView<T> q2 = rank_.workspace<T>(x_.rows(), own_.size());
    kernels_.scale(rank_.update(), static_cast<RealOf<T>>(root), y_);
    fill_identity(rank_, own_, q2);
    solve(Op::none, y_);
    solve(Op::none, q2);
    if (least != nullptr) {
      *least = smallest(q2) / 2.0;
    }
    // and once more, with the factor of Q1^H Q1 + Q2^H Q2
    relay_.gram(shape_.rows, T{1}, y_, own_, T{0}, z_);
    relay_.gram(shape_.columns, T{1}, q2, own_, T{1}, z_);
    if (!factored()) {
      return {.status = Status::not_converged};
    }
    solve(Op::none, y_);
    solve(Op::none, q2);
    relay_.adjoint_times(shape_.columns, number<T>(rest / root), q2, y_, share, x_);
    return {};
  }

 private:
  /// The smallest singular value of X or 0, for this rank's columns of L^-1: by powers of Z^-1,
  /// applied to random vectors.
  double smallest(MatrixView<const T> inverse) {
    const std::int64_t n = inverse.rows();
    const std::int64_t size = own_.size() * look_vectors;
    const MatrixView<T> v = rank_.workspace<T>(own_.size(), look_vectors);
    const MatrixView<T> image = rank_.workspace<T>(n, look_vectors);
    std::vector<T> values;
    for (std::int64_t j = 0; j < look_vectors; ++j) {
      for (std::int64_t i = own_.begin.value(); i < own_.end.value(); ++i) {
        values.push_back(number<T>(random_at(i, j, n)));
      }
    }
    rank_.update().copy(v.data(), values.data(), values.size() * sizeof(T));
    rank_.update().synchronize();  // from here on `values` may go
    std::vector<double> before;
    std::vector<double> after = squares_of(values);
    for (int power = 0; power < look_powers; ++power) {
      kernels_.gemm(rank_.update(), Op::none, Op::none, T{1}, inverse, v, T{0}, image);
      const std::vector<T> sum =
          sum_of_ranks(rank_.fetch(rank_.update(), image.data(), n * look_vectors));
      rank_.update().copy(image.data(), sum.data(), sum.size() * sizeof(T));
      kernels_.gemm(rank_.update(), Op::conjugate_transpose, Op::none, T{1}, inverse, image, T{0},
                    v);
      before = std::exchange(after, squares_of(rank_.fetch(rank_.update(), v.data(), size)));
    }
    double eigenvalue = std::numeric_limits<double>::infinity();  // of Z
    for (std::size_t j = 0; j < before.size(); ++j) {
      eigenvalue = std::min(eigenvalue, std::sqrt(before[j] / after[j]));
    }
    // A vector that Z leaves as it is would be seen: of size 1 / sqrt(n) at first, it is the
    // largest part of all vectors by now.
    const double seen = 10.0 * std::sqrt(static_cast<double>(n));
    return std::pow(eigenvalue, look_powers) >= seen ? std::sqrt((eigenvalue - 1.0) / weights_.c)
                                                     : 0.0;
  }
  std::vector<T> sum_of_ranks(const std::vector<T>& mine) {
    std::vector<T> sum(mine.size());
    for (const std::vector<T>& one : programs::gather_from_all(rank_, mine)) {
      std::transform(one.begin(), one.end(), sum.begin(), sum.begin(),
                     [](T part, T before) { return before + part; });
    }
    return sum;
  }
  /// ||v||^2 of each vector, over all ranks.
  std::vector<double> squares_of(const std::vector<T>& mine) {
    std::vector<double> squares(look_vectors);
    const std::size_t each = mine.size() / look_vectors;
    for (std::size_t at = 0; at < mine.size(); ++at) {
      squares[at / each] += std::norm(std::complex<double>(mine[at]));
    }
    std::vector<double> sums(look_vectors);
    for (const std::vector<double>& one : programs::gather_from_all(rank_, squares)) {
      std::transform(one.begin(), one.end(), sums.begin(), sums.begin(), std::plus<>());
    }
    return sums;
  }

  bool factored() {
    rank_.finish(rank_.update());
    return cholesky::factor<T>(rank_, shape_.columns, z_).ok();
  }
  void solve(Op op, MatrixView<T> x) { eigh::solve_columns<T>(rank_, shape_.columns, z_, op, x); }

  mesh::Rank& rank_;
  const Shape& shape_;
  GlobalRange own_;
  const Weights& weights_;
  MatrixView<T> x_;
  const runtime::Kernels<T>& kernels_;
  Relay<T> relay_;
  MatrixView<T> z_;
  MatrixView<T> y_;
};

/// D = (D + (I - G) S (I - X X^H) / 4) / 2, with S of random numbers over sqrt(m), and G = X^H X.
template <Scalar T>
void complete(mesh::Rank& rank, const Shape& shape, Relay<T>& relay, MatrixView<T> outside,
              MatrixView<T> x) {
  const std::int64_t n = x.rows();
  const GlobalRange own = shape.columns.segment(rank.index());
  const MatrixView<T> s = rank.workspace<T>(n, x.columns());
  const MatrixView<T> products = rank.workspace<T>(n, own.size());
  const double size = 1.0 / std::sqrt(static_cast<double>(shape.rows.size()));
  const std::int64_t first = shape.rows.segment(rank.index()).begin.value();
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(n * x.columns()));
  for (std::int64_t j = 0; j < x.columns(); ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      values.push_back(number<T>(size * random_at(i, first + j, n)));
    }
  }
  rank.update().copy(s.data(), values.data(), values.size() * sizeof(T));
  rank.update().synchronize();  // from here on `values` may go
  // S -= (S X) X^H
  relay.outer(shape.rows, T{1}, x, s, own, T{0}, products);
  relay.adjoint_times(shape.columns, T{-1}, products, x, T{1}, s);
  // `outside` is Hermitian
  relay.adjoint_times(shape.columns, number<T>(0.125), outside, s, number<T>(0.5), x);
}

}  // namespace

// splitmix64 (Steele, Lea and Flood 2014)
double random_at(std::int64_t row, std::int64_t column, std::int64_t rows) {
  std::uint64_t bits = (static_cast<std::uint64_t>(row + column * rows) + 1) * 0x9e3779b97f4a7c15U;
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  bits ^= bits >> 31U;
  return static_cast<double>(bits >> 11U) * 0x1p-52 - 1.0;
}

template <Scalar T>
double least_of_any() {
  return std::is_same_v<RealOf<T>, float> ? 0x1p-30 : 0x1p-60;
}

namespace {

// Of [sqrt(c) X; I], residuals of A - U H grow with c where X has many small singular values: for
// 1e8, 1e6, 1e4 those of a Gaussian kernel (n = 48, float64) are 78, 24, 16 u.
template <Scalar T>
constexpr double largest_c = std::is_same_v<RealOf<T>, float> ? 1e4 : 1e6;
/// How far from 1 values may be. With this share ||X^H X - I|| is a quarter of what is_polished()
/// takes.
template <Scalar T>
double end_of_iterations(std::int64_t count) {
  constexpr double rounding = 8.0 * unit_roundoff<T>;
  const double share = 0.125 / std::sqrt(static_cast<double>(count));
  return count == 0 ? rounding : std::max(rounding, share * std::sqrt(unit_roundoff<T>));
}

}  // namespace

template <Scalar T>
Weights weights_at(double least) {
  return weights_for(least, largest_c<T>);
}

template <Scalar T>
bool is_at_end(double least, std::int64_t count) {
  return 1.0 - least <= end_of_iterations<T>(count);
}

template <Scalar T>
std::int64_t iterations_from(double least, std::int64_t count) {
  return std::ssize(weights_from(least, end_of_iterations<T>(count), largest_c<T>));
}

template <Scalar T>
Outcome iterate(mesh::Rank& rank, const Shape& shape, const Weights& weights, MatrixView<T> x,
                double* least) {
  return Iteration<T>(rank, shape, weights, x).run(least);
}

template <Scalar T>
bool is_polished(double deviation) {
  // The step leaves 3/4 of its square.
  return deviation <= std::sqrt(unit_roundoff<T>);
}

template <Scalar T>
double polish_or_complete(mesh::Rank& rank, const Shape& shape, bool completes, MatrixView<T> x) {
  const GlobalRange own = shape.columns.segment(rank.index());
  const runtime::Kernels<T>& kernels = rank.kernels<T>();
  Relay<T> relay(rank, shape.of_relay());
  // I - X^H X
  const MatrixView<T> outside = rank.workspace<T>(x.rows(), own.size());
  fill_identity(rank, own, outside);
  relay.gram(shape.rows, T{-1}, x, own, T{1}, outside);
  double sum = 0.0;
  for (const T entry :
       rank.fetch(rank.update(), outside.data(), outside.rows() * outside.columns())) {
    sum += std::norm(std::complex<double>(entry));
  }
  const double deviation = std::sqrt(programs::sum_of_all(rank, sum));
  if (is_polished<T>(deviation)) {
    const MatrixView<T> y = rank.workspace<T>(x.rows(), x.columns());
    kernels.copy(rank.update(), x, y);
    relay.adjoint_times(shape.columns, number<T>(0.5), outside, y, T{1}, x);
  } else if (completes) {
    complete(rank, shape, relay, outside, x);
  }
  return deviation;
}

template <Scalar T>
void hermitian_factor(mesh::Rank& rank, const Shape& shape, MatrixView<const T> x,
                      MatrixView<const T> a, MatrixView<T> h) {
  const runtime::Kernels<T>& kernels = rank.kernels<T>();
  Relay<T> relay(rank, shape.of_relay());
  relay.outer(shape.rows, T{1}, x, a, shape.columns.segment(rank.index()), T{0}, h);
  const MatrixView<T> copy = rank.workspace<T>(h.rows(), h.columns());
  const MatrixView<T> adjoint = rank.workspace<T>(h.rows(), h.columns());
  kernels.scale(rank.update(), RealOf<T>{0.5}, h);
  kernels.copy(rank.update(), h, copy);
  eigh::store_adjoint<T>(rank, shape.columns, h.rows(), copy, adjoint);
  kernels.add(rank.update(), T{1}, adjoint, h);
  rank.finish(rank.update());
}

std::int64_t polar_bytes(const Shape& shape, Dtype dtype) {
  const std::int64_t element = element_size(dtype);
  const std::int64_t n = shape.columns.size();
  const std::int64_t of_square = element * n * shape.columns.max_width();
  const std::int64_t of_rows = element * n * shape.rows.max_width();
  const std::int64_t relay = 2 * (element * shape.of_relay() + programs::header_bytes);
  const std::int64_t factor = plan_cholesky_factor(shape.columns, dtype).workspace_bytes;
  const std::int64_t solve =
      element * eigh::solve_columns_elements(shape.columns) + 2 * programs::header_bytes;
  // a look for the smallest singular value
  const std::int64_t ranks = shape.columns.ranks();
  const std::int64_t look =
      look_vectors *
      (element * (n + shape.columns.max_width() + (ranks > 1 ? look_powers * n * ranks : 0)) +
       8 * (look_powers + 1) * ranks);
  const std::int64_t iteration = 2 * of_square + of_rows + 2 * factor + 4 * solve + look;
  const std::int64_t completion = 2 * of_square + of_rows;
  const std::int64_t hermitian =
      2 * of_square + element * eigh::store_adjoint_elements(shape.columns);
  return std::max({iteration, completion, hermitian}) + relay +
         programs::small_change(shape.columns, 0);
}

#define SHARDSOLVE_INSTANTIATE(T)                                                              \
  template double least_of_any<T>();                                                           \
  template Weights weights_at<T>(double);                                                      \
  template bool is_at_end<T>(double, std::int64_t);                                            \
  template std::int64_t iterations_from<T>(double, std::int64_t);                              \
  template Outcome iterate(mesh::Rank&, const Shape&, const Weights&, MatrixView<T>, double*); \
  template bool is_polished<T>(double);                                                        \
  template double polish_or_complete(mesh::Rank&, const Shape&, bool, MatrixView<T>);          \
  template void hermitian_factor(mesh::Rank&, const Shape&, MatrixView<const T>,               \
                                 MatrixView<const T>, MatrixView<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::svd
