// One step, with c the number of columns that were eliminated before, and [a1; a2] rows from c on:
//
//   [a11; a21] = Q [r11; 0]          the panel; Q = I - V t V^H          owner, panel queue
//   V, t -> all ranks                                                    transfer queue
//   [a12; a22] -= V (t^H (V^H [a12; a22]))   each rank its own columns   update queue
//
// so a12 is R's. What remains of a rank's columns is one rectangle: rows from c on, and the columns
// behind those that are eliminated. A panel lies on one rank, which needs no message for it.
//
// The column block of the next step is the exception: its owner's panel queue updates it and
// factors the next panel while the update queues of all ranks are busy with this step.
//
// Then Q, from the last step to the first, where V was:
//
//   V, t -> all ranks                                                    transfer queue
//   [q12; q22] -= V (t (V^H [q12; q22]))     columns behind the panel    update queue
//   [q11; q21]  = (I - V t V^H) [d; 0]       those of the panel, owner
//
// where d is diagonal, 1 or -1, and makes R's diagonal positive: Q d and d R are the pair. (LAPACK:
// geqrf, orgqr; R. Schreiber, C. Van Loan, SIAM J. Sci. Stat. Comput. 10 (1989) 53.)

#include "dense/qr/householder.hpp"

#include "core/each_dtype.hpp"
#include "dense/qr/wait_sites.hpp"
#include "dense/shared/multiply_adjoint.hpp"
#include "programs/bytes_of.hpp"
#include "programs/gather.hpp"
#include "programs/message_ring.hpp"
#include "programs/step_flags.hpp"
#include "runtime/band_kernels.hpp"
#include "runtime/hermitian_kernels.hpp"
#include "runtime/qr_kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <utility>

namespace shardsolve::dense::qr {
namespace {

using runtime::Op;

/// Rows of V and a whose product is summed up in working precision: terms that are equal, as those
/// of columns of ones are, make errors that grow with their number. Beyond that sums are of twice
/// the precision; of 75 x 70 ones 13 u were left in a column without.
std::int64_t rows_at_once(std::int64_t rows) {
  constexpr std::int64_t many = 512;  // where LAPACK, too, works in blocks; products cost less
  return std::max<std::int64_t>(rows < many ? rows / 16 : rows / 4, 8);
}

/// Columns that are factored at a time: a panel is made of such, one after the other, so that the
/// products of a step, of as many columns as a panel has, do not wait for memory.
constexpr std::int64_t columns_at_once = 64;

/// Panels in memory while they are made: one being used, one arriving, one being made.
constexpr std::int64_t slots_of_panels = 3;
/// While Q is formed: one being used, one arriving.
constexpr std::int64_t slots_of_reflectors = 2;

/// Elements of the largest message: V of all rows, and t.
std::int64_t largest_message(const SlabLayout& rows, const SlabLayout& columns) {
  return (rows.size() + columns.tile()) * columns.tile();
}

/// V and t of a step as they travel.
template <Scalar T>
struct Reflectors {
  MatrixView<T> v;
  MatrixView<T> t;
};

template <Scalar T>
Reflectors<T> reflectors_in(const programs::MessageRing<T>& messages, std::int64_t turn,
                            std::int64_t owner, std::int64_t rows, std::int64_t columns) {
  return {messages.payload(turn, owner, 0, rows, columns),
          messages.payload(turn, owner, rows * columns, columns, columns)};
}

/// a -= V op(t) V^H a; `products` is room for three times as many rows of a as V has columns.
template <Scalar T>
void apply(mesh::Rank& rank, runtime::Queue& queue, const Reflectors<T>& reflectors, Op op,
           MatrixView<T> products, MatrixView<T> a) {
  if (a.empty()) {
    return;
  }
  const runtime::Kernels<T>& kernels = rank.kernels<T>();
  const auto& [v, t] = reflectors;
  const std::int64_t columns = a.columns();
  const MatrixView<T> sums(products.data(), t.rows(), 2 * columns);
  const MatrixView<T> tva(products.data() + 2 * t.rows() * columns, t.rows(), columns);
  multiply_adjoint<T>(kernels, rank.kernels<runtime::HermitianKernels<T>>(), queue,
                      rows_at_once(a.rows()), v, a, tva, sums);
  kernels.gemm(queue, op, Op::none, T{1}, t, sums.columns_from(0, columns), T{0}, tva);
  kernels.gemm(queue, op, Op::none, T{1}, t, sums.columns_from(columns, columns), T{1}, tva);
  kernels.gemm(queue, Op::none, Op::none, T{-1}, v, tva, T{1}, a);
}

}  // namespace

/// All steps, from the first to the last.
template <Scalar T>
class Householder<T>::Reduction {
 public:
  explicit Reduction(Householder& all)
      : all_(all),
        rank_(all.rank_),
        columns_(all.columns_),
        band_kernels_(rank_.kernels<runtime::BandKernels<T>>()),
        flags_(rank_),
        panels_(rank_, slots_of_panels, largest_message(all.rows_, columns_)),
        products_(rank_.workspace<T>(3 * columns_.tile() * columns_.tile(), 1)),
        scratch_(rank_.workspace<std::byte>(
            band_kernels_.scratch(std::min(columns_.tile(), columns_at_once)), 1)),
        packed_(rank_.event()),
        column_ready_{&rank_.event(), &rank_.event()} {}

