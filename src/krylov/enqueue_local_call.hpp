/// What a LocalCall enqueues, for any kernels and any queue: the CPU's, and those of the CUDA
/// library.
#pragma once

#include "krylov/local_call.hpp"
#include "krylov/tables.hpp"
#include "runtime/krylov/part.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/matrix_view.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::krylov {

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

inline RoomLayout room_layout(const Problem& problem) {
  const MethodTable& table = table_of(problem.method);
  std::int64_t most = 1;
  for (const TableReduction& one : table.reductions) {
    most = std::max<std::int64_t>(most, one.fixed + (one.over_columns ? problem.cycle : 0));
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

inline LocalVectors make_local_vectors(const MethodTable& table) {
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

/// Lives as long as the library.
inline const LocalVectors& local_vectors(Method method) {
  static const auto& all = *new std::array<LocalVectors, 4>{
      make_local_vectors(table_of(Method::cg)), make_local_vectors(table_of(Method::minres)),
      make_local_vectors(table_of(Method::bicgstab)), make_local_vectors(table_of(Method::fgmres))};
  return all.at(static_cast<std::size_t>(method));
}

inline std::int64_t slots_of(const TableReduction& one, const Problem& problem) {
  return one.fixed + (one.over_columns ? problem.cycle : 0);
}

/// One solve of the batch of a call. Steps has scan, run and finish of KrylovKernels without a
/// queue, and
///   run_part(problem, part, vectors, sums, state, room): all of it if it can at once, or false;
///   clear(memory, bytes): zeros;
///   begin(problem, of_b, of_x, boundaries, ranks, solve): begin_solve();
///   end(problem, of_x, ranks, solve, report, figures): end_solve();
///   scale(way, solve, source, target): target = 2^e source, e = exponent_of(solve, way); 0 if
///     is_zero_vector().
template <Scalar T, class Steps>
class LocalSolve {
 public:
  LocalSolve(const Steps& steps, const LocalCall& call, std::int64_t item)
      : steps_(steps), call_(call), item_(item) {}

  void enqueue() {
    switch (call_.step) {
      case LocalCall::Step::scan:
        steps_.scan(own(call_.x), call_.scans.of<runtime::Scan>(item_), call_.work.of<void>(item_));
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
    const MethodTable& table = table_of(call_.problem.method);
    const auto clear = [&](const LocalCall::Memory& memory, std::int64_t bytes) {
      steps_.clear(memory.of<void>(item_), bytes);
    };
    constexpr std::int64_t size = sizeof(T);
    clear(call_.room, room_layout(call_.problem).bytes);
    std::int64_t parts = 0;
    for (const TableReduction& one : table.reductions) {
      parts += slots_of(one, call_.problem) * SumLayout::max_length(call_.problem.n) + 1;
    }
    clear(call_.parts, parts * size);
    clear(call_.hidden, places_.hidden_rows(call_.problem.cycle) * call_.rows * size);
    for (std::size_t at = 0; at < places_.shown.size(); ++at) {
      clear(call_.shown[at], call_.rows * size);
    }
    const bool has_guess = call_.x.data != nullptr;
    steps_.begin(call_.problem, call_.scans.of<runtime::Scan>(item_),
                 has_guess ? call_.guess_scans.of<runtime::Scan>(item_) : nullptr, call_.cut,
                 call_.ranks, state());
    steps_.scale(Way::b_to_solve, state(), own(call_.b), hidden(vector_b));
    if (has_guess) {
      steps_.scale(Way::guess_to_solve, state(), own(call_.x), hidden(vector_x));
    }
  }

  void end() {
    steps_.end(call_.problem, call_.scans.of<runtime::Scan>(item_), call_.ranks, state(),
               call_.report.of<Report>(item_), call_.figures.of<RealOf<T>>(item_));
    steps_.scale(Way::x_from_solve, state(), hidden(vector_x), own(call_.x));
  }

  Vectors<T> vectors(const MethodTable& table) const {
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
    for (const MethodTable::ColumnName& name : table.column_names) {
      all.base[name.number] = all.base[name.of];
      all.stride[name.number] = all.stride[name.of];
      all.column[name.number] = name.which;
    }
    if (call_.inner == InnerPreconditioner::identity && table.identity.output >= 0) {
      all.base[table.identity.output] = all.base[table.identity.input];
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

  /// Of this rank's own parts, or of those that were gathered from all.
  SumTable<T> sums(const MethodTable& table, int reduction, bool of_all) const {
    T* parts = call_.parts.of<T>(item_);
    for (int before = 0; before < reduction; ++before) {
      parts += slots_of(table.reductions[static_cast<std::size_t>(before)], call_.problem) *
                   SumLayout::max_length(call_.problem.n) +
               1;
    }
    const TableReduction& shape = table.reductions[static_cast<std::size_t>(reduction)];
    const bool gathered = of_all && call_.ranks > 1;
    // A rank's own begin where its memory does; of one rank the offsets say where they end.
    const std::int64_t row = gathered || call_.ranks == 1 ? 2 + reduction : 1;
    return {.layout = {.n = call_.problem.n,
                       .ranks = call_.ranks,
                       .boundaries = call_.cut,
                       .block_leaves = SumLayout::block_leaves_of(call_.problem.n)},
            .rank = call_.rank,
            .slots = static_cast<int>(slots_of(shape, call_.problem)),
            .fixed = shape.fixed,
            .parts = gathered ? call_.gathered.of<T>(item_) : parts,
            .offsets = call_.cut + row * (call_.ranks + 1)};
  }

  void stages() {
    const MethodTable& table = table_of(call_.problem.method);
    const Vectors<T> all = vectors(table);
    Part part;
    const auto put = [&](auto add) {
      if (!add()) {
        enqueue_part(part, all);
        part = {};
        add();
      }
    };
    for (int at = 0; at < call_.count; ++at) {
      const Stage& stage =
          table.stages[static_cast<std::size_t>(call_.first + at) % table.stages.size()];
      switch (stage.kind) {
        case Stage::Kind::run:
          put([&] { return part.add_program(stage.program, stage.reduction); });
          break;
        case Stage::Kind::reduce:
          require_own(call_.ranks == 1 || at == 0);
          put([&] { return part.add_end(stage.reduction); });
          break;
        case Stage::Kind::precondition:
          require_own(call_.inner != InnerPreconditioner::none);
          if (all.base[stage.input] != all.base[stage.output]) {
            put([&] { return part.add_division(stage.input, stage.output, unless(stage.skip)); });
          }
          break;
        case Stage::Kind::multiply:
          require_own(false);
          break;
      }
    }
    if (!part.empty()) {
      enqueue_part(part, all);
    }
  }

  void enqueue_part(const Part& part, const Vectors<T>& all) const {
    const MethodTable& table = table_of(call_.problem.method);
    const StateRoom room = this->room();
    State* const state = &this->state()->state;
    std::vector<SumTable<T>> own;
    for (std::size_t r = 0; r < table.reductions.size(); ++r) {
      own.push_back(sums(table, static_cast<int>(r), false));
    }
    if (steps_.run_part(call_.problem, part, all, own, state, room)) {
      return;
    }
    for (int at = 0; at < part.items; ++at) {
      const Part::Item& item = part.item[at];
      if (item.program >= 0) {
        steps_.run(part.program[item.program], all, state, room,
                   own[static_cast<std::size_t>(item.reduction)], call_.rank_at);
      } else {
        steps_.finish(call_.problem, item.reduction, sums(table, item.reduction, true), state,
                      room);
      }
    }
  }

  static void require_own(bool is_own) {
    if (!is_own) {
      throw Error(ErrorKind::internal,
                  "internal: a stage of a Krylov solve that is not the library's was asked for");
    }
  }

  const Steps& steps_;
  const LocalCall& call_;
  std::int64_t item_;
  const LocalVectors& places_ = local_vectors(call_.problem.method);
};

/// Those of the batch from `begin` to `end`.
template <Scalar T, class Steps>
void enqueue(const Steps& steps, const LocalCall& call, std::int64_t begin, std::int64_t end) {
  for (std::int64_t item = begin; item < end; ++item) {
    LocalSolve<T, Steps>(steps, call, item).enqueue();
  }
}
template <Scalar T, class Steps>
void enqueue(const Steps& steps, const LocalCall& call) {
  enqueue<T>(steps, call, 0, call.batch);
}

}  // namespace shardsolve::krylov
