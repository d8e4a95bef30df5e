// P a = L U of a panel of some columns, as narrow_panel.cu has it, by the blocks of one cluster:
// what they tell each other they send to each other's shared memory. That is there sooner, and 16
// blocks leave more multiprocessors to updates, but they have registers for 4096 rows at most.
//
// Groups of warps have rows of their own, so that a thread has few rows and many columns: each of
// its rows is a part of the chain from a column to the next. For the same reason the column after j
// comes before the others, and its largest entry is on its way while they are worked on.
#include "runtime/cuda/kernels/cluster.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/lu/narrow_panel.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime::cuda::narrow {
namespace {

/// As many multiprocessors as a GPC of an H100 has.
constexpr int max_blocks = 16;

template <class E>
struct ClusterPanel : Panel<E> {
  int blocks;
};

/// For even columns and for odd ones. Nobody sends of column j + 2 before this block has offered
/// for it, and when it does its warps are done with column j.
template <class E, class S>
struct Shared {
  Mailbox offers;
  Mailbox rows;
  Offer offer[2][max_blocks * S::groups];
  alignas(16) E row[2][S::width];  ///< of U; a warp's columns lie together
  E own_row[S::width];             ///< likewise, on its way to the others
  E column[2][S::height];          ///< of a, what L is made of
};

template <class E, class S>
class ClusterBlock {
 public:
  __device__ ClusterBlock(const ClusterPanel<E>& panel, Shared<E, S>& shared)
      : panel_(panel),
        shared_(shared),
        columns_(static_cast<int>(panel.a.columns)),
        block_(Cluster::rank()) {}

  __device__ void run() {
    if (threadIdx.x == 0) {
      shared_.offers.begin(S::groups);
      shared_.rows.begin(1);
    }
    own_.load(panel_.a, std::int64_t{block_} * S::height, place_);
    Cluster::sync();
    if (place_.column == 0) {
      offer_best(0, 0);
    }
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
    if (block_ == 0 && threadIdx.x == 0) {
      report_.finish(panel_);
    }
  }

 private:
  __device__ int slot(int c) const { return place_.column * S::columns + c; }
  static __device__ int slot_of(int column) {
    return column % S::across * S::columns + column / S::across;
  }

  /// The k-th column of the warps that `owner` says.
  __device__ void eliminate_column(int k, int owner) {
    const int j = k * S::across + owner;
    const Candidate chosen = choose(j);
    shared_.rows.wait(j % 2 != 0);
    const E pivot = shared_.row[j % 2][slot_of(j)];
    const int pivot_place = static_cast<int>(chosen.place);
    own_.swap(j, pivot_place);
    const bool divides = real(pivot) != 0 || imaginary(pivot) != 0;
    const Divisor<E> divisor(divides ? pivot : from_real<E>(1));
    E l[S::rows];
#pragma unroll
    for (int r = 0; r < S::rows; ++r) {
      l[r] = divisor.divides(shared_.column[j % 2][place_.row_of(r)]);
    }
    const bool next_is_k = owner + 1 < S::across;
    const bool has_next = place_.column == (next_is_k ? owner + 1 : 0);
    if (j + 1 < columns_ && has_next) {
      if (next_is_k) {
        update(j, k, l);
        offer_best(j + 1, k);
      } else if (k + 1 < S::columns) {
        update(j, k + 1, l);
        offer_best(j + 1, k + 1);
      }
    }
#pragma unroll
    for (int c = k; c < S::columns; ++c) {
      if (c > k + 1 || (c == k + 1 && (next_is_k || !has_next)) ||
          (c == k && place_.column > owner + 1)) {
        update(j, c, l);
      }
    }
    if (place_.column == owner) {
#pragma unroll
      for (int r = 0; r < S::rows; ++r) {
        own_.entry[r][k] = own_.place[r] > j ? l[r] : own_.entry[r][k];
      }
    }
    if (block_ == 0 && threadIdx.x == 0) {
      report_.add(panel_, j, pivot_place, pivot);
    }
    __syncthreads();
  }

  /// By the warps that have the column, the k-th of theirs: to all blocks.
  __device__ void offer_best(int j, int k) {
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
    __syncwarp();  // all of the column is written when lane 0 says so
    if (place_.lane == 0) {
      shared_.offers.arrive_and_expect(panel_.blocks * static_cast<int>(sizeof(Offer)));
    }
    if (place_.lane < panel_.blocks) {
      shared_.offers.send(Offer{best.size, best.place},
                          &shared_.offer[j % 2][block_ * S::groups + place_.group], place_.lane);
    }
  }

