/// Sparse systems for Krylov solves, on meshes of any cut.
#pragma once

#include "support/krylov_problems.hpp"

#include <shardsolve/sparse.hpp>

#include <cstdint>
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

}  // namespace shardsolve::testing::krylov_problems
