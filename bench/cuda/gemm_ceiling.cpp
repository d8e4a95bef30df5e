// shardsolve_bench_ceiling: the rate of rank-k updates that the GPUs sustain, all of them at once.
// Power limits it, so it needs seconds, and random entries: zeros take less power.
//
// For each k one JSON line: {"k": ..., "m": ..., "tflops": [one of each GPU], ...}.

#include "bench/cuda/cuda_type.hpp"
#include "bench/cuda/device_buffer.hpp"
#include "bench/cuda/jobs.hpp"
#include "core/each_dtype.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <cublasLt.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <complex>
#include <cstddef>
#include <exception>
#include <iostream>
#include <limits>
#include <memory>
#include <thread>

namespace shardsolve::bench {
namespace {

struct CeilingOptions : GpuOptions {
  std::vector<std::int64_t> ranks = {512, 1024, 2048};
  std::int64_t m = 16384;
  double seconds = 2.0;
};

void check_lt(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw Error(ErrorKind::device, fmt::format("{}: {}", what, cublasLtGetStatusString(status)));
  }
}

/// What cuBLASLt makes is given back by a function of its own.
template <class Pointer, cublasStatus_t (*destroy)(Pointer)>
struct Destroy {
  using pointer = Pointer;
  void operator()(Pointer object) const { destroy(object); }
};
using Descriptor = std::unique_ptr<cublasLtMatmulDescOpaque_t,
                                   Destroy<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t,
                               Destroy<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>>;
using Preference =
    std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                    Destroy<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>>;

Layout make_layout(cudaDataType type, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  check_lt(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows),
                                      static_cast<std::uint64_t>(columns), rows),
           "cublasLtMatrixLayoutCreate");
  return Layout(layout);
}

/// C -= A^T B on one GPU: A and B are k x m, C is m x m. The layout of our trailing updates.
template <Scalar T>
class RankUpdate {
 public:
  RankUpdate(int device, std::int64_t m, std::int64_t k)
      : m_(m),
        k_(k),
        a_(device, k * m),
        b_(device, k * m),
        c_(device, m * m),
        workspace_(device, workspace_bytes),
        a_layout_(make_layout(cuda_type<T>(), k, m)),
        b_layout_(make_layout(cuda_type<T>(), k, m)),
        c_layout_(make_layout(cuda_type<T>(), m, m)) {
    // Off-diagonal entries: pseudo-random in [-1, 1].
    const Problem<T> entries(Kind::well_conditioned, 4 * m);
    fill(entries, device, Axis::contiguous(0), Axis::contiguous(m), MatrixView<T>(a_.data(), k, m));
    fill(entries, device, Axis::contiguous(0), Axis::contiguous(2 * m),
         MatrixView<T>(b_.data(), k, m));
    fill(entries, device, Axis::contiguous(0), Axis::contiguous(m), MatrixView<T>(c_.data(), m, m));
    select(device);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    check_lt(cublasLtCreate(&handle_), "cublasLtCreate");
    make_descriptor();
    choose();
  }
  RankUpdate(const RankUpdate&) = delete;
  RankUpdate& operator=(const RankUpdate&) = delete;
  ~RankUpdate() {
    cudaStreamSynchronize(stream_);
    cublasLtDestroy(handle_);
    cudaStreamDestroy(stream_);
  }

  double flops() const {
    const double real =
        2.0 * static_cast<double>(m_) * static_cast<double>(m_) * static_cast<double>(k_);
    return is_complex<T> ? 4.0 * real : real;
  }

  /// Runs for about this long. Returns flop/s.
  double rate(double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    double done = 0.0;
    double elapsed = 0.0;
    do {
      for (int i = 0; i < batch_; ++i) {
        enqueue(algorithm_);
      }
      check(cudaStreamSynchronize(stream_), "waiting for rank-k updates");
      done += batch_ * flops();
      elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
    } while (elapsed < seconds);
    return done / elapsed;
  }

 private:
  static constexpr std::int64_t workspace_bytes = 64 << 20;
  using Scale = T;

  void make_descriptor() {
    cublasLtMatmulDesc_t descriptor = nullptr;
    const auto compute = std::is_same_v<RealOf<T>, float> ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_64F;
    check_lt(cublasLtMatmulDescCreate(&descriptor, compute, cuda_type<T>()),
             "cublasLtMatmulDescCreate");
    descriptor_.reset(descriptor);
    const cublasOperation_t transposed = is_complex<T> ? CUBLAS_OP_C : CUBLAS_OP_T;
    check_lt(cublasLtMatmulDescSetAttribute(descriptor, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                            sizeof transposed),
             "cublasLtMatmulDescSetAttribute");
  }

