/// The kernels of a Cholesky factorisation, of the solves with its factor and of the inverse.
#pragma once

#include "runtime/kernel_set.hpp"
#include "runtime/kernels.hpp"
#include "runtime/operand_shapes.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::runtime {

/// Rectangles c_i -= left_i^H right_i of one shape, `count` of them; both factors are columns of
/// packed panels.
template <Scalar T>
struct PanelUpdate {
  std::int64_t left = 0;   ///< first column in the left panel; as many as c has rows
  std::int64_t right = 0;  ///< likewise in the right one; as many as c has columns
  MatrixView<T> c;
  bool lower = false;  ///< c is on the diagonal, left = right: its lower triangle alone
  std::int64_t count = 1;
  std::int64_t apart = 0;    ///< columns of the panels from one rectangle to the next
  std::int64_t c_apart = 0;  ///< elements from one to the next
};

/// How a backend wants its work cut. For tiles of one width.
struct CholeskyTuning {
  /// Columns of the scratch of a tile, which potrf fills and panel reads; it has the tile's rows.
  std::int64_t tile_scratch_columns = 0;
  /// Rows of a panel below which it does not pay to make and send fewer at a time.
  std::int64_t least_panel_rows = 1;
  std::int64_t least_inverse_panel_rows = 1;  ///< likewise of an inverse's
};

/// As of Kernels: all matrices are column-major, a misfit of shapes throws Error(internal), and a
/// backend has the protected part.
template <Scalar T>
class CholeskyKernels {
 public:
  static constexpr KernelSet set = KernelSet::cholesky;
  static constexpr Dtype dtype = dtype_of<T>;
  using Real = RealOf<T>;
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;

  /// `base`: the same device's; outlives this.
  explicit CholeskyKernels(const Kernels<T>& base) : base_(base) {}
  virtual ~CholeskyKernels() = default;

  /// For tiles of so many columns. Ask once a call, in a thread that the device was adopted by.
  virtual CholeskyTuning tuning(std::int64_t tile) const = 0;

  /// Cholesky factor of the lower triangle of one tile, LAPACK potrf. `info` receives 0, or the
  /// 1-based number of the column whose pivot was not positive (negated if it was not a number).
  /// `tile_scratch`: the tile's scratch, see CholeskyTuning.
  /// Counts n^3 / 3 operations, if complex 4 times that; not what a backend makes in
  /// `tile_scratch`.
  void potrf(Queue& queue, Out a, Out tile_scratch, std::int64_t* info) const {
    const std::int64_t n = a.rows();
    require(a.columns() == n && (tile_scratch.columns() == 0 || tile_scratch.rows() == n), "potrf");
    do_potrf(queue, {.name = "potrf", .flops = multiply_add<T> / 6.0 * product(n, n, n)}, a,
             tile_scratch, info);
  }
  /// m = l^-1 for strides.count lower triangular tiles with zeros above the diagonal; m has them,
  /// too. strides.a is that of l, strides.c that of m. m l = I is as accurate as by a triangular
  /// solve.
  void invert(Queue& queue, In l, Out m, const BatchStrides& strides) const {
    require(l.rows() == l.columns() && same_shape(l, m), "invert");
    if (!m.empty() && strides.count > 0) {
      do_invert(queue, l, m, strides);
    }
  }
  /// l21 = a21 l11^-H in place of a21, and packed = l21^H. `l11` and `tile_scratch` as potrf left
  /// them.
  void panel(Queue& queue, In l11, In tile_scratch, Out a21, Out packed) const {
    require_panel(l11, a21, packed, "panel");
    const double flops = 0.5 * multiply_add<T> * product(a21.rows(), l11.rows(), l11.rows());
    do_panel(queue, {.name = "panel", .flops = flops}, l11, tile_scratch, a21, packed);
  }
  /// m21 = s21 l11^-1 in place of s21, and packed = m21^H. `m11`: l11^-1, both with zeros above the
  /// diagonal.
  void inverse_panel(Queue& queue, In l11, In m11, Out s21, Out packed) const {
    require(same_shape(l11, m11), "inverse panel");
    require_panel(l11, s21, packed, "inverse panel");
    do_inverse_panel(queue, l11, m11, s21, packed);
  }
  /// Rows of a packed panel of tiles of so many columns: those of l21^H, and what a backend keeps
  /// of each column beside them.
  virtual std::int64_t packed_rows(std::int64_t tile) const { return tile; }
  /// Converts packed l21^H in place to the form that updates take; they alone may read it then.
  /// `packed`: the l21^H part of columns of a panel of packed_rows() rows, here and below.
  void prepare_updates(Queue& queue, Out packed) const {
    require(packed.columns() <= 1 || packed.stride() >= packed_rows(packed.rows()),
            "prepare_updates");
    do_prepare_updates(queue, packed);
  }
  /// All of some updates with prepared panels, of which none touches what another one does.
  void update(Queue& queue, In left_panel, In right_panel,
              const std::vector<PanelUpdate<T>>& updates) const {
    require(left_panel.rows() == right_panel.rows(), "update");
    for (const PanelUpdate<T>& update : updates) {
      const std::int64_t last = update.apart * (update.count - 1);
      require(update.left + last + update.c.rows() <= left_panel.columns() &&
                  update.right + last + update.c.columns() <= right_panel.columns() &&
                  (!update.lower || update.c.rows() == update.c.columns()),
              "update");
    }
    do_update(queue, left_panel, right_panel, updates);
  }

