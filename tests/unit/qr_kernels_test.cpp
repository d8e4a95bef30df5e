// The kernels of QR on the CPU.

#include "runtime/host/qr_kernels.hpp"

#include "tests/support/qr_kernels_tests.hpp"

namespace shardsolve::testing::qr_kernels {
namespace {

template <class T>
using Host = runtime::host::HostQrKernels<T>;

INSTANTIATE_TYPED_TEST_SUITE_P(Host, QrKernelsTest, QrOfAllDtypes<Host>, QrKernelsNames);

}  // namespace
}  // namespace shardsolve::testing::qr_kernels
