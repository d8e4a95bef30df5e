// Kernels of our own on the CPU, where there is no GPU: see emulation/emulator.hpp. What they
// compute on GPUs, and how that fits into algorithms, is tested by the device tier.

#include "kernels/orders.hpp"
#include "reference/dense_matrix.hpp"
#include "runtime/cuda/device_kernels.hpp"
#include "runtime/cuda/update_list.hpp"
#include "support/bits.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"
#include "support/matrix_zoo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace shardsolve::runtime::cuda {

// That of tools.cu, whose other kernel reads a GPU's clock.
void store(cudaStream_t /*stream*/, std::int64_t* target, std::int64_t value, std::int64_t count) {
  std::fill_n(target, count, value);
}

}  // namespace shardsolve::runtime::cuda

namespace shardsolve::testing {
namespace {

using reference::DenseMatrix;
using runtime::Steps;
using runtime::cuda::add_piece;
using runtime::cuda::DeviceKernels;
using runtime::cuda::Element;
using runtime::cuda::elements;
using runtime::cuda::PanelSolver;
using runtime::cuda::UpdatePieces;

constexpr cudaStream_t no_stream = nullptr;

template <class Real>
Real conjugate(Real x) {
  return x;
}
template <class Real>
std::complex<Real> conjugate(std::complex<Real> x) {
  return std::conj(x);
}

/// Sums of products are wider than what is judged.
template <Scalar T>
using Wide = std::conditional_t<is_complex<T>, std::complex<long double>, long double>;

/// All NaN: what a kernel leaves is not to be taken for zero.
template <Scalar T>
DenseMatrix<T> unwritten(std::int64_t rows, std::int64_t columns) {
  DenseMatrix<T> a(rows, columns);
  std::fill_n(a.data(), rows * columns, T{std::numeric_limits<RealOf<T>>::quiet_NaN()});
  return a;
}

template <Scalar T>
bool is_nan(T x) {
  return std::isnan(std::real(x));
}

template <class T>
class EmulatedKernels : public ::testing::Test {
 protected:
  using Kernels = DeviceKernels<Element<T>>;

  struct Tile {
    DenseMatrix<T> a;  // overwritten
    DenseMatrix<T> adjoint;
    DenseMatrix<T> inverse;
    std::int64_t info = -99;
  };

  static Tile factored(const DenseMatrix<T>& a, std::int64_t inverted) {
    const std::int64_t n = a.rows();
    Tile tile{a, unwritten<T>(n, n), unwritten<T>(n, n)};
    Kernels::factor_tile(no_stream, elements(tile.a.view()), elements(tile.adjoint.view()),
                         elements(tile.inverse.view()), inverted, &tile.info);
    return tile;
  }

  /// Those that there are for a panel of so many columns.
  static std::vector<PanelSolver> solvers(std::int64_t columns) {
    std::vector<PanelSolver> all;
    if (columns % (is_complex<T> ? 64 : 128) == 0) {
      all.push_back(PanelSolver::warps);
    }
    if constexpr (!std::is_same_v<T, std::complex<double>>) {
      all.push_back(PanelSolver::blocks);
    }
    return all;
  }

  /// x L^-H in place of x; returned as it is packed.
  static DenseMatrix<T> solve_panel(PanelSolver solver, const Tile& tile, DenseMatrix<T>& x) {
    DenseMatrix<T> packed = unwritten<T>(x.columns(), x.rows());
    Kernels::solve_panel(no_stream, solver, elements(tile.adjoint.view()),
                         elements(tile.inverse.view()), elements(x.view()),
                         elements(packed.view()));
    return packed;
  }

