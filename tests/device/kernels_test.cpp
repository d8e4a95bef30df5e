// The kernels of the GPU against those of the host, on views with gaps around them.
//
// What a kernel does not own has to stay as it was, to the last bit; what it writes agrees to
// rounding. Left out without a GPU: see support/backend.hpp.

#include "runtime/kernels.hpp"

#include "mesh/cuda_loader.hpp"
#include "reference/dense_matrix.hpp"
#include "runtime/host/host_device.hpp"
#include "support/backend.hpp"
#include "support/dtypes.hpp"
#include "support/host_rank.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace shardsolve::testing {
namespace {

using reference::DenseMatrix;
using runtime::Inspection;
using runtime::Op;
using runtime::Side;
using runtime::Triangle;

template <Scalar T>
T draw(std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  if constexpr (is_complex<T>) {
    const auto re = static_cast<RealOf<T>>(uniform(random));
    return {re, static_cast<RealOf<T>>(uniform(random))};
  } else {
    return static_cast<T>(uniform(random));
  }
}

/// One device with a queue, for operands that live on the host in between.
class OneDevice {
 public:
  explicit OneDevice(std::unique_ptr<runtime::Device> device) : device_(std::move(device)) {
    device_->adopt_thread();
    queue_ = device_->make_queue("update");
  }
  runtime::Device& device() { return *device_; }
  runtime::Queue& queue() { return *queue_; }

 private:
  std::unique_ptr<runtime::Device> device_;
  std::unique_ptr<runtime::Queue> queue_;
};

/// A rows x columns block inside a larger matrix of random numbers.
template <class V>
struct Framed {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<V> values;  // of the larger one
  static constexpr std::int64_t above = 2;
  static constexpr std::int64_t below = 3;
  static constexpr std::int64_t left = 1;
  static constexpr std::int64_t right = 2;

  std::int64_t stride() const { return rows + above + below; }
  std::size_t place(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(i + above + (j + left) * stride());
  }
  V& operator()(std::int64_t i, std::int64_t j) { return values[place(i, j)]; }
  const V& operator()(std::int64_t i, std::int64_t j) const { return values[place(i, j)]; }
  bool inside(std::size_t index) const {
    const std::int64_t i = static_cast<std::int64_t>(index) % stride() - above;
    const std::int64_t j = static_cast<std::int64_t>(index) / stride() - left;
    return i >= 0 && i < rows && j >= 0 && j < columns;
  }
};

template <Scalar T>
Framed<T> framed(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  Framed<T> frame{rows, columns, {}};
  std::mt19937_64 random(seed);
  frame.values.resize(
      static_cast<std::size_t>(frame.stride() * (columns + frame.left + frame.right)));
  for (T& value : frame.values) {
    value = draw<T>(random);
  }
  return frame;
}

template <Scalar T>
class DeviceKernelsTest : public ::testing::Test {
 protected:
  using Real = RealOf<T>;
  using Operands = std::vector<MatrixView<T>>;
  using Call = std::function<void(const runtime::Kernels<T>&, runtime::Queue&, const Operands&)>;

  void SetUp() override {
    if (test_gpus().empty()) {
      GTEST_SKIP() << "no GPU: set SHARDSOLVE_TEST_GPUS";
    }
    backend_ = mesh::make_cuda_backend({.devices = {test_gpus().front()}, .delays = {}});
    host_ = std::make_unique<OneDevice>(
        std::make_unique<runtime::host::HostDevice>(host_rank_.pulse()));
    gpu_ = std::make_unique<OneDevice>(backend_->make_device(0, gpu_rank_.pulse()));
  }

  const runtime::Kernels<T>& kernels(OneDevice& side) {
    return side.device().kernels(static_cast<const T*>(nullptr));
  }

  /// The frames after `call` on one side.
  std::vector<Framed<T>> after(OneDevice& side, std::vector<Framed<T>> frames, const Call& call) {
    std::vector<runtime::Buffer> memory;
    Operands operands;
    for (const Framed<T>& frame : frames) {
      const std::size_t bytes = frame.values.size() * sizeof(T);
      memory.push_back(side.device().allocate(bytes));
      side.queue().copy(memory.back().data(), frame.values.data(), bytes);
      operands.emplace_back(static_cast<T*>(memory.back().data()) + frame.place(0, 0), frame.rows,
                            frame.columns, frame.stride());
    }
    call(kernels(side), side.queue(), operands);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      side.queue().copy(frames[i].values.data(), memory[i].data(),
                        frames[i].values.size() * sizeof(T));
    }
    side.queue().synchronize();
    host_rank_.rethrow();
    return frames;
  }

