// The kernels of the GPU against those of the host, on views with gaps around them.
//
// What a kernel does not own has to stay as it was, to the last bit; what it writes agrees to
// rounding. Left out without a GPU: see support/backend.hpp.

#include "device/kernels_fixture.hpp"
#include "reference/dense_matrix.hpp"
#include "support/all_sizes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace shardsolve::testing {
namespace {

using runtime::Inspection;
using runtime::Op;
using runtime::Side;
using runtime::Triangle;

TYPED_TEST_SUITE(DeviceKernelsTest, Dtypes, DtypeNames);

const std::vector<std::int64_t> sizes{0, 1, 7, 31, 32, 33, 64, 100, 257};

TYPED_TEST(DeviceKernelsTest, Elementwise_GivesTheHostsBits) {
  using T = TypeParam;
  for (const std::int64_t rows : sizes) {
    for (const std::int64_t columns : sizes) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
      const std::vector same{framed<T>(rows, columns, 1), framed<T>(rows, columns, 2)};
      this->expect_alike(same, 0, [](const auto& kernels, auto& queue, const auto& x) {
        kernels.copy(queue, x[0], x[1]);
      });
      this->expect_alike(same, 1, [](const auto& kernels, auto& queue, const auto& x) {
        kernels.add(queue, T{-1}, x[0], x[1]);
        kernels.scale(queue, RealOf<T>{0.25}, x[0]);
      });
      this->expect_alike({framed<T>(rows, columns, 1), framed<T>(columns, rows, 2)}, 0,
                         [](const auto& kernels, auto& queue, const auto& x) {
                           kernels.conjugate_transpose(queue, x[0], x[1]);
                         });
      this->expect_alike(
          {framed<T>(rows, columns, 1)}, 0,
          [](const auto& kernels, auto& queue, const auto& x) { kernels.fill(queue, T{3}, x[0]); });
    }
  }
}

TYPED_TEST(DeviceKernelsTest, SquareTiles_GiveTheHostsBits) {
  using T = TypeParam;
  for (const std::int64_t n : sizes) {
    SCOPED_TRACE(n);
    this->expect_alike(
        {framed<T>(n, n, 1)}, 0,
        [](const auto& kernels, auto& queue, const auto& x) { kernels.identity(queue, x[0]); });
    this->expect_alike({framed<T>(n, n, 1), framed<T>(n, n, 2)}, 0,
                       [](const auto& kernels, auto& queue, const auto& x) {
                         kernels.lower_triangle(queue, x[0], x[1]);
                       });
    auto scales = framed<T>(n, n, 1);
    for (std::int64_t i = 0; i < n; ++i) {
      scales(i, i) *= static_cast<RealOf<T>>(std::ldexp(1.0, static_cast<int>(i % 60 - 30)));
    }
    for (const bool inverted : {false, true}) {
      this->expect_alike({scales, framed<T>(n, 70, 2), framed<T>(n, 70, 3)}, 0,
                         [inverted](const auto& kernels, auto& queue, const auto& x) {
                           kernels.scale_rows(queue, x[0], inverted, x[1], x[2]);
                         });
    }
    // the diagonal comes from the real parts of a column of its own
    for (const bool in_place : {false, true}) {
      this->expect_alike({framed<T>(n, n, 1), framed<T>(n, n, 2), framed<T>(n, n, 3)}, 0,
                         [in_place](const auto& kernels, auto& queue, const auto& x) {
                           if (x[0].empty()) {
                             return;
                           }
                           auto* values = reinterpret_cast<RealOf<T>*>(x[2].data());
                           kernels.diagonal(queue, x[0], values);
                           kernels.hermitian_tile(queue, x[0], values, in_place ? x[0] : x[1]);
                         });
    }
  }
}

TYPED_TEST(DeviceKernelsTest, Products_AgreeToRounding) {
  using T = TypeParam;
  const auto ops = {Op::none, Op::transpose, Op::conjugate_transpose};
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{65, 33, 40},
                                {200, 1, 130},
                                {1, 1, 1},
                                {64, 128, 1},
                                {40, 30, 0}}) {
    for (const Op op_a : ops) {
      for (const Op op_b : ops) {
        const bool flip_a = op_a != Op::none;
        const bool flip_b = op_b != Op::none;
        this->expect_alike({framed<T>(flip_a ? k : m, flip_a ? m : k, 1),
                            framed<T>(flip_b ? n : k, flip_b ? k : n, 2), framed<T>(m, n, 3)},
                           4 * (k + 1), [=](const auto& kernels, auto& queue, const auto& x) {
                             kernels.gemm(queue, op_a, op_b, T{-1}, x[0], x[1], T{1}, x[2]);
                             kernels.gemm(queue, op_a, op_b, T{1}, x[0], x[1], T{0}, x[2]);
                           });
      }
    }
  }
  for (const Op op : ops) {
    for (const Triangle triangle : {Triangle::lower, Triangle::upper}) {
      const std::int64_t n = 70;
      const std::int64_t k = 45;
      const bool flip = op != Op::none;
      if (op != Op::transpose) {
        this->expect_alike({framed<T>(flip ? k : n, flip ? n : k, 1), framed<T>(n, n, 2)}, 4 * k,
                           [=](const auto& kernels, auto& queue, const auto& x) {
                             kernels.herk(queue, triangle, op, RealOf<T>{-1}, x[0], RealOf<T>{1},
                                          x[1]);
                           });
      }
      for (const Side side : {Side::left, Side::right}) {
        auto a = framed<T>(n, n, 3);
        for (std::int64_t j = 0; j < n; ++j) {
          a(j, j) = T{30};
        }
        this->expect_alike(
            {a, framed<T>(side == Side::left ? n : 21, side == Side::left ? 21 : n, 4)}, n,
            [=](const auto& kernels, auto& queue, const auto& x) {
              kernels.trsm(queue, side, triangle, op, x[0], x[1]);
            });
      }
    }
  }
}

