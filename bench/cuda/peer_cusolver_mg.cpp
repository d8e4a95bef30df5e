// shardsolve_bench_cusolver_mg: times cuSOLVERMg (potrf, potrs, potri) on the GPUs of one process.

#include "bench/cuda/cuda_type.hpp"
#include "bench/cuda/jobs.hpp"

#include <fmt/format.h>

// The whole library is marked deprecated; it is still the one that comes with CUDA.
#define DISABLE_CUSOLVERMG_DEPRECATED
#include <cusolverMg.h>

#include <algorithm>
#include <complex>

namespace shardsolve::bench {
namespace {

/// A matrix in the layout of cuSOLVERMg: all rows, and every ranks-th block of `tile` columns.
template <class T>
class MgMatrix {
 public:
  MgMatrix(cudaLibMgGrid_t grid, const std::vector<int>& devices, std::int64_t rows,
           std::int64_t columns, std::int64_t tile)
      : devices_(devices), rows_(rows), columns_(columns), tile_(tile) {
    const auto ranks = static_cast<std::int64_t>(devices.size());
    check(cusolverMgCreateMatrixDesc(&descriptor_, rows, columns, rows, tile, cuda_type<T>(), grid),
          "cusolverMgCreateMatrixDesc");
    // It writes whole blocks, and expects as many on each device.
    const std::int64_t blocks = (columns + tile - 1) / tile;
    const std::int64_t own_blocks = (blocks + ranks - 1) / ranks;
    for (const int device : devices) {
      memory_.emplace_back(device, rows * tile * own_blocks);
      pointers_.push_back(memory_.back().data());
    }
  }
  MgMatrix(const MgMatrix&) = delete;
  MgMatrix& operator=(const MgMatrix&) = delete;
  ~MgMatrix() { cusolverMgDestroyMatrixDesc(descriptor_); }

  cudaLibMgMatrixDesc_t descriptor() const { return descriptor_; }
  void** pointers() { return pointers_.data(); }
  std::int64_t columns() const { return columns_; }
  std::int64_t tile() const { return tile_; }

  Axis axis(std::size_t rank) const {
    return Axis::cyclic(tile_, static_cast<std::int64_t>(devices_.size()),
                        static_cast<std::int64_t>(rank));
  }
  MatrixView<T> local(std::size_t rank) const {
    return MatrixView<T>(memory_[rank].data(), rows_, axis(rank).count(columns_));
  }

 private:
  std::vector<int> devices_;
  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t tile_;
  cudaLibMgMatrixDesc_t descriptor_ = nullptr;
  std::vector<DeviceBuffer<T>> memory_;
  std::vector<void*> pointers_;
};

/// Memory of one routine, in elements on each device; grows and is kept.
template <class T>
class MgWorkspace {
 public:
  void require(const std::vector<int>& devices, std::int64_t elements) {
    if (elements <= elements_) {
      return;
    }
    clear();
    for (const int device : devices) {
      memory_.emplace_back(device, elements);
      pointers_.push_back(memory_.back().data());
    }
    elements_ = elements;
  }
  void clear() {
    memory_.clear();
    pointers_.clear();
    elements_ = 0;
  }
  void** pointers() { return pointers_.data(); }
  std::int64_t elements() const { return elements_; }

 private:
  std::vector<DeviceBuffer<T>> memory_;
  std::vector<void*> pointers_;
  std::int64_t elements_ = 0;
};

void enable_peer_access(const std::vector<int>& devices) {
  for (const int device : devices) {
    select(device);
    for (const int peer : devices) {
      int possible = 0;
      check(cudaDeviceCanAccessPeer(&possible, device, peer), "cudaDeviceCanAccessPeer");
      if (peer != device && possible != 0) {
        const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
        if (status != cudaErrorPeerAccessAlreadyEnabled) {
          check(status, "cudaDeviceEnablePeerAccess");
        }
      }
    }
  }
}

template <class T>
class CusolverMg final : public Solver<T> {
 public:
  CusolverMg(const GpuOptions& options, Problem<T> problem)
      : devices_(options.devices),
        n_(problem.n),
        problem_(problem),
        tile_(options.tile > 0 ? options.tile : 512) {
    const int count = static_cast<int>(devices_.size());
    check(cusolverMgCreate(&handle_), "cusolverMgCreate");
    check(cusolverMgDeviceSelect(handle_, count, devices_.data()), "cusolverMgDeviceSelect");
    enable_peer_access(devices_);
    check(cusolverMgCreateDeviceGrid(&grid_, 1, count, devices_.data(),
                                     CUDALIBMG_GRID_MAPPING_COL_MAJOR),
          "cusolverMgCreateDeviceGrid");
  }
  ~CusolverMg() override {
    release();
    cusolverMgDestroyGrid(grid_);
    cusolverMgDestroy(handle_);
  }

