/// The tasks in which a band becomes tridiagonal, and what each of them touches.
///
/// Sweep s makes column s tridiagonal and chases the bulge that this makes down the band: its task
/// k works in the rows [s + 1 + k b, ...) of a block of at most b rows, b the bandwidth. It
///   1. applies from the right to the block of these rows and those of the task before the
///      reflector that that task has made: put off until now, so that a task needs no rows below
///      its own;
///   2. makes a reflector of the block's first column (of column s for k = 0) and applies it from
///      the left;
///   3. applies it from both sides to the triangle of its rows on the diagonal.
/// Task (s, k) comes after (s, k - 1) and after (s - 1, k + 1). So the tasks of a wave, which is
/// number 2 s + k, may run in any order or side by side: no two of them touch the same entry. More
/// than that: tasks of earlier sweeps in later waves work further down, so once all sweeps before
/// some are through the waves before w, those sweeps may go through these waves while the others go
/// on; they share no column of the band.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace shardsolve::runtime {

struct ChaseTask {
  std::int64_t sweep = 0;
  std::int64_t number = 0;  ///< within the sweep
  std::int64_t row = 0;     ///< the first of its rows
  std::int64_t rows = 0;
  std::int64_t column = 0;  ///< the first column of its block beside the diagonal
  std::int64_t columns = 0;

  std::int64_t wave() const { return 2 * sweep + number; }
};

/// Sizes of the chase of a Hermitian band matrix.
struct Chase {
  std::int64_t size = 0;
  std::int64_t bandwidth = 1;
  bool is_complex = false;

  /// Of a complex matrix the last sweeps have reflectors of one number, which make the
  /// off-diagonal real.
  std::int64_t sweeps() const { return std::max<std::int64_t>(size - (is_complex ? 1 : 2), 0); }
  std::int64_t tasks(std::int64_t sweep) const {
    return (size - 1 - sweep + bandwidth - 1) / bandwidth;
  }
  ChaseTask task(std::int64_t sweep, std::int64_t number) const {
    const std::int64_t row = sweep + 1 + number * bandwidth;
    return {.sweep = sweep,
            .number = number,
            .row = row,
            .rows = std::min(bandwidth, size - row),
            .column = number == 0 ? sweep : row - bandwidth,
            .columns = number == 0 ? 1 : bandwidth};
  }
};

/// Consecutive waves, [begin, end).
struct WaveRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Consecutive sweeps, whose reflectors are kept together: of task k of sweep first + j in column
/// k count + j of a matrix of bandwidth + 1 rows. First comes tau, then v with its leading 1, then
/// zeros; where there is no such task all is zero.
struct SweepGroup {
  std::int64_t first = 0;
  std::int64_t count = 0;

  std::int64_t columns(const Chase& chase) const {
    return count == 0 ? 0 : chase.tasks(first) * count;
  }
  /// All waves with a task of one of these sweeps, of which there is one.
  WaveRange waves(const Chase& chase) const {
    const std::int64_t last = first + count - 1;
    return {2 * first, 2 * last + chase.tasks(last)};
  }
  /// The tasks of one of the sweeps that belong to some waves: numbers from the first to before the
  /// second.
  static std::pair<std::int64_t, std::int64_t> numbers(const Chase& chase, std::int64_t sweep,
                                                       const WaveRange& waves) {
    const std::int64_t begin = std::max<std::int64_t>(waves.begin - 2 * sweep, 0);
    return {begin, std::max(begin, std::min(waves.end - 2 * sweep, chase.tasks(sweep)))};
  }
  std::int64_t tasks(const Chase& chase, const WaveRange& waves) const {
    std::int64_t sum = 0;
    for (std::int64_t sweep = first; sweep < first + count; ++sweep) {
      const auto [begin, end] = numbers(chase, sweep, waves);
      sum += end - begin;
    }
    return sum;
  }
};

}  // namespace shardsolve::runtime
