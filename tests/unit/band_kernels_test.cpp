// The host kernels of the reductions to band and tridiagonal form, in all dtypes, on views with
// gaps. Reflectors are multiplied out in wider arithmetic.

#include "runtime/host/band_kernels.hpp"

#include "reference/matmul.hpp"
#include "tests/support/bits.hpp"
#include "tests/support/dtypes.hpp"
#include "tests/support/embedded.hpp"
#include "tests/support/host_rank.hpp"
#include "tests/support/lapack.hpp"
#include "tests/support/matrix_zoo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace shardsolve::runtime::host {
namespace {

using reference::DenseMatrix;
using reference::matmul;
using testing::Embedded;
using testing::right_hand_sides;
using ReferenceOp = reference::Op;

template <Scalar T>
DenseMatrix<T> sum(const DenseMatrix<T>& a, T beta, const DenseMatrix<T>& b) {
  DenseMatrix<T> c = a;
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      c(i, j) += beta * b(i, j);
    }
  }
  return c;
}

/// I - v t v^H.
template <Scalar T>
DenseMatrix<T> multiplied_out(const DenseMatrix<T>& v, const DenseMatrix<T>& t) {
  return sum(DenseMatrix<T>::identity(v.rows()), T{-1},
             matmul(ReferenceOp::none, matmul(v, t), ReferenceOp::conjugate_transpose, v));
}

template <Scalar T>
double departure_from_unitary(const DenseMatrix<T>& q) {
  const auto qq = matmul(ReferenceOp::conjugate_transpose, q, ReferenceOp::none, q);
  return static_cast<double>(
             reference::one_norm(sum(qq, T{-1}, DenseMatrix<T>::identity(q.columns())))) /
         unit_roundoff<T>;
}

template <Scalar T>
DenseMatrix<T> scaled(DenseMatrix<T> a, RealOf<T> factor) {
  std::for_each(a.data(), a.data() + a.rows() * a.columns(), [&](T& entry) { entry *= factor; });
  return a;
}

/// A random Hermitian band matrix, as columns of 2 b + 1 rows.
template <Scalar T>
DenseMatrix<T> random_band(const Chase& chase, std::uint64_t seed = 1) {
  DenseMatrix<T> band(2 * chase.bandwidth + 1, chase.size);
  const DenseMatrix<T> entries = right_hand_sides<T>(2 * chase.bandwidth, chase.size, seed);
  for (std::int64_t j = 0; j < chase.size; ++j) {
    for (std::int64_t i = 0; i <= chase.bandwidth && i + j < chase.size; ++i) {
      band(i, j) = i == 0 ? T{std::real(entries(i, j))} : entries(i, j);
    }
  }
  return band;
}

template <Scalar T>
DenseMatrix<T> whole(const DenseMatrix<T>& band) {
  DenseMatrix<T> a(band.columns(), band.columns());
  for (std::int64_t j = 0; j < band.columns(); ++j) {
    for (std::int64_t i = j; i < std::min(band.columns(), j + band.rows() - 1); ++i) {
      a(i, j) = band(i - j, j);
      a(j, i) = reference::conjugate(band(i - j, j));
    }
  }
  return a;
}

/// Reflectors of all sweeps, in groups of so many.
template <Scalar T>
struct Chased {
  DenseMatrix<T> band;
  std::vector<SweepGroup> groups;
  std::vector<DenseMatrix<T>> reflectors;
};

std::vector<SweepGroup> groups_of(const Chase& chase, std::int64_t count) {
  std::vector<SweepGroup> all;
  for (std::int64_t first = 0; first < chase.sweeps(); first += count) {
    all.push_back({first, std::min(count, chase.sweeps() - first)});
  }
  return all;
}

template <class T>
class BandKernelsTest : public ::testing::Test {
 protected:
  using Real = RealOf<T>;
  testing::HostRank rank_;
  HostQueue queue_{"test", rank_.pulse()};
  HostBandKernels<T> kernels_;

  void finish() {
    queue_.synchronize();
    rank_.rethrow();
  }
  static constexpr std::int64_t waves_of_a_kernel = 5;
  std::vector<std::byte> scratch(std::int64_t bandwidth) const {
    return std::vector<std::byte>(static_cast<std::size_t>(kernels_.scratch(bandwidth)));
  }

