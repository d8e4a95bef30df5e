/// Updates of a factor in float32 and complex64 on tensor cores, from split panels
/// (split_panel.cu).
///
/// With x = high + low for each number,
///   a b = high_a high_b + high_a low_b + low_a high_b
/// but for low_a low_b. Tensor cores chop what they add up, so sums of 16 products are as long as
/// they make them: those are added in float32.
///
/// Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the
/// FP32 theoretical peak performance" (2022), for the splitting and the chopping.
#include "runtime/cuda/cholesky_device_kernels.hpp"
#include "runtime/cuda/kernels/cholesky/update_place.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/kernels/tensor_core.cuh"

#include <cuda_fp16.h>
#include <cuda_pipeline_primitives.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int lanes = 32;

// A block of threads makes a tile of c, each warp a part of it; a complex column of the right
// factor counts as two, which give the real and the imaginary part.
constexpr int warps_down = 2;
constexpr int warps_across = 4;
constexpr int threads = warps_down * warps_across * lanes;
constexpr int tile_rows = update_rows;
constexpr int tile_columns = update_columns<float>;
constexpr int part_rows = tile_rows / warps_down;
constexpr int part_columns = tile_columns / warps_across;

// The panel is read in slices of so many numbers of each column, some slices ahead of their use.
constexpr int slice = CholeskyDeviceKernels<float>::split_slice;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int slices_kept = 2;  // in 96 KB, where copies are made at once anyway
#else
constexpr int slices_kept = 3;
#endif
constexpr int numbers_a_piece = sizeof(float4) / sizeof(__half);
constexpr int pieces_a_part = slice / numbers_a_piece;
constexpr int pieces_a_column = 2 * pieces_a_part;
constexpr std::uint32_t bytes_a_piece = sizeof(float4);
constexpr std::uint32_t bytes_a_column = pieces_a_column * bytes_a_piece;

// What the tensor cores multiply at once: 16 x 16 and 16 x 8 numbers.
constexpr int high_tile = 16;
constexpr int wide_tile = 8;
constexpr int deep = 16;

/// A packed panel as it is split, in float16.
struct SplitPanel {
  const __half* data;
  std::int64_t columns;
  std::int64_t stride;
  std::int32_t k;  ///< reals in a column
};

/// High and low parts of columns, in pieces of 16 bytes: of a column the pieces change places, so
/// that those of eight columns are in different banks.
template <int columns>
struct alignas(bytes_a_column) Slice {
  float4 pieces[columns][pieces_a_column];

  static __device__ int place(int column, int piece) { return piece ^ (column % pieces_a_column); }
};

template <class E>
struct Shared {
  UpdatePlace<E> place;  // here, as registers are short
  Slice<tile_rows> left[slices_kept];
  Slice<tile_columns / parts<E>> right[slices_kept];
};

/// What a thread copies of an operand: a piece of each slice of some columns.
template <int columns>
class Source {
 public:
  __device__ Source(const SplitPanel& panel, int first)
      : next_(panel.data + (first + column()) * panel.stride + piece() / pieces_a_part * panel.k +
              piece() % pieces_a_part * numbers_a_piece),
        stride_(static_cast<int>(panel.stride) * columns_at_once) {
#pragma unroll
    for (int j = 0; j < copies; ++j) {
      exists_ |= static_cast<unsigned>(first + column() + j * columns_at_once < panel.columns) << j;
    }
  }

  /// Of the next slice.
  __device__ void fetch(Slice<columns>& target) {
    float4* const first = &target.pieces[column()][Slice<columns>::place(column(), piece())];
#pragma unroll
    for (int j = 0; j < copies; ++j) {
      const bool exists = (exists_ >> j & 1U) != 0;
      __pipeline_memcpy_async(first + j * columns_at_once * pieces_a_column, next_ + j * stride_,
                              sizeof(float4), exists ? 0 : sizeof(float4));  // zeros
    }
    next_ += slice;
  }

 private:
  static constexpr int columns_at_once = threads / pieces_a_column;
  static constexpr int copies = columns / columns_at_once;
  static_assert(columns_at_once % pieces_a_column == 0);  // so that pieces stay at their places

  static __device__ int column() { return static_cast<int>(threadIdx.x) / pieces_a_column; }
  static __device__ int piece() { return static_cast<int>(threadIdx.x) % pieces_a_column; }

  const __half* next_;
  int stride_;  // of so many columns
  unsigned exists_ = 0;
};

template <class E>
class UpdateTile {
 public:
  __device__ UpdateTile(const SplitPanel& left, const SplitPanel& right, Shared<E>& shared)
      : left_panel_(left),
        right_panel_(right),
        shared_(shared),
        left_(left, shared.place.left + shared.place.row),
        right_(right, shared.place.right + shared.place.column) {}

