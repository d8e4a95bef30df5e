// The triangular solves with a panel and the tile that they need, against those of the host. Left
// out without a GPU: see support/backend.hpp.

#include "device/kernels_fixture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace shardsolve::testing {
namespace {

using runtime::Op;

template <Scalar T>
class DevicePanelTest : public DeviceKernelsTest<T> {
 protected:
  /// The factor of a tile, zeros above.
  Framed<T> factor_of(const Framed<T>& tile) {
    const std::int64_t n = tile.rows;
    Framed<T> l =
        this->after(*this->host_, {tile}, [this](const auto&, auto& queue, const auto& x) {
          std::int64_t info = -1;
          this->cholesky(queue).potrf(queue, x[0], {}, &info);
          queue.synchronize();
          ASSERT_EQ(info, 0);
        })[0];
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < j; ++i) {
        l(i, j) = T{0};
      }
    }
    return l;
  }
  /// y op(l) for random y, so that the solution is no larger than the panel: |x| |l| would hide
  /// errors.
  Framed<T> panel_with_small_solution(const Framed<T>& l, Op op, std::int64_t rows) {
    const std::int64_t n = l.rows;
    const auto product = [op](const auto& kernels, auto& queue, const auto& x) {
      kernels.gemm(queue, Op::none, op, T{1}, x[0], x[1], T{0}, x[2]);
    };
    return this->after(*this->host_, {framed<T>(rows, n, 6), l, framed<T>(rows, n, 8)}, product)[2];
  }

  struct Solved {
    Framed<T> l;
    Framed<T> x;
    Framed<T> packed;
    double flops = 0.0;  // of the panel
  };
  /// Where the panel is packed: a stride and a first place that are multiples of 16 bytes.
  static constexpr std::int64_t top = 2;
  static Framed<T> around(std::int64_t n, std::int64_t rows) {
    return framed<T>(n + top + 1, rows, 7);
  }
  /// x L^H = a on the GPU, which factors the tile.
  Solved solved(const Framed<T>& tile, const Framed<T>& a) {
    const std::int64_t n = tile.rows;
    double flops = 0.0;
    const auto found = this->after(
        *this->gpu_, {tile, a, around(n, a.rows)},
        [&](const auto& kernels, auto& queue, const auto& x) {
          const auto memory =
              this->gpu_->device().allocate(static_cast<std::size_t>(2 * n * n) * sizeof(T));
          const MatrixView<T> tile_scratch(static_cast<T*>(memory.data()), n, 2 * n);
          const auto cell = this->gpu_->device().allocate(sizeof(std::int64_t));
          auto* info = static_cast<std::int64_t*>(cell.data());
          kernels.fill(queue, T{std::numeric_limits<RealOf<T>>::quiet_NaN()}, tile_scratch);
          this->cholesky(queue).potrf(queue, x[0], tile_scratch, info);
          const double before = queue.flops();
          this->cholesky(queue).panel(queue, x[0], tile_scratch, x[1],
                                      x[2].block(top, 0, n, a.rows));
          flops = queue.flops() - before;
          std::int64_t pivot = -1;
          queue.copy(&pivot, info, sizeof(pivot));
          queue.synchronize();
          EXPECT_EQ(pivot, 0);
        });
    return {found[0], found[1], found[2], flops};
  }
};
TYPED_TEST_SUITE(DevicePanelTest, Dtypes, DtypeNames);

/// A tile whose factor is I plus small numbers, and what is above it.
template <Scalar T>
Framed<T> definite(std::int64_t n) {
  Framed<T> tile = framed<T>(n, n, 5);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = j; i < n; ++i) {
      tile(i, j) *= static_cast<RealOf<T>>(0.5 / std::sqrt(static_cast<double>(n)));
    }
    tile(j, j) = T{4};
  }
  return tile;
}

