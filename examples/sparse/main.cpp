// A sparse system from entries to a verdict: heat in a plate of two materials, by finite volumes.

#include <shardsolve/diagnose.hpp>
#include <shardsolve/krylov.hpp>
#include <shardsolve/sparse.hpp>

#include <cstdint>
#include <cstdio>
#include <utility>

using shardsolve::CooMatrix;
using shardsolve::CsrMatrix;
using Operator = shardsolve::krylov::Operator<double>;

// Conduction between the cells of an edge x edge grid, whose left half conducts 100 times better;
// the rim is held at 0. Entries of the same place are added.
CsrMatrix<double> plate(std::int64_t edge) {
  CooMatrix<double> a{edge * edge, edge * edge, {}, {}, {}};
  const auto add = [&](std::int64_t row, std::int64_t column, double value) {
    a.row_indices.push_back(row);
    a.column_indices.push_back(column);
    a.values.push_back(value);
  };
  const auto conducts = [&](std::int64_t x) { return x < edge / 2 ? 100.0 : 1.0; };
  for (std::int64_t y = 0; y < edge; ++y) {
    for (std::int64_t x = 0; x < edge; ++x) {
      const std::int64_t cell = y * edge + x;
      for (const auto& [u, v] : {std::pair{x - 1, y}, {x + 1, y}, {x, y - 1}, {x, y + 1}}) {
        const bool is_inside = 0 <= u && u < edge && 0 <= v && v < edge;
        const double there = is_inside ? conducts(u) : conducts(x);
        const double flow = 2.0 * conducts(x) * there / (conducts(x) + there);
        add(cell, cell, flow);
        if (is_inside) add(cell, v * edge + u, -flow);
      }
    }
  }
  return sorted(a);
}

int main() {
  const CsrMatrix<double> a = plate(100);
  auto mesh = shardsolve::Mesh::host(2);  // two CPU devices
  const auto layout = shardsolve::row_slabs(a.rows, mesh.ranks());
  const shardsolve::RightHandSides<double> b(layout, 1);
  const shardsolve::RightHandSides<double> x(layout, 1);
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    for (std::int64_t i = 0; i < layout.width(rank); ++i)
      b.block(rank)(i, 0) = 1.0;
  }

  const auto diagnosis = shardsolve::krylov::diagnose(mesh, a, {.rtol = 1e-10});
  std::puts(diagnosis.answer.c_str());

  const auto product = Operator::sparse(shardsolve::SparseMatrix<double>(mesh, a, layout));
  const auto blocks = Operator::block_jacobi(shardsolve::krylov::blocks_of(a, 4), a);
  const auto result = shardsolve::krylov::solve(mesh, product, blocks, b, x, {.rtol = 1e-10});
  std::puts(result.message.c_str());
  return result.outcome.ok() ? 0 : 1;
}
