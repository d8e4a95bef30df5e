// One step, with c the number of columns that were eliminated before, and [a1; a2] rows from c on:
//
//   P [a11; a21] = [l11; l21] u11    the panel, in place; P swaps        owner, panel queue
//                                    rows from c on
//   p = [l11; l21], P -> all ranks                                       transfer queue
//   [a12; a22] = P [a12; a22]        each rank its own columns           update queue
//   a12 = l11^-1 a12                 U's rows, in their final place
//   a22 -= l21 a12
//
// A panel lies in one slab, so its pivots are found without a message. What remains of a slab is
// one rectangle: rows from c on, whichever of A's they are, and the columns behind those that are
// eliminated.
//
// The column block of the next step is the exception: its owner's panel queue updates it and
// factors the next panel while the update queues of all ranks are busy with this step.
//
// Columns of L that are there already are not swapped in each step, but once at the end: by all
// swaps that came after them.

#include "dense/lu/factor.hpp"

#include "core/compensated_sum.hpp"
#include "core/each_dtype.hpp"
#include "dense/lu/row_order.hpp"
#include "dense/lu/wait_sites.hpp"
#include "programs/gather.hpp"
#include "programs/message_ring.hpp"
#include "programs/step_flags.hpp"
#include "runtime/lu_kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

namespace shardsolve::dense::lu {
namespace {

/// Elements of T that hold so many places, a whole number of cache lines.
template <Scalar T>
std::int64_t elements_of_places(std::int64_t places) {
  constexpr auto line = static_cast<std::int64_t>(sizeof(programs::StepHeader));
  const std::int64_t bytes = places * static_cast<std::int64_t>(sizeof(std::int64_t));
  return (bytes + line - 1) / line * line / static_cast<std::int64_t>(sizeof(T));
}

template <Scalar T>
class Factorisation {
 public:
  Factorisation(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab)
      : rank_(rank),
        layout_(layout),
        slab_(slab),
        kernels_(rank.kernels<runtime::LuKernels<T>>()),
        flags_(rank),
        panels_(rank, slots,
                elements_of_places<T>(layout.tile()) + (is_alone() ? 0 : largest_panel())),
        places_(rank.workspace<std::int64_t>(layout.size(), 1)),
        scratch_(
            rank.workspace<T>(kernels_.eliminate_scratch(
                                  layout.tile(), layout.size() - layout.tile(), slab.columns()),
                              1)),
        packed_(rank.event()),
        column_ready_{&rank.event(), &rank.event()} {}

  Factored<T> run() {
    panels_.begin(0, owns(Step(0)));
    for (Step step(0); step < end() && flags_.may_enqueue(step.value()); ++step) {
      rank_.set_step(step.value());
      report(step);
      if (owns(step)) {
        factor_panel(step);
      }
      // The next panel begins while this one is on its way. Its owner first waits for this one, or,
      // alone, for an update that came after the slot's last use: so by then its slot is free.
      panels_.await_done(step.value() + 1, sites::panel_used);
      panels_.begin(step.value() + 1, owns(step + 1));
      send_panel(step);
      update_trailing(step);
    }
    std::optional<RowExchanges> exchanges;
    if (is_alone()) {  // nobody waits for this one: it takes memory while the last steps are made
      exchanges.emplace(*this);
    }
    flags_.finish(layout_.steps());
    flags_.throw_if_cancelled();
    Factored<T> result;
    if (flags_.failed_step() >= 0) {
      result.outcome = overflow();
      return result;
    }
    const std::int64_t* const places =
        rank_.fetch_later(rank_.update(), places_.data(), layout_.size());
    const OfU u = fetch_u_later();  // beside the update queue, which puts L in order
    rank_.finish(rank_.update());
    order_.assign(places, places + layout_.size());
    order_rows_of_l(exchanges ? *exchanges : exchanges.emplace(*this));
    finish(u, result);
    return result;
  }

 private:
  /// Panels in memory: one being used, one arriving, one being made.
  static constexpr std::int64_t slots = 3;

  Step end() const { return Step(layout_.steps()); }
  bool owns(Step step) const { return step < end() && layout_.owner(step) == rank_.index(); }
  bool is_alone() const { return rank_.count() == 1; }
  std::int64_t width(Step step) const { return layout_.columns(step).size(); }
  /// Rows of the panel of a step.
  std::int64_t height(Step step) const { return layout_.size() - layout_.eliminated(step); }
  /// Elements of the largest panel. It need not be the first: a step may have less than a tile.
  std::int64_t largest_panel() const {
    std::int64_t largest = 0;
    for (Step step(0); step < end(); ++step) {
      largest = std::max(largest, height(step) * width(step));
    }
    return largest;
  }

