// z = Q z for the windows of a group of 64 sweeps of a band of bandwidth 64, in float64: warps
// slide over all of them with the rows of 16 columns of z in their registers, so z is read and
// written once a group. How windows are packed is said in sliding_windows.cuh.
//
// The quarters of a window go through two or four stages, a warp each. A quarter has no row in
// common with the quarter of later sweeps of the next window, so all stages work side by side, each
// a window ahead of the stage after it, to which it hands on the rows that it is done with, in
// shared memory. Sums are the same for any number of stages: four of them where columns are few, so
// that every tensor core has some.
//
// Right factors are copied to shared memory by all threads of a block, two pieces ahead of their
// use; and the rows that are new to the first stage a window ahead.
#include "runtime/cuda/band_device_kernels.hpp"
#include "runtime/cuda/kernels/band/sliding_windows.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/tensor_core.cuh"

#include <cuda_pipeline_primitives.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime::cuda {
namespace {

using namespace sliding;

using Tile = Tile16x8<double>;

constexpr int columns_a_warp = 16;

/// Of z^T, from window to window.
constexpr int new_tiles = bandwidth / tile;

/// How a block shares the work: so many stages of so many warps.
template <int stages_, int warps_a_stage_>
struct Share {
  static constexpr int stages = stages_;
  static constexpr int warps_a_stage = warps_a_stage_;
  static constexpr int threads = stages * warps_a_stage * lanes;
  static constexpr int columns = warps_a_stage * columns_a_warp;
  static constexpr int quarters_a_stage = quarters / stages;
  /// Tiles that a warp keeps from window to window, and all of them.
  static constexpr int kept_tiles = quarters_a_stage * sums_a_quarter;
  static constexpr int tiles = kept_tiles + new_tiles;
  /// So many tiles after it is done one is handed on: while others are made, or behind all of them.
  static constexpr int later = stages == quarters ? 3 : tiles_a_quarter;

  /// Of the quarters of a stage number 0 is that of the latest sweeps.
  __host__ __device__ static constexpr int quarter_of(int stage, int number) {
    return quarters - 1 - stage * quarters_a_stage - number;
  }
};

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
        high_(&z(lane % 4 * 2, min(first + lane / 4 + 8, z.columns - 1))) {}

  /// Zeros beyond the matrix.
  __device__ void load(std::int64_t row, Tile& numbers) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const bool is_there = row + i < rows_;
      numbers.low[i] = is_there ? low_[row + i] : 0.0;
      numbers.high[i] = is_there ? high_[row + i] : 0.0;
    }
  }
  __device__ void store(std::int64_t row, const Tile& numbers) const {
    if (has_low_) {
      write(numbers.low, low_ + row, rows_ - row);
    }
    if (has_high_) {
      write(numbers.high, high_ + row, rows_ - row);
    }
  }
  /// Later, to this lane's places of a tile in shared memory.
  __device__ void copy(std::int64_t row, double2& low, double2& high) const {
    copy_two(low_ + row, rows_ - row, low);
    copy_two(high_ + row, rows_ - row, high);
  }

 private:
  /// Of which the first `left` are there.
  static __device__ void write(const double (&two)[2], double* to, std::int64_t left) {
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
  __device__ void copy_two(const double* from, std::int64_t left, double2& to) const {
    constexpr std::size_t at_once = in_twos ? sizeof(double2) : sizeof(double);
    copy_some<at_once>(from, left > 0, &to.x);
    if constexpr (!in_twos) {
      copy_some<at_once>(from + 1, left > 1, &to.y);
    }
  }
  template <std::size_t bytes>
  __device__ void copy_some(const double* from, bool is_there, double* to) const {
    __pipeline_memcpy_async(to, is_there ? from : low_, bytes, is_there ? 0 : bytes);
  }

  std::int64_t rows_;
  bool has_low_;
  bool has_high_;
  double* low_;
  double* high_;
};

/// The new tiles of a window on their way to a warp, in shared memory: each lane has its own.
class Mail {
 public:
  static constexpr int numbers = 2 * new_tiles * lanes;  // of two

  __device__ Mail(double2* slot, int lane) : mine_(slot + lane) {}

