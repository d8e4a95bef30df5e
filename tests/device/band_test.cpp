// The kernels of the reductions to band and tridiagonal form on a GPU. Left out without one: see
// support/backend.hpp.

#include "device/kernels_fixture.hpp"
#include "tests/support/band_checks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

/// Those of a GPU for operands on the host: they go there and back with every call.
template <Scalar T>
class GpuBandKernels final : public runtime::BandKernels<T> {
  using typename runtime::BandKernels<T>::Real;
  using typename runtime::BandKernels<T>::In;
  using typename runtime::BandKernels<T>::Out;
  using Queue = runtime::Queue;
  using WorkInfo = runtime::WorkInfo;

 public:
  GpuBandKernels() {
    if (!test_gpus().empty()) {
      backend_ = mesh::make_cuda_backend({.devices = {test_gpus().front()}, .delays = {}});
      gpu_.emplace(backend_->make_device(0, rank_.pulse()));
    }
  }

  std::int64_t scratch(std::int64_t bandwidth) const override {
    return kernels().scratch(bandwidth);
  }
  runtime::BandTuning tuning(const Chase& chase) const override { return kernels().tuning(chase); }

 protected:
  void do_panel_qr(Queue& /*queue*/, const WorkInfo& /*info*/, Out a, Out r, Out t,
                   void* /*scratch*/) const override {
    OnGpu a_there(*gpu_, a);
    OnGpu r_there(*gpu_, r);
    OnGpu t_there(*gpu_, t);
    kernels().panel_qr(gpu_->queue(), a_there.view(), r_there.view(), t_there.view(),
                       scratch_for(a.columns()));
    fetch(a_there, r_there, t_there);
  }
  void do_store_band(Queue& /*queue*/, const WorkInfo& /*info*/, In top, In r,
                     Out band) const override {
    OnGpu top_there(*gpu_, top);
    OnGpu r_there(*gpu_, r);
    OnGpu band_there(*gpu_, band);
    kernels().store_band(gpu_->queue(), top_there.view(), r_there.view(), band_there.view());
    fetch(band_there);
  }
  void do_chase(Queue& /*queue*/, const WorkInfo& /*info*/, const Chase& chase,
                const SweepGroup& sweeps, const WaveRange& waves, Out band, Out reflectors,
                void* /*scratch*/) const override {
    OnGpu band_there(*gpu_, band);
    OnGpu reflectors_there(*gpu_, reflectors);
    kernels().chase(gpu_->queue(), chase, sweeps, waves, band_there.view(), reflectors_there.view(),
                    scratch_for(chase.bandwidth));
    fetch(band_there, reflectors_there);
  }
  void do_tridiagonal(Queue& /*queue*/, const WorkInfo& /*info*/, In band, Real* diagonal,
                      Real* off_diagonal) const override {
    const std::int64_t n = band.columns();
    OnGpu band_there(*gpu_, band);
    const OnGpu<Real> diagonal_there(*gpu_, MatrixView<Real>(diagonal, n, 1));
    const OnGpu<Real> off_diagonal_there(*gpu_, MatrixView<Real>(off_diagonal, n - 1, 1));
    kernels().tridiagonal(gpu_->queue(), band_there.view(), diagonal_there.view().data(),
                          off_diagonal_there.view().data());
    fetch(diagonal_there, off_diagonal_there);
  }
  void do_windows(Queue& /*queue*/, const WorkInfo& /*info*/, const Chase& chase,
                  const SweepGroup& sweeps, In reflectors, Out v, Out vt) const override {
    OnGpu reflectors_there(*gpu_, reflectors);
    OnGpu v_there(*gpu_, v);
    OnGpu vt_there(*gpu_, vt);
    kernels().windows(gpu_->queue(), chase, sweeps, reflectors_there.view(), v_there.view(),
                      vt_there.view());
    fetch(v_there, vt_there);
  }
  void do_apply_windows(Queue& /*queue*/, const WorkInfo& /*info*/, const Chase& chase,
                        std::span<const runtime::SweepWindows<T>> groups, Out z) const override {
    OnGpu z_there(*gpu_, z);
    for (const auto& [sweeps, v, vt] : groups) {
      const OnGpu v_there(*gpu_, v);
      const OnGpu vt_there(*gpu_, vt);
      const runtime::SweepWindows<T> there{sweeps, v_there.view(), vt_there.view()};
      kernels().apply_windows(gpu_->queue(), chase, std::span(&there, 1), z_there.view());
    }
    fetch(z_there);
  }
  void do_mirror(Queue& /*queue*/, const WorkInfo& /*info*/, In below, Out above, std::int64_t tile,
                 std::int64_t ahead) const override {
    OnGpu below_there(*gpu_, below);
    OnGpu above_there(*gpu_, above);
    kernels().mirror(gpu_->queue(), below_there.view(), above_there.view(), tile, ahead);
    fetch(above_there);
  }
  void do_permute_rows(Queue& /*queue*/, const WorkInfo& /*info*/, const std::int64_t* order,
                       In source, Out target) const override {
    std::vector<std::int64_t> numbers(order, order + target.rows());
    const OnGpu<std::int64_t> order_there(
        *gpu_, MatrixView<std::int64_t>(numbers.data(), target.rows(), 1));
    OnGpu source_there(*gpu_, source);
    OnGpu target_there(*gpu_, target);
    kernels().permute_rows(gpu_->queue(), order_there.view().data(), source_there.view(),
                           target_there.view());
    fetch(target_there);
  }
  void do_fix_phases(Queue& /*queue*/, const WorkInfo& /*info*/, Out z) const override {
    OnGpu z_there(*gpu_, z);
    kernels().fix_phases(gpu_->queue(), z_there.view());
    fetch(z_there);
  }

