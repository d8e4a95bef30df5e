// Local calls of Krylov solves as a GPU gets them from JAX, by its kernels, emulated, against
// krylov::solve on a CPU: the same bits on any number of devices.

#include "kernels/emulated_krylov.hpp"
#include "support/dtypes.hpp"
#include "support/krylov_local_driver.hpp"
#include "support/krylov_problems.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace shardsolve::testing::emulated_krylov_local {
namespace {

using namespace krylov_problems;
using krylov::Method;
using krylov_local::KrylovLocalDriver;

template <class T>
class EmulatedKrylovLocal : public ::testing::Test {};
TYPED_TEST_SUITE(EmulatedKrylovLocal, Dtypes, DtypeNames);

TYPED_TEST(EmulatedKrylovLocal, CallsByHand_HaveTheBitsOfASolveOnTheCpu) {
  using T = TypeParam;
  constexpr std::int64_t n = 180;
  const EmulatedKrylovDevice<T> gpu;
  Mesh mesh = Mesh::host(1);
  for (const Method method : {Method::cg, Method::minres, Method::bicgstab, Method::fgmres}) {
    const bool is_hermitian = method == Method::cg || method == Method::minres;
    const System<T> system = is_hermitian ? laplacian<T>(n, 2.3) : convection<T>(n);
    // More than a cycle of fgmres, and few, as the emulator takes its time.
    const krylov::Options options{
        .method = method, .rtol = 1e-12, .max_iterations = 10, .restart = 7, .log = true};
    const SlabLayout alone = SlabLayout::even(n, 1, 1);
    const RightHandSides<T> diagonal(alone, 1);
    for (std::int64_t i = 0; i < n; ++i) {
      diagonal.block(0)(i, 0) = system.entry(i, i);
    }
    const Operator<T> m = Operator<T>::jacobi(diagonal);
    for (const bool jacobi : {false, true}) {
      const Answer<T> expected =
          solve_on(mesh, alone, system, operator_of(system), jacobi ? &m : nullptr, options);
      for (const std::int64_t ranks : {1, 3}) {
        const Answer<T> answer = KrylovLocalDriver<T>(system, options, ranks, jacobi, &gpu).solve();
        EXPECT_TRUE(same_bits(answer, expected)) << krylov::name(method) << " on " << ranks;
      }
    }
  }
}

}  // namespace
}  // namespace shardsolve::testing::emulated_krylov_local
