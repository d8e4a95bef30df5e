/// One rank's share of the hardware: its memory, its queues and its kernels.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/queue.hpp"

namespace shardsolve::runtime {

template <Scalar T>
class Kernels;

/// Owned device memory, aligned for any element type and for whole cache lines; not initialised.
class Buffer {
 public:
  using Release = std::function<void(void*)>;

  Buffer() = default;
  Buffer(void* data, std::size_t bytes, Release release)
      : data_(data, std::move(release)), bytes_(bytes) {}

  void* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, Release> data_{nullptr, [](void*) {}};
  std::size_t bytes_ = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::unique_ptr<Queue> make_queue(const std::string& name) = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  /// Throws Error(out_of_memory).
  virtual Buffer allocate(std::size_t bytes) = 0;

  virtual const Kernels<float>& kernels(const float*) const = 0;
  virtual const Kernels<double>& kernels(const double*) const = 0;
  virtual const Kernels<std::complex<float>>& kernels(const std::complex<float>*) const = 0;
  virtual const Kernels<std::complex<double>>& kernels(const std::complex<double>*) const = 0;
};

/// A matrix with memory of its own on one device; columns are contiguous.
template <class T>
class DeviceMatrix {
 public:
  DeviceMatrix() = default;
  DeviceMatrix(Device& device, std::int64_t rows, std::int64_t columns)
      : buffer_(device.allocate(static_cast<std::size_t>(rows * columns) * sizeof(T))),
        view_(static_cast<T*>(buffer_.data()), rows, columns) {}

  MatrixView<T> view() const { return view_; }
  T* data() const { return view_.data(); }

 private:
  Buffer buffer_;
  MatrixView<T> view_;
};

}  // namespace shardsolve::runtime
