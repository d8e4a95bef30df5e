// A solve as one kernel a GPU, without a wait between steps but those for numbers. L is cut into
// blocks of 64 rows and columns in elimination order. Going forward, the thread block that has row
// block i takes the products with this rank's columns before it, each as soon as its part of y is
// there; the owner of the rows adds up what all ranks have, solves with the diagonal block, and
// makes its part of y known. Going backward, the thread block that has column block i does the same
// with the rows after it, and makes its part of x known to all ranks. While it waits for a number,
// the block of L that goes with it is on its way.
//
// A number is there when it is not `unwritten`: no flags, no fences. (Liu, Li, Hogg, Duff and
// Vinter, Fast synchronization-free algorithms for parallel sparse triangular solves, 2017, wait
// for counters instead.) Nobody waits for a block with a higher number, and every thread block
// goes through its blocks in order; so the lowest unfinished one always goes on, if all thread
// blocks of all ranks are on their GPUs at the same time. There are no more than fit, and the mesh
// lets no other mesh's solve come between.
#include "runtime/cuda/device_kernels.hpp"
#include "runtime/cuda/kernels/awaited_numbers.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int rows = 64;  // of a block
constexpr int lanes = 32;
constexpr int warps = 8;
constexpr int columns = rows / warps;  // of a block, for each warp
constexpr int halves = rows / lanes;   // rows of a lane: `lane` and `lane` + 32
constexpr int padded = rows + 1;       // so that rows of a tile are in different banks too
constexpr unsigned all_lanes = 0xffffffff;

static_assert(rows == DeviceKernels<double>::solve_block);

/// How the memory of a rank is divided: see PersistentSolve.
template <class E>
struct Job : PersistentSolve<E> {
  const volatile std::uint32_t* failed;
  // of the slab, as kernels call no functions of the host's
  const E* l;
  std::int64_t n;
  std::int64_t stride;

  __device__ E* x(int of) const { return this->memory[of]; }
  __device__ E* sums(int of, int from) const { return this->memory[of] + n + from * this->width; }
  __device__ E* y() const { return sums(this->rank, this->ranks); }
};

constexpr int threads = warps * lanes;
constexpr int quarters = threads / rows;  // of a row of a product with a tile, one a thread
constexpr int quarter_size = rows / quarters;

/// Whether a thread keeps its part of the tiles in registers, out of the way of the sums.
template <class E>
constexpr bool tiles_in_registers = sizeof(E) <= 8;

template <class E>
struct Shared {
  E tile[rows * padded];     // the diagonal block l, column by column, zero above its diagonal
  E inverse[rows * padded];  // l^-1, likewise
  E parts[warps][rows];      // what each warp has summed up
  alignas(16) E v[rows];
  alignas(16) E w[rows];
};

template <class E>
__device__ E from_lane(E value, int lane) {
  if constexpr (parts<E> == 2) {
    return {__shfl_sync(all_lanes, value.re, lane), __shfl_sync(all_lanes, value.im, lane)};
  } else {
    return __shfl_sync(all_lanes, value, lane);
  }
}

/// The sum over all lanes, on all lanes.
template <class R>
__device__ R over_lanes(R value) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(all_lanes, value, distance);
  }
  return value;
}
template <class R>
__device__ Complex<R> over_lanes(Complex<R> value) {
  return {over_lanes(value.re), over_lanes(value.im)};
}

template <class E>
__device__ E difference(E x, E y) {
  return add_product(x, from_real<E>(-1), y);
}

/// A warp's columns of a block of L, and the numbers that go with them as far as they are there.
template <class E, int numbers>
struct Arriving {
  E l[columns][halves];
  const E* place[numbers];
  Pieces<E> seen[numbers];
};

template <class E>
class Solver {
 public:
  __device__ Solver(const Job<E>& job, Shared<E>& shared)
      : job_(job),
        shared_(shared),
        wait_(job.failed),
        lane_(static_cast<int>(threadIdx.x) % lanes),
        warp_(static_cast<int>(threadIdx.x) / lanes),
        row_(static_cast<int>(threadIdx.x) % rows),
        quarter_(static_cast<int>(threadIdx.x) / rows) {}

