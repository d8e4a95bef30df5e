#include "krylov/rounds.hpp"

#include "krylov/tables.hpp"
#include "krylov/wait_sites.hpp"
#include "runtime/krylov/step.hpp"

#include <algorithm>
#include <complex>
#include <utility>

namespace shardsolve::krylov {

template <Scalar T>
Rounds<T>::Rounds(mesh::Rank& rank, const SlabLayout& layout, const Problem& problem, int exponent,
                  LinearOperator<T>& a, LinearOperator<T>& m)
    : rank_(rank),
      kernels_(rank.kernels<runtime::KrylovKernels<T>>()),
      problem_(problem),
      table_(table_of(problem.method)),
      a_(a),
      m_(m),
      stages_(kernels_, rank.update(), problem_, memory_, *this),
      sums_ready_(rank.event()),
      sums_arrived_(rank.event()),
      done_(rank.host_workspace<std::int32_t>(ahead)),
      may_capture_(rank.count() == 1) {
  for (std::int64_t i = 0; i < ahead; ++i) {
    flag_arrived_.push_back(&rank.event());
  }
  State first;
  begin(problem_, first, exponent, problem_.guess_exponent, problem_.guess_size);
  memory_.state = rank.workspace<State>(1, 1).data();
  State* const on_host = rank.host_workspace<State>(1);
  *on_host = first;
  rank.update().copy(memory_.state, on_host, sizeof(State));
  memory_.vectors.first_row = layout.segment(rank.index()).begin.value();
  memory_.vectors.rows = layout.width(rank.index());
  add_sums(layout);
  add_room();
  add_vectors();
}

template <Scalar T>
void Rounds<T>::add_sums(const SlabLayout& cut) {
  runtime::Queue& queue = rank_.update();
  const std::int64_t own = rank_.index();
  SumLayout shape{.n = cut.size(),
                  .ranks = cut.ranks(),
                  .boundaries = cut.boundaries().data(),
                  .block_leaves = SumLayout::block_leaves_of(cut.size())};
  const std::int64_t* const boundaries =
      rank_.upload(queue, cut.boundaries().data(), cut.ranks() + 1);
  for (const TableReduction& reduction : table_.reductions) {
    const int slots = reduction.slots(problem_.cycle);
    std::vector<std::int64_t> offsets{0};
    for (std::int64_t r = 0; r < cut.ranks(); ++r) {
      offsets.push_back(offsets.back() + SumTable<T>::length(shape.part(r), slots));
    }
    Reduction made;
    const MatrixView<T> parts = rank_.workspace<T>(offsets.back(), 1);
    rank_.kernels<T>().fill(queue, T{0}, parts);
    for (std::int64_t r = 0; r < cut.ranks(); ++r) {
      const auto at = static_cast<std::size_t>(r);
      made.pieces.push_back({parts.data() + offsets[at],
                             static_cast<std::size_t>(offsets[at + 1] - offsets[at]) * sizeof(T)});
    }
    made.stop = parts.data() + offsets[static_cast<std::size_t>(own) + 1] - 1;
    SumTable<T>& sums = memory_.sums[reductions_.size()];
    sums = {.layout = shape,
            .rank = own,
            .slots = slots,
            .fixed = reduction.fixed,
            .parts = parts.data(),
            .offsets = rank_.upload(queue, offsets.data(), cut.ranks() + 1)};
    sums.layout.boundaries = boundaries;
    reductions_.push_back(std::move(made));
  }
}

template <Scalar T>
void Rounds<T>::add_room() {
  int most = 1;
  for (const TableReduction& reduction : table_.reductions) {
    most = std::max(most, reduction.slots(problem_.cycle));
  }
  StateRoom& room = memory_.room;
  room.sums = rank_.workspace<Number>(most, 1).data();
  room.records = rank_.workspace<Record>(problem_.records, 1).data();
  const std::uint32_t nobody = 0;
  room.turnstile = const_cast<std::uint32_t*>(rank_.upload(rank_.update(), &nobody, 1));
  room.column_factors = rank_.workspace<Number>(problem_.cycle + 1, 1).data();
  room.weak_factors = rank_.workspace<Number>(problem_.cycle + 1, 1).data();
  if (table_.hessenberg != nullptr) {
    room.hessenberg = rank_.workspace<Number>(table_.hessenberg(problem_.cycle), 1).data();
  }
}

template <Scalar T>
void Rounds<T>::add_vectors() {
  Vectors<T>& vectors = memory_.vectors;
  const auto add = [&](int number, std::int64_t columns) {
    const MatrixView<T> memory = rank_.workspace<T>(vectors.rows, columns);
    rank_.kernels<T>().fill(rank_.update(), T{0}, memory);
    vectors.base[number] = memory.data();
    vectors.stride[number] = vectors.rows;
  };
  for (int vector = 0; vector < table_.vectors; ++vector) {
    add(vector, 1);
  }
  for (const int matrix : table_.matrices) {
    add(matrix, problem_.cycle);
  }
  if (const auto diagonal = m_.as_diagonal()) {
    vectors.base[Vectors<T>::diagonal] = const_cast<T*>(diagonal->data());
    memory_.inner = diagonal->empty() ? InnerPreconditioner::identity : InnerPreconditioner::jacobi;
  }
  memory_.add_names(table_);
}

template <Scalar T>
void Rounds<T>::multiply(const Stage& stage) {
  LinearOperator<T>& by = stage.kind == Stage::Kind::multiply ? a_ : m_;
  const Vectors<T>& vectors = memory_.vectors;
  by.apply(rank_, rank_.update(), vectors.base[stage.input], vectors.base[stage.output],
           &(memory_.state->*stage.skip));
}

template <Scalar T>
void Rounds<T>::reduce(int reduction) {
  const auto at = static_cast<std::size_t>(reduction);
  runtime::Queue& queue = rank_.update();
  queue.record(sums_ready_);
  rank_.transfer().wait(sums_ready_, sites::sums_ready);
  rank_.communicator().all_gather(rank_.transfer(), reductions_[at].pieces);
  rank_.transfer().record(sums_arrived_);
  queue.wait(sums_arrived_, sites::sums_arrived);
  kernels_.finish(queue, problem_, reduction, memory_.sums[at], memory_.state, memory_.room);
}

template <Scalar T>
bool Rounds<T>::may_go_on() {
  const std::int64_t lag = recording_ == nullptr ? ahead : recordings_ahead;
  if (turn_ >= lag) {
    const std::size_t slot = static_cast<std::size_t>((turn_ - lag) % ahead);
    flag_arrived_[slot]->synchronize(sites::flag_arrived);
    rank_.leave_if_failed();
    if (done_[slot] != 0) {
      return false;
    }
  }
  if (!stop_sent_ && rank_.stop_requested()) {
    // The ranks see it with the sums of one and the same reduction.
    Reduction& last = reductions_.back();
    rank_.kernels<T>().fill(rank_.update(), T{1}, MatrixView<T>(last.stop, 1, 1));
    stop_sent_ = true;
  }
  return true;
}

template <Scalar T>
void Rounds<T>::enqueue_rounds(std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    for (const Stage& stage : table_.stages) {
      stages_.enqueue(stage);
    }
  }
  stages_.flush();
}

