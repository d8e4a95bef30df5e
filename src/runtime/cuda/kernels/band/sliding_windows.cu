// z = Q z for the windows of a group of 64 sweeps of a band of bandwidth 64, in float64: a warp
// slides over all of them with the rows of a window of 16 columns of z in its registers, so z is
// read and written once a group.
//
// A window is applied in two halves of 32 sweeps, the later sweeps first:
//
//   x^T  = z^T V           z^T (16 x 96) in 12 tiles, x^T (16 x 32) in 4
//   z^T -= x^T (V t)^T
//
// on the tensor cores, where a result is the next product's left factor as it lies. Right factors
// have been packed in the order in which the lanes read them, without the blocks that are zero: V
// has rows j + 1 to j + 64 in column j, V t those up to j + 64. The row before a window's first one
// goes with it, so that rows in twos lie where a lane can read and write both at once. A block of
// threads copies them to shared memory, three products of matrices ahead, where its warps read
// them; the rows of z that the window after the next one begins with it has fetched to the
// second-level cache.
#include "runtime/cuda/band_device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/tensor_core.cuh"

#include <cuda_pipeline_primitives.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int lanes = 32;
constexpr int bandwidth = 64;
constexpr int half = 32;  // sweeps
constexpr int halves = 2;
constexpr int group = halves * half;

/// Columns of z that a warp has, and warps of a block: so few where there are multiprocessors for
/// all of them, else twice as many, which share what is copied.
constexpr int columns_a_warp = 16;
constexpr int least_warps = 4;

// Tiles have eight rows of z, right factors are 16 x 8.
constexpr int tile = 8;
constexpr int depth = 16;
constexpr int tiles = (bandwidth + group) / tile;  // the first row of them is in no window
constexpr int tiles_a_half = (bandwidth + half) / tile;
constexpr int new_tiles = bandwidth / tile;
constexpr int numbers_a_factor = depth * tile;

/// Right factors of V for tile c of x^T: they begin at row chunk c / 2.
constexpr int chunks_of_v = 5;
constexpr int factors_of_v = half / tile * chunks_of_v;
/// Of (V t)^T for tile i of z^T: of reflectors [0, 16) only where that is not zero, and of the
/// others.
constexpr int tiles_of_first = 10;
constexpr int factors_of_vt = tiles_of_first + tiles_a_half;
__host__ __device__ constexpr int factor_of_vt(int i, int reflectors) {
  return i < tiles_of_first ? 2 * i + reflectors : tiles_of_first + i;
}

/// A window's numbers in v and in vt; there is more room.
constexpr std::int64_t window = std::int64_t{group} * (bandwidth + group - 1);
static_assert(halves * factors_of_v * numbers_a_factor <= window);
static_assert(halves * factors_of_vt * numbers_a_factor <= window);

/// What is copied at a time, in the order of use: V of the second half, its V t, V of the first
/// half, its V t.
constexpr int pieces_a_window = 2 * halves;
constexpr int most_factors = factors_of_vt;
static_assert(factors_of_v <= most_factors);

/// Where in a factor a number is: each lane reads two pairs. See tensor_core.cuh.
struct InFactor {
  int row;     ///< of 16
  int column;  ///< of 8
};
__device__ InFactor in_factor(int place) {
  const int pair = place / (2 * lanes);
  const int lane = place / 2 % lanes;
  return {8 * pair + lane % 4 * 2 + place % 2, lane / 4};
}

constexpr int pack_threads = 256;

struct PackMemory {
  double v[half][bandwidth + 1];  ///< by reflectors
  double t[half][half + 1];
};