TYPED_TEST(DeviceKernelsTest, Batches_AreTheProductsOneByOne) {
  using T = TypeParam;
  for (const std::int64_t tile : {5, 40, 70}) {
    const std::int64_t k = 20;
    const std::int64_t count = 5;
    const std::int64_t n = 2 * tile * count;
    for (const Op op : {Op::transpose, Op::conjugate_transpose}) {
      this->expect_alike({framed<T>(k, n, 1), framed<T>(n, n, 2)}, 4 * k,
                         [=](const auto& kernels, auto& queue, const auto& x) {
                           const runtime::BatchStrides strides{count, 2 * tile * x[0].stride(),
                                                               2 * tile * x[0].stride(),
                                                               2 * tile * (x[1].stride() + 1)};
                           kernels.gemm_batch(queue, op, Op::none, T{-1},
                                              x[0].columns_from(tile, tile),
                                              x[0].columns_from(0, tile), T{1},
                                              x[1].block(tile, 0, tile, tile), strides);
                         });
    }
  }
}

/// Narrow tiles, and those that are halved: of even and odd width, side by side and apart.
TYPED_TEST(DeviceKernelsTest, BatchesOfDiagonalTiles_AreTheProductsOneByOne) {
  using T = TypeParam;
  for (const std::int64_t tile : {40, 515, 520}) {
    for (const std::int64_t apart : {tile, tile + 2, tile + 3}) {
      for (const Op op : {Op::none, Op::conjugate_transpose}) {
        const std::int64_t k = 20;
        const std::int64_t count = apart == tile + 3 ? 1 : 2;
        const std::int64_t n = 2 * apart;
        const bool by_rows = op == Op::none;
        this->expect_alike(
            {framed<T>(by_rows ? n : k, by_rows ? k : n, 1), framed<T>(n, n, 2)}, 4 * k,
            [=](const auto& kernels, auto& queue, const auto& x) {
              const std::int64_t step = apart * (by_rows ? 1 : x[0].stride());
              const runtime::BatchStrides strides{count, step, step, apart * (x[1].stride() + 1)};
              const auto a = by_rows ? x[0].block(0, 0, tile, k) : x[0].columns_from(0, tile);
              for (const Triangle triangle : {Triangle::lower, Triangle::upper}) {
                kernels.herk_batch(queue, triangle, op, RealOf<T>{-1}, a,
                                   x[1].block(0, 0, tile, tile), strides);
              }
            });
      }
    }
  }
}

/// Few right-hand sides: a kernel of ours, of blocks that speak to each other from some size on.
TYPED_TEST(DeviceKernelsTest, SolvesWithATile_AgreeToRounding) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 5, 31, 32, 33, 64, 100, 192, 193, 511, 512, 1000, 1024}) {
    auto a = framed<T>(n, n, 3);
    for (T& value : a.values) {
      value *= static_cast<RealOf<T>>(0.5 / std::sqrt(static_cast<double>(n)));
    }
    for (std::int64_t j = 0; j < n; ++j) {
      a(j, j) = T{4};
    }
    for (const std::int64_t columns : {1, 3, 9, 64, 257}) {
      for (const Triangle triangle : {Triangle::lower, Triangle::upper}) {
        for (const Op op : {Op::none, Op::transpose, Op::conjugate_transpose}) {
          SCOPED_TRACE(std::to_string(n) + ", " + std::to_string(columns));
          this->expect_alike({a, framed<T>(n, columns, 4)}, 16,
                             [=](const auto& kernels, auto& queue, const auto& x) {
                               kernels.trsm(queue, Side::left, triangle, op, x[0], x[1]);
                             });
        }
      }
    }
  }
}

