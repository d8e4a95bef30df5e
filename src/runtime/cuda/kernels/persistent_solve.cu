// A solve with a factor as two kernels a GPU, without a wait between steps but those for numbers.
// Each is a sweep with a triangular matrix M that is L, U or one of their transposes, cut into
// blocks of 64 rows and columns. Rows, columns and blocks are counted in the order in which the
// sweep solves for them, so that M is lower triangular; the second sweep goes the other way.
//
//   by rows      Columns of M are a rank's: L, U. The thread block that has row block i takes the
//                products with this rank's columns before it, each as soon as its part of y is
//                there; the owner of the rows adds up what all ranks have, solves with the diagonal
//                block, and makes its part of y known.
//   by columns   Rows of M are a rank's: L^H, U^H. The thread block that has row block i takes the
//                products with all columns before it, solves, and makes its part of x known to all
//                ranks.
//
// While a thread block waits for a number, the block of M that goes with it is on its way. The last
// of these products is what the next block waits for. Its part of M and the inverse of the diagonal
// block wait in registers, and where thread blocks come in clusters, the numbers for it come from
// the neighbour straight into shared memory. A diagonal block for which the inverse would not do
// is substituted with.
//
// A number is there when it is not `unwritten`: no flags, no fences. (Liu, Li, Hogg, Duff and
// Vinter, Fast synchronization-free algorithms for parallel sparse triangular solves, 2017, wait
// for counters instead.) Nobody waits for a block with a higher number, and every thread block
// goes through its blocks in order; so the lowest unfinished one always goes on, if all thread
// blocks of all ranks are on their GPUs at the same time. There are no more than fit, and the mesh
// lets no other mesh's solve come between.
#include "runtime/cuda/device_kernels.hpp"
#include "runtime/cuda/kernels/awaited_numbers.cuh"
#include "runtime/cuda/kernels/cluster.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int rows = 64;  // of a block
constexpr int lanes = 32;
constexpr int halves = rows / lanes;  // rows of a lane: `lane` and `lane` + 32
/// Of a column of a block in shared memory, so that lanes that read a part of some rows meet
/// different banks.
template <class E>
constexpr int padded = rows + 16 / static_cast<int>(sizeof(E));

static_assert(rows == DeviceKernels<double>::solve_block);

constexpr int warps = 16;
constexpr int threads = warps * lanes;

/// Of warps, that take the blocks of a row in turn: while one waits for numbers the block of M of
/// the other is on its way.
template <class E>
constexpr int teams = sizeof(E) <= 8 ? 2 : 1;
template <class E>
constexpr int warps_a_team = warps / teams<E>;
/// Columns of the slab in a block of M, for each warp.
template <class E>
constexpr int columns = rows / warps_a_team<E>;

/// In the work on a diagonal block, and in the last product before it, a row is shared by so many
/// lanes, side by side.
constexpr int sharers = threads / rows;
/// Columns of each.
constexpr int share = rows / sharers;

template <class E>
struct Job : PersistentSolveArguments<E> {
  const volatile std::uint32_t* failed;
  int cluster;  // thread blocks in each
  // of the slab, as kernels call no functions of the host's
  const E* slab_of_factor;
  std::int64_t n;
  std::int64_t stride;
};

template <class E>
struct Shared {
  E m[rows * padded<E>];        // the diagonal block, column by column, zero above its diagonal
  E inverse[rows * padded<E>];  // m^-1, likewise
  E reciprocal[rows];           // of its diagonal entries
  E parts[warps][rows];         // what each warp has summed up
  E mail[max_ranks][rows];      // from each thread block of the cluster: see Solver::numbers_of
  E v[3][rows];                 // of the products with the diagonal block
};

template <class E>
__device__ void empty_mail(Shared<E>& shared) {
  for (int i = static_cast<int>(threadIdx.x); i < max_ranks * rows; i += threads) {
    unpublish(shared.mail[0] + i);
  }
}

