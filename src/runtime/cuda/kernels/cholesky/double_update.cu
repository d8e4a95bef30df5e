/// Updates of a factor in float64 on the tensor cores, on GPUs from sm_90 on.
///
/// A block of threads makes a tile of c. Slices of both operands are copied to shared memory by the
/// hardware, some ahead of their use; two barriers a slot, and no other, keep the warps together: a
/// slice is there, and all have read it. Products are of 16 x 8 with 8 x 8 numbers: a warp has
/// those of the next 8 of each column in registers while it multiplies these, so that no
/// instruction waits for a register that a product still reads.
#include "runtime/cuda/cholesky_device_kernels.hpp"
#include "runtime/cuda/kernels/cholesky/update_place.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/tensor_copy.cuh"

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int lanes = 32;

// Each warp makes a part of the tile. A product's 16 rows are columns of c, so that a thread has
// numbers that lie side by side in c.
constexpr int warps_down = 2;
constexpr int warps_across = 4;
constexpr int warps = warps_down * warps_across;
constexpr int threads = warps * lanes;

/// Tiles of updates that leave most multiprocessors idle otherwise.
constexpr int small_side = 64;

// What the tensor cores multiply at once.
constexpr int high = 16;
constexpr int wide = 8;
constexpr int deep = 8;
constexpr int half = high / 2;

constexpr int slice = 2 * deep;
constexpr int slots = 6;
constexpr int bytes_a_column = slice * sizeof(double);
constexpr int bytes_a_piece = sizeof(double2);
static_assert(update_rows == update_columns<double>);

/// Slices before the last when c is brought to the GPU's cache.
constexpr int before_end = 10;

/// A slice of so many columns. The pieces of 16 bytes of column j are at places that differ from
/// their numbers by the bits of j % 8 (CUDA's 128-byte swizzle), so that those of eight columns are
/// in different banks.
template <int side>
struct alignas(1024) Slice {
  char bytes[side * bytes_a_column];
};

template <int side>
struct Shared {
  Slice<side> left[slots];
  Slice<side> right[slots];
  CopyBarrier is_there[slots];
  CopyBarrier is_read[slots];
};
template <int side>
constexpr std::size_t shared_bytes = sizeof(Shared<side>) + alignof(Shared<side>);

template <int side>
__device__ Shared<side>& shared_memory() {
  char* const memory = &dynamic_shared<char>();
  return *reinterpret_cast<Shared<side>*>(memory +
                                          (0U - shared_address(memory)) % alignof(Shared<side>));
}

/// 16 x 8 numbers of a result: lane 4 g + t holds columns 2 t and 2 t + 1 of rows g and g + 8.
struct Sum {
  double2 low;
  double2 high;
};
/// The left factor of a product, 16 x 8: (g, k), (g + 8, k), (g, k'), (g + 8, k').
using Left = double[4];

// These stay in the order that they are written in: loads among the products before those that
// take what they load.

/// c += a b, where lane 4 g + t holds b(k, g) and b(k', g). Which k the lanes have is for us to
/// say, as long as a and b agree. PTX: mma.m16n8k8 with .f64.
inline __device__ void multiply_add(Sum& c, const Left& a, const double2& b) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+d"(c.low.x), "+d"(c.low.y), "+d"(c.high.x), "+d"(c.high.y)
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b.x), "d"(b.y));
#endif
}

inline __device__ void load(double& x, std::uint32_t from) {
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(from));
}
inline __device__ void load(double2& x, std::uint32_t from) {
  asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(x.x), "=d"(x.y) : "r"(from));
}

/// The same address, and the compiler does not know: of two loads side by side it would make one,
/// and move what that loads to where products take it.
inline __device__ std::uint32_t unknown(std::uint32_t address) {
  asm volatile("mov.u32 %0, %0;" : "+r"(address));
  return address;
}

/// A tile of so many rows and columns.
template <int side>
class UpdateTile {
 public:
  using Place = UpdatePlace<double, side>;

  __device__ UpdateTile(const CUtensorMap& left, const CUtensorMap& right, const Place& place,
                        int k, Shared<side>& shared)
      : left_(left), right_(right), place_(place), slices_(k / slice), shared_(shared) {}

  __device__ void run() {
    if (threadIdx.x == 0) {
      for (int slot = 0; slot < slots; ++slot) {
        shared_.is_there[slot].init(1);
        shared_.is_read[slot].init(warps);
      }
      CopyBarrier::publish();
      for (int s = 0; s < slots && s < slices_; ++s) {
        fetch(s, s);
      }
    }
    __syncthreads();
    add_slices();
    store();
  }

 private:
  static constexpr int part_rows = side / warps_down;
  static constexpr int part_columns = side / warps_across;
  static constexpr int bytes_a_slice = sizeof(Slice<side>);
  static constexpr int tiles_down = part_rows / wide;
  static constexpr int tiles_across = part_columns / high;

