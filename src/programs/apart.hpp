/// What calls that write ask of the caller's memory: that it is nobody else's.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/sharded.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::programs {

/// The operands of a call that have to lie apart.
class Apart {
 public:
  /// One that is read.
  template <class Operand>
  Apart& reads(std::string name, const Operand& operand) {
    return add(std::move(name), operand, false);
  }
  /// One that is written.
  template <class Operand>
  Apart& writes(std::string name, const Operand& operand) {
    return add(std::move(name), operand, true);
  }

  /// Throws Error(invalid_argument) if one that is written shares memory of this process with
  /// another one. For each process one rank looks.
  void require(const mesh::Rank& rank) const;

 private:
  /// Columns of bytes.
  struct Piece {
    std::uintptr_t begin;
    std::int64_t rows;
    std::int64_t columns;
    std::int64_t stride;
  };
  struct Given {
    std::string name;
    bool is_written;
    std::vector<Piece> pieces;
  };

  template <class T>
  static MatrixView<T> part(const ShardedMatrix<T>& a, std::int64_t rank) {
    return a.slab(rank);
  }
  template <class T>
  static MatrixView<T> part(const RightHandSides<T>& b, std::int64_t rank) {
    return b.block(rank);
  }

  template <class Operand>
  Apart& add(std::string name, const Operand& operand, bool is_written) {
    Given given{std::move(name), is_written, {}};
    for (std::int64_t rank = 0; rank < operand.layout().ranks(); ++rank) {
      const auto view = part(operand, rank);
      constexpr auto size = static_cast<std::int64_t>(sizeof(*view.data()));
      if (!view.empty()) {
        given.pieces.push_back({reinterpret_cast<std::uintptr_t>(view.data()), size * view.rows(),
                                view.columns(), size * view.stride()});
      }
    }
    given_.push_back(std::move(given));
    return *this;
  }

  static bool overlap(const Piece& first, const Piece& second);

  std::vector<Given> given_;
};

}  // namespace shardsolve::programs
