// Tridiagonal eigenproblems on a GPU against those of the host: the same bits where the operations
// are the same, and the gates where they are not. Left out without a GPU: see support/backend.hpp.

#include "device/kernels_fixture.hpp"
#include "reference/dense_matrix.hpp"
#include "runtime/tridiagonal_kernels.hpp"
#include "support/bits.hpp"
#include "support/secular_cases.hpp"
#include "support/tridiagonal_zoo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing::tridiagonal {
namespace {

using runtime::ColumnRotation;
using runtime::Tridiagonal;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Lists in the memory of one device, for one call.
template <class Real>
class Side {
 public:
  explicit Side(OneDevice& device)
      : device_(device), kernels_(device.device().kernels<runtime::TridiagonalKernels<Real>>()) {}

  const runtime::TridiagonalKernels<Real>& kernels() const { return kernels_; }
  runtime::Queue& queue() { return device_.queue(); }

  template <class V>
  V* put(const std::vector<V>& values) {
    V* const list = room<V>(static_cast<std::int64_t>(values.size()));
    queue().copy(list, values.data(), values.size() * sizeof(V));
    queue().synchronize();
    return list;
  }
  template <class V>
  V* room(std::int64_t count) {
    memory_.push_back(device_.device().allocate(at(std::max<std::int64_t>(count, 1)) * sizeof(V)));
    return static_cast<V*>(memory_.back().data());
  }
  MatrixView<Real> put(const DenseMatrix<Real>& a) {
    return {put(std::vector<Real>(a.data(), a.data() + a.rows() * a.columns())), a.rows(),
            a.columns()};
  }
  Tridiagonal<Real> put(const TridiagonalCase<Real>& t) {
    return {put(t.diagonal), put(t.off_diagonal), t.order()};
  }
  SecularEquation<Real> put(const Equation<Real>& f) {
    return {put(f.poles), put(f.weights), f.equation.count, f.equation.rho};
  }

  template <class V>
  std::vector<V> get(const V* list, std::int64_t count) {
    std::vector<V> values(at(count));
    queue().copy(values.data(), list, values.size() * sizeof(V));
    queue().synchronize();
    return values;
  }
  DenseMatrix<Real> get(MatrixView<Real> a) {
    const std::vector<Real> entries = get(a.data(), a.rows() * a.columns());
    return DenseMatrix<Real>(MatrixView<const Real>(entries.data(), a.rows(), a.columns()));
  }