  Chased<T> chased(const Chase& chase, std::int64_t count, const DenseMatrix<T>& band) {
    Chased<T> result{band, groups_of(chase, count), {}};
    std::vector<std::byte> memory = scratch(chase.bandwidth);
    for (const SweepGroup& group : result.groups) {
      DenseMatrix<T>& reflectors = result.reflectors.emplace_back(
          right_hand_sides<T>(chase.bandwidth + 1, group.columns(chase)));
      const WaveRange all = group.waves(chase);
      for (std::int64_t begin = all.begin; begin < all.end; begin += waves_of_a_kernel) {
        kernels_.chase(queue_, chase, group, {begin, begin + waves_of_a_kernel}, result.band.view(),
                       reflectors.view(), memory.data());
      }
      finish();
    }
    return result;
  }

  /// Q of Q^H B Q = T: windows of all groups, the last group standing rightmost.
  DenseMatrix<T> product_of_windows(const Chase& chase, const Chased<T>& result) {
    Embedded<T> q(DenseMatrix<T>::identity(chase.size));
    for (std::size_t g = result.groups.size(); g-- > 0;) {
      const SweepGroup& group = result.groups[g];
      const DenseMatrix<T>& reflectors = result.reflectors[g];
      const std::int64_t rows = chase.bandwidth + group.count - 1;
      Embedded<T> v(right_hand_sides<T>(rows, reflectors.columns()));
      Embedded<T> vt(right_hand_sides<T>(rows, reflectors.columns()));
      kernels_.windows(queue_, chase, group, reflectors.view(), v.view(), vt.view());
      kernels_.apply_windows(queue_, chase, group, v.view(), vt.view(), q.view());
      finish();
      EXPECT_TRUE(v.frame_intact() && vt.frame_intact() && q.frame_intact());
    }
    return q.value();
  }

  void expect_qr(const DenseMatrix<T>& a) {
    SCOPED_TRACE(::testing::Message() << a.rows() << " x " << a.columns());
    const std::int64_t k = std::min(a.rows(), a.columns());
    Embedded<T> panel(a);
    Embedded<T> r(right_hand_sides<T>(k, a.columns()));
    Embedded<T> t(right_hand_sides<T>(k, k));
    std::vector<std::byte> memory = scratch(a.columns());
    kernels_.panel_qr(queue_, panel.view(), r.view(), t.view(), memory.data());
    finish();
    EXPECT_TRUE(panel.frame_intact() && r.frame_intact() && t.frame_intact());
    const DenseMatrix<T> v(panel.value().view().columns_from(0, k));
    for (std::int64_t j = 0; j < a.columns(); ++j) {
      for (std::int64_t i = 0; i < k; ++i) {
        if (i > j) {
          EXPECT_EQ(r.value()(i, j), T{0});
        }
        if (i > j && j < k) {
          EXPECT_EQ(t.value()(i, j), T{0});
        }
        if (i < j && j < k) {
          EXPECT_EQ(v(i, j), T{0});
        }
      }
      if (j < k) {
        EXPECT_EQ(v(j, j), T{1});
        EXPECT_EQ(std::imag(r.value()(j, j)), Real{0});
      }
    }
    const DenseMatrix<T> q = multiplied_out(v, t.value());
    const double limit = 8.0 * std::sqrt(static_cast<double>(a.rows())) *
                         static_cast<double>(std::max<std::int64_t>(k, 1));
    EXPECT_LE(departure_from_unitary(q), limit);
    DenseMatrix<T> padded(a.rows(), a.columns());
    testing::DenseMatrix<T> r_value = r.value();
    for (std::int64_t j = 0; j < a.columns(); ++j) {
      for (std::int64_t i = 0; i < k; ++i) {
        padded(i, j) = r_value(i, j);
      }
    }
    const auto error = reference::one_norm(sum(matmul(q, padded), T{-1}, a));
    EXPECT_LE(error, limit * unit_roundoff<T> * reference::one_norm(a));
  }
};
TYPED_TEST_SUITE(BandKernelsTest, testing::Dtypes, testing::DtypeNames);

TYPED_TEST(BandKernelsTest, PanelQr_OfAnyShape_IsAFactorisation) {
  using T = TypeParam;
  for (const std::int64_t rows : {0, 1, 2, 5, 8, 33, 70}) {
    for (const std::int64_t columns : {1, 2, 5, 16}) {
      this->expect_qr(right_hand_sides<T>(rows, columns));
    }
  }
}