  static void expect_right(const DenseMatrix<T>& a, const Tile& tile, std::int64_t inverted) {
    const std::int64_t n = a.rows();
    EXPECT_EQ(tile.info, 0);
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < n; ++i) {
        if (i < j) {
          EXPECT_EQ(tile.a(i, j), a(i, j)) << "above the diagonal";
        } else {
          expect_entry(a, tile.a, i, j);
        }
        EXPECT_EQ(tile.adjoint(i, j), i <= j ? conjugate(tile.a(j, i)) : T{0}) << i << ", " << j;
      }
    }
    for (std::int64_t first = 0; first < n; first += inverted) {
      expect_inverse(tile, first, std::min(first + inverted, n));
    }
  }

  /// x L^H = a, and `packed` is x^H.
  static void expect_solved(const DenseMatrix<T>& a, const Tile& tile, const DenseMatrix<T>& x,
                            const DenseMatrix<T>& packed) {
    const std::int64_t n = a.columns();
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < a.rows(); ++i) {
        ASSERT_EQ(packed(j, i), conjugate(x(i, j)));
        Wide<T> sum = -Wide<T>(a(i, j));
        long double size = 0;
        for (std::int64_t k = 0; k <= j; ++k) {
          const Wide<T> term = Wide<T>(x(i, k)) * Wide<T>(tile.adjoint(k, j));
          sum += term;
          size += std::abs(term);
        }
        ASSERT_LE(std::abs(sum), unit_roundoff<T> * static_cast<double>(n) * size)
            << i << ", " << j;
      }
    }
  }

  /// L L^H is A to a few roundings of the largest that an entry there could be. (Without fused
  /// multiplications as GPUs have them pivots lose a bit.)
  static void expect_entry(const DenseMatrix<T>& a, const DenseMatrix<T>& l, std::int64_t i,
                           std::int64_t j) {
    Wide<T> sum = -Wide<T>(a(i, j));
    for (std::int64_t k = 0; k <= j; ++k) {
      sum += Wide<T>(l(i, k)) * conjugate(Wide<T>(l(j, k)));
    }
    const long double size = std::sqrt(std::abs(Wide<T>(a(i, i))) * std::abs(Wide<T>(a(j, j))));
    ASSERT_LE(std::abs(sum), 24 * unit_roundoff<T> * size) << i << ", " << j;
  }

  /// Rows and columns [first, end) of `inverse` times those of L^H are I.
  static void expect_inverse(const Tile& tile, std::int64_t first, std::int64_t end) {
    const double u = unit_roundoff<T>;
    for (std::int64_t j = first; j < end; ++j) {
      for (std::int64_t i = first; i < end; ++i) {
        Wide<T> sum = i == j ? -1 : 0;
        long double size = 1;
        for (std::int64_t k = first; k <= j; ++k) {
          const Wide<T> term = Wide<T>(tile.inverse(i, k)) * Wide<T>(tile.adjoint(k, j));
          sum += term;
          size += std::abs(term);
        }
        ASSERT_LE(std::abs(sum), 4 * u * static_cast<double>(end - first) * size) << i << ", " << j;
      }
    }
  }
};
TYPED_TEST_SUITE(EmulatedKernels, Dtypes, DtypeNames);

TYPED_TEST(EmulatedKernels, FactorTile_GivesAAndInverts) {
  using T = TypeParam;
  in_each_order([] {
    for (const std::int64_t n : {1, 16, 63, 64, 65, 200}) {
      SCOPED_TRACE(n);
      for (const auto& recipe : {matgen::Recipe{.n = n, .seed = 3},
                                 matgen::Recipe{.n = n, .seed = 3, .scale_exponent = 40}}) {
        const DenseMatrix<T> a = dense<T>(recipe);
        constexpr std::int64_t inverted = 128;
        TestFixture::expect_right(a, TestFixture::factored(a, inverted), inverted);
      }
    }
  });
}

