/// A program of a Krylov solve: updates of vectors, then their sums. Compiled with --fmad=false:
/// what is fused is written so.
///
/// A leaf has eight threads, one a lane of its sum, each with eight rows. A block of threads takes
/// 32 leaves at a time, as many times as a block of the sum layout has.
#pragma once

#include "runtime/cuda/kernels/krylov/numbers.cuh"
#include "runtime/krylov/program.hpp"

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime::cuda::krylov_run {

using krylov::Dot;
using krylov::Number;
using krylov::Program;
using krylov::State;
using krylov::StateRoom;
using krylov::SumPart;
using krylov::SumTable;
using krylov::Update;
using krylov::UpdateKind;
using krylov::Vectors;

constexpr int leaves_at_once = 32;
constexpr int levels_at_once = 5;
static_assert(1 << levels_at_once == leaves_at_once);
constexpr int threads_a_block = leaves_at_once * dot_lanes;
constexpr int rows_a_thread = static_cast<int>(dot_leaf) / dot_lanes;
constexpr int warps_a_block = threads_a_block / 32;
constexpr int leaves_a_warp = leaves_at_once / warps_a_block;
/// Sums of warps that are put aside before they are added up: those of 128 leaves.
constexpr int sums_aside = 32;
constexpr std::int64_t leaves_aside = sums_aside * leaves_a_warp;
/// Those of more columns are made in several passes over the rows.
constexpr int sums_at_once = 16;

/// What a program is run with.
template <class E>
struct RunView {
  const Program& program;
  const Vectors<E>& vectors;
  const StateRoom& room;
  const SumTable<E>& sums;
  const std::int32_t* rank;  ///< null, or whose rows and sums these are
  int levels;                ///< of the tree over the leaves of a block of the layout
  int chunk_levels;          ///< likewise of the leaves that a block of threads takes
};
/// Shared memory of a block of threads.
template <class E>
struct RunShared {
  SumOf<E> of_warps[sums_at_once * sums_aside];
  int slots[sums_at_once];
};

/// A rank's part of the sums. That of the only one takes no look at memory.
inline __device__ SumPart part_of(const krylov::SumLayout& layout, std::int64_t rank) {
  if (layout.ranks > 1) {
    return layout.part(rank);
  }
  const std::int64_t all[] = {0, layout.n};
  krylov::SumLayout alone = layout;
  alone.boundaries = all;
  return alone.part(0);
}

/// Whose rows and sums a call is about.
struct Place {
  std::int64_t rank;
  std::int64_t begin;
  std::int64_t end;
};
template <class E>
__device__ Place place_of(const RunView<E>& call) {
  if (call.rank != nullptr) {
    const std::int64_t rank = *call.rank;
    return {rank, call.sums.layout.boundaries[rank], call.sums.layout.boundaries[rank + 1]};
  }
  const std::int64_t begin = call.vectors.first_row;
  return {call.sums.rank, begin, begin + call.vectors.rows};
}

/// A coefficient in the precision of the vectors.
template <class Real>
struct Coefficient {
  Real re;
  Real im;

  explicit __device__ Coefficient(Number c)
      : re(static_cast<Real>(c.re)), im(static_cast<Real>(c.im)) {}
};

/// c a + b.
template <class E>
__device__ E combined(Coefficient<RealPart<E>> c, E a, E b) {
  if constexpr (parts<E> == 2) {
    return {fused_multiply_add(-c.im, a.im, fused_multiply_add(c.re, a.re, b.re)),
            fused_multiply_add(c.im, a.re, fused_multiply_add(c.re, a.im, b.im))};
  } else {
    return fused_multiply_add(c.re, a, b);
  }
}
template <class E>
__device__ E multiplied(RealPart<E> factor, E a) {
  if constexpr (parts<E> == 2) {
    return {factor * a.re, factor * a.im};
  } else {
    return factor * a;
  }
}
template <class E>
__device__ E difference(E a, E b) {
  if constexpr (parts<E> == 2) {
    return {a.re - b.re, a.im - b.im};
  } else {
    return a - b;
  }
}
template <class E>
__device__ E one() {
  if constexpr (parts<E> == 2) {
    return {1, 0};
  } else {
    return 1;
  }
}
/// Of a row, as krylov::random_number has them.
template <class E>
__device__ E random_element(std::int64_t stream, std::int64_t row) {
  using Real = RealPart<E>;
  const auto first = static_cast<Real>(krylov::random_number(2 * stream, row));
  if constexpr (parts<E> == 2) {
    return {first, static_cast<Real>(krylov::random_number(2 * stream + 1, row))};
  } else {
    return first;
  }
}

/// The rows of one thread in one leaf.
template <class E>
class ThreadRows {
 public:
  __device__ ThreadRows(const RunView<E>& call, const State& state, std::int64_t begin)
      : call_(call), state_(state), begin_(begin) {}

  /// Rows first, first + 8, ... of the rank, of which those with a bit in `valid` exist.
  __device__ void move_to(std::int64_t first, unsigned valid) {
    first_ = first;
    valid_ = valid;
    last_vector_ = -1;
  }

  __device__ bool has(int i) const { return (valid_ >> static_cast<unsigned>(i) & 1U) != 0; }

  /// From registers, if it was written last.
  __device__ void fetch(E (&numbers)[rows_a_thread], int vector) const {
    if (vector == last_vector_) {
#pragma unroll
      for (int i = 0; i < rows_a_thread; ++i) {
        numbers[i] = last_[i];
      }
    } else {
      load(numbers, call_.vectors.at(vector, state_));
    }
  }
  __device__ void fetch_column(E (&numbers)[rows_a_thread], int vector, std::int64_t k) const {
    load(numbers, call_.vectors.base[vector] + k * call_.vectors.stride[vector]);
  }

  __device__ void update(const Update& update) {
    using Real = RealPart<E>;
    const UpdateKind kind = update.kind;
    const bool is_random = kind == UpdateKind::random;
    const Coefficient<Real> c(is_random ? Number{} : state_.coefficient[update.coefficient]);
    E y[rows_a_thread] = {};
    E a[rows_a_thread];
    if (kind == UpdateKind::add_scaled || kind == UpdateKind::scale_add ||
        kind >= UpdateKind::add_random) {
      fetch(y, update.target);
    }
    switch (kind) {
      case UpdateKind::clear:
        break;
      case UpdateKind::copy:
        fetch(y, update.a);
        break;
      case UpdateKind::add_scaled:
        fetch(a, update.a);
#pragma unroll
        for (int i = 0; i < rows_a_thread; ++i) {
          y[i] = combined(c, a[i], y[i]);
        }
        break;
      case UpdateKind::scale_add:
        fetch(a, update.a);
#pragma unroll
        for (int i = 0; i < rows_a_thread; ++i) {
          y[i] = combined(c, y[i], a[i]);
        }
        break;
      case UpdateKind::scale:
        fetch(a, update.a);
#pragma unroll
        for (int i = 0; i < rows_a_thread; ++i) {
          y[i] = multiplied(c.re, a[i]);
        }
        break;
      case UpdateKind::subtract:
        fetch(y, update.b);
        fetch(a, update.a);
#pragma unroll
        for (int i = 0; i < rows_a_thread; ++i) {
          y[i] = difference(a[i], y[i]);
        }
        break;
      case UpdateKind::divide:
        fetch(y, update.a);
        if (call_.vectors.base[update.b] != nullptr) {
          fetch(a, update.b);
#pragma unroll
          for (int i = 0; i < rows_a_thread; ++i) {
            y[i] = quotient(y[i], a[i]);
          }
        }
        break;
      case UpdateKind::ones:
#pragma unroll
        for (int i = 0; i < rows_a_thread; ++i) {
          y[i] = one<E>();
        }
        break;
      case UpdateKind::random:
      case UpdateKind::add_random:
        add_random(y, is_random ? update.coefficient : state_.seed, c.re, is_random);
        break;
      case UpdateKind::add_columns:
      case UpdateKind::subtract_columns:
      case UpdateKind::add_weak_columns:
        add_columns(y, update.a, kind);
        break;
    }
    E* const target = call_.vectors.at(update.target, state_) + first_;
#pragma unroll
    for (int i = 0; i < rows_a_thread; ++i) {
      if (has(i)) {
        target[i * dot_lanes] = y[i];
      }
      last_[i] = y[i];
    }
    last_vector_ = update.target;
  }

  /// This lane's share of <x, y>.
  __device__ SumOf<E> lane_sum(const E (&x)[rows_a_thread], const E (&y)[rows_a_thread]) const {
    SumOf<E> sum{};
#pragma unroll
    for (int i = 0; i < rows_a_thread; ++i) {
      if (has(i)) {
        sum.multiply_add(reals(x[i]), reals(y[i]));
      }
    }
    return sum;
  }
  /// Rows of a leaf that is not whole on this rank go to its part as they are.
  __device__ void copy_loose(const SumPart& shape, E* part, const E (&x)[rows_a_thread],
                             const E (&y)[rows_a_thread]) const {
#pragma unroll
    for (int i = 0; i < rows_a_thread; ++i) {
      if (has(i)) {
        const std::int64_t at = shape.at_row(begin_ + first_ + i * dot_lanes);
        part[at] = x[i];
        part[at + shape.loose_rows()] = y[i];
      }
    }
  }

 private:
  __device__ void load(E (&numbers)[rows_a_thread], const E* vector) const {
    const E* const from = vector + first_;
#pragma unroll
    for (int i = 0; i < rows_a_thread; ++i) {
      numbers[i] = has(i) ? from[i * dot_lanes] : E{};
    }
  }

  __device__ void add_random(E (&y)[rows_a_thread], std::int64_t stream, RealPart<E> factor,
                             bool fresh) const {
#pragma unroll
    for (int i = 0; i < rows_a_thread; ++i) {
      const E number = random_element<E>(stream, begin_ + first_ + i * dot_lanes);
      if (fresh) {
        y[i] = number;
      } else if constexpr (parts<E> == 2) {
        y[i] = {fused_multiply_add(factor, number.re, y[i].re),
                fused_multiply_add(factor, number.im, y[i].im)};
      } else {
        y[i] = fused_multiply_add(factor, number, y[i]);
      }
    }
  }

  __device__ void add_columns(E (&y)[rows_a_thread], int vector, UpdateKind kind) const {
    for (std::int64_t k = 0; k < state_.columns; ++k) {
      const Number h = factor_of(kind, call_.room, k);
      const Coefficient<RealPart<E>> factor(
          kind == UpdateKind::subtract_columns ? krylov::negated(h) : h);
      E a[rows_a_thread];
      fetch_column(a, vector, k);
#pragma unroll
      for (int i = 0; i < rows_a_thread; ++i) {
        y[i] = combined(factor, a[i], y[i]);
      }
    }
  }

  const RunView<E>& call_;
  const State& state_;
  std::int64_t begin_;
  std::int64_t first_ = 0;
  unsigned valid_ = 0;
  E last_[rows_a_thread];
  int last_vector_ = -1;
};

/// The sums of one pass, from those of leaves to what the rank's part has.
template <class E>
class SumWriter {
 public:
  using Sum = SumOf<E>;

  __device__ SumWriter(const RunView<E>& call, std::int64_t rank, const SumPart& shape,
                       Sum* of_warps, int* slots)
      : call_(call),
        shape_(shape),
        own_parts_(call.sums.parts + (call.sums.layout.ranks > 1 && shape.begin < shape.end
                                          ? call.sums.offsets[rank]
                                          : 0)),
        of_warps_(of_warps),
        slots_(slots),
        block_leaves_(call.sums.layout.block_leaves) {}

  /// Number `s` of this pass, of this warp's leaves: all its threads.
  __device__ void take(int s, int slot, const ThreadRows<E>& rows, const E (&x)[rows_a_thread],
                       const E (&y)[rows_a_thread], std::int64_t leaf) {
    const bool is_whole = shape_.has_leaf(leaf);
    E* const part = part_of(slot);
    if (!is_whole) {
      rows.copy_loose(shape_, part, x, y);
    }
    Sum sum = rows.lane_sum(x, y);
    add_lanes_of_leaf(sum);
    const std::int64_t block = leaf >> call_.levels;
    const bool in_block = shape_.has_block(block);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (is_whole && lane % dot_lanes == 0 && (!in_block || block_leaves_ == 1)) {
      store_sum(sum,
                part + (in_block ? shape_.at_block(block) : shape_.at_leaf(leaf, block_leaves_)));
    }
    if (block_leaves_ == 1) {
      return;
    }
    add_partner(sum, dot_lanes);
    if (block_leaves_ == 2) {
      if (in_block && lane % (2 * dot_lanes) == 0) {
        store_sum(sum, part + shape_.at_block(block));
      }
      return;
    }
    add_partner(sum, 2 * dot_lanes);
    if (block_leaves_ == 4) {
      if (in_block && lane == 0) {
        store_sum(sum, part + shape_.at_block(block));
      }
      return;
    }
    if (lane == 0) {
      of_warps_[s * sums_aside + aside_ + static_cast<int>(threadIdx.x) / 32] = sum;
      slots_[s] = slot;
    }
  }

  __device__ void begin_pass() {
    aside_ = 0;
    for (auto& tree : trees_) {
      tree.begin();
    }
  }
  /// When this warp has taken its part of the leaves from `first` on, of `count` sums; `is_last`:
  /// of this pass. Each warp adds up some of the sums.
  __device__ void next(int count, std::int64_t first, bool is_last) {
    if (block_leaves_ <= leaves_a_warp) {
      return;
    }
    aside_ += warps_a_block;
    if (aside_ < sums_aside && !is_last) {
      return;
    }
    __syncthreads();
    const std::int64_t begin = first + leaves_at_once - aside_ * leaves_a_warp;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int tree = 0; tree < sums_at_once / warps_a_block; ++tree) {
      const int s = static_cast<int>(threadIdx.x) / 32 + tree * warps_a_block;
      if (s < count) {
        Sum sum = lane < aside_ ? of_warps_[s * sums_aside + lane] : Sum{};
#pragma unroll
        for (int together = 2; together <= sums_aside; together *= 2) {
          add_partner(sum, together / 2);
          if (block_leaves_ == together * leaves_a_warp && lane % together == 0 && lane < aside_) {
            store_block(slots_[s], (begin + lane * leaves_a_warp) >> call_.levels, sum);
          }
        }
        if (block_leaves_ > leaves_aside && lane == 0) {
          trees_[tree].push(sum);
          if (is_last) {
            store_block(slots_[s], begin >> call_.levels, trees_[tree].total());
          }
        }
      }
    }
    aside_ = 0;
    __syncthreads();  // what was put aside has been read
  }

 private:
  __device__ E* part_of(int slot) const { return own_parts_ + slot * shape_.length(); }
  __device__ void store_block(int slot, std::int64_t block, const Sum& sum) const {
    if (shape_.has_block(block)) {
      store_sum(sum, part_of(slot) + shape_.at_block(block));
    }
  }

  const RunView<E>& call_;
  const SumPart& shape_;
  E* own_parts_;
  Sum* of_warps_;
  int* slots_;
  std::int64_t block_leaves_;
  int aside_ = 0;
  SumTree<RealPart<E>, parts<E>> trees_[sums_at_once / warps_a_block];
};

