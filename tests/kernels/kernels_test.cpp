// Kernels of our own on the CPU, where there is no GPU: see emulation/emulator.hpp. What they
// compute on GPUs, and how that fits into algorithms, is tested by the device tier.

#include "runtime/kernels.hpp"

#include "kernels/emulated_kernels.hpp"
#include "kernels/orders.hpp"
#include "reference/dense_matrix.hpp"
#include "runtime/cuda/stream_tools.hpp"
#include "runtime/cuda/update_list.hpp"
#include "support/all_sizes.hpp"
#include "support/bits.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"
#include "support/matrix_zoo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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

using runtime::cuda::add_piece;
using runtime::cuda::UpdatePieces;

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
  constexpr std::int64_t square = TestFixture::Cholesky::inverted_square;
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
      TestFixture::Cholesky::invert_squares(
          no_stream, elements(MatrixView<const T>(l.data(), n, n)),
          elements(MatrixView<T>(m.data(), n, n)), {.count = count, .a = n * n, .c = n * n});
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
      typename TestFixture::Hermitian::Upper upper;
      upper.slab = elements(MatrixView<const T>(slab.view()));
      upper.diagonal = diagonal.data();
      upper.ranks = 1;
      upper.begin[1] = n;
      upper.tile = block;
      upper.eliminated = eliminated.data();
      const DenseMatrix<T> x = right_hand_sides<T>(n, 1);
      DenseMatrix<T> y = unwritten<T>(n, 2);
      std::vector<std::byte> scratch(TestFixture::Hermitian::hermitian_multiply_scratch(upper));
      TestFixture::Hermitian::hermitian_multiply(
          no_stream, upper, reinterpret_cast<const Element<T>*>(x.data()),
          reinterpret_cast<Element<T>*>(y.data()), scratch.data());
      for (std::int64_t i = 0; i < n; ++i) {
        Wide<T> sum = -Wide<T>(y(i, 0)) - Wide<T>(y(i, 1));
        long double size = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          sum += Wide<T>(a(i, j)) * Wide<T>(x(j, 0));
          size += std::abs(Wide<T>(a(i, j)) * Wide<T>(x(j, 0)));
        }
        // of pairs of floats; or of long doubles, which the sums are compared with
        const long double kept = sizeof(Real) == 4 ? 0x1p-46L : 0x1p-61L;
        ASSERT_LE(std::abs(sum), kept * static_cast<long double>(n) * size) << i;
      }
    }
  });
}

TYPED_TEST(EmulatedKernels, AddTwofold_KeepsWhatRoundingTakes) {
  using T = TypeParam;
  using Real = RealOf<T>;
  in_each_order([] {
    constexpr std::int64_t n = 300;
    const Real tiny = std::numeric_limits<Real>::epsilon() / 8;
    DenseMatrix<T> sums(n, 4);
    DenseMatrix<T> source(n, 2);
    for (std::int64_t j = 0; j < 2; ++j) {
      for (std::int64_t i = 0; i < n; ++i) {
        sums(i, j) = T{1};
        source(i, j) = T{tiny * static_cast<Real>(i % 3 + 1)};
      }
    }
    const auto add = [&](MatrixView<const T> from) {
      TestFixture::Hermitian::add_twofold(no_stream, elements(from), elements(sums.view()));
    };
    add(source.view());
    add(sums.view());
    for (std::int64_t j = 0; j < 2; ++j) {
      for (std::int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(std::real(sums(i, j)), Real{2});
        ASSERT_EQ(std::real(sums(i, j + 2)), 2 * tiny * static_cast<Real>(i % 3 + 1));
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

TYPED_TEST(EmulatedKernels, Convert_RoundsAndOverflowsToInfinity) {
  using T = TypeParam;
  using Other = runtime::OtherPrecision<T>;
  in_each_order([] {
    for (const std::int64_t n : {1, 32, 70}) {
      const DenseMatrix<Other> given = of_all_sizes<Other>(n, n + 3);
      DenseMatrix<T> result = unwritten<T>(n, n + 3);
      TestFixture::Kernels::convert(no_stream, elements(given.view()), elements(result.view()));
      for (std::int64_t j = 0; j < n + 3; ++j) {
        for (std::int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(result(i, j), in_precision_of<T>(given(i, j))) << i << ", " << j;
        }
      }
    }
  });
}

TYPED_TEST(EmulatedKernels, FromReal_AddsImaginaryPartsOfZero) {
  using T = TypeParam;
  in_each_order([] {
    for (const std::int64_t n : {1, 32, 70}) {
      const DenseMatrix<RealOf<T>> given = of_all_sizes<RealOf<T>>(n, n + 3);
      DenseMatrix<T> result = unwritten<T>(n, n + 3);
      TestFixture::Kernels::from_real(no_stream, given.view(), elements(result.view()));
      for (std::int64_t j = 0; j < n + 3; ++j) {
        for (std::int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(result(i, j), T{given(i, j)}) << i << ", " << j;
        }
      }
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

template <class T>
class EmulatedUpdates : public EmulatedKernels<T> {};
using SingleDtypes = ::testing::Types<float, std::complex<float>>;
TYPED_TEST_SUITE(EmulatedUpdates, SingleDtypes, DtypeNames);

/// Rows of L whose sizes differ by many powers of two.
TYPED_TEST(EmulatedUpdates, UpdateWithASplitPanel_IsThatOfTheNumbers) {
  using T = TypeParam;
  using Cholesky = typename TestFixture::Cholesky;
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
    DenseMatrix<T> panel = unwritten<T>(k + Cholesky::split_rows, columns);
    for (std::int64_t j = 0; j < columns; ++j) {
      std::copy_n(&numbers(0, j), k, &panel(0, j));
    }
    const MatrixView<T> rows = panel.view().block(0, 0, k, columns);
    Cholesky::split_panel(no_stream, elements(rows));
    for (const bool lower : {false, true}) {
      SCOPED_TRACE(lower);
      const std::int64_t height = 140;
      const std::int64_t width = lower ? height : 45;
      DenseMatrix<T> c = right_hand_sides<T>(height, width, 5);
      const DenseMatrix<T> before = c;
      UpdatePieces<Element<T>> pieces;
      add_piece<T>(pieces, {.left = left, .right = 20, .c = c.view(), .lower = lower});
      const MatrixView<const T> split(rows);
      Cholesky::update(no_stream, elements(split), elements(split), pieces);
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
