// The kernels that solve panels, and the choice between them.

#include "kernels/emulated_kernels.hpp"
#include "kernels/orders.hpp"
#include "support/matrix_zoo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

template <class T>
class EmulatedPanels : public EmulatedKernels<T> {};
TYPED_TEST_SUITE(EmulatedPanels, Dtypes, DtypeNames);

/// Matrices whose numbers are as small as their pivots may be, too.
TYPED_TEST(EmulatedPanels, SolvePanel_IsAsStableAsASolve) {
  using T = TypeParam;
  struct Case {
    std::int64_t n;
    std::int64_t rows;
    RealOf<T> scale = 1;
  };
  const auto smallest = std::numeric_limits<RealOf<T>>::min() * 64;
  const auto solve = [](const Case& panel) {
    const auto scaled = [&](DenseMatrix<T> a) {
      std::for_each(a.data(), a.data() + a.rows() * a.columns(), [&](T& x) { x *= panel.scale; });
      return a;
    };
    const auto tile = TestFixture::factored(scaled(dense<T>({.n = panel.n, .seed = 3})), panel.n);
    const DenseMatrix<T> a = scaled(right_hand_sides<T>(panel.rows, panel.n));
    std::vector<DenseMatrix<T>> found;
    for (const PanelSolver solver : TestFixture::solvers(panel.n)) {
      SCOPED_TRACE(std::to_string(panel.rows) + " x " + std::to_string(panel.n) + ", " +
                   std::to_string(panel.scale) + ", solver " +
                   std::to_string(static_cast<int>(solver)));
      DenseMatrix<T> x = a;
      const DenseMatrix<T> packed = TestFixture::solve_panel(solver, tile, x);
      TestFixture::expect_solved(a, tile, x, packed);
      // Complex numbers are solved for in blocks of another size by each.
      if (!is_complex<T> && !found.empty()) {
        EXPECT_TRUE(std::equal(x.data(), x.data() + x.rows() * x.columns(), found[0].data()));
      }
      found.push_back(std::move(x));
    }
  };
  in_each_order([&] {
    solve({.n = 64, .rows = 1});
    solve({.n = 128, .rows = 64});
    solve({.n = 192, .rows = 67});
    solve({.n = 128, .rows = 40, .scale = smallest});
    solve({.n = 448, .rows = 5});
  });
  if constexpr (std::is_same_v<T, double>) {
    solve({.n = 1024, .rows = 20});
  }
}

TYPED_TEST(EmulatedPanels, PanelSolver_IsThatForTheShapeOfAlignedMemory) {
  using T = TypeParam;
  using E = Element<T>;
  constexpr std::int64_t group = is_complex<T> ? 64 : 128;  // that warps take
  constexpr std::int64_t padding = 16 / sizeof(E);          // strides are multiples of 16 bytes
  struct Case {
    std::int64_t n;
    std::int64_t rows;
    std::int64_t shift = 0;         // of one matrix's first element
    std::int64_t stride = 1 << 20;  // of a21
  };
  alignas(64) static std::array<E, 64> memory;  // nobody looks at it
  const auto solver = [](const Case& panel, int shifted) {
    const auto view = [&](int which, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
      return MatrixView<const E>(memory.data() + (which == shifted ? panel.shift : 0), rows,
                                 columns, stride);
    };
    return TestFixture::Cholesky::panel_solver(
        view(0, panel.n, panel.n, 2048), view(1, panel.n, panel.n, 2048),
        view(2, panel.rows, panel.n, panel.stride), view(3, panel.n, panel.rows, 2048 + padding));
  };
  const PanelSolver few =
      std::is_same_v<T, std::complex<double>> ? PanelSolver::products : PanelSolver::blocks;
  EXPECT_EQ(solver({.n = group, .rows = 3072}, 0), PanelSolver::warps);
  EXPECT_EQ(solver({.n = 1024, .rows = 100000}, 0), PanelSolver::warps);
  EXPECT_EQ(solver({.n = group, .rows = 3071}, 0), few);
  EXPECT_EQ(solver({.n = 1024, .rows = 1}, 0), few);
  EXPECT_EQ(solver({.n = 64, .rows = 3072}, 0), is_complex<T> ? PanelSolver::warps : few);
  EXPECT_EQ(solver({.n = 96, .rows = 3072}, 0), PanelSolver::products);
  EXPECT_EQ(solver({.n = 100, .rows = 100}, 0), PanelSolver::products);
  EXPECT_EQ(solver({.n = group, .rows = 4096, .stride = 1 << 26}, 0), PanelSolver::products);
  if constexpr (sizeof(E) < 16) {
    for (const int shifted : {0, 1, 3}) {
      EXPECT_EQ(solver({.n = group, .rows = 4096, .shift = 1}, shifted), PanelSolver::products);
    }
  }
  // the panel itself is read number by number
  EXPECT_EQ(solver({.n = group, .rows = 4096, .shift = 1}, 2), PanelSolver::warps);
}

/// NaN as GPUs make it: all bits but the sign are ones.
template <class Real>
Real nan_of_gpus() {
  if constexpr (std::is_same_v<Real, float>) {
    return std::bit_cast<float>(std::uint32_t{0x7FFFFFFF});
  } else {
    return std::bit_cast<double>(std::uint64_t{0x7FFFFFFFFFFFFFFF});
  }
}

TYPED_TEST(EmulatedPanels, SolvePanel_RowWithoutNumbers_HasNoneFromThereOn) {
  using T = TypeParam;
  constexpr std::int64_t n = 256;
  constexpr std::int64_t rows = 40;
  constexpr std::int64_t bad_row = 21;
  const auto tile = TestFixture::factored(dense<T>({.n = n, .seed = 3}), n);
  for (const std::int64_t bad_column : {0, 70, 200}) {
    for (const auto bad : {nan_of_gpus<RealOf<T>>(), std::numeric_limits<RealOf<T>>::infinity()}) {
      for (const PanelSolver solver : TestFixture::solvers(n)) {
        SCOPED_TRACE(std::to_string(bad) + " in column " + std::to_string(bad_column) +
                     ", solver " + std::to_string(static_cast<int>(solver)));
        DenseMatrix<T> x = right_hand_sides<T>(rows, n);
        x(bad_row, bad_column) = T{bad};
        TestFixture::solve_panel(solver, tile, x);
        for (std::int64_t j = 0; j < n; ++j) {
          for (std::int64_t i = 0; i < rows; ++i) {
            if (i != bad_row) {
              ASSERT_TRUE(std::isfinite(std::abs(x(i, j)))) << i << ", " << j;
            } else if (j >= bad_column) {
              ASSERT_FALSE(std::isfinite(std::abs(x(i, j)))) << j;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace shardsolve::testing
