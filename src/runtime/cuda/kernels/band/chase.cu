// Some waves of some sweeps of a chase: a block of threads for each sweep, which goes from task to
// task (runtime/chase.hpp) and waits for the sweep before it to be two tasks ahead. Blocks take the
// sweeps in the order in which they come, so those that one waits for are running: there may be
// more blocks than a GPU has room for. What a task reads has one writer, so bits do not depend on
// which sweep is faster.
//
// The numbers of a task are worked on in registers if they fit there, else in shared memory, else
// where they are.
#include "runtime/cuda/band_device_kernels.hpp"
#include "runtime/cuda/kernels/band/chase_in_registers.cuh"
#include "runtime/cuda/kernels/band/chase_work.cuh"
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

/// A part of the band as a matrix: in shared memory, or where it is, as in a band the next entry of
/// a row is one column further and one row higher.
template <class E>
struct Part {
  E* data;
  std::int64_t stride;

  __device__ E& operator()(int i, int j) const { return data[i + j * stride]; }
};

/// One task's numbers and sums. Columns of matrices are an odd number of elements apart, so that
/// rows are met without conflicts, too.
template <class E>
struct Memory {
  E* v;           ///< this task's reflector
  E* before;      ///< that of the task before
  E* w;           ///< tau block before
  E* u;           ///< conj(tau) v^H block
  E* p;           ///< see run_task
  E* diagonal;    ///< of d, as it was
  E* remainders;  ///< what it lacks
  E* partial;     ///< two a thread
  E* scalars;     ///< tau, beta
  E* matrices;

  static constexpr int vectors = 7;
  static constexpr int kept_scalars = 2;
  static __device__ Memory in(E* memory, int bandwidth) {
    E* const partial = memory + vectors * bandwidth;
    return {memory,
            memory + bandwidth,
            memory + 2 * bandwidth,
            memory + 3 * bandwidth,
            memory + 4 * bandwidth,
            memory + 5 * bandwidth,
            memory + 6 * bandwidth,
            partial,
            partial + 2 * threads,
            partial + 2 * threads + kept_scalars};
  }
  static std::size_t bytes(std::int64_t bandwidth, bool with_matrices) {
    const std::int64_t matrices = with_matrices ? 2 * bandwidth * (bandwidth | 1) : 0;
    return sizeof(E) *
           static_cast<std::size_t>(vectors * bandwidth + 2 * threads + kept_scalars + matrices);
  }
};

/// What a block does for its sweep.
template <class E>
class Sweep {
 public:
  __device__ Sweep(const ChaseWork<E>& work, E* memory, bool in_shared, std::int64_t sweep)
      : work_(work),
        bandwidth_(static_cast<int>(work.bandwidth)),
        memory_(Memory<E>::in(memory, bandwidth_)),
        in_shared_(in_shared),
        sweep_(sweep),
        thread_(static_cast<int>(threadIdx.x)),
        warp_(thread_ / lanes),
        lane_(thread_ % lanes),
        at_once_(min(bandwidth_, threads)),
        teams_(threads / at_once_),
        team_(thread_ / at_once_) {}

  __device__ void run() {
    const std::int64_t begin = max(work_.waves.begin - 2 * sweep_, std::int64_t{0});
    const std::int64_t end = min(work_.waves.end - 2 * sweep_, work_.tasks(sweep_));
    const std::int64_t in_group = sweep_ - work_.group_first;
    if (begin > 0) {
      load_reflector(begin - 1);
    }
    for (std::int64_t number = begin; number < end; ++number) {
      if (in_group > 0) {
        await(work_.progress.done + in_group - 1,
              static_cast<std::uint32_t>(min(number + 2, work_.tasks(sweep_ - 1))));
      }
      run_task(number);
      announce(work_.progress.done + in_group, static_cast<std::uint32_t>(number + 1));
      tau_before_ = memory_.scalars[0];
      E* const v = memory_.v;
      memory_.v = memory_.before;
      memory_.before = v;
    }
  }

