// A backend whose updates take panels in a form of their own, as GPUs do in single precision:
// factor and inverse use nothing else of such a panel, and have room for it.

#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "runtime/host/host_device.hpp"
#include "support/backend.hpp"
#include "support/bits.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/mesh.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

using runtime::PanelUpdate;
using runtime::Queue;

/// Panels are doubled, and NaN follows each column, where tiles have an even number of columns.
class PreparingKernels final : public runtime::host::HostKernels<double> {
 public:
  std::int64_t packed_rows(std::int64_t tile) const override {
    return is_prepared(tile) ? tile + more_rows : tile;
  }
  void prepare_updates(Queue& queue, Out packed) const override {
    if (is_prepared(packed.rows())) {
      scale(queue, 2.0, packed);
      fill(queue, std::numeric_limits<double>::quiet_NaN(),
           {packed.data() + packed.rows(), more_rows, packed.columns(), packed.stride()});
    }
  }
  void update(Queue& queue, In left_panel, In right_panel,
              const std::vector<PanelUpdate<double>>& updates) const override {
    if (!is_prepared(left_panel.rows())) {
      HostKernels::update(queue, left_panel, right_panel, updates);
      return;
    }
    // Products of doubled panels; multiplications by powers of two change no bits.
    for (PanelUpdate<double> one : updates) {
      for (std::int64_t left = std::exchange(one.count, 1); left > 0; --left) {
        scale(queue, 4.0, one.c);
        HostKernels::update(queue, left_panel, right_panel, {one});
        scale(queue, 0.25, one.c);
        one.left += one.apart;
        one.right += one.apart;
        one.c = runtime::moved(one.c, one.c_apart);
      }
    }
  }

 private:
  static constexpr std::int64_t more_rows = 3;
  static bool is_prepared(std::int64_t tile) { return tile % 2 == 0; }
};

class PreparingDevice final : public runtime::host::HostDevice {
 public:
  using HostDevice::HostDevice;
  using HostDevice::kernels;
  const runtime::Kernels<double>& kernels(const double*) const override { return kernels_; }

 private:
  PreparingKernels kernels_;
};

class PreparingBackend final : public mesh::HostBackend {
 public:
  using HostBackend::HostBackend;
  std::unique_ptr<runtime::Device> make_device(std::int64_t, runtime::Pulse& pulse) override {
    return std::make_unique<PreparingDevice>(pulse);
  }
};

void expect_the_bits_of_plain_panels(const SlabLayout& layout) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "of CPU devices";
  }
  const DenseMatrix<double> a = dense<double>({.n = layout.size(), .seed = 3});
  const auto expect_same = [&](Mesh one, Mesh other) {
    CholeskyFactor<double> a_factor = cholesky_factor(one, shard(a, layout));
    CholeskyFactor<double> b_factor = cholesky_factor(other, shard(a, layout));
    const auto same = [&] { return same_bits(whole(a_factor.slabs), whole(b_factor.slabs)); };
    EXPECT_TRUE(a_factor.outcome.ok()) << a_factor.outcome.message();
    EXPECT_TRUE(same());
    EXPECT_TRUE(cholesky_inverse(one, std::move(a_factor)).ok());
    EXPECT_TRUE(cholesky_inverse(other, std::move(b_factor)).ok());
    EXPECT_TRUE(same());
  };
  using Windows = mesh::HostBackend::Windows;
  for (const Windows windows : {Windows::in_place, Windows::copied}) {
    auto backend = std::make_unique<PreparingBackend>(layout.ranks(), windows);
    expect_same(Mesh(mesh::MeshState::start(std::move(backend))), Mesh::host(layout.ranks()));
  }
}

TEST(PreparedUpdates, GiveTheBitsOfPlainPanels) {
  for (const std::int64_t ranks : {1, 2, 3}) {
    for (const std::int64_t tile : {8, 9, 16}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, tile " + std::to_string(tile));
      expect_the_bits_of_plain_panels(SlabLayout::even(101, ranks, tile));
    }
  }
}

// Its 8 columns are prepared and have more rows than those of a tile of 9.
TEST(PreparedUpdates, NarrowFirstBlock_FitsItsSlot) {
  expect_the_bits_of_plain_panels(SlabLayout({0, 8, 101}, 9));
}

}  // namespace
}  // namespace shardsolve::testing