/// By all threads of the block: m^-1 v, where v lies in shared.v[0], by one warp, column by column.
/// It comes to shared.v[1]. Apart, as it would take registers from what is done as a rule.
template <class E>
__device__ __noinline__ void substitute(Shared<E>& shared) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < lanes) {
    E x[halves];
#pragma unroll
    for (int half = 0; half < halves; ++half) {
      x[half] = shared.v[0][thread + half * lanes];
    }
    for (int column = 0; column < rows; ++column) {
      const E* const m = shared.m + column * padded<E>;
      const E mine = column < lanes ? x[0] : x[1];
      const E solved = product_of(from_lane(mine, column % lanes), shared.reciprocal[column]);
#pragma unroll
      for (int half = 0; half < halves; ++half) {
        const int row = thread + half * lanes;
        x[half] = row == column  ? solved
                  : row > column ? subtract_product(x[half], m[row], solved)
                                 : x[half];
      }
    }
#pragma unroll
    for (int half = 0; half < halves; ++half) {
      shared.v[1][thread + half * lanes] = x[half];
    }
  }
  __syncthreads();
}

/// One of the sweeps: the first, or the second, `back`.
template <class E, bool by_columns, bool back>
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
        row_(static_cast<int>(threadIdx.x) / sharers),
        neighbour_(job.cluster > 1 ? Cluster::rank() : 0) {}

  __device__ void run() {
    const int count = by_columns ? job_.own_count : job_.count;
    const SolveBlock* const blocks = by_columns ? sweep().own : sweep().blocks;
    for (int i = static_cast<int>(blockIdx.x); i < count; i += static_cast<int>(gridDim.x)) {
      const SolveBlock me = blocks[i];
      const bool mine = me.owner == job_.rank;
      const SolveBlock* const before = by_columns ? sweep().blocks : sweep().own;
      const int count_before = by_columns ? me.number : me.before;
      if (!mine && count_before == 0) {
        continue;
      }
      E given = from_real<E>(0);
      bool by_inverse = false;
      if (mine) {
        by_inverse = prepare_tile(me);
        given = row_ < me.size ? job_.b[me.column + step * row_] : given;
      }
      Last last{};
      if (count_before > 0) {
        const SolveBlock from = before[count_before - 1];
        last = {part(me, from), numbers_of(me, from), from.size, me.size};
      }
      Share of_last;
      load_last(last, of_last);
      if constexpr (by_columns) {
        sum_columns(me, before, count_before - 1);
      } else {
        sum_rows(me, before, count_before - 1);
      }
      Share inverse;
      if (mine) {
        load_tile(shared_.inverse, inverse);
      }
      __syncthreads();
      E sum = by_columns ? sum_of_teams() : sum_of_ranks(me, mine);
      sum = sum_of(sum, last_product(last, of_last));
      if (mine) {
        const E v = sum_of(given, negated(sum));
        const E x = by_inverse ? product_and_correction(inverse, v) : substituted(v);
        if (speaks(me)) {
          make_known(me, x, count - 1 - i);
        }
      } else {
        __syncthreads();
        empty_mail(shared_);
        __syncthreads();
        if (speaks(me)) {
          publish(sums(me.owner, job_.rank) + place(me) + row_, sum);
        }
      }
      __syncthreads();
    }
  }

 private:
  /// A part of M, in the memory of the slab.
  struct Part {
    const E* corner;
    std::int64_t row_step;
    std::int64_t column_step;
  };
  /// The product that comes last: a part of M and the numbers for it.
  struct Last {
    Part part;
    const E* numbers;
    int width;
    int height;
  };
  /// This thread's part of its row of a matrix.
  using Share = E[share];
  /// From one row or column of the slab to the next.
  static constexpr std::int64_t step = back ? -1 : 1;

  const __device__ SolveSweep& sweep() const { return job_.sweeps[back ? 1 : 0]; }
  __device__ E turned(E x) const { return sweep().conjugated ? conjugate(x) : x; }

  /// Where a sweep keeps its numbers. By columns: those of all rows, on each rank. By rows: what
  /// each rank has summed up for the rows of this one, and the solution in those.
  __device__ E* numbers(int of) const { return job_.memory[of] + (back ? job_.second : 0); }
  __device__ E* sums(int of, int from) const { return numbers(of) + from * job_.width; }
  __device__ E* solved(int of) const {
    return numbers(of) + (by_columns ? 0 : job_.ranks * job_.width);
  }
  /// There, of a block's first number.
  __device__ std::int64_t place(const SolveBlock& block) const {
    const std::int64_t first = by_columns ? block.row : block.column;
    return back ? (by_columns ? job_.n : job_.width) - 1 - first : first;
  }

  /// The rows of one block and the columns of another of M.
  __device__ Part part(const SolveBlock& of_rows, const SolveBlock& of_columns) const {
    const std::int64_t across = step * job_.stride;
    if constexpr (by_columns) {
      return {job_.slab_of_factor + of_columns.row + of_rows.column * job_.stride, across, step};
    } else {
      return {job_.slab_of_factor + of_rows.row + of_columns.column * job_.stride, step, across};
    }
  }

  /// Where the numbers of a block before are awaited: thread blocks of the cluster send theirs.
  const __device__ E* numbers_of(const SolveBlock& me, const SolveBlock& from) const {
    const bool is_own = from.owner == job_.rank;
    const int distance = !by_columns ? me.number - from.number
                         : is_own    ? me.before - from.before
                                     : max_ranks;
    return distance <= neighbour_ ? shared_.mail[neighbour_ - distance]
                                  : solved(job_.rank) + place(from);
  }

  /// Whether this thread is the one that makes one of the block's numbers known.
  __device__ bool speaks(const SolveBlock& me) const { return sharer_ == 0 && row_ < me.size; }

  __device__ E load_from(const Last& last, int column) const {
    return row_ < last.height && column < last.width
               ? last.part.corner[row_ * last.part.row_step + column * last.part.column_step]
               : from_real<E>(0);
  }
  /// A column of this thread's part of a row.
  __device__ int column_of(int j) const { return j * sharers + sharer_; }
  __device__ void load_last(const Last& last, E (&m)[share]) const {
#pragma unroll
    for (int j = 0; j < share; ++j) {
      m[j] = load_from(last, column_of(j));
    }
  }

  /// A warp's columns of the slab and all rows there, of a part of M.
  __device__ void load(E (&m)[columns<E>][halves], const E* corner, int in_rows,
                       int in_columns) const {
    const std::int64_t across = step * job_.stride;
    const E* const mine = corner + lane_ * step + first_ * across;
#pragma unroll
    for (int j = 0; j < columns<E>; ++j) {
#pragma unroll
      for (int half = 0; half < halves; ++half) {
        const bool inside = lane_ + half * lanes < in_rows && first_ + j < in_columns;
        m[j][half] = inside ? mine[half * lanes * step + j * across] : from_real<E>(0);
      }
    }
  }

  /// The diagonal block and its inverse, padded by the identity; while the numbers for the products
  /// are on their way. Whether the inverse may be used.
  __device__ bool prepare_tile(const SolveBlock& me) {
    const Part diagonal = part(me, me);
    for (int slow = warp_; slow < rows; slow += warps) {
      for (int fast = lane_; fast < rows; fast += lanes) {  // as they lie in memory
        const int row = by_columns ? slow : fast;
        const int column = by_columns ? fast : slow;
        const bool is_one = row == column && (sweep().unit || row >= me.size);
        E value = from_real<E>(is_one ? 1 : 0);
        if (!is_one && row < me.size && column <= row) {
          value = turned(diagonal.corner[row * diagonal.row_step + column * diagonal.column_step]);
        }
        shared_.m[column * padded<E> + row] = value;
        if (row == column) {
          shared_.reciprocal[row] = inverse_of(value);
        }
      }
    }
    __syncthreads();
    return invert_tile();
  }
  /// Row by row: a row that is done is divided, and taken from those below. Each thread keeps its
  /// share of its row, and stores it where it alone reads it. Says whether the product with the
  /// inverse and one correction leaves what substitution leaves: the error of the product is the
  /// larger by c = || |m^-1| |m| ||, and of that the correction leaves c u. (Skeel, Iterative
  /// refinement implies numerical stability for Gaussian elimination, 1980.)
  __device__ bool invert_tile() {
    constexpr RealPart<E> largest_c =
        sizeof(RealPart<E>) == 8 ? RealPart<E>(1 << 23) : RealPart<E>(1 << 9);
    Share x;
    RealPart<E> sum = 0;
#pragma unroll
    for (int j = 0; j < share; ++j) {
      x[j] = from_real<E>(column_of(j) == row_ ? 1 : 0);
      sum += size_of_both(shared_.m[column_of(j) * padded<E> + row_]);
    }
    sum = over_row(sum);  // of the row's moduli
    for (int done = 0; done < rows; ++done) {
      E(&row)[rows] = shared_.v[done % 2];
      if (row_ == done) {
#pragma unroll
        for (int j = 0; j < share; ++j) {
          x[j] = product_of(x[j], shared_.reciprocal[done]);
          row[column_of(j)] = x[j];
        }
      }
      __syncthreads();
      if (row_ > done) {
        const E factor = shared_.m[done * padded<E> + row_];
#pragma unroll
        for (int j = 0; j < share; ++j) {
          x[j] = subtract_product(x[j], factor, row[column_of(j)]);
        }
      }
    }
    if (sharer_ == 0) {
      shared_.v[2][row_] = from_real<E>(sum);
    }
    __syncthreads();
    RealPart<E> c = 0;
#pragma unroll
    for (int j = 0; j < share; ++j) {
      c += size_of_both(x[j]) * real(shared_.v[2][column_of(j)]);
      shared_.inverse[column_of(j) * padded<E> + row_] = x[j];
    }
    return __syncthreads_and(over_row(c) <= largest_c) != 0;
  }
  static __device__ RealPart<E> size_of_both(E x) {
    return std::abs(real(x)) + std::abs(imaginary(x));
  }
  __device__ void load_tile(const E* from, Share& to) const {
#pragma unroll
    for (int j = 0; j < share; ++j) {
      to[j] = from[column_of(j) * padded<E> + row_];
    }
  }

  /// Products of the rows of `me` with this rank's part of y before them, but for the last block.
  __device__ void sum_rows(const SolveBlock& me, const SolveBlock* before, int count) {
    E sum[halves] = {from_real<E>(0), from_real<E>(0)};
    stream(before, count, [&](const SolveBlock& from) {
      E m[columns<E>][halves];
      load(m, part(me, from).corner, me.size, from.size);
      const E* place = numbers_of(me, from) + first_ + lane_;
      const Pieces<E> seen = look_if(lane_ < columns<E> && first_ + lane_ < from.size, place);
      const E y = wait_.await(place, seen);
#pragma unroll
      for (int j = 0; j < columns<E>; ++j) {
        const E yj = from_lane(y, j);
#pragma unroll
        for (int half = 0; half < halves; ++half) {
          sum[half] = add_product(sum[half], turned(m[j][half]), yj);
        }
      }
    });
#pragma unroll
    for (int half = 0; half < halves; ++half) {
      shared_.parts[warp_][lane_ + half * lanes] = sum[half];
    }
  }

  /// Products of the rows of `me`, which are columns of the slab, with x before them, but for the
  /// last block.
  __device__ void sum_columns(const SolveBlock& me, const SolveBlock* before, int count) {
    E sum[columns<E>];
    for (E& value : sum) {
      value = from_real<E>(0);
    }
    stream(before, count, [&](const SolveBlock& from) {
      E m[columns<E>][halves];
      load(m, part(me, from).corner, from.size, me.size);
      const E* place = numbers_of(me, from) + lane_;
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
          sum[j] = add_product(sum[j], turned(m[j][half]), x);
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

  /// Uses this team's blocks of `count`, which lie one after the other. Where the next one is, is
  /// known in time.
  template <class Use>
  __device__ void stream(const SolveBlock* blocks, int count, Use use) {
    const int team = warp_ / warps_a_team<E>;
    SolveBlock next{};
    if (team < count) {
      next = blocks[team];
    }
    for (int done = team; done < count; done += teams<E>) {
      const SolveBlock from = next;
      const int after = done + teams<E>;
      if (after < count) {
        next = blocks[after];
      }
      use(from);
    }
  }

  __device__ E sum_of_teams() const {
    E sum = shared_.parts[0][row_];
    for (int team = 1; team < teams<E>; ++team) {
      sum = sum_of(sum, shared_.parts[team][row_]);
    }
    return sum;
  }
  /// What all warps have summed up for this thread's row, and for a row of its own the other ranks.
  __device__ E sum_of_ranks(const SolveBlock& me, bool mine) {
    E sum = from_real<E>(0);
#pragma unroll
    for (int warp = 0; warp < warps; warp += sharers) {
      sum = sum_of(sum, shared_.parts[warp + sharer_][row_]);
    }
    if (mine && job_.ranks > 1) {
      for (int others = 0; others < job_.ranks; others += sharers) {
        const int from = others + sharer_;
        const bool has_some = row_ < me.size && from < job_.ranks && from != job_.rank &&
                              sweep().first[from] < me.number;
        sum = sum_of(sum, await_if(has_some, sums(job_.rank, from) + place(me) + row_));
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
  template <class N>
  __device__ N over_row(N sum) const {
#pragma unroll
    for (int distance = sharers / 2; distance > 0; distance /= 2) {
      sum = sum_of(sum, from_partner(sum, distance));
    }
    return sum;
  }

  /// This thread's row of the last product. If the numbers are not the next neighbour's, two warps
  /// fetch them.
  __device__ E last_product(const Last& last, const E (&m)[share]) {
    if (last.width == 0) {
      return from_real<E>(0);
    }
    E* const fetched = shared_.mail[neighbour_];  // as nobody sends to himself
    const bool come_here = neighbour_ > 0 && last.numbers == shared_.mail[neighbour_ - 1];
    const int number = static_cast<int>(threadIdx.x);
    if (!come_here && number < rows) {
      publish(fetched + number, await_if(number < last.width, last.numbers + number));
    }
    const E* const numbers = come_here ? last.numbers : fetched;
    for (int half = 0; half < halves; ++half) {
      const int index = lane_ + half * lanes;
      await_if(index < last.width, numbers + index);
    }
    __syncwarp();
    E sum[2] = {from_real<E>(0), from_real<E>(0)};
#pragma unroll
    for (int j = 0; j < share; ++j) {
      const E x = column_of(j) < last.width ? numbers[column_of(j)] : from_real<E>(0);
      sum[j % 2] = add_product(sum[j % 2], turned(m[j]), x);
    }
    return over_row(sum_of(sum[0], sum[1]));
  }

  /// m^-1 v. The product with the inverse alone would not be backward stable.
  __device__ E product_and_correction(const Share& inverse, E v) {
    Share m;  // not earlier: registers are short
    load_tile(shared_.m, m);
    const E first = product_with_all(inverse, v, shared_.v[0]);
    // All mail has been read, and no more can come before the numbers of this block are known.
    empty_mail(shared_);
    const E again = product_with_all(m, first, shared_.v[1]);
    const E rest = sum_of(v, negated(again));
    return sum_of(first, product_with_all(inverse, rest, shared_.v[2]));
  }
  /// m^-1 v by substitution, where the inverse will not do.
  __device__ E substituted(E v) const {
    if (sharer_ == 0) {
      shared_.v[0][row_] = v;
    }
    __syncthreads();
    empty_mail(shared_);  // as above
    substitute(shared_);
    return shared_.v[1][row_];
  }
  /// A row's product with the numbers that all rows have.
  __device__ E product_with_all(const Share& m, E x, E (&all)[rows]) const {
    if (sharer_ == 0) {
      all[row_] = x;
    }
    __syncthreads();
    E sum[2] = {from_real<E>(0), from_real<E>(0)};
#pragma unroll
    for (int j = 0; j < share; ++j) {
      sum[j % 2] = add_product(sum[j % 2], m[j], all[column_of(j)]);
    }
    return over_row(sum_of(sum[0], sum[1]));
  }

  /// To the thread blocks of the cluster that have the blocks after this one, if `after`, which are
  /// left to this rank, are so many, and in the memory of those who need it.
  __device__ void make_known(const SolveBlock& me, E x, int after) {
    const int first = by_columns ? 0 : job_.rank;
    const int last = by_columns ? job_.ranks - 1 : job_.rank;
    for (int to = first; to <= last; ++to) {
      publish(solved(to) + place(me) + row_, x);
    }
    const int end = min(job_.cluster, neighbour_ + 1 + after);
    for (int to = neighbour_ + 1; to < end; ++to) {
      publish(Cluster::in_rank(shared_.mail[neighbour_] + row_, to), x);
    }
    job_.b[me.column + step * row_] = x;
  }

  const Job<E>& job_;
  Shared<E>& shared_;
  Waiter wait_;
  int lane_;
  int warp_;
  int first_;      // of its columns of a block in the slab
  int sharer_;     // in the work on a diagonal block
  int row_;        // there
  int neighbour_;  // its number in the cluster
};

template <class E, bool by_columns, bool back>
__global__ void __launch_bounds__(threads, 1) solve_kernel(const __grid_constant__ Job<E> job) {
  Shared<E>& shared = dynamic_shared<Shared<E>>();
  empty_mail(shared);
  Cluster::sync();  // everybody is there for mail
  Solver<E, by_columns, back>(job, shared).run();
  Cluster::sync();  // nobody leaves while others may write to his memory
}

/// Of a kernel, of which there may be at most one block a multiprocessor: more would gain nothing.
template <class E, bool by_columns, bool back>
int clusters_of(int cluster) {
  constexpr std::size_t bytes = sizeof(Shared<E>);
  allow_shared(&solve_kernel<E, by_columns, back>, bytes);
  return std::min(
      resident_clusters(&solve_kernel<E, by_columns, back>, cluster, {dim3(threads), bytes}),
      device_attribute(cudaDevAttrMultiProcessorCount) / cluster);
}

template <class E, bool by_columns>
void enqueue(cudaStream_t stream, const SolveRoom& room, const Job<E>& job, bool back) {
  const auto wanted = static_cast<int>(divide_up(job.count, room.cluster));
  launch_clusters(
      stream, back ? &solve_kernel<E, by_columns, true> : &solve_kernel<E, by_columns, false>,
      std::min(room.clusters, wanted), room.cluster, {dim3(threads), sizeof(Shared<E>)}, job);
}

}  // namespace

template <class E>
SolveRoom DeviceKernels<E>::solve_room() {
  const auto of_all = [](int cluster) {  // clusters of the same size for all four
    return SolveRoom{
        std::min({clusters_of<E, false, false>(cluster), clusters_of<E, false, true>(cluster),
                  clusters_of<E, true, false>(cluster), clusters_of<E, true, true>(cluster)}),
        cluster};
  };
  const int multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount);
  SolveRoom room = of_all(runs_clusters(&solve_kernel<E, false, false>) ? max_ranks : 1);
  // where large ones leave many multiprocessors without work
  while (room.cluster > 1 && 8 * room.clusters * room.cluster < 7 * multiprocessors) {
    room = of_all(room.cluster / 2);
  }
  return room;
}

template <class E>
void DeviceKernels<E>::persistent_solve(cudaStream_t stream, const SolveRoom& room,
                                        const PersistentSolveArguments<E>& solve,
                                        const volatile std::uint32_t* failed) {
  const Job<E> job{
      solve, failed, room.cluster, solve.slab.data(), solve.slab.rows(), solve.slab.stride()};
  for (const bool back : {false, true}) {
    if (solve.sweeps[back ? 1 : 0].by_columns) {
      enqueue<E, true>(stream, room, job, back);
    } else {
      enqueue<E, false>(stream, room, job, back);
    }
  }
}

#define SHARDSOLVE_INSTANTIATE(E)                                                      \
  template SolveRoom DeviceKernels<E>::solve_room();                                   \
  template void DeviceKernels<E>::persistent_solve(cudaStream_t, const SolveRoom&,     \
                                                   const PersistentSolveArguments<E>&, \
                                                   const volatile std::uint32_t*);

SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda
