/// The kernels that all algorithms may enqueue: BLAS, moves, loops over entries. What one family of
/// algorithms needs beside them is a set of its own (kernel_set.hpp).
#pragma once

#include "runtime/kernel_arguments.hpp"
#include "runtime/kernel_set.hpp"
#include "runtime/operand_shapes.hpp"
#include "runtime/persistent_solve.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <complex>
#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime {

/// The same kind of number in the other precision: double for float, std::complex<float> for
/// std::complex<double>.
template <Scalar T>
using OtherPrecision =
    std::conditional_t<is_complex<T>, std::complex<OtherReal<RealOf<T>>>, OtherReal<RealOf<T>>>;

/// All matrices are column-major. Shapes must fit; a misfit throws Error(internal) when enqueued.
/// What is public checks that and says what the work is called and costs, alike for all backends; a
/// backend's own part is below.
template <Scalar T>
class Kernels {
 public:
  static constexpr KernelSet set = KernelSet::base;
  static constexpr Dtype dtype = dtype_of<T>;
  using Real = RealOf<T>;
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;
  using InOther = MatrixView<const OtherPrecision<T>>;
  using InReal = MatrixView<const Real>;

  virtual ~Kernels() = default;

  /// c = alpha op(a) op(b) + beta c; beta = 0 ignores what c held.
  void gemm(Queue& queue, Op op_a, Op op_b, T alpha, In a, In b, T beta, Out c) const {
    const std::int64_t k = require_product(op_a, a, op_b, b, c);
    if (!c.empty()) {
      do_gemm(queue, gemm_work(1, c, k), same(op_a), same(op_b), alpha, a, b, beta, c);
    }
  }
  /// One triangle of c = alpha op(a) op(a)^H + beta c, `op` no plain transpose; the rest of c is
  /// neither read nor written.
  void herk(Queue& queue, Triangle triangle, Op op, Real alpha, In a, Real beta, Out c) const {
    const std::int64_t k = require_square_product(op, a, c);
    if (!c.empty()) {
      do_herk(queue, herk_work(1, c, k), triangle, op, alpha, a, beta, c);
    }
  }
  /// `count` independent products as gemm's: operand a of product i begins i * strides.a elements
  /// after a, and likewise b and c.
  void gemm_batch(Queue& queue, Op op_a, Op op_b, T alpha, In a, In b, T beta, Out c,
                  const BatchStrides& strides) const {
    const std::int64_t k = require_product(op_a, a, op_b, b, c);
    if (c.empty()) {
      return;
    }
    if (strides.count == 1 || k == 0) {
      Kernels::do_gemm_batch(queue, {}, op_a, op_b, alpha, a, b, beta, c, strides);
    } else {
      do_gemm_batch(queue, gemm_work(strides.count, c, k), same(op_a), same(op_b), alpha, a, b,
                    beta, c, strides);
    }
  }
  /// Likewise herk with beta = 1; strides.b is not used.
  void herk_batch(Queue& queue, Triangle triangle, Op op, Real alpha, In a, Out c,
                  const BatchStrides& strides) const {
    const std::int64_t k = require_square_product(op, a, c);
    if (!c.empty()) {
      do_herk_batch(queue, herk_work(strides.count, c, k), triangle, op, alpha, a, c, strides);
    }
  }

  /// Solves op(a) X = b (left) or X op(a) = b (right) for triangular a; X replaces b.
  void trsm(Queue& queue, Side side, Triangle triangle, Op op, In a, Out b) const {
    const std::int64_t n = a.rows();
    require(a.columns() == n && n == (side == Side::left ? b.rows() : b.columns()), "trsm");
    if (!b.empty()) {
      do_trsm(queue,
              {.name = "trsm", .flops = 0.5 * multiply_add<T> * product(b.rows(), b.columns(), n)},
              side, triangle, same(op), a, b);
    }
  }

