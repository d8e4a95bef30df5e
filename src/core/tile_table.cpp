#include "core/tile_key.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/tile_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace shardsolve {
namespace {

[[noreturn]] void reject(const TileEntry& entry, const std::string& what) {
  throw Error(ErrorKind::invalid_argument,
              fmt::format("the entry for {} of {} on {} x {}, n = {}: {}", name(entry.routine),
                          name(entry.dtype), entry.ranks, entry.device, entry.n, what));
}

bool is_share(double value) { return std::isfinite(value) && value >= 0.0; }

void check(const TileEntry& entry) {
  if (entry.device.empty() || entry.ranks < 1 || entry.n < 1 || entry.tile < 1) {
    reject(entry, "a device, at least one rank, one row and a tile of one column are needed");
  }
  if (!is_share(entry.measured.seconds) || !is_share(entry.measured.shipped_seconds) ||
      !is_share(entry.measured.noise)) {
    reject(entry, "times have to be finite and not negative");
  }
}

/// The larger by the smaller one.
double ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(std::max(a, b)) / static_cast<double>(std::min(a, b));
}

}  // namespace

TileTable::TileTable(std::vector<TileEntry> entries) : entries_(std::move(entries)) {
  std::set<decltype(core::tile_key(entries_.front()))> keys;  // refers to entries_
  for (const TileEntry& entry : entries_) {
    check(entry);
    if (!keys.insert(core::tile_key(entry)).second) {
      reject(entry, "there is another one, and a size has one tile");
    }
  }
}

const TileEntry* TileTable::entry_for(const std::string& device, Dtype dtype, std::int64_t ranks,
                                      std::int64_t n, Routine routine) const {
  constexpr double reach = 1.4142135623730951;
  const auto nearer = [n](const TileEntry& a, const TileEntry& b) {
    const double to_a = ratio(a.n, n);
    const double to_b = ratio(b.n, n);
    return to_a < to_b || (to_a == to_b && a.n < b.n);
  };
  const TileEntry* nearest = nullptr;
  for (const TileEntry& entry : entries_) {
    const bool is_for_it = entry.routine == routine && entry.device == device &&
                           entry.dtype == dtype && entry.ranks == ranks &&
                           ratio(entry.n, n) <= reach;
    if (is_for_it && (nearest == nullptr || nearer(entry, *nearest))) {
      nearest = &entry;
    }
  }
  return nearest != nullptr && nearest->kept ? nearest : nullptr;
}

}  // namespace shardsolve
