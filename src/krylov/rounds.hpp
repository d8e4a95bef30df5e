/// The rounds of a method on one rank: kernels, products and reductions in a fixed order, whatever
/// the state says that they do. Only enqueues.
#pragma once

#include "krylov/linear_operator.hpp"
#include "krylov/stages.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/krylov.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::krylov {

template <Scalar T>
class Rounds final : private OtherStages {
 public:
  /// With all vectors of the method, which are 0. `exponent`: b will be worked on times 2^that.
  Rounds(mesh::Rank& rank, const SlabLayout& layout, const Problem& problem, int exponent,
         LinearOperator<T>& a, LinearOperator<T>& m);
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  MatrixView<T> vector(int number) const {
    return {memory_.vectors.base[number], memory_.vectors.rows, 1};
  }

  /// Before each turn: false when an earlier one is known to have had the last round. The host
  /// waits for a turn some turns before.
  bool may_go_on();
  /// Enqueues one round. With one rank and a queue that can capture (a CUDA graph), captures
  /// `ahead` rounds once and replays them.
  void take_turn();
  /// Waits for all.
  State state();
  std::vector<Record> records(const State& state);

 private:
  /// Rounds that are enqueued before the host looks at the flag of an earlier one.
  static constexpr std::int64_t ahead = 8;
  /// Likewise recordings, of that many rounds each.
  static constexpr std::int64_t recordings_ahead = 2;

  void add_vectors();
  void add_sums(const SlabLayout& cut);
  void add_room();
  void multiply(const Stage& stage) override;
  void reduce(int reduction) override;
  void enqueue_rounds(std::int64_t count);

  struct Reduction {
    std::vector<comm::Bytes> pieces;
    T* stop;  // this rank's last element
  };

  mesh::Rank& rank_;
  const runtime::KrylovKernels<T>& kernels_;
  Problem problem_;
  const MethodTable& table_;
  LinearOperator<T>& a_;
  LinearOperator<T>& m_;
  SolveMemory<T> memory_;
  Stages<T> stages_;
  std::vector<Reduction> reductions_;
  runtime::Event& sums_ready_;
  runtime::Event& sums_arrived_;
  std::vector<runtime::Event*> flag_arrived_;
  std::int32_t* done_;  // on the host, one a slot
  std::unique_ptr<runtime::Recording> recording_;
  bool may_capture_;
  std::int64_t turn_ = 0;
  std::int64_t round_ = 0;
  bool stop_sent_ = false;
};

}  // namespace shardsolve::krylov
