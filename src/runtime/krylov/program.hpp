/// What a fused vector kernel does: updates row by row, then partial sums, each heeding the actions
/// of the state. A POD, so that it may be a kernel's argument.
#pragma once

#include "runtime/krylov/state.hpp"
#include "runtime/krylov/sum_layout.hpp"

#include <algorithm>
#include <cstdint>

namespace shardsolve::krylov {

/// With y the target, a and b the operands, c the coefficient.
enum class UpdateKind : std::uint8_t {
  clear,             ///< y = 0
  copy,              ///< y = a
  add_scaled,        ///< y = c a + y
  scale_add,         ///< y = c y + a
  scale,             ///< y = c a
  subtract,          ///< y = a - b
  divide,            ///< y = a / b row by row, or a if vector b is not there
  ones,              ///< y = 1
  random,            ///< y = random numbers in [-1, 1), of stream `coefficient`
  add_random,        ///< y = y + c (random numbers of the stream state.seed)
  add_columns,       ///< y = y + sum of h_k a_k, k < state.columns, h the room's column_factors
  subtract_columns,  ///< y = y - sum of h_k a_k
  add_weak_columns,  ///< y = y + sum of h_k a_k, h the room's weak_factors
};

/// h_k of an update over columns, as it is stored.
SHARDSOLVE_HOST_DEVICE inline Number factor_of(UpdateKind kind, const StateRoom& room,
                                               std::int64_t k) {
  return (kind == UpdateKind::add_weak_columns ? room.weak_factors : room.column_factors)[k];
}

/// A flag of the state because of which an update is left out.
enum class Unless : std::uint8_t { never, skip_preconditioner, skip_second_preconditioner };

struct Update {
  std::uint32_t actions = 0;  ///< done if the state has one of these
  UpdateKind kind{};
  std::uint8_t target = 0;  ///< numbers of vectors
  std::uint8_t a = 0;
  std::uint8_t b = 0;
  std::uint8_t coefficient = 0;
  Unless unless = Unless::never;
};

SHARDSOLVE_HOST_DEVICE inline bool is_asked_for(const Update& update, const State& state) {
  const std::int32_t skip = update.unless == Unless::never ? 0
                            : update.unless == Unless::skip_preconditioner
                                ? state.skip_preconditioner
                                : state.skip_second_preconditioner;
  return (update.actions & state.actions) != 0 && skip == 0;
}

/// Sum number `slot` += <x, y>, with `is_columns` sums slot, slot + 1, ... of <x_k, y>.
struct Dot {
  std::uint32_t actions = 0;
  std::uint8_t x = 0;
  std::uint8_t y = 0;
  std::uint8_t is_columns = 0;
  std::int32_t slot = 0;
};

/// A kernel: the updates in turn, then the sums. Of a reduction with several kernels each has slots
/// of its own.
struct Program {
  static constexpr int most = 16;
  const char* name = "";
  int updates = 0;
  int dots = 0;
  /// Of the state in most rounds: what GPUs have code of its own for (runtime/krylov/shape.hpp).
  std::uint32_t usual = 0;
  /// GPUs begin with the last rows, which the kernel before has had last.
  std::int32_t from_end = 0;
  Update update[most];
  Dot dot[most];

  Program& then(Update one) {
    update[updates++] = one;
    return *this;
  }
  Program& usually(std::uint32_t actions, bool begins_at_end = false) {
    usual = actions;
    from_end = begins_at_end ? 1 : 0;
    return *this;
  }
  Program& sum(Dot one) {
    dot[dots++] = one;
    return *this;
  }
  bool makes_sum(int slot) const {
    return std::any_of(dot, dot + dots, [&](const Dot& one) {
      return one.slot == slot || (one.is_columns != 0 && one.slot < slot);
    });
  }
};

/// Which column of a matrix a number stands for: none, state.column, or the one behind.
enum class Column : std::uint8_t { none, current, next };

/// The vectors of one rank by number; vector v begins at base[v], or is a column of the matrix that
/// begins there.
template <class T>
struct Vectors {
  static constexpr int most = 20;
  /// Of a preconditioner, if it has one; no method has a vector of this number.
  static constexpr int diagonal = most - 1;
  using Column = krylov::Column;

  std::int64_t first_row = 0;  ///< of the whole vector
  std::int64_t rows = 0;
  T* base[most] = {};
  std::int64_t stride[most] = {};  ///< between columns
  Column column[most] = {};

  SHARDSOLVE_HOST_DEVICE T* at(int vector, const State& state) const {
    const std::int64_t shift = column[vector] == Column::none      ? 0
                               : column[vector] == Column::current ? state.column
                                                                   : state.column + 1;
    return base[vector] + shift * stride[vector];
  }
};

/// Sums of one reduction: where the ranks' parts lie.
template <class T>
struct SumTable {
  SumLayout layout;
  std::int64_t rank = 0;
  int slots = 0;
  int fixed = 0;                          ///< slots that are no sums over columns; those follow
  T* parts = nullptr;                     ///< of all ranks
  const std::int64_t* offsets = nullptr;  ///< ranks + 1: where each rank's begins

  /// Rank r's last element is not 0 if that rank was asked to stop.
  static std::int64_t length(const SumPart& part, int slots) { return slots * part.length() + 1; }
};

/// Weyl's sequence through a mixer (splitmix64; G. L. Steele, D. Lea, C. H. Flood, OOPSLA 2014):
/// the same number for a row on any rank.
SHARDSOLVE_HOST_DEVICE inline double random_number(std::int64_t stream, std::int64_t row) {
  std::uint64_t z = static_cast<std::uint64_t>(stream) * 0xD1342543DE82EF95ULL +
                    (static_cast<std::uint64_t>(row) + 1) * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  z ^= z >> 31U;
  return static_cast<double>(z >> 11U) * 0x1p-52 - 1.0;
}

}  // namespace shardsolve::krylov
