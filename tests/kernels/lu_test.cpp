// The kernels of LU on the CPU, where there is no GPU: see emulation/emulator.hpp.

#include "kernels/orders.hpp"
#include "runtime/cuda/cholesky_device_kernels.hpp"
#include "runtime/cuda/eliminate_above.hpp"
#include "runtime/cuda/kernels/cluster.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/lu_device_kernels.hpp"
#include "runtime/cuda/panel_in_halves.hpp"
#include "tests/support/lu_kernels_tests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

/// Those of a GPU, run by the emulator where they are enqueued.
template <class T>
class EmulatedLuKernels final : public runtime::LuKernels<T> {
  using Own = runtime::cuda::LuDeviceKernels<runtime::cuda::Element<T>>;
  using typename runtime::LuKernels<T>::Real;
  using typename runtime::LuKernels<T>::In;
  using typename runtime::LuKernels<T>::Out;
  using Queue = runtime::Queue;
  using WorkInfo = runtime::WorkInfo;

 public:
  using runtime::LuKernels<T>::LuKernels;

  /// Of few rows, too.
  std::int64_t eliminate_scratch(std::int64_t width, std::int64_t rows,
                                 std::int64_t columns) const override {
    const bool splits =
        runtime::cuda::CholeskyDeviceKernels<runtime::cuda::Element<T>>::splits_panels(width);
    return splits && rows > 0 ? Own::split_scratch(width, rows, columns) : 0;
  }