TYPED_TEST(DeviceKernelsTest, NumbersOfAnotherType_BecomeTheHostsBits) {
  using T = TypeParam;
  for (const std::int64_t rows : {1, 33, 257}) {
    constexpr std::int64_t columns = 40;
    const auto expect_alike_from = [&](const auto& given, auto call) {
      using Source = std::remove_cvref_t<decltype(given(0, 0))>;
      const auto bytes = static_cast<std::size_t>(rows * columns) * sizeof(Source);
      // The source is copied in whole by each side, the target is what is compared.
      this->expect_alike(
          {framed<T>(rows, columns, 2)}, 0, [&](const auto& kernels, auto& queue, const auto& x) {
            const bool on_gpu = &queue == &this->gpu_->queue();
            OneDevice& side = on_gpu ? *this->gpu_ : *this->host_;
            const auto memory = side.device().allocate(bytes);
            queue.copy(memory.data(), given.data(), bytes);
            call(kernels, queue,
                 MatrixView<const Source>(static_cast<const Source*>(memory.data()), rows, columns),
                 x[0]);
            queue.synchronize();
          });
    };
    expect_alike_from(of_all_sizes<runtime::OtherPrecision<T>>(rows, columns),
                      [](const auto& kernels, auto& queue, auto source, auto target) {
                        kernels.convert(queue, source, target);
                      });
    expect_alike_from(of_all_sizes<RealOf<T>>(rows, columns),
                      [](const auto& kernels, auto& queue, auto source, auto target) {
                        kernels.from_real(queue, source, target);
                      });
  }
}

/// Doubles that a kernel fills, from one side.
template <Scalar T, class Call>
std::vector<double> doubles_of(OneDevice& side, const Framed<T>& frame, std::size_t count,
                               Call call) {
  const std::size_t bytes = frame.values.size() * sizeof(T);
  const auto memory = side.device().allocate(bytes);
  const auto target = side.device().allocate(count * sizeof(double));
  side.queue().copy(memory.data(), frame.values.data(), bytes);
  call(MatrixView<const T>(static_cast<T*>(memory.data()) + frame.place(0, 0), frame.rows,
                           frame.columns, frame.stride()),
       static_cast<double*>(target.data()));
  std::vector<double> values(count);
  side.queue().copy(values.data(), target.data(), count * sizeof(double));
  side.queue().synchronize();
  return values;
}

TYPED_TEST(DeviceKernelsTest, ColumnMax_IsTheHostsAndKeepsNaN) {
  using T = TypeParam;
  for (const std::int64_t rows : {0, 1, 33, 1000, 5000}) {
    for (const std::int64_t columns : {1, 3, 40}) {
      auto frame = framed<T>(rows, columns, 8);
      if (rows > 2 && columns > 2) {
        frame(rows / 2, 1) = std::numeric_limits<RealOf<T>>::quiet_NaN();
        frame(rows - 1, 2) = -std::numeric_limits<RealOf<T>>::infinity();
      }
      const auto on = [&](OneDevice& side) {
        return doubles_of(side, frame, static_cast<std::size_t>(columns),
                          [&](MatrixView<const T> a, double* target) {
                            this->kernels(side).column_max(side.queue(), a, target);
                          });
      };
      const auto expected = on(*this->host_);
      const auto found = on(*this->gpu_);
      for (std::size_t j = 0; j < expected.size(); ++j) {
        if (std::isfinite(expected[j])) {
          EXPECT_NEAR(found[j], expected[j], 4 * unit_roundoff<T> * expected[j]);
        } else {
          EXPECT_EQ(std::isnan(found[j]), std::isnan(expected[j]));
          EXPECT_EQ(std::isinf(found[j]), std::isinf(expected[j]));
        }
      }
    }
  }
}

TYPED_TEST(DeviceKernelsTest, Inspect_FindsTheHostsSums) {
  using T = TypeParam;
  constexpr std::int64_t parts = is_complex<T> ? 2 : 1;
  struct Shape {
    std::int64_t rows, columns, first;
  };
  for (const Shape& shape : {Shape{1, 1, 0}, Shape{70, 30, 40}, Shape{3000, 257, 100},
                             Shape{5000, 0, 3}, Shape{2049, 1000, 1049}}) {
    SCOPED_TRACE(shape.rows);
    auto frame = framed<T>(shape.rows, shape.columns, 9);
    if (shape.columns > 2) {
      frame(shape.rows - 1, 2) = std::numeric_limits<RealOf<T>>::quiet_NaN();
    }
    std::vector<double> signs;
    std::mt19937_64 random(1);
    for (std::int64_t i = 0; i < shape.rows; ++i) {
      signs.push_back(random() % 2 == 0 ? 1.0 : -1.0);
    }
    const std::int64_t w = shape.columns;
    const auto count = static_cast<std::size_t>(w + parts * w + parts * shape.rows);
    const auto on = [&](OneDevice& side) {
      const auto memory = side.device().allocate(signs.size() * sizeof(double));
      side.queue().copy(memory.data(), signs.data(), signs.size() * sizeof(double));
      return doubles_of(side, frame, count, [&](MatrixView<const T> a, double* target) {
        this->kernels(side).inspect(side.queue(), a, shape.first,
                                    static_cast<const double*>(memory.data()), 0.5,
                                    {target, target + w, target + w + parts * w});
      });
    };
    const auto expected = on(*this->host_);
    const auto found = on(*this->gpu_);
    EXPECT_EQ(on(*this->gpu_).size(), found.size());
    for (std::size_t i = 0; i < count; ++i) {
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(found[i])) << i;
      } else {
        EXPECT_NEAR(found[i], expected[i], 1e-13 * static_cast<double>(shape.rows)) << i;
      }
    }
  }
}

}  // namespace
}  // namespace shardsolve::testing
