#include "core/tile_merge.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/tile_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace shardsolve {
namespace {

[[noreturn]] void reject(const TileEntry& entry, const std::string& what) {
  throw Error(ErrorKind::invalid_argument,
              fmt::format("the entry for {} on {} x {}, n from {} to {}: {}", name(entry.dtype),
                          entry.ranks, entry.device, entry.from_n, entry.to_n, what));
}

bool is_share(double value) { return std::isfinite(value) && value >= 0.0; }

void check(const TileEntry& entry) {
  if (entry.device.empty() || entry.ranks < 1 || entry.tile < 1) {
    reject(entry, "a device, at least one rank and a tile of at least one column are needed");
  }
  if (entry.from_n < 1 || entry.to_n < entry.from_n || entry.measured.n < entry.from_n ||
      entry.measured.n > entry.to_n) {
    reject(entry, fmt::format("its range has to begin at 1 or later, and to hold the size that was "
                              "measured, {}",
                              entry.measured.n));
  }
  if (!is_share(entry.measured.seconds) || !is_share(entry.measured.shipped_seconds) ||
      !is_share(entry.measured.noise)) {
    reject(entry, "times have to be finite and not negative");
  }
}

}  // namespace

namespace core {

bool same_devices(const TileEntry& a, const TileEntry& b) {
  return a.device == b.device && a.dtype == b.dtype && a.ranks == b.ranks;
}

std::vector<TileEntry> merge(std::vector<TileEntry> old, const std::vector<TuneResult>& results) {
  for (const TuneResult& result : results) {
    const TileEntry& fresh = result.entry;
    std::erase_if(old, [&](const TileEntry& entry) {
      return same_devices(entry, fresh) && entry.measured.n >= fresh.from_n &&
             entry.measured.n <= fresh.to_n;
    });
    for (TileEntry& entry : old) {
      if (!same_devices(entry, fresh)) {
        continue;
      }
      if (fresh.from_n > entry.measured.n) {
        entry.to_n = std::min(entry.to_n, fresh.from_n - 1);
      } else {
        entry.from_n = std::max(entry.from_n, fresh.to_n + 1);
      }
    }
  }
  for (const TuneResult& result : results) {
    if (result.kept) {
      old.push_back(result.entry);
    }
  }
  std::stable_sort(old.begin(), old.end(), [](const TileEntry& a, const TileEntry& b) {
    return std::tie(a.device, a.dtype, a.ranks, a.from_n) <
           std::tie(b.device, b.dtype, b.ranks, b.from_n);
  });
  return old;
}

void divide_sizes(std::vector<TuneResult>& results, const std::vector<TileEntry>& old) {
  constexpr double reach = 1.4142135623730951;
  const auto between = [](std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(std::sqrt(static_cast<double>(a) * static_cast<double>(b)));
  };
  for (TuneResult& result : results) {
    TileEntry& entry = result.entry;
    const std::int64_t n = entry.measured.n;
    entry.from_n = static_cast<std::int64_t>(std::ceil(static_cast<double>(n) / reach));
    entry.to_n = static_cast<std::int64_t>(static_cast<double>(n) * reach);
    const auto yield_to = [&](const TileEntry& other) {
      const std::int64_t m = other.measured.n;
      if (!same_devices(entry, other) || m == n) {
        return;
      }
      if (m < n) {
        entry.from_n = std::max(entry.from_n, between(m, n) + 1);
      } else {
        entry.to_n = std::min(entry.to_n, between(n, m));
      }
    };
    for (const TuneResult& other : results) {
      yield_to(other.entry);
    }
    for (const TileEntry& other : old) {
      yield_to(other);
    }
  }
}

}  // namespace core

TileTable::TileTable(std::vector<TileEntry> entries) : entries_(std::move(entries)) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    check(entries_[i]);
    for (std::size_t j = 0; j < i; ++j) {
      if (core::same_devices(entries_[i], entries_[j]) && entries_[i].from_n <= entries_[j].to_n &&
          entries_[j].from_n <= entries_[i].to_n) {
        reject(entries_[i], fmt::format("another one is for n from {} to {}: a matrix has one tile",
                                        entries_[j].from_n, entries_[j].to_n));
      }
    }
  }
}

const TileEntry* TileTable::entry_for(const std::string& device, Dtype dtype, std::int64_t ranks,
                                      std::int64_t n) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const TileEntry& entry) {
    return entry.device == device && entry.dtype == dtype && entry.ranks == ranks &&
           entry.from_n <= n && n <= entry.to_n;
  });
  return found == entries_.end() ? nullptr : &*found;
}

}  // namespace shardsolve
