// QR of a panel in one kernel. Blocks have rows, chunk by chunk, in shared memory if they fit
// there, and meet once for each column j:
//
//   s = rows below j of a, each conjugated and times its entry in column j     every block its own
//   meet; all add up s, and see row j
//   v_j and tau from s_j and a_jj                                              every block
//   a -= v_j conj(tau) (v_j^H a), where v_j^H a_c = a_jc + conj(scale) s_c     its own rows
//
// What s has of the columns before j are products of reflectors, of which a further block, which
// has no rows, makes t:
//
//   t_jj = tau,   t_j = -tau t (v_c^H v_j)_c
//
// and it stores row j of r. Each column is first multiplied by a power of two that brings it near
// 1: its reflector does not change, and squares stay within the range. That is undone in r.
#include "runtime/cuda/band_device_kernels.hpp"
#include "runtime/cuda/kernels/band/reflector.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/meeting.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = 512;
constexpr int lanes = 32;
constexpr int warps = threads / lanes;

/// Columns that a warp goes through side by side.
constexpr int together = 4;

/// Rows whose products are added up together: as few as make no more chunks than that. So sums do
/// not depend on how many blocks there are.
constexpr std::int64_t max_chunks = 128;
constexpr std::int64_t least_chunk = 128;

constexpr std::int64_t chunk_rows(std::int64_t rows) {
  return std::max(least_chunk, divide_up(divide_up(rows, max_chunks), lanes) * lanes);
}

/// What blocks tell each other. Sums and pivot rows are for even columns and for odd ones, as a
/// block may still read those of one column when another one writes those of the next.
template <class E>
struct Exchange {
  std::uint32_t* arrivals;
  E* sums;             ///< [2][max_chunks][columns]
  E* pivot_row;        ///< [2][columns]
  RealPart<E>* sizes;  ///< [max_chunks][columns]

  static constexpr std::size_t alignment = 128;
  static std::size_t bytes(std::int64_t columns) {
    return alignment + sizeof(E) * static_cast<std::size_t>((2 * max_chunks + 2) * columns) +
           sizeof(RealPart<E>) * static_cast<std::size_t>(max_chunks * columns);
  }
  static Exchange in(void* scratch, std::int64_t columns) {
    E* const sums = reinterpret_cast<E*>(static_cast<std::byte*>(scratch) + alignment);
    E* const pivot_row = sums + 2 * max_chunks * columns;
    return {static_cast<std::uint32_t*>(scratch), sums, pivot_row,
            reinterpret_cast<RealPart<E>*>(pivot_row + 2 * columns)};
  }
};

template <class E>
struct Panel {
  DeviceMatrix<E> a;
  DeviceMatrix<E> r;
  DeviceMatrix<E> t;
  Exchange<E> exchange;
  std::int64_t chunk_rows;
  int chunks;
  int chunks_a_block;
  int blocks;  ///< with rows; one more makes t
};

/// Beside its rows a block has this in shared memory.
template <class E>
struct Columns {
  E* sums;     ///< s
  E* pivot;    ///< row j
  E* factors;  ///< conj(tau) (v_j^H a)
  E* partial;  ///< a thread's
  RealPart<E>* scales;

  static __device__ Columns in(E* memory, int columns) {
    E* const partial = memory + 3 * columns;
    return {memory, memory + columns, memory + 2 * columns, partial,
            reinterpret_cast<RealPart<E>*>(partial + threads)};
  }
  /// A multiple of what elements are aligned to.
  static constexpr std::size_t bytes(std::int64_t columns) {
    return sizeof(E) * static_cast<std::size_t>(4 * columns + threads);
  }
};

