// The updates of a factor: panels as kernels prepare them, against products in long double. Left
// out without a GPU: see support/backend.hpp.

#include "device/kernels_fixture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace shardsolve::testing {
namespace {

template <Scalar T>
class DeviceUpdatesTest : public DeviceKernelsTest<T> {
 protected:
  using Wide = std::conditional_t<is_complex<T>, std::complex<long double>, long double>;

  /// A prepared panel in the GPU's memory, what is beside it filled with NaN.
  class Panel {
   public:
    Panel(OneDevice& gpu, MatrixView<T> plain)
        : rows_(cholesky(gpu).packed_rows(plain.rows())),
          memory_(gpu.device().allocate(static_cast<std::size_t>(rows_ * plain.columns()) *
                                        sizeof(T))) {
      const MatrixView<T> all(static_cast<T*>(memory_.data()), rows_, plain.columns());
      const auto& kernels = gpu.device().template kernels<runtime::Kernels<T>>();
      kernels.fill(gpu.queue(), T{std::numeric_limits<RealOf<T>>::quiet_NaN()}, all);
      view_ = all.block(0, 0, plain.rows(), plain.columns());
      kernels.copy(gpu.queue(), plain, view_);
      cholesky(gpu).prepare_updates(gpu.queue(), view_);
    }
    MatrixView<T> view() const { return view_; }

   private:
    static const runtime::CholeskyKernels<T>& cholesky(OneDevice& gpu) {
      return gpu.device().kernels<runtime::CholeskyKernels<T>>();
    }
    std::int64_t rows_;
    runtime::Buffer memory_;
    MatrixView<T> view_;
  };

  /// c with as many updates as its rows and columns are in left and right, one above and beside the
  /// other.
  Framed<T> updated(const Framed<T>& left, const Framed<T>& right, const Framed<T>& c,
                    std::int64_t count, bool lower) {
    const std::int64_t m = c.rows / count;
    const std::int64_t n = c.columns / count;
    // In turn what belongs to an update, and what no update takes.
    const std::int64_t apart = m + n + 1;
    const auto placed = [&](const Framed<T>& panel, std::int64_t width, std::int64_t first) {
      auto all = framed<T>(panel.rows, count * apart, 9);
      for (std::int64_t j = 0; j < panel.columns; ++j) {
        for (std::int64_t i = 0; i < panel.rows; ++i) {
          all(i, j / width * apart + first + j % width) = panel(i, j);
        }
      }
      return all;
    };
    return this->after(*this->gpu_, {placed(left, m, 0), placed(right, n, m), c},
                       [&](const auto&, auto& queue, const auto& x) {
                         const Panel lefts(*this->gpu_, x[0]);
                         const Panel rights(*this->gpu_, x[1]);
                         this->cholesky(queue).update(queue, lower ? rights.view() : lefts.view(),
                                                      rights.view(),
                                                      {{.left = lower ? m : 0,
                                                        .right = m,
                                                        .c = x[2].block(0, 0, m, n),
                                                        .lower = lower,
                                                        .count = count,
                                                        .apart = apart,
                                                        .c_apart = m + n * x[2].stride()}});
                         queue.synchronize();  // before the panels' memory goes
                       })[2];
  }