template <Scalar T>
void Rounds<T>::take_turn() {
  runtime::Queue& queue = rank_.update();
  // Solves of few rounds are over before a recording is made.
  if (may_capture_ && recording_ == nullptr && turn_ >= ahead) {
    recording_ = queue.capture([&] { enqueue_rounds(ahead); });
    may_capture_ = recording_ != nullptr;
  }
  if (recording_ != nullptr) {
    queue.repeat(*recording_);
    round_ += ahead;
  } else {
    enqueue_rounds(1);
    ++round_;
  }
  const std::size_t slot = static_cast<std::size_t>(turn_ % ahead);
  queue.copy(&done_[slot], &memory_.state->done, sizeof(std::int32_t));
  queue.record(*flag_arrived_[slot]);
  ++turn_;
  rank_.report("solve", std::min(1.0, static_cast<double>(round_) /
                                          static_cast<double>(problem_.max_iterations + 1)));
}

template <Scalar T>
State Rounds<T>::state() {
  return rank_.fetch(rank_.update(), memory_.state, 1).front();
}

template <Scalar T>
std::vector<Record> Rounds<T>::records(const State& state) {
  const std::int64_t kept = std::min(state.records, problem_.records);
  std::vector<Record> ring = rank_.fetch(rank_.update(), memory_.room.records, kept);
  if (kept > 0) {
    std::rotate(ring.begin(), ring.begin() + state.records % kept, ring.end());
  }
  return ring;
}

template class Rounds<float>;
template class Rounds<double>;
template class Rounds<std::complex<float>>;
template class Rounds<std::complex<double>>;

}  // namespace shardsolve::krylov
