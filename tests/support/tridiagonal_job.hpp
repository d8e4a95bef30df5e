/// The tridiagonal eigenproblem as a job that tests make fail in the middle.
#pragma once

#include "dense/eigh/bisection.hpp"
#include "dense/eigh/divide_and_conquer.hpp"
#include "mesh/mesh_state.hpp"
#include "tests/support/rank_program.hpp"
#include "tests/support/tridiagonal_zoo.hpp"

#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::testing::tridiagonal {

/// What the ranks of this process have found; a rank that never comes back keeps it.
template <class Real>
struct JobResults {
  explicit JobResults(std::int64_t ranks)
      : values(static_cast<std::size_t>(ranks)), z(static_cast<std::size_t>(ranks)) {}

  std::vector<std::vector<Real>> values;  // by divide and conquer, then by bisection
  std::vector<DenseMatrix<Real>> z;
};

/// The first rank has rows enough for a merge of its own; the others have a leaf together.
inline std::vector<std::int64_t> job_bounds(std::int64_t ranks) {
  constexpr std::int64_t first = 40;
  constexpr std::int64_t others = 30;
  std::vector<std::int64_t> bounds{0, first};
  for (std::int64_t rank = 1; rank < ranks; ++rank) {
    bounds.push_back(first + others * rank / (ranks - 1));
  }
  return bounds;
}

template <class Real>
std::shared_ptr<const JobResults<Real>> run_job(Mesh& mesh, const RunOptions& options) {
  const auto results = std::make_shared<JobResults<Real>>(mesh.ranks());
  const std::vector<std::int64_t> bounds = job_bounds(mesh.ranks());
  const TridiagonalCase<Real> t = tridiagonal_zoo<Real>(bounds.back()).front();
  mesh.state().run(options, [=](mesh::Rank& rank) {
    const auto index = static_cast<std::size_t>(rank.index());
    const std::int64_t n = bounds.back();
    const MatrixView<Real> z = rank.workspace<Real>(bounds[index + 1] - bounds[index], n);
    const auto all = dense::eigh::divide_and_conquer<Real>(
        rank, {t.diagonal, t.off_diagonal, bounds, {0, n}}, z);
    const auto again = dense::eigh::bisect(rank, t.diagonal, t.off_diagonal, {0, n});
    EXPECT_TRUE(all.ok() && again.ok());
    results->values[index] = all.values;
    results->values[index].insert(results->values[index].end(), again.values.begin(),
                                  again.values.end());
    results->z[index] = fetched(rank, z);
  });
  return results;
}

}  // namespace shardsolve::testing::tridiagonal
