// An operator that is no matrix, a solve with it that fails, and a folder that shows the failure
// again wherever shardsolve is:
//   sparse_capture failure && shardsolve replay failure

#include <shardsolve/krylov.hpp>
#include <shardsolve/krylov_files.hpp>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

namespace krylov = shardsolve::krylov;
using Operator = krylov::Operator<double>;
using Vector = shardsolve::RightHandSides<double>;

constexpr std::int64_t edge = 20;
constexpr std::int64_t n = edge * edge;
constexpr double shift = 0.2;

// y = (discrete -Laplacian - shift) x on a square, for the rows that are asked for.
void helmholtz(const double* x, shardsolve::GlobalRange rows, double* y) {
  for (std::int64_t row = rows.begin.value(); row < rows.end.value(); ++row) {
    const std::int64_t column = row % edge;
    double sum = (4.0 - shift) * x[row];
    if (column > 0) sum -= x[row - 1];
    if (column < edge - 1) sum -= x[row + 1];
    if (row >= edge) sum -= x[row - edge];
    if (row < n - edge) sum -= x[row + edge];
    *y++ = sum;
  }
}

int main(int argc, char** argv) try {
  const char* const folder = argc > 1 ? argv[1] : "failure";
  auto mesh = shardsolve::Mesh::host(2);
  const auto layout = shardsolve::row_slabs(n, mesh.ranks());
  const Vector b(layout, 1);
  const Vector x(layout, 1);
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    for (std::int64_t i = 0; i < layout.width(rank); ++i)
      b.block(rank)(i, 0) = 1.0;
  }

  // The products are kept beside the solve: 2 n numbers each.
  const krylov::ProductRecorder<double> recorder;
  krylov::Request request{.options = {.log = true}, .ranks = mesh.ranks()};
  const auto result =
      krylov::solve(mesh, recorder.record(Operator::callable(helmholtz)), b, x, request.options);
  std::puts(result.message.c_str());
  if (result.outcome.ok()) return 0;
  krylov::capture<double>(folder, request, recorder.products(mesh), {}, std::vector<double>(n, 1.0),
                          {}, result, {.overwrite = true});
  std::printf("To see it again: shardsolve replay '%s'\n", folder);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "sparse_capture: %s\n", error.what());
  return 1;
}
