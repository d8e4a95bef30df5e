// shardsolve_bench: times the public calls of shardsolve, one run for each request.

#include "bench/support/problem.hpp"
#include "bench/support/residuals.hpp"
#include "bench/support/serve.hpp"
#include "core/each_dtype.hpp"
#include "io/npy.hpp"
#include "mesh/mesh_state.hpp"
#include "programs/bytes_of.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/eigh.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/version.hpp>

#include <fmt/format.h>

#include <complex>
#include <exception>
#include <iostream>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#ifdef SHARDSOLVE_BLAS_PRIVATE
extern "C" {
const char* openblas_get_config();
const char* openblas_get_corename();
int openblas_get_num_threads();
}
#endif

namespace shardsolve::bench {
namespace {

struct Options : ProblemOptions {
  std::int64_t ranks = 4;
  std::int64_t tile = 0;  // 0 asks for the default
  bool mpi = false;
};

nlohmann::json describe_blas() {
  nlohmann::json blas{{"file", SHARDSOLVE_BLAS_LIBRARY " (" SHARDSOLVE_BLAS_LINKAGE ")"}};
#ifdef SHARDSOLVE_BLAS_PRIVATE
  blas["config"] = openblas_get_config();
  blas["core"] = openblas_get_corename();
  blas["threads"] = openblas_get_num_threads();
#endif
  return blas;
}

void require_ok(const Outcome& outcome) {
  if (!outcome.ok()) {
    throw Error(ErrorKind::internal, outcome.message());
  }
}

/// The backward error that the library itself reports.
template <Scalar T>
Residual certificate(const Outcome& outcome, double limit) {
  constexpr double not_there = std::numeric_limits<double>::quiet_NaN();
  return {"certificate", outcome.backward_error.value_or(not_there) / unit_roundoff<T>, limit};
}

template <Scalar T>
class Ours {
 public:
  explicit Ours(const Options& options)
      : mesh_(options.mpi ? Mesh::mpi() : Mesh::host(options.ranks)),
        tile_(options.tile > 0 ? options.tile : mesh_.default_tile(options.n, dtype_of<T>)),
        problem_(layout(options.n, tile_)),
        a_(problem_.a().layout()),
        b_(problem_.b().layout(), 1) {}

  /// Whether it is this process that answers.
  bool speaks() const { return mesh_.is_here(0); }

  nlohmann::json hello() const {
    return {{"program", "shardsolve " SHARDSOLVE_VERSION_STRING},
            {"jobs", {"factor", "solve", "inverse", "eigh"}},
            {"ranks", mesh_.ranks()},
            {"tile", tile_},
            {"matrix", fmt::format("{:016x}", problem_.checksum())},
            {"blas", describe_blas()}};
  }

  nlohmann::json answer(const Request& request) {
    if (request.job == "save") {
      return save(request.argument);
    }
    const std::int64_t tile = request.argument.empty() ? tile_ : std::stoll(request.argument);
    const auto [a, b] = fresh(tile);
    if (request.job == "factor") {
      return factor(a, b);
    }
    if (request.job == "solve") {
      return solve_once(a, b);
    }
    if (request.job == "inverse") {
      return invert(a);
    }
    if (request.job == "eigh") {
      return find_eigenpairs(a);
    }
    refuse(request);
  }

 private:
  SlabLayout layout(std::int64_t n, std::int64_t tile) const {
    return SlabLayout::even(n, mesh_.ranks(), tile);
  }

  /// A and b as they were, in memory that has been written before, with the tile asked for.
  std::pair<ShardedMatrix<T>, RightHandSides<T>> fresh(std::int64_t tile) const {
    const SlabLayout wanted = layout(a_.layout().size(), tile);
    std::vector<MatrixView<T>> slabs;
    std::vector<MatrixView<T>> blocks;
    for (std::int64_t rank = 0; rank < wanted.ranks(); ++rank) {
      const bool here = mesh_.is_here(rank);
      slabs.push_back(here ? a_.slab(rank) : MatrixView<T>());
      blocks.push_back(here ? b_.block(rank) : MatrixView<T>());
    }
    problem_.restore(a_);
    problem_.restore(b_);
    return {ShardedMatrix<T>(wanted, slabs), RightHandSides<T>(wanted, blocks)};
  }

  nlohmann::json factor(const ShardedMatrix<T>& a, const RightHandSides<T>& b) {
    std::optional<CholeskyFactor<T>> result;
    const double seconds = time([&] { result = cholesky_factor(mesh_, a); });
    require_ok(result->outcome);
    const Outcome solved = cholesky_solve(mesh_, *result, b);
    require_ok(solved);
    const auto [l, x] = whole(a.layout());
    return timed(seconds, {factor_residual(problem_.a(), l), solution_residual(x),
                           certificate<T>(solved, 10.0)});
  }

