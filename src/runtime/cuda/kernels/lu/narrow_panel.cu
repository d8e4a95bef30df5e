// P a = L U of a panel of some columns, in one kernel. The warps of a block share its rows, or some
// of them: column c is with warp c mod 16, a thread has entries of its warp's columns in registers.
// For each column j:
//
//   the largest entry of column j, and the row that it stands in    one warp of each block
//   that row to all blocks                                          all its warps
//   of what all blocks have told the same row of U                  one warp of each block
//   l = a_j / u_jj,   a_c -= l u_jc                                 every warp, its own columns
//
// Blocks tell each other numbers that say by themselves whether they are there; so nobody waits for
// anything but these. A swap changes where rows are to stand; they are stored there in the end.
#include "runtime/cuda/kernels/awaited_numbers.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/lu/narrow_panel.cuh"
#include "runtime/cuda/kernels/meeting.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/lu_device_kernels.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

using namespace narrow;

/// Entries that a thread has in registers.
template <class E>
constexpr int entries_a_thread = sizeof(E) == 16 ? 16 : 32;
constexpr int max_columns_a_thread = 8;
constexpr int max_groups = 8;

/// They tell each other their rows sooner than more would, and leave multiprocessors to updates.
constexpr std::int64_t preferred_blocks = 64;

/// What blocks tell each other, each column anew.
template <class E>
struct Exchange {
  Offer* offers;  ///< [columns][blocks]
  E* rows;        ///< [columns][blocks][columns]

  static std::size_t bytes(std::size_t columns, std::size_t blocks) {
    return columns * blocks * (sizeof(Offer) + columns * sizeof(E));
  }
  static Exchange in(void* scratch, std::size_t columns, std::size_t blocks) {
    auto* const offers = static_cast<Offer*>(scratch);
    return {offers, reinterpret_cast<E*>(offers + columns * blocks)};
  }
};

template <class E>
struct NarrowPanel : Panel<E> {
  Exchange<E> exchange;
  int blocks;
};

/// For even columns and for odd ones: a warp may still read of one column when another one writes
/// of the next.
template <class E, class S>
struct Shared {
  Candidate best[2][max_groups];
  Candidate chosen[2];
  E row[2][S::width];      ///< of U
  E column[2][S::height];  ///< of a, what L is made of
};

template <class E, class S>
class NarrowPanelBlock {
 public:
  __device__ NarrowPanelBlock(const NarrowPanel<E>& panel, Shared<E, S>& shared)
      : panel_(panel), shared_(shared), columns_(static_cast<int>(panel.a.columns)) {}

