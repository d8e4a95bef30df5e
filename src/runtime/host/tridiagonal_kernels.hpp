/// Tridiagonal eigenproblems on the CPU.
#pragma once

#include "runtime/tridiagonal_kernels.hpp"

namespace shardsolve::runtime::host {

template <Scalar Real>
class HostTridiagonalKernels : public TridiagonalKernels<Real> {
 public:
  using typename TridiagonalKernels<Real>::In;
  using typename TridiagonalKernels<Real>::Out;
  using typename TridiagonalKernels<Real>::Root;

  /// The factor on the right is made once for all of a product's rows, so there are many; so few
  /// columns of it stay in a core's cache.
  TridiagonalTuning tuning() const override { return {.rows = 2048, .columns = 256}; }

 protected:
  void do_solve_small(Queue& queue, const WorkInfo& info, const Tridiagonal<Real>& t,
                      const SmallParts& parts, Real* values, Out vectors,
                      std::int64_t* infos) const override;
  void do_secular_roots(Queue& queue, const WorkInfo& info, const SecularEquation<Real>& equation,
                        std::int64_t first, std::int64_t count, Root* roots) const override;
  void do_secular_weights(Queue& queue, const WorkInfo& info, const SecularEquation<Real>& equation,
                          const Root* roots, Real* weights) const override;
  void do_secular_vectors(Queue& queue, const WorkInfo& info, const SecularEquation<Real>& equation,
                          const Root* roots, const std::int64_t* rows, std::int64_t first,
                          Out u) const override;
  void do_rotate_columns(Queue& queue, const WorkInfo& info, const ColumnRotation<Real>* rotations,
                         std::int64_t count, Out z) const override;
  void do_copy_columns(Queue& queue, const WorkInfo& info, std::int64_t count, In source,
                       const std::int64_t* from, Out target, const std::int64_t* to) const override;
  void do_count_eigenvalues(Queue& queue, const WorkInfo& info, const Tridiagonal<Real>& t,
                            const Real* points, std::int64_t count,
                            std::int64_t* below) const override;
  void do_bisect(Queue& queue, const WorkInfo& info, const Tridiagonal<Real>& t, Real low,
                 Real high, Real width, std::int64_t first, std::int64_t count,
                 Real* values) const override;
};

}  // namespace shardsolve::runtime::host
