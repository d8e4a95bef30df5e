// shardsolve_bench_krylov: iterations of cg with Jacobi on the 7-point Laplacian, beside what the
// memory gives.
//
// Each round times a triad a_i = b_i + s c_i on as many threads as there are ranks, a short solve
// and a long one; an iteration is what they differ by, over the iterations between. No solve
// converges. Bytes of an iteration, float64, counted once each time that a kernel reads or writes
// an array: of the product 12 an entry (column, value) and 24 a row (row pointer, x, y); beside it
// 128 a row: p = z + beta p (24), sums of p and q (16), x += alpha p and r -= alpha q (48),
// z = D^-1 r (24), sums of r and z (16). That an array is read before it is written, where a cache
// does so, is not counted.

#include "bench/support/triad.hpp"
#include "matgen/sparse_matrices.hpp"

#include <shardsolve/krylov.hpp>
#include <shardsolve/sparse.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iostream>
#include <vector>

namespace shardsolve::bench {
namespace {

struct Options {
  std::int64_t edge = 128;
  std::int64_t ranks = 1;
  std::int64_t rounds = 5;
  std::int64_t iterations = 40;
};

/// Solves with so many iterations.
class Solves {
 public:
  explicit Solves(const Options& options)
      : matrix_(matgen::laplacian_3d<double>(options.edge)),
        layout_(row_slabs(matrix_.rows, options.ranks)),
        mesh_(Mesh::host(options.ranks)),
        a_(krylov::Operator<double>::sparse(SparseMatrix<double>(mesh_, matrix_, layout_))),
        m_(krylov::Operator<double>::jacobi(matrix_)),
        b_(layout_, 1),
        x_(layout_, 1) {
    for (std::int64_t rank = 0; rank < options.ranks; ++rank) {
      std::fill_n(b_.block(rank).data(), b_.block(rank).rows(), 1.0);
    }
  }

  double bytes_of_iteration() const {
    return 12.0 * static_cast<double>(matrix_.entries()) +
           (24.0 + 128.0) * static_cast<double>(matrix_.rows);
  }
  double seconds(std::int64_t iterations) {
    const auto start = Clock::now();
    const auto result =
        krylov::solve(mesh_, a_, m_, b_, x_, {.rtol = 1e-14, .max_iterations = iterations});
    const double seconds = seconds_since(start);
    if (result.iterations != iterations) {
      throw Error(ErrorKind::internal, "the solve ended early: " + result.message);
    }
    return seconds;
  }

 private:
  CsrMatrix<double> matrix_;
  SlabLayout layout_;
  Mesh mesh_;
  krylov::Operator<double> a_;
  krylov::Operator<double> m_;
  RightHandSides<double> b_;
  RightHandSides<double> x_;
};

nlohmann::json measure(const Options& options) {
  Triad triad(options.ranks);
  Solves solves(options);
  triad.seconds();
  const std::int64_t few = 5;
  solves.seconds(few);
  std::vector<double> triads;
  std::vector<double> times;
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    triads.push_back(triad.seconds());
    const double less = solves.seconds(few);
    const double more = solves.seconds(few + options.iterations);
    times.push_back((more - less) / static_cast<double>(options.iterations));
    triads.push_back(triad.seconds());
  }
  const double triad_rate = triad.bytes() / median(triads);
  const double rate = solves.bytes_of_iteration() / median(times);
  return {{"matrix", fmt::format("7-point Laplacian, {}^3", options.edge)},
          {"ranks", options.ranks},
          {"iteration_bytes", solves.bytes_of_iteration()},
          {"iteration_seconds", times},
          {"triad_seconds", triads},
          {"iteration_gb_per_s", rate / 1e9},
          {"triad_gb_per_s", triad_rate / 1e9},
          {"share_of_triad", rate / triad_rate}};
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app{"Times iterations of cg with Jacobi beside a triad; prints one JSON object."};
  app.add_option("--edge", options.edge, "points of an edge of the grid")
      ->check(CLI::Range(8, 500));
  app.add_option("--ranks", options.ranks, "CPU ranks, and threads of the triad")
      ->check(CLI::Range(1, 1024));
  app.add_option("--rounds", options.rounds, "timed rounds")->check(CLI::Range(1, 1000));
  app.add_option("--iterations", options.iterations, "iterations of a round")
      ->check(CLI::Range(1, 10000));
  CLI11_PARSE(app, argc, argv);
  std::cout << measure(options) << '\n';
  return 0;
}

}  // namespace
}  // namespace shardsolve::bench

int main(int argc, char** argv) {
  try {
    return shardsolve::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "shardsolve_bench_krylov: " << error.what() << '\n';
    return 1;
  }
}