  /// Those of 8 numbers of each column of the part.
  struct Factors {
    Left right[tiles_across];
    double2 left[tiles_down];
  };

  __device__ void fetch(int s, int slot) {
    CopyBarrier& there = shared_.is_there[slot];
    there.arrive_and_expect(2 * bytes_a_slice);
    there.fetch(&shared_.left[slot], left_, s * slice, place_.left + place_.row);
    there.fetch(&shared_.right[slot], right_, s * slice, place_.right + place_.column);
  }

  /// Of every row of a product's factors a lane takes the numbers 4 t to 4 t + 3 of the slice, two
  /// for each half.
  __device__ void add_slices() {
    const int first = (2 * t() ^ g()) * bytes_a_piece;
    const std::uint32_t right =
        shared_address(&shared_.right[0]) + (own_column() + g()) * bytes_a_column + first;
    const std::uint32_t left =
        shared_address(&shared_.left[0]) + (own_row() + g()) * bytes_a_column + first;
    const std::uint32_t one_on = unknown(right + sizeof(double));
    const std::uint32_t one_on_other = unknown((right ^ bytes_a_piece) + sizeof(double));

    Factors now;
    Factors next;
    shared_.is_there[0].wait(false);
#pragma unroll
    for (int i = 0; i < tiles_down; ++i) {
      load_some(now, i, right, one_on, left);
    }
    int slot = 0;
    bool odd = false;
    for (int s = 0; s < slices_; ++s) {
      const int last_slot = slot == 0 ? slots - 1 : slot - 1;
      const int next_slot = slot == slots - 1 ? 0 : slot + 1;
      const bool next_odd = next_slot == 0 ? !odd : odd;
      if (warp() == 0) {
        // Where all have been by now, or will be soon.
        if (lane() == 0 && s > 0 && s - 1 + slots < slices_) {
          shared_.is_read[last_slot].wait(slot == 0 ? !odd : odd);
          fetch(s - 1 + slots, last_slot);
        }
        __syncwarp();
      }
      const std::uint32_t here = slot * bytes_a_slice;
      multiply_and_load(now, next, (right ^ bytes_a_piece) + here, one_on_other + here,
                        (left ^ bytes_a_piece) + here);
      if (s + 1 < slices_) {
        shared_.is_there[next_slot].wait(next_odd);
      }
      // Behind the last slice what is there, which nobody uses.
      const std::uint32_t there = next_slot * bytes_a_slice;
      multiply_and_load(next, now, right + there, one_on + there, left + there);
      if (lane() == 0) {
        shared_.is_read[slot].arrive();
      }
      if (s == max(slices_ - before_end, 0)) {
        prefetch_c();
      }
      slot = next_slot;
      odd = next_odd;
    }
  }

  /// A part of what products take, i of tiles_down.
  static __device__ void load_some(Factors& x, int i, std::uint32_t right, std::uint32_t one_on,
                                   std::uint32_t left) {
    load(x.left[i], left + i * wide * bytes_a_column);
    constexpr int numbers = 4;
    const int at = i / numbers * high * bytes_a_column + i % 2 * half * bytes_a_column;
    load(x.right[i / numbers][i % numbers], (i % numbers < 2 ? right : one_on) + at);
  }

  __device__ void multiply_and_load(const Factors& x, Factors& next, std::uint32_t right,
                                    std::uint32_t one_on, std::uint32_t left) {
    static_assert(tiles_down == 4 * tiles_across);
#pragma unroll
    for (int i = 0; i < tiles_down; ++i) {
      load_some(next, i, right, one_on, left);
#pragma unroll
      for (int j = 0; j < tiles_across; ++j) {
        multiply_add(sum_[j][i], x.right[j], x.left[i]);
      }
    }
  }

  __device__ void prefetch_c() const {
    constexpr int rows_a_line = 128 / sizeof(double);
    constexpr int lines = part_rows / rows_a_line;
    const int row = place_.row + own_row() + lane() % lines * rows_a_line;
#pragma unroll
    for (int j = 0; j < part_columns; j += lanes / lines) {
      const int column = place_.column + own_column() + lane() / lines + j;
      if (row < place_.rows && column < place_.columns) {
        asm volatile("prefetch.global.L2 [%0];" ::"l"(
            place_.c + row + static_cast<std::int64_t>(column) * place_.stride));
      }
    }
  }

