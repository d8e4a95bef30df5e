/// The routines that are tuned each for itself.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardsolve {

/// What a tile size is for.
enum class Routine : std::uint8_t {
  cholesky,  ///< cholesky_factor, and all that is done with its factor
  lu,        ///< lu_factor, likewise
};

/// "cholesky", "lu"
constexpr std::string_view name(Routine routine) {
  switch (routine) {
    case Routine::cholesky:
      return "cholesky";
    case Routine::lu:
      return "lu";
  }
  return "unknown";
}

}  // namespace shardsolve
