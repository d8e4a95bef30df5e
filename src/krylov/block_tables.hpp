/// Factored blocks as the kernels take them, while they are made on the host.
#pragma once

#include "runtime/krylov/block_factors.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace shardsolve::krylov {

/// The rows of a sparse factor that are solved for in one sweep.
template <Scalar T>
struct SweepRows {
  std::vector<std::int64_t> pointers{0};
  std::vector<std::int64_t> columns;
  std::vector<T> values;

  void end_row() { pointers.push_back(static_cast<std::int64_t>(columns.size())); }
};

template <Scalar T>
class BlockTables {
 public:
  explicit BlockTables(bool is_band) : is_band_(is_band) {}

  /// Appends a block of `size` rows; its sweeps are added to it.
  void begin_block(std::int64_t size) {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (size > most) {
      throw Error(ErrorKind::unsupported,
                  fmt::format("a block of {} rows given; at most {} are accepted: give more blocks",
                              size, most));
    }
    blocks_.push_back({.begin = rows_, .size = size});
    rows_ += size;
    largest_ = std::max(largest_, size);
    sweeps_ = 0;
  }

  /// `entries`: width for each row in ascending order of rows; `divisors`, `pivots`: one for each
  /// row, or none.
  void add_band_sweep(bool is_backward, std::int64_t width, const std::vector<T>& entries,
                      const std::vector<T>& divisors, const std::vector<std::int64_t>& pivots) {
    BlockSweep& sweep = add_sweep(is_backward, entries, divisors);
    sweep.width = width;
    widest_ = std::max(widest_, width);
    if (!pivots.empty()) {
      sweep.lists = append(pivots);
    }
  }

  /// Entries of a row have columns of rows that come before it in the sweep.
  void add_sparse_sweep(bool is_backward, const SweepRows<T>& rows, const std::vector<T>& divisors,
                        bool divides_before) {
    BlockSweep& sweep = add_sweep(is_backward, rows.values, divisors);
    sweep.divides_before = divides_before ? 1 : 0;
    const std::int64_t n = blocks_.back().size;
    std::vector<std::int64_t> level(index(n), 0);
    std::int64_t levels = 0;
    for (std::int64_t step = 0; step < n; ++step) {
      const std::int64_t row = is_backward ? n - 1 - step : step;
      for (std::int64_t k = rows.pointers[index(row)]; k < rows.pointers[index(row + 1)]; ++k) {
        level[index(row)] = std::max(level[index(row)], level[index(rows.columns[index(k)])] + 1);
      }
      levels = std::max(levels, level[index(row)] + 1);
    }
    std::vector<std::int64_t> begins(index(levels + 1), 0);
    for (const std::int64_t of_row : level) {
      ++begins[index(of_row + 1)];
    }
    for (std::int64_t at = 0; at < levels; ++at) {
      begins[index(at + 1)] += begins[index(at)];
    }
    std::vector<std::int64_t> next(begins.begin(), begins.end() - 1);
    std::vector<std::int64_t> ordered(index(n));
    for (std::int64_t row = 0; row < n; ++row) {
      ordered[index(next[index(level[index(row)])]++)] = row;
    }
    sweep.levels = levels;
    sweep.lists = append(rows.pointers);
    append(ordered);
    append(begins);
    append(rows.columns);
  }

  const std::vector<FactoredBlock>& blocks() const { return blocks_; }
  const std::vector<T>& numbers() const { return numbers_; }
  const std::vector<std::int32_t>& lists() const { return lists_; }
  /// Of all blocks.
  std::int64_t rows() const { return rows_; }

  /// With memory that has copies of blocks(), numbers() and lists(); or with these.
  BlockFactors<T> factors(const FactoredBlock* blocks, const T* numbers,
                          const std::int32_t* lists) const {
    return {.is_band = is_band_,
            .count = static_cast<std::int64_t>(blocks_.size()),
            .largest = largest_,
            .widest = widest_,
            .entries = static_cast<std::int64_t>(numbers_.size()),
            .blocks = blocks,
            .numbers = numbers,
            .lists = lists};
  }
  BlockFactors<T> factors() const {
    return factors(blocks_.data(), numbers_.data(), lists_.data());
  }

 private:
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

  BlockSweep& add_sweep(bool is_backward, const std::vector<T>& entries,
                        const std::vector<T>& divisors) {
    BlockSweep& sweep = blocks_.back().sweeps[sweeps_++];
    sweep.is_backward = is_backward ? 1 : 0;
    sweep.entries = static_cast<std::int64_t>(numbers_.size());
    numbers_.insert(numbers_.end(), entries.begin(), entries.end());
    if (!divisors.empty()) {
      sweep.divisors = static_cast<std::int64_t>(numbers_.size());
      numbers_.insert(numbers_.end(), divisors.begin(), divisors.end());
    }
    return sweep;
  }
  std::int64_t append(const std::vector<std::int64_t>& list) {
    const auto begin = static_cast<std::int64_t>(lists_.size());
    for (const std::int64_t value : list) {
      if (value > std::numeric_limits<std::int32_t>::max()) {
        throw Error(ErrorKind::unsupported,
                    "a block of more than 2^31 - 1 entries given: give more blocks");
      }
      lists_.push_back(static_cast<std::int32_t>(value));
    }
    return begin;
  }

  bool is_band_;
  std::int64_t rows_ = 0;
  std::int64_t largest_ = 0;
  std::int64_t widest_ = 0;
  int sweeps_ = 0;
  std::vector<FactoredBlock> blocks_;
  std::vector<T> numbers_;
  std::vector<std::int32_t> lists_;
};

}  // namespace shardsolve::krylov
