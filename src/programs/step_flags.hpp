/// How far the host may enqueue ahead, and how all ranks leave a loop at the same step.
#pragma once

#include "mesh/rank.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::programs {

/// Travels in front of every panel: one cache line.
struct StepHeader {
  std::int64_t pivot = 0;  ///< LAPACK's info of the diagonal tile, see CholeskyKernels::potrf
  std::int64_t stop = 0;   ///< not 0 if the owner was asked to cancel
  std::int64_t unused[6] = {};
};

/// Before it enqueues step t the host reads the header of step t - depth. In a loop with panels it
/// waits for nothing else (forward substitution waits for its sums instead). Every rank reads the
/// same header of the same step, so all go on or all leave.
class StepFlags {
 public:
  explicit StepFlags(mesh::Rank& rank);

  /// Waits for the header of step `step - depth` (none if that is negative). False if the loop is
  /// to be left.
  bool may_enqueue(std::int64_t step);
  /// Enqueues, behind the transfer of this step's message, the copy of its header to the host.
  void receive(std::int64_t step, const StepHeader* header);
  /// Waits for the headers of the steps before `steps` that were not read yet, up to the first that
  /// ends the loop. False if the loop is to be left.
  bool finish(std::int64_t steps);

  /// The first step whose header said that a pivot failed, with the header; step -1 if none.
  std::int64_t failed_step() const { return failed_step_; }
  std::int64_t pivot() const { return pivot_; }
  /// Throws Error(cancelled) if that is why the loop was left.
  void throw_if_cancelled() const;

 private:
  static constexpr std::int64_t depth = 4;
  void read(std::int64_t step);

  mesh::Rank& rank_;
  StepHeader* headers_;  // on the host, one a slot
  std::vector<runtime::Event*> arrived_;
  std::int64_t next_ = 0;  // first step whose header was not read
  std::int64_t failed_step_ = -1;
  std::int64_t pivot_ = 0;
  bool stopped_ = false;
};

}  // namespace shardsolve::programs
