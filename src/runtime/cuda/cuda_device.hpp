/// A GPU as one rank's share of the hardware.
#pragma once

#include "runtime/cuda/band_kernels.hpp"
#include "runtime/cuda/box_kernels.hpp"
#include "runtime/cuda/cholesky_kernels.hpp"
#include "runtime/cuda/cuda_kernels.hpp"
#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/front_kernels.hpp"
#include "runtime/cuda/hermitian_kernels.hpp"
#include "runtime/cuda/krylov_kernels.hpp"
#include "runtime/cuda/local_kernels.hpp"
#include "runtime/cuda/lu_kernels.hpp"
#include "runtime/cuda/qr_kernels.hpp"
#include "runtime/cuda/sparse_kernels.hpp"
#include "runtime/cuda/tridiagonal_kernels.hpp"
#include "runtime/device.hpp"
#include "runtime/pulse.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

namespace shardsolve::runtime::cuda {

/// Memory of the GPU that CUDA numbers `ordinal`. `block`: bytes that it is a whole multiple of.
/// Throws Error(out_of_memory).
Buffer allocate(int ordinal, std::size_t bytes, std::size_t block);

template <Scalar T>
struct CudaKernelSets {
  CudaKernelSets() = default;
  CudaKernelSets(const CudaKernelSets&) = delete;
  CudaKernelSets& operator=(const CudaKernelSets&) = delete;

  const void* find(KernelSet set) const {
    switch (set) {
      case KernelSet::base:
        return static_cast<const Kernels<T>*>(&base);
      case KernelSet::hermitian:
        return static_cast<const HermitianKernels<T>*>(&hermitian);
      case KernelSet::cholesky:
        return static_cast<const CholeskyKernels<T>*>(&cholesky);
      case KernelSet::band:
        return static_cast<const BandKernels<T>*>(&band);
      case KernelSet::tridiagonal:
        if constexpr (!is_complex<T>) {
          return static_cast<const TridiagonalKernels<T>*>(&tridiagonal);
        }
        break;
      case KernelSet::sparse:
        return static_cast<const SparseKernels<T>*>(&sparse);
      case KernelSet::krylov:
        return static_cast<const KrylovKernels<T>*>(&krylov);
      case KernelSet::fronts:
        if constexpr (std::is_same_v<T, double>) {
          return static_cast<const FrontKernels*>(&fronts);
        }
        break;
      case KernelSet::boxes:
        if constexpr (std::is_same_v<T, double>) {
          return static_cast<const BoxKernels*>(&boxes);
        }
        break;
      case KernelSet::lu:
        return static_cast<const LuKernels<T>*>(&lu);
      case KernelSet::qr:
        return static_cast<const QrKernels<T>*>(&qr);
      case KernelSet::bidiagonal:
        break;  // GPUs find singular values by polar factors
      case KernelSet::local:
        if constexpr (std::is_same_v<T, double>) {
          return static_cast<const LocalKernels*>(&local);
        }
        break;
    }
    return nullptr;
  }

  CudaKernels<T> base;
  CudaHermitianKernels<T> hermitian;
  CudaCholeskyKernels<T> cholesky{base};
  CudaBandKernels<T> band{base};
  CudaTridiagonalKernels<RealOf<T>> tridiagonal;
  CudaSparseKernels<T> sparse;
  CudaKrylovKernels<T> krylov;
  CudaFrontKernels fronts;
  CudaBoxKernels boxes;
  CudaLuKernels<T> lu{base};
  CudaQrKernels<T> qr;
  CudaLocalKernels local;
};

class CudaDevice final : public Device {
 public:
  /// `ordinal`: CUDA's number of the GPU. `delays`: see QueueOptions.
  /// `block`: bytes that allocations are whole multiples of.
  CudaDevice(int ordinal, Pulse& pulse, std::optional<std::uint64_t> delays, std::size_t block = 1);

  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  std::unique_ptr<Queue> make_queue(const std::string& name, Priority priority) override;
  std::unique_ptr<Event> make_event() override;
  Buffer allocate(std::size_t bytes) override;
  Buffer allocate_host(std::size_t bytes) override;
  void adopt_thread() override;
  void require_device_memory(const void* memory, Memory, const char* what) const override;

  const void* find_kernels(KernelSet set, Dtype dtype) const override {
    return kernels_.find_kernels(set, dtype);
  }

 private:
  int ordinal_;
  Pulse& pulse_;
  std::optional<std::uint64_t> delays_;
  std::size_t block_;
  Buffer failed_;  // the pulse's copy
  std::shared_ptr<BlasHandle> blas_ = std::make_shared<BlasHandle>(ordinal_);
  KernelTable<CudaKernelSets> kernels_;
};

}  // namespace shardsolve::runtime::cuda
