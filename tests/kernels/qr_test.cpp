// The kernels of QR on the CPU, where there is no GPU: see emulation/emulator.hpp.

#include "reference/wide.hpp"
#include "runtime/cuda/qr_device_kernels.hpp"
#include "runtime/host/qr_kernels.hpp"
#include "support/dtypes.hpp"
#include "tests/support/qr_kernels_tests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::testing::qr_kernels {
namespace {

using runtime::cuda::Element;
using runtime::cuda::elements;

/// Cholesky factor in place, as cuBLAS and the kernel for tiles make it; 0 if there is one.
template <Scalar W>
std::int64_t factor_plainly(MatrixView<W> g) {
  for (std::int64_t j = 0; j < g.columns(); ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      W sum = g(i, j);
      for (std::int64_t k = 0; k < i; ++k) {
        sum -= reference::conjugate(g(k, i)) * g(k, j);
      }
      if (i == j && !(std::real(sum) > 0)) {
        return j + 1;
      }
      g(i, j) = i == j ? W{std::sqrt(std::real(sum))} : sum / g(i, i);
    }
  }
  return 0;
}

/// Those of a GPU, run by the emulator where they are enqueued; products and quotients, which are
/// cuBLAS's, are the host's.
template <class T>
class EmulatedQrKernels final : public runtime::QrKernels<T> {
  using typename runtime::QrKernels<T>::Wide;
  using typename runtime::QrKernels<T>::In;
  using typename runtime::QrKernels<T>::Out;
  using typename runtime::QrKernels<T>::InWide;
  using typename runtime::QrKernels<T>::OutWide;
  using Queue = runtime::Queue;
  using WorkInfo = runtime::WorkInfo;
  using Own = runtime::cuda::QrDeviceKernels<Element<T>>;
  using Small = runtime::cuda::SmallQrDeviceKernels<Element<Wide>>;

 protected:
  void do_scale_columns(Queue& /*queue*/, const WorkInfo& /*info*/, In source,
                        const std::int64_t* exponents, Out target) const override {
    Own::scale_columns(nullptr, elements(source), exponents, elements(target));
  }
  void do_adjoint_product(Queue& queue, const WorkInfo& /*info*/, In a, In b,
                          OutWide target) const override {
    host_.adjoint_product(queue, a, b, target);
  }
  void do_gram(Queue& queue, const WorkInfo& /*info*/, In a, OutWide g) const override {
    // As products of three pieces; a kernel adds them, the first time to zeros.
    const std::int64_t n = g.columns();
    reference::DenseMatrix<Wide> products(n, 3 * n);
    for (std::int64_t piece = 0; piece < 3; ++piece) {
      const std::int64_t begin = piece * a.rows() / 3;
      const In some = a.block(begin, 0, (piece + 1) * a.rows() / 3 - begin, n);
      host_.adjoint_product(queue, some, some, products.view().columns_from(piece * n, n));
    }
    queue.synchronize();
    for (std::int64_t j = 0; j < n; ++j) {
      std::fill_n(&g(0, j), n, Wide{0});
    }
    Small::add_products(nullptr, elements(InWide(products.view())).data(), 3, 0, elements(g));
  }
  void do_gram_factor(Queue& /*queue*/, const WorkInfo& /*info*/, double shift, OutWide g,
                      std::int64_t* verdict) const override {
    const std::int64_t n = g.columns();
    reference::DenseMatrix<Wide> plain(n, n);
    reference::DenseMatrix<Wide> shifted(n, n);
    std::vector<double> sums(static_cast<std::size_t>(2 * n));
    std::vector<double> numbers(2);
    std::vector<std::int64_t> infos(2);
    const typename Small::GramChoice choice{
        .sums = sums.data(), .numbers = numbers.data(), .infos = infos.data(), .blocks = 1};
    Small::compare_gram(nullptr, elements(g), elements(plain.view()));
    const auto square = reference::matmul(reference::Op::none, plain, reference::Op::none, plain);
    shifted = square;
    Small::begin_gram(nullptr, shift, elements(g), elements(shifted.view()), 1.0 / 16,
                      elements(plain.view()), elements(shifted.view()), choice);
    infos = {factor_plainly<Wide>(plain.view()), factor_plainly<Wide>(shifted.view())};
    const typename Small::GramChoice found{
        .sums = sums.data(), .numbers = numbers.data(), .infos = infos.data(), .blocks = 1};
    Small::choose_factor(nullptr, elements(plain.view()), elements(shifted.view()), found,
                         elements(g), verdict);
  }
  void do_divide(Queue& queue, const WorkInfo& /*info*/, InWide r, Out q,
                 bool is_near) const override {
    host_.divide(queue, r, q, is_near);
  }
  void do_reflect(Queue& /*queue*/, const WorkInfo& /*info*/, Out a, OutWide r) const override {
    std::vector<Element<Wide>> scales(static_cast<std::size_t>(r.rows()));
    Own::reflect(nullptr, elements(a), elements(r), scales.data());
  }
  void do_singular_values(Queue& /*queue*/, const WorkInfo& /*info*/, OutWide a, double* s,
                          OutWide u, OutWide vh, std::int64_t* verdict) const override {
    std::vector<double> scratch(Small::singular_values_scratch(a.rows()) / sizeof(double) + 2);
    Small::singular_values(nullptr, elements(a), s, elements(u), elements(vh), verdict,
                           scratch.data());
  }
  void do_column_sizes(Queue& /*queue*/, const WorkInfo& /*info*/, In a,
                       double* target) const override {
    std::vector<double> scratch(Own::column_sizes_scratch(a.rows(), a.columns()) / sizeof(double));
    Own::column_sizes(nullptr, elements(a), target, scratch.data());
  }

 private:
  runtime::host::HostQrKernels<T> host_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Emulated, QrKernelsTest, QrOfAllDtypes<EmulatedQrKernels>,
                               QrKernelsNames);

/// Q in place of `a`, and R.
template <Scalar T>
DenseMatrix<WideOf<T>> reflected(DenseMatrix<T>& a) {
  const std::int64_t k = std::min(a.rows(), a.columns());
  DenseMatrix<WideOf<T>> r(k, a.columns());
  std::vector<Element<WideOf<T>>> scales(static_cast<std::size_t>(k));
  runtime::cuda::QrDeviceKernels<Element<T>>::reflect(nullptr, elements(a.view()),
                                                      elements(r.view()), scales.data());
  return r;
}

template <class T>
class EmulatedReflections : public ::testing::Test {};
TYPED_TEST_SUITE(EmulatedReflections, Dtypes, DtypeNames);

/// Rounding goes to one side: with the tau of LAPACK's larfg this Q had 30 u.
TYPED_TEST(EmulatedReflections, OfEqualEntries_AreUnitaryToRounding) {
  using T = TypeParam;
  constexpr std::int64_t n = 24;
  std::vector<DenseMatrix<WideOf<T>>> parts;
  std::int64_t rows = 0;
  for (const std::int64_t m : {16, 3, 31}) {
    DenseMatrix<T> ones(m, n);
    std::fill(ones.data(), ones.data() + m * n, T{1});
    parts.push_back(reflected(ones));
    rows += parts.back().rows();
  }
  DenseMatrix<T> stack(rows, n);
  std::int64_t first = 0;
  for (const auto& part : parts) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < part.rows(); ++i) {
        stack(first + i, j) = static_cast<T>(part(i, j));
      }
    }
    first += part.rows();
  }
  reflected(stack);
  EXPECT_LE(q_ratio(stack), 12.0);
}

}  // namespace
}  // namespace shardsolve::testing::qr_kernels