  __device__ void run() {
    own_.load(panel_.a, std::int64_t{blockIdx.x} * S::height, place_);
#pragma unroll
    for (int k = 0; k < S::columns; ++k) {
#pragma unroll 1
      for (int owner = 0; owner < S::across; ++owner) {
        if (k * S::across + owner < columns_) {
          eliminate_column(k, owner);
        }
      }
    }
    own_.store(panel_.a, place_);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      report_.finish(panel_);
    }
  }

 private:
  /// The k-th column of the warps that `owner` says.
  __device__ void eliminate_column(int k, int owner) {
    const int j = k * S::across + owner;
    if (place_.column == owner) {
      find_best(j, k);
    }
    __syncthreads();
    const Candidate own = best_of_block(j);
    if (panel_.blocks == 1) {
      take_own_row(j, k, own);
    } else {
      offer(j, k, own);
      if (place_.warp == 0) {
        take_row(j);
      }
    }
    __syncthreads();
    swap(j);
    eliminate(j, k, owner);
  }

  __device__ void find_best(int j, int k) {
    Candidate best = no_row();
#pragma unroll
    for (int r = 0; r < S::rows; ++r) {
      if (own_.place[r] >= j) {
        const Candidate own = candidate(own_.entry[r][k], own_.place[r]);
        best = is_better(own, best) ? own : best;
      }
      shared_.column[j % 2][place_.row_of(r)] = own_.entry[r][k];
    }
    best = best_of_warp(best);
    if (place_.lane == 0) {
      shared_.best[j % 2][place_.group] = best;
      if (S::groups == 1 && panel_.blocks > 1) {
        tell_best(j, best);
      }
    }
  }

  __device__ void tell_best(int j, const Candidate& best) {
    Offer* const offer = panel_.exchange.offers + std::int64_t{j} * panel_.blocks + blockIdx.x;
    tell(&offer->size, best.size);
    tell(&offer->place, std::uint64_t{best.place});
  }

  __device__ Candidate best_of_block(int j) const {
    if constexpr (S::groups == 1) {
      return shared_.best[j % 2][0];
    }
    return best_of_warp(place_.lane < S::groups ? shared_.best[j % 2][place_.lane] : no_row());
  }

  /// work(column, entry) for those of the row that stands at a place that are not eliminated yet,
  /// by the threads that have them.
  template <class Work>
  __device__ void for_row(int j, int k, std::uint32_t place, const Work& work) const {
    own_.for_row(place, [&](int c, E entry) {
      const int column = place_.column_of(c);
      if (c >= k && column >= j && column < columns_) {
        work(column, entry);
      }
    });
  }

  /// Of the only block.
  __device__ void take_own_row(int j, int k, const Candidate& own) {
    for_row(j, k, own.place, [&](int column, E entry) { shared_.row[j % 2][column] = entry; });
    if (threadIdx.x == 0) {
      shared_.chosen[j % 2] = own;
    }
  }

  /// The best row of this block goes to all.
  __device__ void offer(int j, int k, const Candidate& own) {
    const std::int64_t slot = std::int64_t{j} * panel_.blocks + blockIdx.x;
    if (S::groups > 1 && threadIdx.x == 0) {
      tell_best(j, own);
    }
    E* const row = panel_.exchange.rows + slot * columns_;
    for_row(j, k, own.place, [&](int column, E entry) { publish(row + column, entry); });
  }

  /// By one warp: the best row of all blocks is the row j of U.
  __device__ void take_row(int j) {
    const std::int64_t slots = std::int64_t{j} * panel_.blocks;
    Candidate best = no_row();
    int block = 0;
    for (int from = 0; from < panel_.blocks; from += lanes) {
      const int b = min(from + place_.lane, panel_.blocks - 1);
      const Offer* const offer = panel_.exchange.offers + slots + b;
      std::uint64_t words[2];
      hear_each({&offer->size, &offer->place}, words);
      const Candidate other{words[0], static_cast<std::uint32_t>(words[1])};
      if (is_better(other, best)) {
        best = other;
        block = b;
      }
    }
    const Candidate chosen = best_of_warp(best);
    const unsigned has_it = __ballot_sync(0xffffffffU, best.place == chosen.place);
    block = from_lane(block, __ffs(static_cast<int>(has_it)) - 1);
    const E* const row = panel_.exchange.rows + (slots + block) * columns_;
    constexpr int each = (S::width + lanes - 1) / lanes;
    const auto column = [&](int i) { return max(min(i * lanes + place_.lane, columns_ - 1), j); };
    const Piece<E>* places[each * pieces<E>];
    Piece<E> words[each * pieces<E>];
#pragma unroll
    for (int i = 0; i < each * pieces<E>; ++i) {
      places[i] = reinterpret_cast<const Piece<E>*>(row + column(i / pieces<E>)) + i % pieces<E>;
    }
    hear_each(places, words);
#pragma unroll
    for (int i = 0; i < each; ++i) {
      Pieces<E> number;
#pragma unroll
      for (int p = 0; p < pieces<E>; ++p) {
        number.piece[p] = words[i * pieces<E> + p];
      }
      shared_.row[j % 2][column(i)] = number.value;
    }
    if (place_.lane == 0) {
      shared_.chosen[j % 2] = chosen;
    }
  }

  __device__ void swap(int j) {
    const int pivot_place = static_cast<int>(shared_.chosen[j % 2].place);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      report_.add(panel_, j, pivot_place, shared_.row[j % 2][j]);
    }
    own_.swap(j, pivot_place);
  }

  __device__ void eliminate(int j, int k, int owner) {
    E row[S::columns];
#pragma unroll
    for (int c = 0; c < S::columns; ++c) {
      row[c] = shared_.row[j % 2][place_.column_of(c)];
    }
    const E pivot = shared_.row[j % 2][j];
    const bool divides = real(pivot) != 0 || imaginary(pivot) != 0;
    const Divisor<E> divisor(divides ? pivot : from_real<E>(1));
#pragma unroll
    for (int r = 0; r < S::rows; ++r) {
      if (own_.place[r] > j) {
        const E l = divisor.divides(shared_.column[j % 2][place_.row_of(r)]);
#pragma unroll
        for (int c = 0; c < S::columns; ++c) {
          if (c > k || (c == k && place_.column > owner)) {
            own_.entry[r][c] = subtract_product(own_.entry[r][c], l, row[c]);
          }
        }
        if (place_.column == owner) {
          own_.entry[r][k] = l;
        }
      }
    }
  }

  const NarrowPanel<E>& panel_;
  Shared<E, S>& shared_;
  int columns_;
  Place<S> place_;
  Entries<E, S> own_;
  Report<E> report_;
};