  __device__ double2& low(int i) const { return mine_[2 * i * lanes]; }
  __device__ double2& high(int i) const { return mine_[(2 * i + 1) * lanes]; }
  __device__ void write(int i, const Tile& of) const {
    low(i) = {of.low[0], of.low[1]};
    high(i) = {of.high[0], of.high[1]};
  }
  __device__ void read(int i, Tile& to) const {
    const double2 of_low = low(i);
    const double2 of_high = high(i);
    to = {{of_low.x, of_low.y}, {of_high.x, of_high.y}};
  }

 private:
  double2* mine_;
};

/// Right factors on their way to a block's shared memory. A window's come in two pieces, with what
/// each stage needs: those of a quarter, or of a stage's only quarter V and then V t. Every thread
/// copies its share, and sees that of the others behind wait().
template <class Share>
class Factors {
  static constexpr int slots = 3;
  static constexpr int pieces = 2;
  static constexpr bool has_both = Share::quarters_a_stage == pieces;
  static constexpr int numbers_a_stage = (has_both ? 2 : 1) * numbers_a_quarter;
  static constexpr int numbers_a_slot = Share::stages * numbers_a_stage;
  static_assert(has_both || Share::quarters_a_stage == 1);

 public:
  static constexpr int numbers = slots * numbers_a_slot;
  /// Whether V t of a quarter is a piece after that of V.
  static constexpr bool in_turn = !has_both;

  __device__ Factors(double* memory, const double* v, const double* vt, int count)
      : memory_(memory), v_(v + share()), vt_(vt + share()), count_(count) {}

  __device__ void begin() const {
    copy<0>(0);
    copy<1>(0);
  }
  /// The next piece has come, and the one before it is used up.
  __device__ void wait() const {
    __pipeline_wait_prior(slots - 2);
    __syncthreads();
  }
  /// After wait() for a piece of a step: copies go on. What a thread copies right before this is
  /// there two pieces later.
  template <int piece>
  __device__ void go_on(int step) const {
    copy<piece>(step + 1);
  }
  const __device__ double* v(int step, int stage, int number) const {
    return slot_of(step, in_turn ? 0 : number) + stage * numbers_a_stage;
  }
  const __device__ double* vt(int step, int stage, int number) const {
    return slot_of(step, in_turn ? 1 : number) + stage * numbers_a_stage +
           (has_both ? numbers_a_quarter : 0);
  }

 private:
  static constexpr int at_once = 2;  // numbers

  static __device__ int share() { return static_cast<int>(threadIdx.x) * at_once; }
  __device__ double* slot_of(int step, int piece) const {
    return memory_ + (step * pieces + piece) % slots * numbers_a_slot;
  }
  /// None for a stage that has no window in the step; their place among those on their way all the
  /// same.
  template <int piece>
  __device__ void copy(int step) const {
#pragma unroll
    for (int stage = 0; stage < Share::stages; ++stage) {
      const int k = step - stage;
      if (k >= 0 && k < count_) {
        const std::int64_t from =
            k * window + Share::quarter_of(stage, has_both ? piece : 0) * numbers_a_quarter;
        double* const to = slot_of(step, piece) + stage * numbers_a_stage + share();
        if constexpr (has_both) {
          copy_quarter(v_ + from, to);
          copy_quarter(vt_ + from, to + numbers_a_quarter);
        } else {
          copy_quarter((piece == 0 ? v_ : vt_) + from, to);
        }
      }
    }
    __pipeline_commit();
  }
  static __device__ void copy_quarter(const double* from, double* to) {
    constexpr int a_turn = Share::threads * at_once;
#pragma unroll
    for (int at = 0; at < numbers_a_quarter; at += a_turn) {
      if (at + a_turn <= numbers_a_quarter || at + share() < numbers_a_quarter) {
        __pipeline_memcpy_async(to + at, from + at, at_once * sizeof(double));
      }
    }
  }

  double* memory_;
  const double* v_;
  const double* vt_;
  int count_;
};

__device__ void multiply_add(Tile& sum, const Tile& left, const Tile& right_of_it,
                             const double* factor, int lane) {
  const auto* const pairs = reinterpret_cast<const double2*>(factor);
  const Tile both[2] = {left, right_of_it};
  const double2 right[2] = {pairs[lane], pairs[lanes + lane]};
  multiply_add_16x8x16(sum, both, right);
}