template <class E>
class PanelBlock {
 public:
  /// `rows_in_shared`: memory for the rows behind that of the columns.
  __device__ PanelBlock(const Panel<E>& panel, E* memory, bool rows_in_shared)
      : panel_(panel),
        columns_(static_cast<int>(panel.a.columns)),
        shared_(Columns<E>::in(memory, columns_)),
        makes_t_(static_cast<int>(blockIdx.x) == panel.blocks),
        first_chunk_(min(static_cast<int>(blockIdx.x) * panel.chunks_a_block, panel.chunks)),
        own_chunks_(min(panel.chunks_a_block, panel.chunks - first_chunk_)),
        first_row_(first_chunk_ * panel.chunk_rows),
        rows_(makes_t_ ? 0
                       : static_cast<int>(
                             min(own_chunks_ * panel.chunk_rows, panel.a.rows - first_row_))),
        in_shared_(rows_in_shared),
        own_(rows_in_shared ? memory + 4 * columns_ + threads : panel.a.data + first_row_),
        stride_(rows_in_shared ? rows_ : panel.a.stride),
        warp_(static_cast<int>(threadIdx.x) / lanes),
        lane_(static_cast<int>(threadIdx.x) % lanes) {}

  __device__ void run() {
    scale();
    const int reflectors = static_cast<int>(min(panel_.a.rows, panel_.a.columns));
    for (int j = 0; j < reflectors; ++j) {
      give_products(j);
      meet();
      take_products(j);
      const Reflector<E> h = reflector(shared_.pivot[j], real(shared_.sums[j]));
      make_factors(j, h);
      if (makes_t_) {
        store_r(j, h);
        extend_t(j, h);
      } else {
        apply(j, h);
      }
    }
    store_v(reflectors);
  }

 private:
  __device__ E& own(int row, int column) const { return own_[row + column * stride_]; }
  __device__ void meet() {
    cuda::meet(panel_.exchange.arrivals, static_cast<std::uint32_t>(panel_.blocks + 1),
               ++meetings_);
  }
  /// Where the rows below row j begin among those of this block.
  __device__ int below(int j) const {
    return static_cast<int>(max(std::int64_t{0}, j + 1 - first_row_));
  }

  /// Columns near 1; what they were divided by to scales.
  __device__ void scale() {
    for (int c = warp_; c < columns_ && rows_ > 0; c += warps) {
      RealPart<E> largest = 0;
      for (int i = lane_; i < rows_; i += lanes) {
        const E entry = panel_.a(first_row_ + i, c);
        if (in_shared_) {
          own(i, c) = entry;
        }
        const RealPart<E> size = size_of(entry);
        largest = size > largest ? size : largest;
      }
      largest = largest_of_lanes(largest);
      if (lane_ == 0) {
        store_through(panel_.exchange.sizes + blockIdx.x * columns_ + c, largest);
      }
    }
    meet();
    for (int c = static_cast<int>(threadIdx.x); c < columns_; c += threads) {
      RealPart<E> largest = 0;
      for (int block = 0; block < panel_.blocks; ++block) {
        const RealPart<E> size = load_fresh(panel_.exchange.sizes + block * columns_ + c);
        largest = size > largest ? size : largest;
      }
      shared_.scales[c] = 1 / to_unit_size(largest);
    }
    __syncthreads();
    for (int c = warp_; c < columns_; c += warps) {
      const RealPart<E> factor = 1 / shared_.scales[c];
      for (int i = lane_; i < rows_; i += lanes) {
        own(i, c) = scaled(own(i, c), factor);
      }
    }
    __syncthreads();
  }

  __device__ void give_products(int j) {
    const int rows_a_chunk = static_cast<int>(panel_.chunk_rows);
    E* const sums = panel_.exchange.sums + (j % 2) * max_chunks * columns_;
    for (int chunk = 0; chunk < own_chunks_ && rows_ > 0; ++chunk) {
      const int begin = max(chunk * rows_a_chunk, below(j) / lanes * lanes);
      const int end = min((chunk + 1) * rows_a_chunk, rows_);
      for (int first = warp_; first < columns_; first += together * warps) {
        E products[together] = {};
        for (int i = begin + lane_; i < end; i += lanes) {
          const E left = i >= below(j) ? conjugate(own(i, j)) : from_real<E>(0);
#pragma unroll
          for (int k = 0; k < together; ++k) {
            if (first + k * warps < columns_) {
              products[k] = add_product(products[k], left, own(i, first + k * warps));
            }
          }
        }
        const E sum = sum_four(products);
        const int c = first + lane_ / (lanes / together) * warps;
        if (lane_ % (lanes / together) == 0 && c < columns_) {
          store_through(sums + (first_chunk_ + chunk) * columns_ + c, sum);
        }
      }
    }
    const std::int64_t pivot = j - first_row_;
    if (pivot >= 0 && pivot < rows_) {
      for (int c = static_cast<int>(threadIdx.x); c < columns_; c += threads) {
        store_through(panel_.exchange.pivot_row + (j % 2) * columns_ + c,
                      own(static_cast<int>(pivot), c));
      }
    }
  }

