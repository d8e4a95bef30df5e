#include "krylov/local_call.hpp"

#include "core/each_dtype.hpp"
#include "krylov/tables.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/matrix_view.hpp>

#include <algorithm>
#include <cstddef>

namespace shardsolve::krylov {
namespace local_call {
namespace {

/// Where the parts of a room begin, in bytes.
struct RoomLayout {
  std::int64_t sums = 0;
  std::int64_t column_factors = 0;
  std::int64_t weak_factors = 0;
  std::int64_t hessenberg = 0;
  std::int64_t turnstile = 0;
  std::int64_t records = 0;
  std::int64_t bytes = 0;
};

RoomLayout room_layout(const Problem& problem) {
  const MethodTable& table = table_of(problem.method);
  std::int64_t most = 1;
  for (const TableReduction& one : table.reductions) {
    most = std::max<std::int64_t>(most, one.slots(problem.cycle));
  }
  constexpr std::int64_t number = sizeof(Number);
  RoomLayout layout;
  layout.column_factors = most * number;
  layout.weak_factors = layout.column_factors + (problem.cycle + 1) * number;
  layout.hessenberg = layout.weak_factors + (problem.cycle + 1) * number;
  layout.turnstile = layout.hessenberg +
                     (table.hessenberg != nullptr ? table.hessenberg(problem.cycle) * number : 0);
  layout.records = layout.turnstile + static_cast<std::int64_t>(sizeof(std::int64_t));
  layout.bytes = layout.records + problem.records * static_cast<std::int64_t>(sizeof(Record));
  return layout;
}

LocalVectors make_local_vectors(const MethodTable& table) {
  LocalVectors vectors;
  const auto add = [](std::vector<int>& list, int number) {
    if (std::find(list.begin(), list.end(), number) == list.end()) {
      list.push_back(number);
    }
  };
  for (const Stage& stage : table.stages) {
    if (stage.is_product()) {
      add(vectors.shown, stage.input);
      add(vectors.shown, stage.output);
    }
  }
  for (int number = 0; number < table.vectors; ++number) {
    if (std::find(vectors.shown.begin(), vectors.shown.end(), number) == vectors.shown.end()) {
      vectors.hidden.push_back(number);
    }
  }
  vectors.matrices = table.matrices;
  return vectors;
}

/// One solve of the batch of a call.
template <Scalar T>
class LocalSolve final : private OtherStages {
 public:
  LocalSolve(const runtime::KernelSource& device, runtime::Queue& queue, const LocalCall& call,
             std::int64_t item)
      : kernels_(device.kernels<runtime::KrylovKernels<T>>()),
        queue_(queue),
        call_(call),
        item_(item) {}

  void enqueue() {
    switch (call_.step) {
      case LocalCall::Step::scan:
        kernels_.scan(queue_, own(call_.x), call_.scans.of<runtime::Scan>(item_));
        break;
      case LocalCall::Step::begin:
        begin();
        break;
      case LocalCall::Step::stages:
        stages();
        break;
      case LocalCall::Step::end:
        end();
        break;
    }
  }

 private:
  /// Rows of this device without padding, if it is known who it is.
  std::int64_t true_rows() const {
    if (call_.rank_at != nullptr) {
      return call_.rows;
    }
    const std::int64_t first = std::min(call_.rank * call_.rows, call_.problem.n);
    return std::min(first + call_.rows, call_.problem.n) - first;
  }
  MatrixView<T> own(const LocalCall::Memory& memory) const {
    return {memory.of<T>(item_), true_rows(), 1};
  }
  MatrixView<T> hidden(int vector) const {
    const auto found = std::find(places_.hidden.begin(), places_.hidden.end(), vector);
    return {call_.hidden.of<T>(item_) + (found - places_.hidden.begin()) * call_.rows, true_rows(),
            1};
  }
  SolveState* state() const { return call_.state.of<SolveState>(item_); }

