// shardsolve_bench_cuda: times the public calls of shardsolve on GPUs.

#include "bench/cuda/certificate.hpp"
#include "bench/cuda/jobs.hpp"
#include "bench/cuda/our_eigenpairs.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/device_memory.hpp>
#include <shardsolve/eigh.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/version.hpp>

#include <optional>

namespace shardsolve::bench {
namespace {

void require_ok(const Outcome& outcome) {
  if (!outcome.ok()) {
    throw Error(ErrorKind::internal, outcome.message());
  }
}

template <class T>
class Ours final : public Solver<T> {
 public:
  Ours(const GpuOptions& options, Problem<T> problem)
      : devices_(options.devices),
        problem_(problem),
        mesh_(Mesh::cuda(devices_)),
        tile_(options.tile > 0 ? options.tile : mesh_->default_tile(problem.n, dtype_of<T>)) {}

  nlohmann::json hello() const override {
    return {{"program", "shardsolve " SHARDSOLVE_VERSION_STRING},
            {"jobs",
             {"factor", "solve", "solve_many", "one_call", "rcond", "inverse", "eigh", "eigh_tenth",
              "eigh_values"}},
            {"libraries", {{"shardsolve", SHARDSOLVE_VERSION_STRING}}}};
  }
  std::int64_t default_tile() const override { return tile_; }

  void fill_matrix(std::int64_t tile) override {
    factor_.reset();
    make_memory();
    const SlabLayout wanted = layout(tile);
    a_.emplace(wanted, slabs());
    for (std::int64_t rank = 0; rank < wanted.ranks(); ++rank) {
      fill(problem_, device(rank), Axis::contiguous(0), columns_of(rank), a_->slab(rank));
    }
  }

  void fill_right_hand_sides(std::int64_t columns) override {
    if (!b_ || b_->columns() != columns || !(b_->layout() == a_->layout())) {
      b_.reset();
      b_.emplace(make_right_hand_sides<T>(*mesh_, a_->layout(), columns));
    }
    for (std::int64_t rank = 0; rank < b_->layout().ranks(); ++rank) {
      bench::fill_right_hand_sides(problem_, device(rank), columns_of(rank), Axis::contiguous(0),
                                   b_->block(rank));
    }
  }

  void factor() override {
    factor_.emplace(cholesky_factor(*mesh_, *a_));
    finish(factor_->outcome);
  }
  void solve() override { finish(cholesky_solve(*mesh_, *factor_, *b_)); }
  void one_call() override { finish(shardsolve::solve(*mesh_, *a_, *b_, {}, Rcond::left_out)); }
  void rcond() override { finish(estimated_rcond(*mesh_, *factor_)); }
  void factor_and_invert() override {
    factor();
    finish(cholesky_inverse(*mesh_, std::move(*factor_)));
    factor_.reset();
  }

  std::vector<T> solution() override {
    const auto n = static_cast<std::size_t>(problem_.n);
    std::vector<T> x(n * static_cast<std::size_t>(b_->columns()));
    for (std::int64_t rank = 0; rank < b_->layout().ranks(); ++rank) {
      const MatrixView<T> block = b_->block(rank);
      if (block.empty()) {
        continue;
      }
      T* to = x.data() + b_->layout().segment(rank).begin.value();
      check(
          cudaMemcpy2D(to, n * sizeof(T), block.data(), bytes(block.stride()), bytes(block.rows()),
                       static_cast<std::size_t>(block.columns()), cudaMemcpyDefault),
          "reading the solution");
    }
    return x;
  }

  double inverse_residual() override {
    std::vector<Part<T>> parts;
    for (std::int64_t rank = 0; rank < mesh_->ranks(); ++rank) {
      parts.push_back({device(rank), Axis::contiguous(0), columns_of(rank), a_->slab(rank)});
    }
    return inverse_ratio(problem_, devices_, parts, Triangle::both);
  }

  void eigenpairs(const Wanted& wanted) override {
    found_ = eigh(*mesh_, *a_, request_of(wanted));
    finish(found_.outcome);
  }
  std::vector<double> eigenvalues() override {
    return {found_.values.begin(), found_.values.end()};
  }
  EigenpairRatios eigenpair_residuals() override {
    std::vector<Part<T>> parts;
    for (std::int64_t rank = 0; rank < mesh_->ranks(); ++rank) {
      parts.push_back({device(rank), Axis::contiguous(0), columns_of(rank),
                       first_columns(a_->slab(rank), columns_of(rank).first, found_.vectors)});
    }
    return eigenpair_ratios(problem_, devices_, parts, eigenvalues());
  }

  nlohmann::json certificate() const override { return certificate_; }

  /// The mesh too, because it keeps the workspace of its calls.
  void release() override {
    factor_.reset();
    b_.reset();
    a_.reset();
    memory_.reset();
    mesh_.reset();
  }

 private:
  static std::size_t bytes(std::int64_t elements) {
    return static_cast<std::size_t>(elements) * sizeof(T);
  }
  int device(std::int64_t rank) const { return devices_.at(static_cast<std::size_t>(rank)); }
  SlabLayout layout(std::int64_t tile) const {
    return SlabLayout::even(problem_.n, mesh_->ranks(), tile);
  }
  Axis columns_of(std::int64_t rank) const {
    return Axis::contiguous(memory_->layout().segment(rank).begin.value());
  }

  void make_memory() {
    if (!mesh_) {
      mesh_.emplace(Mesh::cuda(devices_));
    }
    if (!memory_) {
      memory_.emplace(make_matrix<T>(*mesh_, layout(tile_)));
    }
  }
  /// The same memory for every tile: the slabs do not depend on it.
  std::vector<MatrixView<T>> slabs() const {
    std::vector<MatrixView<T>> all;
    for (std::int64_t rank = 0; rank < mesh_->ranks(); ++rank) {
      all.push_back(memory_->slab(rank));
    }
    return all;
  }

  /// Calls block until they are done; the clock does not rely on it.
  void finish(const Outcome& outcome) {
    for (const int each : devices_) {
      synchronize(each);
    }
    require_ok(outcome);
    certificate_ = certificate_of<T>(outcome);
  }

  std::vector<int> devices_;
  Problem<T> problem_;
  std::optional<Mesh> mesh_;
  std::int64_t tile_;
  std::optional<ShardedMatrix<T>> memory_;
  std::optional<ShardedMatrix<T>> a_;  // memory_ with the tile asked for
  std::optional<RightHandSides<T>> b_;
  std::optional<CholeskyFactor<T>> factor_;
  Eigenvalues<T> found_;
  nlohmann::json certificate_ = nlohmann::json::object();
};

}  // namespace
}  // namespace shardsolve::bench

int main(int argc, char** argv) {
  using namespace shardsolve::bench;
  return run_program(argc, argv, "Times shardsolve on GPUs", serve_library<Ours>);
}