  /// The panel of a step as it travels, behind its places. A rank that is alone sends none: there
  /// it is where it was made.
  MatrixView<T> panel(Step step) const {
    if (is_alone()) {
      return remaining(step, layout_.columns(step));
    }
    return panels_.payload(step.value(), layout_.owner(step), elements_of_places<T>(width(step)),
                           height(step), width(step));
  }
  std::int64_t* places(Step step) const {
    return reinterpret_cast<std::int64_t*>(
        panels_.payload(step.value(), layout_.owner(step), 0, 1, 1).data());
  }
  /// Columns of this rank, in the rows that are left before a step.
  MatrixView<T> remaining(Step step, LocalRange columns) const {
    return slab_.block(layout_.eliminated(step), columns.begin.value(), height(step),
                       columns.size());
  }

  void factor_panel(Step step) {
    if (step.value() >= 2) {
      rank_.panel().wait(*column_ready_[static_cast<std::size_t>(step.value() % 2)],
                         sites::next_column_ready);
    }
    if (step.value() >= 1) {
      // A rank alone has made that panel itself, in this queue.
      if (!is_alone()) {
        rank_.panel().wait(panels_.arrived(step.value() - 1), sites::next_column_arrived);
      }
      update(rank_.panel(), step - 1, layout_.columns(step));
    }
    // A rank alone reads its own headers: each slot's once, as nothing but a panel changes them.
    if (!is_alone() || step.value() < slots || rank_.stop_requested()) {
      panels_.stamp(rank_.panel(), step.value());
    }
    const MatrixView<T> column = remaining(step, layout_.columns(step));
    kernels_.panel(rank_.panel(), layout_.eliminated(step), column, places(step),
                   &panels_.header(step.value(), rank_.index())->pivot);
    if (!is_alone()) {
      rank_.kernels<T>().copy(rank_.panel(), column, panel(step));
    }
    rank_.panel().record(packed_);
  }

  void send_panel(Step step) {
    const std::int64_t owner = layout_.owner(step);
    if (owns(step)) {
      rank_.transfer().wait(packed_, sites::panel_packed);
    }
    panels_.publish(
        step.value(), owner,
        elements_of_places<T>(width(step)) + (is_alone() ? 0 : height(step) * width(step)));
    rank_.transfer().copy(places_.data() + layout_.eliminated(step), places(step),
                          static_cast<std::size_t>(width(step)) * sizeof(std::int64_t));
    flags_.receive(step.value(), panels_.header(step.value(), owner));
    rank_.transfer().record(panels_.arrived(step.value()));
  }

  /// All columns that this rank still has but those of the next step; first those that its next
  /// panel needs.
  void update_trailing(Step step) {
    const Step first = layout_.next_owned(rank_.index(), step + 2);
    if (!(first < end())) {
      return;
    }
    const LocalRange next = layout_.columns(first);
    rank_.update().wait(panels_.arrived(step.value()), sites::trailing_arrived);
    update(rank_.update(), step, next);
    rank_.update().record(*column_ready_[static_cast<std::size_t>(step.value() % 2)]);
    update(rank_.update(), step, {next.end, LocalIndex(slab_.columns())}, scratch_);
    rank_.update().record(panels_.done(step.value()));
  }

  /// [a12; a22] = P [a12; a22], a12 = l11^-1 a12, a22 -= l21 a12 in some columns.
  void update(runtime::Queue& queue, Step step, LocalRange columns, MatrixView<T> scratch = {}) {
    const MatrixView<T> a = remaining(step, columns);
    kernels_.swap_rows(queue, layout_.eliminated(step), places(step), width(step), a);
    kernels_.eliminate(queue, panel(step), a, scratch);
  }

  /// Exchanges of the rows below own panels: some at a time, as copies of few numbers to a GPU take
  /// longer than to move the rows.
  class RowExchanges {
   public:
    explicit RowExchanges(Factorisation& of)
        : of_(of),
          there_(of.rank_.host_workspace<std::int64_t>(batches * most())),
          here_(of.rank_.workspace<std::int64_t>(most(), 1)),
          ordered_(of.rank_.workspace<T>(of.largest_own_part(), 1)) {}