  __device__ void run() {
    const int slices = left_panel_.k / slice;
#pragma unroll
    for (int s = 0; s < slices_kept - 1; ++s) {
      fetch(s < slices, s);
    }
    int slot = 0;
    for (int s = 0; s < slices; ++s) {
      __pipeline_wait_prior(slices_kept - 2);
      __syncthreads();
      fetch(s + slices_kept - 1 < slices, slot == 0 ? slices_kept - 1 : slot - 1);
      add_slice(left_row_ + slot * static_cast<unsigned>(sizeof(shared_.left[0])),
                right_row_ + slot * static_cast<unsigned>(sizeof(shared_.right[0])));
      slot = slot == slices_kept - 1 ? 0 : slot + 1;
    }
    store();
  }

 private:
  static constexpr int tiles_down = part_rows / high_tile;
  static constexpr int tiles_across = part_columns / wide_tile;
  /// Tiles side by side that one instruction loads.
  static constexpr int pair = 2;
  using RightTiles = std::uint32_t[tiles_across / pair][2 * pair];
  // Of c, in two tiles of a result above one another.
  static constexpr int rows_a_thread = 2 * tiles_down;
  static constexpr int row_distance = 8;
  static constexpr int columns_at_once = 2 / parts<E>;

  /// The copies of the next slice; none, but a group of them all the same, behind the last.
  __device__ void fetch(bool exists, int slot) {
    if (exists) {
      left_.fetch(shared_.left[slot]);
      right_.fetch(shared_.right[slot]);
    }
    __pipeline_commit();
  }

  __device__ void add_slice(std::uint32_t left_row, std::uint32_t right_row) {
    // Pieces are told apart by bits of an address that no column's own has.
    const auto piece = [](std::uint32_t row, int number) { return row ^ number * bytes_a_piece; };
#pragma unroll
    for (int k = 0; k < pieces_a_part; k += deep / numbers_a_piece) {
      RightTiles right_high;
      RightTiles right_low;
      load_right(right_high, piece(right_row, k));
      load_right(right_low, piece(right_row, k + pieces_a_part));
#pragma unroll
      for (int i = 0; i < tiles_down; ++i) {
        const std::uint32_t column = i * high_tile * bytes_a_column;
        std::uint32_t left_high[4];
        std::uint32_t left_low[4];
        load_four_8x8(left_high, piece(left_row, k) + column);
        load_four_8x8(left_low, piece(left_row, k + pieces_a_part) + column);
        float sum[tiles_across][4] = {};
        multiply_add(sum, left_low, right_high);
        multiply_add(sum, left_high, right_low);
        multiply_add(sum, left_high, right_high);
#pragma unroll
        for (int j = 0; j < tiles_across; ++j) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            sum_[i][j][e] += sum[j][e];
          }
        }
      }
    }
  }

  static __device__ void multiply_add(float (&sum)[tiles_across][4], const std::uint32_t (&left)[4],
                                      const RightTiles& right) {
#pragma unroll
    for (int j = 0; j < tiles_across; ++j) {
      multiply_add_16x8x16(sum[j], left, right[j / pair][j % pair * 2],
                           right[j / pair][j % pair * 2 + 1]);
    }
  }

  /// The odd columns of complex64 are those whose products with the left factor's conjugates are
  /// imaginary parts: (re, im) there is (im, -re).
  static __device__ void load_right(RightTiles& x, std::uint32_t row) {
#pragma unroll
    for (int j = 0; j < tiles_across / pair; ++j) {
      load_four_8x8(x[j], row + j * pair * wide_tile / parts<E> * bytes_a_column);
      if constexpr (parts<E> == 2) {
        const bool is_odd = lane() / 4 % 2 == 1;
#pragma unroll
        for (std::uint32_t& two : x[j]) {
          constexpr std::uint32_t minus = std::uint32_t{1} << 31U;
          two = is_odd ? __byte_perm(two, 0, 0x1032) ^ minus : two;
        }
      }
    }
  }

  /// Where this lane loads from for 16 columns of the left factor, in the first slice.
  __device__ std::uint32_t left_row() const {
    const int column = warp() % warps_down * part_rows + lane() / 8 % 2 * 8 + lane() % 8;
    return shared_address(
        &shared_.left[0].pieces[column][Slice<tile_rows>::place(column, lane() / 16)]);
  }
  /// Likewise for two tiles of the right factor.
  __device__ std::uint32_t right_row() const {
    const int column =
        (warp() / warps_down * part_columns + lane() / 16 * 8 + lane() % 8) / parts<E>;
    return shared_address(
        &shared_.right[0].pieces[column][Slice<update_columns<E>>::place(column, lane() / 8 % 2)]);
  }

  /// What undoes the power of two of a column.
  static __device__ float factor(const SplitPanel& panel, int column) {
    return column < panel.columns
               ? *reinterpret_cast<const float*>(panel.data + column * panel.stride +
                                                 std::int64_t{2} * panel.k)
               : 0.0F;
  }

  /// Two columns of numbers at a time: all are read before any is written, as c's memory is far.
  __device__ void store() const {
    const UpdatePlace<E> place = shared_.place;
    const int row = place.row + warp() % warps_down * part_rows + lane() / 4;
    const int column =
        place.column + (warp() / warps_down * part_columns + lane() % 4 * 2) / parts<E>;
    float of_row[rows_a_thread];
#pragma unroll
    for (int i = 0; i < rows_a_thread; ++i) {
      of_row[i] = factor(left_panel_, place.left + row + i * row_distance);
    }
#pragma unroll
    for (int j = 0; j < tiles_across; ++j) {
      E c[columns_at_once][rows_a_thread];
      float of_column[columns_at_once];
      const auto each = [&](auto work) {
#pragma unroll
        for (int next = 0; next < columns_at_once; ++next) {
          const int at = column + j * wide_tile / parts<E> + next;
          E* const target = place.c + row + at * place.stride;
#pragma unroll
          for (int i = 0; i < rows_a_thread; ++i) {
            if (place.changes(row + i * row_distance, at)) {
              work(target[i * row_distance], next, i);
            }
          }
        }
      };
      each([&](const E& target, int next, int i) { c[next][i] = target; });
#pragma unroll
      for (int next = 0; next < columns_at_once; ++next) {
        of_column[next] =
            factor(right_panel_, place.right + column + j * wide_tile / parts<E> + next);
      }
      each([&](E& target, int next, int i) {
        const float* const two = &sum_[i / 2][j][2 * (i % 2)];
        if constexpr (parts<E> == 2) {
          const bool is_real = place.lower && row + i * row_distance == column + j * wide_tile / 2;
          target = {c[next][i].re - two[0] * of_row[i] * of_column[next],
                    is_real ? 0.0F : c[next][i].im - two[1] * of_row[i] * of_column[next]};
        } else {
          target = c[next][i] - two[next] * of_row[i] * of_column[next];
        }
      });
    }
  }

  static __device__ int lane() { return static_cast<int>(threadIdx.x) % lanes; }
  static __device__ int warp() { return static_cast<int>(threadIdx.x) / lanes; }

  const SplitPanel& left_panel_;
  const SplitPanel& right_panel_;
  Shared<E>& shared_;
  Source<tile_rows> left_;
  Source<update_columns<E>> right_;
  std::uint32_t left_row_ = left_row();
  std::uint32_t right_row_ = right_row();
  float sum_[tiles_down][tiles_across][4] = {};
};

