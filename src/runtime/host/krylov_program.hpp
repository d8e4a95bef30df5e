/// What a program of a Krylov solve does to rows on the CPU, and the end of its sums, in the
/// caller's thread.
#pragma once

#include "runtime/krylov/program.hpp"
#include "runtime/krylov/state.hpp"
#include "runtime/krylov/sum_layout.hpp"

#include <shardsolve/dtype.hpp>

#include <cstdint>

namespace shardsolve::runtime::host {

/// Pieces of a rank's rows that programs may take in any order, or at the same time: each has
/// whole blocks of the sums, but for those that the rank shares.
class RowPieces {
 public:
  /// A piece has at least so many: what it costs to hand one to a thread is little beside it.
  static constexpr std::int64_t least_rows = 16384;

  /// `first_row`: of the whole vector.
  RowPieces(const krylov::SumLayout& layout, std::int64_t first_row, std::int64_t rows);

  std::int64_t count() const { return count_; }
  /// Counted from the rank's first row.
  std::int64_t begin(std::int64_t piece) const;

 private:
  std::int64_t first_row_;
  std::int64_t rows_;
  std::int64_t size_;
  std::int64_t count_;
};

// Both do nothing if the state is done.

/// The rank's rows from `begin` to `end`, bounds of RowPieces.
template <Scalar T>
void run_program(const krylov::Program& program, const krylov::Vectors<T>& vectors,
                 const krylov::State& state, const krylov::StateRoom& room,
                 const krylov::SumTable<T>& sums, std::int64_t begin, std::int64_t end);

/// Adds the parts of all ranks and takes the step.
template <Scalar T>
void finish_reduction(const krylov::Problem& problem, int reduction,
                      const krylov::SumTable<T>& sums, krylov::State& state,
                      const krylov::StateRoom& room);

}  // namespace shardsolve::runtime::host
