// The kernels of LU on the CPU, each by itself.

#include "runtime/host/lu_kernels.hpp"

#include "tests/support/lu_kernels_tests.hpp"

namespace shardsolve::testing {
namespace {

template <class T>
using OnHost = runtime::host::HostLuKernels<T>;
INSTANTIATE_TYPED_TEST_SUITE_P(Host, LuKernelsTest, OfAllDtypes<OnHost>, LuKernelsNames);

template <class T>
class HostLuTest : public LuKernelsTest<LuKernelsOf<OnHost, T>> {};
TYPED_TEST_SUITE(HostLuTest, Dtypes, DtypeNames);

/// The inverse has entries of 2^98, X small integers: all that a solve makes is exact, and nothing
/// that a product with the inverse makes.
TYPED_TEST(HostLuTest, SolveTile_OfASmallSolution_IsNoProductWithAnInverse) {
  using T = TypeParam;
  constexpr std::int64_t n = 100;
  DenseMatrix<T> x(n, 3);
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t i = 0; i < n; ++i) {
      x(i, c) = T{static_cast<RealOf<T>>((7 * i + 3 * c) % 5 - 2)};
    }
  }
  for (const Triangle triangle : {Triangle::lower, Triangle::upper}) {
    DenseMatrix<T> tile = DenseMatrix<T>::identity(n);
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = j + 1; i < n; ++i) {
        (triangle == Triangle::lower ? tile(i, j) : tile(j, i)) = T{-1};
      }
    }
    for (const Op op : {Op::none, Op::transpose, Op::conjugate_transpose}) {
      const auto which = op == Op::none ? reference::Op::none : reference::Op::transpose;
      DenseMatrix<T> b = reference::matmul(which, tile, reference::Op::none, x);
      this->kernels_.solve_tile(this->queue_, triangle, op, tile.view(), b.view());
      this->finish();
      EXPECT_TRUE(b == x);
    }
  }
}

}  // namespace
}  // namespace shardsolve::testing