  void copy(Queue& queue, In source, Out target) const {
    require(same_shape(source, target), "copy");
    do_copy(queue, {.name = "copy"}, source, target);
  }
  /// target = source, rounded to nearest, or exactly; what is too large becomes an infinity.
  void convert(Queue& queue, InOther source, Out target) const {
    require(same_shape(source, target), "convert");
    do_convert(queue, {.name = "convert"}, source, target);
  }
  /// target = source, with imaginary parts of 0 if T is complex.
  void from_real(Queue& queue, InReal source, Out target) const {
    require(same_shape(source, target), "from_real");
    do_from_real(queue, {.name = "copy"}, source, target);
  }
  /// target = source^H.
  void conjugate_transpose(Queue& queue, In source, Out target) const {
    require(source.rows() == target.columns() && source.columns() == target.rows(),
            "conjugate_transpose");
    do_conjugate_transpose(queue, {.name = "transpose"}, source, target);
  }
  void fill(Queue& queue, T value, Out target) const {
    do_fill(queue, {.name = "fill"}, value, target);
  }
  /// target = the identity; square.
  void identity(Queue& queue, Out target) const {
    require(target.rows() == target.columns(), "identity");
    do_identity(queue, {.name = "identity"}, target);
  }
  /// target = the lower triangle of the source, zeros above; square.
  void lower_triangle(Queue& queue, In source, Out target) const {
    require(source.rows() == source.columns() && same_shape(source, target), "lower_triangle");
    do_lower_triangle(queue, {.name = "copy"}, source, target);
  }
  /// target += alpha source.
  void add(Queue& queue, T alpha, In source, Out target) const {
    require(same_shape(source, target), "add");
    do_add(queue, {.name = "add"}, alpha, source, target);
  }
  /// target = P source, or P^-1 source if `inverted`: p_i is the power of two next below
  /// |scales(i, i)|, whose real part counts, or 1 if that is 0 or not a number.
  void scale_rows(Queue& queue, In scales, bool inverted, In source, Out target) const {
    require(same_shape(source, target) && scales.rows() == source.rows() &&
                scales.columns() == source.rows(),
            "scale_rows");
    do_scale_rows(queue, {.name = "copy"}, scales, inverted, source, target);
  }
  /// target *= factor.
  void scale(Queue& queue, Real factor, Out target) const {
    do_scale(queue, {.name = "scale"}, factor, target);
  }

  /// Real part of the diagonal of `a` (a.columns() values).
  void diagonal(Queue& queue, In a, Real* target) const {
    require(a.rows() == a.columns(), "diagonal");
    do_diagonal(queue, {.name = "diagonal"}, a, target);
  }
  /// Hermitian tile from its strictly upper triangle and its diagonal. `target` may be `upper`.
  void hermitian_tile(Queue& queue, In upper, const Real* diagonal, Out target) const {
    require(upper.rows() == upper.columns() && same_shape(upper, target), "hermitian_tile");
    do_hermitian_tile(queue, {.name = "hermitian tile"}, upper, diagonal, target);
  }
  /// target[j] = max_i |a_ij|, NaN if the column holds one.
  void column_max(Queue& queue, In a, double* target) const {
    do_column_max(queue, {.name = "column max"}, a, target);
  }
  /// One pass over columns of A, whose first one is column `first` of the whole matrix; `weights`
  /// holds the real vector v, one number a row; results as in Inspection.
  void inspect(Queue& queue, In a, std::int64_t first, const double* weights, double scale,
               Inspection result) const {
    require(first + a.columns() <= a.rows() || a.columns() == 0, "inspect");
    do_inspect(queue,
               {.name = "inspect", .flops = 2.0 * multiply_add<T> * product(a.rows(), a.columns())},
               a, first, weights, scale, result);
  }
  /// Rows of a SolveBlock; 0 without a persistent_solve. To be asked in a thread that the device
  /// was adopted by.
  virtual std::int64_t solve_block_rows() const { return 0; }
  /// See PersistentSolveArguments. `flops`: those of this rank.
  void persistent_solve(Queue& queue, const PersistentSolveArguments<T>& solve,
                        double flops) const {
    do_persistent_solve(queue, {.name = "solve", .flops = flops}, solve);
  }

