/// The GPU's kernels of Krylov solves and of products with sparse matrices, emulated, as sets that
/// algorithms use: what runtime/cuda/krylov_kernels.cpp and sparse_kernels.cpp are, on queues of
/// the CPU.
#pragma once

#include "runtime/cuda/krylov_device_kernels.hpp"
#include "runtime/cuda/sparse_device_kernels.hpp"
#include "runtime/host/host_queue.hpp"
#include "runtime/kernel_set.hpp"
#include "runtime/krylov_kernels.hpp"
#include "runtime/sparse_kernels.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::testing {

template <Scalar T>
class EmulatedKrylovKernels : public runtime::KrylovKernels<T> {
  using Own = runtime::cuda::KrylovDeviceKernels<runtime::cuda::Element<T>>;
  using Queue = runtime::Queue;
  using Info = runtime::WorkInfo;
  using Scan = runtime::Scan;
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;
  using Skip = const std::int32_t*;
  using Rank = const std::int32_t*;
  using Problem = krylov::Problem;
  using Vectors = krylov::Vectors<T>;
  using SumTable = krylov::SumTable<T>;

 protected:
  void do_scan(Queue& queue, const Info& info, In x, Scan* result) const override {
    enqueue(queue, info, [=] {
      std::vector<std::byte> scratch(Own::scan_scratch());
      Own::scan(nullptr, elements(x), result, scratch.data());
    });
  }
  void do_scale_exactly(Queue& queue, const Info& info, int exponent, In source,
                        Out target) const override {
    enqueue(queue, info,
            [=] { Own::scale_exactly(nullptr, exponent, elements(source), elements(target)); });
  }
  void do_begin_solve(Queue& queue, const Info& info, const Problem& problem, const Scan* of_b,
                      const Scan* of_x, const std::int64_t* boundaries, std::int64_t ranks,
                      krylov::SolveState* solve) const override {
    enqueue(queue, info,
            [=] { Own::begin_solve(nullptr, problem, of_b, of_x, boundaries, ranks, solve); });
  }
  void do_end_solve(Queue& queue, const Info& info, const Problem& problem, const Scan* of_x,
                    std::int64_t ranks, krylov::SolveState* solve, krylov::Report* report,
                    RealOf<T>* figures) const override {
    enqueue(queue, info,
            [=] { Own::end_solve(nullptr, problem, of_x, ranks, solve, report, figures); });
  }
  void do_scale_for(Queue& queue, const Info& info, krylov::Way way,
                    const krylov::SolveState* solve, In source, Out target) const override {
    enqueue(queue, info,
            [=] { Own::scale_for(nullptr, way, solve, elements(source), elements(target)); });
  }
  void do_run(Queue& queue, const Info& info, const krylov::Program& program,
              const Vectors& vectors, const krylov::State* state, const krylov::StateRoom& room,
              const SumTable& sums, Rank rank) const override {
    enqueue(queue, info, [=] {
      Own::run(nullptr, program, elements(vectors), state, room, elements(sums), rank);
    });
  }
  bool do_run_part(Queue& queue, const Problem& problem, const krylov::Part& part,
                   const Vectors& vectors, const SumTable* sums, krylov::State* state,
                   const krylov::StateRoom& room, Rank rank) const override {
    std::array<krylov::SumTable<runtime::cuda::Element<T>>, krylov::max_reductions> tables;
    const int reductions = krylov::reductions_of(problem.method);
    for (int reduction = 0; reduction < reductions; ++reduction) {
      tables.at(static_cast<std::size_t>(reduction)) = elements(sums[reduction]);
    }
    if (Own::fits_part(part, elements(vectors), tables.front())) {
      enqueue(queue, {.name = "part"}, [=] {
        Own::run_part(nullptr, problem, part, elements(vectors), tables.data(), reductions, state,
                      room);
      });
      return true;
    }
    runtime::cuda::in_turn(
        part, elements(vectors), tables.data(), room,
        [&](const krylov::Program& program, int reduction) {
          this->run(queue, program, vectors, state, room, sums[reduction], rank);
        },
        [&](int reduction) {
          this->finish(queue, problem, reduction, sums[reduction], state, room);
        },
        [&](const krylov::Program& program, int reduction) {
          enqueue(queue, {.name = program.name}, [=] {
            Own::run_to_end(nullptr, problem, program, elements(vectors), reduction,
                            tables.at(static_cast<std::size_t>(reduction)), state, room);
          });
        });
    return true;
  }
  void do_finish(Queue& queue, const Info& info, const Problem& problem, int reduction,
                 const SumTable& sums, krylov::State* state,
                 const krylov::StateRoom& room) const override {
    enqueue(queue, info,
            [=] { Own::finish(nullptr, problem, reduction, elements(sums), state, room); });
  }
  void do_divide_rows(Queue& queue, const Info& info, In diagonal, In source, Out target,
                      Skip skip) const override {
    enqueue(queue, info, [=] {
      Own::divide_rows(nullptr, elements(diagonal), elements(source), elements(target), skip);
    });
  }
  void do_combine(Queue& queue, const Info& info, RealOf<T> a, In x, RealOf<T> b, Out y,
                  Skip skip) const override {
    enqueue(queue, info, [=] { Own::combine(nullptr, a, elements(x), b, elements(y), skip); });
  }
  void do_solve_blocks(Queue& queue, const Info& info, const krylov::BlockFactors<T>& factors,
                       In source, Out work, std::int64_t first, Out target, Skip skip,
                       Rank rank) const override {
    enqueue(queue, info, [=] {
      Own::solve_blocks(nullptr, elements(factors), elements(source), elements(work), first,
                        elements(target), skip, rank);
    });
  }

