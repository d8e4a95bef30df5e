/// The kernels that reduce a Hermitian matrix to a band and the band to a tridiagonal, and what
/// their reflectors are applied with.
#pragma once

#include "runtime/chase.hpp"
#include "runtime/kernel_set.hpp"
#include "runtime/operand_shapes.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardsolve::runtime {

/// How a backend wants the reduction cut, and the way back.
struct BandTuning {
  /// That full_to_band updates at a time, with some of what is above the diagonal; 0 for a
  /// staircase without that on one rank.
  std::int64_t blocks_at_once = 0;
  /// Of A that full_to_band multiplies V with at a time. Where the terms of a sum are equal, its
  /// error grows with their number and not with the root of it.
  std::int64_t rows_at_once = 128;
  /// Several ranks send each other what is above the diagonal, which halves the operations of
  /// updates, in place of updating that, too.
  bool mirrors_between_ranks = false;
  std::int64_t group = 1;   ///< sweeps
  std::int64_t queues = 1;  ///< that may work on consecutive groups of sweeps at a time, at most
  /// As many of these for each rank. On CPUs a queue needs what another rank leaves idle.
  std::int64_t queues_a_rank = 1;
  std::int64_t waves = 1;  ///< of a kernel
  /// Sweeps that are applied to some columns of vectors before they are applied to the next ones,
  /// and these columns.
  std::int64_t sweeps = 1;
  std::int64_t columns = 1;
  /// V^H z as (z^H V)^H: a BLAS may be better at products of many rows than of many columns.
  bool tall_products = false;
};

/// V and V t of the windows of a group, as BandKernels::windows() makes them.
template <Scalar T>
struct SweepWindows {
  SweepGroup sweeps;
  MatrixView<const T> v;
  MatrixView<const T> vt;
};

/// As of Kernels: all matrices are column-major, a misfit of shapes throws Error(internal), and a
/// backend has the protected part.
///
/// The lower triangle of a band matrix B of bandwidth b lies in columns: row i of column j holds
/// B(j + i, j). Those that are chased have 2 b rows, room for bulges, and one more, in which column
/// j holds what B(j, j) lacks: the diagonal is their sum.
template <Scalar T>
class BandKernels {
 public:
  static constexpr KernelSet set = KernelSet::band;
  static constexpr Dtype dtype = dtype_of<T>;
  using Real = RealOf<T>;
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;

  virtual ~BandKernels() = default;

  /// Bytes of device memory that panel_qr and chase need beside their operands, for panels of at
  /// most so many columns and bands as wide. One kernel uses it at a time.
  virtual std::int64_t scratch(std::int64_t bandwidth) const = 0;

  /// a = Q R for a panel of m rows and w columns, k = min(m, w) reflectors: Q = I - V t V^H with V
  /// (m x k, unit lower trapezoidal, zeros above its diagonal) in the first k columns of `a`, what
  /// the others hold is lost; r (k x w) upper trapezoidal and t (k x k) upper triangular, zeros
  /// below their diagonals. R's diagonal is real. A column that is zero below its diagonal has the
  /// reflector I, so panels of any rank will do. Norms neither overflow nor underflow where the
  /// entries themselves do not. LAPACK: geqrt.
  void panel_qr(Queue& queue, Out a, Out r, Out t, void* scratch) const {
    const std::int64_t k = std::min(a.rows(), a.columns());
    require(r.rows() == k && r.columns() == a.columns() && t.rows() == k && t.columns() == k,
            "panel_qr");
    if (k > 0) {
      const double flops = 1.5 * multiply_add<T> * product(a.rows(), a.columns(), k);
      do_panel_qr(queue, {.name = "panel qr", .flops = flops}, a, r, t, scratch);
    }
  }
  /// Columns of a band as the reduction leaves them: the rows of `top` begin at the first column's
  /// diagonal entry, those of `r`, upper trapezoidal, follow. Below the band there are zeros; what
  /// is on the diagonal becomes real.
  void store_band(Queue& queue, In top, In r, Out band) const {
    require(top.columns() == band.columns() && (r.rows() == 0 || r.columns() == band.columns()),
            "store_band");
    if (!band.empty()) {
      do_store_band(queue, {.name = "store band"}, top, r, band);
    }
  }