/// Half a window a block.
__global__ void __launch_bounds__(pack_threads)
    pack_windows(DeviceMatrix<const double> reflectors, double* v, double* vt) {
  auto& shared = dynamic_shared<PackMemory>();
  const auto thread = static_cast<int>(threadIdx.x);
  const std::int64_t number = blockIdx.x / halves;
  const int part = static_cast<int>(blockIdx.x) % halves;
  const std::int64_t first = number * group + part * half;
  for (int at = thread; at < half * bandwidth; at += pack_threads) {
    const int j = at / bandwidth;
    const int i = at % bandwidth;
    shared.v[j][i] = reflectors(1 + i, first + j);
  }
  __syncthreads();
  // V^T V above the diagonal
  for (int at = thread; at < half * half; at += pack_threads) {
    const int i = at / half;
    const int j = at % half;
    if (i < j) {
      double sum = 0;
      for (int row = j; row < i + bandwidth; ++row) {
        sum += shared.v[i][row - i] * shared.v[j][row - j];
      }
      shared.t[i][j] = sum;
    }
  }
  __syncthreads();
  // t_j = -tau_j t (V^T v_j), a row a lane
  if (thread < lanes) {
    for (int j = 0; j < half; ++j) {
      const double tau = reflectors(0, first + j);
      double sum = 0;
      for (int l = thread; l < j; ++l) {
        sum += shared.t[thread][l] * shared.t[l][j];
      }
      __syncwarp();
      if (thread <= j) {
        shared.t[thread][j] = thread == j ? tau : -tau * sum;
      }
      __syncwarp();
    }
  }
  __syncthreads();
  double* const v_factors = v + number * window + part * factors_of_v * numbers_a_factor;
  for (int at = thread; at < factors_of_v * numbers_a_factor; at += pack_threads) {
    const int factor = at / numbers_a_factor;
    const InFactor place = in_factor(at % numbers_a_factor);
    const int c = factor / chunks_of_v;
    const int row = (c / 2 + factor % chunks_of_v) * depth + place.row;
    const int j = c * tile + place.column;
    v_factors[at] = row > j && row <= j + bandwidth ? shared.v[j][row - 1 - j] : 0.0;
  }
  double* const vt_factors = vt + number * window + part * factors_of_vt * numbers_a_factor;
  for (int at = thread; at < factors_of_vt * numbers_a_factor; at += pack_threads) {
    const int factor = at / numbers_a_factor;
    const InFactor place = in_factor(at % numbers_a_factor);
    const int i = factor < 2 * tiles_of_first ? factor / 2 : factor - tiles_of_first;
    const int reflectors_of = factor < 2 * tiles_of_first ? factor % 2 : 1;
    const int row = i * tile + place.column;
    const int j = reflectors_of * depth + place.row;
    double sum = 0;
    for (int l = max(row - bandwidth, 0); l <= min(row - 1, j); ++l) {
      sum += shared.v[l][row - 1 - l] * shared.t[l][j];
    }
    vt_factors[at] = -sum;
  }
}

/// Rows of z that a warp has: those of a window, the upper half in one place and the lower half in
/// another. From window to window they change their parts, and nothing is moved.
using Half = Tile16x8<double>[new_tiles];
static_assert(2 * new_tiles == tiles);

/// Some columns of z that a warp has: of column (lane / 4) and of the one eight further two rows of
/// each tile, which `in_twos` are read and written at once. Those beyond the matrix are its last
/// column once more, which is read only.
template <bool in_twos>
class Columns {
 public:
  __device__ Columns(const DeviceMatrix<double>& z, std::int64_t first, int lane)
      : rows_(z.rows - lane % 4 * 2),
        has_low_(first + lane / 4 < z.columns),
        has_high_(first + lane / 4 + 8 < z.columns),
        low_(&z(lane % 4 * 2, min(first + lane / 4, z.columns - 1))),
        high_(&z(lane % 4 * 2, min(first + lane / 4 + 8, z.columns - 1))),
        fetched_(&z(lane / columns_a_warp * (bandwidth / 2),
                    min(first + lane % columns_a_warp, z.columns - 1))) {}

