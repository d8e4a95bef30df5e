/// The kernels of an LU factorisation with partial pivoting, of the solves with its factor, of
/// inverses, and of their certificates.
#pragma once

#include "runtime/kernel_set.hpp"
#include "runtime/kernels.hpp"
#include "runtime/operand_shapes.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime {

/// As of Kernels: all matrices are column-major, a misfit of shapes throws Error(internal), and a
/// backend has the protected part.
///
/// The size of a number, by which pivots are chosen, is |re| + |im|. Rows of a panel and of what it
/// updates are counted from `first`, a place in the order of elimination.
template <Scalar T>
class LuKernels {
 public:
  static constexpr KernelSet set = KernelSet::lu;
  static constexpr Dtype dtype = dtype_of<T>;
  using Real = RealOf<T>;
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;

  /// `base`: the same device's; outlives this.
  explicit LuKernels(const Kernels<T>& base) : base_(base) {}
  virtual ~LuKernels() = default;

  /// P a = L U in place, of m >= w rows and w columns, L unit lower trapezoidal. places[j] receives
  /// the place of the row that row j was swapped with, row 0 of `a` being at `first`: of the rows
  /// from j on, in the order that the swaps before have left, the first of those whose entry is
  /// largest. A column of zeros gives a pivot of 0, is left as it is and not divided by. `info`
  /// receives 0, or - (j + 1) for the first pivot that is not finite. LAPACK: getrf.
  void panel(Queue& queue, std::int64_t first, Out a, std::int64_t* places,
             std::int64_t* info) const {
    const double m = static_cast<double>(a.rows());
    const double w = static_cast<double>(a.columns());
    require(a.rows() >= a.columns(), "lu panel");
    do_panel(queue, {.name = "lu panel", .flops = 0.5 * multiply_add<T> * w * w * (m - w / 3.0)},
             first, a, places, info);
  }
  /// Swaps row j of `a` with the row at places[j], for each j < count in turn. LAPACK: laswp.
  void swap_rows(Queue& queue, std::int64_t first, const std::int64_t* places, std::int64_t count,
                 Out a) const {
    require(count <= a.rows(), "swap rows");
    if (!a.empty() && count > 0) {
      do_swap_rows(queue, {.name = "swap rows"}, first, places, count, a);
    }
  }
  /// a1 = l11^-1 a1, a2 -= l21 a1, where [l11; l21] is a panel as panel() left it, and [a1; a2] has
  /// as many rows, swapped like it. `scratch`: eliminate_scratch() elements, or none.
  void eliminate(Queue& queue, In panel, Out a, Out scratch = {}) const {
    require(panel.rows() == a.rows() && panel.rows() >= panel.columns(), "eliminate");
    if (!a.empty() && panel.columns() > 0) {
      do_eliminate(queue, panel, a, scratch);
    }
  }
  /// Elements of memory with which eliminate() is faster for a panel of so many columns, with so
  /// many rows below them, and so many columns of `a`; 0 where none helps. No smaller operands need
  /// more.
  virtual std::int64_t eliminate_scratch(std::int64_t /*width*/, std::int64_t /*rows*/,
                                         std::int64_t /*columns*/) const {
    return 0;
  }
  /// a2 = u11^-1 a2, a1 -= u01 a2, where `panel` = [u01; u11] are columns of U down to the end of
  /// their diagonal block, below whose diagonal nothing is read, and [a1; a2] has as many rows.
  void eliminate_above(Queue& queue, In panel, Out a) const {
    require(panel.rows() == a.rows() && panel.rows() >= panel.columns(), "eliminate above");
    if (!a.empty() && panel.columns() > 0) {
      do_eliminate_above(queue, panel, a);
    }
  }
  /// Solves op(t) x = b, x in place of b, where t is the lower triangle of the tile with ones on
  /// the diagonal (L), or the upper triangle with its own (U).
  void solve_tile(Queue& queue, Triangle triangle, Op op, In tile, Out b) const {
    const std::int64_t n = tile.rows();
    require(tile.columns() == n && b.rows() == n, "solve tile");
    if (!b.empty()) {
      do_solve_tile(queue,
                    {.name = "trsm", .flops = 0.5 * multiply_add<T> * product(n, n, b.columns())},
                    triangle, op, tile, b);
    }
  }
  /// Rows of a triangle that solve_tile takes at once, for so many right-hand sides, sooner than in
  /// parts; 0: of no use.
  virtual std::int64_t rows_to_solve(Op /*op*/, std::int64_t /*columns*/) const { return 0; }
  /// target[j] = the largest modulus of a_0j, ..., a_(first + j)j: of columns of U, whose diagonal
  /// begins in row `first`. NaN if one is.
  void upper_max(Queue& queue, std::int64_t first, In a, double* target) const {
    require(first >= 0 && a.rows() >= first + a.columns(), "upper max");
    if (!a.empty()) {
      do_upper_max(queue, {.name = "column max"}, first, a, target);
    }
  }

