// Krylov solves on GPU ranks: x, log, status and message have the bits of CPU ranks. Left out
// without a GPU: see support/backend.hpp.

#include "matgen/sparse_matrices.hpp"
#include "mesh/mesh_state.hpp"
#include "support/dtypes.hpp"
#include "support/krylov_sparse.hpp"

#include <shardsolve/krylov.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing::krylov_problems {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Status;

constexpr Method all_methods[] = {Method::cg, Method::minres, Method::bicgstab, Method::fgmres};

bool is_for_hermitian(Method method) { return method == Method::cg || method == Method::minres; }

enum class Kind : std::uint8_t { none, jacobi, chebyshev, blocks, incomplete };

/// The diagonal, which may have zeros, where the mesh computes.
template <Scalar T>
Operator<T> preconditioner(Kind kind, Mesh& mesh, const SlabLayout& layout, const System<T>& system,
                           const Operator<T>& a) {
  if (kind == Kind::chebyshev) {
    return Operator<T>::chebyshev(a, 0.4, 12.1, 4);
  }
  const std::int64_t n = system.n;
  const std::vector<std::int64_t> blocks{0, n / 4, n / 4 + 1, n / 2 + 3, n};
  if (kind == Kind::blocks) {
    return Operator<T>::block_jacobi(blocks, csr_of(system));
  }
  if (kind == Kind::incomplete) {
    return system.name == "poisson" ? Operator<T>::incomplete_cholesky(blocks, csr_of(system))
                                    : Operator<T>::incomplete_lu(blocks, csr_of(system));
  }
  const RightHandSides<T> diagonal(layout, 1);
  for (std::int64_t r = 0; r < layout.ranks(); ++r) {
    for (std::int64_t i = 0; i < layout.width(r); ++i) {
      const std::int64_t row = layout.segment(r).begin.value() + i;
      diagonal.block(r)(i, 0) = system.entry(row, row);
    }
  }
  return Operator<T>::jacobi(mesh.memory() == Memory::device ? to_devices(diagonal) : diagonal);
}

template <Scalar T>
Answer<T> solve_with(Mesh& mesh, const SlabLayout& layout, const System<T>& system, Kind kind,
                     const Options& options, const RunOptions& run = {}) {
  const SparseMatrix<T> on_mesh(mesh, csr_of(system), layout);
  const Operator<T> a = Operator<T>::sparse(on_mesh);
  std::optional<Operator<T>> m;
  if (kind != Kind::none) {
    m = preconditioner(kind, mesh, layout, system, a);
  }
  return solve_on(mesh, layout, system, a, m ? &*m : nullptr, options, run);
}

/// On one CPU rank, and on GPU ranks with several cuts.
template <Scalar T>
Answer<T> expect_same_everywhere(const System<T>& system, Kind kind, const Options& options) {
  const Answer<T> expected = solve_with(cpu_rank(), row_slabs(system.n, 1), system, kind, options);
  const std::int64_t n = system.n;
  for (const SlabLayout& layout :
       {row_slabs(n, 1), row_slabs(n, 2), row_slabs(n, 3), row_slabs({0, n / 3, n / 3, n})}) {
    EXPECT_TRUE(same_bits(solve_with(transfer_mesh(layout.ranks()), layout, system, kind, options),
                          expected))
        << system.name << " by " << krylov::name(options.method) << " on " << layout.ranks();
  }
  return expected;
}

/// For tests on GPUs.
class DeviceKrylovSolve : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test_gpus().empty()) {
      GTEST_SKIP() << "no GPU: set SHARDSOLVE_TEST_GPUS";
    }
  }
};
template <class T>
class DeviceKrylov : public DeviceKrylovSolve {};
TYPED_TEST_SUITE(DeviceKrylov, Dtypes, DtypeNames);

TYPED_TEST(DeviceKrylov, EveryMethodAndPreconditioner_HasTheBitsOfTheCpu) {
  using T = TypeParam;
  const System<T> symmetric = system_of("poisson", matgen::laplacian_3d<T>(7));
  const System<T> convective =
      system_of("convection", matgen::convection_diffusion_2d<T>(17, 0.4, -0.3));
  for (const Method method : all_methods) {
    for (const Kind kind :
         {Kind::none, Kind::jacobi, Kind::chebyshev, Kind::blocks, Kind::incomplete}) {
      const Answer<T> answer =
          expect_same_everywhere(is_for_hermitian(method) ? symmetric : convective, kind,
                                 {.method = method, .rtol = 1e5 * unit_roundoff<T>, .restart = 20});
      EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
    }
  }
}

TYPED_TEST(DeviceKrylov, LongRows_HaveTheBitsOfTheCpu) {
  using T = TypeParam;
  const System<T> system = random_system<T>(300, 4);
  for (const Method method : {Method::bicgstab, Method::fgmres}) {
    for (const Kind kind : {Kind::jacobi, Kind::blocks}) {
      const Answer<T> answer =
          expect_same_everywhere(system, kind, {.method = method, .rtol = 1e5 * unit_roundoff<T>});
      EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
    }
  }
}