  struct Error {
    double largest = 0.0;
    double mean = 0.0;  ///< of what is beside the diagonal; positive where too much was subtracted
  };
  /// Errors of entries that are to change, in units of roundoff times the lengths of the columns
  /// whose product each has, and of c itself.
  Error error_of(const Framed<T>& left, const Framed<T>& right, const Framed<T>& before,
                 const Framed<T>& after, std::int64_t count, bool lower) {
    const std::int64_t m = before.rows / count;
    const std::int64_t n = before.columns / count;
    const auto length = [](const Framed<T>& a, std::int64_t j) {
      long double squares = 0;
      for (std::int64_t k = 0; k < a.rows; ++k) {
        squares += std::norm(Wide(a(k, j)));
      }
      return std::sqrt(squares);
    };
    for (std::size_t i = 0; i < before.values.size(); ++i) {
      EXPECT_TRUE(before.inside(i) || after.values[i] == before.values[i]) << "place " << i;
    }
    Error error;
    double counted = 0.0;
    for (std::int64_t j = 0; j < before.columns; ++j) {
      for (std::int64_t i = 0; i < before.rows; ++i) {
        const bool changes = i / m == j / n && (!lower || i >= j);
        if (!changes) {
          EXPECT_EQ(after(i, j), before(i, j)) << i << ", " << j;
          continue;
        }
        Wide expected(before(i, j));
        for (std::int64_t k = 0; k < left.rows; ++k) {
          expected -= conjugate(Wide(left(k, i))) * Wide(right(k, j));
        }
        const long double unit = (length(left, i) * length(right, j) + std::abs(before(i, j))) *
                                 static_cast<long double>(unit_roundoff<T>);
        const Wide difference = (expected - Wide(after(i, j))) / unit;
        error.largest = worse(error.largest, static_cast<double>(std::abs(difference)));
        if (i != j) {
          error.mean += static_cast<double>(std::real(difference));
          counted += 1.0;
        }
      }
    }
    error.mean /= std::max(counted, 1.0);
    return error;
  }
};
TYPED_TEST_SUITE(DeviceUpdatesTest, Dtypes, DtypeNames);

TYPED_TEST(DeviceUpdatesTest, PanelsOfSinglePrecision_AreSplitWhereTilesAreWholeSlices) {
  using T = TypeParam;
  const auto& kernels = this->cholesky(this->gpu_->queue());
  const bool is_single = sizeof(RealOf<T>) == 4;
  EXPECT_EQ(kernels.packed_rows(64) > 64, is_single);
  EXPECT_EQ(kernels.packed_rows(1024) > 1024, is_single);
  EXPECT_EQ(kernels.packed_rows(20), 20);
}

// Tiles that are split and such that are not, whole and broken blocks of what kernels make at once.
TYPED_TEST(DeviceUpdatesTest, Updates_AreProducts) {
  using T = TypeParam;
  for (const std::int64_t k : {16, 20, 32, 64, 96, 512}) {
    const double bound = 4.0 + std::sqrt(static_cast<double>(k));
    for (const auto& [m, n, count] : {std::array<std::int64_t, 3>{1, 1, 1},
                                      {130, 65, 1},
                                      {300, 7, 1},
                                      {64, 200, 2},
                                      {129, 129, 3}}) {
      SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + ", " + std::to_string(k));
      const auto left = framed<T>(k, m * count, 1);
      const auto right = framed<T>(k, n * count, 2);
      const auto c = framed<T>(m * count, n * count, 3);
      const auto found = this->updated(left, right, c, count, false);
      EXPECT_LE(this->error_of(left, right, c, found, count, false).largest, bound);

      const auto square = framed<T>(n * count, n * count, 4);
      const auto lower = this->updated(right, right, square, count, true);
      auto real_diagonal = square;
      for (std::int64_t j = 0; j < square.columns; ++j) {
        real_diagonal(j, j) = std::real(square(j, j));
        EXPECT_EQ(std::imag(lower(j, j)), 0.0) << j;
      }
      EXPECT_LE(this->error_of(right, right, real_diagonal, lower, count, true).largest, bound);
    }
  }
}

// A launch takes some dozens.
TYPED_TEST(DeviceUpdatesTest, ManyUpdatesAtOnce_AreThoseOneByOne) {
  using T = TypeParam;
  constexpr std::int64_t count = 70;
  const auto made = [&](std::int64_t at_once) {
    return this->after(
        *this->gpu_, {framed<T>(32, count + 5, 1), framed<T>(3 * count, 5, 2)},
        [&](const auto&, auto& queue, const auto& x) {
          const typename TestFixture::Panel panel(*this->gpu_, x[0]);
          std::vector<runtime::PanelUpdate<T>> updates;
          for (std::int64_t i = 0; i < count; ++i) {
            updates.push_back({.left = i, .right = count - i, .c = x[1].block(3 * i, 0, 3, 5)});
            if (std::ssize(updates) == at_once) {
              this->cholesky(queue).update(queue, panel.view(), panel.view(), updates);
              updates.clear();
            }
          }
          queue.synchronize();  // before the panel's memory goes
        })[1];
  };
  const auto before = framed<T>(3 * count, 5, 2);
  const auto one_by_one = made(1);
  EXPECT_EQ(made(count).values, one_by_one.values);
  for (std::int64_t i = 0; i < before.rows; ++i) {
    EXPECT_NE(one_by_one(i, 0), before(i, 0)) << i;
  }
}

// Large updates are made in larger tiles than small ones.
TYPED_TEST(DeviceUpdatesTest, LargeUpdates_AreTheBitsOfSmallOnes) {
  using T = TypeParam;
  constexpr std::int64_t k = 64;
  constexpr std::int64_t m = 2245;
  const auto panel = framed<T>(k, m, 1);
  const auto c = framed<T>(m, m, 2);
  // cuBLAS's sums are its own
  const auto gpu = static_cast<std::size_t>(test_gpus().front());
  const bool is_ours = sizeof(RealOf<T>) == sizeof(float) ||
                       (!is_complex<T> && mesh::cuda_facts().gpus[gpu].major >= 9);
  for (const bool lower : {false, true}) {
    SCOPED_TRACE(lower);
    const auto made = [&](std::int64_t rows) {
      return this->after(*this->gpu_, {panel, c}, [&](const auto&, auto& queue, const auto& x) {
        const typename TestFixture::Panel prepared(*this->gpu_, x[0]);
        for (std::int64_t first = 0; first < m; first += rows) {
          const std::int64_t count = std::min(rows, m - first);
          std::vector<runtime::PanelUpdate<T>> updates{
              {.left = first,
               .right = lower ? first : 0,
               .c = x[1].block(first, lower ? first : 0, count, lower ? count : m),
               .lower = lower}};
          if (lower) {
            updates.push_back({.left = first, .right = 0, .c = x[1].block(first, 0, count, first)});
          }
          this->cholesky(queue).update(queue, prepared.view(), prepared.view(), updates);
        }
        queue.synchronize();  // before the panel's memory goes
      })[1];
    };
    const auto whole = made(m);
    if (is_ours) {
      EXPECT_EQ(whole.values, made(256).values);
    }
    // some rows and columns, against products
    for (std::int64_t i = 0; i < m; i += 67) {
      for (std::int64_t j = 0; j < m; j += 59) {
        std::complex<double> expected = c(i, j);
        for (std::int64_t l = 0; l < k && (!lower || i >= j); ++l) {
          expected -=
              std::complex<double>(conjugate(panel(l, i))) * std::complex<double>(panel(l, j));
        }
        if (lower && i == j) {
          expected = std::real(expected);
        }
        EXPECT_LE(std::abs(expected - std::complex<double>(whole(i, j))),
                  static_cast<double>(2 * k) * unit_roundoff<T>)
            << i << ", " << j;
      }
    }
  }
}