/// x^T = z^T V for tiles of z^T from `first` on.
template <int first, int tiles>
__device__ void project(const Tile (&z)[tiles], const double* v, Tile (&x)[sums_a_quarter],
                        int lane) {
#pragma unroll
  for (int c = 0; c < sums_a_quarter; ++c) {
    x[c] = {};
  }
#pragma unroll
  for (int r = 0; r < chunks; ++r) {
#pragma unroll
    for (int c = 0; c < sums_a_quarter; ++c) {
      multiply_add(x[c], z[first + 2 * r], z[first + 2 * r + 1],
                   v + factor_of_v(c, r) * numbers_a_factor, lane);
    }
  }
}

/// z^T -= x^T (V t)^T, likewise. `done` is called for each of these tiles, so many tiles later.
template <int first, int later, int tiles, class Done>
__device__ void subtract(Tile (&z)[tiles], const double* vt, const Tile (&x)[sums_a_quarter],
                         int lane, const Done& done) {
#pragma unroll
  for (int i = 0; i < tiles_a_quarter + later; ++i) {
    if (i < tiles_a_quarter) {
      multiply_add(z[first + i], x[0], x[1], vt + i * numbers_a_factor, lane);
    }
    if (i >= later) {
      done(i - later);
    }
  }
}

/// A warp on its way down.
template <class Share, bool in_twos>
class Slide {
 public:
  __device__ Slide(const Columns<in_twos>& columns, const Factors<Share>& factors,
                   std::int64_t first_row, int count, int stage, Mail mail, Mail next, int lane)
      : columns_(columns),
        factors_(factors),
        row_(first_row + Share::quarter_of(stage, Share::quarters_a_stage - 1) * quarter),
        count_(count),
        stage_(stage),
        mail_(mail),
        next_(next),
        lane_(lane) {}

  __device__ void run() {
#pragma unroll
    for (int i = 0; i < Share::kept_tiles; ++i) {
      columns_.load(row_ + i * tile, z_[i]);
    }
    if (stage_ == 0) {
      order(row_);
    }
    factors_.begin();
    for (int step = 0; step < count_ + Share::stages - 1; ++step) {
      const int k = step - stage_;
      const bool active = k >= 0 && k < count_;
      apply_quarters<0>(step, active);
      if (active) {
#pragma unroll
        for (int i = 0; i < Share::kept_tiles; ++i) {
          z_[i] = z_[new_tiles + i];
        }
        row_ += bandwidth;
      }
    }
    // What the last window has beyond the bandwidth is where the next would begin.
#pragma unroll
    for (int i = 0; i < Share::kept_tiles; ++i) {
      columns_.store(row_ + i * tile, z_[i]);
    }
  }

 private:
  /// Those of the stage from `number` on, the latest sweeps first.
  template <int number>
  __device__ void apply_quarters(int step, bool active) {
    if constexpr (number < Share::quarters_a_stage) {
      constexpr bool is_last = number + 1 == Share::quarters_a_stage;
      constexpr int first = (Share::quarters_a_stage - 1 - number) * sums_a_quarter;
      Tile x[sums_a_quarter];
      factors_.wait();
      if constexpr (number == 0) {
        receive(step, active);
      }
      factors_.template go_on<number>(step);
      if (active) {
        project<first>(z_, factors_.v(step, stage_, number), x, lane_);
      }
      if constexpr (Factors<Share>::in_turn) {
        factors_.wait();
        factors_.template go_on<number + 1>(step);
      }
      if (active) {
        subtract<first, Share::later>(z_, factors_.vt(step, stage_, number), x, lane_, [&](int i) {
          if (is_last && i < new_tiles) {
            hand_on(i);
          }
        });
      }
      apply_quarters<number + 1>(step, active);
    }
  }
  __device__ void receive(int step, bool active) {
    if (active) {
#pragma unroll
      for (int i = 0; i < new_tiles; ++i) {
        mail_.read(i, z_[Share::kept_tiles + i]);
      }
    }
    if (stage_ == 0 && step + 1 < count_) {
      order(row_ + bandwidth);
    }
  }
  /// The new tiles of the window at `row` from z, for the first stage.
  __device__ void order(std::int64_t row) const {
#pragma unroll
    for (int i = 0; i < new_tiles; ++i) {
      columns_.copy(row + (Share::kept_tiles + i) * tile, mail_.low(i), mail_.high(i));
    }
  }
  __device__ void hand_on(int i) const {
    if (stage_ + 1 < Share::stages) {
      next_.write(i, z_[i]);
    } else {
      columns_.store(row_ + i * tile, z_[i]);
    }
  }