 private:
  const runtime::BandKernels<T>& kernels() const {
    return gpu_->device().template kernels<runtime::BandKernels<T>>();
  }
  template <class... Operands>
  void fetch(const Operands&... operands) const {
    (operands.fetch(gpu_->queue()), ...);
    gpu_->queue().synchronize();
    rank_.rethrow();
  }
  /// Kept, as kernels of one chase leave something in it for the next.
  void* scratch_for(std::int64_t bandwidth) const {
    const auto bytes = static_cast<std::size_t>(kernels().scratch(bandwidth));
    if (!scratch_ || scratch_bytes_ < bytes) {
      scratch_ = gpu_->device().allocate(bytes);
      scratch_bytes_ = bytes;
    }
    return scratch_->data();
  }

  mutable HostRank rank_;
  std::unique_ptr<mesh::Backend> backend_;
  mutable std::optional<OneDevice> gpu_;
  mutable std::optional<runtime::Buffer> scratch_;
  mutable std::size_t scratch_bytes_ = 0;
};

template <class T>
class DeviceBandTest : public BandChecks<T> {
 protected:
  DeviceBandTest() : BandChecks<T>(std::make_unique<GpuBandKernels<T>>()) {}

  void SetUp() override {
    if (test_gpus().empty()) {
      GTEST_SKIP() << "no GPU: set SHARDSOLVE_TEST_GPUS";
    }
  }
};
TYPED_TEST_SUITE(DeviceBandTest, Dtypes, DtypeNames);

TYPED_TEST(DeviceBandTest, PanelQr_OfAnyShape_IsAFactorisation) {
  using T = TypeParam;
  for (const std::int64_t rows : {1, 2, 5, 8, 70}) {
    for (const std::int64_t columns : {1, 2, 5, 16}) {
      this->expect_qr(right_hand_sides<T>(rows, columns));
    }
  }
  this->expect_qr(right_hand_sides<T>(700, 64));
  this->expect_qr(right_hand_sides<T>(20, 64));
}

TYPED_TEST(DeviceBandTest, PanelQr_OfAnyRank_IsAFactorisation) {
  using T = TypeParam;
  this->expect_qr(DenseMatrix<T>(20, 6));
  this->expect_qr(DenseMatrix<T>::identity(7));
  for (const std::int64_t rank : {1, 3}) {
    this->expect_qr(matmul(right_hand_sides<T>(300, rank, 1), right_hand_sides<T>(rank, 6, 2)));
  }
  this->expect_zeros_to_have_reflectors_that_do_nothing();
}

