// shardsolve_bench_sparse: products with the 7-point Laplacian, beside what the memory gives.
//
// Each round times a triad a_i = b_i + s c_i on as many threads as there are ranks and then
// products of the matrix, so that both see the same machine. Bytes are those of the arrays, each
// counted once: of the triad 3 numbers an element; of a product 4 + sizeof(T) an entry (column,
// value) and 8 + 2 sizeof(T) a row (row pointer, x, y). That y is read before it is written, where
// a cache does so, is counted in neither.

#include "bench/support/triad.hpp"
#include "core/each_dtype.hpp"
#include "matgen/sparse_matrices.hpp"
#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "sparse/operator.hpp"

#include <shardsolve/sparse.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace shardsolve::bench {
namespace {

struct Options {
  std::int64_t edge = 128;
  std::int64_t ranks = 1;
  std::int64_t rounds = 7;
  std::int64_t products = 10;
  std::string dtype = "float64";
};

template <Scalar T>
class Products {
 public:
  explicit Products(const Options& options)
      : count_(options.products),
        mesh_(mesh::MeshState::start(std::make_unique<mesh::HostBackend>(
            options.ranks, mesh::HostBackend::Windows::in_place))),
        a_(make(mesh_, options)),
        x_(a_.columns(), 1),
        y_(a_.rows(), 1) {
    for (std::int64_t rank = 0; rank < options.ranks; ++rank) {
      std::fill_n(x_.block(rank).data(), x_.block(rank).rows(), T{1});
    }
  }

  const SparseMatrix<T>& matrix() const { return a_; }
  double bytes() const {
    return static_cast<double>(a_.entries()) * (4.0 + sizeof(T)) +
           static_cast<double>(a_.rows().size()) * (8.0 + 2.0 * sizeof(T));
  }
  /// Of one product.
  double seconds() {
    const auto start = Clock::now();
    mesh_.state().run({}, [this](mesh::Rank& rank) {
      sparse::Operator<T> product(rank, a_);
      for (std::int64_t i = 0; i < count_; ++i) {
        product.apply(rank.update(), x_.block(rank.index()).data(), y_.block(rank.index()).data());
      }
      rank.finish(rank.update());
    });
    return seconds_since(start) / static_cast<double>(count_);
  }

 private:
  static SparseMatrix<T> make(Mesh& mesh, const Options& options) {
    const CsrMatrix<T> whole = matgen::laplacian_3d<T>(options.edge);
    return {mesh, whole, row_slabs(whole.rows, options.ranks)};
  }

  std::int64_t count_;
  Mesh mesh_;
  SparseMatrix<T> a_;
  RightHandSides<T> x_;
  RightHandSides<T> y_;
};

template <Scalar T>
nlohmann::json measure(const Options& options) {
  Triad triad(options.ranks);
  Products<T> products(options);
  triad.seconds();
  products.seconds();
  std::vector<double> triads;
  std::vector<double> times;
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    triads.push_back(triad.seconds());
    times.push_back(products.seconds());
  }
  const double triad_rate = triad.bytes() / median(triads);
  const double rate = products.bytes() / median(times);
  return {{"matrix", fmt::format("7-point Laplacian, {}^3", options.edge)},
          {"dtype", options.dtype},
          {"ranks", options.ranks},
          {"entries", products.matrix().entries()},
          {"lanes", products.matrix().lanes()},
          {"halo_of_first_rank", products.matrix().halo(0)},
          {"product_bytes", products.bytes()},
          {"product_seconds", times},
          {"triad_seconds", triads},
          {"product_gb_per_s", rate / 1e9},
          {"triad_gb_per_s", triad_rate / 1e9},
          {"share_of_triad", rate / triad_rate}};
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app{"Times products with a sparse matrix beside a triad; prints one JSON object."};
  app.add_option("--edge", options.edge, "points of an edge of the grid")
      ->check(CLI::Range(1, 500));
  app.add_option("--ranks", options.ranks, "CPU ranks, and threads of the triad")
      ->check(CLI::Range(1, 1024));
  app.add_option("--rounds", options.rounds, "timed rounds")->check(CLI::Range(1, 1000));
  app.add_option("--products", options.products, "products a round")->check(CLI::Range(1, 10000));
  app.add_option("--dtype", options.dtype)
      ->check(CLI::IsMember({"float32", "float64", "complex64", "complex128"}));
  CLI11_PARSE(app, argc, argv);
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128}) {
    if (name(dtype) == options.dtype) {
      std::cout << with_dtype(dtype, [&]<Scalar T>() { return measure<T>(options); }) << '\n';
    }
  }
  return 0;
}

}  // namespace
}  // namespace shardsolve::bench

int main(int argc, char** argv) {
  try {
    return shardsolve::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "shardsolve_bench_sparse: " << error.what() << '\n';
    return 1;
  }
}