  /// Of as many rows as a bandwidth. Zeros beyond the matrix.
  __device__ void load(std::int64_t row, Half& numbers) const {
    const double* const low = low_ + row;
    const double* const high = high_ + row;
    const int left = rows_left(row);
    if (left >= bandwidth) {
#pragma unroll
      for (int i = 0; i < new_tiles; ++i) {
        read(low + i * tile, numbers[i].low);
        read(high + i * tile, numbers[i].high);
      }
      return;
    }
#pragma unroll
    for (int at = 0; at < 2 * new_tiles; ++at) {
      const int i = at / 2 * tile + at % 2;
      numbers[at / 2].low[at % 2] = i < left ? low[i] : 0.0;
      numbers[at / 2].high[at % 2] = i < left ? high[i] : 0.0;
    }
  }
  __device__ void store(std::int64_t row, const Half& numbers) const {
    double* const low = low_ + row;
    double* const high = high_ + row;
    const int left = rows_left(row);
#pragma unroll
    for (int i = 0; i < new_tiles; ++i) {
      if (has_low_) {
        write(numbers[i].low, low + i * tile, left - i * tile);
      }
      if (has_high_) {
        write(numbers[i].high, high + i * tile, left - i * tile);
      }
    }
  }
  /// Brings as many rows into the second-level cache, of each column half by a lane.
  __device__ void fetch(std::int64_t row) const {
#if __CUDA_ARCH__ >= 900
    constexpr int line = 128 / sizeof(double);
    if (row + bandwidth <= rows_) {
#pragma unroll
      for (int i = 0; i < bandwidth / 2; i += line) {
        asm volatile("prefetch.global.L2 [%0];" ::"l"(fetched_ + row + i));
      }
    }
#endif
  }

 private:
  static __device__ void read(const double* from, double (&two)[2]) {
    if constexpr (in_twos) {
      const double2 both = *reinterpret_cast<const double2*>(from);
      two[0] = both.x;
      two[1] = both.y;
    } else {
      two[0] = from[0];
      two[1] = from[1];
    }
  }
  /// Of which the first `left` are there.
  static __device__ void write(const double (&two)[2], double* to, int left) {
    if constexpr (in_twos) {
      if (left > 0) {
        *reinterpret_cast<double2*>(to) = {two[0], two[1]};
      }
    } else {
      if (left > 0) {
        to[0] = two[0];
      }
      if (left > 1) {
        to[1] = two[1];
      }
    }
  }
  /// Of this lane, from `row` of its own on; at most as many as load() reads.
  __device__ int rows_left(std::int64_t row) const {
    return static_cast<int>(min(rows_ - row, std::int64_t{bandwidth}));
  }

  std::int64_t rows_;
  bool has_low_;
  bool has_high_;
  double* low_;
  double* high_;
  const double* fetched_;
};

__device__ void multiply_add(Tile16x8<double>& sum, const Tile16x8<double>& left,
                             const Tile16x8<double>& right_of_it, const double* factor, int lane) {
  const auto* const pairs = reinterpret_cast<const double2*>(factor);
  const Tile16x8<double> both[2] = {left, right_of_it};
  const double2 right[2] = {pairs[lane], pairs[lanes + lane]};
  multiply_add_16x8x16(sum, both, right);
}

__device__ Tile16x8<double>& tile_of(Half& upper, Half& lower, int i) {
  return i < new_tiles ? upper[i] : lower[i - new_tiles];
}

/// x^T = z^T V
template <int part>
__device__ void project(Half& upper, Half& lower, const double* factors,
                        Tile16x8<double> (&x)[half / tile], int lane) {
  constexpr int first = part * half / tile;
#pragma unroll
  for (int c = 0; c < half / tile; ++c) {
    x[c] = {};
  }
#pragma unroll
  for (int r = 0; r < tiles_a_half / 2; ++r) {
#pragma unroll
    for (int c = 0; c < half / tile; ++c) {
      if (r >= c / 2 && r < c / 2 + chunks_of_v) {
        multiply_add(x[c], tile_of(upper, lower, first + 2 * r),
                     tile_of(upper, lower, first + 2 * r + 1),
                     factors + (c * chunks_of_v + r - c / 2) * numbers_a_factor, lane);
      }
    }
  }
}

