/// A program of a Krylov solve whose shape is known here, in a round that is as usual: the rows of
/// all its vectors at once, each read and written once, no list to be read. Compiled with
/// --fmad=false: what is fused is written so.
///
/// A leaf has eight threads, as in run.cuh; a warp has leaves that follow each other, so that it
/// adds up its part of a chunk by itself.
#pragma once

#include "runtime/cuda/kernels/krylov/run.cuh"
#include "runtime/krylov/shape.hpp"

#include <cstdint>

namespace shardsolve::runtime::cuda::krylov_run {

using krylov::Known;
using krylov::Shape;
using krylov::shapes;

/// Shared memory of a block of threads.
template <class E>
struct KnownShared {
  /// Of a tree of so many levels for each warp and sum: a chunk has 2^(levels + 4) leaves at most.
  static constexpr int max_levels = 16;
  static constexpr int max_sums = 4;
  static_assert(Shape::max_sums <= max_sums);

  SumOf<E> waiting[max_levels * max_sums * warps_a_block];
  SumOf<E> of_warps[2][max_sums * warps_a_block];
};

/// The same, as the compiler cannot know.
template <class E>
__device__ E* in_global_memory(E* place) {
#if defined(__CUDA_ARCH__)
  __builtin_assume(__isGlobal(place));
#endif
  return place;
}

/// A read that caches need not keep. (Writes of that kind leave before their line is full: they
/// take twice as long.)
template <class E>
__device__ E load_passing(const E* place) {
#if defined(__CUDA_ARCH__)
  if constexpr (parts<E> == 2 && sizeof(E) == 16) {
    const double2 pair = __ldcs(reinterpret_cast<const double2*>(place));
    return {pair.x, pair.y};
  } else if constexpr (parts<E> == 2) {
    const float2 pair = __ldcs(reinterpret_cast<const float2*>(place));
    return {pair.x, pair.y};
  } else {
    return __ldcs(place);
  }
#else
  return *place;
#endif
}
/// The rows of one thread of the program whose shape has this number.
template <class E, int number>
class KnownRows {
  static constexpr Shape shape = shapes[number];
  /// Rows at once: what registers have room for.
  static constexpr int at_once = sizeof(E) == 16 ? 2 : sizeof(E) == 8 ? 4 : rows_a_thread;

 public:
  static constexpr int sums = shape.sums;
  using Sums = SumOf<E>[shape.sums > 0 ? shape.sums : 1];

  __device__ KnownRows(const RunView<E>& call, const Known& known, const State& state) {
#pragma unroll
    for (int v = 0; v < shape.vectors; ++v) {
      base_[v] = in_global_memory(call.vectors.at(known.vector[v], state));
    }
#pragma unroll
    for (int u = 0; u < shape.updates; ++u) {
      c_[u] = state.coefficient[known.coefficient[u]];
    }
  }

  /// Rows first, first + 8, ... of the rank, of which `left` exist from the first one on.
  template <bool is_ragged>
  __device__ void take(std::int64_t first, std::int64_t left, Sums& lane_sums) const {
#pragma unroll
    for (auto& sum : lane_sums) {
      sum = {};
    }
    // Half the code, and cg with 64^3 rows takes 52 us an iteration instead of 60.
#pragma unroll 1
    for (int begin = 0; begin < rows_a_thread; begin += at_once) {
      Rows rows{first + begin * dot_lanes, is_ragged ? left - begin * dot_lanes : 0, {}};
      load_rows<is_ragged, 0>(rows);
      update<is_ragged, 0>(rows);
      add<is_ragged, 0>(rows, lane_sums);
    }
  }

 private:
  struct Rows {
    std::int64_t first;
    std::int64_t left;
    E v[shape.vectors][at_once];
  };
  template <bool is_ragged>
  static __device__ bool has(const Rows& rows, int i) {
    return !is_ragged || i * dot_lanes < rows.left;
  }

  template <int vector>
  static __device__ E load(const E* place) {
    if constexpr ((shape.passing >> vector & 1U) != 0) {
      return load_passing(place);
    } else {
      return *place;
    }
  }
  template <bool is_ragged, int vector>
  __device__ void load_rows(Rows& rows) const {
    if constexpr (vector < shape.vectors) {
      if constexpr (shape.is_loaded(vector)) {
        const E* const from = base_[vector] + rows.first;
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
          rows.v[vector][i] = has<is_ragged>(rows, i) ? load<vector>(from + i * dot_lanes) : E{};
        }
      }
      load_rows<is_ragged, vector + 1>(rows);
    }
  }