TYPED_TEST(BandKernelsTest, PanelQr_OfAnyRank_IsAFactorisation) {
  using T = TypeParam;
  this->expect_qr(DenseMatrix<T>(20, 6));
  this->expect_qr(DenseMatrix<T>::identity(7));
  for (const std::int64_t rank : {1, 3}) {
    this->expect_qr(matmul(right_hand_sides<T>(20, rank, 1), right_hand_sides<T>(rank, 6, 2)));
  }
}

TYPED_TEST(BandKernelsTest, PanelQr_OfZeros_HasReflectorsThatDoNothing) {
  using T = TypeParam;
  DenseMatrix<T> a(9, 3);
  DenseMatrix<T> r(3, 3);
  DenseMatrix<T> t = right_hand_sides<T>(3, 3);
  std::vector<std::byte> memory = this->scratch(3);
  this->kernels_.panel_qr(this->queue_, a.view(), r.view(), t.view(), memory.data());
  this->finish();
  EXPECT_EQ(t, DenseMatrix<T>(3, 3));
}

TYPED_TEST(BandKernelsTest, PanelQr_AtTheEndsOfTheRange_IsAFactorisation) {
  using T = TypeParam;
  using Limits = std::numeric_limits<RealOf<T>>;
  this->expect_qr(scaled(right_hand_sides<T>(40, 5), Limits::max() / RealOf<T>{1e4}));
  this->expect_qr(scaled(right_hand_sides<T>(40, 5), Limits::min() / Limits::epsilon()));
}

TYPED_TEST(BandKernelsTest, StoreBand_TakesWhatIsBelowTheDiagonal) {
  using T = TypeParam;
  const DenseMatrix<T> top = right_hand_sides<T>(4, 3, 1);
  const DenseMatrix<T> r = right_hand_sides<T>(2, 3, 2);  // what is below its diagonal is ignored
  Embedded<T> band(right_hand_sides<T>(7, 3, 3));
  this->kernels_.store_band(this->queue_, top.view(), r.view(), band.view());
  this->finish();
  EXPECT_TRUE(band.frame_intact());
  DenseMatrix<T> expected(7, 3);
  for (std::int64_t j = 0; j < 3; ++j) {
    for (std::int64_t row = j; row < 6; ++row) {
      const bool in_r = row - 4 <= j;
      expected(row - j, j) = row < 4 ? top(row, j) : in_r ? r(row - 4, j) : T{0};
    }
    expected(0, j) = std::real(top(j, j));
  }
  EXPECT_TRUE(testing::same_bits(band.value(), expected));
}

TYPED_TEST(BandKernelsTest, Chase_OfAnyBand_MakesASimilarRealTridiagonal) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 2, 3, 4, 7, 20, 41}) {
    for (const std::int64_t b : {1, 2, 5, 8}) {
      for (const std::int64_t count : {1, 3, 8}) {
        SCOPED_TRACE(::testing::Message() << "n " << n << ", b " << b << ", groups of " << count);
        const Chase chase{n, b, is_complex<T>};
        const DenseMatrix<T> band = random_band<T>(chase);
        const Chased<T> result = this->chased(chase, count, band);
        std::vector<RealOf<T>> d(static_cast<std::size_t>(n));
        std::vector<RealOf<T>> e(static_cast<std::size_t>(n));
        this->kernels_.tridiagonal(this->queue_, result.band.view(), d.data(), e.data());
        this->finish();
        DenseMatrix<T> tridiagonal(n, n);
        for (std::int64_t j = 0; j < n; ++j) {
          tridiagonal(j, j) = d[static_cast<std::size_t>(j)];
          if (j + 1 < n) {
            tridiagonal(j + 1, j) = e[static_cast<std::size_t>(j)];
            tridiagonal(j, j + 1) = tridiagonal(j + 1, j);
          }
          // Nothing else has stayed, and what has is real.
          for (std::int64_t i = 0; i < 2 * b && i + j < n; ++i) {
            const T entry = result.band(i, j);
            EXPECT_EQ(entry, i < 2 ? T{std::real(entry)} : T{0});
          }
        }
        const DenseMatrix<T> q = this->product_of_windows(chase, result);
        const double limit = 20.0 * std::sqrt(static_cast<double>(n));
        EXPECT_LE(departure_from_unitary(q), limit);
        const DenseMatrix<T> a = whole(band);
        const auto error = reference::one_norm(sum(matmul(a, q), T{-1}, matmul(q, tridiagonal)));
        EXPECT_LE(error, limit * unit_roundoff<T> * reference::one_norm(a));
      }
    }
  }
}