 protected:
  void do_panel(Queue& queue, const WorkInfo& /*info*/, std::int64_t first, Out a,
                std::int64_t* places, std::int64_t* info) const override {
    std::vector<std::byte> scratch = scratch_of(Own::narrow_panel_scratch(a.rows()));
    const std::int64_t narrow = Own::narrow_columns(a.rows());
    ASSERT_GT(narrow, 0);
    runtime::cuda::panel_in_halves<T>(
        *this, queue, first, 0, a, places, narrow,
        [&](std::int64_t place, std::int64_t before, Out columns, std::int64_t* their_places) {
          Own::narrow_panel(nullptr, place, before, elements(columns), their_places, info,
                            scratch.data());
        });
  }
  void do_swap_rows(Queue& /*queue*/, const WorkInfo& /*info*/, std::int64_t first,
                    const std::int64_t* places, std::int64_t count, Out a) const override {
    std::vector<std::uint32_t> scratch(Own::swap_scratch / sizeof(std::uint32_t));
    for (std::int64_t done = 0; done < count; done += Own::max_swaps) {
      Own::swap_rows(nullptr, first + done, places + done, std::min(Own::max_swaps, count - done),
                     elements(a.block(done, 0, a.rows() - done, a.columns())), scratch.data());
    }
  }
  /// On a GPU products and solves are cuBLAS's work.
  void do_eliminate(Queue& queue, In panel, Out a, Out scratch) const override {
    const std::int64_t w = panel.columns();
    this->solve_tile(queue, Triangle::lower, Op::none, panel.block(0, 0, w, w),
                     a.block(0, 0, w, a.columns()));
    if (!scratch.empty()) {
      const std::int64_t rows = a.rows() - w;
      const In u12 = a.block(0, 0, w, a.columns());
      Own::split_update(nullptr, elements(panel.block(w, 0, rows, w)), elements(u12),
                        elements(a.block(w, 0, rows, a.columns())), elements(scratch).data());
      return;
    }
    for (std::int64_t j = 0; j < a.columns(); ++j) {
      for (std::int64_t i = w; i < a.rows(); ++i) {
        for (std::int64_t k = 0; k < w; ++k) {
          a(i, j) -= panel(i, k) * a(k, j);
        }
      }
    }
  }
  void do_eliminate_above(Queue& queue, In panel, Out a) const override {
    runtime::cuda::eliminate_above_in_blocks<T>(
        panel, a, [&](In u, Out b) { this->solve_tile(queue, Triangle::upper, Op::none, u, b); },
        [&](In u, In x, Out b) {
          for (std::int64_t j = 0; j < b.columns(); ++j) {
            for (std::int64_t i = 0; i < b.rows(); ++i) {
              for (std::int64_t k = 0; k < x.rows(); ++k) {
                b(i, j) -= u(i, k) * x(k, j);
              }
            }
          }
        });
  }
  void do_solve_tile(Queue& /*queue*/, const WorkInfo& /*info*/, Triangle triangle, Op op, In tile,
                     Out b) const override {
    const std::int64_t n = tile.rows();
    const bool lower = triangle == Triangle::lower;
    const auto entry = [&](std::int64_t i, std::int64_t k) {
      return op == Op::none        ? tile(i, k)
             : op == Op::transpose ? tile(k, i)
                                   : reference::conjugate(tile(k, i));
    };
    const bool forward = lower == (op == Op::none);
    for (std::int64_t j = 0; j < b.columns(); ++j) {
      for (std::int64_t turn = 0; turn < n; ++turn) {
        const std::int64_t i = forward ? turn : n - 1 - turn;
        for (std::int64_t other = 0; other < turn; ++other) {
          const std::int64_t k = forward ? other : n - 1 - other;
          b(i, j) -= entry(i, k) * b(k, j);
        }
        if (!lower) {
          b(i, j) /= entry(i, i);
        }
      }
    }
  }
  void do_upper_max(Queue& /*queue*/, const WorkInfo& /*info*/, std::int64_t first, In a,
                    double* target) const override {
    Own::upper_max(nullptr, first, elements(a), target);
  }
  void do_transpose(Queue& /*queue*/, const WorkInfo& /*info*/, In source,
                    Out target) const override {
    Own::transpose(nullptr, elements(source), elements(target));
  }
  void do_choose_columns(Queue& /*queue*/, const WorkInfo& /*info*/, In source,
                         const std::int64_t* columns, Out target) const override {
    Own::choose_columns(nullptr, elements(source), columns, elements(target));
  }
  void do_choose_rows(Queue& /*queue*/, const WorkInfo& /*info*/, In source,
                      const std::int64_t* rows, Out target) const override {
    Own::choose_rows(nullptr, elements(source), rows, elements(target));
  }
  void do_order_rows(Queue& /*queue*/, const WorkInfo& /*info*/, const std::int64_t* rows, Out a,
                     Out /*scratch*/) const override {
    Own::order_rows(nullptr, rows, elements(a));
  }
  void do_order_columns(Queue& /*queue*/, const WorkInfo& /*info*/, In source,
                        const std::int64_t* columns, Out target) const override {
    Own::order_columns(nullptr, elements(source), columns, elements(target));
  }
  void do_multiply(Queue& /*queue*/, const WorkInfo& /*info*/, Op op, In a, In x, Out y,
                   MatrixView<double> sizes) const override {
    Own::multiply(nullptr, op, elements(a), elements(x), elements(y), sizes,
                  scratch_of(Own::multiply_scratch(op, elements(a))).data());
  }
  void do_moduli(Queue& /*queue*/, const WorkInfo& /*info*/, In source,
                 MatrixView<Real> target) const override {
    Own::moduli(nullptr, elements(source), target);
  }
  void do_row_sums(Queue& /*queue*/, const WorkInfo& /*info*/, double scale, In a, double* sums,
                   double* largest) const override {
    Own::row_sums(nullptr, scale, elements(a), sums, largest,
                  scratch_of(Own::row_sums_scratch(elements(a))).data());
  }
  void do_component_errors(Queue& /*queue*/, const WorkInfo& /*info*/, double least, In r,
                           MatrixView<const double> sizes, In b, double* target) const override {
    Own::component_errors(nullptr, least, elements(r), sizes, elements(b), target);
  }

 private:
  static std::vector<std::byte> scratch_of(std::size_t bytes) {
    return std::vector<std::byte>(bytes, std::byte{0xff});
  }
  template <class V>
  static auto elements(V view) {
    return runtime::cuda::elements(view);
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Emulated, LuKernelsTest, OfAllDtypes<EmulatedLuKernels>,
                               LuKernelsNames);

/// From here on, as on a GPU that has none.
class WithoutClusters {
 public:
  WithoutClusters() { runtime::cuda::largest_cluster() = 0; }
  ~WithoutClusters() { runtime::cuda::largest_cluster() = before_; }
  WithoutClusters(const WithoutClusters&) = delete;
  WithoutClusters& operator=(const WithoutClusters&) = delete;

 private:
  int before_ = runtime::cuda::largest_cluster();
};

template <class T>
class EmulatedLu : public ::testing::Test {
 protected:
  using Own = runtime::cuda::LuDeviceKernels<runtime::cuda::Element<T>>;

