// What a device has of kernels, and what is said where it has none.

#include "runtime/kernel_set.hpp"

#include "runtime/band_kernels.hpp"
#include "runtime/cholesky_kernels.hpp"
#include "runtime/hermitian_kernels.hpp"
#include "runtime/host/host_device.hpp"
#include "runtime/kernels.hpp"
#include "runtime/lu_kernels.hpp"
#include "runtime/pulse.hpp"
#include "runtime/tridiagonal_kernels.hpp"
#include "tests/support/dtypes.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/error.hpp>

#include <gtest/gtest.h>

#include <string>

namespace shardsolve::runtime {
namespace {

class DeviceWithout final : public host::HostDevice {
 public:
  DeviceWithout(Pulse& pulse, KernelSet missing) : HostDevice(pulse), missing_(missing) {}
  const void* find_kernels(KernelSet set, Dtype dtype) const override {
    return set == missing_ ? nullptr : HostDevice::find_kernels(set, dtype);
  }

 private:
  KernelSet missing_;
};

template <class T>
class KernelSetTest : public ::testing::Test {
 protected:
  template <class Set>
  void expect_missing() {
    const DeviceWithout device(pulse_, Set::set);
    testing::expect_error([&] { device.kernels<Set>(); }, ErrorKind::unsupported,
                          {std::string(name(dtype_of<T>)), "use devices"});
  }

  Pulse pulse_;
};
TYPED_TEST_SUITE(KernelSetTest, testing::Dtypes, testing::DtypeNames);

TYPED_TEST(KernelSetTest, DeviceThatHasThem_GivesOneOfEach) {
  using T = TypeParam;
  const host::HostDevice device(this->pulse_);
  EXPECT_EQ(&device.kernels<Kernels<T>>(), &device.kernels<Kernels<T>>());
  EXPECT_EQ(device.kernels<CholeskyKernels<T>>().tuning(64).tile_scratch_columns, 0);
  EXPECT_NE(
      dynamic_cast<const host::HostHermitianKernels<T>*>(&device.kernels<HermitianKernels<T>>()),
      nullptr);
}

TYPED_TEST(KernelSetTest, DeviceWithout_ThrowsUnsupported) {
  this->template expect_missing<Kernels<TypeParam>>();
  this->template expect_missing<CholeskyKernels<TypeParam>>();
  this->template expect_missing<HermitianKernels<TypeParam>>();
  this->template expect_missing<BandKernels<TypeParam>>();
  this->template expect_missing<LuKernels<TypeParam>>();
  if constexpr (!is_complex<TypeParam>) {
    this->template expect_missing<TridiagonalKernels<TypeParam>>();
  }
}

TYPED_TEST(KernelSetTest, TridiagonalKernels_AreThereForRealDtypesAlone) {
  const host::HostDevice device(this->pulse_);
  const void* const found = device.find_kernels(KernelSet::tridiagonal, dtype_of<TypeParam>);
  EXPECT_EQ(found != nullptr, !is_complex<TypeParam>);
}

}  // namespace
}  // namespace shardsolve::runtime
