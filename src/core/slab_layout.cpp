#include <shardsolve/error.hpp>
#include <shardsolve/slab_layout.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace shardsolve {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b == 0 ? 0 : 1); }

[[noreturn]] void reject(const std::string& message) {
  throw Error(ErrorKind::invalid_argument, message);
}

void require_size(std::int64_t n) {
  if (n < 0 || n > SlabLayout::largest_size) {
    reject(fmt::format("matrix size {} given; sizes are 0 to {}", n, SlabLayout::largest_size));
  }
}

}  // namespace

SlabLayout SlabLayout::even(std::int64_t n, std::int64_t ranks, std::int64_t tile) {
  require_size(n);
  if (ranks < 1) {
    reject(fmt::format("{} ranks given; at least 1 is needed", ranks));
  }
  std::vector<std::int64_t> boundaries(static_cast<std::size_t>(ranks) + 1, 0);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    boundaries[r + 1] = boundaries[r] + n / ranks + (rank < n % ranks ? 1 : 0);
  }
  return {std::move(boundaries), tile};
}

SlabLayout::SlabLayout(std::vector<std::int64_t> boundaries, std::int64_t tile)
    : boundaries_(std::move(boundaries)), tile_(tile) {
  if (tile < 1) {
    reject(fmt::format("tile size {} given; tiles have at least 1 column", tile));
  }
  if (boundaries_.size() < 2 || boundaries_.front() != 0 ||
      !std::is_sorted(boundaries_.begin(), boundaries_.end())) {
    reject(fmt::format("slab boundaries [{}] given; they start at 0, never fall and end at n",
                       fmt::join(boundaries_, ", ")));
  }
  require_size(boundaries_.back());
  tile_ = std::min(tile, std::max<std::int64_t>(max_width(), 1));
  const std::int64_t rounds = ceil_div(max_width(), tile_);
  std::int64_t rows_before = 0;
  for (std::int64_t index = 0; index < rounds; ++index) {
    for (std::int64_t rank = 0; rank < ranks(); ++rank) {
      const std::int64_t left = width(rank) - index * tile_;
      if (left > 0) {
        blocks_.push_back({rank, index, rows_before});
        rows_before += std::min(left, tile_);
      }
    }
  }
}

GlobalRange SlabLayout::segment(std::int64_t rank) const {
  if (rank < 0 || rank >= ranks()) {
    detail::throw_bad_rank(rank, ranks());
  }
  const auto r = static_cast<std::size_t>(rank);
  return {GlobalIndex(boundaries_[r]), GlobalIndex(boundaries_[r + 1])};
}

std::int64_t SlabLayout::max_width() const {
  std::int64_t widest = 0;
  for (std::int64_t rank = 0; rank < ranks(); ++rank) {
    widest = std::max(widest, width(rank));
  }
  return widest;
}

std::int64_t SlabLayout::owner(GlobalIndex column) const {
  // The last boundary at or below the column; empty slabs share one boundary and own nothing.
  const auto after = std::upper_bound(boundaries_.begin(), boundaries_.end(), column.value());
  return after - boundaries_.begin() - 1;
}

const SlabLayout::Block& SlabLayout::block(Step step) const {
  if (step.value() < 0 || step.value() >= steps()) {
    reject(
        fmt::format("step {} asked for; the layout has steps 0 to {}", step.value(), steps() - 1));
  }
  return blocks_[static_cast<std::size_t>(step.value())];
}

LocalRange SlabLayout::columns(Step step) const {
  const Block& b = block(step);
  const std::int64_t begin = b.index * tile_;
  return {LocalIndex(begin), LocalIndex(std::min(begin + tile_, width(b.rank)))};
}

GlobalRange SlabLayout::rows(Step step) const {
  const LocalRange local = columns(step);
  return {global(owner(step), local.begin), global(owner(step), local.end)};
}

Step SlabLayout::next_owned(std::int64_t rank, Step step) const {
  while (step.value() < steps() && owner(step) != rank) {
    ++step;
  }
  return step;
}

LocalIndex SlabLayout::eliminated(std::int64_t rank, Step step) const {
  if (step.value() >= steps()) {
    return LocalIndex(width(rank));
  }
  const Block& b = block(step);
  const std::int64_t blocks = b.index + (rank < b.rank ? 1 : 0);
  return LocalIndex(std::min(blocks * tile_, width(rank)));
}

std::int64_t SlabLayout::eliminated(Step step) const {
  return step.value() >= steps() ? size() : block(step).rows_before;
}

std::vector<RowRun> SlabLayout::rows_from(Step step) const {
  std::vector<RowRun> runs;
  std::int64_t packed = 0;
  for (std::int64_t rank = 0; rank < ranks(); ++rank) {
    const GlobalRange rows{global(rank, eliminated(rank, step)), segment(rank).end};
    runs.push_back({rank, rows, packed});
    packed += rows.size();
  }
  return runs;
}

std::vector<RowRun> SlabLayout::rows_before(Step step) const {
  std::vector<RowRun> runs;
  std::int64_t packed = 0;
  for (std::int64_t rank = 0; rank < ranks(); ++rank) {
    const GlobalRange rows{segment(rank).begin, global(rank, eliminated(rank, step))};
    runs.push_back({rank, rows, packed});
    packed += rows.size();
  }
  return runs;
}

Position SlabLayout::position(GlobalIndex row) const {
  const std::int64_t rank = owner(row);
  const std::int64_t local = row - segment(rank).begin;
  const std::int64_t index = local / tile_;
  std::int64_t before = local % tile_;
  for (std::int64_t other = 0; other < ranks(); ++other) {
    const std::int64_t blocks = index + (other < rank ? 1 : 0);
    before += std::min(blocks * tile_, width(other));
  }
  return Position(before);
}

GlobalIndex SlabLayout::row_at(Position position) const {
  // The last block that starts at or before the position.
  const auto after =
      std::upper_bound(blocks_.begin(), blocks_.end(), position.value(),
                       [](std::int64_t value, const Block& b) { return value < b.rows_before; });
  const Step step(after - blocks_.begin() - 1);
  return rows(step).begin + (position.value() - block(step).rows_before);
}

}  // namespace shardsolve