  template <bool is_ragged, int at>
  __device__ void update(Rows& rows) const {
    if constexpr (at < shape.updates) {
      constexpr Shape::Update one = shape.update[at];
      constexpr bool is_stored = shape.is_stored(at);
      const Coefficient<RealPart<E>> c(c_[at]);
      E* const to = base_[one.target] + rows.first;
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        E& y = rows.v[one.target][i];
        y = updated<one.kind>(c, y, rows.v[one.a][i], rows.v[one.b][i]);
        if (is_stored && has<is_ragged>(rows, i)) {
          to[i * dot_lanes] = y;
        }
      }
      update<is_ragged, at + 1>(rows);
    }
  }
  template <UpdateKind kind>
  static __device__ E updated(Coefficient<RealPart<E>> c, E y, E a, E b) {
    if constexpr (kind == UpdateKind::clear) {
      return {};
    } else if constexpr (kind == UpdateKind::copy) {
      return a;
    } else if constexpr (kind == UpdateKind::add_scaled) {
      return combined(c, a, y);
    } else if constexpr (kind == UpdateKind::scale_add) {
      return combined(c, y, a);
    } else if constexpr (kind == UpdateKind::scale) {
      return multiplied(c.re, a);
    } else if constexpr (kind == UpdateKind::subtract) {
      return difference(a, b);
    } else {
      static_assert(kind == UpdateKind::divide);
      return quotient(a, b);
    }
  }

  template <bool is_ragged, int at>
  __device__ void add(const Rows& rows, Sums& lane_sums) const {
    if constexpr (at < shape.sums) {
      constexpr Shape::Sum one = shape.sum[at];
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        if (has<is_ragged>(rows, i)) {
          lane_sums[at].multiply_add(reals(rows.v[one.x][i]), reals(rows.v[one.y][i]));
        }
      }
      add<is_ragged, at + 1>(rows, lane_sums);
    }
  }

  E* base_[shape.vectors];
  Number c_[shape.updates > 0 ? shape.updates : 1];
};

/// The sums of a chunk, from those of lanes to what the rank's part has.
template <class E, int count>
class KnownSums {
 public:
  using Sum = SumOf<E>;

  __device__ KnownSums(const RunView<E>& call, const Known& known, std::int64_t rank,
                       const SumPart& shape, KnownShared<E>& shared)
      : call_(call),
        known_(known),
        shape_(shape),
        own_parts_(in_global_memory(
            call.sums.parts +
            (call.sums.layout.ranks > 1 && shape.begin < shape.end ? call.sums.offsets[rank] : 0))),
        shared_(shared),
        levels_(call.chunk_levels - levels_at_once) {
    // Of each leaf's threads one has each slot.
    const int slot = lane() % dot_lanes;
    if (slot < known.slots) {
      sum_of_slot_ = known.sum_of[slot];
      own_slot_ = own_parts_ + known.slot[slot] * shape.length();
    }
  }

  /// Those of this warp's leaves; this one's is `leaf`. `step`: of 2^levels.
  __device__ void take(Sum (&sums)[count], std::int64_t leaf, std::int64_t step) {
#pragma unroll
    for (int distance = dot_lanes / 2; distance > 0; distance /= 2) {
      add_partners(sums, distance);
    }
    store_at(0, sums, leaf);
#pragma unroll
    for (int level = 1; level <= 2; ++level) {
      add_partners(sums, dot_lanes << (level - 1));
      store_at(level, sums, leaf);
    }
    // Lane s goes on with sum s.
#pragma unroll
    for (int s = 0; s < count; ++s) {
      mine_ = lane() == s || s == 0 ? sums[s] : mine_;
    }
    if (levels_ > 0 && lane() < count) {
      int level = 0;
      for (std::int64_t pairs = step; (pairs & 1) != 0; pairs >>= 1) {
        Sum left = waiting(level++);
        left.add(mine_);
        mine_ = left;
      }
      waiting(level) = mine_;
    }
  }

  /// When all warps have taken theirs of the chunk that begins with leaf `first`. All threads.
  __device__ void end_chunk(std::int64_t first) {
    constexpr int levels_a_warp = 2;
    if (call_.levels <= levels_a_warp) {
      return;
    }
    if (lane() < count) {
      shared_.of_warps[turn_][lane() * warps_a_block + warp()] = mine_;
    }
    __syncthreads();
    if (warp() == 0) {
      const int s = lane() / warps_a_block;
      const int from = lane() % warps_a_block;
      Sum sum = s < count ? shared_.of_warps[turn_][lane()] : Sum{};
#pragma unroll
      for (int level = 1; 1 << level <= warps_a_block; ++level) {
        add_partner(sum, 1 << (level - 1));
        if (call_.levels == levels_a_warp + levels_ + level && from % (1 << level) == 0) {
          const std::int64_t leaf = first + (std::int64_t{from} << (levels_a_warp + levels_));
          store(s, leaf >> call_.levels, sum);
        }
      }
    }
    turn_ ^= 1;
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ Sum& waiting(int level) {
    return shared_.waiting[(level * warps_a_block + warp()) * KnownShared<E>::max_sums + lane()];
  }
  static __device__ void add_partners(Sum (&sums)[count], int distance) {
#pragma unroll
    for (int s = 0; s < count; ++s) {
      add_partner(sums[s], distance);
    }
  }
  /// Blocks of the layout with 2^level leaves.
  __device__ void store_at(int level, const Sum (&sums)[count], std::int64_t leaf) {
    const std::int64_t block = leaf >> level;
    if (call_.levels == level && lane() % (dot_lanes << level) < dot_lanes && sum_of_slot_ >= 0 &&
        shape_.has_block(block)) {
      Sum sum = sums[0];
#pragma unroll
      for (int s = 1; s < count; ++s) {
        sum = sum_of_slot_ == s ? sums[s] : sum;
      }
      store_sum(sum, own_slot_ + shape_.at_block(block));
    }
  }
  __device__ void store(int s, std::int64_t block, const Sum& sum) {
    if (shape_.has_block(block)) {
      for (int k = 0; k < known_.slots; ++k) {
        if (known_.sum_of[k] == s) {
          store_sum(sum, own_parts_ + known_.slot[k] * shape_.length() + shape_.at_block(block));
        }
      }
    }
  }

  const RunView<E>& call_;
  const Known& known_;
  const SumPart& shape_;
  E* own_parts_;
  KnownShared<E>& shared_;
  int levels_;
  int sum_of_slot_ = -1;
  E* own_slot_ = nullptr;
  int turn_ = 0;
  Sum mine_{};
};

/// Chunks of a call, by their numbers.
template <class E>
class ChunkPlaces {
 public:
  __device__ ChunkPlaces(const RunView<E>& call, std::int64_t count)
      : place_(place_of(call)),
        levels_(call.chunk_levels + krylov::SumLayout::leaf_exponent),
        before_(place_.begin >> levels_),
        count_(count),
        from_end_(call.program.from_end != 0),
        is_last_(place_.end == call.sums.layout.n) {}