TYPED_TEST(EmulatedKernels, FactorTile_OfAMatrixThatIsNotDefinite_NamesThePivot) {
  using T = TypeParam;
  in_each_order([] {
    for (const std::int64_t row : {0, 1, 63, 64, 99}) {
      DenseMatrix<T> a = dense<T>({.n = 100, .seed = 3});
      a(row, row) = T{-1};
      EXPECT_EQ(TestFixture::factored(a, 64).info, row + 1);
      a(row, row) = T{std::numeric_limits<RealOf<T>>::infinity()};
      EXPECT_EQ(TestFixture::factored(a, 64).info, -(row + 1));
    }
  });
}

TYPED_TEST(EmulatedKernels, InvertSquares_OfSeveralTiles_AreInverses) {
  using T = TypeParam;
  constexpr std::int64_t square = TestFixture::Kernels::inverted_square;
  constexpr std::int64_t count = 2;
  in_each_order([] {
    for (const std::int64_t n : {std::int64_t{1}, square, square + 36}) {
      SCOPED_TRACE(n);
      const typename TestFixture::Tile tile =
          TestFixture::factored(dense<T>({.n = n, .seed = 5}), 64);
      DenseMatrix<T> l = unwritten<T>(n, count * n);
      for (std::int64_t j = 0; j < n; ++j) {
        for (std::int64_t i = j; i < n; ++i) {
          l(i, j) = l(i, n + j) = tile.a(i, j);
        }
      }
      DenseMatrix<T> m = unwritten<T>(n, count * n);
      TestFixture::Kernels::invert_squares(no_stream, elements(MatrixView<const T>(l.data(), n, n)),
                                           elements(MatrixView<T>(m.data(), n, n)),
                                           {.count = count, .a = n * n, .c = n * n});
      for (std::int64_t j = 0; j < count * n; ++j) {
        const std::int64_t first = j % n / square * square;
        for (std::int64_t i = 0; i < n; ++i) {
          if (i < j % n) {
            ASSERT_EQ(m(i, j), T{0});
          } else if (i >= first + square) {
            ASSERT_TRUE(is_nan(m(i, j))) << "not to be written";
          } else {
            Wide<T> sum = i == j % n ? -1 : 0;
            long double size = 0;
            for (std::int64_t k = j % n; k <= i; ++k) {
              const Wide<T> term = Wide<T>(tile.a(i, k)) * Wide<T>(m(k, j));
              sum += term;
              size += std::abs(term);
            }
            ASSERT_LE(std::abs(sum), 4 * unit_roundoff<T> * static_cast<double>(square) * size);
          }
        }
      }
    }
  });
}

TYPED_TEST(EmulatedKernels, HermitianMultiply_TakesWhatIsAboveTheDiagonal) {
  using T = TypeParam;
  using Real = RealOf<T>;
  constexpr std::int64_t block = 24;
  in_each_order([] {
    for (const std::int64_t n : {1, 70, 300}) {
      SCOPED_TRACE(n);
      const DenseMatrix<T> a = dense<T>({.n = n, .seed = 3});
      DenseMatrix<T> slab = unwritten<T>(n, n);
      std::vector<Real> diagonal;
      for (std::int64_t j = 0; j < n; ++j) {
        std::copy_n(&a(0, j), j, &slab(0, j));
        diagonal.push_back(std::real(a(j, j)));
      }
      std::vector<std::int64_t> eliminated;
      for (std::int64_t first = 0; first < n; first += block) {
        eliminated.push_back(first);
      }
      typename TestFixture::Kernels::Upper upper;
      upper.slab = elements(MatrixView<const T>(slab.view()));
      upper.diagonal = diagonal.data();
      upper.ranks = 1;
      upper.begin[1] = n;
      upper.tile = block;
      upper.eliminated = eliminated.data();
      const DenseMatrix<T> x = right_hand_sides<T>(n, 1);
      DenseMatrix<T> y = unwritten<T>(n, 1);
      std::vector<std::byte> scratch(TestFixture::Kernels::hermitian_multiply_scratch(upper));
      TestFixture::Kernels::hermitian_multiply(
          no_stream, upper, reinterpret_cast<const Element<T>*>(x.data()),
          reinterpret_cast<Element<T>*>(y.data()), scratch.data());
      for (std::int64_t i = 0; i < n; ++i) {
        Wide<T> sum = -Wide<T>(y(i, 0));
        long double size = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          sum += Wide<T>(a(i, j)) * Wide<T>(x(j, 0));
          size += std::abs(Wide<T>(a(i, j)) * Wide<T>(x(j, 0)));
        }
        ASSERT_LE(std::abs(sum), unit_roundoff<T> * static_cast<double>(n + 2) * size) << i;
      }
    }
  });
}