  void begin() {
    const auto clear = [&](const LocalCall::Memory& memory, std::int64_t bytes) {
      queue_.clear(memory.of<void>(item_), static_cast<std::size_t>(bytes));
    };
    constexpr std::int64_t size = sizeof(T);
    clear(call_.room, room_layout(call_.problem).bytes);
    std::int64_t parts = 0;
    for (const TableReduction& one : table_.reductions) {
      parts += length_of_parts(one);
    }
    clear(call_.parts, parts * size);
    clear(call_.hidden, places_.hidden_rows(call_.problem.cycle) * call_.rows * size);
    for (std::size_t at = 0; at < places_.shown.size(); ++at) {
      clear(call_.shown[at], call_.rows * size);
    }
    const bool has_guess = call_.x.data != nullptr;
    kernels_.begin_solve(queue_, call_.problem, call_.scans.of<runtime::Scan>(item_),
                         has_guess ? call_.guess_scans.of<runtime::Scan>(item_) : nullptr,
                         call_.cut, call_.ranks, state());
    kernels_.scale_for(queue_, Way::b_to_solve, state(), own(call_.b), hidden(vector_b));
    if (has_guess) {
      kernels_.scale_for(queue_, Way::guess_to_solve, state(), own(call_.x), hidden(vector_x));
    }
  }

  void end() {
    kernels_.end_solve(queue_, call_.problem, call_.scans.of<runtime::Scan>(item_), call_.ranks,
                       state(), call_.report.of<Report>(item_), call_.figures.of<RealOf<T>>(item_));
    kernels_.scale_for(queue_, Way::x_from_solve, state(), hidden(vector_x), own(call_.x));
  }

  Vectors<T> vectors() const {
    Vectors<T> all;
    all.first_row = std::min(call_.rank * call_.rows, call_.problem.n);
    all.rows = true_rows();
    for (std::size_t at = 0; at < places_.shown.size(); ++at) {
      all.base[places_.shown[at]] = call_.shown[at].of<T>(item_);
      all.stride[places_.shown[at]] = call_.rows;
    }
    T* next = call_.hidden.of<T>(item_);
    for (const int vector : places_.hidden) {
      all.base[vector] = next;
      all.stride[vector] = call_.rows;
      next += call_.rows;
    }
    for (const int matrix : places_.matrices) {
      all.base[matrix] = next;
      all.stride[matrix] = call_.rows;
      next += call_.problem.cycle * call_.rows;
    }
    if (call_.inner == InnerPreconditioner::jacobi) {
      all.base[Vectors<T>::diagonal] = call_.diagonal.of<T>(item_);
    }
    return all;
  }

  StateRoom room() const {
    char* const begin = call_.room.of<char>(item_);
    const RoomLayout at = room_layout(call_.problem);
    return {.sums = reinterpret_cast<Number*>(begin + at.sums),
            .records = reinterpret_cast<Record*>(begin + at.records),
            .column_factors = reinterpret_cast<Number*>(begin + at.column_factors),
            .weak_factors = reinterpret_cast<Number*>(begin + at.weak_factors),
            .hessenberg = reinterpret_cast<Number*>(begin + at.hessenberg),
            .turnstile = reinterpret_cast<std::uint32_t*>(begin + at.turnstile)};
  }

  /// Elements of this rank's parts of a reduction.
  std::int64_t length_of_parts(const TableReduction& one) const {
    return one.slots(call_.problem.cycle) * SumLayout::max_length(call_.problem.n) + 1;
  }
  /// Of this rank's own parts, or of those that were gathered from all.
  SumTable<T> sums(std::size_t reduction, bool of_all) const {
    T* parts = call_.parts.of<T>(item_);
    for (std::size_t before = 0; before < reduction; ++before) {
      parts += length_of_parts(table_.reductions[before]);
    }
    const TableReduction& shape = table_.reductions[reduction];
    // A rank's own begin where its memory does; of one rank the offsets say where they end.
    const std::int64_t row =
        of_all || call_.ranks == 1 ? 2 + static_cast<std::int64_t>(reduction) : 1;
    return {.layout = {.n = call_.problem.n,
                       .ranks = call_.ranks,
                       .boundaries = call_.cut,
                       .block_leaves = SumLayout::block_leaves_of(call_.problem.n)},
            .rank = call_.rank,
            .slots = shape.slots(call_.problem.cycle),
            .fixed = shape.fixed,
            .parts = of_all ? call_.gathered.of<T>(item_) : parts,
            .offsets = call_.cut + row * (call_.ranks + 1)};
  }

