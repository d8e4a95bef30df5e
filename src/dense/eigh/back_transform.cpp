// Both products of reflectors are applied from the right factor to the left one, many at a time.
//
// Sweeps: Q is the product of all H(s, k), task k of sweep s, sweep after sweep. H(s, k) and
// H(s', k') commute if their rows are apart, so Q is also a product over groups of sweeps of
//
//   ... W(2) W(1) W(0),   W(k) = H(s, k) H(s + 1, k) ... = I - V t V^H
//
// windows of a group, each of as many rows as a bandwidth and a group have. The last group is
// applied first, and of a group window 0:
//
//   its reflectors -> all                                         transfer queue
//   V, V t                 of all windows                         update queue
//   z -= (V t) (V^H z)     window after window                    likewise
//
// A group needs little time for each of its many passes over z. So several groups wait for each
// other, and then all are applied to some columns before the next columns.
//
// Panels: the I - V t V^H of consecutive panels are merged,
//
//   (I - V1 t1 V1^H) (I - V2 t2 V2^H) = I - [V1 V2] [t1  -t1 V1^H V2 t2; 0  t2] [V1 V2]^H,
//
// the last of them applied first:
//
//   V of each panel -> all                                        transfer queue
//   z -= V (t (V^H z))                                            update queue
//
// or, as a backend wants it, z -= V ((z^H V) t^H)^H.

#include "dense/eigh/back_transform.hpp"

#include "dense/eigh/full_to_band.hpp"
#include "dense/eigh/wait_sites.hpp"
#include "dense/shared/multiply_adjoint.hpp"
#include "programs/message_ring.hpp"
#include "programs/step_flags.hpp"
#include "runtime/band_kernels.hpp"
#include "runtime/hermitian_kernels.hpp"

#include <algorithm>
#include <complex>
#include <utility>
#include <vector>

namespace shardsolve::dense::eigh {
namespace {

using runtime::Op;

/// Messages in memory: one being used, one arriving.
constexpr std::int64_t slots_of_reflectors = 2;

/// Rows of V and z that are multiplied at a time. Vectors of equal entries, multiplied with
/// reflectors of such, have sums of equal terms: 1000 equal ones, all rows at once, left vectors
/// orthogonal to 3200 u in the 1-norm and to 1100 u like this, where LAPACK's are to 450.
std::int64_t rows_of_vectors(std::int64_t rows) { return std::max<std::int64_t>(rows / 16, 64); }

template <Scalar T>
class ApplySweeps {
 public:
  ApplySweeps(mesh::Rank& rank, const SweepGroups& groups, MatrixView<T> reflectors,
              MatrixView<T> z)
      : rank_(rank),
        groups_(groups),
        reflectors_(reflectors),
        z_(z),
        kernels_(rank.kernels<T>()),
        band_kernels_(rank.kernels<runtime::BandKernels<T>>()),
        tuning_(band_kernels_.tuning(groups.chase)),
        flags_(rank),
        messages_(rank, slots_of_reflectors, column_rows() * groups.max_columns()) {
    const std::int64_t at_once = std::max<std::int64_t>(tuning_.sweeps / groups.size, 1);
    for (std::int64_t i = 0; i < std::min(at_once, groups.count()); ++i) {
      memory_.push_back({rank.workspace<T>(window_rows(groups.size) * groups.max_columns(), 1),
                         rank.workspace<T>(window_rows(groups.size) * groups.max_columns(), 1)});
    }
  }

  void run() {
    const std::int64_t groups = groups_.count();
    for (std::int64_t turn = 0; turn < groups && flags_.may_enqueue(turn); ++turn) {
      const std::int64_t group = groups - 1 - turn;
      rank_.set_step(group);
      rank_.report("apply sweeps", static_cast<double>(turn) / static_cast<double>(groups));
      send(turn, group);
      make_windows(turn, group);
      if (waiting_.size() == memory_.size() || group == 0) {
        apply();
      }
    }
    flags_.finish(groups);
    flags_.throw_if_cancelled();
    rank_.finish(rank_.update());
  }

 private:
  std::int64_t column_rows() const { return groups_.chase.bandwidth + 1; }
  std::int64_t window_rows(std::int64_t sweeps) const {
    return groups_.chase.bandwidth + sweeps - 1;
  }

  MatrixView<T> message(std::int64_t turn, std::int64_t group) const {
    return messages_.payload(turn, groups_.owner(group), 0, column_rows(), groups_.columns(group));
  }

  void send(std::int64_t turn, std::int64_t group) {
    const std::int64_t owner = groups_.owner(group);
    const bool owns = owner == rank_.index();
    messages_.await_done(turn, sites::sweeps_used);
    messages_.begin(turn, owns);
    if (owns) {
      messages_.stamp(rank_.transfer(), turn);
      kernels_.copy(rank_.transfer(),
                    reflectors_.columns_from(groups_.columns_before(group), groups_.columns(group)),
                    message(turn, group));
    }
    messages_.publish(turn, owner, column_rows() * groups_.columns(group));
    flags_.receive(turn, messages_.header(turn, owner));
    rank_.transfer().record(messages_.arrived(turn));
  }

  void make_windows(std::int64_t turn, std::int64_t index) {
    const runtime::SweepGroup group = groups_.group(index);
    const auto& [v_memory, vt_memory] = memory_[waiting_.size()];
    const std::int64_t rows = window_rows(group.count);
    const MatrixView<T> v(v_memory.data(), rows, groups_.columns(index));
    const MatrixView<T> vt(vt_memory.data(), rows, groups_.columns(index));
    rank_.update().wait(messages_.arrived(turn), sites::sweeps_arrived);
    band_kernels_.windows(rank_.update(), groups_.chase, group, message(turn, index), v, vt);
    rank_.update().record(messages_.done(turn));
    waiting_.push_back({group, v, vt});
  }

  /// All groups that have been waiting.
  void apply() {
    for (std::int64_t first = 0; first < z_.columns(); first += tuning_.columns) {
      const MatrixView<T> z =
          z_.columns_from(first, std::min(tuning_.columns, z_.columns() - first));
      band_kernels_.apply_windows(rank_.update(), groups_.chase, waiting_, z);
    }
    waiting_.clear();
  }

  mesh::Rank& rank_;
  const SweepGroups& groups_;
  MatrixView<T> reflectors_;
  MatrixView<T> z_;
  const runtime::Kernels<T>& kernels_;
  const runtime::BandKernels<T>& band_kernels_;
  const runtime::BandTuning tuning_;
  programs::StepFlags flags_;
  programs::MessageRing<T> messages_;
  std::vector<std::pair<MatrixView<T>, MatrixView<T>>> memory_;  // of windows, for some groups
  // Groups that are in it, in the order in which they are applied
  std::vector<runtime::SweepWindows<T>> waiting_;
};

template <Scalar T>
class ApplyPanels {
 public:
  ApplyPanels(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab, MatrixView<T> t,
              std::int64_t merged, MatrixView<T> z)
      : rank_(rank),
        layout_(layout),
        slab_(slab),
        t_of_panels_(t),
        merged_(merged),
        z_(z),
        kernels_(rank.kernels<T>()),
        twofold_(rank.kernels<runtime::HermitianKernels<T>>()),
        flags_(rank),
        messages_(rank, slots_of_reflectors, layout.size() * layout.tile()),
        v_(rank.workspace<T>(layout.size(), max_columns())),
        t_(rank.workspace<T>(max_columns(), max_columns())),
        overlap_(rank.workspace<T>(max_columns(), 2 * layout.tile())),
        overlap_t_(rank.workspace<T>(max_columns(), layout.tile())),
        tuning_(rank.kernels<runtime::BandKernels<T>>().tuning(
            {layout.size(), layout.tile(), is_complex<T>})),
        vz_(rank.workspace<T>(max_columns() * z.columns(), 1)),
        tvz_(rank.workspace<T>(max_columns() * z.columns(), 1)) {}

  void run() {
    const std::vector<Block> all = blocks();
    for (auto block = all.rbegin(); block != all.rend(); ++block) {
      columns_ = 0;
      for (Step step = block->begin; step < block->end; ++step) {
        if (!flags_.may_enqueue(turn_)) {
          flags_.throw_if_cancelled();
        }
        rank_.set_step(step.value());
        const Panel panel(layout_, step);
        send(step, panel);
        merge(step, panel);
        ++turn_;
      }
      apply(Panel(layout_, block->begin));
      rank_.report("apply panels", 1.0 - static_cast<double>(block->begin.value()) /
                                             static_cast<double>(layout_.steps()));
    }
    flags_.finish(turn_);
    flags_.throw_if_cancelled();
    rank_.finish(rank_.update());
  }

 private:
  /// Panels that are merged.
  struct Block {
    Step begin;
    Step end;
  };
  std::vector<Block> blocks() const {
    std::vector<Block> all;
    std::int64_t columns = 0;
    for (Step step(0); step.value() < layout_.steps(); ++step) {
      const std::int64_t more = Panel(layout_, step).reflectors;
      if (more == 0) {
        break;  // and so have all later ones
      }
      if (all.empty() || columns + more > merged_) {
        all.push_back({step, step});
        columns = 0;
      }
      all.back().end = step + 1;
      columns += more;
    }
    return all;
  }
  std::int64_t max_columns() const {
    return std::min(std::max(merged_, layout_.tile()), layout_.size());
  }
  /// The rows of a panel's reflectors.
  static MatrixView<T> part(MatrixView<T> a, const Panel& panel) {
    return a.block(panel.begin, 0, panel.rows, a.columns());
  }
  MatrixView<T> message(Step step, const Panel& panel) const {
    return messages_.payload(turn_, layout_.owner(step), 0, panel.rows, panel.reflectors);
  }

  void send(Step step, const Panel& panel) {
    const std::int64_t owner = layout_.owner(step);
    const bool owns = owner == rank_.index();
    messages_.await_done(turn_, sites::panel_merged);
    messages_.begin(turn_, owns);
    if (owns) {
      messages_.stamp(rank_.transfer(), turn_);
      const MatrixView<T> columns =
          slab_.columns_from(layout_.columns(step).begin.value(), panel.reflectors);
      kernels_.copy(rank_.transfer(), part(columns, panel), message(step, panel));
    }
    messages_.publish(turn_, owner, panel.rows * panel.reflectors);
    flags_.receive(turn_, messages_.header(turn_, owner));
    rank_.transfer().record(messages_.arrived(turn_));
  }

  /// V and t of the next panel behind those of the block's earlier ones.
  void merge(Step step, const Panel& panel) {
    runtime::Queue& queue = rank_.update();
    const std::int64_t k = panel.reflectors;
    const MatrixView<T> v1 = v_.columns_from(0, columns_);
    const MatrixView<T> v2 = v_.columns_from(columns_, k);
    kernels_.fill(queue, T{0}, v2);
    queue.wait(messages_.arrived(turn_), sites::panel_to_merge_arrived);
    kernels_.copy(queue, message(step, panel), part(v2, panel));
    queue.record(messages_.done(turn_));
    const MatrixView<T> t1 = t_.block(0, 0, columns_, columns_);
    const MatrixView<T> t2 = t_of_panels_.block(0, panel.first, k, k);
    kernels_.copy(queue, t2, t_.block(columns_, columns_, k, k));
    kernels_.fill(queue, T{0}, t_.block(columns_, 0, k, columns_));
    // t12 = -t1 (V1^H V2) t2
    if (columns_ > 0) {
      const MatrixView<T> sums = overlap_.block(0, 0, columns_, 2 * k);
      const MatrixView<T> overlap_t = overlap_t_.block(0, 0, columns_, k);
      multiply_adjoint(kernels_, twofold_, queue, tuning_.rows_at_once, part(v1, panel),
                       part(v2, panel), overlap_t, sums);
      kernels_.gemm(queue, Op::none, Op::none, T{1}, sums.columns_from(0, k), t2, T{0}, overlap_t);
      kernels_.gemm(queue, Op::none, Op::none, T{1}, sums.columns_from(k, k), t2, T{1}, overlap_t);
      kernels_.gemm(queue, Op::none, Op::none, T{-1}, t1, overlap_t, T{0},
                    t_.block(0, columns_, columns_, k));
    }
    columns_ += k;
  }