  __device__ void forward() {
    for (int i = static_cast<int>(blockIdx.x); i < job_.count; i += static_cast<int>(gridDim.x)) {
      const SolveBlock me = job_.blocks[i];
      const bool mine = me.owner == job_.rank;
      if (!mine && me.before == 0) {
        continue;
      }
      E given = from_real<E>(0);
      Tile tile;
      if (mine) {
        prepare_tile(me);
        early_tile<false>(tile);
        given = solves_row(me) ? job_.b[me.column + row_] : given;
      }
      sum_rows(me);
      __syncthreads();
      mine ? solve_rows(me, tile, given) : send_sums(me);
      __syncthreads();
    }
  }

  __device__ void backward() {
    for (int i = job_.own_count - 1 - static_cast<int>(blockIdx.x); i >= 0;
         i -= static_cast<int>(gridDim.x)) {
      const SolveBlock me = job_.own[i];
      prepare_tile(me);
      Tile tile;
      early_tile<true>(tile);
      Pieces<E> y;
      if (solves_row(me)) {
        y = look(job_.y() + me.column + row_);
      }
      sum_columns(me);
      __syncthreads();
      solve_columns(me, tile, y);
      __syncthreads();
    }
  }

 private:
  /// This thread's quarter of a row of the diagonal block and of its inverse, or of their conjugate
  /// transposes.
  struct Tile {
    E l[quarter_size];
    E inverse[quarter_size];
  };

  /// A warp's columns of the block of L in the rows of one block and the columns of another.
  __device__ void load(E (&l)[columns][halves], const SolveBlock& in_rows,
                       const SolveBlock& in_columns) const {
    const E* corner = job_.l + in_rows.row + lane_ + in_columns.column * job_.stride;
#pragma unroll
    for (int j = 0; j < columns; ++j) {
      const int column = warp_ * columns + j;
#pragma unroll
      for (int half = 0; half < halves; ++half) {
        const bool inside = lane_ + half * lanes < in_rows.size && column < in_columns.size;
        l[j][half] = inside ? corner[half * lanes + column * job_.stride] : from_real<E>(0);
      }
    }
  }

  /// Whether this thread is the one that finds one of the block's numbers.
  __device__ bool solves_row(const SolveBlock& me) const { return quarter_ == 0 && row_ < me.size; }