TYPED_TEST(EmulatedKernels, Inspect_FindsSumsProbeAndProduct) {
  using T = TypeParam;
  constexpr std::int64_t rows = 1100;
  constexpr std::int64_t columns = 7;
  constexpr int reals = is_complex<T> ? 2 : 1;
  const DenseMatrix<T> a = right_hand_sides<T>(rows, columns);
  std::vector<double> weights;
  for (std::int64_t i = 0; i < rows; ++i) {
    weights.push_back(1.0 + static_cast<double>(i % 5));
  }
  in_each_order([&] {
    std::vector<double> sums(columns, -1);
    std::vector<double> probe(columns * reals, -1);
    std::vector<double> product(rows * reals, -1);
    std::vector<std::byte> scratch(TestFixture::Kernels::inspect_scratch(rows, columns));
    constexpr std::int64_t first = 3;
    TestFixture::Kernels::inspect(no_stream, elements(a.view()), first, weights.data(), 1.0,
                                  {sums.data(), probe.data(), product.data()}, false,
                                  scratch.data());
    const auto expect = [&](const double* found, std::complex<double> right) {
      EXPECT_NEAR(found[0], right.real(), 1e-10);
      if constexpr (reals == 2) {
        EXPECT_NEAR(found[1], right.imag(), 1e-10);
      }
    };
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      std::complex<double> with_weights = 0;
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::complex<double> entry(a(i, j));
        sum += std::abs(entry);
        with_weights += std::conj(entry) * weights[static_cast<std::size_t>(i)];
      }
      EXPECT_NEAR(sums[static_cast<std::size_t>(j)], sum, 1e-10);
      expect(&probe[static_cast<std::size_t>(j * reals)], with_weights);
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      std::complex<double> sum = 0;
      for (std::int64_t j = 0; j < columns; ++j) {
        sum += std::complex<double>(a(i, j)) * weights[static_cast<std::size_t>(first + j)];
      }
      expect(&product[static_cast<std::size_t>(i * reals)], sum);
    }
  });
}

TYPED_TEST(EmulatedKernels, TilesAndTransposes_AreThatToTheLastBit) {
  using T = TypeParam;
  using Kernels = typename TestFixture::Kernels;
  in_each_order([] {
    for (const std::int64_t n : {1, 32, 70}) {
      SCOPED_TRACE(n);
      const DenseMatrix<T> a = dense<T>({.n = n, .seed = 3});
      DenseMatrix<T> upper = a;
      std::vector<RealOf<T>> diagonal;
      for (std::int64_t j = 0; j < n; ++j) {
        diagonal.push_back(std::real(a(j, j)));
        std::fill_n(&upper(0, j) + j, n - j, unwritten<T>(1, 1)(0, 0));
      }
      DenseMatrix<T> whole = unwritten<T>(n, n);
      Kernels::hermitian_tile(no_stream, elements(MatrixView<const T>(upper.view())),
                              diagonal.data(), elements(whole.view()));
      EXPECT_TRUE(whole == a);
      Kernels::hermitian_tile(no_stream, elements(MatrixView<const T>(upper.view())),
                              diagonal.data(), elements(upper.view()));
      EXPECT_TRUE(upper == a) << "in place";
      const DenseMatrix<T> b = right_hand_sides<T>(n, n + 3);
      DenseMatrix<T> adjoint = unwritten<T>(n + 3, n);
      Kernels::conjugate_transpose(no_stream, elements(b.view()), elements(adjoint.view()));
      for (std::int64_t j = 0; j < n + 3; ++j) {
        for (std::int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(adjoint(j, i), conjugate(b(i, j)));
        }
      }
    }
  });
}