TYPED_TEST(DevicePanelTest, Panel_IsTheHosts) {
  using T = TypeParam;
  for (const std::int64_t n : {1,   5,   31,  32,  33,  63,  64,  65,   96,   101, 128,
                               200, 257, 500, 511, 512, 700, 999, 1000, 1023, 1024}) {
    SCOPED_TRACE(n);
    // blocks of a panel are wide where there are few rows
    const std::int64_t rows = n % 2 == 0 ? 1100 : 150;
    this->expect_alike(
        {definite<T>(n), framed<T>(rows, n, 6), framed<T>(n, rows, 7)}, 8 * n,
        [&](const auto& kernels, auto& queue, const auto& x) {
          const bool on_gpu = &queue == &this->gpu_->queue();
          OneDevice& side = on_gpu ? *this->gpu_ : *this->host_;
          const std::int64_t columns = this->cholesky(queue).tuning(n).tile_scratch_columns;
          const auto memory =
              side.device().allocate(static_cast<std::size_t>(n * columns) * sizeof(T));
          const MatrixView<T> tile_scratch(static_cast<T*>(memory.data()), n, columns);
          kernels.fill(queue, T{std::numeric_limits<RealOf<T>>::quiet_NaN()}, tile_scratch);
          const auto cell = side.device().allocate(sizeof(std::int64_t));
          auto* info = static_cast<std::int64_t*>(cell.data());
          queue.store(info, -77, 1);
          this->cholesky(queue).potrf(queue, x[0], tile_scratch, info);
          this->cholesky(queue).panel(queue, x[0], tile_scratch, x[1], x[2]);
          std::int64_t found = -1;
          queue.copy(&found, info, sizeof(found));
          queue.synchronize();
          EXPECT_EQ(found, 0);
        });
  }
}

/// A tile of a Gaussian kernel, as close to singular as its precision allows.
template <Scalar T>
Framed<T> nearly_singular(std::int64_t n) {
  Framed<T> tile = framed<T>(n, n, 5);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = j; i < n; ++i) {
      const double apart = 10.0 * static_cast<double>(i - j) / static_cast<double>(n);
      const double entry = std::exp(-0.5 * apart * apart);
      if constexpr (is_complex<T>) {
        tile(i, j) = static_cast<T>(std::polar(entry, apart));
      } else {
        tile(i, j) = static_cast<T>(entry);
      }
    }
    const bool is_double = std::is_same_v<RealOf<T>, double>;
    tile(j, j) += static_cast<RealOf<T>>(is_double ? 1e-9 : 3e-7 * static_cast<double>(n));
  }
  return tile;
}

/// max of |a - x op(l)| / (|x| |op(l)|) over some rows.
template <Scalar T>
double backward_error(const Framed<T>& a, const Framed<T>& x, const Framed<T>& l, Op op) {
  using Wide = std::conditional_t<is_complex<T>, std::complex<long double>, long double>;
  double worst = 0.0;
  for (std::int64_t i = 0; i < a.rows; i += i < 20 || i + 20 > a.rows ? 1 : 211) {
    for (std::int64_t j = 0; j < l.columns; ++j) {
      Wide sum = -Wide(a(i, j));
      long double size = 0;
      const bool of_adjoint = op == Op::conjugate_transpose;
      for (std::int64_t k = of_adjoint ? 0 : j; k < (of_adjoint ? j + 1 : l.columns); ++k) {
        const Wide term = Wide(x(i, k)) * Wide(of_adjoint ? conjugate(l(j, k)) : l(k, j));
        sum += term;
        size += std::abs(term);
      }
      const double error = static_cast<double>(std::abs(sum) / size);
      worst = worse(worst, error);
    }
  }
  return worst;
}

/// max of |I - m l| / (|m| |l|) over some rows, in entries that are not 0 by themselves.
template <Scalar T>
double largest_error(const Framed<T>& m, const Framed<T>& l) {
  using Wide = std::conditional_t<is_complex<T>, std::complex<long double>, long double>;
  double worst = 0.0;
  for (std::int64_t i = 0; i < m.rows; i += i < 20 || i + 20 > m.rows ? 1 : 37) {
    for (std::int64_t j = 0; j <= i; ++j) {
      Wide sum = i == j ? -1 : 0;
      long double size = 0;
      for (std::int64_t k = j; k <= i; ++k) {
        const Wide term = Wide(m(i, k)) * Wide(l(k, j));
        sum += term;
        size += std::abs(term);
      }
      const double error = static_cast<double>(std::abs(sum) / size);
      worst = worse(worst, error);
    }
  }
  return worst;
}

/// Whether a panel whose memory is aligned is solved in one kernel on a GPU of that capability.
template <Scalar T>
bool is_solved_in_one_kernel(int major, std::int64_t n, std::int64_t rows) {
  // that for few rows takes more shared memory than sm_120 has, but in float32
  const bool has_blocks =
      !std::is_same_v<T, std::complex<double>> && (major < 12 || std::is_same_v<T, float>);
  const bool by_blocks = has_blocks && n % 64 == 0;
  const bool by_warps = rows >= 3072 && n % (is_complex<T> ? 64 : 128) == 0;
  return major >= 9 && (by_blocks || by_warps);
}

