/// Kernels for the eigenproblem of real symmetric tridiagonal matrices: by divide and conquer, and
/// by bisection.
#pragma once

#include "runtime/kernel_set.hpp"
#include "runtime/operand_shapes.hpp"
#include "runtime/queue.hpp"
#include "runtime/secular_equation.hpp"
#include "runtime/tridiagonal.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime {

/// How a backend wants a merge cut.
struct TridiagonalTuning {
  std::int64_t rows = 1;     ///< of Z that a product takes at a time
  std::int64_t columns = 1;  ///< of the factor on the right, made anew for each of them
};

/// For float and double alone: T is real whatever A was. As of Kernels: all matrices are
/// column-major, a misfit of shapes throws Error(internal), and a backend has the protected part.
/// Sums have an order of their own, a function of their length: no result depends on what other
/// results are asked for at the same time.
template <Scalar Real>
  requires std::is_floating_point_v<Real>
class TridiagonalKernels {
 public:
  static constexpr KernelSet set = KernelSet::tridiagonal;
  static constexpr Dtype dtype = dtype_of<Real>;
  using In = MatrixView<const Real>;
  using Out = MatrixView<Real>;
  using Root = SecularRoot<Real>;

  /// Largest order of solve_small. QL iterations lose digits as the order grows, merges do not:
  /// with 64 rows and clustered eigenvalues LAPACK's merges have 22 u where its QL has 110 u.
  static constexpr std::int64_t max_small = 32;

  virtual ~TridiagonalKernels() = default;

  virtual TridiagonalTuning tuning() const = 0;

  /// Eigenvalues, ascending, and eigenvectors of small parts of T, as if there were nothing beside
  /// them: those of rows i .. j - 1 go to values[i .. j - 1] and to these rows and columns of
  /// `vectors`. infos[p] receives 0, or another number if those of part p were not found.
  void solve_small(Queue& queue, const Tridiagonal<Real>& t, const SmallParts& parts, Real* values,
                   Out vectors, std::int64_t* infos) const {
    require(vectors.rows() == t.order && vectors.columns() == t.order && parts.count >= 0 &&
                (parts.bounds != nullptr || (parts.count == 1 && t.order <= max_small)),
            "solve_small");
    if (parts.count > 0) {
      const double cubes =
          parts.bounds != nullptr ? parts.cubes : product(t.order, t.order, t.order);
      do_solve_small(queue, {.name = "small T", .flops = 9.0 * cubes}, t, parts, values, vectors,
                     infos);
    }
  }

  /// roots[i], i = first .. first + count - 1.
  void secular_roots(Queue& queue, const SecularEquation<Real>& equation, std::int64_t first,
                     std::int64_t count, Root* roots) const {
    require(first >= 0 && count >= 0 && first + count <= equation.count, "secular_roots");
    if (count > 0) {
      do_secular_roots(queue,
                       {.name = "secular roots", .flops = 40.0 * product(count, equation.count)},
                       equation, first, count, roots);
    }
  }
  /// The weights, each with the sign of equation's and all times one factor, for which these are
  /// the roots up to the rounding of single operations: what makes eigenvectors orthogonal. M. Gu
  /// and S. C. Eisenstat, SIAM J. Matrix Anal. Appl. 16 (1995) 172.
  void secular_weights(Queue& queue, const SecularEquation<Real>& equation, const Root* roots,
                       Real* weights) const {
    if (equation.count > 0) {
      do_secular_weights(
          queue,
          {.name = "secular weights", .flops = 5.0 * product(equation.count, equation.count)},
          equation, roots, weights);
    }
  }
  /// Eigenvectors first .. first + u.columns() - 1, with norm 1; row i of u is their component
  /// rows[i]. `equation`: with the weights that secular_weights made.
  void secular_vectors(Queue& queue, const SecularEquation<Real>& equation, const Root* roots,
                       const std::int64_t* rows, std::int64_t first, Out u) const {
    require(u.rows() == equation.count && first >= 0 && first + u.columns() <= equation.count,
            "secular_vectors");
    if (!u.empty()) {
      do_secular_vectors(queue,
                         {.name = "secular vectors", .flops = 6.0 * product(u.rows(), u.columns())},
                         equation, roots, rows, first, u);
    }
  }

