#include "fbpinn/orthonormal_block.hpp"

#include "runtime/host/blas.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace shardsolve::fbpinn {
namespace orthonormal {

using runtime::Op;
using Blas = runtime::host::blas::Blas<double>;

/// QR with column pivoting of a small matrix in place: reflectors below the diagonal, their
/// factors in `tau`; returns the rank (LAPACK: geqp3).
std::int64_t pivoted_qr(MatrixView<double> a, double tolerance, double least,
                        std::vector<double>& tau, std::vector<std::int32_t>& permutation) {
  const std::int64_t m = a.rows();
  const std::int64_t n = a.columns();
  const std::int64_t steps = std::min(m, n);
  permutation.resize(static_cast<std::size_t>(n));
  std::iota(permutation.begin(), permutation.end(), 0);
  tau.assign(static_cast<std::size_t>(steps), 0.0);
  double largest = 0.0;
  for (std::int64_t k = 0; k < steps; ++k) {
    // Norms anew each time: what updating them saves here is lost in safeguards.
    std::int64_t pivot = k;
    double most = -1.0;
    for (std::int64_t j = k; j < n; ++j) {
      double sum = 0.0;
      for (std::int64_t i = k; i < m; ++i) {
        sum += a(i, j) * a(i, j);
      }
      if (sum > most) {
        most = sum;
        pivot = j;
      }
    }
    const double norm = std::sqrt(std::max(most, 0.0));
    largest = k == 0 ? norm : largest;
    if (!(norm > std::max(tolerance * largest, least))) {
      return k;
    }
    if (pivot != k) {
      std::swap_ranges(&a(0, k), &a(0, k) + m, &a(0, pivot));
      std::swap(permutation[static_cast<std::size_t>(k)],
                permutation[static_cast<std::size_t>(pivot)]);
    }
    double* const v = &a(k, k);
    const double factor = Blas::larfg(m - k, v);
    tau[static_cast<std::size_t>(k)] = factor;
    for (std::int64_t j = k + 1; j < n; ++j) {
      double* const column = &a(k, j);
      double sum = column[0];
      for (std::int64_t i = 1; i < m - k; ++i) {
        sum += v[i] * column[i];
      }
      sum *= factor;
      column[0] -= sum;
      for (std::int64_t i = 1; i < m - k; ++i) {
        column[i] -= sum * v[i];
      }
    }
  }
  return steps;
}

/// The first `rank` columns of the product of the reflectors.
std::vector<double> reflected_unit_columns(MatrixView<const double> a,
                                           const std::vector<double>& tau, std::int64_t rank) {
  const std::int64_t m = a.rows();
  std::vector<double> q(static_cast<std::size_t>(m * rank), 0.0);
  for (std::int64_t j = 0; j < rank; ++j) {
    q[static_cast<std::size_t>(j * m + j)] = 1.0;
  }
  for (std::int64_t k = rank - 1; k >= 0; --k) {
    const double* const v = a.data() + k + k * a.stride();
    for (std::int64_t j = k; j < rank; ++j) {
      double* const column = q.data() + j * m + k;
      double sum = column[0];
      for (std::int64_t i = 1; i < m - k; ++i) {
        sum += v[i] * column[i];
      }
      sum *= tau[static_cast<std::size_t>(k)];
      column[0] -= sum;
      for (std::int64_t i = 1; i < m - k; ++i) {
        column[i] -= sum * v[i];
      }
    }
  }
  return q;
}

}  // namespace orthonormal

void OrthonormalBlock::weights_of(const double* y, double* z) const {
  std::fill_n(z, columns, 0.0);
  std::vector<double> x(y, y + rank);
  for (std::int64_t i = rank - 1; i >= 0; --i) {
    double sum = x[static_cast<std::size_t>(i)];
    for (std::int64_t k = i + 1; k < rank; ++k) {
      sum -= r[static_cast<std::size_t>(k * rank + i)] * x[static_cast<std::size_t>(k)];
    }
    x[static_cast<std::size_t>(i)] = sum / r[static_cast<std::size_t>(i * rank + i)];
    z[kept_columns[static_cast<std::size_t>(i)]] = x[static_cast<std::size_t>(i)];
  }
}

