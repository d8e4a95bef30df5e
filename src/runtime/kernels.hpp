/// The kernels that all algorithms may enqueue: BLAS, moves, loops over entries. What one family of
/// algorithms needs beside them is a set of its own (kernel_set.hpp).
#pragma once

#include "runtime/kernel_arguments.hpp"
#include "runtime/kernel_set.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime {

/// All matrices are column-major. Shapes must fit; a misfit throws Error(internal) when enqueued.
template <Scalar T>
class Kernels {
 public:
  static constexpr KernelSet set = KernelSet::base;
  static constexpr Dtype dtype = dtype_of<T>;
  using Real = RealOf<T>;
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;

  virtual ~Kernels() = default;

  /// c = alpha op(a) op(b) + beta c; beta = 0 ignores what c held.
  virtual void gemm(Queue& queue, Op op_a, Op op_b, T alpha, In a, In b, T beta, Out c) const = 0;
  /// One triangle of c = alpha op(a) op(a)^H + beta c; the rest of c is neither read nor written.
  virtual void herk(Queue& queue, Triangle triangle, Op op, Real alpha, In a, Real beta,
                    Out c) const = 0;
  /// `count` products like that of gemm, of which none writes what another one touches; the
  /// operands of each are those of the one before moved on by so many elements.
  virtual void gemm_batch(Queue& queue, Op op_a, Op op_b, T alpha, In a, In b, T beta, Out c,
                          const Steps& steps) const {
    for (std::int64_t i = 0; i < steps.count; ++i) {
      gemm(queue, op_a, op_b, alpha, moved(a, i * steps.a), moved(b, i * steps.b), beta,
           moved(c, i * steps.c));
    }
  }
  /// Likewise herk with beta = 1; steps.b is not used.
  virtual void herk_batch(Queue& queue, Triangle triangle, Op op, Real alpha, In a, Out c,
                          const Steps& steps) const {
    for (std::int64_t i = 0; i < steps.count; ++i) {
      herk(queue, triangle, op, alpha, moved(a, i * steps.a), 1, moved(c, i * steps.c));
    }
  }

  /// Solves op(a) X = b (left) or X op(a) = b (right) for triangular a; X replaces b.
  virtual void trsm(Queue& queue, Side side, Triangle triangle, Op op, In a, Out b) const = 0;

  virtual void copy(Queue& queue, In source, Out target) const = 0;
  /// target = source^H.
  virtual void conjugate_transpose(Queue& queue, In source, Out target) const = 0;
  virtual void fill(Queue& queue, T value, Out target) const = 0;
  /// target = the identity; square.
  virtual void identity(Queue& queue, Out target) const = 0;
  /// target = the lower triangle of the source, zeros above; square.
  virtual void lower_triangle(Queue& queue, In source, Out target) const = 0;
  /// target += alpha source.
  virtual void add(Queue& queue, T alpha, In source, Out target) const = 0;
  /// target = P source, or P^-1 source if `inverted`: p_i is the power of two next below
  /// |scales(i, i)|, whose real part counts, or 1 if that is 0 or not a number.
  virtual void scale_rows(Queue& queue, In scales, bool inverted, In source, Out target) const = 0;
  /// target *= factor.
  virtual void scale(Queue& queue, Real factor, Out target) const = 0;

  /// Real part of the diagonal of `a` (columns.size() values).
  virtual void diagonal(Queue& queue, In a, Real* target) const = 0;
  /// Hermitian tile from its strictly upper triangle and its diagonal.
  virtual void hermitian_tile(Queue& queue, In upper, const Real* diagonal, Out target) const = 0;
  /// target[j] = max_i |a_ij|, NaN if the column holds one.
  virtual void column_max(Queue& queue, In a, double* target) const = 0;
  /// One pass over columns of A, whose first one is column `first` of the whole matrix; `weights`
  /// holds the real vector v, one number a row; results as in Inspection.
  virtual void inspect(Queue& queue, In a, std::int64_t first, const double* weights, double scale,
                       Inspection result) const = 0;
};

}  // namespace shardsolve::runtime
