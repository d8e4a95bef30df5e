/// One process of cuSOLVERMp: its GPU, its place in the grid, and its part of a matrix.
#pragma once

#include "bench/cuda/axis.hpp"
#include "bench/cuda/check.hpp"
#include "bench/cuda/cuda_type.hpp"
#include "bench/cuda/device_buffer.hpp"
#include "bench/cuda/jobs.hpp"
#include "bench/cuda/team.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/matrix_view.hpp>

#include <fmt/format.h>

#include <cusolverMp.h>
#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardsolve::bench {

struct MpOptions : GpuOptions {
  int grid_rows = 0;  // 0 asks for the squarest grid
};

inline void check_nccl(ncclResult_t status, const char* what) {
  if (status != ncclSuccess) {
    throw Error(ErrorKind::communication, fmt::format("{}: {}", what, ncclGetErrorString(status)));
  }
}

/// The largest divisor of `size` up to its square root: 1 x 2, 2 x 2, 2 x 4.
inline int squarest_rows(int size) {
  int rows = 1;
  for (int candidate = 2; candidate * candidate <= size; ++candidate) {
    rows = size % candidate == 0 ? candidate : rows;
  }
  return rows;
}

/// This process, its GPU and its place in the grid.
class MpProcess {
 public:
  MpProcess(Team& team, const MpOptions& options)
      : device_(options.devices.at(static_cast<std::size_t>(team.rank()))), rank_(team.rank()) {
    rows_ = options.grid_rows > 0 ? options.grid_rows : squarest_rows(team.size());
    columns_ = team.size() / rows_;
    if (rows_ * columns_ != team.size()) {
      throw Error(
          ErrorKind::invalid_argument,
          fmt::format("{} grid rows given; they have to divide {} GPUs", rows_, team.size()));
    }
    select(device_);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    ncclUniqueId id{};
    if (team.leads()) {
      check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    }
    team.share(&id, sizeof id);
    check_nccl(ncclCommInitRank(&communicator_, team.size(), id, rank_), "ncclCommInitRank");
    check(cusolverMpCreate(&handle_, device_, stream_), "cusolverMpCreate");
    check(cusolverMpCreateDeviceGrid(handle_, &grid_, communicator_, rows_, columns_,
                                     CUSOLVERMP_GRID_MAPPING_COL_MAJOR),
          "cusolverMpCreateDeviceGrid");
    number_ = DeviceBuffer<std::int64_t>(device_, 1);
  }
  MpProcess(const MpProcess&) = delete;
  MpProcess& operator=(const MpProcess&) = delete;
  ~MpProcess() {
    cusolverMpDestroyGrid(grid_);
    cusolverMpDestroy(handle_);
    ncclCommDestroy(communicator_);
    cudaStreamDestroy(stream_);
  }

  int device() const { return device_; }
  bool leads() const { return rank_ == 0; }
  int grid_rows() const { return rows_; }
  int grid_columns() const { return columns_; }
  cusolverMpHandle_t handle() const { return handle_; }
  cusolverMpGrid_t grid() const { return grid_; }

  Axis rows(std::int64_t block) const { return Axis::cyclic(block, rows_, rank_ % rows_); }
  Axis columns(std::int64_t block) const { return Axis::cyclic(block, columns_, rank_ / rows_); }

  void wait() const { check(cudaStreamSynchronize(stream_), "waiting for cuSOLVERMp"); }

  /// The largest of all processes' numbers; also a barrier.
  std::int64_t largest(std::int64_t number) {
    select(device_);
    check(cudaMemcpy(number_.data(), &number, sizeof number, cudaMemcpyHostToDevice),
          "copying a number to the GPU");
    check_nccl(ncclAllReduce(number_.data(), number_.data(), 1, ncclInt64, ncclMax, communicator_,
                             stream_),
               "ncclAllReduce");
    wait();
    return number_.read(1).front();
  }

  /// Adds the values of all processes; values on the host.
  template <class Real>
  void add_up(Real* values, std::int64_t count) {
    select(device_);
    const DeviceBuffer<Real> there(device_, std::vector<Real>(values, values + count));
    check_nccl(ncclAllReduce(there.data(), there.data(), static_cast<std::size_t>(count),
                             std::is_same_v<Real, float> ? ncclFloat32 : ncclFloat64, ncclSum,
                             communicator_, stream_),
               "ncclAllReduce");
    wait();
    const std::vector<Real> sums = there.read(count);
    std::copy(sums.begin(), sums.end(), values);
  }

 private:
  int device_;
  int rank_;
  int rows_ = 1;
  int columns_ = 1;
  cudaStream_t stream_ = nullptr;
  ncclComm_t communicator_ = nullptr;
  cusolverMpHandle_t handle_ = nullptr;
  cusolverMpGrid_t grid_ = nullptr;
  DeviceBuffer<std::int64_t> number_;
};

/// Memory that cuSOLVERMp can send from without copying; as much in every process.
class MpMemory {
 public:
  MpMemory() = default;
  MpMemory(MpProcess& process, std::size_t bytes)
      : grid_(process.grid()),
        bytes_(static_cast<std::size_t>(process.largest(static_cast<std::int64_t>(bytes)))) {
    if (bytes_ > 0) {
      check(cusolverMpMalloc(grid_, &data_, bytes_), "cusolverMpMalloc");
    }
  }
  MpMemory(MpMemory&& other) noexcept { *this = std::move(other); }
  MpMemory& operator=(MpMemory&& other) noexcept {
    std::swap(grid_, other.grid_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MpMemory() {
    if (data_ != nullptr) {
      cusolverMpFree(grid_, data_);
    }
  }

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  cusolverMpGrid_t grid_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// This process's part of a 2-D block-cyclic matrix of square blocks.
template <class T>
class MpMatrix {
 public:
  MpMatrix(MpProcess& process, std::int64_t rows, std::int64_t columns, std::int64_t tile)
      : rows_(process.rows(tile)),
        columns_(process.columns(tile)),
        size_(rows, columns),
        tile_(tile),
        // The first row and column of the grid have most.
        stride_(Axis::cyclic(tile, process.grid_rows(), 0).count(rows)),
        memory_(process,
                sizeof(T) *
                    static_cast<std::size_t>(
                        stride_ * Axis::cyclic(tile, process.grid_columns(), 0).count(columns))) {
    check(cusolverMpCreateMatrixDesc(&descriptor_, process.grid(), cuda_type<T>(), rows, columns,
                                     tile, tile, 0, 0, stride_),
          "cusolverMpCreateMatrixDesc");
  }
  MpMatrix(const MpMatrix&) = delete;
  MpMatrix& operator=(const MpMatrix&) = delete;
  ~MpMatrix() { cusolverMpDestroyMatrixDesc(descriptor_); }

  cusolverMpMatrixDescriptor_t descriptor() const { return descriptor_; }
  T* data() const { return static_cast<T*>(memory_.data()); }
  std::size_t bytes() const { return memory_.bytes(); }
  Axis rows() const { return rows_; }
  Axis columns() const { return columns_; }
  std::int64_t width() const { return size_.second; }
  std::int64_t tile() const { return tile_; }
  std::int64_t stride() const { return stride_; }
  MatrixView<T> local() const {
    return MatrixView<T>(data(), rows_.count(size_.first), columns_.count(size_.second), stride_);
  }

 private:
  Axis rows_;
  Axis columns_;
  std::pair<std::int64_t, std::int64_t> size_;
  std::int64_t tile_;
  std::int64_t stride_;
  MpMemory memory_;
  cusolverMpMatrixDescriptor_t descriptor_ = nullptr;
};

}  // namespace shardsolve::bench
