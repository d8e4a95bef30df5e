#include "runtime/cuda/cuda_queue.hpp"

#include "runtime/cuda/stream_tools.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace shardsolve::runtime::cuda {
namespace {

/// What cuBLAS asks for on Hopper; it splits sums by what it has, so this is part of the bits.
constexpr std::size_t blas_workspace_bytes = std::size_t{32} << 20U;

CudaEvent& as_cuda(Event& event) { return static_cast<CudaEvent&>(event); }

class CudaRecording final : public Recording {
 public:
  CudaRecording(cudaGraphExec_t graph, double flops) : graph_(graph), flops_(flops) {}
  /// What is enqueued of it is done all the same.
  ~CudaRecording() override { cudaGraphExecDestroy(graph_); }
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;

  cudaGraphExec_t graph() const { return graph_; }
  double flops() const { return flops_; }

 private:
  cudaGraphExec_t graph_;
  double flops_;
};

/// What a stream captures; ends with the scope if nobody has ended it.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    // Other threads may allocate meanwhile.
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "taking work down");
  }
  ~Capture() {
    if (!ended_) {
      cudaStreamEndCapture(stream_, &graph_);
    }
    if (graph_ != nullptr) {
      cudaGraphDestroy(graph_);
    }
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  cudaGraph_t end() {
    ended_ = true;
    check(cudaStreamEndCapture(stream_, &graph_), "taking work down");
    return graph_;
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  bool ended_ = false;
};

}  // namespace

CudaEvent::CudaEvent(bool timed) {
  check(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming),
        "making an event");
}

CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }

void CudaEvent::synchronize(const WaitSite& site) {
  if (!skipped(site)) {
    check(cudaEventSynchronize(event_), "waiting for an event");
  }
}

BlasHandle::~BlasHandle() {
  if (handle_ != nullptr) {
    int before = 0;
    cudaGetDevice(&before);
    cudaSetDevice(device_);
    cublasDestroy(handle_);
    cudaSetDevice(before);
  }
}

cublasHandle_t BlasHandle::select(cudaStream_t stream, void* workspace, std::size_t bytes) {
  if (handle_ == nullptr) {
    check(cublasCreate(&handle_), "cublasCreate");
    // No lower precision than the dtype's, whatever NVIDIA_TF32_OVERRIDE or a default say.
    check(cublasSetMathMode(handle_, CUBLAS_DEFAULT_MATH), "cublasSetMathMode");
    check(cublasSetAtomicsMode(handle_, CUBLAS_ATOMICS_NOT_ALLOWED), "cublasSetAtomicsMode");
  }
  if (stream != selected_) {
    selected_ = nullptr;
    check(cublasSetStream(handle_, stream), "cublasSetStream");  // forgets the workspace
    check(cublasSetWorkspace(handle_, workspace, bytes), "cublasSetWorkspace");
    selected_ = stream;
  }
  return handle_;
}

void BlasHandle::forget(cudaStream_t stream) {
  if (stream == selected_) {
    cublasSetStream(handle_, nullptr);
    selected_ = nullptr;
  }
}

CudaQueue::CudaQueue(std::string name, Pulse& pulse, const QueueOptions& options)
    : name_(std::move(name)),
      pulse_(pulse),
      device_(options.device),
      failed_(options.failed),
      blas_(options.blas != nullptr ? options.blas : std::make_shared<BlasHandle>(options.device)) {
  const CurrentDevice scope(device_);
  // Independent of the legacy stream, which the caller's own work may be on.
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, options.priority),
        "making a stream");
  if (options.delays) {
    delays_.emplace(*options.delays);
  }
}

CudaQueue::CudaQueue(std::string name, Pulse& pulse, const AdoptedStream& adopted)
    : name_(std::move(name)),
      pulse_(pulse),
      device_(adopted.device),
      stream_(adopted.stream),
      scratch_(adopted.scratch),
      scratch_bytes_(adopted.scratch_bytes) {}

CudaQueue::~CudaQueue() {
  if (is_adopted()) {
    return;
  }
  int before = 0;
  cudaGetDevice(&before);
  cudaSetDevice(device_);
  cudaStreamSynchronize(stream_);
  blas_->forget(stream_);
  blas_.reset();
  cudaFree(blas_workspace_);
  cudaFree(scratch_);
  cudaStreamDestroy(stream_);
  cudaSetDevice(before);
}

cublasHandle_t CudaQueue::blas() {
  require_own("cuBLAS");
  if (blas_workspace_ == nullptr) {
    check(cudaMalloc(&blas_workspace_, blas_workspace_bytes), "allocating cuBLAS's workspace");
  }
  return blas_->select(stream_, blas_workspace_, blas_workspace_bytes);
}

const WideGemm& CudaQueue::wide_gemm() {
  if (!wide_gemm_) {
    wide_gemm_.emplace(blas(), blas_workspace_, blas_workspace_bytes);
  }
  return *wide_gemm_;
}

void* CudaQueue::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    require_own("more scratch memory than it was lent");
    check(cudaFree(scratch_), "releasing scratch memory");  // waits for whoever uses it
    scratch_ = nullptr;
    scratch_bytes_ = 0;
    check(cudaMalloc(&scratch_, bytes), "allocating scratch memory");
    scratch_bytes_ = bytes;
  }
  return scratch_;
}

void CudaQueue::require_own(const char* what) const {
  if (is_adopted()) {
    throw Error(ErrorKind::internal,
                fmt::format("internal: a kernel wants {} on a stream of the caller's", what));
  }
}