  /// Applies `count` rotations one after the other.
  void rotate_columns(Queue& queue, const ColumnRotation<Real>* rotations, std::int64_t count,
                      Out z) const {
    if (count > 0 && !z.empty()) {
      do_rotate_columns(queue, {.name = "rotate", .flops = 6.0 * product(count, z.rows())},
                        rotations, count, z);
    }
  }
  /// Column to[j] of the target = column from[j] of the source, for j below `count`. Null: j
  /// itself.
  void copy_columns(Queue& queue, std::int64_t count, In source, const std::int64_t* from,
                    Out target, const std::int64_t* to) const {
    require(source.rows() == target.rows() && (from != nullptr || count <= source.columns()) &&
                (to != nullptr || count <= target.columns()),
            "copy_columns");
    if (count > 0 && source.rows() > 0) {
      do_copy_columns(queue, {.name = "copy"}, count, source, from, target, to);
    }
  }

  /// below[i] = how many eigenvalues are at most points[i], by a Sturm sequence.
  void count_eigenvalues(Queue& queue, const Tridiagonal<Real>& t, const Real* points,
                         std::int64_t count, std::int64_t* below) const {
    do_count_eigenvalues(queue, {.name = "Sturm count", .flops = 4.0 * product(count, t.order)}, t,
                         points, count, below);
  }
  /// Eigenvalues first .. first + count - 1, ascending, by bisection of [low, high], where all of
  /// them are, down to intervals of width `width` or none between neighbouring numbers.
  void bisect(Queue& queue, const Tridiagonal<Real>& t, Real low, Real high, Real width,
              std::int64_t first, std::int64_t count, Real* values) const {
    require(first >= 0 && count >= 0 && first + count <= t.order, "bisect");
    if (count > 0) {
      do_bisect(queue, {.name = "bisect", .flops = 220.0 * product(count, t.order)}, t, low, high,
                width, first, count, values);
    }
  }

 protected:
  virtual void do_solve_small(Queue& queue, const WorkInfo& info, const Tridiagonal<Real>& t,
                              const SmallParts& parts, Real* values, Out vectors,
                              std::int64_t* infos) const = 0;
  virtual void do_secular_roots(Queue& queue, const WorkInfo& info,
                                const SecularEquation<Real>& equation, std::int64_t first,
                                std::int64_t count, Root* roots) const = 0;
  virtual void do_secular_weights(Queue& queue, const WorkInfo& info,
                                  const SecularEquation<Real>& equation, const Root* roots,
                                  Real* weights) const = 0;
  virtual void do_secular_vectors(Queue& queue, const WorkInfo& info,
                                  const SecularEquation<Real>& equation, const Root* roots,
                                  const std::int64_t* rows, std::int64_t first, Out u) const = 0;
  virtual void do_rotate_columns(Queue& queue, const WorkInfo& info,
                                 const ColumnRotation<Real>* rotations, std::int64_t count,
                                 Out z) const = 0;
  virtual void do_copy_columns(Queue& queue, const WorkInfo& info, std::int64_t count, In source,
                               const std::int64_t* from, Out target,
                               const std::int64_t* to) const = 0;
  virtual void do_count_eigenvalues(Queue& queue, const WorkInfo& info, const Tridiagonal<Real>& t,
                                    const Real* points, std::int64_t count,
                                    std::int64_t* below) const = 0;
  virtual void do_bisect(Queue& queue, const WorkInfo& info, const Tridiagonal<Real>& t, Real low,
                         Real high, Real width, std::int64_t first, std::int64_t count,
                         Real* values) const = 0;
};

}  // namespace shardsolve::runtime