/// The Laplacian of a million rows, where sums have blocks of many leaves.
TEST_F(DeviceKrylovSolve, MillionRows_HaveTheBitsOfTheCpu) {
  const CsrMatrix<double> a = matgen::laplacian_3d<double>(100);
  const auto solve = [&](Mesh& mesh, const SlabLayout& layout) {
    const RightHandSides<double> b(layout, 1);
    const RightHandSides<double> x(layout, 1);
    for (std::int64_t r = 0; r < layout.ranks(); ++r) {
      for (std::int64_t i = 0; i < layout.width(r); ++i) {
        b.block(r)(i, 0) = random_number(3, layout.segment(r).begin.value() + i);
      }
    }
    const bool on_gpus = mesh.memory() == Memory::device;
    const RightHandSides<double> own_x = on_gpus ? to_devices(x) : x;
    Answer<double> answer;
    answer.result =
        krylov::solve(mesh, Operator<double>::sparse(SparseMatrix<double>(mesh, a, layout)),
                      Operator<double>::jacobi(a), on_gpus ? to_devices(b) : b, own_x,
                      {.rtol = 1e-3, .max_iterations = 60, .log = true});
    const RightHandSides<double> found = to_host(own_x);
    for (std::int64_t r = 0; r < layout.ranks(); ++r) {
      for (std::int64_t i = 0; i < layout.width(r); ++i) {
        answer.x.push_back(found.block(r)(i, 0));
      }
    }
    return answer;
  };
  const Answer<double> expected = solve(cpu_rank(), row_slabs(a.rows, 1));
  for (const std::int64_t ranks : {1, 2, 3}) {
    EXPECT_TRUE(same_bits(solve(transfer_mesh(ranks), row_slabs(a.rows, ranks)), expected))
        << ranks;
  }
}

/// Systems that end otherwise than by convergence, or at once.
std::vector<std::pair<System<double>, Options>> verdicts(Method method) {
  const auto with = [&](double rtol, std::int64_t limit = 400) {
    return Options{.method = method, .rtol = rtol, .max_iterations = limit};
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::pair<System<double>, Options>> all;
  all.emplace_back(diagonal_system<double>("identity", std::vector<double>(70, 1.0)), with(1e-14));
  System<double> system = laplacian<double>(70);
  system.b.assign(70, 0.0);
  all.emplace_back(system, with(1e-10));
  system = laplacian<double>(70);
  system.a[65 * 70 + 65] = nan;
  all.emplace_back(system, with(1e-10));
  system = laplacian<double>(70);
  system.b[66] = std::numeric_limits<double>::infinity();
  all.emplace_back(system, with(1e-10));
  system = laplacian<double>(70);
  system.guess = std::vector<double>(70, nan);
  all.emplace_back(system, with(1e-10));
  system.guess = std::vector<double>(70, 2.5);
  all.emplace_back(system, with(1e-10));
  all.emplace_back(diagonal_system<double>("zero", {1, 2, 0, 4}), with(1e-10));
  std::vector<double> d(90, 1.0);
  for (std::size_t i = 3; i < d.size(); i += 7) {
    d[i] = -1.0 - 0.01 * static_cast<double>(i);
  }
  all.emplace_back(diagonal_system<double>("indefinite", d), with(1e-10));
  all.emplace_back(convection<double>(90), with(1e-10));
  all.emplace_back(laplacian<double>(200), with(1e-17, 3000));
  all.emplace_back(laplacian<double>(200), with(1e-12, 17));
  all.emplace_back(make_system<double>("skew", 40,
                                       [](std::int64_t i, std::int64_t j) {
                                         return i - j == 1 ? 1.0 : j - i == 1 ? -1.0 : 0.0;
                                       }),
                   with(1e-10));
  all.emplace_back(make_system<double>("shift", 40,
                                       [](std::int64_t i, std::int64_t j) {
                                         return (i + 1) % 40 == j ? 1.0 : 0.0;
                                       }),
                   with(1e-10));
  system = diagonal_system<double>("tiny", std::vector<double>(20, 1e-200));
  for (double& b : system.b) {
    b *= 1e200;
  }
  all.emplace_back(system, with(1e-10));
  return all;
}

TEST_F(DeviceKrylovSolve, EveryVerdict_HasTheBitsOfTheCpu) {
  for (const Method method : all_methods) {
    for (const auto& [system, options] : verdicts(method)) {
      expect_same_everywhere(system, Kind::none, options);
      expect_same_everywhere(system, Kind::jacobi, options);
    }
  }
}

TEST_F(DeviceKrylovSolve, Cancelled_IsAStatusOnAllRanks) {
  const System<double> system = laplacian<double>(400);
  std::stop_source source;
  source.request_stop();
  RunOptions run;
  run.cancel = source.get_token();
  for (const std::int64_t ranks : {1, 3}) {
    const Answer<double> answer = solve_with(transfer_mesh(ranks), row_slabs(400, ranks), system,
                                             Kind::none, {.rtol = 1e-12}, run);
    EXPECT_EQ(answer.result.status, Status::cancelled) << answer.result.message;
  }
}

TEST_F(DeviceKrylovSolve, CallableOfTheHost_IsRefused) {
  const System<double> system = laplacian<double>(30);
  EXPECT_THROW(solve_on(transfer_mesh(1), row_slabs(30, 1), system, operator_of(system), nullptr,
                        {.rtol = 1e-10}),
               Error);
}

}  // namespace
}  // namespace shardsolve::testing::krylov_problems