 private:
  template <class Work>
  static void enqueue(Queue& queue, const Info& info, Work work) {
    static_cast<runtime::host::HostQueue&>(queue).launch(info, work);
  }
  template <class Given>
  static auto elements(const Given& given) {
    return runtime::cuda::elements(given);
  }
};

template <Scalar T>
class EmulatedSparseKernels final : public runtime::SparseKernels<T> {
  using Own = runtime::cuda::SparseDeviceKernels<runtime::cuda::Element<T>>;

 protected:
  void do_pack(runtime::Queue& queue, const runtime::WorkInfo& info,
               MatrixView<const std::int32_t> places, MatrixView<const T> x,
               MatrixView<T> packed) const override {
    static_cast<runtime::host::HostQueue&>(queue).launch(info, [=] {
      Own::pack(nullptr, places.data(), places.rows(), runtime::cuda::elements(x).data(),
                runtime::cuda::elements(packed).data());
    });
  }
  void do_multiply(runtime::Queue& queue, const runtime::WorkInfo& info,
                   const runtime::SparseRows<T>& a, const runtime::RowChoice& chosen,
                   MatrixView<const T> x, MatrixView<const T> halo, MatrixView<T> y,
                   const std::int32_t* done, const std::int32_t* rank) const override {
    static_cast<runtime::host::HostQueue&>(queue).launch(info, [=] {
      Own::multiply(nullptr, runtime::cuda::elements(a), chosen, runtime::cuda::elements(x).data(),
                    halo.empty() ? nullptr : runtime::cuda::elements(halo).data(),
                    runtime::cuda::elements(y).data(), done, rank);
    });
  }
};

/// Those sets of a GPU, and no others.
template <Scalar T>
class EmulatedKrylovDevice final : public runtime::KernelSource {
 public:
  const void* find_kernels(runtime::KernelSet set, Dtype dtype) const override {
    if (dtype != dtype_of<T>) {
      return nullptr;
    }
    switch (set) {
      case runtime::KernelSet::krylov:
        return static_cast<const runtime::KrylovKernels<T>*>(&krylov_);
      case runtime::KernelSet::sparse:
        return static_cast<const runtime::SparseKernels<T>*>(&sparse_);
      default:
        return nullptr;
    }
  }

 private:
  EmulatedKrylovKernels<T> krylov_;
  EmulatedSparseKernels<T> sparse_;
};

}  // namespace shardsolve::testing