  nlohmann::json solve_once(const ShardedMatrix<T>& a, const RightHandSides<T>& b) {
    Outcome outcome;
    const double seconds = time([&] { outcome = solve(mesh_, a, b); });
    require_ok(outcome);
    return timed(seconds,
                 {solution_residual(whole(a.layout()).second), certificate<T>(outcome, 10.0)});
  }

  nlohmann::json invert(const ShardedMatrix<T>& a) {
    Outcome outcome;
    const double seconds = time([&] {
      CholeskyFactor<T> factor = cholesky_factor(mesh_, a);
      require_ok(factor.outcome);
      outcome = cholesky_inverse(mesh_, std::move(factor));
    });
    require_ok(outcome);
    return timed(seconds, {inverse_residual(problem_.a(), whole(a.layout()).first),
                           certificate<T>(outcome, 30.0)});
  }

  nlohmann::json find_eigenpairs(const ShardedMatrix<T>& a) {
    Eigenvalues<T> found;
    const double seconds = time([&] { found = eigh(mesh_, a); });
    require_ok(found.outcome);
    return timed(seconds, eigenpair_residuals(problem_.a(), whole(a.layout()).first, found.values));
  }

  /// What all ranks have computed, with the tile that they have used.
  std::pair<ShardedMatrix<T>, RightHandSides<T>> whole(const SlabLayout& computed) {
    std::vector<MatrixView<T>> slabs;
    std::vector<MatrixView<T>> blocks;
    std::vector<comm::Bytes> columns;
    std::vector<comm::Bytes> rows;
    for (std::int64_t rank = 0; rank < computed.ranks(); ++rank) {
      slabs.push_back(a_.slab(rank));
      blocks.push_back(b_.block(rank));
      columns.push_back(programs::bytes_of(slabs.back()));
      rows.push_back(programs::bytes_of(blocks.back()));
    }
    if (!mesh_.is_here(0) || !mesh_.is_here(computed.ranks() - 1)) {
      mesh_.state().run({}, [columns, rows](mesh::Rank& rank) {
        rank.communicator().all_gather(rank.transfer(), columns);
        rank.communicator().all_gather(rank.transfer(), rows);
      });
    }
    return {ShardedMatrix<T>(computed, slabs), RightHandSides<T>(computed, blocks)};
  }

  Residual solution_residual(const RightHandSides<T>& x) const {
    return solve_residual(problem_.a(), x, problem_.b());
  }

  /// For programs that cannot make the matrix themselves.
  nlohmann::json save(const std::string& folder) const {
    const SlabLayout& layout = problem_.a().layout();
    const std::int64_t n = layout.size();
    io::OutputFile a_file(folder + "/a.npy", true);
    io::OutputFile b_file(folder + "/b.npy", true);
    const io::NpyWriter a_writer(a_file, dtype_of<T>, {n, n}, false);
    const io::NpyWriter b_writer(b_file, dtype_of<T>, {n, 1}, false);
    for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
      a_writer.write_hermitian_columns<T>(layout.segment(rank), problem_.a().slab(rank));
      b_writer.write_rows<T>(layout.segment(rank), problem_.b().block(rank));
    }
    a_file.commit();
    b_file.commit();
    return nlohmann::json::object();
  }

  Mesh mesh_;
  std::int64_t tile_;
  Problem<T> problem_;
  ShardedMatrix<T> a_;
  RightHandSides<T> b_;
};

}  // namespace
}  // namespace shardsolve::bench

int main(int argc, char** argv) {
  CLI::App app("Times shardsolve, one run for each line that it reads; see bench/run.py");
  shardsolve::bench::Options options;
  shardsolve::bench::add_problem_options(app, options);
  app.add_option("--ranks", options.ranks, "CPU devices")->check(CLI::PositiveNumber);
  app.add_flag("--mpi", options.mpi, "One rank in each process; all read the same lines");
  app.add_option("--tile", options.tile, "Columns of a block; by default the library's choice")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    shardsolve::with_dtype(options.dtype, [&]<class T>() {
      shardsolve::bench::Ours<T> ours(options);
      shardsolve::bench::serve(
          ours.hello(), [&](const auto& request) { return ours.answer(request); }, ours.speaks());
    });
  } catch (const std::exception& error) {
    std::cerr << "shardsolve_bench: " << error.what() << '\n';
    return 1;
  }
}