/// z^T -= x^T (V t)^T
template <int part>
__device__ void subtract(Half& upper, Half& lower, const double* factors,
                         const Tile16x8<double> (&x)[half / tile], int lane) {
  constexpr int first = part * half / tile;
#pragma unroll
  for (int reflectors = 0; reflectors < 2; ++reflectors) {
#pragma unroll
    for (int i = 0; i < tiles_a_half; ++i) {
      if (i < tiles_of_first || reflectors == 1) {
        multiply_add(tile_of(upper, lower, first + i), x[2 * reflectors], x[2 * reflectors + 1],
                     factors + factor_of_vt(i, reflectors) * numbers_a_factor, lane);
      }
    }
  }
}

/// Factors on their way to a block's shared memory, a window's pieces in turn. Every thread copies
/// its share, and sees that of the others behind the barrier of begin().
template <int warps>
class Pieces {
 public:
  static constexpr std::size_t bytes =
      std::size_t{pieces_a_window} * most_factors * numbers_a_factor * sizeof(double);

  __device__ Pieces(double* slots, const double* v, const double* vt, int count)
      : slots_(slots), v_(v + share()), vt_(vt + share()), count_(count) {
    copy<0>(0);
    copy<1>(0);
    copy<2>(0);
  }

  /// The factors of piece `of` of window k, which have come. What the piece before had is used up.
  template <int of>
  const __device__ double* begin(int k) {
    __pipeline_wait_prior(pieces_a_window - 2);
    __syncthreads();
    constexpr int next = of + pieces_a_window - 1;
    copy<next % pieces_a_window>(k + next / pieces_a_window);
    return slots_ + first_of(of);
  }

 private:
  static constexpr int at_once = 2;  // numbers

  static __device__ int share() { return static_cast<int>(threadIdx.x) * at_once; }
  static __host__ __device__ constexpr int first_of(int piece) {
    return piece * most_factors * numbers_a_factor;
  }

  /// None behind the last window; its place among those on their way all the same.
  template <int of>
  __device__ void copy(int k) {
    constexpr bool is_v = of % 2 == 0;
    constexpr int part = 1 - of / 2;
    constexpr int numbers = (is_v ? factors_of_v : factors_of_vt) * numbers_a_factor;
    constexpr int a_turn = warps * lanes * at_once;
    if (k < count_) {
      const double* const from = (is_v ? v_ : vt_) + k * window + part * numbers;
      double* const to = slots_ + first_of(of) + share();
#pragma unroll
      for (int at = 0; at < numbers; at += a_turn) {
        if (at + a_turn <= numbers || at + share() < numbers) {
          __pipeline_memcpy_async(to + at, from + at, at_once * sizeof(double));
        }
      }
    }
    __pipeline_commit();
  }

  double* slots_;
  const double* v_;
  const double* vt_;
  int count_;
};

/// A warp on its way down.
template <bool in_twos, int warps>
class Slide {
 public:
  __device__ Slide(const Columns<in_twos>& columns, Pieces<warps>& pieces, std::int64_t first_row,
                   int count, int lane)
      : columns_(columns), pieces_(pieces), row_(first_row), count_(count), lane_(lane) {}

  __device__ void begin(Half& upper, Half& lower) {
    columns_.load(row_, upper);
    columns_.load(row_ + bandwidth, lower);
    columns_.fetch(row_ + 2 * bandwidth);
  }

  /// The next window. Afterwards the place of its upper half has the lower one of the window behind
  /// it, if there is one. False behind the last.
  __device__ bool apply(Half& upper, Half& lower) {
    columns_.fetch(row_ + 3 * bandwidth);
    Tile16x8<double> x[half / tile];
    project<1>(upper, lower, pieces_.template begin<0>(number_), x, lane_);
    subtract<1>(upper, lower, pieces_.template begin<1>(number_), x, lane_);
    project<0>(upper, lower, pieces_.template begin<2>(number_), x, lane_);
    subtract<0>(upper, lower, pieces_.template begin<3>(number_), x, lane_);
    columns_.store(row_, upper);
    row_ += bandwidth;
    ++number_;
    if (number_ == count_) {
      // What the last window has beyond the bandwidth is where the next would begin.
      columns_.store(row_, lower);
      return false;
    }
    columns_.load(row_ + bandwidth, upper);
    return true;
  }

