/// The system that all programs solve, and copies of it to overwrite.
#pragma once

#include "bench/support/parallel.hpp"
#include "matgen/matrices.hpp"

#include <shardsolve/sharded.hpp>

#include <bit>
#include <cstdint>
#include <cstring>

namespace shardsolve::bench {

/// Random, Hermitian positive definite, and the same in every program; one right-hand side.
template <Scalar T>
class Problem {
 public:
  explicit Problem(const SlabLayout& layout) : a_(layout), b_(layout, 1) {
    constexpr std::uint64_t seed = 20240;
    const matgen::Recipe recipe{.kind = matgen::Kind::random, .n = layout.size(), .seed = seed};
    for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
      const GlobalIndex first = layout.segment(rank).begin;
      const MatrixView<T> slab = a_.slab(rank);
      parallel_pieces(slab.columns(), [&](std::int64_t begin, std::int64_t end) {
        matgen::fill_columns<T>(recipe, {first + begin, first + end},
                                slab.columns_from(begin, end - begin));
      });
      for (std::int64_t i = 0; i < layout.width(rank); ++i) {
        b_.block(rank)(i, 0) = matgen::rhs<T>(seed, first + i, 0);
      }
    }
  }

  const ShardedMatrix<T>& a() const { return a_; }
  const RightHandSides<T>& b() const { return b_; }

  /// Copies A into slabs of the same boundaries.
  void restore(const ShardedMatrix<T>& target) const {
    for (std::int64_t rank = 0; rank < a_.layout().ranks(); ++rank) {
      const MatrixView<T> from = a_.slab(rank);
      const MatrixView<T> to = target.slab(rank);
      parallel_pieces(from.columns(), [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(to.data() + begin * to.stride(), from.data() + begin * from.stride(),
                    bytes((end - begin) * from.rows()));
      });
    }
  }

  /// Copies b likewise.
  void restore(const RightHandSides<T>& target) const {
    for (std::int64_t rank = 0; rank < b_.layout().ranks(); ++rank) {
      std::memcpy(target.block(rank).data(), b_.block(rank).data(), bytes(b_.block(rank).rows()));
    }
  }

  /// Depends on every bit of A, and not on how it is cut: shows that two programs have the same A.
  std::uint64_t checksum() const {
    std::uint64_t sum = 0;
    for (std::int64_t rank = 0; rank < a_.layout().ranks(); ++rank) {
      const MatrixView<T> slab = a_.slab(rank);
      for (std::int64_t k = 0; k < slab.rows() * slab.columns(); ++k) {
        constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;
        std::uint64_t words[2] = {};
        std::memcpy(words, slab.data() + k, sizeof(T));
        sum = std::rotl(sum, 5) ^ (words[0] * odd + words[1]);
      }
    }
    return sum;
  }

 private:
  static std::size_t bytes(std::int64_t elements) {
    return static_cast<std::size_t>(elements) * sizeof(T);
  }

  ShardedMatrix<T> a_;
  RightHandSides<T> b_;
};

}  // namespace shardsolve::bench
