/// Solves for one right-hand side where the backend does it in one kernel a device.
#pragma once

#include "comm/communicator.hpp"
#include "mesh/rank.hpp"
#include "runtime/cholesky_kernels.hpp"
#include "runtime/persistent_solve.hpp"

#include <shardsolve/slab_layout.hpp>

#include <array>
#include <cstddef>
#include <memory>

namespace shardsolve::dense::cholesky {

/// L L^H (P x) = P b with the rank's slab of the factor. LAPACK: potrs.
template <Scalar T>
class PersistentSolve {
 public:
  /// Null, on all ranks, if the backend has no such kernel or the devices do not reach each other's
  /// memory.
  static std::unique_ptr<PersistentSolve> make(mesh::Rank& rank, const SlabLayout& layout,
                                               MatrixView<const T> slab);

  /// Overwrites the rank's rows of b, one column, with those of x; enqueued on the update queue.
  void run(MatrixView<T> b) {
    clear();
    start(b);
  }
  // The two parts of a run, apart for a test of a rank that fails between them.
  void clear();
  void start(MatrixView<T> b);

 private:
  using Arguments = runtime::PersistentSolveArguments<T>;
  /// Runs use two memories in turn: ranks may still be writing to that of one run when another rank
  /// clears that of the next.
  static constexpr std::size_t memories = 2;
  struct RunMemory {
    MatrixView<T> own;                        // this rank's
    std::unique_ptr<comm::PeerMemory> peers;  // that of all ranks; null: not within reach
  };

  PersistentSolve(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab);
  void list_blocks(const SlabLayout& layout, std::int64_t max_rows);

  mesh::Rank& rank_;
  Arguments arguments_;
  double flops_ = 0.0;
  std::array<RunMemory, memories> memories_;
  std::size_t runs_ = 0;
};

}  // namespace shardsolve::dense::cholesky
