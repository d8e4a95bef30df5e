/// Kernels of a GPU and of the host on the same operands.
#pragma once

#include "mesh/cuda_loader.hpp"
#include "runtime/cholesky_kernels.hpp"
#include "runtime/host/host_device.hpp"
#include "runtime/kernels.hpp"
#include "support/backend.hpp"
#include "support/dtypes.hpp"
#include "support/host_rank.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardsolve::testing {

template <Scalar T>
T draw(std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  if constexpr (is_complex<T>) {
    const auto re = static_cast<RealOf<T>>(uniform(random));
    return {re, static_cast<RealOf<T>>(uniform(random))};
  } else {
    return static_cast<T>(uniform(random));
  }
}

template <class V>
V conjugate(const V& value) {
  if constexpr (std::is_arithmetic_v<V>) {
    return value;
  } else {
    return std::conj(value);
  }
}

/// The larger of two errors; infinite where one is not a number.
inline double worse(double one, double other) {
  return std::isnan(one) || std::isnan(other) ? std::numeric_limits<double>::infinity()
                                              : std::max(one, other);
}

/// One device with a queue, for operands that live on the host in between.
class OneDevice {
 public:
  explicit OneDevice(std::unique_ptr<runtime::Device> device) : device_(std::move(device)) {
    device_->adopt_thread();
    queue_ = device_->make_queue("update", runtime::Priority::bulk);
  }
  runtime::Device& device() { return *device_; }
  runtime::Queue& queue() { return *queue_; }

 private:
  std::unique_ptr<runtime::Device> device_;
  std::unique_ptr<runtime::Queue> queue_;
};

/// A copy of a view on the host, and of what lies between its columns, on a GPU.
template <class V>
class OnGpu {
  using Value = std::remove_const_t<V>;

 public:
  OnGpu(OneDevice& gpu, MatrixView<V> there)
      : host_(there), memory_(gpu.device().allocate(std::max<std::size_t>(bytes(), 1))) {
    gpu.queue().copy(memory_.data(), host_.data(), bytes());
  }
  MatrixView<Value> view() const {
    return {static_cast<Value*>(memory_.data()), host_.rows(), host_.columns(), host_.stride()};
  }
  void fetch(runtime::Queue& queue) const {
    queue.copy(const_cast<Value*>(host_.data()), memory_.data(), bytes());
  }

 private:
  std::size_t bytes() const {
    return host_.empty() ? 0
                         : sizeof(V) * static_cast<std::size_t>(
                                           (host_.columns() - 1) * host_.stride() + host_.rows());
  }
  MatrixView<V> host_;
  runtime::Buffer memory_;
};

/// A rows x columns block inside a larger matrix of random numbers.
template <class V>
struct Framed {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<V> values;  // of the larger one
  static constexpr std::int64_t above = 2;
  static constexpr std::int64_t below = 3;
  static constexpr std::int64_t left = 1;
  static constexpr std::int64_t right = 2;

  std::int64_t stride() const { return rows + above + below; }
  std::size_t place(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(i + above + (j + left) * stride());
  }
  V& operator()(std::int64_t i, std::int64_t j) { return values[place(i, j)]; }
  const V& operator()(std::int64_t i, std::int64_t j) const { return values[place(i, j)]; }
  bool inside(std::size_t index) const {
    const std::int64_t i = static_cast<std::int64_t>(index) % stride() - above;
    const std::int64_t j = static_cast<std::int64_t>(index) / stride() - left;
    return i >= 0 && i < rows && j >= 0 && j < columns;
  }
};

template <Scalar T>
Framed<T> framed(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  Framed<T> frame{rows, columns, {}};
  std::mt19937_64 random(seed);
  frame.values.resize(
      static_cast<std::size_t>(frame.stride() * (columns + frame.left + frame.right)));
  for (T& value : frame.values) {
    value = draw<T>(random);
  }
  return frame;
}

template <Scalar T>
class DeviceKernelsTest : public ::testing::Test {
 protected:
  using Real = RealOf<T>;
  using Operands = std::vector<MatrixView<T>>;
  using Call = std::function<void(const runtime::Kernels<T>&, runtime::Queue&, const Operands&)>;

  void SetUp() override {
    if (test_gpus().empty()) {
      GTEST_SKIP() << "no GPU: set SHARDSOLVE_TEST_GPUS";
    }
    backend_ = mesh::make_cuda_backend({.devices = {test_gpus().front()}, .delays = {}});
    host_ = std::make_unique<OneDevice>(
        std::make_unique<runtime::host::HostDevice>(host_rank_.pulse()));
    gpu_ = std::make_unique<OneDevice>(backend_->make_device(0, gpu_rank_.pulse()));
  }

  const runtime::Kernels<T>& kernels(OneDevice& side) {
    return side.device().kernels<runtime::Kernels<T>>();
  }
  /// Of the side whose queue it is.
  const runtime::CholeskyKernels<T>& cholesky(const runtime::Queue& queue) {
    OneDevice& side = &queue == &gpu_->queue() ? *gpu_ : *host_;
    return side.device().kernels<runtime::CholeskyKernels<T>>();
  }

  /// The frames after `call` on one side.
  std::vector<Framed<T>> after(OneDevice& side, std::vector<Framed<T>> frames, const Call& call) {
    std::vector<runtime::Buffer> memory;
    Operands operands;
    for (const Framed<T>& frame : frames) {
      const std::size_t bytes = frame.values.size() * sizeof(T);
      memory.push_back(side.device().allocate(bytes));
      side.queue().copy(memory.back().data(), frame.values.data(), bytes);
      operands.emplace_back(static_cast<T*>(memory.back().data()) + frame.place(0, 0), frame.rows,
                            frame.columns, frame.stride());
    }
    call(kernels(side), side.queue(), operands);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      side.queue().copy(frames[i].values.data(), memory[i].data(),
                        frames[i].values.size() * sizeof(T));
    }
    side.queue().synchronize();
    host_rank_.rethrow();
    return frames;
  }

  /// `depth`: how many terms a sum has; 0 where results are to be the same bits.
  void expect_alike(const std::vector<Framed<T>>& frames, std::int64_t depth, const Call& call) {
    const auto expected = after(*host_, frames, call);
    const auto found = after(*gpu_, frames, call);
    for (std::size_t f = 0; f < frames.size(); ++f) {
      double worst = 0.0;
      for (std::size_t i = 0; i < frames[f].values.size(); ++i) {
        const T a = expected[f].values[i];
        const T b = found[f].values[i];
        if (!frames[f].inside(i) || expected[f].values[i] == frames[f].values[i]) {
          ASSERT_EQ(b, a) << "operand " << f << ", place " << i << ": not to be touched";
        } else if (depth == 0) {
          ASSERT_EQ(b, a) << "operand " << f << ", place " << i;
        } else {
          const double difference = std::abs(a - b);
          worst = worse(worst, difference);
        }
      }
      EXPECT_LE(worst, 8.0 * unit_roundoff<T> * static_cast<double>(depth)) << "operand " << f;
    }
  }

  HostRank host_rank_;
  HostRank gpu_rank_;
  std::unique_ptr<mesh::Backend> backend_;
  std::unique_ptr<OneDevice> host_;
  std::unique_ptr<OneDevice> gpu_;
};

}  // namespace shardsolve::testing
