/// The kernels of tall QR factorisations and of least squares.
#pragma once

#include "runtime/kernel_set.hpp"
#include "runtime/kernels.hpp"
#include "runtime/operand_shapes.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <complex>
#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime {

/// Double precision of the same kind: what Gram matrices and R are made in, whatever A is. A Gram
/// matrix squares the condition number: of floats, made in floats, nothing would be left of it.
template <Scalar T>
using WideOf = std::conditional_t<is_complex<T>, std::complex<double>, double>;

/// Up to so many columns gram_factor() also looks at the square of what g differs from I by.
inline constexpr std::int64_t max_squared_columns = 1024;

/// What gram_factor() says of the Gram matrix that it was given.
enum class GramVerdict : std::int64_t {
  far = 0,   ///< of columns at length 1, not known to be near I: another pass is needed after this
  near = 1,  ///< of columns at length 1, within 1/2 of I: this pass is the last
  broken = 2,  ///< no factor, also with the shift
};

/// As of Kernels: all matrices are column-major, a misfit of shapes throws Error(internal), and a
/// backend has the protected part.
template <Scalar T>
class QrKernels {
 public:
  static constexpr KernelSet set = KernelSet::qr;
  static constexpr Dtype dtype = dtype_of<T>;
  using Wide = WideOf<T>;
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;
  using InWide = MatrixView<const Wide>;
  using OutWide = MatrixView<Wide>;

  virtual ~QrKernels() = default;

  /// Column j of the target = column j of the source times 2^exponents[j], in range or not.
  void scale_columns(Queue& queue, In source, const std::int64_t* exponents, Out target) const {
    require(same_shape(source, target), "scale columns");
    if (!target.empty()) {
      do_scale_columns(queue, {.name = "scale columns"}, source, exponents, target);
    }
  }
  /// target = a^H b, in double precision: b may be as narrow as one column.
  void adjoint_product(Queue& queue, In a, In b, OutWide target) const {
    require(a.rows() == b.rows() && target.rows() == a.columns() && target.columns() == b.columns(),
            "adjoint product");
    if (!target.empty()) {
      do_adjoint_product(queue,
                         {.name = "adjoint product",
                          .flops = multiply_add<T> * product(a.rows(), a.columns(), b.columns())},
                         a, b, target);
    }
  }
  /// The upper triangle of g = a^H a, in double precision; zeros below it.
  void gram(Queue& queue, In a, OutWide g) const {
    require(g.rows() == a.columns() && g.columns() == a.columns(), "gram");
    if (!g.empty()) {
      do_gram(queue,
              {.name = "gram",
               .flops = 0.5 * multiply_add<T> * product(a.rows(), a.columns(), a.columns() + 1)},
              a, g);
    }
  }
  /// g = r^H r: the upper triangle r, its diagonal real and positive, in place of that of g, with
  /// zeros below. Where g is not near, and not positive definite or a squared pivot is below 4 s, r
  /// is that of g + s I, s = shift * trace(g).
  /// `verdict` receives a GramVerdict.
  void gram_factor(Queue& queue, double shift, OutWide g, std::int64_t* verdict) const {
    require(g.rows() == g.columns(), "gram factor");
    do_gram_factor(queue,
                   {.name = "gram factor",
                    .flops = multiply_add<T> / 6.0 * product(g.rows(), g.rows(), g.rows())},
                   shift, g, verdict);
  }
  /// q = q r^-1 for the upper triangle r. `is_near`: as gram_factor() says it of r^H r, so that
  /// products with its inverse are as good.
  void divide(Queue& queue, InWide r, Out q, bool is_near = false) const {
    require(r.rows() == r.columns() && q.columns() == r.rows(), "divide");
    if (!q.empty()) {
      do_divide(queue,
                {.name = "divide",
                 .flops = 0.5 * multiply_add<T> * product(q.rows(), q.columns(), q.columns())},
                r, q, is_near);
    }
  }
  /// a = Q R by reflectors: the k = min(m, n) columns of Q in place of the first columns of a, R in
  /// r, k x n, with zeros below its diagonal. Whatever a is, Q^H Q = I to rounding.
  void reflect(Queue& queue, Out a, OutWide r) const {
    require(r.columns() == a.columns() && (r.rows() == a.rows() || r.rows() == a.columns()) &&
                r.rows() <= a.rows() && r.rows() <= a.columns(),
            "reflect");
    if (!r.empty()) {
      do_reflect(queue,
                 {.name = "reflect",
                  .flops = 2.0 * multiply_add<T> * product(a.rows(), a.columns(), r.rows())},
                 a, r);
    }
  }
  /// a = u diag(s) vh, s descending; square, `a` is overwritten. `u` and `vh` may both be empty:
  /// then it is `s` alone. `info` receives 0, or not if that did not converge.
  void singular_values(Queue& queue, OutWide a, double* s, OutWide u, OutWide vh,
                       std::int64_t* info) const {
    const bool with_vectors = !u.empty() || !vh.empty();
    require(a.rows() == a.columns() && (!with_vectors || (same_shape(a, u) && same_shape(a, vh))),
            "singular values");
    do_singular_values(queue,
                       {.name = "singular values",
                        .flops = (with_vectors ? 10.0 : 4.0 / 3.0) * multiply_add<T> *
                                 product(a.rows(), a.rows(), a.rows())},
                       a, s, u, vh, info);
  }
  /// Of column j: target[2 j] = max_i |a_ij| and target[2 j + 1] = sum_i (|a_ij| / max)^2. NaN if
  /// it holds one.
  void column_sizes(Queue& queue, In a, double* target) const {
    if (a.columns() > 0) {
      do_column_sizes(queue, {.name = "column sizes"}, a, target);
    }
  }

 protected:
  // Each enqueues its work as `info` has it.
  virtual void do_scale_columns(Queue& queue, const WorkInfo& info, In source,
                                const std::int64_t* exponents, Out target) const = 0;
  virtual void do_adjoint_product(Queue& queue, const WorkInfo& info, In a, In b,
                                  OutWide target) const = 0;
  virtual void do_gram(Queue& queue, const WorkInfo& info, In a, OutWide g) const = 0;
  virtual void do_gram_factor(Queue& queue, const WorkInfo& info, double shift, OutWide g,
                              std::int64_t* verdict) const = 0;
  virtual void do_divide(Queue& queue, const WorkInfo& info, InWide r, Out q,
                         bool is_near) const = 0;
  virtual void do_reflect(Queue& queue, const WorkInfo& info, Out a, OutWide r) const = 0;
  virtual void do_singular_values(Queue& queue, const WorkInfo& info, OutWide a, double* s,
                                  OutWide u, OutWide vh, std::int64_t* verdict) const = 0;
  virtual void do_column_sizes(Queue& queue, const WorkInfo& info, In a, double* target) const = 0;
};

}  // namespace shardsolve::runtime
