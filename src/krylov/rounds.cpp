#include "krylov/rounds.hpp"

#include "krylov/wait_sites.hpp"
#include "runtime/krylov/step.hpp"

#include <algorithm>
#include <complex>
#include <utility>

namespace shardsolve::krylov {

template <Scalar T>
Rounds<T>::Rounds(mesh::Rank& rank, const SlabLayout& layout, const Problem& problem,
                  LinearOperator<T>& a, LinearOperator<T>& m,
                  const std::vector<ReductionShape>& reductions)
    : rank_(rank),
      kernels_(rank.kernels<runtime::KrylovKernels<T>>()),
      problem_(problem),
      a_(a),
      m_(m),
      sums_ready_(rank.event()),
      sums_arrived_(rank.event()),
      done_(rank.host_workspace<std::int32_t>(ahead)),
      may_capture_(rank.count() == 1) {
  for (std::int64_t i = 0; i < ahead; ++i) {
    flag_arrived_.push_back(&rank.event());
  }
  State first;
  begin(problem_, first, 0, problem_.guess_exponent);
  state_ = rank.workspace<State>(1, 1).data();
  State* const on_host = rank.host_workspace<State>(1);
  *on_host = first;
  runtime::Queue& queue = rank.update();
  queue.copy(state_, on_host, sizeof(State));

  const SlabLayout& cut = layout;
  const std::int64_t own = rank.index();
  vectors_.first_row = cut.segment(own).begin.value();
  vectors_.rows = cut.width(own);
  SumLayout shape{.n = cut.size(),
                  .ranks = cut.ranks(),
                  .boundaries = cut.boundaries().data(),
                  .block_leaves = SumLayout::block_leaves_of(cut.size())};
  const std::int64_t* const boundaries =
      rank.upload(queue, cut.boundaries().data(), cut.ranks() + 1);
  int most = 1;
  for (const ReductionShape& reduction : reductions) {
    const int slots = reduction.fixed + reduction.columns;
    most = std::max(most, slots);
    std::vector<std::int64_t> offsets{0};
    for (std::int64_t r = 0; r < cut.ranks(); ++r) {
      offsets.push_back(offsets.back() + SumTable<T>::length(shape.part(r), slots));
    }
    Reduction made;
    const MatrixView<T> parts = rank.workspace<T>(offsets.back(), 1);
    rank.kernels<T>().fill(queue, T{0}, parts);
    for (std::int64_t r = 0; r < cut.ranks(); ++r) {
      const auto at = static_cast<std::size_t>(r);
      made.pieces.push_back({parts.data() + offsets[at],
                             static_cast<std::size_t>(offsets[at + 1] - offsets[at]) * sizeof(T)});
    }
    made.stop = parts.data() + offsets[static_cast<std::size_t>(own) + 1] - 1;
    sums_.push_back({.layout = shape,
                     .rank = own,
                     .slots = slots,
                     .fixed = reduction.fixed,
                     .parts = parts.data(),
                     .offsets = rank.upload(queue, offsets.data(), cut.ranks() + 1)});
    sums_.back().layout.boundaries = boundaries;
    reductions_.push_back(std::move(made));
  }
  room_.sums = rank.workspace<Number>(most, 1).data();
  room_.records = rank.workspace<Record>(problem_.records, 1).data();
  const std::uint32_t nobody = 0;
  room_.turnstile = const_cast<std::uint32_t*>(rank.upload(queue, &nobody, 1));
  room_.column_factors = rank.workspace<Number>(problem_.cycle + 1, 1).data();
  room_.weak_factors = rank.workspace<Number>(problem_.cycle + 1, 1).data();
  if (const auto diagonal = m_.as_diagonal()) {
    vectors_.base[Vectors<T>::diagonal] = const_cast<T*>(diagonal->data());
  }
}

template <Scalar T>
MatrixView<T> Rounds<T>::add_vector(int number) {
  add_columns(number, 1);
  return {vectors_.base[number], vectors_.rows, 1};
}

template <Scalar T>
void Rounds<T>::add_columns(int number, std::int64_t columns) {
  const MatrixView<T> memory = rank_.workspace<T>(vectors_.rows, columns);
  rank_.kernels<T>().fill(rank_.update(), T{0}, memory);
  vectors_.base[number] = memory.data();
  vectors_.stride[number] = vectors_.rows;
}

template <Scalar T>
void Rounds<T>::add_column_name(int number, int of, typename Vectors<T>::Column which) {
  vectors_.base[number] = vectors_.base[of];
  vectors_.stride[number] = vectors_.stride[of];
  vectors_.column[number] = which;
}

template <Scalar T>
void Rounds<T>::add_identity(int output, int input) {
  if (const auto diagonal = m_.as_diagonal(); diagonal && diagonal->empty()) {
    vectors_.base[output] = vectors_.base[input];
  }
}

template <Scalar T>
void Rounds<T>::add_hessenberg(std::int64_t numbers) {
  room_.hessenberg = rank_.workspace<Number>(numbers, 1).data();
}

template <Scalar T>
void Rounds<T>::flush() {
  if (!part_.empty()) {
    kernels_.run_part(rank_.update(), problem_, part_, vectors_, sums_.data(), state_, room_);
    part_ = {};
  }
}

template <Scalar T>
template <class Add>
void Rounds<T>::put(Add add) {
  if (!add(part_)) {
    flush();
    add(part_);
  }
}

template <Scalar T>
void Rounds<T>::run(const Program& program, int reduction) {
  put([&](Part& part) { return part.add_program(program, reduction); });
}

template <Scalar T>
void Rounds<T>::multiply(int input, int output, std::int32_t State::* skip) {
  flush();
  a_.apply(rank_, rank_.update(), vectors_.base[input], vectors_.base[output], &(state_->*skip));
}

template <Scalar T>
void Rounds<T>::precondition(int input, int output, std::int32_t State::* skip) {
  if (m_.as_diagonal()) {
    if (vectors_.base[input] != vectors_.base[output]) {
      put([&](Part& part) { return part.add_division(input, output, unless(skip)); });
    }
    return;
  }
  flush();
  m_.apply(rank_, rank_.update(), vectors_.base[input], vectors_.base[output], &(state_->*skip));
}

template <Scalar T>
void Rounds<T>::reduce(int reduction) {
  if (rank_.count() == 1) {
    put([&](Part& part) { return part.add_end(reduction); });
    return;
  }
  flush();
  runtime::Queue& queue = rank_.update();
  queue.record(sums_ready_);
  rank_.transfer().wait(sums_ready_, sites::sums_ready);
  rank_.communicator().all_gather(rank_.transfer(),
                                  reductions_[static_cast<std::size_t>(reduction)].pieces);
  rank_.transfer().record(sums_arrived_);
  queue.wait(sums_arrived_, sites::sums_arrived);
  kernels_.finish(queue, problem_, reduction, sums_[static_cast<std::size_t>(reduction)], state_,
                  room_);
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
void Rounds<T>::take_turn(const std::function<void()>& enqueue) {
  runtime::Queue& queue = rank_.update();
  // Solves of few rounds are over before a recording is made.
  if (may_capture_ && recording_ == nullptr && turn_ >= ahead) {
    recording_ = queue.capture([&] {
      for (std::int64_t i = 0; i < ahead; ++i) {
        enqueue();
      }
      flush();
    });
    may_capture_ = recording_ != nullptr;
  }
  if (recording_ != nullptr) {
    queue.repeat(*recording_);
    round_ += ahead;
  } else {
    enqueue();
    flush();
    ++round_;
  }
  const std::size_t slot = static_cast<std::size_t>(turn_ % ahead);
  queue.copy(&done_[slot], &state_->done, sizeof(std::int32_t));
  queue.record(*flag_arrived_[slot]);
  ++turn_;
  rank_.report("solve", std::min(1.0, static_cast<double>(round_) /
                                          static_cast<double>(problem_.max_iterations + 1)));
}

template <Scalar T>
State Rounds<T>::state() {
  return rank_.fetch(rank_.update(), state_, 1).front();
}

template <Scalar T>
std::vector<Record> Rounds<T>::records(const State& state) {
  const std::int64_t kept = std::min(state.records, problem_.records);
  std::vector<Record> ring = rank_.fetch(rank_.update(), room_.records, kept);
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