  const Columns<in_twos>& columns_;
  const Factors<Share>& factors_;
  std::int64_t row_;
  int count_;
  int stage_;
  Mail mail_;
  Mail next_;
  int lane_;
  Tile z_[Share::tiles];
};

template <class Share>
struct Memory {
  double factors[Factors<Share>::numbers];
  double2 mail[Share::stages][Share::warps_a_stage][Mail::numbers];
};

template <class Share, bool in_twos>
__global__ void __launch_bounds__(Share::threads, 1)
    slide(const double* v, const double* vt, DeviceMatrix<double> z, std::int64_t first_row,
          int count) {
  auto& memory = dynamic_shared<Memory<Share>>();
  const auto lane = static_cast<int>(threadIdx.x) % lanes;
  const auto warp = static_cast<int>(threadIdx.x) / lanes;
  const int stage = warp / Share::warps_a_stage;
  const int in_stage = warp % Share::warps_a_stage;
  const Columns<in_twos> columns(
      z, std::int64_t{blockIdx.x} * Share::columns + in_stage * columns_a_warp, lane);
  const Factors<Share> factors(memory.factors, v, vt, count);
  const int next = min(stage + 1, Share::stages - 1);
  Slide<Share, in_twos>(columns, factors, first_row, count, stage,
                        Mail(memory.mail[stage][in_stage], lane),
                        Mail(memory.mail[next][in_stage], lane), lane)
      .run();
}

bool is_packed(MatrixView<const double> a) {
  return a.stride() == a.rows() && reinterpret_cast<std::uintptr_t>(a.data()) % 16 == 0;
}

}  // namespace

template <class E>
bool BandDeviceKernels<E>::slides(const Chase& chase, const SweepGroup& sweeps, In v, In vt) {
  if constexpr (std::is_same_v<E, double>) {
    return chase.bandwidth == bandwidth && sweeps.count == group && is_packed(v) && is_packed(vt) &&
           is_for_sm_90(&slide<Share<2, 4>, true>);
  }
  return false;
}

template <class E>
void BandDeviceKernels<E>::slide_windows(cudaStream_t stream, const Chase& chase,
                                         const SweepGroup& sweeps, In v, In vt, Out z) {
  if constexpr (std::is_same_v<E, double>) {
    const bool in_twos = z.rows() % 2 == 0 && z.stride() % 2 == 0 &&
                         reinterpret_cast<std::uintptr_t>(z.data()) % sizeof(double2) == 0;
    const auto start = [&]<class Shared>(Shared) {
      const auto kernel = in_twos ? &slide<Shared, true> : &slide<Shared, false>;
      allow_shared(kernel, sizeof(Memory<Shared>));
      launch(stream, kernel, divide_up(z.columns(), Shared::columns),
             {dim3(Shared::threads), sizeof(Memory<Shared>)}, v.data(), vt.data(), device(z),
             sweeps.first, static_cast<int>(chase.tasks(sweeps.first)));
    };
    // So few columns a block that there is one for each multiprocessor.
    const auto fills = [&](int columns_a_block) {
      return z.columns() > columns_a_block * max_together();
    };
    if (fills(2 * columns_a_warp)) {
      start(Share<2, 4>());
    } else if (fills(columns_a_warp)) {
      start(Share<4, 2>());
    } else {
      start(Share<4, 1>());
    }
  }
}

#define SHARDSOLVE_INSTANTIATE(E)                                                                  \
  template bool BandDeviceKernels<E>::slides(const Chase&, const SweepGroup&, In, In);             \
  template void BandDeviceKernels<E>::slide_windows(cudaStream_t, const Chase&, const SweepGroup&, \
                                                    In, In, Out);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::cuda