  /// The diagonal block of L and its inverse, padded by the identity; while the numbers for the
  /// products are on their way.
  __device__ void prepare_tile(const SolveBlock& me) {
    for (int column = warp_; column < rows; column += warps) {
      for (int row = lane_; row < rows; row += lanes) {
        const bool inside = row < me.size && column <= row;
        shared_.tile[column * padded + row] =
            inside ? job_.l[me.row + row + (me.column + column) * job_.stride]
                   : from_real<E>(row == column ? 1 : 0);
      }
    }
    __syncthreads();
    if (quarter_ == 0) {  // a column of the inverse each, by substitution
      E* x = shared_.inverse + row_ * padded;
      for (int i = 0; i < rows; ++i) {
        E sum[4] = {from_real<E>(i == row_ ? -1 : 0), from_real<E>(0), from_real<E>(0),
                    from_real<E>(0)};
        for (int k = 0; k < i; k += 4) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            if (k + j < i) {
              sum[j] = add_product(sum[j], shared_.tile[(k + j) * padded + i], x[k + j]);
            }
          }
        }
        const E total = total_of(sum[0], sum[1], sum[2], sum[3]);
        x[i] = scaled(total, RealPart<E>(-1) / real(shared_.tile[i * padded + i]));
      }
    }
  }

  template <bool conjugate_transpose>
  __device__ void load_tile(Tile& tile) const {
#pragma unroll
    for (int j = 0; j < quarter_size; ++j) {
      const int k = quarter_ * quarter_size + j;
      const int place = conjugate_transpose ? row_ * padded + k : k * padded + row_;
      tile.l[j] = shared_.tile[place];
      tile.inverse[j] = shared_.inverse[place];
      if constexpr (conjugate_transpose) {
        tile.l[j] = conjugate(tile.l[j]);
        tile.inverse[j] = conjugate(tile.inverse[j]);
      }
    }
  }
  /// If it is to be in registers while the sums are made.
  template <bool conjugate_transpose>
  __device__ void early_tile(Tile& tile) const {
    if constexpr (tiles_in_registers<E>) {
      __syncthreads();
      load_tile<conjugate_transpose>(tile);
    }
  }

  /// Products of the rows of `me` with this rank's part of y before them.
  __device__ void sum_rows(const SolveBlock& me) {
    E sum[halves] = {from_real<E>(0), from_real<E>(0)};
    const auto fetch = [&](int k, Arriving<E, 1>& next) {
      const SolveBlock from = job_.own[k];
      load(next.l, me, from);
      const int column = warp_ * columns + lane_;
      next.place[0] = job_.y() + from.column + column;
      next.seen[0].value = from_real<E>(0);
      if (lane_ < columns && column < from.size) {
        next.seen[0] = look(next.place[0]);
      }
    };
    const auto use = [&](const Arriving<E, 1>& here) {
      const E y = wait_.await(here.place[0], here.seen[0]);
#pragma unroll
      for (int j = 0; j < columns; ++j) {
        const E yj = from_lane(y, j);
#pragma unroll
        for (int half = 0; half < halves; ++half) {
          sum[half] = add_product(sum[half], here.l[j][half], yj);
        }
      }
    };
    stream<Arriving<E, 1>>(0, me.before, 1, fetch, use);
    for (int half = 0; half < halves; ++half) {
      shared_.parts[warp_][lane_ + half * lanes] = sum[half];
    }
  }

  /// Products of the columns of `me`, conjugated, with x after them.
  __device__ void sum_columns(const SolveBlock& me) {
    E sum[columns];
    for (E& value : sum) {
      value = from_real<E>(0);
    }
    const auto fetch = [&](int k, Arriving<E, halves>& next) {
      const SolveBlock from = job_.blocks[k];
      load(next.l, from, me);
#pragma unroll
      for (int half = 0; half < halves; ++half) {
        const int row = lane_ + half * lanes;
        next.place[half] = job_.x(job_.rank) + from.row + row;
        next.seen[half].value = from_real<E>(0);
        if (row < from.size) {
          next.seen[half] = look(next.place[half]);
        }
      }
    };
    const auto use = [&](const Arriving<E, halves>& here) {
#pragma unroll
      for (int half = 0; half < halves; ++half) {
        const E x = wait_.await(here.place[half], here.seen[half]);
#pragma unroll
        for (int j = 0; j < columns; ++j) {
          sum[j] = add_product(sum[j], conjugate(here.l[j][half]), x);
        }
      }
    };
    stream<Arriving<E, halves>>(job_.count - 1, job_.count - 1 - me.number, -1, fetch, use);
#pragma unroll
    for (int j = 0; j < columns; ++j) {
      const E total = over_lanes(sum[j]);
      if (lane_ == 0) {
        shared_.parts[0][warp_ * columns + j] = total;
      }
    }
  }

  /// fetch(k), then use of what came, for `count` values of k; one is on its way while another is
  /// used.
  template <class Next, class Fetch, class Use>
  __device__ void stream(int k, int count, int step, Fetch fetch, Use use) {
    Next even;
    Next odd;
    if (count > 0) {
      fetch(k, even);
    }
    for (int done = 0; done < count; done += 2) {
      if (done + 1 < count) {
        fetch(k + (done + 1) * step, odd);
      }
      use(even);
      if (done + 2 < count) {
        fetch(k + (done + 2) * step, even);
      }
      if (done + 1 < count) {
        use(odd);
      }
    }
  }

  /// What all warps have summed up for this thread's row.
  __device__ E sum_of_warps() const {
    E sum = shared_.parts[0][row_];
    for (int warp = 1; warp < warps; ++warp) {
      sum = total_of(sum, shared_.parts[warp][row_]);
    }
    return sum;
  }

  __device__ void send_sums(const SolveBlock& me) {
    if (solves_row(me)) {
      publish(job_.sums(me.owner, job_.rank) + me.column + row_, sum_of_warps());
    }
  }

  /// y = l^-1 (b - what all ranks have summed up, in their order).
  __device__ void solve_rows(const SolveBlock& me, Tile& tile, E given) {
    E v = given;
    if (solves_row(me)) {
      for (int from = 0; from < job_.ranks; ++from) {
        if (job_.first[from] < me.number) {
          const E* place = job_.sums(job_.rank, from) + me.column + row_;
          v = difference(v, from == job_.rank ? sum_of_warps() : wait_.await(place, look(place)));
        }
      }
    }
    const E y = solve_tile<false>(tile, v);
    if (solves_row(me)) {
      publish(job_.y() + me.column + row_, y);
    }
  }

  /// x = l^-H (y - the sums), to all ranks.
  __device__ void solve_columns(const SolveBlock& me, Tile& tile, Pieces<E> seen) {
    E v = from_real<E>(0);
    if (solves_row(me)) {
      v = difference(wait_.await(job_.y() + me.column + row_, seen), shared_.parts[0][row_]);
    }
    const E x = solve_tile<true>(tile, v);
    if (solves_row(me)) {
      for (int to = 0; to < job_.ranks; ++to) {
        publish(job_.x(to) + me.row + row_, x);
      }
      job_.b[me.column + row_] = x;
    }
  }

  /// l^-1 v, or l^-H v, for the v of the first quarter's threads, there. The product with the
  /// inverse alone would not be backward stable: see DeviceKernels::panel.
  template <bool conjugate_transpose>
  __device__ E solve_tile(Tile& tile, E v) {
    if (quarter_ == 0) {
      shared_.v[row_] = v;
    }
    if constexpr (!tiles_in_registers<E>) {
      load_tile<conjugate_transpose>(tile);
    }
    __syncthreads();
    const E first = product(tile.inverse, shared_.v);
    if (quarter_ == 0) {
      shared_.w[row_] = first;
    }
    __syncthreads();
    const E back = product(tile.l, shared_.w);
    if (quarter_ == 0) {
      shared_.v[row_] = difference(v, back);
    }
    __syncthreads();
    return total_of(first, product(tile.inverse, shared_.v));
  }

  /// A row of a product, on the first quarter's threads.
  __device__ E product(const E (&row)[quarter_size], const E* x) {
    E sum[2] = {from_real<E>(0), from_real<E>(0)};
#pragma unroll
    for (int j = 0; j < quarter_size; ++j) {
      sum[j % 2] = add_product(sum[j % 2], row[j], x[quarter_ * quarter_size + j]);
    }
    shared_.parts[quarter_][row_] = total_of(sum[0], sum[1]);
    __syncthreads();
    E total = shared_.parts[0][row_];
    for (int quarter = 1; quarter < quarters; ++quarter) {
      total = total_of(total, shared_.parts[quarter][row_]);
    }
    return total;
  }

  template <class... Others>
  __device__ static E total_of(E sum, Others... others) {
    ((sum = add_product(sum, from_real<E>(1), others)), ...);
    return sum;
  }

  const Job<E>& job_;
  Shared<E>& shared_;
  Waiter wait_;
  int lane_;
  int warp_;
  // In the work on a diagonal block
  int row_;
  int quarter_;
};