// Sums that only grow show whether what is added up is chopped: left to the tensor cores of an
// H200, sums of 1024 such products come out 23 units too small. Rounded to nearest they err as
// often to either side, single ones by up to the root of their length.
TYPED_TEST(DeviceUpdatesTest, PositiveNumbers_AreNotChopped) {
  using T = TypeParam;
  auto left = framed<T>(1024, 150, 1);
  for (T& value : left.values) {
    value = std::abs(value);
  }
  const Framed<T> c{150, 150, std::vector<T>(framed<T>(150, 150, 3).values.size())};
  const auto found = this->updated(left, left, c, 1, true);
  const auto error = this->error_of(left, left, c, found, 1, true);
  EXPECT_LE(error.largest, 32.0);
  EXPECT_LE(std::abs(error.mean), 1.0);
}

// Rows of L of very different size, and numbers within a row: each row to its own precision.
TYPED_TEST(DeviceUpdatesTest, BadlyScaledRows_KeepTheirPrecision) {
  using T = TypeParam;
  auto left = framed<T>(256, 140, 1);
  auto right = framed<T>(256, 90, 2);
  for (auto* panel : {&left, &right}) {
    for (std::int64_t j = 0; j < panel->columns; ++j) {
      for (std::int64_t i = 0; i < panel->rows; ++i) {
        const auto power = static_cast<int>(j % 100 - 50 - i * j % 30);
        (*panel)(i, j) *= static_cast<RealOf<T>>(std::ldexp(1.0, power));
      }
    }
  }
  const Framed<T> c{140, 90, std::vector<T>(framed<T>(140, 90, 3).values.size())};
  const auto found = this->updated(left, right, c, 1, false);
  EXPECT_LE(this->error_of(left, right, c, found, 1, false).largest, 16.0);
}

// As rows of L are where A is block-diagonal, or much smaller than others.
TYPED_TEST(DeviceUpdatesTest, RowsOfNothing_ChangeNothing) {
  using T = TypeParam;
  auto left = framed<T>(64, 5, 1);
  for (std::int64_t i = 0; i < left.rows; ++i) {
    left(i, 1) = T{0};
    left(i, 2) = std::numeric_limits<RealOf<T>>::denorm_min();
    left(i, 3) *= static_cast<RealOf<T>>(0x1p-110);
  }
  const auto c = framed<T>(5, 5, 2);
  const auto found = this->updated(left, left, c, 1, false);
  for (std::int64_t j = 0; j < c.columns; ++j) {
    for (std::int64_t i = 1; i < 4; ++i) {
      EXPECT_EQ(found(i, j), c(i, j)) << i << ", " << j;
      EXPECT_EQ(found(j, i), c(j, i)) << j << ", " << i;
    }
  }
}

TYPED_TEST(DeviceUpdatesTest, RowWithNaNOrInfinity_LeavesNoNumbers) {
  using T = TypeParam;
  for (const RealOf<T> bad :
       {std::numeric_limits<RealOf<T>>::quiet_NaN(), std::numeric_limits<RealOf<T>>::infinity()}) {
    auto left = framed<T>(64, 40, 1);
    left(5, 7) = bad;
    const auto right = framed<T>(64, 30, 2);
    const auto is_number = [](const T& x) { return std::isfinite(std::abs(x)); };
    const auto product = this->updated(left, right, framed<T>(40, 30, 3), 1, false);
    const auto other_way = this->updated(right, left, framed<T>(30, 40, 3), 1, false);
    const auto lower = this->updated(left, left, framed<T>(40, 40, 3), 1, true);
    for (std::int64_t j = 0; j < 40; ++j) {
      for (std::int64_t i = 0; i < 30; ++i) {
        ASSERT_EQ(is_number(product(j, i)), j != 7) << j << ", " << i;
        ASSERT_EQ(is_number(other_way(i, j)), j != 7) << i << ", " << j;
      }
      for (std::int64_t i = j; i < 40; ++i) {
        ASSERT_EQ(is_number(lower(i, j)), i != 7 && j != 7) << i << ", " << j;
      }
    }
  }
}

}  // namespace
}  // namespace shardsolve::testing