 private:
  OneDevice& device_;
  const runtime::TridiagonalKernels<Real>& kernels_;
  std::vector<runtime::Buffer> memory_;
};

template <class Real>
class DeviceTridiagonal : public DeviceKernelsTest<Real> {
 protected:
  /// What `work` makes on the GPU and on the host.
  template <class Work>
  auto on_both(Work work) {
    Side<Real> gpu(*this->gpu_);
    Side<Real> host(*this->host_);
    return std::pair{work(gpu), work(host)};
  }
};
TYPED_TEST_SUITE(DeviceTridiagonal, RealDtypes, DtypeNames);

template <class Real>
struct Solved {
  std::vector<Real> values;
  DenseMatrix<Real> z;
  std::vector<std::int64_t> infos;
};

TYPED_TEST(DeviceTridiagonal, SmallParts_HaveTheirEigenpairs) {
  using Real = TypeParam;
  for (const std::int64_t n : {1, 2, 17, 32, 300}) {
    for (const TridiagonalCase<Real>& t : tridiagonal_zoo<Real>(n)) {
      SCOPED_TRACE(t.name + " " + std::to_string(n));
      std::vector<std::int64_t> bounds;
      for (std::int64_t begin = 0; begin < n; begin += 32) {
        bounds.push_back(begin);
        bounds.push_back(std::min(begin + 32, n));
      }
      const auto count = static_cast<std::int64_t>(bounds.size()) / 2;
      Side<Real> gpu(*this->gpu_);
      Real* const values = gpu.template room<Real>(n);
      const MatrixView<Real> z = gpu.put(DenseMatrix<Real>(n, n));
      auto* const infos = gpu.template room<std::int64_t>(count);
      gpu.kernels().solve_small(gpu.queue(), gpu.put(t), {gpu.put(bounds), count}, values, z,
                                infos);
      const Solved<Real> solved{gpu.get(values, n), gpu.get(z), gpu.get(infos, count)};
      EXPECT_EQ(solved.infos, std::vector<std::int64_t>(at(count), 0));
      for (std::int64_t p = 0; p < count; ++p) {
        const std::int64_t begin = bounds[at(2 * p)];
        const std::int64_t rows = bounds[at(2 * p + 1)] - begin;
        const TridiagonalCase<Real> part{
            t.name,
            {t.diagonal.begin() + begin, t.diagonal.begin() + begin + rows},
            {t.off_diagonal.begin() + begin, t.off_diagonal.begin() + begin + rows - 1}};
        EXPECT_TRUE(are_eigenpairs(part, truth_of(part), solved.values.data() + begin,
                                   DenseMatrix<Real>(MatrixView<const Real>(
                                       solved.z.view().block(begin, begin, rows, rows)))));
      }
    }
  }
}

TYPED_TEST(DeviceTridiagonal, SecularEquation_HasRootsAndWeightsOfTheHost) {
  using Real = TypeParam;
  using Root = SecularRoot<Real>;
  const auto expect_same = [&](const Equation<Real>& f) {
    const std::int64_t n = f.equation.count;
    std::vector<std::int64_t> rows(at(n));
    std::iota(rows.rbegin(), rows.rend(), std::int64_t{0});
    struct Found {
      std::vector<Root> roots;
      std::vector<Real> weights;
      DenseMatrix<Real> u;
    };
    const auto [found, expected] = this->on_both([&](Side<Real>& side) {
      SecularEquation<Real> equation = side.put(f);
      auto* const roots = side.template room<Root>(n);
      side.kernels().secular_roots(side.queue(), equation, 0, n, roots);
      Real* const weights = side.template room<Real>(n);
      side.kernels().secular_weights(side.queue(), equation, roots, weights);
      equation.weights = weights;
      const MatrixView<Real> u = side.put(DenseMatrix<Real>(n, n - n / 3));
      side.kernels().secular_vectors(side.queue(), equation, roots, side.put(rows), n / 3, u);
      return Found{side.get(roots, n), side.get(weights, n), side.get(u)};
    });
    for (std::size_t i = 0; i < found.roots.size(); ++i) {
      ASSERT_EQ(found.roots[i].origin, expected.roots[i].origin) << i;
      ASSERT_EQ(found.roots[i].offset, expected.roots[i].offset) << i;
    }
    ASSERT_EQ(found.weights, expected.weights);
    const double limit = static_cast<double>(8 + n) * unit_roundoff<Real>;
    for (std::int64_t j = 0; j < found.u.columns(); ++j) {
      for (std::int64_t i = 0; i < n; ++i) {
        ASSERT_LE(std::abs(found.u(i, j) - expected.u(i, j)), limit * std::abs(expected.u(i, j)));
      }
    }
  };
  for_each_equation<Real>(expect_same);
  expect_same(Equation<Real>(secular_cases.back(), 3000));
}

TYPED_TEST(DeviceTridiagonal, SecularEquationWithNoNumber_EndsTheSearch) {
  using Real = TypeParam;
  using Root = SecularRoot<Real>;
  Equation<Real> f(secular_cases[0], 50);
  f.weights[25] = std::numeric_limits<Real>::quiet_NaN();
  Side<Real> gpu(*this->gpu_);
  Root* const roots = gpu.put(std::vector<Root>(50, {Real{1}, 1}));
  gpu.kernels().secular_roots(gpu.queue(), gpu.put(f), 0, 50, roots);
  for (const Root& root : gpu.get(roots, 50)) {
    EXPECT_EQ(root.origin, Root::not_found);
  }
}

TYPED_TEST(DeviceTridiagonal, RotatedAndCopiedColumns_HaveTheBitsOfTheHost) {
  using Real = TypeParam;
  const std::vector<ColumnRotation<Real>> rotations{
      {0, 3, Real(0.6), Real(0.8)}, {3, 4, Real(-0.28), Real(0.96)}, {4, 1, Real(0.8), Real(-0.6)}};
  const std::vector<std::int64_t> from{4, 0, 2};
  const std::vector<std::int64_t> to{1, 5, 0};
  std::mt19937_64 random(3);
  for (const std::int64_t rows : {1, 129, 1024, 5001}) {
    DenseMatrix<Real> z(rows, 6);
    std::generate_n(z.data(), rows * 6, [&] { return draw<Real>(random); });
    const auto [found, expected] = this->on_both([&](Side<Real>& side) {
      const MatrixView<Real> rotated = side.put(z);
      side.kernels().rotate_columns(side.queue(), side.put(rotations), 3, rotated);
      const MatrixView<Real> target = side.put(z);
      side.kernels().copy_columns(side.queue(), 3, rotated, side.put(from), target, side.put(to));
      side.kernels().copy_columns(side.queue(), 1, rotated, nullptr, target.columns_from(3, 1),
                                  nullptr);
      return std::pair{side.get(rotated), side.get(target)};
    });
    EXPECT_TRUE(same_bits(found.first, expected.first));
    EXPECT_TRUE(same_bits(found.second, expected.second));
  }
}

TYPED_TEST(DeviceTridiagonal, Bisection_HasTheBitsOfTheHost) {
  using Real = TypeParam;
  for (const std::int64_t n : {1, 2, 33, 130, 700}) {
    for (const TridiagonalCase<Real>& t : tridiagonal_zoo<Real>(n)) {
      SCOPED_TRACE(t.name + " " + std::to_string(n));
      Real bound = std::numeric_limits<Real>::min();
      for (std::int64_t i = 0; i < n; ++i) {
        const Real beside = i + 1 < n ? std::abs(t.off_diagonal[at(i)]) : Real{0};
        bound = std::max(bound, 3 * std::max(beside, std::abs(t.diagonal[at(i)])));
      }
      bound = std::min(bound, std::numeric_limits<Real>::max() / 4);
      const Real width = bound * std::numeric_limits<Real>::epsilon() / 2;
      const std::int64_t first = n / 4;
      const auto [found, expected] = this->on_both([&](Side<Real>& side) {
        const Tridiagonal<Real> own = side.put(t);
        Real* const values = side.template room<Real>(n - first);
        side.kernels().bisect(side.queue(), own, -bound, bound, width, first, n - first, values);
        auto* const below = side.template room<std::int64_t>(n - first);
        side.kernels().count_eigenvalues(side.queue(), own, values, n - first, below);
        return std::pair{side.get(values, n - first), side.get(below, n - first)};
      });
      EXPECT_EQ(found.first, expected.first);
      EXPECT_EQ(found.second, expected.second);
    }
  }
}

}  // namespace
}  // namespace shardsolve::testing::tridiagonal