  /// Sums over chunks: of as many columns at a time as there are threads for, each by several
  /// threads that take the chunks in turn.
  __device__ void take_products(int j) {
    const int thread = static_cast<int>(threadIdx.x);
    const int at_once = min(columns_, threads);
    const int teams = threads / at_once;
    const int team = thread / at_once;
    const E* const sums = panel_.exchange.sums + (j % 2) * max_chunks * columns_;
    for (int from = 0; from < columns_; from += at_once) {
      const int c = from + thread % at_once;
      // Columns before j are for t alone.
      if (team < teams && c < columns_ && (c >= j || makes_t_)) {
        E sum = from_real<E>(0);
#pragma unroll 8
        for (int chunk = team; chunk < panel_.chunks; chunk += teams) {
          sum = sum_of(sum, load_fresh(sums + chunk * columns_ + c));
        }
        shared_.partial[thread] = sum;
      }
      __syncthreads();
      if (team == 0 && c < columns_ && (c >= j || makes_t_)) {
        E sum = shared_.partial[thread];
        for (int other = 1; other < teams; ++other) {
          sum = sum_of(sum, shared_.partial[other * at_once + thread]);
        }
        shared_.sums[c] = sum;
        shared_.pivot[c] = load_fresh(panel_.exchange.pivot_row + (j % 2) * columns_ + c);
      }
      __syncthreads();
    }
  }

  __device__ void make_factors(int j, const Reflector<E>& h) {
    for (int c = j + 1 + static_cast<int>(threadIdx.x); c < columns_; c += threads) {
      const E product = add_product(shared_.pivot[c], conjugate(h.scale), shared_.sums[c]);
      shared_.factors[c] = product_of(conjugate(h.tau), product);
    }
    __syncthreads();
  }

  __device__ void apply(int j, const Reflector<E>& h) {
    for (int first = j + 1 + warp_; first < columns_; first += together * warps) {
      E factors[together];
#pragma unroll
      for (int k = 0; k < together; ++k) {
        const int c = first + k * warps;
        factors[k] = c < columns_ ? product_of(h.scale, shared_.factors[c]) : from_real<E>(0);
      }
      for (int i = below(j) + lane_; i < rows_; i += lanes) {
        const E left = own(i, j);
#pragma unroll
        for (int k = 0; k < together; ++k) {
          const int c = first + k * warps;
          if (c < columns_) {
            own(i, c) = subtract_product(own(i, c), left, factors[k]);
          }
        }
      }
    }
    __syncthreads();
    for (int i = below(j) + static_cast<int>(threadIdx.x); i < rows_; i += threads) {
      own(i, j) = product_of(own(i, j), h.scale);
    }
    __syncthreads();
  }

  __device__ void store_r(int j, const Reflector<E>& h) {
    for (int c = static_cast<int>(threadIdx.x); c < columns_; c += threads) {
      E entry = from_real<E>(0);
      if (c == j) {
        entry = from_real<E>(h.beta);
      } else if (c > j) {
        entry = subtract_product(shared_.pivot[c], from_real<E>(1), shared_.factors[c]);
      }
      panel_.r(j, c) = scaled(entry, shared_.scales[c]);
    }
  }