 private:
  __device__ E* reflector_of(std::int64_t number) const {
    return &work_.reflectors(0, number * work_.group_count + sweep_ - work_.group_first);
  }
  __device__ void load_reflector(std::int64_t number) {
    const E* const column = reflector_of(number);
    tau_before_ = load_fresh(column);
    for (int i = thread_; i < bandwidth_; i += threads) {
      memory_.before[i] = load_fresh(column + 1 + i);
    }
    __syncthreads();
  }

  /// With the reflector I - tau v v^H of the task, and that of the task before:
  ///
  ///   block -= (tau block v) v^H                      of the task before: w v^H
  ///   tau, v of its first column;  block -= v (conj(tau) v^H block)          v u
  ///   d -= p v^H + v p^H,  p = tau d v, with all along v taken off but for an imaginary part
  ///
  /// As HostBandKernels has it: of d what is a multiple of the identity is left out of p, and
  /// diagonals are sums of two numbers.
  __device__ void run_task(std::int64_t number) {
    const std::int64_t row = sweep_ + 1 + number * bandwidth_;
    const std::int64_t column = number == 0 ? sweep_ : row - bandwidth_;
    rows_ = static_cast<int>(min(work_.bandwidth, work_.size - row));
    columns_ = number == 0 ? 1 : bandwidth_;
    E* const block_place = &work_.band(row - column, column);
    E* const d_place = &work_.band(0, row);
    const std::int64_t band_stride = work_.band.stride - 1;
    const std::int64_t stride = bandwidth_ | 1;
    block_ = in_shared_ ? Part<E>{memory_.matrices, stride} : Part<E>{block_place, band_stride};
    d_ = in_shared_ ? Part<E>{memory_.matrices + stride * bandwidth_, stride}
                    : Part<E>{d_place, band_stride};
    for (int i = thread_; i < rows_; i += threads) {
      memory_.remainders[i] = load_fresh(&work_.band(2 * bandwidth_, row + i));
    }
    if (in_shared_) {
      load({block_place, band_stride}, {d_place, band_stride});
    }
    __syncthreads();
    if (number > 0) {
      add_up_rows();
    }
    __syncthreads();
    if (warp_ == 0) {
      make_reflector(number > 0);
    } else if (warp_ == 1) {
      shift_diagonal();
    }
    __syncthreads();
    add_up_products();
    __syncthreads();
    if (warp_ == 0) {
      finish_products();
    }
    __syncthreads();
    store_block({block_place, band_stride});
    store_d({d_place, band_stride}, &work_.band(2 * bandwidth_, row));
    store_reflector(reflector_of(number));
  }

  __device__ void load(const Part<E>& block, const Part<E>& d) {
    for (int j = warp_; j < columns_; j += warps) {
      for (int i = lane_; i < rows_; i += lanes) {
        block_(i, j) = load_fresh(&block(i, j));
      }
    }
    for (int j = warp_; j < rows_; j += warps) {
      for (int i = j + lane_; i < rows_; i += lanes) {
        d_(i, j) = load_fresh(&d(i, j));
      }
    }
  }

  /// Parts of block before, of each row by several threads.
  __device__ void add_up_rows() {
    for (int from = 0; from < rows_; from += at_once_) {
      const int i = from + thread_ % at_once_;
      if (team_ < teams_ && i < rows_) {
        E sum = from_real<E>(0);
        for (int j = team_; j < columns_; j += teams_) {
          sum = add_product(sum, block_(i, j), memory_.before[j]);
        }
        finish_sum(from, i, memory_.partial, sum, memory_.w);
      }
    }
  }
  /// Where a column's sums are one thread's each, they are final.
  __device__ void finish_sum(int from, int i, E* partial, E sum, E* sums) {
    if (teams_ == 1) {
      sums[i] = sum;
    } else {
      partial[team_ * at_once_ + i - from] = sum;
    }
  }
  __device__ E sum_of_teams(const E* partial, const E* sums, int i) const {
    if (teams_ == 1) {
      return sums[i];
    }
    E sum = partial[i];
    for (int team = 1; team < teams_; ++team) {
      sum = sum_of(sum, partial[team * at_once_ + i]);
    }
    return sum;
  }