  /// For a band of that width. Ask once a call, in a thread that the device was adopted by.
  virtual BandTuning tuning(const Chase& chase) const = 0;
  /// Some waves of some sweeps of the chase of a band (2 b + 1 x n), the waves of these sweeps
  /// before them and these and earlier waves of all earlier sweeps being done; see chase.hpp.
  /// Column j of the band is final after sweep j. `reflectors`: see SweepGroup; the first waves
  /// begin it.
  void chase(Queue& queue, const Chase& chase, const SweepGroup& sweeps, const WaveRange& waves,
             Out band, Out reflectors, void* scratch) const {
    require(band.columns() == chase.size && band.rows() == 2 * chase.bandwidth + 1 &&
                sweeps.first + sweeps.count <= chase.sweeps() &&
                reflectors.rows() == chase.bandwidth + 1 &&
                reflectors.columns() == sweeps.columns(chase),
            "chase");
    if (sweeps.count > 0) {
      const double flops = 6.0 * multiply_add<T> *
                           product(sweeps.tasks(chase, waves), chase.bandwidth, chase.bandwidth);
      do_chase(queue, {.name = "chase", .flops = flops}, chase, sweeps, waves, band, reflectors,
               scratch);
    }
  }
  /// The real parts of a tridiagonal band: n on the diagonal and n - 1 below it.
  void tridiagonal(Queue& queue, In band, Real* diagonal, Real* off_diagonal) const {
    require(band.rows() >= 2, "tridiagonal");
    if (!band.empty()) {
      do_tridiagonal(queue, {.name = "tridiagonal"}, band, diagonal, off_diagonal);
    }
  }
  /// The reflectors of a group of sweeps as products I - V t V^H, one for each number of a task, in
  /// the order of numbers: of each V and V t, of b + count - 1 rows and count columns, zeros
  /// outside of the reflectors; or what takes no more room and apply_windows() of this backend
  /// takes in their place.
  void windows(Queue& queue, const Chase& chase, const SweepGroup& sweeps, In reflectors, Out v,
               Out vt) const {
    require(reflectors.rows() == chase.bandwidth + 1 &&
                reflectors.columns() == sweeps.columns(chase) && same_shape(v, vt) &&
                v.rows() == chase.bandwidth + sweeps.count - 1 &&
                v.columns() == reflectors.columns(),
            "windows");
    if (!v.empty()) {
      const double flops = multiply_add<T> * product(v.rows(), v.columns(), sweeps.count);
      do_windows(queue, {.name = "windows", .flops = flops}, chase, sweeps, reflectors, v, vt);
    }
  }
  /// z = Q z for the product Q of the windows of some groups, the first group and of each its first
  /// window rightmost. Each group has the sweeps right before those of the group before it, and all
  /// V and V t have gaps between their columns or none has.
  void apply_windows(Queue& queue, const Chase& chase, std::span<const SweepWindows<T>> groups,
                     Out z) const {
    double flops = 0;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const auto& [sweeps, v, vt] = groups[i];
      const auto& before = groups[i == 0 ? 0 : i - 1];
      require(same_shape(v, vt) && v.rows() == chase.bandwidth + sweeps.count - 1 &&
                  v.columns() == sweeps.columns(chase) && z.rows() == chase.size &&
                  (i == 0 || sweeps.first + sweeps.count == before.sweeps.first) &&
                  (v.stride() == v.rows()) == (before.v.stride() == before.v.rows()),
              "apply_windows");
      flops += 2.0 * multiply_add<T> * product(v.rows(), v.columns(), z.columns());
    }
    if (flops > 0) {
      do_apply_windows(queue, {.name = "apply windows", .flops = flops}, chase, groups, z);
    }
  }
  /// above(i, j) = conj(below(j, i)) where column j lies in a later block than row i: blocks of
  /// `tile` rows and columns are counted from the first of each, those of columns from `ahead` on.
  /// Other entries of `above` stay, also while `below` is in the same memory.
  void mirror(Queue& queue, In below, Out above, std::int64_t tile, std::int64_t ahead) const {
    require(below.rows() == above.columns() && below.columns() == above.rows() && tile > 0,
            "mirror");
    if (!above.empty()) {
      do_mirror(queue, {.name = "mirror"}, below, above, tile, ahead);
    }
  }
  /// Row i of target is row order[i] of source; `order`, in the memory of the device, has as many
  /// numbers as target has rows.
  void permute_rows(Queue& queue, const std::int64_t* order, In source, Out target) const {
    require(source.columns() == target.columns(), "permute_rows");
    if (!target.empty()) {
      do_permute_rows(queue, {.name = "permute rows"}, order, source, target);
    }
  }
  /// Multiplies each column by a number of modulus 1 that makes its entry of largest modulus, the
  /// first of equals, real and positive.
  void fix_phases(Queue& queue, Out z) const {
    if (!z.empty()) {
      do_fix_phases(queue, {.name = "fix phases"}, z);
    }
  }

 protected:
  virtual void do_panel_qr(Queue& queue, const WorkInfo& info, Out a, Out r, Out t,
                           void* scratch) const = 0;
  virtual void do_store_band(Queue& queue, const WorkInfo& info, In top, In r, Out band) const = 0;
  virtual void do_chase(Queue& queue, const WorkInfo& info, const Chase& chase,
                        const SweepGroup& sweeps, const WaveRange& waves, Out band, Out reflectors,
                        void* scratch) const = 0;
  virtual void do_tridiagonal(Queue& queue, const WorkInfo& info, In band, Real* diagonal,
                              Real* off_diagonal) const = 0;
  virtual void do_windows(Queue& queue, const WorkInfo& info, const Chase& chase,
                          const SweepGroup& sweeps, In reflectors, Out v, Out vt) const = 0;
  /// `groups` is there until it returns.
  virtual void do_apply_windows(Queue& queue, const WorkInfo& info, const Chase& chase,
                                std::span<const SweepWindows<T>> groups, Out z) const = 0;
  virtual void do_mirror(Queue& queue, const WorkInfo& info, In below, Out above, std::int64_t tile,
                         std::int64_t ahead) const = 0;
  virtual void do_permute_rows(Queue& queue, const WorkInfo& info, const std::int64_t* order,
                               In source, Out target) const = 0;
  virtual void do_fix_phases(Queue& queue, const WorkInfo& info, Out z) const = 0;
};

}  // namespace shardsolve::runtime
