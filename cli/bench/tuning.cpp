#include "tuning.hpp"

#include "core/each_dtype.hpp"
#include "core/tile_rules.hpp"
#include "mesh/mesh_state.hpp"
#include "system.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/lu.hpp>
#include <shardsolve/slab_layout.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>

namespace shardsolve::cli::bench {
namespace {

constexpr int rounds = 3;        // with every candidate
constexpr int final_rounds = 5;  // with the best and the library's choice

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void require_right(const Outcome& outcome) {
  if (!outcome.ok()) {
    throw Error(ErrorKind::internal, outcome.message());
  }
}

/// Times factorisations of one matrix.
template <Scalar T>
class Race {
 public:
  Race(Mesh& mesh, Routine routine, std::int64_t n, const RunOptions& options)
      : mesh_(mesh),
        routine_(routine),
        options_(options),
        system_(mesh, n, 1, options,
                routine == Routine::lu ? matgen::Kind::general : matgen::Kind::random) {}

  double seconds(std::int64_t tile) {
    const ShardedMatrix<T> room = system_.fresh_matrix(tile);
    const auto begin = Clock::now();
    const Outcome outcome = routine_ == Routine::lu
                                ? lu_factor(mesh_, system_.matrix(tile), room, options_).outcome
                                : cholesky_factor(mesh_, room, options_).outcome;
    const double taken = seconds_since(begin);
    require_right(outcome);
    return taken;
  }

  /// In units of u.
  double backward_error(std::int64_t tile) {
    const ShardedMatrix<T> room = system_.fresh_matrix(tile);
    const RightHandSides<T> x = system_.fresh_sides(tile, 1);
    const Outcome solved =
        routine_ == Routine::lu
            ? solve(mesh_, system_.matrix(tile), x, options_, Rcond::left_out, Assume::general)
            : solve(mesh_, room, x, options_, Rcond::left_out);
    require_right(solved);
    return solved.backward_error.value_or(HUGE_VAL) / unit_roundoff<T>;
  }

 private:
  Mesh& mesh_;
  Routine routine_;
  const RunOptions& options_;
  System<T> system_;
};

/// The tile whose least time is the least; `samples` are by tile, without the library's.
std::size_t fastest(const std::vector<Samples>& samples) {
  return static_cast<std::size_t>(
      std::min_element(samples.begin(), samples.end(),
                       [](const Samples& a, const Samples& b) { return a.least() < b.least(); }) -
      samples.begin());
}

/// Seconds, whole ones where there are many.
std::string rough(double seconds) {
  return seconds < 10.0 ? fmt::format("{:.2g}", seconds) : fmt::format("{:.0f}", seconds);
}

}  // namespace

std::vector<std::int64_t> candidate_tiles(const Mesh& mesh, std::int64_t n, Dtype dtype,
                                          Routine routine) {
  constexpr std::array on_cpus = {96, 128, 160, 192, 256, 320, 384, 448, 512, 640, 768};
  constexpr std::array on_gpus = {256, 384, 512, 768, 1024, 1536, 2048};
  constexpr std::array lu_on_gpus = {128, 192, 256, 384, 512, 768, 1024};  // panels weigh more
  const mesh::Backend& backend = mesh.state().backend();
  std::vector<std::int64_t> tiles;
  const auto add = [&](std::int64_t tile) {
    const std::int64_t effective = SlabLayout::even(n, mesh.ranks(), tile).tile();
    if (effective <= backend.largest_tile() &&
        std::find(tiles.begin(), tiles.end(), effective) == tiles.end()) {
      tiles.push_back(effective);
    }
  };
  add(backend.default_tile(n, dtype, routine));
  if (mesh.memory() == Memory::device) {
    const auto& widths = routine == Routine::lu ? lu_on_gpus : on_gpus;
    std::for_each(widths.begin(), widths.end(), add);
    return tiles;
  }
  for (const int widest : on_cpus) {  // evenly cut, as the library's choice is
    add(core::even_tile(n / mesh.ranks(), widest, 1));
  }
  return tiles;
}

double Tuned::noise() const {
  constexpr double nobody_notices = 0.01;
  return std::max({shipped.noise(), best.noise(), nobody_notices});
}

bool Tuned::right() const {
  constexpr double gate = 10.0;
  return backward_error < gate;
}

bool Tuned::kept() const {
  return left_out.empty() && best_tile > 0 && right() &&
         best.least() * (1.0 + noise()) < shipped.least();
}

template <Scalar T>
Tuned tune(Mesh& mesh, Routine routine, std::int64_t n, const RunOptions& options,
           const TuneLimits& limits) {
  const std::vector<std::int64_t> tiles = candidate_tiles(mesh, n, dtype_of<T>, routine);
  Tuned tuned{.routine = routine, .n = n, .dtype = dtype_of<T>, .shipped_tile = tiles.front()};
  if (tiles.size() == 1) {
    tuned.left_out = "there is only one tile size worth a try";
    return tuned;
  }
  if (Clock::now() >= limits.end) {
    tuned.left_out = "no time is left for it: give a longer --budget";
    return tuned;
  }
  limits.progress(tuned.shipped_tile, 0.0);
  Race<T> race(mesh, routine, n, options);
  race.seconds(tuned.shipped_tile);  // the first time costs more
  const auto begin = Clock::now();
  race.seconds(tuned.shipped_tile);
  const std::size_t runs = rounds * tiles.size() + 2 * final_rounds;
  const double needed = static_cast<double>(runs) * seconds_since(begin);
  const double left = std::chrono::duration<double>(limits.end - Clock::now()).count();
  if (needed > left) {
    tuned.left_out =
        fmt::format("it needs about {} s and {}: give a longer --budget", rough(needed),
                    left > 0.0 ? fmt::format("has {} s", rough(left))
                               : "the first runs have used up the budget");
    return tuned;
  }

  std::size_t done = 0;
  const auto timed = [&](std::int64_t tile) {
    limits.progress(tile, static_cast<double>(done++) / static_cast<double>(runs));
    return race.seconds(tile);
  };
  std::vector<Samples> samples(tiles.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      samples[i].seconds.push_back(timed(tiles[i]));
    }
  }
  samples.erase(samples.begin());
  tuned.best_tile = tiles[fastest(samples) + 1];
  for (int round = 0; round < final_rounds; ++round) {
    tuned.shipped.seconds.push_back(timed(tuned.shipped_tile));
    tuned.best.seconds.push_back(timed(tuned.best_tile));
  }
  tuned.backward_error = race.backward_error(tuned.best_tile);
  return tuned;
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template Tuned tune<T>(Mesh&, Routine, std::int64_t, const RunOptions&, const TuneLimits&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::cli::bench