  void run() {
    panels_.begin(0, owns(Step(0)));
    for (Step step(0); step < all_.end() && flags_.may_enqueue(step.value()); ++step) {
      rank_.set_step(step.value());
      rank_.report("factor",
                   static_cast<double>(step.value()) / static_cast<double>(columns_.steps()));
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
    flags_.finish(columns_.steps());
    flags_.throw_if_cancelled();
    rank_.finish(rank_.panel());
    rank_.finish(rank_.update());
  }

 private:
  bool owns(Step step) const { return step < all_.end() && columns_.owner(step) == rank_.index(); }
  std::int64_t height(Step step) const { return all_.rows_.size() - all_.before(step); }
  Reflectors<T> reflectors(Step step) const {
    return reflectors_in(panels_, step.value(), columns_.owner(step), height(step),
                         all_.width(step));
  }

  void factor_panel(Step step) {
    runtime::Queue& queue = rank_.panel();
    if (step.value() >= 2) {
      queue.wait(*column_ready_[static_cast<std::size_t>(step.value() % 2)],
                 sites::next_column_ready);
    }
    const MatrixView<T> column = all_.remaining(step, columns_.columns(step));
    if (step.value() >= 1) {
      // A rank alone has made that panel itself, in this queue.
      if (rank_.count() > 1) {
        queue.wait(panels_.arrived(step.value() - 1), sites::next_column_arrived);
      }
      apply(rank_, queue, reflectors(step - 1), Op::conjugate_transpose, products_,
            all_.remaining(step - 1, columns_.columns(step)));
    }
    panels_.stamp(queue, step.value());
    const Reflectors<T> made = reflectors(step);
    factor_columns(column, all_.square(all_.r_, step), made.t);
    all_.kernels_.copy(queue, column, made.v);
    all_.kernels_.copy(queue, made.t, all_.square(all_.t_, step));
    queue.record(packed_);
  }

  /// panel_qr() of all columns of a panel.
  void factor_columns(MatrixView<T> a, MatrixView<T> r, MatrixView<T> t) {
    runtime::Queue& queue = rank_.panel();
    const std::int64_t columns = a.columns();
    if (columns > columns_at_once) {
      all_.kernels_.fill(queue, T{0}, r);
      all_.kernels_.fill(queue, T{0}, t);
    }
    for (std::int64_t begin = 0; begin < columns; begin += columns_at_once) {
      const std::int64_t width = std::min(columns_at_once, columns - begin);
      const std::int64_t end = begin + width;
      const std::int64_t rows = a.rows() - begin;
      const Reflectors<T> some{a.block(begin, begin, rows, width),
                               t.block(begin, begin, width, width)};
      band_kernels_.panel_qr(queue, some.v, r.block(begin, begin, width, width), some.t,
                             scratch_.data());
      const MatrixView<T> behind = a.block(begin, end, rows, columns - end);
      apply(rank_, queue, some, Op::conjugate_transpose, products_, behind);
      // Their rows are R's, and V has zeros there.
      const MatrixView<T> above = behind.block(0, 0, width, behind.columns());
      all_.kernels_.copy(queue, above, r.block(begin, end, width, above.columns()));
      all_.kernels_.fill(queue, T{0}, above);
      join(a.block(begin, 0, rows, begin), some, t);
    }
  }

  /// I - [V0 V] [t0 x; 0 t] [V0 V]^H is the product of both: x = -t0 (V0^H V) t, which is all
  /// that t lacks. `before`: rows of V0 where V has its own.
  void join(MatrixView<const T> before, const Reflectors<T>& some, MatrixView<T> t) {
    const std::int64_t begin = before.columns();
    if (begin == 0) {
      return;
    }
    runtime::Queue& queue = rank_.panel();
    const runtime::Kernels<T>& kernels = all_.kernels_;
    const std::int64_t width = some.t.columns();
    const MatrixView<T> sums(products_.data(), begin, 2 * width);
    const MatrixView<T> part(products_.data() + 2 * begin * width, begin, width);
    const MatrixView<T> x = t.block(0, begin, begin, width);
    multiply_adjoint<T>(kernels, rank_.kernels<runtime::HermitianKernels<T>>(), queue,
                        rows_at_once(some.v.rows()), before, some.v, part, sums);
    for (const std::int64_t half : {0, 1}) {
      kernels.gemm(queue, Op::none, Op::none, T{1}, sums.columns_from(half * width, width), some.t,
                   half == 0 ? T{0} : T{1}, part);
    }
    kernels.gemm(queue, Op::none, Op::none, T{-1}, t.block(0, 0, begin, begin), part, T{0}, x);
  }

  void send_panel(Step step) {
    const std::int64_t owner = columns_.owner(step);
    if (owns(step)) {
      rank_.transfer().wait(packed_, sites::panel_packed);
    }
    panels_.publish(step.value(), owner, (height(step) + all_.width(step)) * all_.width(step));
    flags_.receive(step.value(), panels_.header(step.value(), owner));
    rank_.transfer().record(panels_.arrived(step.value()));
  }

  /// All columns that this rank still has but those of the next step; first those that its next
  /// panel needs.
  void update_trailing(Step step) {
    const Step first = all_.next_own(step + 2);
    if (!(first < all_.end())) {
      return;
    }
    const LocalRange next = columns_.columns(first);
    rank_.update().wait(panels_.arrived(step.value()), sites::trailing_arrived);
    update(step, next);
    rank_.update().record(*column_ready_[static_cast<std::size_t>(step.value() % 2)]);
    update(step, {next.end, LocalIndex(all_.slab_.columns())});
    rank_.update().record(panels_.done(step.value()));
  }
  void update(Step step, LocalRange columns) {
    apply(rank_, rank_.update(), reflectors(step), Op::conjugate_transpose, all_.products_,
          all_.remaining(step, columns));
  }

  Householder& all_;
  mesh::Rank& rank_;
  const SlabLayout& columns_;
  const runtime::BandKernels<T>& band_kernels_;
  programs::StepFlags flags_;
  programs::MessageRing<T> panels_;
  MatrixView<T> products_;  // of the panel queue
  MatrixView<std::byte> scratch_;
  runtime::Event& packed_;  // the owner's panel is ready to be sent
  // The next own column block has all its updates but the last. Two events, for even and odd steps:
  // the update queue may have gone one step further.
  std::array<runtime::Event*, 2> column_ready_;
};

/// Q in place of its reflectors, from the last step to the first.
template <Scalar T>
class Householder<T>::Formation {
 public:
  explicit Formation(Householder& all)
      : all_(all),
        rank_(all.rank_),
        columns_(all.columns_),
        flags_(rank_),
        messages_(rank_, slots_of_reflectors, largest_message(all.rows_, columns_)) {}

  void run() {
    const std::int64_t steps = columns_.steps();
    for (std::int64_t turn = 0; turn < steps && flags_.may_enqueue(turn); ++turn) {
      const Step step(steps - 1 - turn);
      rank_.set_step(step.value());
      rank_.report("form Q", static_cast<double>(turn) / static_cast<double>(steps));
      send(turn, step);
      multiply(turn, step);
    }
    flags_.finish(steps);
    flags_.throw_if_cancelled();
    rank_.finish(rank_.update());
  }

 private:
  bool owns(Step step) const { return columns_.owner(step) == rank_.index(); }
  std::int64_t height(Step step) const { return all_.rows_.size() - all_.before(step); }
  Reflectors<T> reflectors(std::int64_t turn, Step step) const {
    return reflectors_in(messages_, turn, columns_.owner(step), height(step), all_.width(step));
  }

  void send(std::int64_t turn, Step step) {
    const std::int64_t owner = columns_.owner(step);
    messages_.await_done(turn, sites::reflectors_used);
    messages_.begin(turn, owns(step));
    if (owns(step)) {
      messages_.stamp(rank_.transfer(), turn);
      const Reflectors<T> sent = reflectors(turn, step);
      all_.kernels_.copy(rank_.transfer(), all_.remaining(step, columns_.columns(step)), sent.v);
      all_.kernels_.copy(rank_.transfer(), all_.square(all_.t_, step), sent.t);
    }
    messages_.publish(turn, owner, (height(step) + all_.width(step)) * all_.width(step));
    flags_.receive(turn, messages_.header(turn, owner));
    rank_.transfer().record(messages_.arrived(turn));
  }

