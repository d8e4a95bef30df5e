#include "krylov/local_call.hpp"

#include "core/each_dtype.hpp"
#include "krylov/enqueue_local_call.hpp"
#include "runtime/host/in_caller.hpp"
#include "runtime/host/krylov_kernels.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

namespace shardsolve::krylov {

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
  const RoomLayout room = room_layout(problem);
  lengths.room_words = room.bytes / static_cast<std::int64_t>(sizeof(std::int32_t));
  lengths.record_words = room.records / static_cast<std::int64_t>(sizeof(std::int32_t));
  std::size_t at = 0;
  for (const TableReduction& shape : table_of(problem.method).reductions) {
    const std::int64_t slots = slots_of(shape, problem);
    lengths.begin.at(at) = lengths.parts;
    lengths.length.at(at) = slots * longest + 1;
    lengths.parts += slots * SumLayout::most_length(problem.n) + 1;
    ++at;
  }
  return lengths;
}

namespace {

/// All in the caller's thread.
template <Scalar T>
class HostSteps {
 public:
  explicit HostSteps(runtime::Queue& queue) : queue_(queue) {}

  void scan(MatrixView<const T> x, runtime::Scan* result, void* /*work*/) const {
    kernels_.scan(queue_, x, result);
  }
  void run(const Program& program, const Vectors<T>& vectors, const State* state,
           const StateRoom& room, const SumTable<T>& sums, const std::int32_t* /*rank*/) const {
    kernels_.run(queue_, program, vectors, state, room, sums);
  }
  void finish(const Problem& problem, int reduction, const SumTable<T>& sums, State* state,
              const StateRoom& room) const {
    kernels_.finish(queue_, problem, reduction, sums, state, room);
  }
  bool run_part(const Problem& /*problem*/, const Part& /*part*/, const Vectors<T>& /*vectors*/,
                const std::vector<SumTable<T>>& /*sums*/, State* /*state*/,
                const StateRoom& /*room*/) const {
    return false;
  }
  void clear(void* memory, std::int64_t bytes) const {
    if (bytes > 0) {
      std::memset(memory, 0, static_cast<std::size_t>(bytes));
    }
  }
  void begin(const Problem& problem, const Scan* of_b, const Scan* of_x,
             const std::int64_t* boundaries, std::int64_t ranks, SolveState* solve) const {
    *solve = begin_solve(problem, merged(of_b, boundaries, ranks), merged(of_x, boundaries, ranks),
                         std::numeric_limits<RealOf<T>>::max_exponent);
  }
  void end(const Problem& problem, const Scan* of_x, std::int64_t ranks, SolveState* solve,
           Report* report, RealOf<T>* figures) const {
    end_solve(problem, of_x, ranks, *solve, *report, figures);
  }
  void scale(Way way, const SolveState* solve, MatrixView<const T> source,
             MatrixView<T> target) const {
    if (is_zero_vector(*solve)) {
      std::fill_n(target.data(), target.rows(), T{0});
      return;
    }
    const auto exponent = static_cast<int>(solve->exponent);
    kernels_.scale_exactly(queue_, way == Way::to_solve ? exponent : -exponent, source, target);
  }

 private:
  runtime::Queue& queue_;
  runtime::host::HostKrylovKernels<T> kernels_;
};

}  // namespace

void run_on_host(const LocalCall& call) {
  runtime::host::in_caller([&](runtime::Queue& queue) {
    with_dtype(call.dtype, [&]<class T>() { enqueue<T>(HostSteps<T>(queue), call); });
  });
}

}  // namespace shardsolve::krylov