template <class E>
__global__ void __launch_bounds__(threads, 1) solve_kernel(const __grid_constant__ Job<E> job) {
  Solver<E> solver(job, dynamic_shared<Shared<E>>());
  solver.forward();
  solver.backward();
}

/// Thread blocks of the kernel that are on the current GPU at the same time.
template <class E>
int resident_blocks() {
  int device = 0;
  int multiprocessors = 0;
  int blocks = 0;
  cudaGetDevice(&device);
  allow_shared(&solve_kernel<E>, sizeof(Shared<E>));
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, solve_kernel<E>, threads,
                                                sizeof(Shared<E>));
  cudaGetLastError();                            // too little shared memory is no error here
  return multiprocessors * std::min(blocks, 1);  // more would gain nothing
}

}  // namespace

template <class E>
bool DeviceKernels<E>::has_persistent_solve() {
  return resident_blocks<E>() > 0;
}

template <class E>
void DeviceKernels<E>::persistent_solve(cudaStream_t stream, const PersistentSolve<E>& solve,
                                        const volatile std::uint32_t* failed) {
  const Job<E> job{solve, failed, solve.slab.data(), solve.slab.rows(), solve.slab.stride()};
  launch(stream, &solve_kernel<E>, std::min(resident_blocks<E>(), solve.count),
         {dim3(threads), sizeof(Shared<E>)}, job);
}

#define SHARDSOLVE_INSTANTIATE(E)                                                           \
  template bool DeviceKernels<E>::has_persistent_solve();                                   \
  template void DeviceKernels<E>::persistent_solve(cudaStream_t, const PersistentSolve<E>&, \
                                                   const volatile std::uint32_t*);

SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda
