/// How the public call cuts its work, for the call and for its plan.
#pragma once

#include "dense/eigh/sweep_groups.hpp"

#include <shardsolve/slab_layout.hpp>

#include <algorithm>
#include <cstdint>

namespace shardsolve::dense::eigh {

/// Those of large matrices were the best on CPUs of a few that were tried, but for what GPUs gain
/// where much is to be done; small matrices have smaller ones, so that they, too, go through
/// several panels.
struct CallSizes {
  explicit CallSizes(const SlabLayout& given)
      : layout(given.boundaries(), bandwidth(given.size())),
        deferred(std::max<std::int64_t>(std::min<std::int64_t>(256, given.size() / 4), 1)),
        merged(given.size() >= 8192 ? 512 : deferred) {}

  runtime::Chase chase(bool is_complex) const { return {layout.size(), layout.tile(), is_complex}; }
  /// Of so many sweeps: see runtime::BandTuning.
  SweepGroups groups(bool is_complex, std::int64_t sweeps) const {
    return {chase(is_complex), sweeps, layout.ranks()};
  }

  SlabLayout layout;  ///< the caller's boundaries, and the bandwidth as its tile
  std::int64_t deferred;
  std::int64_t merged;

 private:
  static std::int64_t bandwidth(std::int64_t n) { return n >= 1024 ? 64 : n >= 256 ? 32 : 8; }
};

/// Columns of a rank's slab that hold eigenvectors, if there are `count` in all.
inline std::int64_t vectors_on(const SlabLayout& layout, std::int64_t rank, std::int64_t count) {
  return std::clamp<std::int64_t>(count - layout.segment(rank).begin.value(), 0,
                                  layout.width(rank));
}

}  // namespace shardsolve::dense::eigh