    /// `from`: where each row below the panel comes from.
    void add(Step step, std::span<const std::int64_t> from) {
      if (from.empty()) {
        return;
      }
      if (steps_.size() == at_once) {
        enqueue();
      }
      const std::int64_t first = of_.layout_.eliminated(step + 1);
      std::transform(from.begin(), from.end(), there_ + sent_ % batches * most() + used_,
                     [first](std::int64_t row) { return row - first; });
      steps_.push_back(step);
      used_ += std::ssize(from);
    }
    void enqueue() {
      if (steps_.empty()) {
        return;
      }
      runtime::Queue& queue = of_.rank_.update();
      queue.copy(here_.data(), there_ + sent_ % batches * most(),
                 static_cast<std::size_t>(used_) * sizeof(std::int64_t));
      std::int64_t begin = 0;
      for (const Step step : steps_) {
        const std::int64_t first = of_.layout_.eliminated(step + 1);
        const LocalRange columns = of_.layout_.columns(step);
        const std::int64_t count = of_.layout_.size() - first;
        of_.kernels_.order_rows(
            queue, here_.data() + begin,
            of_.slab_.block(first, columns.begin.value(), count, columns.size()),
            MatrixView<T>(ordered_.data(), count, columns.size()));
        begin += count;
      }
      steps_.clear();
      used_ = 0;
      ++sent_;
      if (sent_ % batches == 0) {
        of_.rank_.finish(queue);  // the rows of before may go
      }
    }

   private:
    static constexpr std::size_t at_once = 8;
    static constexpr std::int64_t batches = 4;
    std::int64_t most() const { return static_cast<std::int64_t>(at_once) * of_.layout_.size(); }

    Factorisation& of_;
    std::int64_t* there_;  // on the host, of some batches
    MatrixView<std::int64_t> here_;
    MatrixView<T> ordered_;  // a part of L
    std::vector<Step> steps_;
    std::int64_t used_ = 0;
    std::int64_t sent_ = 0;
  };

  /// The loop is over, and nothing of it is left to do on this rank. Below each panel of this rank
  /// all swaps that came after it are one exchange of rows.
  void order_rows_of_l(RowExchanges& exchanges) {
    rank_.report("order", 0.0);
    // Row i ends with what is in row from[i] before these swaps, and what is in row i comes to
    // to[i].
    std::vector<std::int64_t> from(static_cast<std::size_t>(layout_.size()));
    std::iota(from.begin(), from.end(), 0);
    std::vector<std::int64_t> to = from;
    for (std::int64_t turn = layout_.steps(); turn-- > 0;) {
      const Step step(turn);
      const std::int64_t first = layout_.eliminated(step);
      const std::int64_t below = layout_.eliminated(step + 1);
      if (owns(step)) {
        exchanges.add(step, std::span(from).subspan(at(below)));
      }
      for (std::int64_t i = below; i-- > first;) {  // one swap more comes before these
        const std::size_t other = at(order_[at(i)]);
        std::swap(from[at(to[at(i)])], from[at(to[other])]);
        std::swap(to[at(i)], to[other]);
      }
    }
    exchanges.enqueue();
  }
  /// work(first step, their columns) for own steps that follow each other, together.
  template <class Work>
  void each_run_of_own_steps(const Work& work) const {
    for (Step first = layout_.next_owned(rank_.index(), Step(0)); first < end();) {
      Step next = first + 1;
      while (owns(next)) {
        next = next + 1;
      }
      work(first, LocalRange{layout_.columns(first).begin, layout_.columns(next - 1).end});
      first = layout_.next_owned(rank_.index(), next);
    }
  }
  /// Elements of the largest part of L below a panel of this rank.
  std::int64_t largest_own_part() const {
    std::int64_t largest = 0;
    for (Step step = layout_.next_owned(rank_.index(), Step(0)); step < end();
         step = layout_.next_owned(rank_.index(), step + 1)) {
      largest = std::max(largest, (height(step) - width(step)) * width(step));
    }
    return largest;
  }
  static std::size_t at(std::int64_t row) { return static_cast<std::size_t>(row); }

  /// What the host is to know of U, when the panel queue has made the copies.
  struct OfU {
    const T* diagonal;      // of own columns
    const double* largest;  // numbers of them
  };

  OfU fetch_u_later() {
    const MatrixView<T> diagonal = rank_.workspace<T>(slab_.columns(), 1);
    const MatrixView<double> largest = rank_.workspace<double>(slab_.columns(), 1);
    each_run_of_own_steps([&](Step first, LocalRange columns) {
      const std::int64_t begin = columns.begin.value();
      const MatrixView<T> a = slab_.columns_from(begin, columns.size());
      kernels_.upper_max(rank_.panel(), layout_.eliminated(first), a, largest.data() + begin);
      rank_.kernels<T>().copy(
          rank_.panel(),
          MatrixView<const T>(a.data() + layout_.eliminated(first), 1, a.columns(), a.stride() + 1),
          MatrixView<T>(diagonal.data() + begin, 1, a.columns()));
    });
    return {rank_.fetch_later(rank_.panel(), diagonal.data(), slab_.columns()),
            rank_.fetch_later(rank_.panel(), largest.data(), slab_.columns())};
  }