  /// target = source^T, without conjugation.
  void transpose(Queue& queue, In source, Out target) const {
    require(source.rows() == target.columns() && source.columns() == target.rows(), "transpose");
    if (!source.empty()) {
      do_transpose(queue, {.name = "transpose"}, source, target);
    }
  }
  /// Row i of the target is column columns[i] of the source.
  void choose_columns(Queue& queue, In source, const std::int64_t* columns, Out target) const {
    require(source.rows() == target.columns(), "choose columns");
    if (!target.empty()) {
      do_choose_columns(queue, {.name = "choose rows"}, source, columns, target);
    }
  }

  /// Row i of the target is row rows[i] of the source.
  void choose_rows(Queue& queue, In source, const std::int64_t* rows, Out target) const {
    require(source.columns() == target.columns(), "choose rows");
    if (!target.empty()) {
      do_choose_rows(queue, {.name = "choose rows"}, source, rows, target);
    }
  }

  /// Row i of `a` becomes what row rows[i] of it has been: all rows, in another order. `scratch`:
  /// of the shape of `a`, without gaps.
  void order_rows(Queue& queue, const std::int64_t* rows, Out a, Out scratch) const {
    require(same_shape(a, scratch), "order rows");
    if (!a.empty()) {
      do_order_rows(queue, {.name = "order rows"}, rows, a, scratch);
    }
  }

  /// Column j of the target is column columns[j] of the source.
  void order_columns(Queue& queue, In source, const std::int64_t* columns, Out target) const {
    require(source.rows() == target.rows(), "order columns");
    if (!target.empty()) {
      do_order_columns(queue, {.name = "order columns"}, source, columns, target);
    }
  }

  /// y = op(a) x, each sum in twice the precision and then given as two numbers: `y` has first the
  /// columns of the sums, rounded, then those of what rounding has taken from them. `sizes`:
  /// |op(a)| |x|, of complex numbers at least 0.92 of that and never more.
  void multiply(Queue& queue, Op op, In a, In x, Out y, MatrixView<double> sizes) const {
    const std::int64_t k = x.columns();
    require(x.rows() == columns_of(op, a) && y.rows() == rows_of(op, a) && y.columns() == 2 * k &&
                sizes.rows() == y.rows() && sizes.columns() == k,
            "multiply");
    if (!y.empty()) {
      do_multiply(
          queue, {.name = "multiply", .flops = multiply_add<T> * product(a.rows(), a.columns(), k)},
          op, a, x, y, sizes);
    }
  }
  /// target = |source|, of complex numbers as in multiply().
  void moduli(Queue& queue, In source, MatrixView<Real> target) const {
    require(same_shape(source, target), "moduli");
    if (!source.empty()) {
      do_moduli(queue, {.name = "moduli"}, source, target);
    }
  }
  /// sums[i] = sum over j of |scale * a_ij|, and largest[i] the largest of these; of complex numbers
  /// those below 2^-511 count as 0.
  void row_sums(Queue& queue, double scale, In a, double* sums, double* largest) const {
    if (a.rows() > 0) {
      do_row_sums(queue, {.name = "row sums"}, scale, a, sums, largest);
    }
  }
  /// target[j] = max_i |r_ij| / (sizes_ij + |b_ij|) over the rows where that sum is at least
  /// `least`; NaN if one is not finite.
  void component_errors(Queue& queue, double least, In r, MatrixView<const double> sizes, In b,
                        double* target) const {
    require(same_shape(r, sizes) && same_shape(r, b), "component errors");
    if (r.columns() > 0) {
      do_component_errors(queue, {.name = "column max"}, least, r, sizes, b, target);
    }
  }

