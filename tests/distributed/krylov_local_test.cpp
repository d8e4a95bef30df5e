// The parts of a solve as local calls, driven here as the JAX package drives them, against
// krylov::solve: the same bits on any number of devices.

#include "support/dtypes.hpp"
#include "support/krylov_local_driver.hpp"
#include "support/krylov_problems.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace shardsolve::testing {
namespace krylov_local {
namespace {

using namespace krylov_problems;
using krylov::Method;

template <class T>
class KrylovLocal : public ::testing::Test {};
TYPED_TEST_SUITE(KrylovLocal, Dtypes, DtypeNames);

TYPED_TEST(KrylovLocal, CallsByHand_HaveTheBitsOfASolve) {
  using T = TypeParam;
  constexpr std::int64_t n = 180;
  Mesh mesh = Mesh::host(1);
  for (const Method method : {Method::cg, Method::minres, Method::bicgstab, Method::fgmres}) {
    const bool is_hermitian = method == Method::cg || method == Method::minres;
    const System<T> system = is_hermitian ? laplacian<T>(n, 2.3) : convection<T>(n);
    krylov::Options options{
        .method = method, .rtol = sizeof(RealOf<T>) == 4 ? 1e-5 : 1e-10, .restart = 7, .log = true};
    for (const bool jacobi : {false, true}) {
      const SlabLayout alone = SlabLayout::even(n, 1, 1);
      const RightHandSides<T> diagonal(alone, 1);
      for (std::int64_t i = 0; i < n; ++i) {
        diagonal.block(0)(i, 0) = system.entry(i, i);
      }
      const Operator<T> m = Operator<T>::jacobi(diagonal);
      const Answer<T> expected =
          solve_on(mesh, alone, system, operator_of(system), jacobi ? &m : nullptr, options);
      for (const std::int64_t ranks : {1, 2, 3, 6}) {
        const Answer<T> answer = KrylovLocalDriver<T>(system, options, ranks, jacobi).solve();
        EXPECT_TRUE(same_bits(answer, expected)) << krylov::name(method) << " on " << ranks;
      }
    }
  }
}

}  // namespace
}  // namespace krylov_local
}  // namespace shardsolve::testing
