/// The rounds of a method on one rank: kernels, products and reductions in a fixed order, whatever
/// the state says that they do. Only enqueues.
#pragma once

#include "krylov/linear_operator.hpp"
#include "krylov/method_table.hpp"
#include "mesh/rank.hpp"
#include "runtime/krylov/part.hpp"
#include "runtime/krylov_kernels.hpp"

#include <shardsolve/krylov.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace shardsolve::krylov {

/// How many sums the reductions of a round have.
struct ReductionShape {
  int fixed = 0;    ///< sums of their own
  int columns = 0;  ///< sums over columns, at most
};

/// What all methods enqueue with: the state on the device, vectors by number, sums of all ranks.
template <Scalar T>
class Rounds {
 public:
  Rounds(mesh::Rank& rank, const SlabLayout& layout, const Problem& problem, LinearOperator<T>& a,
         LinearOperator<T>& m, const std::vector<ReductionShape>& reductions);

  /// Memory for vector `number`.
  MatrixView<T> add_vector(int number);
  /// Memory for `columns` of them; `number` is their first one, or the one that `which` says.
  void add_columns(int number, std::int64_t columns);
  void add_column_name(int number, int of, typename Vectors<T>::Column which);
  /// Number `output` is vector `input` from here on, if there is no preconditioner.
  void add_identity(int output, int input);
  /// Sets room.hessenberg.
  void add_hessenberg(std::int64_t numbers);

  // What needs no product and no other rank is enqueued with the next thing that does, or by
  // take_turn().

  /// One kernel; its sums belong to `reduction`.
  void run(const Program& program, int reduction);
  /// output = A input, unless the state's flag says no.
  void multiply(int input, int output, std::int32_t State::* skip);
  /// output = M input.
  void precondition(int input, int output, std::int32_t State::* skip);
  /// Sums of all ranks, and the step.
  void reduce(int reduction);

  /// Before each turn: false when an earlier one is known to have had the last round. The host
  /// waits for a turn some turns before.
  bool may_go_on();
  /// Enqueues one round by `enqueue`. With one rank and a queue that can capture (a CUDA graph),
  /// captures `ahead` rounds once and replays them.
  void take_turn(const std::function<void()>& enqueue);
  /// Waits for all.
  State state();
  std::vector<Record> records(const State& state);

 private:
  /// Rounds that are enqueued before the host looks at the flag of an earlier one.
  static constexpr std::int64_t ahead = 8;
  /// Likewise recordings, of that many rounds each.
  static constexpr std::int64_t recordings_ahead = 2;

  /// Enqueues what has been put together.
  void flush();
  /// Puts something to it, for which there is room at the latest when it is empty.
  template <class Add>
  void put(Add add);

  struct Reduction {
    std::vector<comm::Bytes> pieces;
    T* stop;  // this rank's last element
  };

  mesh::Rank& rank_;
  const runtime::KrylovKernels<T>& kernels_;
  Problem problem_;
  LinearOperator<T>& a_;
  LinearOperator<T>& m_;
  State* state_;
  StateRoom room_;
  Vectors<T> vectors_;
  std::vector<Reduction> reductions_;
  std::vector<SumTable<T>> sums_;  // of each reduction
  Part part_;
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

/// One method, by its table.
template <Scalar T>
class MethodRounds {
 public:
  /// Adds the vectors of the method beside those that all have.
  MethodRounds(const MethodTable& table, const Problem& problem, Rounds<T>& rounds);
  /// One round.
  void enqueue(Rounds<T>& rounds) const;

 private:
  const MethodTable& table_;
};

}  // namespace shardsolve::krylov