  /// All of a product's 16 columns are read before any is written, as c's memory is far.
  __device__ void store() const {
    const int row = place_.row + own_row() + 2 * t();
    const int column = place_.column + own_column() + g();
    double* const c = place_.c + row + static_cast<std::int64_t>(column) * place_.stride;
    const bool is_whole = place_.row + side <= place_.rows &&
                          place_.column + side <= place_.columns &&
                          (!place_.lower || place_.row >= place_.column + side);
    const bool in_pairs =
        reinterpret_cast<std::uintptr_t>(place_.c) % sizeof(double2) == 0 && place_.stride % 2 == 0;
#pragma unroll
    for (int j = 0; j < tiles_across; ++j) {
      const auto each = [&](auto work) {
#pragma unroll
        for (int eight = 0; eight < 2; ++eight) {
#pragma unroll
          for (int i = 0; i < tiles_down; ++i) {
            const int down = i * wide;
            const int across = j * high + eight * half;
            work(c + down + across * place_.stride, row + down, column + across,
                 eight == 0 ? sum_[j][i].low : sum_[j][i].high, i + eight * tiles_down);
          }
        }
      };
      if (is_whole && in_pairs) {
        double2 before[2 * tiles_down];
        each([&](double* at, int, int, const double2&, int n) {
          before[n] = *reinterpret_cast<const double2*>(at);
        });
        each([&](double* at, int, int, const double2& sum, int n) {
          *reinterpret_cast<double2*>(at) = {before[n].x - sum.x, before[n].y - sum.y};
        });
      } else {
        each([&](double* at, int at_row, int at_column, const double2& sum, int) {
          if (place_.changes(at_row, at_column)) {
            at[0] -= sum.x;
          }
          if (place_.changes(at_row + 1, at_column)) {
            at[1] -= sum.y;
          }
        });
      }
    }
  }

  static __device__ int lane() { return static_cast<int>(threadIdx.x) % lanes; }
  static __device__ int warp() { return static_cast<int>(threadIdx.x) / lanes; }
  static __device__ int g() { return lane() / 4; }
  static __device__ int t() { return lane() % 4; }
  // Of the warp's part, in the tile.
  static __device__ int own_row() { return warp() / warps_across * part_rows; }
  static __device__ int own_column() { return warp() % warps_across * part_columns; }

  const CUtensorMap& left_;
  const CUtensorMap& right_;
  const Place place_;
  int slices_;
  Shared<side>& shared_;
  Sum sum_[tiles_across][tiles_down] = {};
};

template <int side>
__global__ void __launch_bounds__(threads, side == update_rows ? 1 : 2)
    update_tiles(const __grid_constant__ CUtensorMap left,
                 const __grid_constant__ CUtensorMap right,
                 const __grid_constant__ UpdatePieces<double> pieces, int k) {
  const auto place = place_of_block<double, side, side>(pieces);
  if (place.counts()) {
    UpdateTile<side>(left, right, place, k, shared_memory<side>()).run();
  }
}

/// The panel as the hardware copies it: boxes of a slice of so many columns.
bool describe(MatrixView<const double> panel, int columns, CUtensorMap& map) {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                     &result);
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  const cuuint64_t size[] = {static_cast<cuuint64_t>(panel.rows()),
                             static_cast<cuuint64_t>(panel.columns())};
  const cuuint64_t stride[] = {static_cast<cuuint64_t>(panel.stride()) * sizeof(double)};
  const cuuint32_t box[] = {slice, static_cast<cuuint32_t>(columns)};
  const cuuint32_t step[] = {1, 1};
  return encode != nullptr &&
         encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 2, const_cast<double*>(panel.data()), size,
                stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace

template <>
bool CholeskyDeviceKernels<double>::updates_panels(In panel) {
  CUtensorMap map;
  return panel.rows() > 0 && panel.rows() % slice == 0 &&
         is_for_sm_90(&update_tiles<update_rows>) && describe(panel, update_rows, map);
}

// Small ones make two thirds of what large ones do, by four times as many blocks of threads.
template <>
UpdateTileSize CholeskyDeviceKernels<double>::update_size(std::int64_t tiles) {
  const bool few = 3 * tiles <= 2 * device_attribute(cudaDevAttrMultiProcessorCount);
  const int side = few ? small_side : update_rows;
  return {side, side};
}

template <>
void CholeskyDeviceKernels<double>::update(cudaStream_t stream, In left, In right,
                                           const UpdatePieces<double>& pieces) {
  const auto start = [&](auto kernel, std::size_t bytes) {
    CUtensorMap left_map;
    CUtensorMap right_map;
    describe(left, pieces.size.columns, left_map);
    describe(right, pieces.size.columns, right_map);
    allow_shared(kernel, bytes);
    launch(stream, kernel, pieces.tiles, {threads, bytes}, left_map, right_map, pieces,
           static_cast<int>(left.rows()));
  };
  if (pieces.size.rows == small_side) {
    start(&update_tiles<small_side>, shared_bytes<small_side>);
  } else {
    start(&update_tiles<update_rows>, shared_bytes<update_rows>);
  }
}

// cuBLAS makes these products as fast as the GPU does any.
template <>
bool CholeskyDeviceKernels<Complex<double>>::updates_panels(In) {
  return false;
}
template <>
void CholeskyDeviceKernels<Complex<double>>::update(cudaStream_t, In, In,
                                                    const UpdatePieces<Complex<double>>&) {}

}  // namespace shardsolve::runtime::cuda
