// The kernels of LU on the CPU, each by itself.

#include "runtime/host/lu_kernels.hpp"

#include "tests/support/lu_kernels_tests.hpp"

namespace shardsolve::testing {
namespace {

template <class T>
using OnHost = runtime::host::HostLuKernels<T>;
INSTANTIATE_TYPED_TEST_SUITE_P(Host, LuKernelsTest, OfAllDtypes<OnHost>, LuKernelsNames);

}  // namespace
}  // namespace shardsolve::testing