 protected:
  const Kernels<T>& base() const { return base_; }

  // Each enqueues its work as `info` has it. What is made of other kernels leaves that to those,
  // which then count.
  virtual void do_potrf(Queue& queue, const WorkInfo& work, Out a, Out tile_scratch,
                        std::int64_t* info) const = 0;
  virtual void do_invert(Queue& queue, In l, Out m, const BatchStrides& strides) const {
    for (std::int64_t i = 0; i < strides.count; ++i) {
      base_.identity(queue, moved(m, i * strides.c));
      base_.trsm(queue, Side::right, Triangle::lower, Op::none, moved(l, i * strides.a),
                 moved(m, i * strides.c));
    }
  }
  virtual void do_panel(Queue& queue, const WorkInfo& info, In l11, In tile_scratch, Out a21,
                        Out packed) const = 0;
  virtual void do_inverse_panel(Queue& queue, In l11, In m11, Out s21, Out packed) const = 0;
  virtual void do_prepare_updates(Queue& /*queue*/, Out /*packed*/) const {}
  virtual void do_update(Queue& queue, In left_panel, In right_panel,
                         const std::vector<PanelUpdate<T>>& updates) const {
    for (const PanelUpdate<T>& update : updates) {
      const In right = right_panel.columns_from(update.right, update.c.columns());
      const BatchStrides strides{update.count, update.apart * left_panel.stride(),
                                 update.apart * right_panel.stride(), update.c_apart};
      if (!update.lower) {
        const In left = left_panel.columns_from(update.left, update.c.rows());
        base_.gemm_batch(queue, Op::conjugate_transpose, Op::none, T{-1}, left, right, T{1},
                         update.c, strides);
      } else if (update.count == 1) {
        base_.herk(queue, Triangle::lower, Op::conjugate_transpose, -1, right, 1, update.c);
      } else {
        base_.herk_batch(queue, Triangle::lower, Op::conjugate_transpose, -1, right, update.c,
                         strides);
      }
    }
  }

 private:
  static void require_panel(In l11, Out rows, Out packed, const char* kernel) {
    const std::int64_t n = l11.rows();
    require(l11.columns() == n && rows.columns() == n && packed.rows() == n &&
                packed.columns() == rows.rows(),
            kernel);
  }

  const Kernels<T>& base_;
};

}  // namespace shardsolve::runtime