  /// Takes the fastest of the algorithms that cuBLASLt proposes.
  void choose() {
    cublasLtMatmulPreference_t made = nullptr;
    check_lt(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
    const Preference preference(made);
    const std::uint64_t bytes = workspace_bytes;
    check_lt(cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                  &bytes, sizeof bytes),
             "cublasLtMatmulPreferenceSetAttribute");
    std::vector<cublasLtMatmulHeuristicResult_t> proposals(8);
    int found = 0;
    check_lt(cublasLtMatmulAlgoGetHeuristic(handle_, descriptor_.get(), a_layout_.get(),
                                            b_layout_.get(), c_layout_.get(), c_layout_.get(), made,
                                            static_cast<int>(proposals.size()), proposals.data(),
                                            &found),
             "cublasLtMatmulAlgoGetHeuristic");
    if (found == 0) {
      throw Error(ErrorKind::device, "cuBLASLt has no algorithm for this rank-k update");
    }
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < found; ++i) {
      const cublasLtMatmulAlgo_t& proposal = proposals[static_cast<std::size_t>(i)].algo;
      seconds_of(proposal);
      const double seconds = seconds_of(proposal);
      if (seconds < best) {
        best = seconds;
        algorithm_ = proposal;
      }
    }
    // Long enough that the gap at its end does not count, short enough to end in time.
    batch_ = std::max(2, static_cast<int>(0.25 / best));
  }

  double seconds_of(const cublasLtMatmulAlgo_t& algorithm) {
    constexpr int repetitions = 3;
    return time([&] {
             for (int i = 0; i < repetitions; ++i) {
               enqueue(algorithm);
             }
             check(cudaStreamSynchronize(stream_), "waiting for a rank-k update");
           }) /
           repetitions;
  }

  void enqueue(const cublasLtMatmulAlgo_t& algorithm) {
    const Scale minus_one(-1);
    const Scale one(1);
    check_lt(cublasLtMatmul(handle_, descriptor_.get(), &minus_one, a_.data(), a_layout_.get(),
                            b_.data(), b_layout_.get(), &one, c_.data(), c_layout_.get(), c_.data(),
                            c_layout_.get(), &algorithm, workspace_.data(),
                            static_cast<std::size_t>(workspace_bytes), stream_),
             "cublasLtMatmul");
  }

  std::int64_t m_;
  std::int64_t k_;
  DeviceBuffer<T> a_;
  DeviceBuffer<T> b_;
  DeviceBuffer<T> c_;
  DeviceBuffer<std::byte> workspace_;
  Layout a_layout_;
  Layout b_layout_;
  Layout c_layout_;
  Descriptor descriptor_;
  cublasLtHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  int batch_ = 1;
};

/// flop/s of each GPU, all at work at the same time.
template <Scalar T>
std::vector<double> rates(const CeilingOptions& options, std::int64_t k) {
  std::vector<double> found(options.devices.size());
  std::vector<std::exception_ptr> errors(options.devices.size());
  std::barrier together(static_cast<std::ptrdiff_t>(options.devices.size()));
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < options.devices.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          RankUpdate<T> update(options.devices[i], options.m, k);
          together.arrive_and_wait();
          // Until clock and temperature have settled.
          update.rate(options.seconds / 2);
          found[i] = update.rate(options.seconds);
        } catch (...) {
          errors[i] = std::current_exception();
          together.arrive_and_drop();
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) {
      std::rethrow_exception(error);
    }
  }
  return found;
}

void measure(const CeilingOptions& options) {
  with_dtype(options.dtype, [&]<class T>() {
    for (const std::int64_t k : options.ranks) {
      nlohmann::json line{{"k", k}, {"m", options.m}, {"dtype", name(options.dtype)}};
      for (const double rate : rates<T>(options, k)) {
        line["tflops"].push_back(rate / 1e12);
      }
      line["devices"] = describe_devices(options.devices);
      line["cublaslt"] = cublasLtGetVersion();
      std::cout << line.dump() << std::endl;
    }
  });
}

}  // namespace
}  // namespace shardsolve::bench

int main(int argc, char** argv) {
  CLI::App app("The sustained rate of rank-k updates on all GPUs at once");
  shardsolve::bench::CeilingOptions options;
  shardsolve::bench::add_gpu_options(app, options);
  app.add_option("--k", options.ranks, "Ranks of the updates")->delimiter(',');
  app.add_option("--m", options.m, "Rows of the matrix that is updated")
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "Of each measurement")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    shardsolve::bench::measure(options);
  } catch (const std::exception& error) {
    std::cerr << argv[0] << ": " << error.what() << '\n';
    return 1;
  }
}
