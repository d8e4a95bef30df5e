// The kernels of the reductions to band and tridiagonal form on the CPU, where there is no GPU: see
// emulation/emulator.hpp.

#include "kernels/emulated_band_kernels.hpp"
#include "kernels/orders.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "tests/support/band_checks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

namespace shardsolve::testing {
namespace {

template <class T>
class EmulatedBand : public BandChecks<T> {
 protected:
  EmulatedBand() : BandChecks<T>(std::make_unique<EmulatedBandKernels<T>>()) {}

  struct Factors {
    DenseMatrix<T> a;
    DenseMatrix<T> r;
    DenseMatrix<T> t;
    friend bool operator==(const Factors&, const Factors&) = default;
  };
  Factors factored(const DenseMatrix<T>& a) {
    const std::int64_t k = std::min(a.rows(), a.columns());
    Factors factors{a, DenseMatrix<T>(k, a.columns()), DenseMatrix<T>(k, k)};
    std::vector<std::byte> memory = this->scratch(a.columns());
    this->kernels_.panel_qr(this->queue_, factors.a.view(), factors.r.view(), factors.t.view(),
                            memory.data());
    return factors;
  }
};
TYPED_TEST_SUITE(EmulatedBand, Dtypes, DtypeNames);

/// A GPU of so many multiprocessors with so much shared memory, until the end of the scope.
class OtherGpu {
 public:
  OtherGpu(std::int64_t multiprocessors, std::size_t shared) {
    runtime::cuda::multiprocessors() = multiprocessors;
    runtime::cuda::shared_limit() = shared;
  }
  ~OtherGpu() {
    runtime::cuda::multiprocessors() = multiprocessors_;
    runtime::cuda::shared_limit() = shared_;
  }
  OtherGpu(const OtherGpu&) = delete;
  OtherGpu& operator=(const OtherGpu&) = delete;

