/// Stands in for src/runtime/cuda/kernels/tensor_core.cuh: see emulator.hpp. Which lane has what of
/// a matrix is said in NVIDIA's PTX ISA, section "Warp Level Matrix Multiply-Accumulate
/// Instructions".
#pragma once

#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/plain_products.cuh"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace shardsolve::runtime::cuda {

#if __CUDA_ARCH__ >= 800
inline void multiply_add_8x8x4(double& c0, double& c1, double a, double b) {
  struct Given {
    double a;
    double b;
  };
  const int row = emulation::lane() / 4;
  const int column = emulation::lane() % 4 * 2;
  const auto sums = emulation::exchange(Given{a, b}, [&](auto of) {
    std::array<double, 2> c = {c0, c1};
    for (int k = 0; k < 4; ++k) {
      c[0] += of(4 * row + k).a * of(4 * column + k).b;
      c[1] += of(4 * row + k).a * of(4 * (column + 1) + k).b;
    }
    return c;
  });
  c0 = sums[0];
  c1 = sums[1];
}
#else
using plain::multiply_add_8x8x4;
#endif

template <class Real>
struct Tile16x8 {
  Real low[2];
  Real high[2];
};

inline void multiply_add_16x8x16(Tile16x8<double>& c, const Tile16x8<double> (&a)[2],
                                 const double2 (&b)[2]) {
  // Of 16 columns of a, or rows of b, a lane has four; column i of lane t meets row i of lane t.
  struct Given {
    double low[4];
    double high[4];
    double b[4];
  };
  const Given mine{{a[0].low[0], a[0].low[1], a[1].low[0], a[1].low[1]},
                   {a[0].high[0], a[0].high[1], a[1].high[0], a[1].high[1]},
                   {b[0].x, b[0].y, b[1].x, b[1].y}};
  const int group = emulation::lane() / 4;
  const int column = emulation::lane() % 4 * 2;
  c = emulation::exchange(mine, [&](auto of) {
    Tile16x8<double> sum = c;
    for (int t = 0; t < 4; ++t) {
      const Given left = of(4 * group + t);
      for (int n = 0; n < 2; ++n) {
        const Given right = of(4 * (column + n) + t);
        for (int i = 0; i < 4; ++i) {
          sum.low[n] += left.low[i] * right.b[i];
          sum.high[n] += left.high[i] * right.b[i];
        }
      }
    }
    return sum;
  });
}

inline void multiply_add_16x8x8(Tile16x8<float>& c, const Tile16x8<float>& a, float2 b) {
  struct Given {
    float low[2];
    float high[2];
    float b[2];
  };
  const auto seen = [](float x) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof(bits));
    bits &= ~std::uint32_t{0x1FFF};
    std::memcpy(&x, &bits, sizeof(bits));
    return double{x};
  };
  const int group = emulation::lane() / 4;
  const int column = emulation::lane() % 4 * 2;
  c = emulation::exchange(Given{{a.low[0], a.low[1]}, {a.high[0], a.high[1]}, {b.x, b.y}},
                          [&](auto of) {
                            Tile16x8<double> sum{{c.low[0], c.low[1]}, {c.high[0], c.high[1]}};
                            for (int t = 0; t < 4; ++t) {
                              const Given left = of(4 * group + t);
                              for (int n = 0; n < 2; ++n) {
                                const Given right = of(4 * (column + n) + t);
                                for (int i = 0; i < 2; ++i) {
                                  sum.low[n] += seen(left.low[i]) * seen(right.b[i]);
                                  sum.high[n] += seen(left.high[i]) * seen(right.b[i]);
                                }
                              }
                            }
                            const auto rounded = [](double x) { return static_cast<float>(x); };
                            return Tile16x8<float>{{rounded(sum.low[0]), rounded(sum.low[1])},
                                                   {rounded(sum.high[0]), rounded(sum.high[1])}};
                          });
}

inline void load_four_8x8(std::uint32_t (&x)[4], std::uint32_t row) {
  const auto loaded = emulation::exchange(row, [](auto of) {
    std::array<std::uint32_t, 4> two{};
    for (int matrix = 0; matrix < 4; ++matrix) {
      const std::uint32_t address = of(8 * matrix + emulation::lane() / 4);
      std::memcpy(&two[static_cast<std::size_t>(matrix)],
                  emulation::shared_memory() + address + 4 * (emulation::lane() % 4), 4);
    }
    return two;
  });
  std::copy(loaded.begin(), loaded.end(), x);
}

/// IEEE 754 binary16, in the low bits.
inline double value_of_half(std::uint32_t bits) {
  const auto exponent = static_cast<int>(bits >> 10U & 31U);
  const auto fraction = static_cast<int>(bits & 1023U);
  double size = std::ldexp(exponent > 0 ? 1024 + fraction : fraction, std::max(exponent, 1) - 25);
  if (exponent == 31) {
    size = fraction > 0 ? std::numeric_limits<double>::quiet_NaN()
                        : std::numeric_limits<double>::infinity();
  }
  return (bits >> 15U & 1U) != 0 ? -size : size;
}

#if __CUDA_ARCH__ >= 800
inline void multiply_add_16x8x16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                 std::uint32_t b1) {
  struct Given {
    std::uint32_t a[4];
    std::uint32_t b[2];
  };
  const auto half = [](std::uint32_t two, int which) { return value_of_half(two >> 16 * which); };
  const int group = emulation::lane() / 4;
  const int column = emulation::lane() % 4 * 2;
  const auto sums = emulation::exchange(Given{{a[0], a[1], a[2], a[3]}, {b0, b1}}, [&](auto of) {
    std::array<double, 4> sum = {d[0], d[1], d[2], d[3]};
    for (int t = 0; t < 4; ++t) {
      const Given left = of(4 * group + t);
      for (int n = 0; n < 2; ++n) {
        const Given right = of(4 * (column + n) + t);
        for (int i = 0; i < 4; ++i) {  // k = 2 t + i % 2 + 8 (i / 2)
          const double b = half(right.b[i / 2], i % 2);
          sum[n] += half(left.a[i / 2 * 2], i % 2) * b;
          sum[2 + n] += half(left.a[i / 2 * 2 + 1], i % 2) * b;
        }
      }
    }
    return sum;
  });
  for (int i = 0; i < 4; ++i) {
    d[i] = static_cast<float>(sums[static_cast<std::size_t>(i)]);
  }
}
#else
using plain::multiply_add_16x8x16;
#endif

}  // namespace shardsolve::runtime::cuda
