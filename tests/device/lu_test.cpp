// The kernels of LU on a GPU. Left out without one: see support/backend.hpp.

#include "device/kernels_fixture.hpp"
#include "tests/support/lu_kernels_tests.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace shardsolve::testing {
namespace {

/// Those of a GPU for operands on the host: they go there and back with every call.
template <class T>
class GpuLuKernels final : public runtime::LuKernels<T> {
  using typename runtime::LuKernels<T>::Real;
  using typename runtime::LuKernels<T>::In;
  using typename runtime::LuKernels<T>::Out;
  using Queue = runtime::Queue;
  using WorkInfo = runtime::WorkInfo;

 public:
  static bool is_here() { return !test_gpus().empty(); }

  explicit GpuLuKernels(const runtime::Kernels<T>& base) : runtime::LuKernels<T>(base) {
    if (is_here()) {
      backend_ = mesh::make_cuda_backend({.devices = {test_gpus().front()}, .delays = {}});
      gpu_.emplace(backend_->make_device(0, rank_.pulse()));
    }
  }

  std::int64_t eliminate_scratch(std::int64_t width, std::int64_t rows,
                                 std::int64_t columns) const override {
    return kernels().eliminate_scratch(width, rows, columns);
  }

 protected:
  void do_panel(Queue& /*queue*/, const WorkInfo& /*info*/, std::int64_t first, Out a,
                std::int64_t* places, std::int64_t* info) const override {
    OnGpu a_there(*gpu_, a);
    OnGpu places_there(*gpu_, list(places, a.columns()));
    OnGpu info_there(*gpu_, list(info, 1));
    kernels().panel(gpu_->queue(), first, a_there.view(), places_there.view().data(),
                    info_there.view().data());
    fetch(a_there, places_there, info_there);
  }
  void do_swap_rows(Queue& /*queue*/, const WorkInfo& /*info*/, std::int64_t first,
                    const std::int64_t* places, std::int64_t count, Out a) const override {
    OnGpu a_there(*gpu_, a);
    OnGpu places_there(*gpu_, list(places, count));
    kernels().swap_rows(gpu_->queue(), first, places_there.view().data(), count, a_there.view());
    fetch(a_there);
  }
  void do_eliminate(Queue& /*queue*/, In panel, Out a, Out scratch) const override {
    OnGpu panel_there(*gpu_, panel);
    OnGpu a_there(*gpu_, a);
    OnGpu scratch_there(*gpu_, scratch);
    kernels().eliminate(gpu_->queue(), panel_there.view(), a_there.view(), scratch_there.view());
    fetch(a_there);
  }
  void do_eliminate_above(Queue& /*queue*/, In panel, Out a) const override {
    OnGpu panel_there(*gpu_, panel);
    OnGpu a_there(*gpu_, a);
    kernels().eliminate_above(gpu_->queue(), panel_there.view(), a_there.view());
    fetch(a_there);
  }
  void do_solve_tile(Queue& /*queue*/, const WorkInfo& /*info*/, runtime::Triangle triangle,
                     runtime::Op op, In tile, Out b) const override {
    OnGpu tile_there(*gpu_, tile);
    OnGpu b_there(*gpu_, b);
    kernels().solve_tile(gpu_->queue(), triangle, op, tile_there.view(), b_there.view());
    fetch(b_there);
  }
  void do_upper_max(Queue& /*queue*/, const WorkInfo& /*info*/, std::int64_t first, In a,
                    double* target) const override {
    OnGpu a_there(*gpu_, a);
    OnGpu target_there(*gpu_, list(target, a.columns()));
    kernels().upper_max(gpu_->queue(), first, a_there.view(), target_there.view().data());
    fetch(target_there);
  }
  void do_transpose(Queue& /*queue*/, const WorkInfo& /*info*/, In source,
                    Out target) const override {
    OnGpu source_there(*gpu_, source);
    OnGpu target_there(*gpu_, target);
    kernels().transpose(gpu_->queue(), source_there.view(), target_there.view());
    fetch(target_there);
  }
  void do_choose_columns(Queue& /*queue*/, const WorkInfo& /*info*/, In source,
                         const std::int64_t* columns, Out target) const override {
    OnGpu source_there(*gpu_, source);
    OnGpu columns_there(*gpu_, list(columns, target.rows()));
    OnGpu target_there(*gpu_, target);
    kernels().choose_columns(gpu_->queue(), source_there.view(), columns_there.view().data(),
                             target_there.view());
    fetch(target_there);
  }
  void do_choose_rows(Queue& /*queue*/, const WorkInfo& /*info*/, In source,
                      const std::int64_t* rows, Out target) const override {
    OnGpu source_there(*gpu_, source);
    OnGpu rows_there(*gpu_, list(rows, target.rows()));
    OnGpu target_there(*gpu_, target);
    kernels().choose_rows(gpu_->queue(), source_there.view(), rows_there.view().data(),
                          target_there.view());
    fetch(target_there);
  }
  void do_order_rows(Queue& /*queue*/, const WorkInfo& /*info*/, const std::int64_t* rows, Out a,
                     Out scratch) const override {
    OnGpu a_there(*gpu_, a);
    OnGpu rows_there(*gpu_, list(rows, a.rows()));
    OnGpu scratch_there(*gpu_, scratch);
    kernels().order_rows(gpu_->queue(), rows_there.view().data(), a_there.view(),
                         scratch_there.view());
    fetch(a_there);
  }
  void do_order_columns(Queue& /*queue*/, const WorkInfo& /*info*/, In source,
                        const std::int64_t* columns, Out target) const override {
    OnGpu source_there(*gpu_, source);
    OnGpu columns_there(*gpu_, list(columns, target.columns()));
    OnGpu target_there(*gpu_, target);
    kernels().order_columns(gpu_->queue(), source_there.view(), columns_there.view().data(),
                            target_there.view());
    fetch(target_there);
  }
  void do_multiply(Queue& /*queue*/, const WorkInfo& /*info*/, runtime::Op op, In a, In x, Out y,
                   MatrixView<double> sizes) const override {
    OnGpu a_there(*gpu_, a);
    OnGpu x_there(*gpu_, x);
    OnGpu y_there(*gpu_, y);
    OnGpu sizes_there(*gpu_, sizes);
    kernels().multiply(gpu_->queue(), op, a_there.view(), x_there.view(), y_there.view(),
                       sizes_there.view());
    fetch(y_there, sizes_there);
  }
  void do_moduli(Queue& /*queue*/, const WorkInfo& /*info*/, In source,
                 MatrixView<Real> target) const override {
    OnGpu source_there(*gpu_, source);
    OnGpu target_there(*gpu_, target);
    kernels().moduli(gpu_->queue(), source_there.view(), target_there.view());
    fetch(target_there);
  }
  void do_row_sums(Queue& /*queue*/, const WorkInfo& /*info*/, double scale, In a, double* sums,
                   double* largest) const override {
    OnGpu a_there(*gpu_, a);
    OnGpu sums_there(*gpu_, list(sums, a.rows()));
    OnGpu largest_there(*gpu_, list(largest, a.rows()));
    kernels().row_sums(gpu_->queue(), scale, a_there.view(), sums_there.view().data(),
                       largest_there.view().data());
    fetch(sums_there, largest_there);
  }
  void do_component_errors(Queue& /*queue*/, const WorkInfo& /*info*/, double least, In r,
                           MatrixView<const double> sizes, In b, double* target) const override {
    OnGpu r_there(*gpu_, r);
    OnGpu sizes_there(*gpu_, sizes);
    OnGpu b_there(*gpu_, b);
    OnGpu target_there(*gpu_, list(target, r.columns()));
    kernels().component_errors(gpu_->queue(), least, r_there.view(), sizes_there.view(),
                               b_there.view(), target_there.view().data());
    fetch(target_there);
  }

