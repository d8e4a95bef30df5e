/// What a block of threads does for its sweep where a task's numbers fit into registers.
///
/// Of the rows of a task a lane has two, and a warp every eighth column. Sums over rows are made by
/// lanes, sums over columns by warps through shared memory, in an order that is always the same.
/// What a warp needs of all rows it makes for itself, as the others do: so a task has two meetings
/// of all threads and a last one when it is done.
#pragma once

#include "runtime/cuda/kernels/band/chase_work.cuh"
#include "runtime/cuda/kernels/band/reflector.cuh"
#include "runtime/cuda/kernels/meeting.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"

#include <cstdint>

namespace shardsolve::runtime::cuda {

template <class E>
class SweepInRegisters {
 public:
  static constexpr int max_bandwidth = 64;
  static constexpr int warps = 8;
  static constexpr int threads = 32 * warps;

  struct Memory {
    E w[warps][max_bandwidth];  ///< of each warp's columns
    E p[warps][max_bandwidth];
    E p_above[max_bandwidth];  ///< what the triangle's columns add to p
    E first[max_bandwidth];    ///< the block's first column
    RealPart<E> shift;
    std::uint32_t number;
  };

  __device__ SweepInRegisters(const ChaseWork<E>& work, Memory& memory, std::int64_t sweep)
      : work_(work),
        memory_(memory),
        bandwidth_(static_cast<int>(work.bandwidth)),
        sweep_(sweep),
        in_group_(sweep - work.group_first),
        tasks_before_(work.tasks(sweep - 1)),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  /// All that a task reads is there when the sweep before is one task ahead, but for what touches
  /// the last of the task's rows: so it is loaded while the task before is worked on.
  __device__ void run() {
    const std::int64_t begin = max(work_.waves.begin - 2 * sweep_, std::int64_t{0});
    const std::int64_t end = min(work_.waves.end - 2 * sweep_, work_.tasks(sweep_));
    if (begin >= end) {
      return;
    }
    if (begin > 0) {
      load_reflector(begin - 1);
    }
    Numbers next;
    if constexpr (ahead) {
      await_sweep_before(begin + 1);
      load_any(place_of(begin), next);
    }
    for (std::int64_t number = begin; number < end; ++number) {
      const Place place = place_of(number);
      await_sweep_before(number + 2);
      if constexpr (!ahead) {
        load_any(place, next);
      }
      Numbers numbers = next;
      if (is_whole(place)) {
        load_last_row<true>(place, numbers);
      } else {
        load_last_row<false>(place, numbers);
      }
      if (ahead && number + 1 < end) {
        load_any(place_of(number + 1), next);
      }
      run_task(place, number, numbers);
      announce(work_.progress.done + in_group_, static_cast<std::uint32_t>(number + 1));
    }
  }

 private:
  /// Whether there are registers for two tasks.
  static constexpr bool ahead = sizeof(E) <= 8;
  static constexpr int row_parts = max_bandwidth / 32;
  static constexpr int column_parts = max_bandwidth / warps;

  /// Where a task's numbers are, and of the matrices this thread's first: the next of a row of the
  /// band is `step` further.
  struct Place {
    int rows;
    int columns;
    std::int64_t step;
    E* block;
    E* d;
    E* remainders;

    __device__ E* in_block(int row_part, int column_part) const {
      return block + column_part * (warps * step) + 32 * row_part;
    }
    __device__ E* in_d(int row_part, int column_part) const {
      return d + column_part * (warps * step) + 32 * row_part;
    }
  };
  /// This thread's part of them; zeros outside of the matrices and above the diagonal of d.
  struct Numbers {
    E block[row_parts][column_parts];
    E d[row_parts][column_parts];
    RealPart<E> remainders[row_parts];  ///< where the thread has the diagonal
  };

  __device__ int row(int part) const { return lane_ + 32 * part; }
  __device__ int column(int part) const { return warp_ + warps * part; }
  /// Whether the thread's row of this part may be as far down as its column.
  static constexpr __device__ bool may_be_below(int row_part, int column_part) {
    return 32 * (row_part + 1) > warps * column_part;
  }
  /// What the column has of a vector whose numbers the lanes of each warp have.
  __device__ E of_column(const E (&vector)[row_parts], int part) const {
    return from_lane(vector[warps * part / 32], column(part) % 32);
  }

