// P a = L U of a panel of few columns, in one kernel. A thread has a row, or a few, in registers.
// For each column j:
//
//   the largest entry of column j, and the row that it stands in    every block, of its own rows
//   of what all blocks have found the same row of U                 every block
//   l = a_j / u_jj,   a_c -= l u_jc                                 every block, its own rows
//
// Blocks tell each other numbers that say by themselves whether they are there; so nobody waits for
// anything but these. A swap changes where rows are to stand; they are stored there in the end.
// After each column a thread moves its entries one place on, the first to the last: so column j is
// always in the same register, and the loop is compiled once, not for each j.
#include "runtime/cuda/kernels/awaited_numbers.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/meeting.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"
#include "runtime/cuda/lu_device_kernels.hpp"

#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = 512;
constexpr int lanes = 32;
constexpr int warps = threads / lanes;

/// Entries that a thread has in registers, and so the most columns.
template <class E>
constexpr int entries_a_thread = sizeof(E) == 16 ? 16 : 32;
constexpr int max_rows_a_thread = 8;

/// The size of an entry, |re| + |im|, as bits that are ordered as sizes are, and the place of its
/// row. The larger one wins, of equals the one in the first row.
struct Candidate {
  std::uint64_t size;
  std::uint32_t place;
};

inline __device__ Candidate no_row() { return {0, ~std::uint32_t{0}}; }

inline __device__ std::uint64_t bits_of(float size) { return __float_as_uint(size); }
inline __device__ std::uint64_t bits_of(double size) {
  return (std::uint64_t{static_cast<std::uint32_t>(__double2hiint(size))} << 32U) |
         static_cast<std::uint32_t>(__double2loint(size));
}

/// What is no number wins against nobody but what is no row.
template <class E>
__device__ Candidate candidate(E entry, int place) {
  const RealPart<E> re = real(entry);
  const RealPart<E> im = imaginary(entry);
  const RealPart<E> size = (re < 0 ? -re : re) + (im < 0 ? -im : im);
  return {size >= 0 ? bits_of(size + 0) + 2 : 1, static_cast<std::uint32_t>(place)};
}

inline __device__ bool is_better(const Candidate& one, const Candidate& other) {
  return one.size > other.size || (one.size == other.size && one.place < other.place);
}

/// Of all lanes, in each of them.
inline __device__ std::uint32_t largest_of_warp(std::uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffffU, value);
#else
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    const std::uint32_t other = __shfl_xor_sync(0xffffffffU, value, distance);
    value = other > value ? other : value;
  }
  return value;
#endif
}
inline __device__ Candidate best_of_warp(const Candidate& mine) {
  const auto high = static_cast<std::uint32_t>(mine.size >> 32U);
  const auto low = static_cast<std::uint32_t>(mine.size);
  const std::uint32_t best_high = largest_of_warp(high);
  const std::uint32_t best_low = largest_of_warp(high == best_high ? low : 0);
  const bool is_best = high == best_high && low == best_low;
  const std::uint32_t place = ~largest_of_warp(is_best ? ~mine.place : 0);
  return {(std::uint64_t{best_high} << 32U) | best_low, place};
}

/// By all lanes of a warp: each one's number, once all are there.
template <class E>
__device__ E hear_number(const E* place) {
  Pieces<E> number;
  for (int i = 0; i < pieces<E>; ++i) {
    number.piece[i] = hear(reinterpret_cast<const Piece<E>*>(place) + i);
  }
  return number.value;
}

/// What blocks tell each other, each column anew: all bits set is not yet told.
template <class E>
struct Exchange {
  std::uint64_t* sizes;   ///< [columns][blocks]
  std::uint64_t* places;  ///< [columns][blocks]
  E* rows;                ///< [columns][blocks][columns]

  static std::size_t bytes(std::size_t columns, std::size_t blocks) {
    return columns * blocks * (2 * sizeof(std::uint64_t) + columns * sizeof(E));
  }
  static Exchange in(void* scratch, std::size_t columns, std::size_t blocks) {
    auto* const sizes = static_cast<std::uint64_t*>(scratch);
    std::uint64_t* const places = sizes + columns * blocks;
    return {sizes, places, reinterpret_cast<E*>(places + columns * blocks)};
  }
};

template <class E>
struct NarrowPanel {
  DeviceMatrix<E> a;
  std::int64_t first;
  std::int64_t before;
  std::int64_t* places;
  std::int64_t* info;
  Exchange<E> exchange;
  int blocks;
};

/// For even columns and for odd ones: a warp may still read of one column when another one writes
/// of the next.
template <class E>
struct Shared {
  Candidate best[2][warps];
  Candidate chosen[2];
  E row[2][entries_a_thread<E>];  ///< of U, from its diagonal on
};

/// x / u for |x| <= |u|, u not 0: by the reciprocal of a number near 1, if it is complex.
template <class E>
struct Divisor {
  E number;
  RealPart<E> to_unit = 1;