TYPED_TEST(BandKernelsTest, Chase_InAnyOrderWithinWaves_GivesTheSameBits) {
  using T = TypeParam;
  const Chase chase{33, 4, is_complex<T>};
  const SweepGroup all{0, chase.sweeps()};
  const DenseMatrix<T> band = random_band<T>(chase);
  const Chased<T> expected = this->chased(chase, all.count, band);
  std::vector<ChaseTask> tasks;
  for (std::int64_t sweep = 0; sweep < chase.sweeps(); ++sweep) {
    for (std::int64_t number = 0; number < chase.tasks(sweep); ++number) {
      tasks.push_back(chase.task(sweep, number));
    }
  }
  std::mt19937 random(1);
  for (int turn = 0; turn < 5; ++turn) {
    std::shuffle(tasks.begin(), tasks.end(), random);
    std::stable_sort(tasks.begin(), tasks.end(),
                     [](const ChaseTask& a, const ChaseTask& b) { return a.wave() < b.wave(); });
    DenseMatrix<T> shuffled = band;
    DenseMatrix<T> reflectors(chase.bandwidth + 1, all.columns(chase));
    std::vector<T> work(static_cast<std::size_t>(2 * chase.bandwidth));
    for (const ChaseTask& task : tasks) {
      run_chase_task(task, all, shuffled.view(), reflectors.view(), work.data());
    }
    EXPECT_TRUE(testing::same_bits(shuffled, expected.band));
    EXPECT_TRUE(testing::same_bits(reflectors, expected.reflectors[0]));
  }
}

TYPED_TEST(BandKernelsTest, Chase_InGroups_GivesTheSameBits) {
  using T = TypeParam;
  const Chase chase{30, 4, is_complex<T>};
  const DenseMatrix<T> band = random_band<T>(chase);
  const Chased<T> at_once = this->chased(chase, chase.sweeps(), band);
  EXPECT_TRUE(testing::same_bits(this->chased(chase, 3, band).band, at_once.band));
}

TYPED_TEST(BandKernelsTest, Chase_OfManySweeps_DoesNotLetTheDiagonalDrift) {
  using T = TypeParam;
  const Chase chase{400, 4, is_complex<T>};
  DenseMatrix<T> band = scaled(random_band<T>(chase), static_cast<RealOf<T>>(unit_roundoff<T>));
  for (std::int64_t j = 0; j < chase.size; ++j) {
    band(0, j) += RealOf<T>{1};
  }
  const Chased<T> result = this->chased(chase, 16, band);
  for (std::int64_t j = 0; j < chase.size; ++j) {
    const double off = std::abs(result.band(0, j) - RealOf<T>{1}) / unit_roundoff<T>;
    EXPECT_LE(off, 20.0) << "entry " << j;
  }
}

TYPED_TEST(BandKernelsTest, Chase_OfTinyNumbers_KeepsReflectorsUnitary) {
  using T = TypeParam;
  using Limits = std::numeric_limits<RealOf<T>>;
  const Chase chase{25, 4, is_complex<T>};
  DenseMatrix<T> band =
      scaled(random_band<T>(chase), Limits::min() / Limits::epsilon() / Limits::epsilon());
  const Chased<T> result = this->chased(chase, 6, band);
  EXPECT_LE(departure_from_unitary(this->product_of_windows(chase, result)), 100.0);
}

TYPED_TEST(BandKernelsTest, Chase_OfNothingToDo_LeavesTheBand) {
  using T = TypeParam;
  const Chase chase{12, 3, is_complex<T>};
  DenseMatrix<T> band(7, 12);
  for (std::int64_t j = 0; j < 12; ++j) {
    band(0, j) = T{static_cast<RealOf<T>>(j)};
  }
  EXPECT_EQ(this->chased(chase, 4, band).band, band);
}

}  // namespace
}  // namespace shardsolve::runtime::host