// Wide panels and narrow ones, of whole and of broken groups of rows.
TYPED_TEST(DevicePanelTest, Panel_IsAsStableAsASolve) {
  using T = TypeParam;
  const auto gpu = static_cast<std::size_t>(test_gpus().front());
  const int major = mesh::cuda_facts().gpus[gpu].major;
  for (const std::int64_t n : {100, 128, 192, 256, 640, 1024}) {
    for (const std::int64_t rows : {1, 100, 3071, 3072, 3100, 8449}) {
      SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(n));
      const Framed<T> tile = nearly_singular<T>(n);
      const Framed<T> a =
          this->panel_with_small_solution(this->factor_of(tile), Op::conjugate_transpose, rows);
      const auto found = this->solved(tile, a);
      EXPECT_LE(backward_error(a, found.x, found.l, Op::conjugate_transpose),
                static_cast<double>(n) * unit_roundoff<T>);
      // The kernels count what a solve takes, products count themselves.
      const double of_a_solve =
          (is_complex<T> ? 4.0 : 1.0) * static_cast<double>(rows) * static_cast<double>(n * n);
      EXPECT_EQ(std::abs(found.flops / of_a_solve - 1.0) < 1e-6,
                is_solved_in_one_kernel<T>(major, n, rows))
          << found.flops;
      for (std::size_t i = 0; i < a.values.size(); ++i) {
        ASSERT_TRUE(a.inside(i) || found.x.values[i] == a.values[i]) << "place " << i;
      }
      const Framed<T> around = this->around(n, rows);
      for (std::int64_t j = -around.left; j < rows + around.right; ++j) {
        for (std::int64_t i = -around.above; i < around.rows + around.below; ++i) {
          const bool of_panel = i >= this->top && i < this->top + n && j >= 0 && j < rows;
          const T expected = of_panel ? conjugate(found.x(j, i - this->top)) : around(i, j);
          ASSERT_EQ(found.packed(i, j), expected) << i << ", " << j;
        }
      }
    }
  }
}

// Floats are split for tensor cores, with the numbers of a row brought near 1 before.
TYPED_TEST(DevicePanelTest, Panel_OddRow_ChangesNoOther) {
  using T = TypeParam;
  using Real = RealOf<T>;
  constexpr std::int64_t n = 256;
  constexpr std::int64_t odd = 21;
  const Framed<T> tile = definite<T>(n);
  for (const std::int64_t rows : {40, 3100}) {
    const Framed<T> a = framed<T>(rows, n, 6);
    const Framed<T> expected = this->solved(tile, a).x;
    for (const Real factor : {std::numeric_limits<Real>::quiet_NaN(),
                              std::numeric_limits<Real>::infinity(), static_cast<Real>(0x1p-64)}) {
      SCOPED_TRACE(std::to_string(rows) + " rows, one times " + std::to_string(factor));
      Framed<T> other = a;
      for (std::int64_t j = 0; j < n; ++j) {
        other(odd, j) *= factor;
      }
      const Framed<T> found = this->solved(tile, other).x;
      for (std::int64_t j = 0; j < n; ++j) {
        for (std::int64_t i = 0; i < rows; ++i) {
          if (i != odd) {
            ASSERT_EQ(found(i, j), expected(i, j)) << i << ", " << j;
          } else if (std::isfinite(factor)) {  // a power of two: nothing is rounded otherwise
            ASSERT_EQ(found(i, j), expected(i, j) * factor) << j;
          } else {
            ASSERT_FALSE(std::isfinite(std::abs(found(i, j)))) << j;
          }
        }
      }
    }
  }
}

TYPED_TEST(DevicePanelTest, InversePanel_IsAsStableAsASolve) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 100, 256, 640, 1024}) {
    for (const std::int64_t rows : {100, 3100, 8449}) {
      SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(n));
      const Framed<T> l = this->factor_of(nearly_singular<T>(n));
      const Framed<T> s = this->panel_with_small_solution(l, Op::none, rows);
      const auto found =
          this->after(*this->gpu_, {l, framed<T>(n, n, 5), s, framed<T>(n, rows, 7)},
                      [&](const auto& kernels, auto& queue, const auto& x) {
                        kernels.identity(queue, x[1]);
                        kernels.trsm(queue, runtime::Side::left, runtime::Triangle::lower, Op::none,
                                     x[0], x[1]);
                        this->cholesky(queue).inverse_panel(queue, x[0], x[1], x[2], x[3]);
                      });
      EXPECT_LE(backward_error(s, found[2], l, Op::none),
                static_cast<double>(n) * unit_roundoff<T>);
      for (std::int64_t j = 0; j < n; ++j) {
        for (std::int64_t i = 0; i < rows; ++i) {
          ASSERT_EQ(found[3](j, i), conjugate(found[2](i, j))) << i << ", " << j;
        }
      }
    }
  }
}