  __device__ Place place_of(std::int64_t number) const {
    const std::int64_t first_row = sweep_ + 1 + number * bandwidth_;
    const std::int64_t first_column = number == 0 ? sweep_ : first_row - bandwidth_;
    const std::int64_t step = work_.band.stride - 1;
    const std::int64_t first = row(0) + column(0) * step;
    return {static_cast<int>(min(work_.bandwidth, work_.size - first_row)),
            number == 0 ? 1 : bandwidth_,
            step,
            &work_.band(first_row - first_column, first_column) + first,
            &work_.band(0, first_row) + first,
            &work_.band(2 * bandwidth_, first_row)};
  }
  /// The most frequent case, which needs fewer questions.
  __device__ bool is_whole(const Place& place) const {
    return place.rows == max_bandwidth && place.columns == max_bandwidth;
  }
  __device__ E* reflector_of(std::int64_t number) const {
    return &work_.reflectors(0, number * work_.group_count + in_group_);
  }
  __device__ void load_reflector(std::int64_t number) {
    const E* const column_of_it = reflector_of(number);
    tau_before_ = load_fresh(column_of_it);
    for (int c = 0; c < column_parts; ++c) {
      before_[c] =
          column(c) < bandwidth_ ? load_fresh(column_of_it + 1 + column(c)) : from_real<E>(0);
    }
  }
  __device__ void await_sweep_before(std::int64_t tasks) const {
    if (in_group_ > 0) {
      await(work_.progress.done + in_group_ - 1,
            static_cast<std::uint32_t>(min(tasks, tasks_before_)));
    }
  }

  template <bool whole>
  __device__ bool is_in_block(const Place& place, int i, int j) const {
    return whole || (i < place.rows && j < place.columns);
  }
  template <bool whole>
  __device__ bool is_in_rows(const Place& place, int i) const {
    return whole || i < place.rows;
  }
  /// The sweep before writes of this task's rows the last one in its task after this one: of d the
  /// whole row and of the block the last number.
  template <bool whole>
  __device__ bool is_last_row(int row_part) const {
    return whole ? row_part == row_parts - 1 && lane_ == 31 : row(row_part) == bandwidth_ - 1;
  }
  template <bool whole>
  __device__ bool is_last_column(const Place& place, int column_part) const {
    return whole ? column_part == column_parts - 1 && warp_ == warps - 1
                 : column(column_part) == place.columns - 1;
  }
  __device__ bool has_diagonal(int row_part) const { return row(row_part) % warps == warp_; }

  __device__ void load_any(const Place& place, Numbers& numbers) const {
    if (is_whole(place)) {
      load<true>(place, numbers);
    } else {
      load<false>(place, numbers);
    }
  }
  template <bool whole>
  __device__ void load(const Place& place, Numbers& numbers) const {
#pragma unroll
    for (int r = 0; r < row_parts; ++r) {
      const int i = row(r);
      const bool is_early = is_in_rows<whole>(place, i) && !is_last_row<whole>(r);
#pragma unroll
      for (int c = 0; c < column_parts; ++c) {
        const int j = column(c);
        numbers.block[r][c] =
            is_in_block<whole>(place, i, j) && (is_early || !is_last_column<whole>(place, c))
                ? load_fresh(place.in_block(r, c))
                : from_real<E>(0);
        if (may_be_below(r, c)) {
          numbers.d[r][c] = is_early && j <= i ? load_fresh(place.in_d(r, c)) : from_real<E>(0);
        }
      }
      numbers.remainders[r] = is_early && has_diagonal(r)
                                  ? real(load_fresh(place.remainders + i * work_.band.stride))
                                  : 0;
    }
  }
  template <bool whole>
  __device__ void load_last_row(const Place& place, Numbers& numbers) const {
#pragma unroll
    for (int r = 0; r < row_parts; ++r) {
      const int i = row(r);
      const bool is_late = is_in_rows<whole>(place, i) && is_last_row<whole>(r);
#pragma unroll
      for (int c = 0; c < column_parts; ++c) {
        if (is_late && is_last_column<whole>(place, c)) {
          numbers.block[r][c] = load_fresh(place.in_block(r, c));
        }
        if (may_be_below(r, c) && is_late && column(c) <= i) {
          numbers.d[r][c] = load_fresh(place.in_d(r, c));
        }
      }
      if (is_late && has_diagonal(r)) {
        numbers.remainders[r] = real(load_fresh(place.remainders + i * work_.band.stride));
      }
    }
  }

