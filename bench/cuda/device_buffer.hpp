/// Memory of one GPU.
#pragma once

#include "bench/cuda/check.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::bench {

/// `count` elements in the memory of one device, given back at the end. Not initialised.
template <class T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(int device, std::int64_t count) : memory_(nullptr, Free{device}) {
    if (count > 0) {
      select(device);
      void* data = nullptr;
      check(cudaMalloc(&data, static_cast<std::size_t>(count) * sizeof(T)), "cudaMalloc");
      memory_.reset(static_cast<T*>(data));
    }
  }
  DeviceBuffer(int device, const std::vector<T>& values)
      : DeviceBuffer(device, static_cast<std::int64_t>(values.size())) {
    select(device);
    check(cudaMemcpy(data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
          "copying to a GPU");
  }

  T* data() const { return memory_.get(); }

  std::vector<T> read(std::int64_t count) const {
    std::vector<T> values(static_cast<std::size_t>(count));
    check(cudaMemcpy(values.data(), data(), values.size() * sizeof(T), cudaMemcpyDeviceToHost),
          "copying from a GPU");
    return values;
  }
  void clear(std::int64_t count) {
    check(cudaMemset(data(), 0, static_cast<std::size_t>(count) * sizeof(T)), "clearing memory");
  }

 private:
  struct Free {
    int device = 0;
    // A failure here would hide the one that led to it.
    void operator()(T* data) const {
      cudaSetDevice(device);
      cudaFree(data);
    }
  };
  std::unique_ptr<T, Free> memory_;
};

/// How much memory a program holds on the device where it holds most. Others use the devices too,
/// but never during a request to this program: the difference over a request is its own.
class MemoryMeter {
 public:
  explicit MemoryMeter(std::vector<int> devices);

  /// Before a request.
  void begin() { before_ = free(); }
  /// After its call, whose memory is still held. Returns the bytes held now on the fullest device.
  std::int64_t end();
  /// The most that end() ever returned.
  std::int64_t peak() const { return peak_; }

 private:
  std::vector<std::int64_t> free() const;

  std::vector<int> devices_;
  std::vector<std::int64_t> before_;
  std::vector<std::int64_t> held_;
  std::int64_t peak_ = 0;
};

}  // namespace shardsolve::bench
