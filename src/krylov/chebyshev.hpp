/// Chebyshev's iteration as part of a rank program.
#pragma once

#include "krylov/chebyshev_factors.hpp"
#include "krylov/linear_operator.hpp"
#include "krylov/operators.hpp"
#include "mesh/rank.hpp"
#include "runtime/krylov_kernels.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace shardsolve::krylov {

/// The Chebyshev iteration for M A z = M r from z = 0, eigenvalues of M A in [low, high]; Y. Saad,
/// Iterative Methods for Sparse Linear Systems (2003), algorithm 12.1.
template <Scalar T>
class Chebyshev final : public LinearOperator<T> {
 public:
  using Real = RealOf<T>;

  /// `m` may be null: M = I. One step needs a product with each, but for the first one's with A.
  Chebyshev(mesh::Rank& rank, const SlabLayout& layout, std::shared_ptr<LinearOperator<T>> a,
            std::shared_ptr<LinearOperator<T>> m, double low, double high, std::int64_t degree)
      : a_(std::move(a)), m_(std::move(m)), low_(low), high_(high), degree_(degree) {
    const std::int64_t rows = layout.width(rank.index());
    residual_ = rank.workspace<T>(rows, 1);
    direction_ = rank.workspace<T>(rows, 1);
    product_ = rank.workspace<T>(rows, 1);
    sum_ = rank.workspace<T>(rows, 1);
    identity_ = make_identity<T>(rows);
    rank.kernels<T>().fill(rank.update(), T{0}, product_);
    if (m_ != nullptr) {
      scaled_ = rank.workspace<T>(rows, 1);
      rank.kernels<T>().fill(rank.update(), T{0}, scaled_);
    }
  }

  void apply(mesh::Rank& rank, runtime::Queue& queue, const T* x, T* y,
             const std::int32_t* skip) override {
    const auto& kernels = rank.kernels<runtime::KrylovKernels<T>>();
    ChebyshevFactors factors(low_, high_);
    // d = M r / theta, z = d
    const MatrixView<const T> r(x, residual_.rows(), 1);
    kernels.combine(queue, Real{1}, r, Real{0}, residual_, skip);
    kernels.combine(queue, static_cast<Real>(factors.first()), scaled_residual(rank, queue, skip),
                    Real{0}, direction_, skip);
    kernels.combine(queue, Real{1}, direction_, Real{0}, sum_, skip);
    for (std::int64_t k = 1; k < degree_; ++k) {
      // r -= A d,  d = rho+ rho d + (2 rho+ / delta) M r,  z += d
      a_->apply(rank, queue, direction_.data(), product_.data(), skip);
      kernels.combine(queue, Real{-1}, product_, Real{1}, residual_, skip);
      const ChebyshevFactors::Step step = factors.next();
      kernels.combine(queue, static_cast<Real>(step.residual), scaled_residual(rank, queue, skip),
                      static_cast<Real>(step.direction), direction_, skip);
      kernels.combine(queue, Real{1}, direction_, Real{1}, sum_, skip);
    }
    identity_->apply(rank, queue, sum_.data(), y, skip);
  }

 private:
  /// M r.
  MatrixView<T> scaled_residual(mesh::Rank& rank, runtime::Queue& queue, const std::int32_t* skip) {
    if (m_ == nullptr) {
      return residual_;
    }
    m_->apply(rank, queue, residual_.data(), scaled_.data(), skip);
    return scaled_;
  }

  std::shared_ptr<LinearOperator<T>> a_;
  std::shared_ptr<LinearOperator<T>> m_;
  std::unique_ptr<LinearOperator<T>> identity_;
  double low_;
  double high_;
  std::int64_t degree_;
  MatrixView<T> residual_;
  MatrixView<T> direction_;
  MatrixView<T> product_;
  MatrixView<T> sum_;
  MatrixView<T> scaled_;
};

}  // namespace shardsolve::krylov