TYPED_TEST(DeviceBandTest, PanelQr_AtTheEndsOfTheRange_IsAFactorisation) {
  using T = TypeParam;
  using Limits = std::numeric_limits<RealOf<T>>;
  this->expect_qr(scaled(right_hand_sides<T>(140, 5), Limits::max() / RealOf<T>{1e4}));
  this->expect_qr(scaled(right_hand_sides<T>(140, 5), Limits::min() / Limits::epsilon()));
}

/// The last of these are too many for shared memory in any dtype.
TYPED_TEST(DeviceBandTest, PanelQr_OfManyRows_HasUnitaryColumns) {
  using T = TypeParam;
  this->expect_tall_qr(right_hand_sides<T>(3000, 64));
  this->expect_tall_qr(right_hand_sides<T>(20000, 8));
  this->expect_tall_qr(right_hand_sides<T>(200000, 40));
}

TYPED_TEST(DeviceBandTest, StoreBand_TakesWhatIsBelowTheDiagonal) {
  this->expect_band_to_take_what_is_below_the_diagonal();
}

TYPED_TEST(DeviceBandTest, Chase_OfAnyBand_MakesASimilarRealTridiagonal) {
  for (const std::int64_t n : {1, 2, 3, 4, 21}) {
    for (const std::int64_t b : {1, 2, 5, 8}) {
      this->expect_chase(n, b, 3);
    }
  }
  this->expect_chase(300, 32, 64);
  this->expect_chase(400, 64, 64);
  this->expect_chase(530, 515, 2);
}

/// Sweeps are as fast as they like to be.
TYPED_TEST(DeviceBandTest, Chase_AgainAndAgain_GivesTheSameBits) {
  using T = TypeParam;
  const Chase chase{700, 16, is_complex<T>};
  const DenseMatrix<T> band = random_band<T>(chase);
  const Chased<T> expected = this->chased(chase, 1, band, 1000);
  for (const std::int64_t count : {64, 64, 300, 698}) {
    for (const std::int64_t waves : {32, 3000}) {
      EXPECT_TRUE(same_bits(this->chased(chase, count, band, waves).band, expected.band))
          << "groups of " << count << " sweeps, " << waves << " waves";
    }
  }
}

TYPED_TEST(DeviceBandTest, WindowsWithoutGaps_DoTheSame) {
  this->expect_windows_without_gaps_to_do_the_same(300, 64, 64);
  this->expect_windows_without_gaps_to_do_the_same(100, 8, 16);
}

TYPED_TEST(DeviceBandTest, WindowsWithoutGaps_OfFewColumns_GiveTheSameBits) {
  if constexpr (std::is_same_v<TypeParam, double>) {  // others are applied by products
    for (const std::int64_t n : {200, 331}) {
      this->expect_windows_to_give_the_same_bits_to_fewer_columns(n, 5000, {3000, 1000, 17});
    }
  }
}

TYPED_TEST(DeviceBandTest, Chase_OfTinyNumbers_KeepsReflectorsUnitary) {
  this->expect_unitary_reflectors_of_tiny_numbers();
}

TYPED_TEST(DeviceBandTest, Chase_OfNothingToDo_LeavesTheBand) { this->expect_nothing_to_do(); }

TYPED_TEST(DeviceBandTest, Chase_OfManySweeps_DoesNotLetTheDiagonalDrift) {
  this->expect_diagonal_not_to_drift(400);
}

TYPED_TEST(DeviceBandTest, Mirror_WritesTheStaircaseAlone) {
  this->expect_mirrored(1, 1, 1, 1);
  for (const std::int64_t ahead : {-1, 0, 1, 2}) {
    this->expect_mirrored(50, 70, 8, ahead);
    this->expect_mirrored(1000, 700, 64, ahead);
  }
}

TYPED_TEST(DeviceBandTest, PermuteRows_GathersThem) {
  this->expect_permuted(1, 1);
  this->expect_permuted(3000, 5);
}

TYPED_TEST(DeviceBandTest, FixPhases_MakesTheLargestRealAndPositive) {
  this->expect_fixed_phases(50, 7);
  this->expect_fixed_phases(3000, 5);
}

}  // namespace
}  // namespace shardsolve::testing