  /// w, v, tau and beta; by one warp.
  __device__ void make_reflector(bool has_before) {
    using R = RealPart<E>;
    R largest = 0;
    for (int i = lane_; i < rows_; i += lanes) {
      E entry = block_(i, 0);
      if (has_before) {  // whose first number is 1
        const E w = product_of(tau_before_, sum_of_teams(memory_.partial, memory_.w, i));
        memory_.w[i] = w;
        entry = subtract_product(entry, w, from_real<E>(1));
      }
      memory_.v[i] = entry;
      const R size = size_of(entry);
      largest = size > largest ? size : largest;
    }
    const R unit = to_unit_size(largest_of_lanes(largest));
    R squares = 0;
    for (int i = lane_; i < rows_; i += lanes) {
      const E entry = scaled(memory_.v[i], unit);
      memory_.v[i] = entry;
      squares += i > 0 ? square(entry) : R{0};
    }
    squares = sum_over_lanes(squares);
    __syncwarp();
    const Reflector<E> h = reflector(memory_.v[0], squares);
    __syncwarp();
    for (int i = lane_; i < rows_; i += lanes) {
      memory_.v[i] = i == 0 ? from_real<E>(1) : product_of(memory_.v[i], h.scale);
    }
    if (lane_ == 0) {
      memory_.scalars[0] = h.tau;
      memory_.scalars[1] = from_real<E>(h.beta / unit);
    }
  }

  /// By one warp.
  __device__ void shift_diagonal() {
    const RealPart<E> shift = real(d_(0, 0));
    __syncwarp();
    for (int i = lane_; i < rows_; i += lanes) {
      const RealPart<E> entry = real(d_(i, i));
      memory_.diagonal[i] = from_real<E>(entry);
      d_(i, i) = from_real<E>(entry - shift + real(memory_.remainders[i]));
    }
  }

  /// Entry of the block after the reflector of the task before.
  __device__ E entry(int i, int j) const {
    return subtract_product(block_(i, j), memory_.w[i], conjugate(memory_.before[j]));
  }
  __device__ E hermitian(int i, int j) const { return i >= j ? d_(i, j) : conjugate(d_(j, i)); }

  /// Parts of v^H block and of d v, of each number by several threads.
  __device__ void add_up_products() {
    for (int from = 0; from < bandwidth_; from += at_once_) {
      const int c = from + thread_ % at_once_;
      if (team_ >= teams_ || c >= bandwidth_) {
        continue;
      }
      if (c > 0 && c < columns_) {
        E sum = from_real<E>(0);
        for (int i = team_; i < rows_; i += teams_) {
          sum = add_product(sum, conjugate(memory_.v[i]), entry(i, c));
        }
        finish_sum(from, c, memory_.partial, sum, memory_.u);
      }
      if (c < rows_) {
        E sum = from_real<E>(0);
        for (int j = team_; j < rows_; j += teams_) {
          sum = add_product(sum, hermitian(c, j), memory_.v[j]);
        }
        finish_sum(from, c, memory_.partial + threads, sum, memory_.p);
      }
    }
  }

  /// u and p; by one warp.
  __device__ void finish_products() {
    const E tau = memory_.scalars[0];
    for (int c = 1 + lane_; c < columns_; c += lanes) {
      memory_.u[c] = product_of(conjugate(tau), sum_of_teams(memory_.partial, memory_.u, c));
    }
    for (int i = lane_; i < rows_; i += lanes) {
      memory_.p[i] = product_of(tau, sum_of_teams(memory_.partial + threads, memory_.p, i));
    }
    take_off();
    take_off();
  }
  /// p -= (re(v^H p) / ||v||^2) v; by one warp.
  __device__ void take_off() {
    using R = RealPart<E>;
    R product = 0;
    R squares = 0;
    for (int i = lane_; i < rows_; i += lanes) {
      const E v = memory_.v[i];
      product += real(product_of(conjugate(v), memory_.p[i]));
      squares += square(v);
    }
    const R factor = sum_over_lanes(product) / sum_over_lanes(squares);
    for (int i = lane_; i < rows_; i += lanes) {
      memory_.p[i] = subtract_product(memory_.p[i], from_real<E>(factor), memory_.v[i]);
    }
  }

  __device__ void store_block(const Part<E>& block) {
    const E beta = memory_.scalars[1];
    for (int j = warp_; j < columns_; j += warps) {
      for (int i = lane_; i < rows_; i += lanes) {
        E value = i == 0 ? beta : from_real<E>(0);
        if (j > 0) {
          value = subtract_product(entry(i, j), memory_.v[i], memory_.u[j]);
        }
        store_through(&block(i, j), value);
      }
    }
  }
  /// `lacks`: of the first of the diagonal's numbers; a column further is the next.
  __device__ void store_d(const Part<E>& d, E* lacks) {
    for (int j = warp_; j < rows_; j += warps) {
      for (int i = j + 1 + lane_; i < rows_; i += lanes) {
        E value = subtract_product(d_(i, j), memory_.p[i], conjugate(memory_.v[j]));
        value = subtract_product(value, memory_.v[i], conjugate(memory_.p[j]));
        store_through(&d(i, j), value);
      }
    }
    for (int i = thread_; i < rows_; i += threads) {
      const RealPart<E> change = real(product_of(memory_.p[i], conjugate(memory_.v[i]))) * -2;
      const TwoNumbers<RealPart<E>> entry =
          in_two(real(memory_.diagonal[i]), change + real(memory_.remainders[i]));
      store_through(&d(i, i), from_real<E>(entry.sum));
      store_through(lacks + i * work_.band.stride, from_real<E>(entry.lacks));
    }
  }
  __device__ void store_reflector(E* column) {
    for (int i = thread_; i <= bandwidth_; i += threads) {
      column[i] = i == 0 ? memory_.scalars[0] : i <= rows_ ? memory_.v[i - 1] : from_real<E>(0);
    }
  }

  const ChaseWork<E>& work_;
  int bandwidth_;
  Memory<E> memory_;
  bool in_shared_;
  std::int64_t sweep_;
  int thread_;
  int warp_;
  int lane_;
  // A sum for each of so many numbers at a time is made by teams of threads.
  int at_once_;
  int teams_;
  int team_;
  E tau_before_ = from_real<E>(0);
  int rows_ = 0;
  int columns_ = 0;
  Part<E> block_{};
  Part<E> d_{};
};

/// Where there is shared memory for two blocks on a multiprocessor, there are to be registers, too.
template <class E, bool in_shared>
__global__ void __launch_bounds__(threads, sizeof(E) <= 8 ? 2 : 1)
    chase_sweeps(const __grid_constant__ ChaseWork<E> work) {
  E* const memory = &dynamic_shared<E>();
  if (threadIdx.x == 0) {
    *reinterpret_cast<std::uint32_t*>(memory) =
        take_number(work.progress.numbers, static_cast<std::uint32_t>(work.count));
  }
  __syncthreads();
  const std::uint32_t number = *reinterpret_cast<const std::uint32_t*>(memory);
  __syncthreads();
  Sweep<E>(work, memory, in_shared, work.first + number).run();
}

template <class E>
__global__ void __launch_bounds__(SweepInRegisters<E>::threads)
    chase_sweeps_in_registers(const __grid_constant__ ChaseWork<E> work) {
  auto& memory = dynamic_shared<typename SweepInRegisters<E>::Memory>();
  if (threadIdx.x == 0) {
    memory.number = take_number(work.progress.numbers, static_cast<std::uint32_t>(work.count));
  }
  __syncthreads();
  SweepInRegisters<E>(work, memory, work.first + memory.number).run();
}