  __device__ explicit Divisor(E u) : number(u) {
    if constexpr (parts<E> == 2) {
      to_unit = to_unit_size(size_of(u));
      const E near_one = scaled(u, to_unit);
      number = scaled(conjugate(near_one), 1 / square(near_one));
    }
  }
  __device__ E divides(E x) const {
    if constexpr (parts<E> == 2) {
      return product_of(scaled(x, to_unit), number);
    } else {
      return x / number;
    }
  }
};

template <class E, int rows>
class NarrowPanelBlock {
  static constexpr int width = entries_a_thread<E> / rows;

 public:
  __device__ NarrowPanelBlock(const NarrowPanel<E>& panel, Shared<E>& shared)
      : panel_(panel),
        shared_(shared),
        columns_(static_cast<int>(panel.a.columns)),
        thread_(static_cast<int>(threadIdx.x)),
        warp_(thread_ / lanes),
        lane_(thread_ % lanes) {}

  __device__ void run() {
    load();
#pragma unroll 1
    for (int j = 0; j < columns_; ++j) {
      const Candidate own = best_of_block(j);
      if (panel_.blocks == 1) {
        take_own_row(j, own);
      } else {
        offer(j, own);
        if (warp_ == 0) {
          take_row(j);
        }
      }
      __syncthreads();
      swap(j);
      eliminate(j);
    }
    store();
    if (blockIdx.x == 0 && thread_ == 0 && (panel_.before == 0 || *panel_.info == 0)) {
      *panel_.info = first_odd_;
    }
  }

 private:
  __device__ void load() {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const std::int64_t row = (std::int64_t{blockIdx.x} * rows + r) * threads + thread_;
      place_[r] = row < panel_.a.rows ? static_cast<int>(row) : -1;
#pragma unroll
      for (int c = 0; c < width; ++c) {
        entries_[r][c] = place_[r] >= 0 && c < columns_ ? panel_.a(row, c) : from_real<E>(0);
      }
    }
  }

  __device__ Candidate best_of_block(int j) {
    Candidate best = no_row();
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      if (place_[r] >= j) {
        const Candidate own = candidate(entries_[r][0], place_[r]);
        best = is_better(own, best) ? own : best;
      }
    }
    best = best_of_warp(best);
    if (lane_ == 0) {
      shared_.best[j % 2][warp_] = best;
    }
    __syncthreads();
    return best_of_warp(lane_ < warps ? shared_.best[j % 2][lane_] : no_row());
  }

  /// Whether the row with number r of this thread stands at a place.
  __device__ bool stands_at(int r, std::uint32_t place) const {
    return place_[r] >= 0 && static_cast<std::uint32_t>(place_[r]) == place;
  }

  /// Of the only block. What lies behind the columns of the panel are zeros, and what lies behind
  /// those entries of columns before j, which are to stay: zeros for them.
  __device__ void take_own_row(int j, const Candidate& own) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      if (stands_at(r, own.place)) {
#pragma unroll
        for (int c = 0; c < width; ++c) {
          shared_.row[j % 2][c] = c < width - j ? entries_[r][c] : from_real<E>(0);
        }
      }
    }
    if (thread_ == 0) {
      shared_.chosen[j % 2] = own;
    }
  }

  /// The best row of this block goes to all.
  __device__ void offer(int j, const Candidate& own) {
    const std::int64_t slot = std::int64_t{j} * panel_.blocks + blockIdx.x;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      if (stands_at(r, own.place)) {
#pragma unroll
        for (int c = 0; c < width; ++c) {
          if (c < columns_ - j) {
            publish(panel_.exchange.rows + slot * columns_ + c, entries_[r][c]);
          }
        }
      }
    }
    if (thread_ == 0) {
      tell(panel_.exchange.sizes + slot, own.size);
      tell(panel_.exchange.places + slot, std::uint64_t{own.place});
    }
  }

  /// By one warp: the best row of all blocks is the row j of U.
  __device__ void take_row(int j) {
    const std::int64_t slots = std::int64_t{j} * panel_.blocks;
    Candidate best = no_row();
    int block = 0;
    for (int from = 0; from < panel_.blocks; from += lanes) {
      const int b = min(from + lane_, panel_.blocks - 1);
      const Candidate other{hear(panel_.exchange.sizes + slots + b),
                            static_cast<std::uint32_t>(hear(panel_.exchange.places + slots + b))};
      if (is_better(other, best)) {
        best = other;
        block = b;
      }
    }
    const Candidate chosen = best_of_warp(best);
    const unsigned has_it = __ballot_sync(0xffffffffU, best.place == chosen.place);
    block = from_lane(block, __ffs(static_cast<int>(has_it)) - 1);
    const E* const row = panel_.exchange.rows + (slots + block) * columns_;
    const E entry = hear_number(row + min(lane_, columns_ - j - 1));
    if (lane_ < width) {
      shared_.row[j % 2][lane_] = lane_ < columns_ - j ? entry : from_real<E>(0);
    }
    if (lane_ == 0) {
      shared_.chosen[j % 2] = chosen;
    }
  }

  __device__ void swap(int j) {
    const int pivot_place = static_cast<int>(shared_.chosen[j % 2].place);
    if (blockIdx.x == 0 && thread_ == 0) {
      panel_.places[j] = panel_.first + pivot_place;
      const E pivot = shared_.row[j % 2][0];
      if (first_odd_ == 0 && !(isfinite(real(pivot)) && isfinite(imaginary(pivot)))) {
        first_odd_ = -(panel_.before + j + 1);
      }
    }
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      if (place_[r] == pivot_place) {
        place_[r] = j;
      } else if (place_[r] == j) {
        place_[r] = pivot_place;
      }
    }
  }

  __device__ void eliminate(int j) {
    const E* const row = shared_.row[j % 2];
    const bool divides = real(row[0]) != 0 || imaginary(row[0]) != 0;
    const Divisor<E> pivot(divides ? row[0] : from_real<E>(1));
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      E l = entries_[r][0];
      if (place_[r] > j) {
        l = divides ? pivot.divides(l) : l;
#pragma unroll
        for (int c = 1; c < width; ++c) {
          entries_[r][c] = subtract_product(entries_[r][c], l, row[c]);
        }
      }
#pragma unroll
      for (int c = 1; c < width; ++c) {
        entries_[r][c - 1] = entries_[r][c];
      }
      entries_[r][width - 1] = l;
    }
  }

  /// The entries have been moved on as often as there are columns.
  __device__ void store() const {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
      for (int c = 0; c < width; ++c) {
        const int column = c - (width - columns_);
        if (place_[r] >= 0 && column >= 0) {
          panel_.a(place_[r], column) = entries_[r][c];
        }
      }
    }
  }

  const NarrowPanel<E>& panel_;
  Shared<E>& shared_;
  int columns_;
  int thread_;
  int warp_;
  int lane_;
  E entries_[rows][width];  // of the columns from the current one on, then of those before it
  int place_[rows];         // -1 where there is no row
  std::int64_t first_odd_ = 0;
};