  /// z -= V (t (V^H z)) for the block that begins with `panel`.
  void apply(const Panel& panel) {
    runtime::Queue& queue = rank_.update();
    const MatrixView<T> v = part(v_.columns_from(0, columns_), panel);
    const MatrixView<T> z = part(z_, panel);
    const MatrixView<T> t = t_.block(0, 0, columns_, columns_);
    const bool tall = tuning_.tall_products;
    const std::int64_t rows = tall ? z_.columns() : columns_;
    const std::int64_t columns = tall ? columns_ : z_.columns();
    const MatrixView<T> vz(vz_.data(), rows, columns);
    const MatrixView<T> tvz(tvz_.data(), rows, columns);
    multiply_adjoint(kernels_, queue, rows_of_vectors(panel.rows), tall ? z : v, tall ? v : z, vz);
    if (tall) {
      kernels_.gemm(queue, Op::none, Op::conjugate_transpose, T{1}, vz, t, T{0}, tvz);
    } else {
      kernels_.gemm(queue, Op::none, Op::none, T{1}, t, vz, T{0}, tvz);
    }
    kernels_.gemm(queue, Op::none, tall ? Op::conjugate_transpose : Op::none, T{-1}, v, tvz, T{1},
                  z);
  }

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<T> slab_;
  MatrixView<T> t_of_panels_;
  std::int64_t merged_;
  MatrixView<T> z_;
  const runtime::Kernels<T>& kernels_;
  const runtime::HermitianKernels<T>& twofold_;
  programs::StepFlags flags_;
  programs::MessageRing<T> messages_;
  std::int64_t turn_ = 0;     // panels sent; messages are numbered by it
  std::int64_t columns_ = 0;  // of V in the block
  MatrixView<T> v_;           // of the block
  MatrixView<T> t_;
  MatrixView<T> overlap_;    // V1^H V2
  MatrixView<T> overlap_t_;  // V1^H V2 t2
  runtime::BandTuning tuning_;
  MatrixView<T> vz_;   // V^H z, or z^H V
  MatrixView<T> tvz_;  // t V^H z, or z^H V t^H
};

}  // namespace

template <Scalar T>
void apply_sweeps(mesh::Rank& rank, const SweepGroups& groups, MatrixView<T> reflectors,
                  MatrixView<T> z) {
  ApplySweeps<T>(rank, groups, reflectors, z).run();
}

template <Scalar T>
void apply_panels(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab, MatrixView<T> t,
                  std::int64_t merged, MatrixView<T> z) {
  ApplyPanels<T>(rank, layout, slab, t, merged, z).run();
}

#define SHARDSOLVE_INSTANTIATE(T)                                                            \
  template void apply_sweeps(mesh::Rank&, const SweepGroups&, MatrixView<T>, MatrixView<T>); \
  template void apply_panels(mesh::Rank&, const SlabLayout&, MatrixView<T>, MatrixView<T>,   \
                             std::int64_t, MatrixView<T>);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(std::complex<float>)
SHARDSOLVE_INSTANTIATE(std::complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::eigh
