/// Solves for one right-hand side where the backend does each sweep in one kernel a device.
#pragma once

#include "comm/communicator.hpp"
#include "mesh/rank.hpp"
#include "runtime/kernel_arguments.hpp"
#include "runtime/persistent_solve.hpp"

#include <shardsolve/slab_layout.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::dense {

/// What a rank's slab holds its columns of: Cholesky's L, of L L^H, with rows in the matrix's
/// order, or L and U of P A Q^T = L U with rows in that of elimination.
enum class Factors : std::uint8_t { l_and_adjoint, l_and_u };

/// Elements of memory on each rank for a run, of n rows on ranks of at most `width` columns.
std::int64_t persistent_solve_elements(Factors what, std::int64_t n, std::int64_t width,
                                       std::int64_t ranks);

/// What a PersistentSolve takes on each rank: memory for two runs, lists of blocks for two sweeps.
std::int64_t persistent_solve_bytes(Factors what, const SlabLayout& layout, std::int64_t element);

/// All bits set: a NaN that no calculation gives.
template <Scalar T>
T unwritten();

/// The blocks of a solve, of all ranks and of one, as a sweep goes.
struct SolveLists {
  std::vector<runtime::SolveBlock> all;
  std::vector<runtime::SolveBlock> own;
};
/// In the order of elimination, of at most `max_rows` rows each.
SolveLists solve_lists(const SlabLayout& layout, Factors what, std::int64_t rank,
                       std::int64_t max_rows);
/// From the last to the first, counted from there.
SolveLists turned(const SolveLists& lists);

/// Says what the two sweeps of a solve are, whose lists are there.
template <Scalar T>
void describe_sweeps(Factors what, runtime::Op op, runtime::PersistentSolveArguments<T>& arguments);

/// A solve with the factors: L L^H (P x) = P b, or L U (Q x) = P b, where P b lies like Q x.
/// LAPACK: potrs, getrs without its exchanges of rows.
template <Scalar T>
class PersistentSolve {
 public:
  /// Null, on all ranks, if one device has no such kernel or does not reach another's memory.
  static std::unique_ptr<PersistentSolve> make(mesh::Rank& rank, const SlabLayout& layout,
                                               MatrixView<const T> slab, Factors what);

  /// Overwrites the rank's rows of b, one column, with those of x, or, `op` being a transpose of
  /// the product, of U^T L^T (P x) = Q b; enqueued on the update queue.
  void run(runtime::Op op, MatrixView<T> b) {
    clear();
    start(op, b);
  }
  // The two parts of a run, apart for a test of a rank that fails between them.
  void clear();
  void start(runtime::Op op, MatrixView<T> b);

 private:
  using Arguments = runtime::PersistentSolveArguments<T>;
  /// Runs use two memories in turn: ranks may still be writing to that of one run when another rank
  /// clears that of the next.
  static constexpr std::size_t memories = 2;
  struct RunMemory {
    MatrixView<T> own;                        // this rank's
    std::unique_ptr<comm::PeerMemory> peers;  // that of all ranks; null: not within reach
  };

  PersistentSolve(mesh::Rank& rank, Factors what) : rank_(rank), what_(what) {}
  /// False, on all ranks, if the device of one has no such kernel.
  bool prepare(const SlabLayout& layout, MatrixView<const T> slab);
  runtime::SolveSweep sweep_over(const SolveLists& lists);

  mesh::Rank& rank_;
  Factors what_;
  Arguments arguments_;
  runtime::SolveSweep there_;  // in the order of elimination
  runtime::SolveSweep back_;   // in the opposite order
  double flops_ = 0.0;
  std::array<RunMemory, memories> memories_;
  std::size_t runs_ = 0;
};

}  // namespace shardsolve::dense
