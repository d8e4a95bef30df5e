/// A queue that is a CUDA stream, and its events.
#pragma once

#include "runtime/cuda/check.hpp"
#include "runtime/cuda/wide_gemm.hpp"
#include "runtime/pulse.hpp"
#include "runtime/queue.hpp"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::runtime::cuda {

class CudaEvent final : public Event {
 public:
  /// `timed`: for elapsed times; others are cheaper.
  explicit CudaEvent(bool timed = false);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void synchronize(const WaitSite& site) override;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Makes a device current for this thread until the end of the scope: a caller's thread keeps its
/// own.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    check(cudaGetDevice(&before_), "asking for the current GPU");
    check(cudaSetDevice(device), "choosing a GPU");
  }
  ~CurrentDevice() { cudaSetDevice(before_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
};

/// cuBLAS for the queues of a device, which the same thread enqueues on. A handle for each would
/// take 67 MB for a workspace of its own, which ours replaces.
class BlasHandle {
 public:
  explicit BlasHandle(int device) : device_(device) {}
  ~BlasHandle();
  BlasHandle(const BlasHandle&) = delete;
  BlasHandle& operator=(const BlasHandle&) = delete;

  /// The handle, as what it enqueues goes to `stream` and uses `workspace`.
  cublasHandle_t select(cudaStream_t stream, void* workspace, std::size_t bytes);
  /// The stream is about to go.
  void forget(cudaStream_t stream);

 private:
  int device_;
  cublasHandle_t handle_ = nullptr;
  cudaStream_t selected_ = nullptr;
};

/// What distinguishes the queues of a device.
struct QueueOptions {
  int device = 0;
  int priority = 0;                     ///< of its stream; lower numbers go first
  std::optional<std::uint64_t> delays;  ///< seed of random delays in front of all work; for tests
  /// Not 0 when a rank has failed, as kernels see it.
  const volatile std::uint32_t* failed = nullptr;
  std::shared_ptr<BlasHandle> blas;  ///< of the device; null: one of its own
};

/// A stream of somebody else's, who keeps it; and what kernels may take as scratch there.
struct AdoptedStream {
  int device = 0;
  cudaStream_t stream = nullptr;
  void* scratch = nullptr;
  std::size_t scratch_bytes = 0;
};

/// What kernels made of several may take as scratch; where that is not enough they work in parts.
/// Of a panel that is 4096 rows of 1024 columns in float64.
inline constexpr std::size_t own_scratch = std::size_t{32} << 20U;

class CudaQueue final : public Queue {
 public:
  CudaQueue(std::string name, Pulse& pulse, const QueueOptions& options);
  /// Enqueues and does nothing else, as the stream may be under capture: no memory but what is
  /// lent, so no cuBLAS. Needs the device to be current.
  CudaQueue(std::string name, Pulse& pulse, const AdoptedStream& adopted);
  ~CudaQueue() override;
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  void record(Event& event) override;
  void wait(Event& event, const WaitSite& site) override;
  void synchronize() override;
  void store(std::int64_t* target, std::int64_t value, std::int64_t count) override;
  void clear(void* target, std::size_t bytes) override;
  void copy(void* target, const void* source, std::size_t bytes) override;
  /// A CUDA graph. Not in traced calls, whose spans are of single kernels, nor with delays, nor of
  /// an adopted stream.
  std::unique_ptr<Recording> capture(const std::function<void()>& enqueue) override;
  void repeat(Recording& recording) override;
  void set_step(std::int64_t step) override {
    step_ = step;
    ++turn_;
  }
  const std::string& name() const override { return name_; }
  void begin_call(bool tracing) override;
  std::vector<TraceSpan> take_spans() override;
  double flops() const override { return flops_; }

  /// copy(), as what a trace is told of it: `bytes` from another rank's memory, over `link`.
  void move(const char* operation, const char* link, void* target, const void* source,
            std::size_t bytes);

  cudaStream_t stream() const { return stream_; }
  const volatile std::uint32_t* failed() const { return failed_; }
  /// For this stream, with a workspace of this queue alone: its kernels' sums depend on nothing
  /// else. Until another queue of the device asks.
  cublasHandle_t blas();
  const WideGemm& wide_gemm();
  /// Memory for kernels of ours that need some beside their operands: what one kernel leaves there
  /// the next may overwrite. Kept, and made larger when more is asked for than before.
  void* scratch(std::size_t bytes);
  /// The stream is somebody else's.
  bool is_adopted() const { return blas_ == nullptr; }

  /// Enqueues what `work` enqueues on stream(), as one piece of the trace. `messages`: those it
  /// sends and receives.
  template <class Work>
  void launch(const WorkInfo& info, Work work, std::vector<TraceMessage> messages = {}) {
    begin(info, std::move(messages));
    work();
    end(info);
  }
  /// Likewise marks that order this stream and others: a piece of the trace if there are messages,
  /// and nothing else.
  template <class Work>
  void meet(const char* name, Work work, std::vector<TraceMessage> messages) {
    const bool told = !messages.empty();
    if (told) {
      begin_span({.name = name}, std::move(messages));
    }
    work();
    if (told) {
      end_span();
    }
  }
  /// Whether this call is traced.
  bool tracing() const { return tracing_; }

 private:
  struct Mark {
    WorkInfo info;
    std::int64_t step;
    std::int64_t turn;
    std::vector<TraceMessage> messages;
    std::unique_ptr<CudaEvent> begin;
    std::unique_ptr<CudaEvent> end;
  };
  /// When the stream was at an event, by the host's clock.
  struct Reading {
    std::unique_ptr<CudaEvent> event;
    std::chrono::steady_clock::time_point time;
  };
  /// Throws Error(internal) on an adopted stream.
  void require_own(const char* what) const;
  void begin(const WorkInfo& info, std::vector<TraceMessage> messages);
  void end(const WorkInfo& info);
  void begin_span(const WorkInfo& info, std::vector<TraceMessage> messages);
  void end_span();
  std::unique_ptr<CudaEvent> mark();
  Reading read_clock();

  std::string name_;
  Pulse& pulse_;
  int device_;
  const volatile std::uint32_t* failed_ = nullptr;
  std::int64_t step_ = -1;
  std::int64_t turn_ = 0;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<BlasHandle> blas_;  // none of an adopted stream
  void* blas_workspace_ = nullptr;
  std::optional<WideGemm> wide_gemm_;
  void* scratch_ = nullptr;
  std::size_t scratch_bytes_ = 0;

  std::optional<std::mt19937_64> delays_;

  bool tracing_ = false;
  Reading origin_;
  std::vector<Mark> marks_;
  double flops_ = 0.0;
};

/// What all queues of a GPU are.
inline CudaQueue& as_cuda(Queue& queue) { return static_cast<CudaQueue&>(queue); }

}  // namespace shardsolve::runtime::cuda
