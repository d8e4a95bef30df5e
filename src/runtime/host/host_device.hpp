/// A rank's share of the CPU.
#pragma once

#include "runtime/device.hpp"
#include "runtime/host/band_kernels.hpp"
#include "runtime/host/bidiagonal_kernels.hpp"
#include "runtime/host/cholesky_kernels.hpp"
#include "runtime/host/hermitian_kernels.hpp"
#include "runtime/host/host_kernels.hpp"
#include "runtime/host/host_queue.hpp"
#include "runtime/host/krylov_kernels.hpp"
#include "runtime/host/lu_kernels.hpp"
#include "runtime/host/qr_kernels.hpp"
#include "runtime/host/sparse_kernels.hpp"
#include "runtime/host/tridiagonal_kernels.hpp"
#include "runtime/pulse.hpp"

namespace shardsolve::runtime::host {

template <Scalar T>
struct HostKernelSets {
  HostKernelSets() = default;
  HostKernelSets(const HostKernelSets&) = delete;
  HostKernelSets& operator=(const HostKernelSets&) = delete;

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
      case KernelSet::lu:
        return static_cast<const LuKernels<T>*>(&lu);
      case KernelSet::qr:
        return static_cast<const QrKernels<T>*>(&qr);
      case KernelSet::bidiagonal:
        return static_cast<const BidiagonalKernels<T>*>(&bidiagonal);
      // What these are for is done otherwise on CPUs: sparse::Workers, host/fixed_dot.hpp, the
      // dense families' small.hpp.
      case KernelSet::fronts:
      case KernelSet::boxes:
      case KernelSet::local:
        break;
    }
    return nullptr;
  }

  HostKernels<T> base;
  HostHermitianKernels<T> hermitian;
  HostCholeskyKernels<T> cholesky{base};
  HostBandKernels<T> band;
  HostTridiagonalKernels<RealOf<T>> tridiagonal;
  HostSparseKernels<T> sparse;
  HostKrylovKernels<T> krylov;
  HostLuKernels<T> lu{base};
  HostQrKernels<T> qr;
  HostBidiagonalKernels<T> bidiagonal;
};

class HostDevice : public Device {
 public:
  explicit HostDevice(Pulse& pulse, RunsIn runs_in = RunsIn::own_thread);

  std::unique_ptr<Queue> make_queue(const std::string& name, Priority /*priority*/) override;
  std::unique_ptr<Event> make_event() override;
  Buffer allocate(std::size_t bytes) override;
  Buffer allocate_host(std::size_t bytes) override { return allocate(bytes); }
  void adopt_thread() override {}
  void require_device_memory(const void*, Memory kind, const char* what) const override;
  const void* find_kernels(KernelSet set, Dtype dtype) const override {
    return kernels_.find_kernels(set, dtype);
  }

 private:
  Pulse& pulse_;
  RunsIn runs_in_;
  KernelTable<HostKernelSets> kernels_;
};

}  // namespace shardsolve::runtime::host