  /// The best row of all groups of all blocks. It is on its way to all blocks then.
  __device__ Candidate choose(int j) {
    shared_.offers.wait(j % 2 != 0);
    Candidate best = no_row();
    int from = 0;
    for (int i = place_.lane; i < panel_.blocks * S::groups; i += lanes) {
      const Offer offer = shared_.offer[j % 2][i];
      const Candidate other{offer.size, static_cast<std::uint32_t>(offer.place)};
      if (is_better(other, best)) {
        best = other;
        from = i;
      }
    }
    const Candidate chosen = best_of_warp(best);
    const unsigned has_it = __ballot_sync(0xffffffffU, best.place == chosen.place);
    from = from_lane(from, __ffs(static_cast<int>(has_it)) - 1);
    if (from == block_ * S::groups + place_.group) {
      send_row(j, chosen);
    }
    if (threadIdx.x == 0) {
      shared_.rows.arrive_and_expect(S::width * static_cast<int>(sizeof(E)));
    }
    return chosen;
  }

  /// By each warp of the group that has the row, what it has of it. Lanes that send to one block
  /// send what lies together.
  __device__ void send_row(int j, const Candidate& chosen) {
    own_.for_row(chosen.place, [&](int c, E entry) { shared_.own_row[slot(c)] = entry; });
    __syncwarp();
    constexpr int at_once = lanes / S::columns;
    static_assert(at_once * S::columns == lanes);
    const int at = slot(place_.lane % S::columns);
    const E entry = shared_.own_row[at];
    for (int to = place_.lane / S::columns; to < panel_.blocks; to += at_once) {
      shared_.rows.send(entry, &shared_.row[j % 2][at], to);
    }
  }

  __device__ void update(int j, int c, const E (&l)[S::rows]) {
    const E u = shared_.row[j % 2][slot(c)];
#pragma unroll
    for (int r = 0; r < S::rows; ++r) {
      if (own_.place[r] > j) {
        own_.entry[r][c] = subtract_product(own_.entry[r][c], l[r], u);
      }
    }
  }

  const ClusterPanel<E>& panel_;
  Shared<E, S>& shared_;
  int columns_;
  int block_;
  Place<S> place_;
  Entries<E, S> own_;
  Report<E> report_;
};

template <class E, class S>
__global__ void __launch_bounds__(threads, 1)
    factor_columns(const __grid_constant__ ClusterPanel<E> panel) {
#if __CUDA_ARCH__ >= 900
  ClusterBlock<E, S>(panel, dynamic_shared<Shared<E, S>>()).run();
#endif
}

/// Blocks for so many rows: a power of two.
template <class S>
int blocks_for(std::int64_t rows) {
  int blocks = 2;
  while (std::int64_t{blocks} * S::height < rows) {
    blocks *= 2;
  }
  return blocks;
}

template <class... S>
struct ShapeList {
  /// Calls work(Shape) with each in turn until it returns true; whether it has.
  template <class Work>
  static bool find(const Work& work) {
    return (work(S{}) || ...);
  }
};
/// Those of few rows first.
template <class E>
using Shapes = std::conditional_t<sizeof(E) == 16, ShapeList<Shape<1, 16, 4>>,
                                  ShapeList<Shape<1, 16, 2>, Shape<1, 32, 4>, Shape<2, 16, 4>>>;

/// Calls work(Shape, blocks) with what takes so many rows and columns, if the current device runs
/// it; whether it has. One block has nobody to tell.
template <class E, class Work>
bool with_cluster(std::int64_t rows, std::int64_t columns, const Work& work) {
  return rows > lanes && Shapes<E>::find([&](auto shape) {
           using S = decltype(shape);
           const int blocks = blocks_for<S>(rows);
           const bool fits =
               blocks <= max_blocks && columns <= S::width &&
               fits_cluster(&factor_columns<E, S>, blocks, {dim3(threads), sizeof(Shared<E, S>)});
           if (fits) {
             work(shape, blocks);
           }
           return fits;
         });
}

}  // namespace

template <class E>
std::int64_t cluster_columns(std::int64_t rows) {
  std::int64_t columns = 0;
  with_cluster<E>(rows, 1, [&](auto shape, int /*blocks*/) { columns = decltype(shape)::width; });
  return columns;
}

template <class E>
bool factor_in_cluster(cudaStream_t stream, const Panel<E>& panel) {
  // A panel of a little more rows than clusters take has parts that they take by fewer columns.
  return with_cluster<E>(panel.a.rows, panel.a.columns, [&](auto shape, int blocks) {
    using S = decltype(shape);
    launch_clusters(stream, &factor_columns<E, S>, 1, blocks, {dim3(threads), sizeof(Shared<E, S>)},
                    ClusterPanel<E>{panel, blocks});
  });
}

#define SHARDSOLVE_INSTANTIATE(E)                         \
  template std::int64_t cluster_columns<E>(std::int64_t); \
  template bool factor_in_cluster(cudaStream_t, const Panel<E>&);

SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda::narrow
