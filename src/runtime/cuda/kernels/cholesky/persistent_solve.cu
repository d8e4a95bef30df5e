// A solve as one kernel a GPU, without a wait between steps but those for numbers. L is cut into
// blocks of 64 rows and columns in elimination order. Going forward, the thread block that has row
// block i takes the products with this rank's columns before it, each as soon as its part of y is
// there; the owner of the rows adds up what all ranks have, solves with the diagonal block, and
// makes its part of y known. Going backward, the thread block that has column block i does the same
// with the rows after it, and makes its part of x known to all ranks. While it waits for a number,
// the block of L that goes with it is on its way.
//
// The last of these products is what the next block waits for. Its part of L and the diagonal block
// wait in registers, and where thread blocks come in clusters, the numbers for it come from the
// neighbour straight into shared memory.
//
// A number is there when it is not `unwritten`: no flags, no fences. (Liu, Li, Hogg, Duff and
// Vinter, Fast synchronization-free algorithms for parallel sparse triangular solves, 2017, wait
// for counters instead.) Nobody waits for a block with a higher number, and every thread block
// goes through its blocks in order; so the lowest unfinished one always goes on, if all thread
// blocks of all ranks are on their GPUs at the same time. There are no more than fit, and the mesh
// lets no other mesh's solve come between.
#include "runtime/cuda/cholesky_device_kernels.hpp"
#include "runtime/cuda/kernels/awaited_numbers.cuh"
#include "runtime/cuda/kernels/cluster.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int rows = 64;  // of a block
constexpr int lanes = 32;
constexpr int halves = rows / lanes;  // rows of a lane: `lane` and `lane` + 32
constexpr int padded = rows + 1;      // so that rows of a tile are in different banks too

static_assert(rows == CholeskyDeviceKernels<double>::solve_block);

constexpr int warps = 16;
constexpr int threads = warps * lanes;

/// Of warps, that take the blocks of a row or column in turn: while one waits for numbers the block
/// of L of the other is on its way.
template <class E>
constexpr int teams = sizeof(E) <= 8 ? 2 : 1;
template <class E>
constexpr int warps_a_team = warps / teams<E>;
/// Columns of a block of L, for each warp.
template <class E>
constexpr int columns = rows / warps_a_team<E>;

/// In the work on a diagonal block, the pair of a row from above and one from below, which together
/// are as long as any other such pair, is shared by so many lanes, side by side.
constexpr int sharers = threads / (rows / 2);
/// Columns of each.
constexpr int share = rows / sharers;

/// How the memory of a rank is divided: see PersistentSolveArguments.
template <class E>
struct Job : PersistentSolveArguments<E> {
  const volatile std::uint32_t* failed;
  int cluster;  // thread blocks in each
  // of the slab, as kernels call no functions of the host's
  const E* l;
  std::int64_t n;
  std::int64_t stride;

  __device__ E* x(int of) const { return this->memory[of]; }
  __device__ E* sums(int of, int from) const { return this->memory[of] + n + from * this->width; }
  __device__ E* y() const { return sums(this->rank, this->ranks); }
};

template <class E>
struct Shared {
  E l[rows * padded];        // the diagonal block, column by column, zero above its diagonal
  E inverse[rows * padded];  // l^-1, likewise
  E parts[warps][rows];      // what each warp has summed up
  E mail[max_ranks][rows];   // from each thread block of the cluster: see Solver::numbers_of
  E v[3][rows];              // of the products with the tile
};

template <class E>
__device__ E total_of(E x, E y) {
  return add_product(x, from_real<E>(1), y);
}
template <class E>
__device__ E difference(E x, E y) {
  return add_product(x, from_real<E>(-1), y);
}

template <class E>
class Solver {
 public:
  __device__ Solver(const Job<E>& job, Shared<E>& shared)
      : job_(job),
        shared_(shared),
        wait_(job.failed),
        lane_(static_cast<int>(threadIdx.x) % lanes),
        warp_(static_cast<int>(threadIdx.x) / lanes),
        first_(warp_ % warps_a_team<E> * columns<E>),
        sharer_(static_cast<int>(threadIdx.x) % sharers),
        above_(static_cast<int>(threadIdx.x) / sharers),
        has_below_(sharer_ >= sharers / 2),
        row_(has_below_ ? below(above_) : above_),
        neighbour_(job.cluster > 1 ? Cluster::rank() : 0) {
    empty_mail();
  }

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
        given = row_ < me.size ? job_.b[me.column + row_] : given;
      }
      Last last{};
      if (me.before > 0) {
        const SolveBlock from = job_.own[me.before - 1];
        last = {y_of(me, from), from.size, job_.l + me.row + from.column * job_.stride, 1,
                job_.stride,    me.size};
      }
      Pair l;
      load_last(last, l);
      sum_rows(me);
      if (mine) {
        load_tile<false>(tile);
      }
      __syncthreads();
      E sum = sum_of_ranks(me, mine);
      sum = total_of(sum, last_product(last, l));
      if (mine) {
        const E y = solve_tile<false>(tile, difference(given, sum));
        if (solves_row(me)) {
          publish(job_.y() + me.column + row_, y);
          mail(y, job_.count - 1 - i);
        }
      } else {
        __syncthreads();
        if (solves_row(me)) {
          publish(job_.sums(me.owner, job_.rank) + me.column + row_, sum);
        }
      }
      __syncthreads();
    }
  }

  __device__ void backward() {
    for (int i = job_.own_count - 1 - static_cast<int>(blockIdx.x); i >= 0;
         i -= static_cast<int>(gridDim.x)) {
      const SolveBlock me = job_.own[i];
      prepare_tile(me);
      const E* place_of_y = job_.y() + me.column + row_;
      const Pieces<E> y = look_if(row_ < me.size, place_of_y);
      Last last{};
      if (me.number + 1 < job_.count) {
        const SolveBlock from = job_.blocks[me.number + 1];
        last = {x_of(me, from), from.size, job_.l + from.row + me.column * job_.stride,
                job_.stride,    1,         me.size};
      }
      Pair l;
      load_last(last, l);
      sum_columns(me);
      Tile tile;
      load_tile<true>(tile);
      for (E& value : l.above) {
        value = conjugate(value);
      }
      for (E& value : l.below) {
        value = conjugate(value);
      }
      __syncthreads();
      E sum = shared_.parts[0][row_];
      for (int team = 1; team < teams<E>; ++team) {
        sum = total_of(sum, shared_.parts[team][row_]);
      }
      sum = total_of(sum, last_product(last, l));
      const E x = solve_tile<true>(tile, difference(wait_.await(place_of_y, y), sum));
      if (solves_row(me)) {
        for (int to = 0; to < job_.ranks; ++to) {
          publish(job_.x(to) + me.row + row_, x);
        }
        mail(x, i);
        job_.b[me.column + row_] = x;
      }
      __syncthreads();
    }
  }

 private:
  /// This thread's part of a pair of rows.
  struct Pair {
    E above[share];
    E below[share];
  };
  /// The same of a triangular matrix; the shorter of the two rows ends, or begins, in the middle.
  struct TrianglePair {
    E longer[share];
    E shorter[share / 2];
  };
  /// The diagonal block and its inverse, or their conjugate transposes.
  struct Tile {
    TrianglePair l;
    TrianglePair inverse;
  };

  /// The product that comes last: the block of L, or its conjugate transpose, and the numbers for
  /// it.
  struct Last {
    const E* numbers;
    int count;
    const E* corner;
    std::int64_t row_step;
    std::int64_t column_step;
    int height;
  };

  static __device__ int below(int above) { return rows - 1 - above; }
  /// A column of this thread's part of a row.
  __device__ int column_of(int j) const { return j * sharers + sharer_; }

  __device__ E load_from(const Last& last, int row, int column) const {
    return row < last.height && column < last.count
               ? last.corner[row * last.row_step + column * last.column_step]
               : from_real<E>(0);
  }
  __device__ void load_last(const Last& last, Pair& l) const {
#pragma unroll
    for (int j = 0; j < share; ++j) {
      l.above[j] = load_from(last, above_, column_of(j));
      l.below[j] = load_from(last, below(above_), column_of(j));
    }
  }

  /// Where the numbers of a block before are awaited: thread blocks of the cluster send theirs.
  const __device__ E* y_of(const SolveBlock& me, const SolveBlock& from) const {
    return numbers_of(me.number - from.number, job_.y() + from.column);
  }
  const __device__ E* x_of(const SolveBlock& me, const SolveBlock& from) const {
    const int distance = from.owner == job_.rank ? from.before - me.before : max_ranks;
    return numbers_of(distance, job_.x(job_.rank) + from.row);
  }
  /// `distance`: of the thread blocks, if they are in one cluster.
  const __device__ E* numbers_of(int distance, const E* published) const {
    return distance <= neighbour_ ? shared_.mail[neighbour_ - distance] : published;
  }

  /// A warp's columns of the block of L in the rows of one block and the columns of another.
  __device__ void load(E (&l)[columns<E>][halves], const SolveBlock& in_rows,
                       const SolveBlock& in_columns) const {
    const E* corner = job_.l + in_rows.row + lane_ + (in_columns.column + first_) * job_.stride;
#pragma unroll
    for (int j = 0; j < columns<E>; ++j) {
#pragma unroll
      for (int half = 0; half < halves; ++half) {
        const bool inside = lane_ + half * lanes < in_rows.size && first_ + j < in_columns.size;
        l[j][half] = inside ? corner[half * lanes + j * job_.stride] : from_real<E>(0);
      }
    }
  }

  /// Whether this thread is the one that makes one of the block's numbers known.
  __device__ bool solves_row(const SolveBlock& me) const { return speaks() && row_ < me.size; }
  /// For all that have the row's sum.
  __device__ bool speaks() const { return sharer_ % (sharers / 2) == 0; }

  /// The diagonal block of L and its inverse, padded by the identity; while the numbers for the
  /// products are on their way.
  __device__ void prepare_tile(const SolveBlock& me) {
    for (int column = warp_; column < rows; column += warps) {
      for (int row = lane_; row < rows; row += lanes) {
        const bool inside = row < me.size && column <= row;
        shared_.l[column * padded + row] =
            inside ? job_.l[me.row + row + (me.column + column) * job_.stride]
                   : from_real<E>(row == column ? 1 : 0);
      }
    }
    __syncthreads();
    invert_tile();
    __syncthreads();
  }
  template <bool conjugate_transpose>
  __device__ void load_tile(Tile& tile) const {
    load_triangle<conjugate_transpose>(shared_.l, tile.l);
    load_triangle<conjugate_transpose>(shared_.inverse, tile.inverse);
  }

  __device__ void invert_tile() {
    const int column = static_cast<int>(threadIdx.x);
    if (column < rows) {  // of the inverse, by substitution
      E* x = shared_.inverse + column * padded;
      for (int i = 0; i < rows; ++i) {
        E sum[4] = {from_real<E>(i == column ? -1 : 0), from_real<E>(0), from_real<E>(0),
                    from_real<E>(0)};
        for (int k = 0; k < i; k += 4) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            if (k + j < i) {
              sum[j] = add_product(sum[j], shared_.l[(k + j) * padded + i], x[k + j]);
            }
          }
        }
        const E total = total_of(total_of(sum[0], sum[1]), total_of(sum[2], sum[3]));
        x[i] = scaled(total, RealPart<E>(-1) / real(shared_.l[i * padded + i]));
      }
    }
  }

  template <bool conjugate_transpose>
  __device__ void load_triangle(const E* from, TrianglePair& to) const {
#pragma unroll
    for (int j = 0; j < share; ++j) {
      if constexpr (conjugate_transpose) {
        to.longer[j] = conjugate(from[above_ * padded + column_of(j)]);
      } else {
        to.longer[j] = from[column_of(j) * padded + below(above_)];
      }
    }
#pragma unroll
    for (int j = 0; j < share / 2; ++j) {
      if constexpr (conjugate_transpose) {
        to.shorter[j] = conjugate(from[below(above_) * padded + column_of(j + share / 2)]);
      } else {
        to.shorter[j] = from[column_of(j) * padded + above_];
      }
    }
  }

  /// Products of the rows of `me` with this rank's part of y before them, but for the last block.
  __device__ void sum_rows(const SolveBlock& me) {
    E sum[halves] = {from_real<E>(0), from_real<E>(0)};
    stream(job_.own, 1, me.before - 1, [&](const SolveBlock& from) {
      E l[columns<E>][halves];
      load(l, me, from);
      const E* place = y_of(me, from) + first_ + lane_;
      const Pieces<E> seen = look_if(lane_ < columns<E> && first_ + lane_ < from.size, place);
      const E y = wait_.await(place, seen);
#pragma unroll
      for (int j = 0; j < columns<E>; ++j) {
        const E yj = from_lane(y, j);
#pragma unroll
        for (int half = 0; half < halves; ++half) {
          sum[half] = add_product(sum[half], l[j][half], yj);
        }
      }
    });
#pragma unroll
    for (int half = 0; half < halves; ++half) {
      shared_.parts[warp_][lane_ + half * lanes] = sum[half];
    }
  }

  /// Products of the columns of `me`, conjugated, with x after them, but for the last block.
  __device__ void sum_columns(const SolveBlock& me) {
    E sum[columns<E>];
    for (E& value : sum) {
      value = from_real<E>(0);
    }
    const int last = job_.count - 1;
    stream(job_.blocks + last, -1, last - 1 - me.number, [&](const SolveBlock& from) {
      E l[columns<E>][halves];
      load(l, from, me);
      const E* place = x_of(me, from) + lane_;
      Pieces<E> seen[halves];
#pragma unroll
      for (int half = 0; half < halves; ++half) {
        seen[half] = look_if(lane_ + half * lanes < from.size, place + half * lanes);
      }
#pragma unroll
      for (int half = 0; half < halves; ++half) {
        const E x = wait_.await(place + half * lanes, seen[half]);
#pragma unroll
        for (int j = 0; j < columns<E>; ++j) {
          sum[j] = add_product(sum[j], conjugate(l[j][half]), x);
        }
      }
    });
#pragma unroll
    for (int j = 0; j < columns<E>; j += 4) {
      const E total = sum_four({sum[j], sum[j + 1], sum[j + 2], sum[j + 3]});
      if (lane_ % 8 == 0) {
        shared_.parts[warp_ / warps_a_team<E>][first_ + j + lane_ / 8] = total;
      }
    }
  }

  /// Uses this team's blocks of `count`, which lie one after the other, or before. Where the next
  /// one is, is known in time.
  template <class Use>
  __device__ void stream(const SolveBlock* blocks, int step, int count, Use use) {
    const int team = warp_ / warps_a_team<E>;
    SolveBlock next{};
    if (team < count) {
      next = blocks[team * step];
    }
    for (int done = team; done < count; done += teams<E>) {
      const SolveBlock from = next;
      const int after = done + teams<E>;
      if (after < count) {
        next = blocks[after * step];
      }
      use(from);
    }
  }

  /// What all warps have summed up for this thread's row, and for a row of its own the other ranks.
  __device__ E sum_of_ranks(const SolveBlock& me, bool mine) {
    constexpr int have_row = sharers / 2;
    E sum = from_real<E>(0);
#pragma unroll
    for (int warp = 0; warp < warps; warp += have_row) {
      sum = total_of(sum, shared_.parts[warp + sharer_ % have_row][row_]);
    }
    if (mine && job_.ranks > 1) {
      for (int others = 0; others < job_.ranks; others += have_row) {
        const int from = others + sharer_ % have_row;
        const bool has_some = row_ < me.size && from < job_.ranks && from != job_.rank &&
                              job_.first[from] < me.number;
        sum = total_of(sum, await_if(has_some, job_.sums(job_.rank, from) + me.column + row_));
      }
    }
    return over_row(sum);
  }

  /// The number at `place` or zero; called by a warp.
  __device__ E await_if(bool wanted, const E* place) {
    return wait_.await(place, look_if(wanted, place));
  }
  __device__ static Pieces<E> look_if(bool wanted, const E* place) {
    Pieces<E> seen;
    seen.value = from_real<E>(0);
    if (wanted) {
      seen = look(place);
    }
    return seen;
  }

  /// The sum over all that have the row, for each of them.
  __device__ E over_row(E sum) const {
#pragma unroll
    for (int distance = sharers / 4; distance > 0; distance /= 2) {
      sum = total_of(sum, from_partner(sum, distance));
    }
    return sum;
  }
  /// The sum of its row, of those of a pair.
  __device__ E over_pair(E above, E below) const {
    const E other = from_partner(has_below_ ? above : below, sharers / 2);
    return over_row(total_of(has_below_ ? below : above, other));
  }

  /// This thread's row of the last product. If the numbers are not the next neighbour's, two warps
  /// fetch them.
  __device__ E last_product(const Last& last, const Pair& l) {
    if (last.count == 0) {
      return from_real<E>(0);
    }
    E* const fetched = shared_.mail[neighbour_];  // as nobody sends to himself
    const bool come_here = neighbour_ > 0 && last.numbers == shared_.mail[neighbour_ - 1];
    const int number = static_cast<int>(threadIdx.x);
    if (!come_here && number < rows) {
      publish(fetched + number, await_if(number < last.count, last.numbers + number));
    }
    const E* const numbers = come_here ? last.numbers : fetched;
    for (int half = 0; half < halves; ++half) {
      const int index = lane_ + half * lanes;
      await_if(index < last.count, numbers + index);
    }
    __syncwarp();
    E above = from_real<E>(0);
    E below = from_real<E>(0);
#pragma unroll
    for (int j = 0; j < share; ++j) {
      const E x = column_of(j) < last.count ? numbers[column_of(j)] : from_real<E>(0);
      above = add_product(above, l.above[j], x);
      below = add_product(below, l.below[j], x);
    }
    const E sum = over_pair(above, below);
    __syncthreads();
    empty_mail();
    return sum;
  }

  /// All of it has been waited for, and this block's own numbers are not known yet, so no more can
  /// come.
  __device__ void empty_mail() {
    for (int i = static_cast<int>(threadIdx.x); i < max_ranks * rows; i += threads) {
      unpublish(shared_.mail[0] + i);
    }
  }

  /// To the thread blocks of the cluster that have the blocks after this one, if there are so many.
  __device__ void mail(E number, int blocks_after) {
    const int end = min(job_.cluster, neighbour_ + 1 + blocks_after);
    for (int to = neighbour_ + 1; to < end; ++to) {
      publish(Cluster::in_rank(shared_.mail[neighbour_] + row_, to), number);
    }
  }

  /// l^-1 v, or l^-H v. The product with the inverse alone would not be backward stable: see
  /// DeviceKernels::panel.
  template <bool conjugate_transpose>
  __device__ E solve_tile(Tile& tile, E v) {
    constexpr bool upper = conjugate_transpose;
    const E first = product_with_all<upper>(tile.inverse, v, shared_.v[0]);
    const E back = product_with_all<upper>(tile.l, first, shared_.v[1]);
    const E rest = difference(v, back);
    return total_of(first, product_with_all<upper>(tile.inverse, rest, shared_.v[2]));
  }

  /// A row of a triangle's product with the numbers that all rows have.
  template <bool upper>
  __device__ E product_with_all(const TrianglePair& pair, E x, E (&all)[rows]) {
    if (speaks()) {
      all[row_] = x;
    }
    __syncthreads();
    E longer[2] = {from_real<E>(0), from_real<E>(0)};
    E shorter = from_real<E>(0);
#pragma unroll
    for (int j = 0; j < share; ++j) {
      const E xj = all[column_of(j)];
      longer[j % 2] = add_product(longer[j % 2], pair.longer[j], xj);
      const int k = upper ? j - share / 2 : j;  // in the shorter row
      if (0 <= k && k < share / 2) {
        shorter = add_product(shorter, pair.shorter[k], xj);
      }
    }
    const E both = total_of(longer[0], longer[1]);
    return upper ? over_pair(both, shorter) : over_pair(shorter, both);
  }

  const Job<E>& job_;
  Shared<E>& shared_;
  Waiter wait_;
  int lane_;
  int warp_;
  int first_;  // of its columns
  // In the work on a diagonal block
  int sharer_;
  int above_;       // the upper one of the pair of rows
  bool has_below_;  // of the pair's sums
  int row_;         // whose sum it has
  int neighbour_;   // its number in the cluster
};

