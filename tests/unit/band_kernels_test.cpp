// The host kernels of the reductions to band and tridiagonal form.

#include "runtime/host/band_kernels.hpp"

#include "tests/support/band_checks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <vector>

namespace shardsolve::testing {
namespace {

using runtime::host::HostBandKernels;
using runtime::host::run_chase_task;

template <class T>
class BandKernelsTest : public BandChecks<T> {
 protected:
  BandKernelsTest() : BandChecks<T>(std::make_unique<HostBandKernels<T>>()) {}
};
TYPED_TEST_SUITE(BandKernelsTest, Dtypes, DtypeNames);

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
  this->expect_zeros_to_have_reflectors_that_do_nothing();
}

TYPED_TEST(BandKernelsTest, PanelQr_AtTheEndsOfTheRange_IsAFactorisation) {
  using T = TypeParam;
  using Limits = std::numeric_limits<RealOf<T>>;
  this->expect_qr(scaled(right_hand_sides<T>(40, 5), Limits::max() / RealOf<T>{1e4}));
  this->expect_qr(scaled(right_hand_sides<T>(40, 5), Limits::min() / Limits::epsilon()));
}

TYPED_TEST(BandKernelsTest, StoreBand_TakesWhatIsBelowTheDiagonal) {
  this->expect_band_to_take_what_is_below_the_diagonal();
}

TYPED_TEST(BandKernelsTest, Chase_OfAnyBand_MakesASimilarRealTridiagonal) {
  for (const std::int64_t n : {1, 2, 3, 4, 7, 20, 41}) {
    for (const std::int64_t b : {1, 2, 5, 8}) {
      for (const std::int64_t count : {1, 3, 8}) {
        this->expect_chase(n, b, count);
      }
    }
  }
}

// Columns of several vectors, whole and cut; and of more than there are registers for.
TYPED_TEST(BandKernelsTest, Chase_OfAWideBand_MakesASimilarRealTridiagonal) {
  this->expect_chase(60, 20, 8);
  this->expect_chase(150, 64, 16);
  this->expect_chase(210, 100, 4);
}

// Which a CPU with AVX-512 applies by instructions of its own, eight sweeps at a time or fewer, to
// 24 or 48 columns.
TYPED_TEST(BandKernelsTest, WindowsWithoutGaps_DoTheSame) {
  this->expect_windows_without_gaps_to_do_the_same(1, 1, 1);
  this->expect_windows_without_gaps_to_do_the_same(23, 4, 15);
  this->expect_windows_without_gaps_to_do_the_same(50, 1, 3, 4);
  this->expect_windows_without_gaps_to_do_the_same(130, 64, 16, 8);
  this->expect_windows_without_gaps_to_do_the_same(167, 8, 16, 5);
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
    EXPECT_TRUE(same_bits(shuffled, expected.band));
    EXPECT_TRUE(same_bits(reflectors, expected.reflectors[0]));
  }
}

TYPED_TEST(BandKernelsTest, Chase_InGroups_GivesTheSameBits) {
  this->expect_groups_to_give_the_same_bits();
}

TYPED_TEST(BandKernelsTest, Chase_OfManySweeps_DoesNotLetTheDiagonalDrift) {
  this->expect_diagonal_not_to_drift(400);
}

TYPED_TEST(BandKernelsTest, Chase_OfTinyNumbers_KeepsReflectorsUnitary) {
  this->expect_unitary_reflectors_of_tiny_numbers();
}

TYPED_TEST(BandKernelsTest, Chase_OfNothingToDo_LeavesTheBand) { this->expect_nothing_to_do(); }

TYPED_TEST(BandKernelsTest, Mirror_WritesTheStaircaseAlone) {
  this->expect_mirrored(1, 1, 1, 1);
  for (const std::int64_t ahead : {-1, 0, 1, 2}) {
    this->expect_mirrored(50, 70, 8, ahead);
    this->expect_mirrored(70, 30, 16, ahead);
  }
}

TYPED_TEST(BandKernelsTest, PermuteRows_GathersThem) { this->expect_permuted(50, 3); }

TYPED_TEST(BandKernelsTest, FixPhases_MakesTheLargestRealAndPositive) {
  this->expect_fixed_phases(50, 7);
}

}  // namespace
}  // namespace shardsolve::testing
