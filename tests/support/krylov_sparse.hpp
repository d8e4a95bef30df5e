/// Sparse systems for Krylov solves, on meshes of any cut.
#pragma once

#include "support/krylov_problems.hpp"

#include <shardsolve/sparse.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing::krylov_problems {

/// What is not 0 in the matrix of a system.
template <Scalar T>
CsrMatrix<T> csr_of(const System<T>& system) {
  CsrMatrix<T> a{system.n, system.n, {0}, {}, {}};
  for (std::int64_t i = 0; i < system.n; ++i) {
    for (std::int64_t j = 0; j < system.n; ++j) {
      if (system.entry(i, j) != T{0}) {
        a.column_indices.push_back(j);
        a.values.push_back(system.entry(i, j));
      }
    }
    a.row_pointers.push_back(a.entries());
  }
  return a;
}

/// Likewise the other way, with a right-hand side of random numbers.
template <Scalar T>
System<T> system_of(std::string name, const CsrMatrix<T>& a) {
  System<T> system{std::move(name), a.rows, {}, {}};
  system.a.assign(static_cast<std::size_t>(a.rows * a.rows), T{0});
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (auto k = static_cast<std::size_t>(a.row_pointers[static_cast<std::size_t>(i)]);
         k < static_cast<std::size_t>(a.row_pointers[static_cast<std::size_t>(i) + 1]); ++k) {
      system.a[static_cast<std::size_t>(i * a.rows + a.column_indices[k])] = a.values[k];
    }
    system.b.push_back(random_scalar<T>(7, i));
  }
  return system;
}

/// A solve whose operator is the sparse one of that mesh.
template <Scalar T>
Answer<T> solve_sparse_on(Mesh& mesh, const SlabLayout& layout, const System<T>& system,
                          const CsrMatrix<T>& a, const std::type_identity_t<Operator<T>>* m,
                          const krylov::Options& options) {
  const SparseMatrix<T> on_mesh(mesh, a, layout);
  return solve_on(mesh, layout, system, Operator<T>::sparse(on_mesh), m, options);
}

/// A mesh for each number of ranks, kept for all tests; of GPUs if there are some to test.
inline Mesh& sparse_mesh_of(std::int64_t ranks) { return transfer_mesh(ranks); }
/// One CPU rank.
inline Mesh& cpu_rank() {
  static Mesh mesh = Mesh::host(1);
  return mesh;
}

/// A preconditioner for the mesh and cut that it is used on.
template <Scalar T>
using MakeOperator = std::function<Operator<T>(Mesh&, const SlabLayout&)>;

/// Solves on one CPU rank and on every cut; all give the same bits, and what converged is solved.
template <Scalar T>
Answer<T> solve_sparse_everywhere(const System<T>& system, const krylov::Options& options,
                                  const MakeOperator<T>& make = {}) {
  const CsrMatrix<T> a = csr_of(system);
  const auto solve = [&](Mesh& mesh, const SlabLayout& layout) {
    std::optional<Operator<T>> m;
    if (make) {
      m = make(mesh, layout);
    }
    return solve_sparse_on(mesh, layout, system, a, m ? &*m : nullptr, options);
  };
  const Answer<T> alone = solve(cpu_rank(), SlabLayout::even(system.n, 1, 1));
  for (const SlabLayout& layout : cuts_for<T>(system.n)) {
    EXPECT_TRUE(same_bits(solve(sparse_mesh_of(layout.ranks()), layout), alone))
        << system.name << " on " << layout.ranks();
  }
  if (krylov::is_converged(alone.result.status)) {
    EXPECT_LE(
        true_residual(system, alone.x),
        1.01 * options.rtol.value_or(krylov::default_rtol(dtype_of<T>)) + 50 * unit_roundoff<T>)
        << alone.result.message;
  }
  return alone;
}

}  // namespace shardsolve::testing::krylov_problems