/// Matrices whose numbers are as small as their pivots may be, too.
TYPED_TEST(EmulatedKernels, SolvePanel_IsAsStableAsASolve) {
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
    solve({.n = 256, .rows = 83});
    solve({.n = 256, .rows = 40, .scale = smallest});
    solve({.n = 448, .rows = 17});
  });
  if constexpr (std::is_same_v<T, double>) {
    solve({.n = 1024, .rows = 20});
  }
}

TYPED_TEST(EmulatedKernels, PanelSolver_IsThatForTheShapeOfAlignedMemory) {
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
    return TestFixture::Kernels::panel_solver(
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

TYPED_TEST(EmulatedKernels, SolvePanel_RowWithoutNumbers_HasNoneFromThereOn) {
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

template <class T>
class EmulatedUpdates : public EmulatedKernels<T> {};
using SingleDtypes = ::testing::Types<float, std::complex<float>>;
TYPED_TEST_SUITE(EmulatedUpdates, SingleDtypes, DtypeNames);

/// Rows of L whose sizes differ by many powers of two.
TYPED_TEST(EmulatedUpdates, UpdateWithASplitPanel_IsThatOfTheNumbers) {
  using T = TypeParam;
  using Kernels = typename TestFixture::Kernels;
  constexpr std::int64_t k = 64;
  constexpr std::int64_t columns = 200;
  constexpr std::int64_t left = 7;
  DenseMatrix<T> numbers = right_hand_sides<T>(k, columns, 4);
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < k; ++i) {
      numbers(i, j) *= static_cast<RealOf<T>>(std::ldexp(1.0, static_cast<int>(j % 60) - 30));
    }
  }
  in_each_order([&] {
    DenseMatrix<T> panel = unwritten<T>(k + Kernels::split_rows, columns);
    for (std::int64_t j = 0; j < columns; ++j) {
      std::copy_n(&numbers(0, j), k, &panel(0, j));
    }
    const MatrixView<T> rows = panel.view().block(0, 0, k, columns);
    Kernels::split_panel(no_stream, elements(rows));
    for (const bool lower : {false, true}) {
      SCOPED_TRACE(lower);
      const std::int64_t height = 140;
      const std::int64_t width = lower ? height : 45;
      DenseMatrix<T> c = right_hand_sides<T>(height, width, 5);
      const DenseMatrix<T> before = c;
      UpdatePieces<Element<T>> pieces;
      add_piece<T>(pieces, {.left = left, .right = 20, .c = c.view(), .lower = lower});
      const MatrixView<const T> split(rows);
      Kernels::update(no_stream, elements(split), elements(split), pieces);
      for (std::int64_t j = 0; j < width; ++j) {
        for (std::int64_t i = 0; i < height; ++i) {
          if (lower && i < j) {
            ASSERT_EQ(c(i, j), before(i, j));
            continue;
          }
          Wide<T> sum = before(i, j);
          long double left_size = 0;
          long double right_size = 0;
          for (std::int64_t l = 0; l < k; ++l) {
            const Wide<T> one(numbers(l, left + i));
            const Wide<T> other(numbers(l, 20 + j));
            sum -= conjugate(one) * other;
            left_size += std::norm(one);
            right_size += std::norm(other);
          }
          const long double size =
              std::abs(Wide<T>(before(i, j))) + std::sqrt(left_size * right_size);
          if (lower && i == j) {
            sum = std::real(sum);
          }
          ASSERT_LE(std::abs(Wide<T>(c(i, j)) - sum), 4 * unit_roundoff<T> * size)
              << i << ", " << j;
        }
      }
    }
  });
}

}  // namespace
}  // namespace shardsolve::testing