 protected:
  const Kernels<T>& base() const { return base_; }

  // Each enqueues its work as `info` has it. What is made of other kernels leaves that to those,
  // which then count.
  virtual void do_panel(Queue& queue, const WorkInfo& work, std::int64_t first, Out a,
                        std::int64_t* places, std::int64_t* info) const = 0;
  virtual void do_swap_rows(Queue& queue, const WorkInfo& info, std::int64_t first,
                            const std::int64_t* places, std::int64_t count, Out a) const = 0;
  virtual void do_eliminate(Queue& queue, In panel, Out a, Out /*scratch*/) const {
    const std::int64_t w = panel.columns();
    const Out a1 = a.block(0, 0, w, a.columns());
    solve_tile(queue, Triangle::lower, Op::none, panel.block(0, 0, w, w), a1);
    base_.gemm(queue, Op::none, Op::none, T{-1}, panel.block(w, 0, panel.rows() - w, w), a1, T{1},
               a.block(w, 0, a.rows() - w, a.columns()));
  }
  virtual void do_eliminate_above(Queue& queue, In panel, Out a) const {
    const std::int64_t w = panel.columns();
    const std::int64_t above = panel.rows() - w;
    const Out a2 = a.block(above, 0, w, a.columns());
    solve_tile(queue, Triangle::upper, Op::none, panel.block(above, 0, w, w), a2);
    base_.gemm(queue, Op::none, Op::none, T{-1}, panel.block(0, 0, above, w), a2, T{1},
               a.block(0, 0, above, a.columns()));
  }
  virtual void do_solve_tile(Queue& queue, const WorkInfo& info, Triangle triangle, Op op, In tile,
                             Out b) const = 0;
  virtual void do_upper_max(Queue& queue, const WorkInfo& info, std::int64_t first, In a,
                            double* target) const = 0;
  virtual void do_transpose(Queue& queue, const WorkInfo& info, In source, Out target) const = 0;
  virtual void do_choose_columns(Queue& queue, const WorkInfo& info, In source,
                                 const std::int64_t* columns, Out target) const = 0;
  virtual void do_choose_rows(Queue& queue, const WorkInfo& info, In source,
                              const std::int64_t* rows, Out target) const = 0;
  virtual void do_order_rows(Queue& queue, const WorkInfo& info, const std::int64_t* rows, Out a,
                             Out scratch) const {
    do_choose_rows(queue, info, a, rows, scratch);
    base_.copy(queue, scratch, a);
  }
  virtual void do_order_columns(Queue& queue, const WorkInfo& info, In source,
                                const std::int64_t* columns, Out target) const = 0;
  virtual void do_multiply(Queue& queue, const WorkInfo& info, Op op, In a, In x, Out y,
                           MatrixView<double> sizes) const = 0;
  virtual void do_moduli(Queue& queue, const WorkInfo& info, In source,
                         MatrixView<Real> target) const = 0;
  virtual void do_row_sums(Queue& queue, const WorkInfo& info, double scale, In a, double* sums,
                           double* largest) const = 0;
  virtual void do_component_errors(Queue& queue, const WorkInfo& info, double least, In r,
                                   MatrixView<const double> sizes, In b, double* target) const = 0;

 private:
  const Kernels<T>& base_;
};

}  // namespace shardsolve::runtime