template <class E, int rows>
__global__ void __launch_bounds__(threads, 1)
    factor_narrow(const __grid_constant__ NarrowPanel<E> panel) {
  NarrowPanelBlock<E, rows>(panel, dynamic_shared<Shared<E>>()).run();
}

/// 0 where there are too many.
std::int64_t rows_a_thread(std::int64_t rows) {
  for (int r = 1; r <= max_rows_a_thread; r *= 2) {
    if (divide_up(rows, std::int64_t{r} * threads) <= max_together()) {
      return r;
    }
  }
  return 0;
}

}  // namespace

template <class E>
std::int64_t LuDeviceKernels<E>::narrow_columns(std::int64_t rows) {
  const std::int64_t each = rows_a_thread(rows);
  return each > 0 ? entries_a_thread<E> / each : 0;
}

template <class E>
std::size_t LuDeviceKernels<E>::narrow_panel_scratch(std::int64_t rows) {
  return Exchange<E>::bytes(entries_a_thread<E>,
                            static_cast<std::size_t>(divide_up(rows, threads)));
}

template <class E>
void LuDeviceKernels<E>::narrow_panel(cudaStream_t stream, std::int64_t first, std::int64_t before,
                                      Out a, std::int64_t* places, std::int64_t* info,
                                      void* scratch) {
  const std::int64_t each = rows_a_thread(a.rows());
  const auto blocks = static_cast<std::size_t>(divide_up(a.rows(), each * threads));
  const auto columns = static_cast<std::size_t>(a.columns());
  const NarrowPanel<E> panel{device(a),
                             first,
                             before,
                             places,
                             info,
                             Exchange<E>::in(scratch, columns, blocks),
                             static_cast<int>(blocks)};
  auto* kernel = &factor_narrow<E, 1>;
  switch (each) {
    case 2:
      kernel = &factor_narrow<E, 2>;
      break;
    case 4:
      kernel = &factor_narrow<E, 4>;
      break;
    case 8:
      kernel = &factor_narrow<E, 8>;
      break;
    default:
      break;
  }
  if (blocks > 1) {
    set_bytes(stream, scratch, 0xff, Exchange<E>::bytes(columns, blocks));
  }
  launch_together(stream, kernel, static_cast<std::int64_t>(blocks),
                  {dim3(threads), sizeof(Shared<E>)}, panel);
}

#define SHARDSOLVE_INSTANTIATE(E)                                                               \
  template std::int64_t LuDeviceKernels<E>::narrow_columns(std::int64_t);                       \
  template std::size_t LuDeviceKernels<E>::narrow_panel_scratch(std::int64_t);                  \
  template void LuDeviceKernels<E>::narrow_panel(cudaStream_t, std::int64_t, std::int64_t, Out, \
                                                 std::int64_t*, std::int64_t*, void*);

SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda
