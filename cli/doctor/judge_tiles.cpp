// The table of tile sizes that `shardsolve tune` writes.

#include "findings.hpp"

namespace shardsolve::cli::doctor {

void judge_tiles(const Surroundings& s, Findings& findings) {
  if (!s.tiles.failure.empty()) {
    findings.push_back({Severity::error, "tile-table",
                        "the table of tile sizes cannot be used: " + s.tiles.failure,
                        "every solve that is given no --tile fails",
                        s.tiles.missing ? "name one that exists, or say --tile-table none"
                                        : "move it away, or say --tile-table none"});
  }
}

}  // namespace shardsolve::cli::doctor
