/// The tile kernels an algorithm may enqueue. Every backend has one implementation a dtype.
#pragma once

#include "runtime/kernel_set.hpp"
#include "runtime/persistent_solve.hpp"
#include "runtime/queue.hpp"
#include "runtime/upper_part.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::runtime {

enum class Op : char { none = 'N', conjugate_transpose = 'C' };
enum class Side : char { left = 'L', right = 'R' };
enum class Triangle : char { lower = 'L', upper = 'U' };

/// Operands of several kernels of one shape: element (0, 0) of the next comes so many elements
/// after that of the last.
struct Steps {
  std::int64_t count = 1;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;
};

template <class T>
MatrixView<T> moved(MatrixView<T> view, std::int64_t elements) {
  return {view.data() + elements, view.rows(), view.columns(), view.stride()};
}

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

/// What one pass over columns of a matrix finds; see Kernels::inspect. All in double precision.
struct Inspection {
  /// Per column: sum of |scale * a_ij|, for complex ones sqrt(re^2 + im^2) without scaling.
  double* column_sums = nullptr;
  double* probe = nullptr;            ///< per column: (A^H v)_j, two doubles if complex, else one
  double* partial_product = nullptr;  ///< per row: sum over these columns of a_ij v_j, likewise
};

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

  /// Cholesky factor of the lower triangle of one tile, LAPACK potrf. `info` receives 0, or the
  /// 1-based number of the column whose pivot was not positive (negated if it was not a number).
  /// `aid`: as many rows as the tile and aid_columns() columns.
  virtual void potrf(Queue& queue, Out a, Out aid, std::int64_t* info) const = 0;
  /// m = l^-1 for lower triangular tiles with zeros above the diagonal, which m has, too: of
  /// steps.count of them, the operands of each those of the one before moved on by so many elements
  /// (steps.a those of l, steps.c of m). m l = I is as accurate as by a triangular solve.
  virtual void invert(Queue& queue, In l, Out m, const Steps& steps) const {
    for (std::int64_t i = 0; i < steps.count; ++i) {
      identity(queue, moved(m, i * steps.c));
      trsm(queue, Side::right, Triangle::lower, Op::none, moved(l, i * steps.a),
           moved(m, i * steps.c));
    }
  }
  /// l21 = a21 l11^-H in place of a21, and packed = l21^H. `l11` and `aid` as potrf left them.
  virtual void panel(Queue& queue, In l11, In aid, Out a21, Out packed) const = 0;
  /// m21 = s21 l11^-1 in place of s21, and packed = m21^H. `m11`: l11^-1, both with zeros above the
  /// diagonal.
  virtual void inverse_panel(Queue& queue, In l11, In m11, Out s21, Out packed) const = 0;
  /// Rows of a packed panel of tiles of so many columns: those of l21^H, and what a backend keeps
  /// of each column beside them.
  virtual std::int64_t packed_rows(std::int64_t tile) const { return tile; }
  /// Makes of l21^H, packed, in place what updates take: all that it may be used for after that.
  /// `packed`: columns of a panel of packed_rows() rows, of which here and below those of l21^H are
  /// named.
  virtual void prepare_updates(Queue& /*queue*/, Out /*packed*/) const {}
  /// All of some updates with prepared panels, of which none touches what another one does.
  virtual void update(Queue& queue, In left_panel, In right_panel,
                      const std::vector<PanelUpdate<T>>& updates) const {
    for (const PanelUpdate<T>& update : updates) {
      const In right = right_panel.columns_from(update.right, update.c.columns());
      const Steps steps{update.count, update.apart * left_panel.stride(),
                        update.apart * right_panel.stride(), update.c_apart};
      if (!update.lower) {
        const In left = left_panel.columns_from(update.left, update.c.rows());
        gemm_batch(queue, Op::conjugate_transpose, Op::none, T{-1}, left, right, T{1}, update.c,
                   steps);
      } else if (update.count == 1) {
        herk(queue, Triangle::lower, Op::conjugate_transpose, -1, right, 1, update.c);
      } else {
        herk_batch(queue, Triangle::lower, Op::conjugate_transpose, -1, right, update.c, steps);
      }
    }
  }
  /// Columns of what a backend wants to know of a tile of so many columns beside its factor.
  virtual std::int64_t aid_columns(std::int64_t tile) const = 0;
  /// Rows of a panel below which it does not pay to make and send fewer at a time.
  virtual std::int64_t least_panel_rows() const = 0;
  /// Likewise of an inverse's.
  virtual std::int64_t least_inverse_panel_rows() const = 0;

  /// y = A x in twice the precision, what these columns and, A being Hermitian, the rows of the
  /// same numbers have to do with it. `x`: as many elements as A has rows. `y`: twice as many; of
  /// each rank's segment first the sums, rounded, then what rounding has taken from them.
  /// `scratch`: hermitian_multiply_scratch() bytes of device memory.
  virtual void hermitian_multiply(Queue& queue, const UpperPart<T, Real>& a, const T* x, T* y,
                                  void* scratch) const = 0;
  virtual std::int64_t hermitian_multiply_scratch(const UpperPart<T, Real>& a) const = 0;
  /// sums += source, where `sums` has k columns and behind them k of what rounding has taken from
  /// those; `source` has k columns, or 2 k likewise.
  virtual void add_twofold(Queue& queue, In source, Out sums) const = 0;

  /// Rows of a SolveBlock; 0 where there is no persistent_solve.
  virtual std::int64_t solve_block_rows() const { return 0; }
  /// See PersistentSolve. `flops`: those of this rank.
  virtual void persistent_solve(Queue&, const PersistentSolve<T>&, double /*flops*/) const {}

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
