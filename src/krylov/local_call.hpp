/// Parts of a solve that one device makes by itself, between products that somebody else makes and
/// sums that somebody else gathers: what the JAX package calls in its loop. The tables of the
/// methods and their kernels are those of krylov::solve, so the bits are.
#pragma once

#include "krylov/problem.hpp"
#include "krylov/stages.hpp"
#include "runtime/kernel_set.hpp"
#include "runtime/krylov/ends.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>

#include <array>
#include <cstdint>
#include <vector>

namespace shardsolve::krylov {

/// Where the vectors of a method are: those that go into products or come out of them have a buffer
/// each, all others lie one after the other in one more, the columns of a basis behind them.
struct LocalVectors {
  std::vector<int> shown;   ///< numbers, in the order of their buffers
  std::vector<int> hidden;  ///< likewise, the first of each matrix of `cycle` columns behind
  std::vector<int> matrices;

  std::int64_t hidden_rows(std::int64_t cycle) const {
    return static_cast<std::int64_t>(hidden.size()) +
           cycle * static_cast<std::int64_t>(matrices.size());
  }
};

/// Lives as long as the library.
const LocalVectors& local_vectors(Method method);

/// Lengths of what a solve keeps between calls.
struct LocalLengths {
  std::int64_t room_words = 0;    ///< int32: what StateRoom points to
  std::int64_t record_words = 0;  ///< of these: the words before the log
  std::int64_t parts = 0;         ///< elements: one rank's sums of all reductions
  std::array<std::int64_t, max_reductions> begin{};   ///< of each reduction in `parts`
  std::array<std::int64_t, max_reductions> length{};  ///< of it, that is to be gathered
};
/// For n rows cut into `ranks` parts of `rows`; `parts` and `begin` do not depend on the cut.
LocalLengths local_lengths(const Problem& problem, std::int64_t rows, std::int64_t ranks);

/// Bytes of scratch that a scan may need of a queue.
constexpr std::int64_t scan_work = 24576;

/// Most vectors that are shown.
constexpr int max_shown = 6;

/// One call for `batch` solves; memory is the device's.
struct LocalCall {
  enum class Step : std::uint8_t {
    scan,    ///< x -> scans
    begin,   ///< scans of all ranks, b, x0 -> state, and memory for all else
    stages,  ///< some stages of a round
    end,     ///< state, scans of x -> report, x
  };
  /// Memory of one batch after the other, `stride` bytes from one to the next.
  struct Memory {
    void* data = nullptr;
    std::int64_t stride = 0;

    template <class T>
    T* of(std::int64_t item) const {
      return reinterpret_cast<T*>(static_cast<char*>(data) + item * stride);
    }
  };

  Step step{};
  Dtype dtype = Dtype::float64;
  std::int64_t batch = 1;
  Problem problem;
  std::int64_t rows = 0;  ///< of this device, padding and all
  std::int64_t ranks = 1;
  std::int64_t rank = 0;
  /// On a GPU with several ranks: where the rank is in its memory, as the host does not know it.
  /// Padding is zeros then.
  const std::int32_t* rank_at = nullptr;
  /// In device memory, ranks + 1 each: boundaries, zeros, offsets of the parts of each reduction.
  const std::int64_t* cut = nullptr;

  Memory x;      ///< scan: in; begin: the guess, or null; end: out
  Memory b;      ///< begin
  Memory scans;  ///< scan: out; begin and end: in, of all ranks
  Memory guess_scans;

  Memory state;   ///< SolveState
  Memory room;    ///< see LocalLengths
  Memory parts;   ///< likewise
  Memory hidden;  ///< hidden_rows x rows
  std::array<Memory, max_shown> shown;
  Memory report;
  Memory figures;

  // stages
  int first = 0;  ///< of the method's table; behind the last one comes the first
  int count = 0;
  InnerPreconditioner inner = InnerPreconditioner::none;
  Memory diagonal;  ///< jacobi
  Memory gathered;  ///< parts of all ranks for the reduction that the first stage is
};

/// Those of the batch from `begin` to `end`. Does nothing but enqueue; on a GPU no memory is taken.
void enqueue(const runtime::KernelSource& device, runtime::Queue& queue, const LocalCall& call,
             std::int64_t begin, std::int64_t end);

}  // namespace shardsolve::krylov