// Tiles side by side, each with zeros above its diagonal, also more than are inverted at once;
// m l = I, not l m = I.
TYPED_TEST(DevicePanelTest, Inverses_AreAsStableAsSolves) {
  using T = TypeParam;
  for (const auto& [n, count] : {std::array<std::int64_t, 2>{1, 3},
                                 {31, 1},
                                 {64, 3},
                                 {65, 1},
                                 {100, 33},
                                 {128, 3},
                                 {200, 1},
                                 {640, 3},
                                 {1000, 1},
                                 {1024, 3}}) {
    SCOPED_TRACE(std::to_string(count) + " of " + std::to_string(n));
    const Framed<T> l = this->factor_of(nearly_singular<T>(n));
    Framed<T> all = framed<T>(n, n * count, 5);
    const Framed<T> m = framed<T>(n, n * count, 6);
    for (std::int64_t j = 0; j < n * count; ++j) {
      for (std::int64_t i = 0; i < n; ++i) {
        all(i, j) = l(i, j % n);
      }
    }
    const auto found =
        this->after(*this->gpu_, {all, m}, [&](const auto&, auto& queue, const auto& x) {
          this->cholesky(queue).invert(
              queue, x[0].columns_from(0, n), x[1].columns_from(0, n),
              {.count = count, .a = n * x[0].stride(), .c = n * x[1].stride()});
        });
    EXPECT_EQ(found[0].values, all.values);
    for (std::size_t i = 0; i < m.values.size(); ++i) {
      ASSERT_TRUE(m.inside(i) || found[1].values[i] == m.values[i]) << "place " << i;
    }
    Framed<T> inverse = framed<T>(n, n, 7);
    for (std::int64_t tile = 0; tile < count; ++tile) {
      for (std::int64_t j = 0; j < n; ++j) {
        for (std::int64_t i = 0; i < n; ++i) {
          inverse(i, j) = found[1](i, tile * n + j);
          ASSERT_TRUE(i >= j || inverse(i, j) == T{0}) << i << ", " << j;
        }
      }
      EXPECT_LE(largest_error(inverse, l), static_cast<double>(n) * unit_roundoff<T>) << tile;
    }
  }
}

TYPED_TEST(DevicePanelTest, Potrf_NamesTheFirstPivotThatFails) {
  using T = TypeParam;
  const auto info_of = [&](Framed<T> tile) {
    std::int64_t found = 0;
    this->after(*this->gpu_, {tile}, [&](const auto&, auto& queue, const auto& x) {
      const std::int64_t n = x[0].rows();
      const auto memory =
          this->gpu_->device().allocate(static_cast<std::size_t>(2 * n * n) * sizeof(T));
      const auto cell = this->gpu_->device().allocate(sizeof(std::int64_t));
      auto* info = static_cast<std::int64_t*>(cell.data());
      this->cholesky(queue).potrf(queue, x[0], {static_cast<T*>(memory.data()), n, 2 * n}, info);
      queue.copy(&found, info, sizeof(found));
      queue.synchronize();
    });
    return found;
  };
  for (const std::int64_t n : {1, 40, 64, 300, 512, 1000}) {
    for (const std::int64_t place : {std::int64_t{0}, n / 3, n / 2, n - 1}) {
      SCOPED_TRACE(std::to_string(n) + ", " + std::to_string(place));
      auto tile = definite<T>(n);
      tile(place, place) = T{-4};
      EXPECT_EQ(info_of(tile), place + 1);
      tile(place, place) = T{0};
      tile(n - 1, n - 1) = std::numeric_limits<RealOf<T>>::quiet_NaN();
      EXPECT_EQ(info_of(tile), place == n - 1 ? -n : place + 1);
      tile(place, place) = std::numeric_limits<RealOf<T>>::infinity();
      EXPECT_EQ(info_of(tile), -(place + 1));
    }
  }
}

}  // namespace
}  // namespace shardsolve::testing