template <class E, class S>
__global__ void __launch_bounds__(threads, 1)
    factor_narrow(const __grid_constant__ NarrowPanel<E> panel) {
  NarrowPanelBlock<E, S>(panel, dynamic_shared<Shared<E, S>>()).run();
}

/// Calls work(Shape) with the shapes that there are, those of few rows first, until it returns
/// true; whether it has.
template <class E, int rows = 1, int groups = 1, class Work>
bool find_shape(const Work& work) {
  constexpr int entries = entries_a_thread<E>;
  constexpr int columns =
      entries / rows < max_columns_a_thread ? entries / rows : max_columns_a_thread;
  if (work(Shape<rows, columns, groups>{})) {
    return true;
  }
  if constexpr (rows < entries) {
    return find_shape<E, 2 * rows, 1>(work);
  } else if constexpr (groups < max_groups) {
    return find_shape<E, rows, 2 * groups>(work);
  }
  return false;
}

/// Calls work(Shape) with the shape for panels of so many rows; whether there is one.
template <class E, class Work>
bool with_shape(std::int64_t rows, const Work& work) {
  const std::int64_t all = max_together();
  const auto try_up_to = [&](std::int64_t blocks) {
    return find_shape<E>([&](auto shape) {
      using S = decltype(shape);
      const bool fits = divide_up(rows, S::height) <= blocks;
      if (fits) {
        work(shape);
      }
      return fits;
    });
  };
  return try_up_to(std::min(preferred_blocks, all)) || try_up_to(all);
}

}  // namespace

template <class E>
std::int64_t LuDeviceKernels<E>::narrow_columns(std::int64_t rows) {
  std::int64_t columns = cluster_columns<E>(rows);
  if (columns > 0) {
    return columns;
  }
  with_shape<E>(rows, [&](auto shape) { columns = decltype(shape)::width; });
  return columns;
}

/// Of fewer rows, too, whose shape may have more blocks, or more columns. More blocks than are
/// preferred have few columns.
template <class E>
std::size_t LuDeviceKernels<E>::narrow_panel_scratch(std::int64_t rows) {
  std::size_t bytes = 0;
  find_shape<E>([&](auto shape) {
    using S = decltype(shape);
    const std::int64_t blocks = std::min(divide_up(rows, S::height), preferred_blocks);
    bytes = std::max(bytes, Exchange<E>::bytes(S::width, static_cast<std::size_t>(blocks)));
    return false;
  });
  return bytes;
}

template <class E>
void LuDeviceKernels<E>::narrow_panel(cudaStream_t stream, std::int64_t first, std::int64_t before,
                                      Out a, std::int64_t* places, std::int64_t* info,
                                      void* scratch) {
  const Panel<E> panel{device(a), first, before, places, info};
  if (factor_in_cluster(stream, panel)) {
    return;
  }
  with_shape<E>(a.rows(), [&](auto shape) {
    using S = decltype(shape);
    const std::int64_t blocks = divide_up(a.rows(), S::height);
    const auto columns = static_cast<std::size_t>(a.columns());
    const auto block_count = static_cast<std::size_t>(blocks);
    const NarrowPanel<E> of_blocks{panel, Exchange<E>::in(scratch, columns, block_count),
                                   static_cast<int>(blocks)};
    if (blocks > 1) {
      set_bytes(stream, scratch, 0xff, Exchange<E>::bytes(columns, block_count));
    }
    allow_shared(&factor_narrow<E, S>, sizeof(Shared<E, S>));
    launch_together(stream, &factor_narrow<E, S>, blocks, {dim3(threads), sizeof(Shared<E, S>)},
                    of_blocks);
  });
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