 private:
  template <class V>
  static MatrixView<V> list(V* values, std::int64_t count) {
    return {values, count, 1};
  }
  const runtime::LuKernels<T>& kernels() const {
    return gpu_->device().template kernels<runtime::LuKernels<T>>();
  }
  template <class... Operands>
  void fetch(const Operands&... operands) const {
    (operands.fetch(gpu_->queue()), ...);
    gpu_->queue().synchronize();
    rank_.rethrow();
  }

  mutable HostRank rank_;
  std::unique_ptr<mesh::Backend> backend_;
  mutable std::optional<OneDevice> gpu_;
};

/// Panels of a little more rows than a cluster of sm_90 takes: their last columns have fewer.
template <class T>
class GpuPanel : public LuKernelsTest<LuKernelsOf<GpuLuKernels, T>> {};
TYPED_TEST_SUITE(GpuPanel, Dtypes, DtypeNames);

TYPED_TEST(GpuPanel, AtTheEndOfWhatClustersTake_IsItsFactor) {
  using T = TypeParam;
  for (const std::int64_t m : {2048 + 70, 4096 + 70}) {
    const DenseMatrix<T> a = right_hand_sides<T>(m, 256);
    DenseMatrix<T> lu = a;
    std::vector<std::int64_t> places;
    EXPECT_EQ(this->panel(lu.view(), places), 0);
    EXPECT_LE(panel_ratio(a, lu, places, 0), 100.0) << m;  // sums of errors of 256 columns
  }
}

INSTANTIATE_TYPED_TEST_SUITE_P(Gpu, LuKernelsTest, OfAllDtypes<GpuLuKernels>, LuKernelsNames);

}  // namespace
}  // namespace shardsolve::testing
