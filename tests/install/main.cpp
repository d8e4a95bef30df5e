#include <shardsolve/cholesky.hpp>
#include <shardsolve/version.hpp>

#include <cstdio>
#include <cstring>
#include <vector>

// Usage: consumer <expected version>
int main(int argc, char** argv) {
  if (argc != 2 || std::strcmp(argv[1], SHARDSOLVE_VERSION_STRING) != 0) {
    std::fprintf(stderr, "header says version %s, expected %s\n", SHARDSOLVE_VERSION_STRING,
                 argc == 2 ? argv[1] : "one argument");
    return 1;
  }
  // diag(1, ..., 12) x = (1, ..., 1) on three ranks
  constexpr std::int64_t n = 12;
  std::vector<double> a(n * n, 0.0);
  std::vector<double> b(n, 1.0);
  for (std::int64_t i = 0; i < n; ++i) {
    a[static_cast<std::size_t>(i * (n + 1))] = static_cast<double>(i + 1);
  }
  using shardsolve::MatrixView;
  shardsolve::Mesh mesh = shardsolve::Mesh::host(3);
  const auto layout = shardsolve::SlabLayout::even(n, mesh.ranks(), 2);
  const shardsolve::Outcome outcome = shardsolve::solve(
      mesh, shardsolve::ShardedMatrix<double>(layout, MatrixView<double>(a.data(), n, n)),
      shardsolve::RightHandSides<double>(layout, MatrixView<double>(b.data(), n, 1)));
  if (!outcome.ok() || !(*outcome.backward_error < 1e-15) || !(b[11] * 12 > 0.999999)) {
    std::fprintf(stderr, "no solution: %s\n", outcome.message().c_str());
    return 1;
  }
  std::printf("consumer: shardsolve %s, backward error %.1e\n", SHARDSOLVE_VERSION_STRING,
              *outcome.backward_error);
  return 0;
}