/// Reflectors that there will be none of are zero.
template <class E>
__global__ void __launch_bounds__(threads)
    begin_group(DeviceMatrix<E> reflectors, ChaseProgress progress, std::int64_t sweeps) {
  const std::int64_t count = reflectors.rows * reflectors.columns;
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (at < count) {
    reflectors(at % reflectors.rows, at / reflectors.rows) = from_real<E>(0);
  }
  if (at < sweeps) {
    progress.done[at] = 0;
  }
  if (at == 0) {
    *progress.numbers = 0;
  }
}

}  // namespace

template <class E>
std::size_t BandDeviceKernels<E>::chase_scratch() {
  return ChaseProgress::alignment + sizeof(std::uint32_t) * static_cast<std::size_t>(max_sweeps);
}

template <class E>
void BandDeviceKernels<E>::chase(cudaStream_t stream, const Chase& chase, const SweepGroup& sweeps,
                                 const WaveRange& waves, Out band, Out reflectors, void* scratch) {
  const ChaseProgress progress = ChaseProgress::in(scratch);
  if (waves.begin <= sweeps.waves(chase).begin) {
    const std::int64_t blocks =
        divide_up(std::max(reflectors.rows() * reflectors.columns(), sweeps.count), threads);
    launch(stream, &begin_group<E>, blocks, {dim3(threads)}, device(reflectors), progress,
           sweeps.count);
  }
  ChaseWork<E> work{device(band), device(reflectors), progress,     chase.size, chase.bandwidth,
                    sweeps.first, sweeps.count,       sweeps.first, 0,          waves};
  const auto has_tasks = [&](std::int64_t sweep) {
    const auto [begin, end] = SweepGroup::numbers(chase, sweep, waves);
    return begin < end;
  };
  std::int64_t end = sweeps.first + sweeps.count;
  while (work.first < end && !has_tasks(work.first)) {
    ++work.first;
  }
  while (end > work.first && !has_tasks(end - 1)) {
    --end;
  }
  work.count = end - work.first;
  if (chase.bandwidth <= SweepInRegisters<E>::max_bandwidth &&
      sizeof(typename SweepInRegisters<E>::Memory) <= max_shared()) {
    launch(stream, &chase_sweeps_in_registers<E>, work.count,
           {dim3(SweepInRegisters<E>::threads), sizeof(typename SweepInRegisters<E>::Memory)},
           work);
    return;
  }
  const std::size_t bytes = Memory<E>::bytes(chase.bandwidth, true);
  const bool in_shared = bytes <= max_shared();
  const auto kernel = in_shared ? &chase_sweeps<E, true> : &chase_sweeps<E, false>;
  allow_shared(kernel, max_shared());
  launch(stream, kernel, work.count,
         {dim3(threads), in_shared ? bytes : Memory<E>::bytes(chase.bandwidth, false)}, work);
}

template std::size_t BandDeviceKernels<float>::chase_scratch();
template std::size_t BandDeviceKernels<double>::chase_scratch();
template std::size_t BandDeviceKernels<Complex<float>>::chase_scratch();
template std::size_t BandDeviceKernels<Complex<double>>::chase_scratch();

template void BandDeviceKernels<float>::chase(cudaStream_t, const Chase&, const SweepGroup&,
                                              const WaveRange&, Out, Out, void*);
template void BandDeviceKernels<double>::chase(cudaStream_t, const Chase&, const SweepGroup&,
                                               const WaveRange&, Out, Out, void*);
template void BandDeviceKernels<Complex<float>>::chase(cudaStream_t, const Chase&,
                                                       const SweepGroup&, const WaveRange&, Out,
                                                       Out, void*);
template void BandDeviceKernels<Complex<double>>::chase(cudaStream_t, const Chase&,
                                                        const SweepGroup&, const WaveRange&, Out,
                                                        Out, void*);

}  // namespace shardsolve::runtime::cuda
