/// Kernels for singular values by a bidiagonal form, of a matrix that is cut by rows.
#pragma once

#include "runtime/kernel_set.hpp"
#include "runtime/operand_shapes.hpp"
#include "runtime/qr_kernels.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime {

/// Where a rank is in A = Q B P^H, Q and P products of reflectors I - tau v v^H and I - tau u u^H.
/// Of the columns of a panel that are done, the rest of A lacks the product with the reflectors: it
/// is `a` - v y^H - x u^H. Columns are numbered in the order in which they are eliminated, rows in
/// that of this rank's, which is the same.
template <Scalar W>
struct BidiagonalPanel {
  MatrixView<W> a;      ///< this rank's rows of A; where columns are done, of v
  MatrixView<W> right;  ///< what u has where this rank's columns are; empty if nobody wants it
  MatrixView<W> x;      ///< rows of this rank, a column for each of the panel
  MatrixView<W> y;      ///< rows of all columns, likewise
  MatrixView<W> u;      ///< likewise
  const std::int64_t* own_columns;  ///< this rank's columns, numbered as a's are
  double* diagonal;                 ///< of B, by column
  double* off_diagonal;             ///< right of it
  W* tau_left;                      ///< by column
  W* tau_right;                     ///< likewise

  std::int64_t first = 0;  ///< column of the panel
  std::int64_t next = 0;   ///< column that is to be done
  std::int64_t above = 0;  ///< rows of this rank that are eliminated before its row is
  bool has_row = false;    ///< whether that row is this rank's

  std::int64_t done() const { return next - first; }
  std::int64_t behind() const { return a.columns() - next - 1; }
  /// Numbers that each rank gives for the next column.
  std::int64_t shared() const { return 2 * behind() + 2 * done() + 2; }
};

/// Everything in double precision, whatever A is. As of Kernels: all matrices are column-major, a
/// misfit of shapes throws Error(internal), and a backend has the protected part.
template <Scalar T>
class BidiagonalKernels {
 public:
  static constexpr KernelSet set = KernelSet::bidiagonal;
  static constexpr Dtype dtype = dtype_of<T>;
  using Wide = WideOf<T>;
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;
  using InWide = MatrixView<const Wide>;
  using OutWide = MatrixView<Wide>;
  using Panel = BidiagonalPanel<Wide>;

  virtual ~BidiagonalKernels() = default;

  /// Column j of the target is column columns[j] of the source.
  void take_columns(Queue& queue, In source, const std::int64_t* columns, OutWide target) const {
    require(same_shape(source, target), "take columns");
    if (!target.empty()) {
      do_take_columns(queue, {.name = "take columns"}, source, columns, target);
    }
  }
  /// Row i of the target is row rows[i] of the square source, or of its transpose; 0 where that has
  /// no such row.
  void take_rows(Queue& queue, MatrixView<const double> source, bool transposed,
                 const std::int64_t* rows, MatrixView<double> target) const {
    require(source.rows() == source.columns() && target.columns() == source.rows(), "take rows");
    if (!target.empty()) {
      do_take_rows(queue, {.name = "take rows"}, source, transposed, rows, target);
    }
  }

  /// The next column of the panel as the ones before leave it, in its place, and what all ranks'
  /// parts of it are to be summed up for: panel.shared() numbers.
  void open_column(Queue& queue, const Panel& panel, Wide* share) const {
    do_open_column(queue,
                   {.name = "open column",
                    .flops = multiply_add<Wide> * product(panel.a.rows() - panel.above,
                                                          panel.behind() + 4 * panel.done())},
                   panel, share);
  }
  /// Its two reflectors, and its columns of v, x, y and u. `shares` has a column for each rank,
  /// which are added in this order.
  void close_column(Queue& queue, const Panel& panel, InWide shares) const {
    require(shares.rows() == panel.shared(), "close column");
    do_close_column(queue,
                    {.name = "close column",
                     .flops = multiply_add<Wide> * product(panel.a.rows() - panel.above,
                                                           panel.behind() + 2 * panel.done())},
                    panel, shares);
  }

  /// B = u diag(s) vt for the upper bidiagonal B of these diagonals, s descending in place of the
  /// first; both are overwritten. `u` and `vt` may be empty: then it is s alone. `info` receives 0,
  /// or not if that did not converge. Vectors that came out less orthogonal than rounding explains
  /// are made so.
  void bidiagonal_values(Queue& queue, MatrixView<double> diagonal, double* off_diagonal,
                         MatrixView<double> u, MatrixView<double> vt, std::int64_t* info) const {
    require(
        diagonal.columns() == 1 && (u.empty() || u.rows() == diagonal.rows()) && same_shape(u, vt),
        "bidiagonal values");
    do_bidiagonal_values(queue, {.name = "bidiagonal values"}, diagonal, off_diagonal, u, vt, info);
  }

  /// v^H [c v] of this rank's rows. Sums of v^H v are to the last digits: reflectors of equal
  /// entries have equal terms, which would round to one side.
  void multiply_reflectors(Queue& queue, InWide v, InWide c, OutWide share) const {
    require(v.rows() == c.rows() && share.rows() == v.columns() &&
                share.columns() == c.columns() + v.columns(),
            "multiply reflectors");
    do_multiply_reflectors(
        queue,
        {.name = "multiply reflectors",
         .flops = multiply_add<Wide> * product(v.rows(), v.columns(), share.columns())},
        v, c, share);
  }
  /// c = (I - tau v v^H) ... c, the product of the reflectors that are v's columns, given this
  /// rank's rows of v and c. `shares`: what multiply_reflectors() gave on each rank, side by side,
  /// which are added in this order.
  void apply_reflectors(Queue& queue, InWide v, const Wide* tau, InWide shares, OutWide c) const {
    require(v.rows() == c.rows() && shares.rows() == v.columns() &&
                shares.columns() % (c.columns() + v.columns()) == 0,
            "apply reflectors");
    do_apply_reflectors(queue,
                        {.name = "apply reflectors",
                         .flops = multiply_add<Wide> * product(v.rows(), v.columns(), c.columns())},
                        v, tau, shares, c);
  }

  /// For each column the row of its largest entry, the first of equals, and that entry; 0 and 0 of
  /// no rows.
  void largest_entries(Queue& queue, InWide c, std::int64_t* rows, Wide* entries) const {
    do_largest_entries(queue, {.name = "largest entries"}, c, rows, entries);
  }
  /// Column j of the target is that of c times factors[j]; entry real_rows[j] of it is made real,
  /// unless that is negative.
  void turn_columns(Queue& queue, InWide c, const Wide* factors, const std::int64_t* real_rows,
                    Out target) const {
    require(same_shape(c, target), "turn columns");
    if (!target.empty()) {
      do_turn_columns(queue, {.name = "turn columns"}, c, factors, real_rows, target);
    }
  }

 protected:
  // Each enqueues its work as `info` has it.
  virtual void do_take_columns(Queue& queue, const WorkInfo& info, In source,
                               const std::int64_t* columns, OutWide target) const = 0;
  virtual void do_take_rows(Queue& queue, const WorkInfo& info, MatrixView<const double> source,
                            bool transposed, const std::int64_t* rows,
                            MatrixView<double> target) const = 0;
  virtual void do_open_column(Queue& queue, const WorkInfo& info, const Panel& panel,
                              Wide* share) const = 0;
  virtual void do_close_column(Queue& queue, const WorkInfo& info, const Panel& panel,
                               InWide shares) const = 0;
  virtual void do_bidiagonal_values(Queue& queue, const WorkInfo& info, MatrixView<double> diagonal,
                                    double* off_diagonal, MatrixView<double> u,
                                    MatrixView<double> vt, std::int64_t* verdict) const = 0;
  virtual void do_multiply_reflectors(Queue& queue, const WorkInfo& info, InWide v, InWide c,
                                      OutWide share) const = 0;
  virtual void do_apply_reflectors(Queue& queue, const WorkInfo& info, InWide v, const Wide* tau,
                                   InWide shares, OutWide c) const = 0;
  virtual void do_largest_entries(Queue& queue, const WorkInfo& info, InWide c, std::int64_t* rows,
                                  Wide* entries) const = 0;
  virtual void do_turn_columns(Queue& queue, const WorkInfo& info, InWide c, const Wide* factors,
                               const std::int64_t* real_rows, Out target) const = 0;
};

}  // namespace shardsolve::runtime