template <class E>
__global__ void __launch_bounds__(threads, 2)
    update_tiles(const __grid_constant__ SplitPanel left, const __grid_constant__ SplitPanel right,
                 const __grid_constant__ UpdatePieces<E> pieces) {
  Shared<E>& shared = dynamic_shared<Shared<E>>();
  if (threadIdx.x == 0) {
    shared.place = place_of_block(pieces);
  }
  __syncthreads();
  if (shared.place.counts()) {
    UpdateTile<E>(left, right, shared).run();
  }
}

template <class E>
SplitPanel split(MatrixView<const E> panel) {
  constexpr std::int64_t halves = sizeof(E) / sizeof(__half);
  return {reinterpret_cast<const __half*>(panel.data()), panel.columns(), panel.stride() * halves,
          static_cast<std::int32_t>(panel.rows()) * parts<E>};
}

template <class E>
void enqueue(cudaStream_t stream, MatrixView<const E> left, MatrixView<const E> right,
             const UpdatePieces<E>& pieces) {
  const std::size_t bytes = std::min(sizeof(Shared<E>), max_shared());
  allow_shared(&update_tiles<E>, bytes);
  launch(stream, &update_tiles<E>, pieces.tiles, {threads, bytes}, split(left), split(right),
         pieces);
}

}  // namespace

template <>
bool CholeskyDeviceKernels<float>::updates_panels(In panel) {
  return splits_panels(panel.rows());
}
template <>
bool CholeskyDeviceKernels<Complex<float>>::updates_panels(In panel) {
  return splits_panels(panel.rows());
}

template <>
void CholeskyDeviceKernels<float>::update(cudaStream_t stream, In left, In right,
                                          const UpdatePieces<float>& pieces) {
  enqueue(stream, left, right, pieces);
}
template <>
void CholeskyDeviceKernels<Complex<float>>::update(cudaStream_t stream, In left, In right,
                                                   const UpdatePieces<Complex<float>>& pieces) {
  enqueue(stream, left, right, pieces);
}

}  // namespace shardsolve::runtime::cuda