  struct Factors {
    DenseMatrix<T> a;
    std::vector<std::int64_t> places;
    std::int64_t info = -77;
    friend bool operator==(const Factors&, const Factors&) = default;
  };
  static Factors narrow_panel(const DenseMatrix<T>& a) {
    Factors factors{a, std::vector<std::int64_t>(static_cast<std::size_t>(a.columns()))};
    std::vector<std::byte> scratch(Own::narrow_panel_scratch(a.rows()), std::byte{0xff});
    Own::narrow_panel(nullptr, 5, 0, runtime::cuda::elements(factors.a.view()),
                      factors.places.data(), &factors.info, scratch.data());
    return factors;
  }
};
TYPED_TEST_SUITE(EmulatedLu, Dtypes, DtypeNames);

// Several blocks, in any order, and several rows a thread where there are few multiprocessors.
TYPED_TEST(EmulatedLu, NarrowPanel_OfManyRows_IsTheSameOnAnyGpu) {
  const DenseMatrix<TypeParam> a = right_hand_sides<TypeParam>(2300, 2);
  const WithoutClusters without;
  const auto expected = this->narrow_panel(a);
  EXPECT_EQ(expected.info, 0);
  EXPECT_LE(panel_ratio(a, expected.a, expected.places, 5), 30.0);
  std::int64_t& multiprocessors = runtime::cuda::multiprocessors();
  for (const std::int64_t count : {5, 3, 2, 1}) {
    multiprocessors = count;
    in_each_order([&] { EXPECT_TRUE(this->narrow_panel(a) == expected) << count; });
  }
  multiprocessors = 132;
}

// All shapes of clusters, the largest of them with rows that not all threads have.
TYPED_TEST(EmulatedLu, NarrowPanel_InACluster_IsTheSame) {
  for (const auto& [m, n] : {std::pair{33, 33}, {500, 21}, {1100, 40}, {2300, 3}}) {
    SCOPED_TRACE(m);
    const DenseMatrix<TypeParam> a = right_hand_sides<TypeParam>(m, n);
    const auto expected = [&] {
      const WithoutClusters without;
      return this->narrow_panel(a);
    }();
    EXPECT_LE(panel_ratio(a, expected.a, expected.places, 5), 30.0);
    in_each_order([&] { EXPECT_TRUE(this->narrow_panel(a) == expected); });
  }
}

// Equal pivots in different blocks.
TYPED_TEST(EmulatedLu, NarrowPanel_OfSigns_TakesTheFirstOfEquals) {
  using T = TypeParam;
  DenseMatrix<T> a(1200, 3);
  for (std::int64_t i = 0; i < 1200; ++i) {
    a(i, 0) = i < 520 ? T{0} : T{i % 3 == 0 ? -1.0F : 1.0F};
    a(i, 1) = T{i % 2 == 0 ? 1.0F : -1.0F};
    a(i, 2) = T{i % 7 == 0 ? 1.0F : -1.0F};
  }
  const auto factors = this->narrow_panel(a);
  EXPECT_EQ(factors.places[0], 5 + 520);
  EXPECT_LE(panel_ratio(a, factors.a, factors.places, 5), 10.0);
  const WithoutClusters without;
  EXPECT_TRUE(this->narrow_panel(a) == factors);
}

TYPED_TEST(EmulatedLu, SwapRows_MoreThanFitAtOnce_AreMadeInTurn) {
  using T = TypeParam;
  constexpr std::int64_t n = 1300;
  const DenseMatrix<T> a = right_hand_sides<T>(n, 3);
  std::vector<std::int64_t> places(static_cast<std::size_t>(n));
  DenseMatrix<T> expected = a;
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t other = j + (j * 7919 + 13) % (n - j);
    places[static_cast<std::size_t>(j)] = other;
    for (std::int64_t c = 0; c < 3; ++c) {
      std::swap(expected(j, c), expected(other, c));
    }
  }
  const runtime::host::HostKernels<T> base;
  const EmulatedLuKernels<T> kernels(base);
  HostRank rank;
  runtime::host::HostQueue queue("test", rank.pulse());
  in_each_order([&] {
    DenseMatrix<T> swapped = a;
    kernels.swap_rows(queue, 0, places.data(), n, swapped.view());
    EXPECT_TRUE(swapped == expected);
  });
}

}  // namespace
}  // namespace shardsolve::testing