 private:
  std::int64_t multiprocessors_ = 132;
  std::size_t shared_ = std::size_t{227} << 10U;
};

TYPED_TEST(EmulatedBand, PanelQr_OfAnyShape_IsAFactorisation) {
  using T = TypeParam;
  in_each_order([&] {
    for (const std::int64_t rows : {1, 5, 70}) {
      for (const std::int64_t columns : {1, 5, 16}) {
        this->expect_qr(right_hand_sides<T>(rows, columns));
      }
    }
    this->expect_qr(right_hand_sides<T>(300, 7));
  });
}

TYPED_TEST(EmulatedBand, PanelQr_OfAnyRank_IsAFactorisation) {
  using T = TypeParam;
  this->expect_qr(DenseMatrix<T>(20, 6));
  this->expect_qr(DenseMatrix<T>::identity(7));
  for (const std::int64_t rank : {1, 3}) {
    this->expect_qr(matmul(right_hand_sides<T>(140, rank, 1), right_hand_sides<T>(rank, 6, 2)));
  }
  this->expect_zeros_to_have_reflectors_that_do_nothing();
}

TYPED_TEST(EmulatedBand, PanelQr_AtTheEndsOfTheRange_IsAFactorisation) {
  using T = TypeParam;
  using Limits = std::numeric_limits<RealOf<T>>;
  this->expect_qr(scaled(right_hand_sides<T>(140, 5), Limits::max() / RealOf<T>{1e4}));
  this->expect_qr(scaled(right_hand_sides<T>(140, 5), Limits::min() / Limits::epsilon()));
  // Both in one panel
  DenseMatrix<T> a = right_hand_sides<T>(140, 5);
  for (std::int64_t i = 0; i < 140; ++i) {
    a(i, 1) *= Limits::max() / RealOf<T>{1e4};
    a(i, 3) *= Limits::min() / Limits::epsilon();
  }
  this->expect_qr(a);
}

TYPED_TEST(EmulatedBand, PanelQr_OnAnyGpu_GivesTheSameBits) {
  const auto a = right_hand_sides<TypeParam>(500, 6);
  const auto expected = this->factored(a);
  constexpr std::size_t enough = std::size_t{227} << 10U;
  for (const std::int64_t multiprocessors : {1, 3, 100}) {
    for (const std::size_t shared : {std::size_t{0}, enough}) {
      const OtherGpu gpu(multiprocessors, shared);
      in_each_order([&] { EXPECT_TRUE(this->factored(a) == expected); });
    }
  }
}

TYPED_TEST(EmulatedBand, StoreBand_TakesWhatIsBelowTheDiagonal) {
  this->expect_band_to_take_what_is_below_the_diagonal();
}

TYPED_TEST(EmulatedBand, Chase_OfAnyBand_MakesASimilarRealTridiagonal) {
  for (const std::int64_t n : {1, 2, 3, 4, 21}) {
    for (const std::int64_t b : {1, 2, 5, 8}) {
      this->expect_chase(n, b, 3);
    }
  }
  in_each_order([&] { this->expect_chase(41, 8, 8); });
}

TYPED_TEST(EmulatedBand, ChaseAndWindows_WithoutSharedMemoryForThem_AreRight) {
  const OtherGpu gpu(132, 0);
  in_each_order([&] { this->expect_chase(30, 5, 7); });
}

TYPED_TEST(EmulatedBand, Chase_InAnyOrder_GivesTheSameBits) {
  using T = TypeParam;
  const Chase chase{32, 6, is_complex<T>};
  const DenseMatrix<T> band = random_band<T>(chase);
  for (const std::size_t shared_bytes : {std::size_t{200} << 10, std::size_t{0}}) {
    const OtherGpu gpu(132, shared_bytes);
    const Chased<T> expected = this->chased(chase, 1, band);
    for (const std::int64_t count : {4, 30}) {
      in_each_order(
          [&] { EXPECT_TRUE(same_bits(this->chased(chase, count, band).band, expected.band)); });
    }
  }
}

TYPED_TEST(EmulatedBand, Chase_OfABandWiderThanABlock_IsRight) {
  if constexpr (sizeof(TypeParam) == sizeof(float)) {  // it takes a while
    this->expect_chase(530, 515, 2);
  }
}

TYPED_TEST(EmulatedBand, WindowsWithoutGaps_DoTheSame) {
  if constexpr (std::is_same_v<TypeParam, double>) {  // others are applied by products
    constexpr std::int64_t n = 140;
    const Chase chase{n, 64, false};
    const DenseMatrix<double> v(127, 3 * 64);
    const auto elements = runtime::cuda::elements(v.view());
    EXPECT_TRUE(
        runtime::cuda::BandDeviceKernels<double>::slides(chase, {0, 64}, elements, elements));
    in_each_order([&] { this->expect_windows_without_gaps_to_do_the_same(n, 64, 64); });
  }
}

// Few columns a multiprocessor go through more stages of fewer columns a block.
TYPED_TEST(EmulatedBand, WindowsWithoutGaps_OfFewColumns_GiveTheSameBits) {
  if constexpr (std::is_same_v<TypeParam, double>) {
    const OtherGpu gpu(2, std::size_t{227} << 10);
    for (const std::int64_t n : {140, 201}) {
      in_each_order(
          [&] { this->expect_windows_to_give_the_same_bits_to_fewer_columns(n, 90, {60, 20}); });
    }
  }
}

TYPED_TEST(EmulatedBand, Chase_OfTinyNumbers_KeepsReflectorsUnitary) {
  this->expect_unitary_reflectors_of_tiny_numbers();
}

TYPED_TEST(EmulatedBand, Chase_OfNothingToDo_LeavesTheBand) { this->expect_nothing_to_do(); }

TYPED_TEST(EmulatedBand, Chase_OfManySweeps_DoesNotLetTheDiagonalDrift) {
  this->expect_diagonal_not_to_drift(60);
}

TYPED_TEST(EmulatedBand, Mirror_WritesTheStaircaseAlone) {
  for (const std::int64_t ahead : {-1, 0, 1, 2}) {
    this->expect_mirrored(50, 70, 8, ahead);
    this->expect_mirrored(70, 100, 64, ahead);
  }
}

TYPED_TEST(EmulatedBand, PermuteRows_GathersThem) { this->expect_permuted(2100, 2); }

TYPED_TEST(EmulatedBand, FixPhases_MakesTheLargestRealAndPositive) {
  in_each_order([&] {
    this->expect_fixed_phases(50, 7);
    this->expect_fixed_phases(700, 3);
  });
}

}  // namespace
}  // namespace shardsolve::testing