  void multiply(std::int64_t turn, Step step) {
    runtime::Queue& queue = rank_.update();
    queue.wait(messages_.arrived(turn), sites::reflectors_arrived);
    const Reflectors<T> here = reflectors(turn, step);
    apply(rank_, queue, here, Op::none, all_.products_,
          all_.remaining(step, all_.columns_from(step + 1)));
    if (owns(step)) {
      start_columns(step, here);
    }
    queue.record(messages_.done(turn));
  }

  /// (I - V t V^H) [d; 0]
  void start_columns(Step step, const Reflectors<T>& here) {
    runtime::Queue& queue = rank_.update();
    const LocalRange columns = columns_.columns(step);
    const std::int64_t count = columns.size();
    const MatrixView<T> q = all_.remaining(step, columns);
    const MatrixView<T> d = all_.turns_.block(0, all_.before(step), count, count);
    const MatrixView<T> vd(all_.products_.data(), count, count);
    const MatrixView<T> tvd(all_.products_.data() + count * count, count, count);
    all_.kernels_.fill(queue, T{0}, all_.slab_.columns_from(columns.begin.value(), count));
    all_.kernels_.copy(queue, d, q.block(0, 0, count, count));
    all_.kernels_.gemm(queue, Op::conjugate_transpose, Op::none, T{1},
                       here.v.block(0, 0, count, count), d, T{0}, vd);
    all_.kernels_.gemm(queue, Op::none, Op::none, T{1}, here.t, vd, T{0}, tvd);
    all_.kernels_.gemm(queue, Op::none, Op::none, T{-1}, here.v, tvd, T{1}, q);
  }

