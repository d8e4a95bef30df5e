/// Drives the parts of a Krylov solve as local calls, as the JAX package does.
#pragma once

#include "krylov/local_call.hpp"
#include "krylov/statuses.hpp"
#include "krylov/tables.hpp"
#include "runtime/host/in_caller.hpp"
#include "support/krylov_problems.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::testing::krylov_local {

using krylov::LocalCall;
using krylov::LocalLengths;
using krylov::Stage;

using Bytes = std::vector<std::int64_t>;  // aligned

template <class T>
LocalCall::Memory memory_of(std::vector<T>& memory) {
  return {memory.data(), static_cast<std::int64_t>(memory.size() * sizeof(T))};
}

/// What one device keeps.
template <Scalar T>
struct Device {
  std::vector<T> b;
  Bytes state;
  Bytes room;
  std::vector<T> parts;
  std::vector<T> hidden;
  std::array<std::vector<T>, krylov::max_shown> shown;
  std::vector<T> x;
  std::vector<krylov::Scan> scans{1};
  Bytes report;
  std::vector<RealOf<T>> figures = std::vector<RealOf<T>>(krylov::report_figures);
};

template <Scalar T>
class KrylovLocalDriver {
 public:
  /// `gpu`: by its kernels, which read from memory which of several devices it is.
  KrylovLocalDriver(const krylov_problems::System<T>& system, const krylov::Options& options,
                    std::int64_t ranks, bool jacobi, const runtime::KernelSource* gpu = nullptr)
      : system_(system), ranks_(ranks), rows_(system.n / ranks), jacobi_(jacobi), gpu_(gpu) {
    problem_ = krylov::problem_of({.method = options.method,
                                   .n = system.n,
                                   .restart = options.restart,
                                   .rtol = options.rtol.value_or(krylov::default_rtol(dtype_of<T>)),
                                   .atol = options.atol,
                                   .max_iterations = options.max_iterations,
                                   .log = true},
                                  dtype_of<T>);
    lengths_ = krylov::local_lengths(problem_, rows_, ranks);
    for (std::int64_t row = 0; row < 5; ++row) {
      for (std::int64_t r = 0; r <= ranks; ++r) {
        const std::int64_t unit =
            row == 0 ? rows_ : (row == 1 ? 0 : lengths_.length[static_cast<std::size_t>(row - 2)]);
        cut_.push_back(r * unit);
      }
    }
    for (std::int64_t r = 0; r < ranks; ++r) {
      numbers_.push_back(static_cast<std::int32_t>(r));
    }
    for (std::int64_t i = 0; i < system.n; ++i) {
      diagonal_.push_back(system.entry(i, i));
    }
  }

  krylov_problems::Answer<T> solve() {
    begin();
    const auto& stages = krylov::table_of(problem_.method).stages;
    while (!is_done()) {
      for (std::size_t at = 0; at < stages.size(); at += together(at)) {
        stages[at].kind == Stage::Kind::multiply ? multiply(stages[at])
                                                 : do_stages(stages[at], static_cast<int>(at));
      }
    }
    return end();
  }

 private:
  const krylov::LocalVectors& places() const { return krylov::local_vectors(problem_.method); }
  std::size_t place_of(int vector) const {
    const auto& shown = places().shown;
    return static_cast<std::size_t>(std::find(shown.begin(), shown.end(), vector) - shown.begin());
  }
  void run(const LocalCall& call) const {
    runtime::host::in_caller(
        nullptr, [&](const runtime::KernelSource& host, runtime::Queue& queue) {
          krylov::enqueue(gpu_ != nullptr ? *gpu_ : host, queue, call, 0, call.batch);
        });
  }
  bool is_done() const {
    return reinterpret_cast<const krylov::SolveState*>(devices_[0].state.data())->state.done != 0;
  }

  LocalCall call(std::int64_t rank, LocalCall::Step step) {
    Device<T>& device = devices_[static_cast<std::size_t>(rank)];
    LocalCall call;
    call.step = step;
    call.dtype = dtype_of<T>;
    call.problem = problem_;
    call.rows = rows_;
    call.ranks = ranks_;
    if (gpu_ != nullptr && ranks_ > 1) {
      call.rank_at = &numbers_[static_cast<std::size_t>(rank)];
    } else {
      call.rank = rank;
    }
    call.cut = cut_.data();
    call.b = memory_of(device.b);
    call.state = memory_of(device.state);
    call.room = memory_of(device.room);
    call.parts = memory_of(device.parts);
    call.hidden = memory_of(device.hidden);
    for (std::size_t v = 0; v < krylov::max_shown; ++v) {
      call.shown[v] = memory_of(device.shown[v]);
    }
    call.report = memory_of(device.report);
    call.figures = memory_of(device.figures);
    return call;
  }

  /// What a scan of a vector of each device finds, all of them.
  std::vector<krylov::Scan> scans_of(std::vector<T> Device<T>::* vector, std::int64_t from) {
    std::vector<krylov::Scan> scans;
    for (Device<T>& device : devices_) {
      LocalCall call;
      call.step = LocalCall::Step::scan;
      call.dtype = dtype_of<T>;
      call.rows = rows_;
      call.problem.n = rows_;
      call.x = {(device.*vector).data() + from, 0};
      call.scans = memory_of(device.scans);
      run(call);
      scans.push_back(device.scans[0]);
    }
    return scans;
  }

