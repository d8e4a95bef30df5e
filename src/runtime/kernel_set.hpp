/// Kernels come in sets, a class each: the base, and one for every family of algorithms. A device
/// is asked for a set of one dtype and may have none.
#pragma once

#include <shardsolve/dtype.hpp>

#include <complex>
#include <concepts>
#include <cstdint>

namespace shardsolve::runtime {

/// A number and no type: devices live in libraries that are loaded at run time.
enum class KernelSet : std::uint8_t {
  base,         ///< Kernels
  hermitian,    ///< HermitianKernels
  cholesky,     ///< CholeskyKernels
  band,         ///< BandKernels
  tridiagonal,  ///< TridiagonalKernels
  sparse,       ///< SparseKernels
  krylov,       ///< KrylovKernels
  fronts,       ///< FrontKernels
  boxes,        ///< BoxKernels
  lu,           ///< LuKernels
  qr,           ///< QrKernels
  bidiagonal,   ///< BidiagonalKernels
  local,        ///< LocalKernels
};

/// A class of kernels says which set it is, and of which dtype.
template <class Set>
concept IsKernelSet = requires {
  { Set::set } -> std::convertible_to<KernelSet>;
  { Set::dtype } -> std::convertible_to<Dtype>;
};

/// Throws Error(unsupported): a device has no such kernels.
[[noreturn]] void throw_no_kernels(KernelSet set, Dtype dtype);

/// What has kernels: a device, or a kind of devices, for queues that are no device's.
class KernelSource {
 public:
  virtual ~KernelSource() = default;

  /// The kernels for one dtype: kernels<Kernels<double>>().
  /// Throws Error(unsupported) if there are none.
  template <IsKernelSet Set>
  const Set& kernels() const {
    const void* const found = find_kernels(Set::set, Set::dtype);
    if (found == nullptr) {
      throw_no_kernels(Set::set, Set::dtype);
    }
    return *static_cast<const Set*>(found);
  }
  /// Points to an object of the class that the set is for this dtype, which lives as long as this;
  /// null if there is none. See kernels().
  virtual const void* find_kernels(KernelSet set, Dtype dtype) const = 0;
};

/// All sets of a kind of devices. Sets<T> has those of one dtype and finds each by its number.
template <template <Scalar> class Sets>
class KernelTable final : public KernelSource {
 public:
  const void* find_kernels(KernelSet set, Dtype dtype) const override {
    switch (dtype) {
      case Dtype::float32:
        return float32_.find(set);
      case Dtype::float64:
        return float64_.find(set);
      case Dtype::complex64:
        return complex64_.find(set);
      case Dtype::complex128:
        return complex128_.find(set);
    }
    return nullptr;
  }

 private:
  Sets<float> float32_;
  Sets<double> float64_;
  Sets<std::complex<float>> complex64_;
  Sets<std::complex<double>> complex128_;
};

}  // namespace shardsolve::runtime