  Householder& all_;
  mesh::Rank& rank_;
  const SlabLayout& columns_;
  programs::StepFlags flags_;
  programs::MessageRing<T> messages_;
};

template <Scalar T>
Householder<T>::Householder(mesh::Rank& rank, const SlabLayout& rows, std::int64_t columns)
    : rank_(rank),
      kernels_(rank.kernels<T>()),
      rows_(rows),
      columns_(deal_columns(columns, rank.count(), tile_of_columns(columns, rank.count()))),
      dealer_(rank, rows_, columns_),
      slab_(rank.workspace<T>(rows.size(), columns_.width(rank.index()))),
      r_(rank.workspace<T>(columns_.tile(), slab_.columns())),
      t_(rank.workspace<T>(columns_.tile(), slab_.columns())),
      turns_(rank.workspace<T>(columns_.tile(), columns)),
      products_(rank.workspace<T>(3 * columns_.tile() * slab_.columns(), 1)),
      made_(rank.workspace<T>(rows.size(), columns_.tile())),
      most_(rank.workspace<double>(slab_.columns(), 1)) {}

template <Scalar T>
std::int64_t Householder<T>::bytes(const SlabLayout& rows, std::int64_t columns) {
  const SlabLayout dealt =
      deal_columns(columns, rows.ranks(), tile_of_columns(columns, rows.ranks()));
  const std::int64_t tile = dealt.tile();
  const std::int64_t messages = slots_of_panels + slots_of_reflectors;
  // What makes the panels, and R on its way to the host, beside what lies in the class.
  const std::int64_t elements = Dealer<T>::elements(rows, dealt) +
                                (rows.size() + 5 * tile) * dealt.max_width() + tile * columns +
                                rows.size() * tile + messages * largest_message(rows, dealt) +
                                4 * tile * tile + columns * tile * rows.ranks();
  const std::int64_t numbers =
      8 * (3 * dealt.max_width() + 2 * columns) + 8 * dealt.max_width() * (rows.ranks() + 2);
  return elements * static_cast<std::int64_t>(sizeof(T)) + numbers + 4096 * messages;
}

template <Scalar T>
LocalRange Householder<T>::columns_from(Step step) const {
  return {columns_.eliminated(rank_.index(), step), LocalIndex(slab_.columns())};
}

template <Scalar T>
MatrixView<T> Householder<T>::remaining(Step step, LocalRange columns) const {
  const std::int64_t row = before(step);
  return slab_.block(row, columns.begin.value(), rows_.size() - row, columns.size());
}

template <Scalar T>
MatrixView<T> Householder<T>::square(MatrixView<T> squares, Step step) const {
  const LocalRange columns = columns_.columns(step);
  return squares.block(0, columns.begin.value(), columns.size(), columns.size());
}

template <Scalar T>
void Householder<T>::factor(MatrixView<const T> a, const std::vector<std::int64_t>& exponents) {
  const auto n = static_cast<std::int64_t>(exponents.size());
  std::vector<std::int64_t> back(exponents);
  std::for_each(back.begin(), back.end(), [](std::int64_t& one) { one = -one; });
  exponents_ = rank_.upload(rank_.update(), back.data(), n);
  dealer_.to_columns(a, rank_.upload(rank_.update(), exponents.data(), n), slab_);
  measure();
  Reduction(*this).run();
  turn_rows();
}

template <Scalar T>
void Householder<T>::measure() {
  const MatrixView<double> sizes = rank_.workspace<double>(2, slab_.columns());
  rank_.kernels<runtime::QrKernels<T>>().column_sizes(rank_.update(), slab_, sizes.data());
  const std::vector<double> of_columns =
      rank_.fetch(rank_.update(), sizes.data(), 2 * slab_.columns());
  double sum = 0.0;
  for (std::size_t at = 0; at < of_columns.size(); at += 2) {
    sum += of_columns[at] * of_columns[at] * of_columns[at + 1];
  }
  norm_ = std::sqrt(programs::sum_of_all(rank_, sum));
}

template <Scalar T>
void Householder<T>::turn_rows() {
  using Real = RealOf<T>;
  const std::int64_t most = columns_.max_width();
  const MatrixView<Real> diagonal = rank_.workspace<Real>(most, 1);
  for (Step step = next_own(Step(0)); step < end(); step = next_own(step + 1)) {
    kernels_.diagonal(rank_.update(), square(r_, step),
                      diagonal.data() + columns_.columns(step).begin.value());
  }
  std::vector<Real> own = rank_.fetch(rank_.update(), diagonal.data(), slab_.columns());
  own.resize(static_cast<std::size_t>(most));
  const auto of_ranks = programs::gather_from_all(rank_, own);

  const std::int64_t tile = columns_.tile();
  std::vector<T> turns(static_cast<std::size_t>(tile * turns_.columns()));
  for (Step step(0); step < end(); ++step) {
    for (std::int64_t j = 0; j < width(step); ++j) {
      const LocalIndex column = columns_.columns(step).begin + j;
      const Real entry = of_ranks[static_cast<std::size_t>(columns_.owner(step))]
                                 [static_cast<std::size_t>(column.value())];
      turns[static_cast<std::size_t>(j + (before(step) + j) * tile)] =
          std::signbit(entry) ? T{-1} : T{1};
    }
  }
  rank_.update().copy(turns_.data(), turns.data(), turns.size() * sizeof(T));
  rank_.update().synchronize();  // from here on `turns` may go

  const auto turn = [&](MatrixView<T> d, MatrixView<T> rows) {
    const MatrixView<T> before(products_.data(), rows.rows(), rows.columns());
    kernels_.copy(rank_.update(), rows, before);
    kernels_.gemm(rank_.update(), Op::none, Op::none, T{1}, d, before, T{0}, rows);
  };
  for (Step step(0); step < end(); ++step) {
    const MatrixView<T> d = turns_.block(0, before(step), width(step), width(step));
    if (columns_.owner(step) == rank_.index()) {
      turn(d, square(r_, step));
    }
    const LocalRange behind = columns_from(step + 1);
    turn(d, slab_.block(before(step), behind.begin.value(), width(step), behind.size()));
  }
}

template <Scalar T>
void Householder<T>::multiply_r(MatrixView<const T> g, MatrixView<T> part) {
  kernels_.fill(rank_.update(), T{0}, part);
  const auto add = [&](MatrixView<T> r, Step step, std::int64_t row) {
    if (r.empty()) {
      return;
    }
    kernels_.gemm(rank_.update(), Op::none, Op::none, T{1}, r,
                  g.block(before(step), 0, width(step), g.columns()), T{1},
                  part.block(row, 0, r.rows(), part.columns()));
  };
  for (Step step = next_own(Step(0)); step < end(); step = next_own(step + 1)) {
    add(slab_.block(0, columns_.columns(step).begin.value(), before(step), width(step)), step, 0);
    add(square(r_, step), step, before(step));
  }
}

template <Scalar T>
MatrixView<const T> Householder<T>::r_columns(Step step, std::int64_t rows) {
  const std::int64_t column = columns_.columns(step).begin.value();
  const std::int64_t above = before(step);
  const MatrixView<T> made = made_.block(0, 0, rows, width(step));
  kernels_.fill(rank_.update(), T{0}, made);
  kernels_.copy(rank_.update(), slab_.block(0, column, above, width(step)),
                made.block(0, 0, above, width(step)));
  kernels_.copy(rank_.update(), square(r_, step), made.block(above, 0, width(step), width(step)));
  rank_.kernels<runtime::QrKernels<T>>().scale_columns(rank_.update(), made, exponents_ + above,
                                                       made);
  kernels_.column_max(rank_.update(), made, most_.data() + column);
  return made;
}

template <Scalar T>
bool Householder<T>::r_is_finite() {
  double most = 0.0;
  for (const double one : rank_.fetch(rank_.update(), most_.data(), slab_.columns())) {
    most = programs::largest(most, one);
  }
  return std::isfinite(programs::largest_of_all(rank_, most));
}

template <Scalar T>
void Householder<T>::r_to_rows(MatrixView<T> rows) {
  dealer_.to_rows([this](Step step) { return r_columns(step, rows_.size()); }, rows);
}

template <Scalar T>
std::vector<T> Householder<T>::r_to_host() {
  const std::int64_t n = turns_.columns();
  const std::int64_t ranks = rank_.count();
  const MatrixView<T> table = rank_.workspace<T>(n, columns_.tile() * ranks);
  std::vector<T> r;
  for (Step first(0); first < end(); first = first + ranks) {
    std::vector<comm::Bytes> pieces(static_cast<std::size_t>(ranks));
    std::int64_t columns = 0;
    for (std::int64_t i = 0; i < ranks && first + i < end(); ++i) {
      const MatrixView<T> piece = table.columns_from(columns, width(first + i));
      if (i == rank_.index()) {
        kernels_.copy(rank_.update(), r_columns(first + i, n), piece);
      }
      pieces[static_cast<std::size_t>(i)] = programs::bytes_of(piece);
      columns += width(first + i);
    }
    rank_.finish(rank_.update());
    if (ranks > 1) {
      rank_.communicator().all_gather(rank_.transfer(), std::move(pieces));
    }
    rank_.finish(rank_.transfer());
    if (rank_.leads()) {
      const std::vector<T> some = rank_.fetch(rank_.transfer(), table.data(), n * columns);
      r.insert(r.end(), some.begin(), some.end());
    }
  }
  return r;
}

template <Scalar T>
void Householder<T>::make_q(MatrixView<T> rows) {
  Formation(*this).run();
  dealer_.to_rows(
      [this](Step step) -> MatrixView<const T> {
        return slab_.columns_from(columns_.columns(step).begin.value(), width(step));
      },
      rows);
}

#define SHARDSOLVE_INSTANTIATE(T) template class Householder<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::qr