  void begin() {
    constexpr std::size_t word = sizeof(std::int32_t);
    for (std::int64_t r = 0; r < ranks_; ++r) {
      Device<T> device;
      device.b.assign(system_.b.begin() + r * rows_, system_.b.begin() + (r + 1) * rows_);
      // XLA clears nothing.
      device.state.assign(sizeof(krylov::SolveState) / sizeof(std::int64_t), -1);
      device.room.assign(static_cast<std::size_t>(lengths_.room_words) * word / 8 + 1, -1);
      device.parts.assign(static_cast<std::size_t>(lengths_.parts), T{77});
      device.hidden.assign(static_cast<std::size_t>(places().hidden_rows(problem_.cycle) * rows_),
                           T{77});
      for (auto& vector : device.shown) {
        vector.assign(static_cast<std::size_t>(rows_), T{77});
      }
      device.x.resize(static_cast<std::size_t>(rows_));
      device.report.assign(sizeof(krylov::Report) / sizeof(std::int64_t), -1);
      devices_.push_back(std::move(device));
    }
    std::vector<krylov::Scan> scans = scans_of(&Device<T>::b, 0);
    for (std::int64_t r = 0; r < ranks_; ++r) {
      LocalCall begin = call(r, LocalCall::Step::begin);
      begin.scans = memory_of(scans);
      run(begin);
    }
  }

  void multiply(const Stage& stage) {
    std::vector<T> x;
    for (const Device<T>& device : devices_) {
      const auto& own = device.shown[place_of(stage.input)];
      x.insert(x.end(), own.begin(), own.end());
    }
    for (std::int64_t r = 0; r < ranks_; ++r) {
      Device<T>& device = devices_[static_cast<std::size_t>(r)];
      const auto* const state = reinterpret_cast<krylov::SolveState*>(device.state.data());
      for (std::int64_t i = 0; i < rows_ && state->state.*stage.skip == 0; ++i) {
        T sum{};
        for (std::int64_t j = 0; j < system_.n; ++j) {
          if (const T a = system_.entry(r * rows_ + i, j); a != T{0}) {
            sum += a * x[static_cast<std::size_t>(j)];
          }
        }
        device.shown[place_of(stage.output)][static_cast<std::size_t>(i)] = sum;
      }
    }
  }

  /// Stages that need no product and no sums of others before them, from `first` on.
  std::size_t together(std::size_t first) const {
    const auto& stages = krylov::table_of(problem_.method).stages;
    std::size_t end = first + 1;
    while (stages[first].kind != Stage::Kind::multiply && end < stages.size() &&
           stages[end].kind != Stage::Kind::multiply &&
           (ranks_ == 1 || stages[end].kind != Stage::Kind::reduce)) {
      ++end;
    }
    return end - first;
  }

  void do_stages(const Stage& stage, int at) {
    std::vector<T> gathered;
    if (stage.kind == Stage::Kind::reduce && ranks_ > 1) {
      const auto reduction = static_cast<std::size_t>(stage.reduction);
      for (const Device<T>& device : devices_) {
        const auto begin = device.parts.begin() + lengths_.begin[reduction];
        gathered.insert(gathered.end(), begin, begin + lengths_.length[reduction]);
      }
    }
    for (std::int64_t r = 0; r < ranks_; ++r) {
      LocalCall one = call(r, LocalCall::Step::stages);
      one.first = at;
      one.count = static_cast<int>(together(static_cast<std::size_t>(at)));
      one.inner =
          jacobi_ ? krylov::InnerPreconditioner::jacobi : krylov::InnerPreconditioner::identity;
      one.diagonal = {diagonal_.data() + r * rows_, 0};
      one.gathered = memory_of(gathered);
      run(one);
    }
  }

  krylov_problems::Answer<T> end() {
    const auto& hidden = places().hidden;
    const auto at_x = std::find(hidden.begin(), hidden.end(), krylov::vector_x) - hidden.begin();
    std::vector<krylov::Scan> scans = scans_of(&Device<T>::hidden, at_x * rows_);
    krylov_problems::Answer<T> answer;
    for (std::int64_t r = 0; r < ranks_; ++r) {
      Device<T>& device = devices_[static_cast<std::size_t>(r)];
      LocalCall end = call(r, LocalCall::Step::end);
      end.scans = memory_of(scans);
      end.x = memory_of(device.x);
      run(end);
      answer.x.insert(answer.x.end(), device.x.begin(), device.x.end());
    }
    Device<T>& first = devices_[0];
    const auto& report = *reinterpret_cast<const krylov::Report*>(first.report.data());
    answer.result.status = static_cast<krylov::Status>(report.status);
    answer.result.message = krylov::message(report, krylov::cycle_of(problem_));
    const auto& state = reinterpret_cast<const krylov::SolveState*>(first.state.data())->state;
    const auto* const records = reinterpret_cast<const krylov::Record*>(
        reinterpret_cast<const std::int32_t*>(first.room.data()) + lengths_.record_words);
    for (std::int64_t at = 0; at < state.records; ++at) {
      const krylov::Record& record = records[at];
      answer.result.log.push_back({.iteration = record.iteration,
                                   .event = static_cast<krylov::Event>(record.event),
                                   .status = static_cast<krylov::Status>(record.status),
                                   .residual = record.residual,
                                   .rho = {record.rho.re, record.rho.im},
                                   .alpha = {record.alpha.re, record.alpha.im},
                                   .omega = {record.omega.re, record.omega.im}});
    }
    return answer;
  }

  const krylov_problems::System<T>& system_;
  std::int64_t ranks_;
  std::int64_t rows_;
  bool jacobi_;
  const runtime::KernelSource* gpu_;
  std::vector<std::int32_t> numbers_;  // of the devices
  krylov::Problem problem_;
  LocalLengths lengths_;
  std::vector<std::int64_t> cut_;
  std::vector<T> diagonal_;
  std::vector<Device<T>> devices_;
};

}  // namespace shardsolve::testing::krylov_local