  nlohmann::json hello() const override {
    int version = 0;
    check(cusolverGetVersion(&version), "cusolverGetVersion");
    return {{"program", fmt::format("cuSOLVERMg {}", version)},
            {"jobs", {"factor", "solve", "solve_many", "one_call", "inverse"}},
            {"libraries", {{"cusolver", version}}}};
  }
  std::int64_t default_tile() const override { return tile_; }

  void fill_matrix(std::int64_t tile) override {
    if (!a_ || a_->tile() != tile) {
      release();
      a_ = std::make_unique<MgMatrix<T>>(grid_, devices_, n_, n_, tile);
      std::int64_t elements = 0;
      check(cusolverMgPotrf_bufferSize(handle_, lower, size(), a_->pointers(), 1, 1,
                                       a_->descriptor(), type, &elements),
            "cusolverMgPotrf_bufferSize");
      workspace_.require(devices_, elements);
    }
    for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
      fill(problem_, devices_[rank], Axis::contiguous(0), a_->axis(rank), a_->local(rank));
    }
  }

  void fill_right_hand_sides(std::int64_t columns) override {
    if (!b_ || b_->columns() != columns) {
      b_.reset();
      b_ = std::make_unique<MgMatrix<T>>(grid_, devices_, n_, columns,
                                         std::min(a_->tile(), columns));
      std::int64_t elements = 0;
      check(cusolverMgPotrs_bufferSize(handle_, lower, size(), static_cast<int>(columns),
                                       a_->pointers(), 1, 1, a_->descriptor(), b_->pointers(), 1, 1,
                                       b_->descriptor(), type, &elements),
            "cusolverMgPotrs_bufferSize");
      workspace_.require(devices_, elements);
    }
    for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
      bench::fill_right_hand_sides(problem_, devices_[rank], Axis::contiguous(0), b_->axis(rank),
                                   b_->local(rank));
    }
  }

  void factor() override {
    int info = 0;
    check(cusolverMgPotrf(handle_, lower, size(), a_->pointers(), 1, 1, a_->descriptor(), type,
                          workspace_.pointers(), workspace_.elements(), &info),
          "cusolverMgPotrf");
    finish(info, "cusolverMgPotrf");
  }
  void solve() override {
    int info = 0;
    check(cusolverMgPotrs(handle_, lower, size(), static_cast<int>(b_->columns()), a_->pointers(),
                          1, 1, a_->descriptor(), b_->pointers(), 1, 1, b_->descriptor(), type,
                          workspace_.pointers(), workspace_.elements(), &info),
          "cusolverMgPotrs");
    finish(info, "cusolverMgPotrs");
  }
  void factor_and_invert() override {
    factor();
    std::int64_t elements = 0;
    check(cusolverMgPotri_bufferSize(handle_, lower, size(), a_->pointers(), 1, 1, a_->descriptor(),
                                     type, &elements),
          "cusolverMgPotri_bufferSize");
    workspace_.require(devices_, elements);
    int info = 0;
    check(cusolverMgPotri(handle_, lower, size(), a_->pointers(), 1, 1, a_->descriptor(), type,
                          workspace_.pointers(), workspace_.elements(), &info),
          "cusolverMgPotri");
    finish(info, "cusolverMgPotri");
  }

  std::vector<T> solution() override {
    std::vector<T> x(static_cast<std::size_t>(n_ * b_->columns()));
    for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
      const MatrixView<T> local = b_->local(rank);
      for (std::int64_t column = 0; column < local.columns(); ++column) {
        T* to = x.data() + n_ * b_->axis(rank).global(column);
        check(cudaMemcpy(to, &local(0, column), static_cast<std::size_t>(n_) * sizeof(T),
                         cudaMemcpyDeviceToHost),
              "reading the solution");
      }
    }
    return x;
  }
  double inverse_residual() override {
    std::vector<Part<T>> parts;
    for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
      parts.push_back({devices_[rank], Axis::contiguous(0), a_->axis(rank), a_->local(rank)});
    }
    return inverse_ratio(problem_, devices_, parts, Triangle::lower);
  }

  void release() override {
    b_.reset();
    a_.reset();
    workspace_.clear();
  }

 private:
  static constexpr cudaDataType type = cuda_type<T>();
  static constexpr cublasFillMode_t lower = CUBLAS_FILL_MODE_LOWER;

  int size() const { return static_cast<int>(n_); }
  void finish(int info, const char* routine) const {
    for (const int device : devices_) {
      synchronize(device);
    }
    require_zero(info, routine);
  }

  std::vector<int> devices_;
  std::int64_t n_;
  Problem<T> problem_;
  std::int64_t tile_;
  cusolverMgHandle_t handle_ = nullptr;
  cudaLibMgGrid_t grid_ = nullptr;
  std::unique_ptr<MgMatrix<T>> a_;
  std::unique_ptr<MgMatrix<T>> b_;
  MgWorkspace<T> workspace_;
};

}  // namespace
}  // namespace shardsolve::bench

int main(int argc, char** argv) {
  using namespace shardsolve::bench;
  return run_program(argc, argv, "Times cuSOLVERMg", serve_library<CusolverMg>);
}