/// How many sums the state asks for.
inline __device__ std::int64_t count_sums(const Program& program, const State& state) {
  std::int64_t count = 0;
  for (int d = 0; d < program.dots; ++d) {
    if ((program.dot[d].actions & state.actions) != 0) {
      count += program.dot[d].is_columns != 0 ? state.columns : 1;
    }
  }
  return count;
}

/// Chunks of the rank's leaves: number `number` and then every `step`-th, of `count`. The state is
/// not done. By all threads.
template <class E>
__device__ void run_chunks(const RunView<E>& call, const State& state, RunShared<E>& shared,
                           std::int64_t number, std::int64_t step, std::int64_t count) {
  const Program& program = call.program;
  const Place place = place_of(call);
  const std::int64_t sums = count_sums(program, state);
  const SumPart shape = program.dots > 0 ? part_of(call.sums.layout, place.rank) : SumPart{};
  SumWriter<E> writer(call, place.rank, shape, shared.of_warps, shared.slots);
  ThreadRows<E> rows(call, state, place.begin);
  const std::int64_t chunk = std::int64_t{1} << call.chunk_levels;
  const std::int64_t chunks_before =
      place.begin >> (call.chunk_levels + krylov::SumLayout::leaf_exponent);
  for (; number < count; number += step) {
    const std::int64_t first_leaf = (chunks_before + number) << call.chunk_levels;
    for (std::int64_t pass = 0; pass == 0 || pass < sums; pass += sums_at_once) {
      writer.begin_pass();
      for (std::int64_t first = first_leaf; first < first_leaf + chunk; first += leaves_at_once) {
        const std::int64_t leaf = first + static_cast<std::int64_t>(threadIdx.x) / dot_lanes;
        const std::int64_t row =
            leaf * dot_leaf + static_cast<std::int64_t>(threadIdx.x) % dot_lanes;
        unsigned valid = 0;
#pragma unroll
        for (int i = 0; i < rows_a_thread; ++i) {
          const std::int64_t at = row + i * dot_lanes;
          valid |= (place.begin <= at && at < place.end ? 1U : 0U) << static_cast<unsigned>(i);
        }
        rows.move_to(row - place.begin, valid);
        for (int u = 0; pass == 0 && u < program.updates; ++u) {
          if (krylov::is_asked_for(program.update[u], state)) {
            rows.update(program.update[u]);
          }
        }
        std::int64_t before = 0;
        for (int d = 0; d < program.dots; ++d) {
          const Dot& dot = program.dot[d];
          if ((dot.actions & state.actions) == 0) {
            continue;
          }
          const std::int64_t count = dot.is_columns != 0 ? state.columns : 1;
          const std::int64_t from = pass > before ? pass - before : 0;
          const std::int64_t to =
              pass + sums_at_once - before < count ? pass + sums_at_once - before : count;
          if (from < to) {
            E y[rows_a_thread];
            rows.fetch(y, dot.y);
            for (std::int64_t k = from; k < to; ++k) {
              E x[rows_a_thread];
              if (dot.is_columns != 0) {
                rows.fetch_column(x, dot.x, k);
              } else {
                rows.fetch(x, dot.x);
              }
              writer.take(static_cast<int>(before + k - pass), dot.slot + static_cast<int>(k), rows,
                          x, y, leaf);
            }
          }
          before += count;
        }
        if (sums > 0) {
          writer.next(static_cast<int>(sums - pass < sums_at_once ? sums - pass : sums_at_once),
                      first, first + leaves_at_once == first_leaf + chunk);
        }
      }
    }
  }
}

/// How the chunks of a layout are cut, and how many of them rows touch.
struct Chunks {
  int levels;  ///< as RunView has them
  int chunk_levels;
  std::int64_t count;
};
template <class E>
Chunks chunks_of(const Vectors<E>& vectors, const krylov::SumLayout& layout, bool has_dots,
                 bool has_unknown_rank) {
  using krylov::SumLayout;
  const int levels = SumLayout::exponent_of(layout.block_leaves);
  const int chunk_levels = has_dots ? std::max(levels_at_once, levels) : levels_at_once;
  const int row_levels = chunk_levels + SumLayout::leaf_exponent;
  // A rank that is not known here may begin anywhere in a chunk.
  const std::int64_t last_row =
      vectors.rows - 1 +
      (has_unknown_rank ? (std::int64_t{1} << row_levels) - 1 : vectors.first_row);
  const std::int64_t before = has_unknown_rank ? 0 : vectors.first_row >> row_levels;
  return {levels, chunk_levels, (last_row >> row_levels) + 1 - before};
}

}  // namespace shardsolve::runtime::cuda::krylov_run