  /// With the reflector I - tau v v^H of the task, and that of the task before:
  ///
  ///   block -= (tau block v) v^H                      of the task before: w v^H
  ///   tau, v of its first column;  block -= v (conj(tau) v^H block)          v u
  ///   d -= p v^H + v p^H,  p = tau d v, with all along v taken off but for an imaginary part
  ///
  /// As HostBandKernels has it: of d what is a multiple of the identity is left out of p, and
  /// diagonals are sums of two numbers.
  __device__ void run_task(const Place& place, std::int64_t number, Numbers& numbers) {
    share(number > 0, numbers);
    __syncthreads();
    RealPart<E> diagonal[row_parts];
    shift_diagonal(numbers, diagonal);
    // block -= w before^H
    E w[row_parts];
    add_up_rows(number > 0, w);
    make_reflector(w);
    if (number > 0) {
      apply_before(w, numbers);
    }
    for (int c = 0; c < column_parts; ++c) {
      before_[c] = of_column(v_, c);
    }
    tau_before_ = reflector_.tau;
    share_products(numbers);
    E u[column_parts];
    add_up_columns(numbers, u);
    __syncthreads();
    if (is_whole(place)) {
      store<true>(place, numbers, u, diagonal);
    } else {
      store<false>(place, numbers, u, diagonal);
    }
    store_reflector(reflector_of(number));
  }

  /// Parts of block before; what all warps need of the first column, and of d's first number.
  __device__ void share(bool has_before, const Numbers& numbers) {
    for (int r = 0; r < row_parts; ++r) {
      if (has_before) {
        E sum = from_real<E>(0);
        for (int c = 0; c < column_parts; ++c) {
          sum = add_product(sum, numbers.block[r][c], before_[c]);
        }
        memory_.w[warp_][row(r)] = sum;
      }
      if (warp_ == 0) {
        memory_.first[row(r)] = numbers.block[r][0];
      }
    }
    if (threadIdx.x == 0) {
      memory_.shift = real(numbers.d[0][0]);
    }
  }
  __device__ void shift_diagonal(Numbers& numbers, RealPart<E> (&diagonal)[row_parts]) const {
    const RealPart<E> shift = memory_.shift;
#pragma unroll
    for (int r = 0; r < row_parts; ++r) {
      diagonal[r] = 0;
#pragma unroll
      for (int c = 0; c < column_parts; ++c) {
        if (may_be_below(r, c) && row(r) == column(c)) {
          diagonal[r] = real(numbers.d[r][c]);
          numbers.d[r][c] = from_real<E>(diagonal[r] - shift + numbers.remainders[r]);
        }
      }
    }
  }
  __device__ void add_up_rows(bool has_before, E (&w)[row_parts]) const {
    for (int r = 0; r < row_parts; ++r) {
      w[r] = from_real<E>(0);
      if (has_before) {
        E sum = memory_.w[0][row(r)];
        for (int h = 1; h < warps; ++h) {
          sum = sum_of(sum, memory_.w[h][row(r)]);
        }
        w[r] = product_of(tau_before_, sum);
      }
    }
  }

  /// v, tau and beta, by each warp. The first number of the reflector before is 1. Squares that are
  /// neither small nor anywhere near overflow do without scaling.
  __device__ void make_reflector(const E (&w)[row_parts]) {
    using R = RealPart<E>;
    for (int r = 0; r < row_parts; ++r) {
      v_[r] = subtract_product(memory_.first[row(r)], w[r], from_real<E>(1));
    }
    E alpha = from_lane(v_[0], 0);
    R squares = squares_below();
    const R all = squares + square(alpha);
    R unit = 1;
    if (!(all > R{1} / 256 && all < R{1LL << 60})) {
      unit = bring_to_unit_size();
      alpha = from_lane(v_[0], 0);
      squares = squares_below();
    }
    reflector_ = reflector(alpha, squares);
    for (int r = 0; r < row_parts; ++r) {
      v_[r] = row(r) == 0 ? from_real<E>(1) : product_of(v_[r], reflector_.scale);
    }
    if (unit != 1) {
      reflector_.beta = reflector_.beta / unit;
    }
    per_square_ = R{1} / (R{1} + squares * square(reflector_.scale));
  }
  /// Of v's numbers but the first.
  __device__ RealPart<E> squares_below() const {
    RealPart<E> squares = 0;
    for (int r = 0; r < row_parts; ++r) {
      squares += row(r) > 0 ? square(v_[r]) : RealPart<E>{0};
    }
    return sum_over_lanes(squares);
  }
  /// The factor that does this to v.
  __device__ RealPart<E> bring_to_unit_size() {
    using R = RealPart<E>;
    R largest = 0;
    for (int r = 0; r < row_parts; ++r) {
      const R size = size_of(v_[r]);
      largest = size > largest ? size : largest;
    }
    const R unit = to_unit_size(largest_of_lanes(largest));
    for (int r = 0; r < row_parts; ++r) {
      v_[r] = scaled(v_[r], unit);
    }
    return unit;
  }

  __device__ void apply_before(const E (&w)[row_parts], Numbers& numbers) const {
    for (int r = 0; r < row_parts; ++r) {
      for (int c = 0; c < column_parts; ++c) {
        numbers.block[r][c] = subtract_product(numbers.block[r][c], w[r], conjugate(before_[c]));
      }
    }
  }

  /// Parts of d v: of the numbers from the diagonal down by rows, of those above it, which are the
  /// conjugates of the former, by columns.
  __device__ void share_products(const Numbers& numbers) {
    E sums[row_parts];
    E above[column_parts];
#pragma unroll
    for (int c = 0; c < column_parts; ++c) {
      above[c] = from_real<E>(0);
    }
#pragma unroll
    for (int r = 0; r < row_parts; ++r) {
      sums[r] = from_real<E>(0);
#pragma unroll
      for (int c = 0; c < column_parts; ++c) {
        if (may_be_below(r, c)) {
          const E d = numbers.d[r][c];
          sums[r] = add_product(sums[r], d, before_[c]);
          const E below = row(r) > column(c) ? conjugate(d) : from_real<E>(0);
          above[c] = add_product(above[c], below, v_[r]);
        }
      }
    }
    for (int r = 0; r < row_parts; ++r) {
      memory_.p[warp_][row(r)] = sums[r];
    }
#pragma unroll
    for (int c = 0; c < column_parts; c += 4) {
      const E sum = sum_four({above[c], above[c + 1], above[c + 2], above[c + 3]});
      if (lane_ % 8 == 0) {
        memory_.p_above[column(c + lane_ / 8)] = sum;
      }
    }
  }
  /// u of this warp's columns.
  __device__ void add_up_columns(const Numbers& numbers, E (&u)[column_parts]) const {
    const E factor = conjugate(reflector_.tau);
#pragma unroll
    for (int c = 0; c < column_parts; c += 4) {
      E sums[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        sums[k] = from_real<E>(0);
        for (int r = 0; r < row_parts; ++r) {
          sums[k] = add_product(sums[k], conjugate(v_[r]), numbers.block[r][c + k]);
        }
      }
      const E sum = product_of(factor, sum_four({sums[0], sums[1], sums[2], sums[3]}));
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        u[c + k] = from_lane(sum, 8 * k);
      }
    }
  }