  const __device__ Place& place() const { return place_; }
  /// The one that comes at this turn.
  __device__ std::int64_t number(std::int64_t turn) const {
    return from_end_ ? count_ - 1 - turn : turn;
  }
  /// Rows of the whole vector.
  __device__ std::int64_t begin(std::int64_t number) const { return (before_ + number) << levels_; }
  __device__ bool is_whole(std::int64_t number) const { return begin(number + 1) <= place_.end; }
  /// Whether all leaves and blocks that begin in it are whole on the rank, which has rows of it.
  __device__ bool is_own(std::int64_t number) const {
    return begin(number) >= place_.begin && begin(number) < place_.end &&
           (is_last_ || is_whole(number));
  }
  /// Or some rows are another rank's.
  __device__ bool is_shared(std::int64_t number) const {
    return begin(number) < place_.end && !is_own(number);
  }

 private:
  Place place_;
  int levels_;
  std::int64_t before_;
  std::int64_t count_;
  bool from_end_;
  bool is_last_;
};

/// As run_chunks, without those of which other ranks have rows.
template <class E, int number>
__device__ void run_known_chunks(const RunView<E>& call, const Known& known, const State& state,
                                 KnownShared<E>& shared, std::int64_t first_chunk,
                                 std::int64_t step, std::int64_t count) {
  using Rows = KnownRows<E, number>;
  constexpr int count_of_sums = Rows::sums;
  const ChunkPlaces<E> chunks(call, count);
  const Place& place = chunks.place();
  const SumPart shape = count_of_sums > 0 ? part_of(call.sums.layout, place.rank) : SumPart{};
  const Rows rows(call, known, state);
  KnownSums<E, (count_of_sums > 0 ? count_of_sums : 1)> writer(call, known, place.rank, shape,
                                                               shared);
  const int steps = 1 << (call.chunk_levels - levels_at_once);
  const int thread = static_cast<int>(threadIdx.x);
  const int leaf_of_warp = thread / 32 * leaves_a_warp * steps + thread % 32 / dot_lanes;
  for (std::int64_t turn = first_chunk; turn < count; turn += step) {
    const std::int64_t chunk = chunks.number(turn);
    if (!chunks.is_own(chunk)) {
      continue;
    }
    const bool is_whole = chunks.is_whole(chunk);
    const std::int64_t first_leaf = chunks.begin(chunk) >> krylov::SumLayout::leaf_exponent;
    for (int part = 0; part < steps; ++part) {
      const std::int64_t leaf = first_leaf + leaf_of_warp + part * leaves_a_warp;
      const std::int64_t row = leaf * dot_leaf + thread % dot_lanes;
      typename Rows::Sums sums;
      if (is_whole) {
        rows.template take<false>(row - place.begin, 0, sums);
      } else {
        rows.template take<true>(row - place.begin, place.end - row, sums);
      }
      if constexpr (count_of_sums > 0) {
        writer.take(sums, leaf, part);
      }
    }
    if constexpr (count_of_sums > 0) {
      writer.end_chunk(first_leaf);
    }
  }
}

/// The one of its shape.
template <class E, int number = 0>
__device__ void run_known(const RunView<E>& call, const Known& known, const State& state,
                          KnownShared<E>& shared, std::int64_t first_chunk, std::int64_t step,
                          std::int64_t count) {
  if constexpr (number < krylov::count_of_shapes) {
    if (known.shape == number) {
      run_known_chunks<E, number>(call, known, state, shared, first_chunk, step, count);
    } else {
      run_known<E, number + 1>(call, known, state, shared, first_chunk, step, count);
    }
  }
}

}  // namespace shardsolve::runtime::cuda::krylov_run