template <class E>
__global__ void __launch_bounds__(threads, 1) solve_kernel(const __grid_constant__ Job<E> job) {
  Solver<E> solver(job, dynamic_shared<Shared<E>>());
  Cluster::sync();  // everybody is there for mail
  solver.forward();
  solver.backward();
  Cluster::sync();  // nobody leaves while others may write to his memory
}

/// Thread blocks that are on the current GPU at the same time, at most one a multiprocessor: more
/// would gain nothing.
struct Room {
  int clusters;
  int cluster;  // blocks of each
};
template <class E>
Room room() {
  const Block block{dim3(threads), sizeof(Shared<E>)};
  allow_shared(&solve_kernel<E>, block.shared_bytes);
  const int multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount);
  const auto in_clusters_of = [&](int cluster) {
    const int clusters = resident_clusters(&solve_kernel<E>, cluster, block);
    return Room{std::min(clusters, multiprocessors / cluster), cluster};
  };
  Room room = in_clusters_of(runs_clusters(&solve_kernel<E>) ? max_ranks : 1);
  // where large ones leave many multiprocessors without work
  while (room.cluster > 1 && 8 * room.clusters * room.cluster < 7 * multiprocessors) {
    room = in_clusters_of(room.cluster / 2);
  }
  return room;
}

}  // namespace

template <class E>
bool CholeskyDeviceKernels<E>::has_persistent_solve() {
  return room<E>().clusters > 0;
}

template <class E>
void CholeskyDeviceKernels<E>::persistent_solve(cudaStream_t stream,
                                                const PersistentSolveArguments<E>& solve,
                                                const volatile std::uint32_t* failed) {
  const Room room = cuda::room<E>();
  const Job<E> job{
      solve, failed, room.cluster, solve.slab.data(), solve.slab.rows(), solve.slab.stride()};
  const auto wanted = static_cast<int>(divide_up(solve.count, room.cluster));
  launch_clusters(stream, &solve_kernel<E>, std::min(room.clusters, wanted), room.cluster,
                  {dim3(threads), sizeof(Shared<E>)}, job);
}

#define SHARDSOLVE_INSTANTIATE(E)                                 \
  template bool CholeskyDeviceKernels<E>::has_persistent_solve(); \
  template void CholeskyDeviceKernels<E>::persistent_solve(       \
      cudaStream_t, const PersistentSolveArguments<E>&, const volatile std::uint32_t*);

SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda
