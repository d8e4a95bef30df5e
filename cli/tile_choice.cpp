#include "tile_choice.hpp"

#include <fmt/format.h>

namespace shardsolve::cli {

std::string tile_text(const TileChoice& choice) {
  return choice.entry ? fmt::format("{} (tuned on {}, '{}')", choice.tile,
                                    choice.entry->measured.date, choice.table)
                      : fmt::format("{}", choice.tile);
}

std::string tile_origin(const TileChoice& choice) {
  if (choice.asked_for) {
    return "option";
  }
  return choice.entry ? "table" : "library";
}

}  // namespace shardsolve::cli