 protected:
  // Each enqueues its work as `info` has it. One that is made of other kernels leaves that to
  // those, which then count.
  virtual void do_gemm(Queue& queue, const WorkInfo& info, Op op_a, Op op_b, T alpha, In a, In b,
                       T beta, Out c) const = 0;
  virtual void do_herk(Queue& queue, const WorkInfo& info, Triangle triangle, Op op, Real alpha,
                       In a, Real beta, Out c) const = 0;
  virtual void do_gemm_batch(Queue& queue, const WorkInfo& /*info*/, Op op_a, Op op_b, T alpha,
                             In a, In b, T beta, Out c, const BatchStrides& strides) const {
    for (std::int64_t i = 0; i < strides.count; ++i) {
      gemm(queue, op_a, op_b, alpha, moved(a, i * strides.a), moved(b, i * strides.b), beta,
           moved(c, i * strides.c));
    }
  }
  virtual void do_herk_batch(Queue& queue, const WorkInfo& /*info*/, Triangle triangle, Op op,
                             Real alpha, In a, Out c, const BatchStrides& strides) const {
    for (std::int64_t i = 0; i < strides.count; ++i) {
      herk(queue, triangle, op, alpha, moved(a, i * strides.a), 1, moved(c, i * strides.c));
    }
  }
  virtual void do_trsm(Queue& queue, const WorkInfo& info, Side side, Triangle triangle, Op op,
                       In a, Out b) const = 0;
  virtual void do_copy(Queue& queue, const WorkInfo& info, In source, Out target) const = 0;
  virtual void do_convert(Queue& queue, const WorkInfo& info, InOther source, Out target) const = 0;
  virtual void do_from_real(Queue& queue, const WorkInfo& info, InReal source,
                            Out target) const = 0;
  virtual void do_conjugate_transpose(Queue& queue, const WorkInfo& info, In source,
                                      Out target) const = 0;
  virtual void do_fill(Queue& queue, const WorkInfo& info, T value, Out target) const = 0;
  virtual void do_identity(Queue& queue, const WorkInfo& info, Out target) const = 0;
  virtual void do_lower_triangle(Queue& queue, const WorkInfo& info, In source,
                                 Out target) const = 0;
  virtual void do_add(Queue& queue, const WorkInfo& info, T alpha, In source, Out target) const = 0;
  virtual void do_scale_rows(Queue& queue, const WorkInfo& info, In scales, bool inverted,
                             In source, Out target) const = 0;
  virtual void do_scale(Queue& queue, const WorkInfo& info, Real factor, Out target) const = 0;
  virtual void do_diagonal(Queue& queue, const WorkInfo& info, In a, Real* target) const = 0;
  virtual void do_hermitian_tile(Queue& queue, const WorkInfo& info, In upper, const Real* diagonal,
                                 Out target) const = 0;
  virtual void do_column_max(Queue& queue, const WorkInfo& info, In a, double* target) const = 0;
  virtual void do_persistent_solve(Queue& /*queue*/, const WorkInfo& /*info*/,
                                   const PersistentSolveArguments<T>& /*solve*/) const {
    refuse_operands("persistent_solve");  // there are no blocks of 0 rows
  }
  virtual void do_inspect(Queue& queue, const WorkInfo& info, In a, std::int64_t first,
                          const double* weights, double scale, Inspection result) const = 0;

 private:
  /// One name for what is one, so that its bits are the same, too.
  static Op same(Op op) {
    return op == Op::transpose && !is_complex<T> ? Op::conjugate_transpose : op;
  }
  static WorkInfo gemm_work(std::int64_t count, Out c, std::int64_t k) {
    return {.name = "gemm", .flops = multiply_add<T> * product(count, c.rows(), c.columns(), k)};
  }
  static WorkInfo herk_work(std::int64_t count, Out c, std::int64_t k) {
    return {.name = "herk",
            .flops = 0.5 * multiply_add<T> * product(count, c.rows(), c.rows() + 1, k)};
  }
};

namespace detail {
template <class Wanted>
struct KernelSetOf {
  using Type = Wanted;
};
template <Scalar T>
struct KernelSetOf<T> {
  using Type = Kernels<T>;
};
}  // namespace detail

/// The base for a dtype; a set as it is.
template <class Wanted>
using KernelSetOf = typename detail::KernelSetOf<Wanted>::Type;

}  // namespace shardsolve::runtime