  /// `depth`: how many terms a sum has; 0 where results are to be the same bits.
  void expect_alike(const std::vector<Framed<T>>& frames, std::int64_t depth, const Call& call) {
    const auto expected = after(*host_, frames, call);
    const auto found = after(*gpu_, frames, call);
    for (std::size_t f = 0; f < frames.size(); ++f) {
      double worst = 0.0;
      for (std::size_t i = 0; i < frames[f].values.size(); ++i) {
        const T a = expected[f].values[i];
        const T b = found[f].values[i];
        if (!frames[f].inside(i) || expected[f].values[i] == frames[f].values[i]) {
          ASSERT_EQ(b, a) << "operand " << f << ", place " << i << ": not to be touched";
        } else if (depth == 0) {
          ASSERT_EQ(b, a) << "operand " << f << ", place " << i;
        } else {
          const double difference = std::abs(a - b);
          worst = difference <= worst ? worst : difference;
        }
      }
      EXPECT_LE(worst, 8.0 * unit_roundoff<T> * static_cast<double>(depth)) << "operand " << f;
    }
  }

  /// y l^H for random y, so that the solution is no larger than the panel: |x| |l| would hide
  /// errors.
  Framed<T> panel_with_small_solution(const Framed<T>& tile, std::int64_t rows) {
    const std::int64_t n = tile.rows;
    Framed<T> l = after(*host_, {tile}, [](const auto& kernels, auto& queue, const auto& x) {
      std::int64_t info = -1;
      kernels.potrf(queue, x[0], {}, &info);
      queue.synchronize();
      ASSERT_EQ(info, 0);
    })[0];
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < j; ++i) {
        l(i, j) = T{0};
      }
    }
    const auto product = [](const auto& kernels, auto& queue, const auto& x) {
      kernels.gemm(queue, Op::none, Op::conjugate_transpose, T{1}, x[0], x[1], T{0}, x[2]);
    };
    return after(*host_, {framed<T>(rows, n, 6), l, framed<T>(rows, n, 8)}, product)[2];
  }

  HostRank host_rank_;
  HostRank gpu_rank_;
  std::unique_ptr<mesh::Backend> backend_;
  std::unique_ptr<OneDevice> host_;
  std::unique_ptr<OneDevice> gpu_;
};
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
  const auto ops = {Op::none, Op::conjugate_transpose};
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
      this->expect_alike({framed<T>(flip ? k : n, flip ? n : k, 1), framed<T>(n, n, 2)}, 4 * k,
                         [=](const auto& kernels, auto& queue, const auto& x) {
                           kernels.herk(queue, triangle, op, RealOf<T>{-1}, x[0], RealOf<T>{1},
                                        x[1]);
                         });
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
    this->expect_alike(
        {framed<T>(k, n, 1), framed<T>(n, n, 2)}, 4 * k,
        [=](const auto& kernels, auto& queue, const auto& x) {
          const runtime::Steps steps{count, 2 * tile * x[0].stride(), 2 * tile * x[0].stride(),
                                     2 * tile * (x[1].stride() + 1)};
          kernels.gemm_batch(queue, Op::conjugate_transpose, Op::none, T{-1},
                             x[0].columns_from(tile, tile), x[0].columns_from(0, tile), T{1},
                             x[1].block(tile, 0, tile, tile), steps);
        });
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
              const runtime::Steps steps{count, step, step, apart * (x[1].stride() + 1)};
              const auto a = by_rows ? x[0].block(0, 0, tile, k) : x[0].columns_from(0, tile);
              for (const Triangle triangle : {Triangle::lower, Triangle::upper}) {
                kernels.herk_batch(queue, triangle, op, RealOf<T>{-1}, a,
                                   x[1].block(0, 0, tile, tile), steps);
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
        for (const Op op : {Op::none, Op::conjugate_transpose}) {
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

TYPED_TEST(DeviceKernelsTest, Panel_IsTheHosts) {
  using T = TypeParam;
  for (const std::int64_t n : {1,   5,   31,  32,  33,  63,  64,  65,   96,   101, 128,
                               200, 257, 500, 511, 512, 700, 999, 1000, 1023, 1024}) {
    SCOPED_TRACE(n);
    // blocks of a panel are wide where there are few rows
    const std::int64_t rows = n % 2 == 0 ? 1100 : 150;
    this->expect_alike({definite<T>(n), framed<T>(rows, n, 6), framed<T>(n, rows, 7)}, 8 * n,
                       [&](const auto& kernels, auto& queue, const auto& x) {
                         const bool on_gpu = &queue == &this->gpu_->queue();
                         OneDevice& side = on_gpu ? *this->gpu_ : *this->host_;
                         const std::int64_t columns = kernels.aid_columns(n);
                         const auto memory = side.device().allocate(
                             static_cast<std::size_t>(n * columns) * sizeof(T));
                         const MatrixView<T> aid(static_cast<T*>(memory.data()), n, columns);
                         kernels.fill(queue, T{std::numeric_limits<RealOf<T>>::quiet_NaN()}, aid);
                         const auto cell = side.device().allocate(sizeof(std::int64_t));
                         auto* info = static_cast<std::int64_t*>(cell.data());
                         queue.store(info, -77, 1);
                         kernels.potrf(queue, x[0], aid, info);
                         kernels.panel(queue, x[0], aid, x[1], x[2]);
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

template <Scalar T>
T conjugate(const T& value) {
  if constexpr (is_complex<T>) {
    return std::conj(value);
  } else {
    return value;
  }
}

/// max of |a - x l^H| / (|x| |l|^H) over some rows.
template <Scalar T>
double backward_error(const Framed<T>& a, const Framed<T>& x, const Framed<T>& l) {
  using Wide = std::conditional_t<is_complex<T>, std::complex<long double>, long double>;
  double worst = 0.0;
  for (std::int64_t i = 0; i < a.rows; i += i < 20 || i + 20 > a.rows ? 1 : 211) {
    for (std::int64_t j = 0; j < l.columns; ++j) {
      Wide sum = -Wide(a(i, j));
      long double size = 0;
      for (std::int64_t k = 0; k <= j; ++k) {
        const Wide term = Wide(x(i, k)) * Wide(conjugate(l(j, k)));
        sum += term;
        size += std::abs(term);
      }
      const double error = static_cast<double>(std::abs(sum) / size);
      worst = error <= worst ? worst : error;
    }
  }
  return worst;
}

// Wide panels and narrow ones, of whole and of broken groups of rows; where operands are as the
// algorithms have them, one kernel solves the long ones.
TYPED_TEST(DeviceKernelsTest, Panel_IsAsStableAsASolve) {
  using T = TypeParam;
  const auto gpu = static_cast<std::size_t>(test_gpus().front());
  const bool has_kernel =
      std::is_same_v<RealOf<T>, double> && mesh::cuda_facts().gpus[gpu].major >= 9;
  for (const std::int64_t n : {128, 192, 256, 640, 1024}) {
    for (const std::int64_t rows : {100, 3071, 3072, 3100, 8449}) {
      SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(n));
      const Framed<T> tile = nearly_singular<T>(n);
      const Framed<T> a = this->panel_with_small_solution(tile, rows);
      // an even stride and an even first place
      const Framed<T> around = framed<T>(n + 3, rows, 7);
      double flops = 0.0;
      const auto found = this->after(
          *this->gpu_, {tile, a, around}, [&](const auto& kernels, auto& queue, const auto& x) {
            const auto memory =
                this->gpu_->device().allocate(static_cast<std::size_t>(2 * n * n) * sizeof(T));
            const MatrixView<T> aid(static_cast<T*>(memory.data()), n, 2 * n);
            const auto cell = this->gpu_->device().allocate(sizeof(std::int64_t));
            auto* info = static_cast<std::int64_t*>(cell.data());
            kernels.fill(queue, T{std::numeric_limits<RealOf<T>>::quiet_NaN()}, aid);
            kernels.potrf(queue, x[0], aid, info);
            const double before = queue.flops();
            kernels.panel(queue, x[0], aid, x[1], x[2].block(0, 0, n, rows));
            flops = queue.flops() - before;
            std::int64_t pivot = -1;
            queue.copy(&pivot, info, sizeof(pivot));
            queue.synchronize();
            EXPECT_EQ(pivot, 0);
          });
      EXPECT_LE(backward_error(a, found[1], found[0]), static_cast<double>(n) * unit_roundoff<T>);
      // The kernel counts what a solve takes, products count themselves.
      const bool in_one_kernel = has_kernel && rows >= 3072 && n % (is_complex<T> ? 64 : 128) == 0;
      const double of_a_solve =
          (is_complex<T> ? 4.0 : 1.0) * static_cast<double>(rows) * static_cast<double>(n * n);
      EXPECT_EQ(std::abs(flops / of_a_solve - 1.0) < 1e-6, in_one_kernel) << flops;
      for (std::size_t i = 0; i < a.values.size(); ++i) {
        ASSERT_TRUE(a.inside(i) || found[1].values[i] == a.values[i]) << "place " << i;
      }
      for (std::int64_t j = -around.left; j < rows + around.right; ++j) {
        for (std::int64_t i = -around.above; i < around.rows + around.below; ++i) {
          const bool of_panel = i >= 0 && i < n && j >= 0 && j < rows;
          const T expected = of_panel ? conjugate(found[1](j, i)) : around(i, j);
          ASSERT_EQ(found[2](i, j), expected) << i << ", " << j;
        }
      }
    }
  }
}

TYPED_TEST(DeviceKernelsTest, Potrf_NamesTheFirstPivotThatFails) {
  using T = TypeParam;
  const auto info_of = [&](Framed<T> tile) {
    std::int64_t found = 0;
    this->after(*this->gpu_, {tile}, [&](const auto& kernels, auto& queue, const auto& x) {
      const std::int64_t n = x[0].rows();
      const auto memory =
          this->gpu_->device().allocate(static_cast<std::size_t>(2 * n * n) * sizeof(T));
      const auto cell = this->gpu_->device().allocate(sizeof(std::int64_t));
      auto* info = static_cast<std::int64_t*>(cell.data());
      kernels.potrf(queue, x[0], {static_cast<T*>(memory.data()), n, 2 * n}, info);
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
