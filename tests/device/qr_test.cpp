// The kernels of QR on a GPU. Left out without one: see support/backend.hpp.

#include "device/kernels_fixture.hpp"
#include "tests/support/qr_kernels_tests.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace shardsolve::testing::qr_kernels {
namespace {

/// Those of a GPU for operands on the host: they go there and back with every call.
template <class T>
class GpuQrKernels final : public runtime::QrKernels<T> {
  using typename runtime::QrKernels<T>::Wide;
  using typename runtime::QrKernels<T>::In;
  using typename runtime::QrKernels<T>::Out;
  using typename runtime::QrKernels<T>::InWide;
  using typename runtime::QrKernels<T>::OutWide;
  using Queue = runtime::Queue;
  using WorkInfo = runtime::WorkInfo;

 public:
  static bool is_here() { return !test_gpus().empty(); }

  GpuQrKernels() {
    if (is_here()) {
      backend_ = mesh::make_cuda_backend({.devices = {test_gpus().front()}, .delays = {}});
      gpu_.emplace(backend_->make_device(0, rank_.pulse()));
    }
  }

 protected:
  void do_scale_columns(Queue& /*queue*/, const WorkInfo& /*info*/, In source,
                        const std::int64_t* exponents, Out target) const override {
    OnGpu source_there(*gpu_, source);
    OnGpu exponents_there(*gpu_, list(exponents, source.columns()));
    OnGpu target_there(*gpu_, target);
    kernels().scale_columns(gpu_->queue(), source_there.view(), exponents_there.view().data(),
                            target_there.view());
    fetch(target_there);
  }
  void do_adjoint_product(Queue& /*queue*/, const WorkInfo& /*info*/, In a, In b,
                          OutWide target) const override {
    OnGpu a_there(*gpu_, a);
    OnGpu b_there(*gpu_, b);
    OnGpu target_there(*gpu_, target);
    kernels().adjoint_product(gpu_->queue(), a_there.view(), b_there.view(), target_there.view());
    fetch(target_there);
  }
  void do_gram(Queue& /*queue*/, const WorkInfo& /*info*/, In a, OutWide g) const override {
    OnGpu a_there(*gpu_, a);
    OnGpu g_there(*gpu_, g);
    kernels().gram(gpu_->queue(), a_there.view(), g_there.view());
    fetch(g_there);
  }
  void do_gram_factor(Queue& /*queue*/, const WorkInfo& /*info*/, double shift, OutWide g,
                      std::int64_t* verdict) const override {
    OnGpu g_there(*gpu_, g);
    OnGpu verdict_there(*gpu_, list(verdict, 1));
    kernels().gram_factor(gpu_->queue(), shift, g_there.view(), verdict_there.view().data());
    fetch(g_there, verdict_there);
  }
  void do_divide(Queue& /*queue*/, const WorkInfo& /*info*/, InWide r, Out q,
                 bool is_near) const override {
    OnGpu r_there(*gpu_, r);
    OnGpu q_there(*gpu_, q);
    kernels().divide(gpu_->queue(), r_there.view(), q_there.view(), is_near);
    fetch(q_there);
  }
  void do_reflect(Queue& /*queue*/, const WorkInfo& /*info*/, Out a, OutWide r) const override {
    OnGpu a_there(*gpu_, a);
    OnGpu r_there(*gpu_, r);
    kernels().reflect(gpu_->queue(), a_there.view(), r_there.view());
    fetch(a_there, r_there);
  }
  void do_singular_values(Queue& /*queue*/, const WorkInfo& /*info*/, OutWide a, double* s,
                          OutWide u, OutWide vh, std::int64_t* verdict) const override {
    OnGpu a_there(*gpu_, a);
    OnGpu s_there(*gpu_, list(s, a.rows()));
    OnGpu u_there(*gpu_, u);
    OnGpu vh_there(*gpu_, vh);
    OnGpu verdict_there(*gpu_, list(verdict, 1));
    kernels().singular_values(gpu_->queue(), a_there.view(), s_there.view().data(), u_there.view(),
                              vh_there.view(), verdict_there.view().data());
    fetch(s_there, u_there, vh_there, verdict_there);
  }
  void do_column_sizes(Queue& /*queue*/, const WorkInfo& /*info*/, In a,
                       double* target) const override {
    OnGpu a_there(*gpu_, a);
    OnGpu target_there(*gpu_, list(target, 2 * a.columns()));
    kernels().column_sizes(gpu_->queue(), a_there.view(), target_there.view().data());
    fetch(target_there);
  }

 private:
  template <class V>
  static MatrixView<V> list(V* values, std::int64_t count) {
    return {values, count, 1};
  }
  const runtime::QrKernels<T>& kernels() const {
    return gpu_->device().template kernels<runtime::QrKernels<T>>();
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

INSTANTIATE_TYPED_TEST_SUITE_P(Gpu, QrKernelsTest, QrOfAllDtypes<GpuQrKernels>, QrKernelsNames);

}  // namespace
}  // namespace shardsolve::testing::qr_kernels