  /// p, by each warp.
  __device__ void add_up_products(E (&p)[row_parts]) const {
    for (int r = 0; r < row_parts; ++r) {
      E sum = memory_.p_above[row(r)];
      for (int h = 0; h < warps; ++h) {
        sum = sum_of(sum, memory_.p[h][row(r)]);
      }
      p[r] = product_of(reflector_.tau, sum);
    }
    take_off(p);
    take_off(p);
  }
  /// p -= (re(v^H p) / ||v||^2) v.
  __device__ void take_off(E (&p)[row_parts]) const {
    RealPart<E> product = 0;
    for (int r = 0; r < row_parts; ++r) {
      product += real(product_of(conjugate(v_[r]), p[r]));
    }
    const RealPart<E> factor = sum_over_lanes(product) * per_square_;
    for (int r = 0; r < row_parts; ++r) {
      p[r] = subtract_product(p[r], from_real<E>(factor), v_[r]);
    }
  }

  /// block -= v u, which is on its way while p is made;  d -= p v^H + v p^H.
  template <bool whole>
  __device__ void store(const Place& place, const Numbers& numbers, const E (&u)[column_parts],
                        const RealPart<E> (&diagonal)[row_parts]) const {
    store_block<whole>(place, numbers, u);
    E p[row_parts];
    add_up_products(p);
    store_d<whole>(place, numbers, diagonal, p);
  }
  template <bool whole>
  __device__ void store_block(const Place& place, const Numbers& numbers,
                              const E (&u)[column_parts]) const {
#pragma unroll
    for (int r = 0; r < row_parts; ++r) {
      const int i = row(r);
#pragma unroll
      for (int c = 0; c < column_parts; ++c) {
        const int j = column(c);
        E value = from_real<E>(i == 0 ? reflector_.beta : 0);
        if (j > 0) {
          value = subtract_product(numbers.block[r][c], v_[r], u[c]);
        }
        if (is_in_block<whole>(place, i, j)) {
          store_through(place.in_block(r, c), value);
        }
      }
    }
  }
  template <bool whole>
  __device__ void store_d(const Place& place, const Numbers& numbers,
                          const RealPart<E> (&diagonal)[row_parts], const E (&p)[row_parts]) const {
#pragma unroll
    for (int c = 0; c < column_parts; ++c) {
      const int j = column(c);
      const E p_of_column = of_column(p, c);
#pragma unroll
      for (int r = 0; r < row_parts; ++r) {
        const int i = row(r);
        if (may_be_below(r, c) && j < i && is_in_rows<whole>(place, i)) {
          E value = subtract_product(numbers.d[r][c], p[r], conjugate(before_[c]));
          value = subtract_product(value, v_[r], conjugate(p_of_column));
          store_through(place.in_d(r, c), value);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < row_parts; ++r) {
      const int i = row(r);
      if (has_diagonal(r) && is_in_rows<whole>(place, i)) {
        const RealPart<E> change = real(product_of(p[r], conjugate(v_[r]))) * -2;
        const TwoNumbers<RealPart<E>> entry = in_two(diagonal[r], change + numbers.remainders[r]);
        E* const d = place.d + (i - row(0)) + (i - column(0)) * place.step;
        store_through(d, from_real<E>(entry.sum));
        store_through(place.remainders + i * work_.band.stride, from_real<E>(entry.lacks));
      }
    }
  }
  __device__ void store_reflector(E* column_of_it) const {
    if (warp_ > 0) {
      return;
    }
    for (int r = 0; r < row_parts; ++r) {
      if (row(r) < bandwidth_) {
        column_of_it[1 + row(r)] = v_[r];
      }
    }
    if (lane_ == 0) {
      column_of_it[0] = reflector_.tau;
    }
  }

  const ChaseWork<E>& work_;
  Memory& memory_;
  int bandwidth_;
  std::int64_t sweep_;
  std::int64_t in_group_;
  std::int64_t tasks_before_;  ///< of the sweep before
  int warp_;
  int lane_;
  E tau_before_ = from_real<E>(0);
  E before_[column_parts] = {};  ///< of this warp's columns
  E v_[row_parts] = {};
  Reflector<E> reflector_{};
  RealPart<E> per_square_ = 0;  ///< 1 / ||v||^2
};

}  // namespace shardsolve::runtime::cuda