void CudaQueue::record(Event& event) {
  check(cudaEventRecord(as_cuda(event).get(), stream_), "recording an event");
}

void CudaQueue::wait(Event& event, const WaitSite& site) {
  if (!skipped(site)) {
    check(cudaStreamWaitEvent(stream_, as_cuda(event).get()), "waiting for an event");
  }
}

void CudaQueue::synchronize() { check(cudaStreamSynchronize(stream_), "the work of a stream"); }

void CudaQueue::store(std::int64_t* target, std::int64_t value, std::int64_t count) {
  launch({.name = "store"}, [&] { cuda::store(stream_, target, value, count); });
}

void CudaQueue::clear(void* target, std::size_t bytes) {
  if (bytes > 0) {
    launch({.name = "clear"},
           [&] { check(cudaMemsetAsync(target, 0, bytes, stream_), "clearing memory"); });
  }
}

void CudaQueue::copy(void* target, const void* source, std::size_t bytes) {
  if (bytes > 0) {
    launch({.name = "copy"}, [&] {
      check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream_), "a copy");
    });
  }
}

std::unique_ptr<Recording> CudaQueue::capture(const std::function<void()>& enqueue) {
  if (tracing_ || delays_ || is_adopted()) {
    return nullptr;
  }
  const double flops = flops_;
  Capture scope(stream_);
  enqueue();
  cudaGraphExec_t graph = nullptr;
  check(cudaGraphInstantiate(&graph, scope.end(), 0), "making a graph of work");
  return std::make_unique<CudaRecording>(graph, std::exchange(flops_, flops) - flops);
}

void CudaQueue::repeat(Recording& recording) {
  const auto& taken = static_cast<CudaRecording&>(recording);
  pulse_.beat("a graph", step_);
  check(cudaGraphLaunch(taken.graph(), stream_), "a graph of work");
  flops_ += taken.flops();
}

void CudaQueue::move(const char* operation, const char* link, void* target, const void* source,
                     std::size_t bytes) {
  launch({.name = operation, .bytes = static_cast<double>(bytes), .link = link}, [&] {
    check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream_), operation);
  });
}

void CudaQueue::begin(const WorkInfo& info, std::vector<TraceMessage> messages) {
  pulse_.beat(info.name, step_);
  if (delays_) {
    // Most work is let through: a long delay now and then changes the order of things most.
    constexpr std::int64_t longest = 400'000;
    const std::uint64_t draw = (*delays_)();
    if (draw % 4 == 0) {
      delay(stream_, static_cast<std::int64_t>((draw >> 8U) % longest));
    }
  }
  begin_span(info, std::move(messages));
}

void CudaQueue::end(const WorkInfo& info) {
  check(cudaGetLastError(), info.name);
  flops_ += info.flops;
  end_span();
}

void CudaQueue::begin_span(const WorkInfo& info, std::vector<TraceMessage> messages) {
  if (tracing_) {
    marks_.push_back({info, step_, turn_, std::move(messages), mark(), nullptr});
  }
}

void CudaQueue::end_span() {
  if (tracing_) {
    marks_.back().end = mark();
  }
}

std::unique_ptr<CudaEvent> CudaQueue::mark() {
  auto event = std::make_unique<CudaEvent>(true);
  record(*event);
  return event;
}

/// The event was passed while this waited for it: the quickest of several waits says best when.
CudaQueue::Reading CudaQueue::read_clock() {
  using Clock = std::chrono::steady_clock;
  constexpr int readings = 8;
  Reading best;
  auto shortest = Clock::duration::max();
  for (int reading = 0; reading < readings; ++reading) {
    const auto before = Clock::now();
    auto event = mark();
    synchronize();
    const auto taken = Clock::now() - before;
    if (taken < shortest) {
      shortest = taken;
      best = {std::move(event), before + taken / 2};
    }
  }
  return best;
}

void CudaQueue::begin_call(bool tracing) {
  tracing_ = tracing;
  flops_ = 0.0;
  turn_ = 0;
  marks_.clear();
  if (tracing_) {
    const CurrentDevice scope(device_);
    origin_ = read_clock();
  }
}

std::vector<TraceSpan> CudaQueue::take_spans() {
  const CurrentDevice scope(device_);
  using Milliseconds = std::chrono::duration<double, std::milli>;
  const auto since_origin = [&](const CudaEvent& event) {
    float milliseconds = 0.0F;
    check(cudaEventElapsedTime(&milliseconds, origin_.event->get(), event.get()), "reading a time");
    return Milliseconds(milliseconds);
  };
  // GPUs have clocks of their own, which drift against the host's and each other.
  const Reading last = read_clock();
  const Milliseconds by_gpu = since_origin(*last.event);
  const Milliseconds by_host = last.time - origin_.time;
  const double rate = by_gpu.count() > 0.0 ? by_host / by_gpu : 1.0;
  const auto time = [&](const CudaEvent& event) {
    return origin_.time + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                              rate * since_origin(event));
  };
  std::vector<TraceSpan> spans;
  for (Mark& mark : marks_) {
    if (mark.end) {
      TraceSpan span{mark.info.name,  time(*mark.begin), time(*mark.end), mark.info.flops,
                     mark.info.bytes, mark.step,         mark.turn,       std::move(mark.messages)};
      span.link = mark.info.link;
      spans.push_back(std::move(span));
    }
  }
  marks_.clear();
  return spans;
}

}  // namespace shardsolve::runtime::cuda
