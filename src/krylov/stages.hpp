/// The one way in which stages of a method are enqueued: rank programs, calls that a device makes
/// by itself and tests all go through here.
#pragma once

#include "krylov/method_table.hpp"
#include "runtime/krylov/part.hpp"
#include "runtime/krylov/step.hpp"
#include "runtime/krylov_kernels.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardsolve::krylov {

/// Preconditioners that are kernels of a stage, and not somebody else's product.
enum class InnerPreconditioner : std::uint8_t { none, identity, jacobi };

/// What the kernels of one rank's solve work on, in device memory.
template <Scalar T>
struct SolveMemory {
  Vectors<T> vectors;
  std::array<SumTable<T>, max_reductions> sums;  ///< of each reduction: those that programs make
  State* state = nullptr;
  StateRoom room;
  InnerPreconditioner inner = InnerPreconditioner::none;
  const std::int32_t* rank_at = nullptr;  ///< the rank, as KrylovKernels take it

  /// Numbers that stand for a column of a matrix or, without a preconditioner, for a vector.
  void add_names(const MethodTable& table) {
    for (const MethodTable::ColumnName& name : table.column_names) {
      vectors.base[name.number] = vectors.base[name.of];
      vectors.stride[name.number] = vectors.stride[name.of];
      vectors.column[name.number] = name.which;
    }
    if (inner == InnerPreconditioner::identity && table.identity.output >= 0) {
      vectors.base[table.identity.output] = vectors.base[table.identity.input];
    }
  }
};

/// What a stage may need of others. Enqueued behind what the rank has done by itself.
class OtherStages {
 public:
  virtual ~OtherStages() = default;
  /// A product with A, or with an M that is no kernel's.
  virtual void multiply(const Stage& stage) = 0;
  /// The sums of several ranks, and the step.
  virtual void reduce(int reduction) = 0;
};

/// Enqueues stages on one rank. What needs no product and no other rank is put together, and goes
/// to the queue with the next stage that does, or by flush(). All arguments outlive it.
template <Scalar T>
class Stages {
 public:
  Stages(const runtime::KrylovKernels<T>& kernels, runtime::Queue& queue, const Problem& problem,
         const SolveMemory<T>& memory, OtherStages& others)
      : kernels_(kernels), queue_(queue), problem_(problem), memory_(memory), others_(others) {}

  void enqueue(const Stage& stage) {
    switch (stage.kind) {
      case Stage::Kind::run:
        put([&] { return part_.add_program(stage.program, stage.reduction); });
        break;
      case Stage::Kind::multiply:
        flush();
        others_.multiply(stage);
        break;
      case Stage::Kind::precondition:
        precondition(stage);
        break;
      case Stage::Kind::reduce:
        if (memory_.sums[static_cast<std::size_t>(stage.reduction)].layout.ranks == 1) {
          put([&] { return part_.add_end(stage.reduction); });
        } else {
          flush();
          others_.reduce(stage.reduction);
        }
        break;
    }
  }
  void flush() {
    if (!part_.empty()) {
      kernels_.run_part(queue_, problem_, part_, memory_.vectors, memory_.sums.data(),
                        memory_.state, memory_.room, memory_.rank_at);
      part_ = {};
    }
  }

 private:
  void precondition(const Stage& stage) {
    if (memory_.inner == InnerPreconditioner::none) {
      flush();
      others_.multiply(stage);
    } else if (memory_.vectors.base[stage.input] != memory_.vectors.base[stage.output]) {
      put([&] { return part_.add_division(stage.input, stage.output, unless(stage.skip)); });
    }
  }
  /// For which there is room at the latest when the part is empty.
  template <class Add>
  void put(Add add) {
    if (!add()) {
      flush();
      add();
    }
  }

  const runtime::KrylovKernels<T>& kernels_;
  runtime::Queue& queue_;
  const Problem& problem_;
  const SolveMemory<T>& memory_;
  OtherStages& others_;
  Part part_;
};

}  // namespace shardsolve::krylov
