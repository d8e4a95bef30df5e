/// Points whose coordinates repeat each other: all or some of a lattice's.
#pragma once

#include "sparse/workers.hpp"

#include <shardsolve/jet_set.hpp>

#include <array>
#include <cstdint>
#include <vector>

namespace shardsolve::fbpinn {

/// Points sorted by where they are among the coordinates that occur along each axis.
class Lattice {
 public:
  /// `points`: count x axes numbers.
  Lattice(const double* points, std::int64_t count, int axes,
          const sparse::ForEach& each = sparse::one_by_one);

  /// Axes along which there is more than one coordinate.
  const std::vector<int>& free_axes() const { return free_; }
  /// Of a point, the numbers of its coordinates among those that occur along each free axis.
  using Place = std::array<std::int32_t, max_axes>;
  Place at(std::int64_t p) const;
  /// The point one step on from a place along each of the free axes whose bits are in `mask`; -1 if
  /// there is none, or if a hole lies between: a step of more than three times the usual one, where
  /// most are equal.
  std::int64_t next(Place place, unsigned mask) const;
  /// The far corner of the cell of most axes that begins at p and has points at all of its corners;
  /// -1 if there is none.
  std::int64_t far_corner(std::int64_t p) const;
  /// Whether most points have a neighbour, so that this says how they lie.
  bool is_one() const { return is_one_; }

 private:
  struct Keyed {
    std::uint64_t key;
    std::int32_t point;
    bool operator<(const Keyed& other) const {
      return key != other.key ? key < other.key : point < other.point;
    }
  };
  std::uint64_t key_of(const Place& at) const;

  const double* points_;
  int axes_;
  std::vector<int> free_;
  std::vector<std::vector<double>> along_;  // of each free axis
  std::vector<double> longest_step_;        // of each: a longer one is a hole
  std::vector<unsigned> cells_;             // masks, those of most axes first
  std::vector<Keyed> places_;               // by key; or in place of them, where most are taken,
  std::vector<std::int32_t> table_;         // the point of each key, or -1
  bool is_one_ = false;
};

}  // namespace shardsolve::fbpinn