  __device__ void extend_t(int j, const Reflector<E>& h) {
    // v_c^H v_j, in place of the sums
    for (int c = static_cast<int>(threadIdx.x); c < j; c += threads) {
      shared_.sums[c] =
          add_product(conjugate(shared_.pivot[c]), h.scale, conjugate(shared_.sums[c]));
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < panel_.t.rows; i += threads) {
      E entry = from_real<E>(0);
      for (int l = i; l < j; ++l) {
        entry = subtract_product(entry, panel_.t(i, l), shared_.sums[l]);
      }
      panel_.t(i, j) = i == j ? h.tau : product_of(h.tau, entry);
    }
    __syncthreads();
  }

  __device__ void store_v(int reflectors) {
    for (int c = warp_; c < reflectors; c += warps) {
      for (int i = lane_; i < rows_; i += lanes) {
        const std::int64_t row = first_row_ + i;
        panel_.a(row, c) = row < c ? from_real<E>(0) : row == c ? from_real<E>(1) : own(i, c);
      }
    }
  }

  const Panel<E>& panel_;
  int columns_;
  Columns<E> shared_;
  bool makes_t_;
  int first_chunk_;
  int own_chunks_;
  std::int64_t first_row_;
  int rows_;
  bool in_shared_;
  E* own_;  // rows
  std::int64_t stride_;
  int warp_;
  int lane_;
  std::uint32_t meetings_ = 0;
};

/// Two kernels, as a compiler that knows that rows are in shared memory reads them faster.
template <class E, bool in_shared>
__global__ void __launch_bounds__(threads, 1) factor_panel(const __grid_constant__ Panel<E> panel) {
  PanelBlock<E>(panel, &dynamic_shared<E>(), in_shared).run();
}

__global__ void nobody_has_come(std::uint32_t* arrivals) { *arrivals = 0; }

}  // namespace

template <class E>
std::size_t BandDeviceKernels<E>::panel_scratch(std::int64_t columns) {
  return Exchange<E>::bytes(columns);
}

template <class E>
void BandDeviceKernels<E>::panel_qr(cudaStream_t stream, Out a, Out r, Out t, void* scratch) {
  Panel<E> panel{device(a), device(r), device(t), Exchange<E>::in(scratch, a.columns()),
                 chunk_rows(a.rows())};
  panel.chunks = static_cast<int>(divide_up(a.rows(), panel.chunk_rows));
  panel.chunks_a_block =
      static_cast<int>(divide_up(panel.chunks, std::max<std::int64_t>(max_together() - 1, 1)));
  panel.blocks = static_cast<int>(divide_up(panel.chunks, panel.chunks_a_block));
  const std::int64_t rows = std::min(panel.chunks_a_block * panel.chunk_rows, a.rows());
  const std::size_t bytes = Columns<E>::bytes(a.columns());
  const std::size_t with_rows = bytes + sizeof(E) * static_cast<std::size_t>(rows * a.columns());
  const bool in_shared = with_rows <= max_shared();
  const auto kernel = in_shared ? &factor_panel<E, true> : &factor_panel<E, false>;
  launch(stream, &nobody_has_come, 1, {dim3(1)}, panel.exchange.arrivals);
  allow_shared(kernel, max_shared());
  launch_together(stream, kernel, panel.blocks + 1, {dim3(threads), in_shared ? with_rows : bytes},
                  panel);
}

template std::size_t BandDeviceKernels<float>::panel_scratch(std::int64_t);
template std::size_t BandDeviceKernels<double>::panel_scratch(std::int64_t);
template std::size_t BandDeviceKernels<Complex<float>>::panel_scratch(std::int64_t);
template std::size_t BandDeviceKernels<Complex<double>>::panel_scratch(std::int64_t);

template void BandDeviceKernels<float>::panel_qr(cudaStream_t, Out, Out, Out, void*);
template void BandDeviceKernels<double>::panel_qr(cudaStream_t, Out, Out, Out, void*);
template void BandDeviceKernels<Complex<float>>::panel_qr(cudaStream_t, Out, Out, Out, void*);
template void BandDeviceKernels<Complex<double>>::panel_qr(cudaStream_t, Out, Out, Out, void*);

}  // namespace shardsolve::runtime::cuda