std::int64_t OrthonormalBlock::bytes() const {
  return static_cast<std::int64_t>((adjoint.size() + r.size()) * sizeof(double) +
                                   kept_columns.size() * sizeof(std::int32_t));
}

void OrthonormalBlock::forget() {
  adjoint = {};
  r = {};
  kept_columns = {};
}

OrthonormalBlock orthonormalised(MatrixView<double> m, double tolerance, double least) {
  using namespace orthonormal;
  OrthonormalBlock block;
  block.rows = m.rows();
  block.columns = m.columns();
  const std::int64_t steps = std::min(m.rows(), m.columns());
  if (steps == 0) {
    return block;
  }
  // M = (I - V T V^T) R
  std::vector<double> t(static_cast<std::size_t>(steps * steps));
  std::vector<double> work(static_cast<std::size_t>(steps * m.columns()));
  const MatrixView<double> t_view(t.data(), steps, steps);
  Blas::geqrt(m, t_view, work.data());
  std::vector<double> small(static_cast<std::size_t>(steps * m.columns()), 0.0);
  const MatrixView<double> r(small.data(), steps, m.columns());
  for (std::int64_t j = 0; j < m.columns(); ++j) {
    std::copy_n(&m(0, j), std::min(j + 1, steps), &r(0, j));
  }
  // R P = Q2 R2
  std::vector<double> tau;
  std::vector<std::int32_t> permutation;
  const std::int64_t rank = pivoted_qr(r, tolerance, least, tau, permutation);
  block.rank = rank;
  block.kept_columns.assign(permutation.begin(), permutation.begin() + rank);
  block.r.assign(static_cast<std::size_t>(rank * rank), 0.0);
  for (std::int64_t j = 0; j < rank; ++j) {
    std::copy_n(&r(0, j), j + 1, block.r.data() + j * rank);
  }
  if (rank == 0) {
    return block;
  }
  std::vector<double> q2 = reflected_unit_columns(r, tau, rank);
  const MatrixView<double> q2_view(q2.data(), steps, rank);
  // Q = [Q2; 0] - V (T V1^T Q2), written as Q^T. V has ones on and zeros above its diagonal.
  for (std::int64_t j = 0; j < steps; ++j) {
    std::fill_n(&m(0, j), j, 0.0);
    m(j, j) = 1.0;
  }
  std::vector<double> first(static_cast<std::size_t>(steps * rank));
  std::vector<double> second(static_cast<std::size_t>(steps * rank));
  const MatrixView<double> v1_q2(first.data(), steps, rank);
  const MatrixView<double> t_v1_q2(second.data(), steps, rank);
  const MatrixView<double> v = m.block(0, 0, m.rows(), steps);
  Blas::gemm(Op::conjugate_transpose, Op::none, 1.0, v.block(0, 0, steps, steps), q2_view, 0.0,
             v1_q2);
  for (std::int64_t j = 0; j < steps; ++j) {
    std::fill(t.begin() + j * steps + j + 1, t.begin() + (j + 1) * steps, 0.0);
  }
  Blas::gemm(Op::none, Op::none, 1.0, t_view, v1_q2, 0.0, t_v1_q2);
  block.adjoint.resize(static_cast<std::size_t>(rank * m.rows()));
  const MatrixView<double> adjoint(block.adjoint.data(), rank, m.rows());
  Blas::gemm(Op::conjugate_transpose, Op::conjugate_transpose, -1.0, t_v1_q2, v, 0.0, adjoint);
  for (std::int64_t i = 0; i < steps; ++i) {
    for (std::int64_t j = 0; j < rank; ++j) {
      adjoint(j, i) += q2_view(i, j);
    }
  }
  return block;
}

}  // namespace shardsolve::fbpinn
