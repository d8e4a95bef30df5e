// Krylov solves on ranks: the same bits on any cut, true verdicts, and the cases that others get
// wrong.

#include "support/dtypes.hpp"
#include "support/krylov_problems.hpp"

#include <shardsolve/krylov.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>

namespace shardsolve::testing::krylov_problems {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Status;
using ::testing::HasSubstr;

/// A mesh for each number of ranks, kept for all tests.
Mesh& mesh_of(std::int64_t ranks) {
  static std::map<std::int64_t, Mesh> meshes;
  const auto found = meshes.find(ranks);
  return found != meshes.end() ? found->second
                               : meshes.emplace(ranks, Mesh::host(ranks)).first->second;
}

template <Scalar T>
Answer<T> solve_alone(const System<T>& system, const Options& options, bool jacobi = false) {
  const Operator<T> m = jacobi_of(system);
  return solve_on(mesh_of(1), SlabLayout::even(system.n, 1, 1), system, operator_of(system),
                  jacobi ? &m : nullptr, options);
}

template <Scalar T>
double loose_rtol() {
  return 1e5 * unit_roundoff<T>;
}

/// Checks that a verdict "converged" is true, and that all cuts give the same bits.
template <Scalar T>
Answer<T> solve_everywhere(const System<T>& system, const Options& options, bool jacobi = false) {
  const Operator<T> a = operator_of(system);
  const Operator<T> m = jacobi_of(system);
  const Answer<T> alone = solve_alone(system, options, jacobi);
  for (const SlabLayout& layout : cuts_of(system.n)) {
    EXPECT_TRUE(same_bits(
        solve_on(mesh_of(layout.ranks()), layout, system, a, jacobi ? &m : nullptr, options),
        alone))
        << system.name << " on " << layout.ranks();
  }
  EXPECT_TRUE(all_finite(alone.x));
  if (krylov::is_converged(alone.result.status) && options.atol == 0.0) {
    EXPECT_LE(true_residual(system, alone.x), 1.01 * options.rtol + 50 * unit_roundoff<T>)
        << alone.result.message;
  }
  return alone;
}

template <class T>
class KrylovSolve : public ::testing::Test {};
TYPED_TEST_SUITE(KrylovSolve, Dtypes, DtypeNames);

TYPED_TEST(KrylovSolve, Cg_OnAnyCut_HasTheSameBits) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 5, 63, 64, 65, 130, 200}) {
    const Answer<T> answer =
        solve_everywhere(laplacian<T>(n, 2.1), {.rtol = loose_rtol<T>()}, n % 2 == 0);
    EXPECT_EQ(answer.result.status, Status::converged_rtol) << answer.result.message;
    EXPECT_LE(answer.result.iterations, n + 1);
  }
}

TYPED_TEST(KrylovSolve, Minres_OnAnyCut_HasTheSameBits) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 64, 130, 200}) {
    const Answer<T> answer = solve_everywhere(laplacian<T>(n, n % 3 == 1 ? 2.1 : 0.63),
                                              {.method = Method::minres, .rtol = loose_rtol<T>()});
    EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
  }
}

TYPED_TEST(KrylovSolve, Bicgstab_OnAnyCut_HasTheSameBits) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 64, 130, 200}) {
    const Answer<T> answer = solve_everywhere(
        convection<T>(n), {.method = Method::bicgstab, .rtol = loose_rtol<T>()}, n % 3 == 1);
    EXPECT_EQ(answer.result.status, Status::converged_rtol) << answer.result.message;
  }
}

TYPED_TEST(KrylovSolve, Fgmres_OnAnyCut_HasTheSameBits) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 64, 130, 200}) {
    const Answer<T> answer = solve_everywhere(
        convection<T>(n), {.method = Method::fgmres, .rtol = loose_rtol<T>(), .restart = 40},
        n % 3 == 1);
    EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
  }
}

}  // namespace
}  // namespace shardsolve::testing::krylov_problems