 private:
  const Columns<in_twos>& columns_;
  Pieces<warps>& pieces_;
  std::int64_t row_;
  int number_ = 0;
  int count_;
  int lane_;
};

template <bool in_twos, int warps>
__global__ void __launch_bounds__(warps* lanes, 2 * least_warps / warps)
    slide(const double* v, const double* vt, DeviceMatrix<double> z, std::int64_t first_row,
          int count) {
  const auto lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t warp = std::int64_t{blockIdx.x} * warps + threadIdx.x / lanes;
  const Columns<in_twos> columns(z, warp * columns_a_warp, lane);
  Pieces<warps> pieces(&dynamic_shared<double>(), v, vt, count);
  Slide<in_twos, warps> windows(columns, pieces, first_row, count, lane);
  Half one;
  Half other;
  windows.begin(one, other);
  while (windows.apply(one, other) && windows.apply(other, one)) {
  }
}

bool is_packed(MatrixView<const double> a) {
  return a.stride() == a.rows() && reinterpret_cast<std::uintptr_t>(a.data()) % 16 == 0;
}

}  // namespace

template <class E>
bool BandDeviceKernels<E>::slides(const Chase& chase, const SweepGroup& sweeps, In v, In vt) {
  if constexpr (std::is_same_v<E, double>) {
    return chase.bandwidth == bandwidth && sweeps.count == group && is_packed(v) && is_packed(vt) &&
           is_for_sm_90(&slide<true, least_warps>);
  }
  return false;
}

template <class E>
void BandDeviceKernels<E>::sliding_windows(cudaStream_t stream, const Chase& chase,
                                           const SweepGroup& sweeps, In reflectors, Out v, Out vt) {
  if constexpr (std::is_same_v<E, double>) {
    launch(stream, &pack_windows, halves * chase.tasks(sweeps.first),
           {dim3(pack_threads), sizeof(PackMemory)}, device(reflectors), v.data(), vt.data());
  }
}

template <class E>
void BandDeviceKernels<E>::slide_windows(cudaStream_t stream, const Chase& chase,
                                         const SweepGroup& sweeps, In v, In vt, Out z) {
  if constexpr (std::is_same_v<E, double>) {
    const bool in_twos = z.rows() % 2 == 0 && z.stride() % 2 == 0 &&
                         reinterpret_cast<std::uintptr_t>(z.data()) % sizeof(double2) == 0;
    const auto start = [&]<int warps>(std::integral_constant<int, warps>) {
      const auto kernel = in_twos ? &slide<true, warps> : &slide<false, warps>;
      allow_shared(kernel, Pieces<warps>::bytes);
      launch(stream, kernel, divide_up(z.columns(), columns_a_warp * warps),
             {dim3(warps * lanes), Pieces<warps>::bytes}, v.data(), vt.data(), device(z),
             sweeps.first, static_cast<int>(chase.tasks(sweeps.first)));
    };
    if (divide_up(z.columns(), columns_a_warp * least_warps) <= most_together()) {
      start(std::integral_constant<int, least_warps>());
    } else {
      start(std::integral_constant<int, 2 * least_warps>());
    }
  }
}

#define SHARDSOLVE_INSTANTIATE(E)                                                                  \
  template bool BandDeviceKernels<E>::slides(const Chase&, const SweepGroup&, In, In);             \
  template void BandDeviceKernels<E>::sliding_windows(cudaStream_t, const Chase&,                  \
                                                      const SweepGroup&, In, Out, Out);            \
  template void BandDeviceKernels<E>::slide_windows(cudaStream_t, const Chase&, const SweepGroup&, \
                                                    In, In, Out);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::cuda