  void stages() {
    SolveMemory<T> memory{.vectors = vectors(),
                          .sums = {},
                          .state = &state()->state,
                          .room = room(),
                          .inner = call_.inner,
                          .rank_at = call_.rank_at};
    memory.add_names(table_);
    for (std::size_t reduction = 0; reduction < table_.reductions.size(); ++reduction) {
      memory.sums.at(reduction) = sums(reduction, false);
    }
    Stages<T> stages(kernels_, queue_, call_.problem, memory, *this);
    for (int at = 0; at < call_.count; ++at) {
      stages.enqueue(stage(at));
    }
    stages.flush();
  }
  /// The one that comes so many behind the first.
  const Stage& stage(int at) const {
    return table_.stages[static_cast<std::size_t>(call_.first + at) % table_.stages.size()];
  }
  /// The first stage of a call, as only then there are sums that somebody has gathered.
  void reduce(int reduction) override {
    require_own(stage(0).kind == Stage::Kind::reduce && !has_reduced_);
    has_reduced_ = true;
    kernels_.finish(queue_, call_.problem, reduction,
                    sums(static_cast<std::size_t>(reduction), true), &state()->state, room());
  }
  void multiply(const Stage& /*stage*/) override { require_own(false); }

  static void require_own(bool is_own) {
    if (!is_own) {
      throw Error(ErrorKind::internal,
                  "internal: a stage of a Krylov solve that is not the library's was asked for");
    }
  }

  const runtime::KrylovKernels<T>& kernels_;
  runtime::Queue& queue_;
  const LocalCall& call_;
  std::int64_t item_;
  const MethodTable& table_ = table_of(call_.problem.method);
  const LocalVectors& places_ = local_vectors(call_.problem.method);
  bool has_reduced_ = false;
};

}  // namespace
}  // namespace local_call

const LocalVectors& local_vectors(Method method) {
  static const auto& all =
      *new std::array<LocalVectors, 4>{local_call::make_local_vectors(table_of(Method::cg)),
                                       local_call::make_local_vectors(table_of(Method::minres)),
                                       local_call::make_local_vectors(table_of(Method::bicgstab)),
                                       local_call::make_local_vectors(table_of(Method::fgmres))};
  return all.at(static_cast<std::size_t>(method));
}

LocalLengths local_lengths(const Problem& problem, std::int64_t rows, std::int64_t ranks) {
  std::vector<std::int64_t> boundaries;
  for (std::int64_t r = 0; r <= ranks; ++r) {
    boundaries.push_back(std::min(r * rows, problem.n));
  }
  const SumLayout layout{.n = problem.n,
                         .ranks = ranks,
                         .boundaries = boundaries.data(),
                         .block_leaves = SumLayout::block_leaves_of(problem.n)};
  std::int64_t longest = 0;
  for (std::int64_t r = 0; r < ranks; ++r) {
    longest = std::max(longest, layout.part(r).length());
  }
  LocalLengths lengths;
  const local_call::RoomLayout room = local_call::room_layout(problem);
  lengths.room_words = room.bytes / static_cast<std::int64_t>(sizeof(std::int32_t));
  lengths.record_words = room.records / static_cast<std::int64_t>(sizeof(std::int32_t));
  std::size_t at = 0;
  for (const TableReduction& shape : table_of(problem.method).reductions) {
    const std::int64_t slots = shape.slots(problem.cycle);
    lengths.begin.at(at) = lengths.parts;
    lengths.length.at(at) = slots * longest + 1;
    lengths.parts += slots * SumLayout::max_length(problem.n) + 1;
    ++at;
  }
  return lengths;
}

void enqueue(const runtime::KernelSource& device, runtime::Queue& queue, const LocalCall& call,
             std::int64_t begin, std::int64_t end) {
  with_dtype(call.dtype, [&]<class T>() {
    for (std::int64_t item = begin; item < end; ++item) {
      local_call::LocalSolve<T>(device, queue, call, item).enqueue();
    }
  });
}

}  // namespace shardsolve::krylov