  void finish(const OfU& u, Factored<T>& result) {
    const std::int64_t own = slab_.columns();
    rank_.finish(rank_.panel());
    const std::vector<T> diagonal =
        programs::gather_rows(rank_, layout_, std::vector<T>(u.diagonal, u.diagonal + own));
    const double mine = std::accumulate(u.largest, u.largest + own, 0.0, programs::largest);
    result.largest = programs::largest_of_all(rank_, mine);
    if (!std::isfinite(result.largest)) {
      result.outcome.status = Status::overflow;
      return;
    }
    result.rows.resize(order_.size());
    std::iota(result.rows.begin(), result.rows.end(), 0);
    bool odd = is_odd_order();
    for (std::size_t place = 0; place < order_.size(); ++place) {
      const std::size_t other = at(order_[place]);
      std::swap(result.rows[place], result.rows[other]);
      odd = odd != (place != other);
    }
    take_determinant(diagonal, odd, result);
  }

  /// Whether the elimination order is an odd permutation: a cycle of k is k - 1 swaps.
  bool is_odd_order() const {
    const std::vector<std::int64_t> order = elimination_order(layout_);
    std::vector<bool> seen(order.size());
    bool odd = false;
    for (std::size_t first = 0; first < order.size(); ++first) {
      for (std::size_t i = first; !seen[i];) {
        seen[i] = true;
        i = at(order[i]);
        odd = odd != (i != first);
      }
    }
    return odd;
  }

  void take_determinant(const std::vector<T>& diagonal, bool odd, Factored<T>& result) const {
    using Real = RealOf<T>;
    std::int64_t zero = layout_.size();
    core::CompensatedSum log;
    std::complex<double> sign = odd ? -1.0 : 1.0;
    for (std::size_t j = 0; j < diagonal.size(); ++j) {
      const std::complex<double> pivot = diagonal[j];
      if (pivot == 0.0) {
        zero = std::min(zero, layout_.position(GlobalIndex(static_cast<std::int64_t>(j))).value());
        continue;
      }
      const double size = std::abs(pivot);
      log.add(std::log(size));
      sign *= pivot / size;
    }
    if (zero < layout_.size()) {
      result.sign = T{0};
      result.log = -std::numeric_limits<double>::infinity();
      result.outcome.status = Status::singular;
      result.outcome.location = Location::pivot(layout_.row_at(Position(zero)), zero);
      return;
    }
    result.log = log.value();
    if constexpr (is_complex<T>) {
      const std::complex<double> one = sign / std::abs(sign);  // what rounding has made of it
      result.sign = T(static_cast<Real>(one.real()), static_cast<Real>(one.imag()));
    } else {
      result.sign = sign.real() < 0.0 ? T{-1} : T{1};
    }
  }

  /// The input was finite: for a pivot that is not a number something has left the range.
  Outcome overflow() const {
    const Step step(flags_.failed_step());
    const std::int64_t column = std::abs(flags_.pivot()) - 1;
    Outcome outcome;
    outcome.status = Status::overflow;
    outcome.location =
        Location::pivot(layout_.rows(step).begin + column, layout_.eliminated(step) + column);
    return outcome;
  }

  void report(Step step) {
    const double left =
        1.0 - static_cast<double>(layout_.eliminated(step)) / static_cast<double>(layout_.size());
    rank_.report("factor", 1.0 - left * left * left);
  }

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<T> slab_;
  const runtime::LuKernels<T>& kernels_;
  programs::StepFlags flags_;
  programs::MessageRing<T> panels_;
  MatrixView<std::int64_t> places_;  // of all steps
  MatrixView<T> scratch_;            // of updates
  std::vector<std::int64_t> order_;  // the same, on the host
  runtime::Event& packed_;           // the owner's panel is ready to be sent
  // The next own column block has all its updates but the last. Two events, for even and odd steps:
  // the update queue may have gone one step further.
  std::array<runtime::Event*, 2> column_ready_;
};

}  // namespace

template <Scalar T>
Factored<T> factor(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab) {
  return Factorisation<T>(rank, layout, slab).run();
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template Factored<T> factor(mesh::Rank&, const SlabLayout&, MatrixView<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::lu
