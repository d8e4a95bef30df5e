// shardsolve_bench_cuda_mpi: times the public calls of shardsolve on GPUs with a process for each,
// started by mpirun. What it is asked for it reads in the process of rank 0.

#include "bench/cuda/certificate.hpp"
#include "bench/cuda/jobs.hpp"
#include "bench/cuda/our_eigenpairs.hpp"
#include "comm/tell_all.hpp"
#include "core/each_dtype.hpp"
#include "mesh/mpi_loader.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/device_memory.hpp>
#include <shardsolve/eigh.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/version.hpp>

#include <algorithm>
#include <complex>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>

namespace shardsolve::bench {
namespace {

struct ProcessOptions : GpuOptions {
  GpuCommunicator communicator = GpuCommunicator::automatic;
};

void require_ok(const Outcome& outcome) {
  if (!outcome.ok()) {
    throw Error(ErrorKind::internal, outcome.message());
  }
}

template <class T>
class OursInProcesses final : public Solver<T> {
 public:
  OursInProcesses(const ProcessOptions& options, Problem<T> problem, comm::Transport& line)
      : options_(options),
        problem_(problem),
        line_(line),
        rank_(line.rank()),
        device_(options.devices.at(static_cast<std::size_t>(rank_))),
        mesh_(make_mesh()),
        tile_(options.tile > 0 ? options.tile : mesh_->default_tile(problem.n, dtype_of<T>)) {}

  nlohmann::json hello() const override {
    return {{"program", "shardsolve " SHARDSOLVE_VERSION_STRING " by MPI"},
            {"jobs",
             {"factor", "solve", "solve_many", "one_call", "rcond", "eigh", "eigh_tenth",
              "eigh_values"}},
            {"libraries", {{"shardsolve", SHARDSOLVE_VERSION_STRING}}}};
  }
  std::int64_t default_tile() const override { return tile_; }

  void fill_matrix(std::int64_t tile) override {
    factor_.reset();
    if (!mesh_) {
      mesh_.emplace(make_mesh());
    }
    const SlabLayout wanted = SlabLayout::even(problem_.n, mesh_->ranks(), tile);
    if (!memory_) {
      memory_.emplace(make_matrix<T>(*mesh_, wanted));
    }
    std::vector<MatrixView<T>> slabs(static_cast<std::size_t>(mesh_->ranks()));
    slabs[static_cast<std::size_t>(rank_)] = memory_->slab(rank_);
    a_.emplace(wanted, slabs);
    fill(problem_, device_, Axis::contiguous(0), own_rows(), a_->slab(rank_));
  }

  void fill_right_hand_sides(std::int64_t columns) override {
    if (!b_ || b_->columns() != columns || !(b_->layout() == a_->layout())) {
      b_.reset();
      b_.emplace(make_right_hand_sides<T>(*mesh_, a_->layout(), columns));
    }
    bench::fill_right_hand_sides(problem_, device_, own_rows(), Axis::contiguous(0),
                                 b_->block(rank_));
  }

  void factor() override {
    factor_.emplace(cholesky_factor(*mesh_, *a_));
    finish(factor_->outcome);
  }
  void solve() override { finish(cholesky_solve(*mesh_, *factor_, *b_)); }
  void one_call() override { finish(shardsolve::solve(*mesh_, *a_, *b_, {}, Rcond::left_out)); }
  void rcond() override { finish(estimated_rcond(*mesh_, *factor_)); }
  void factor_and_invert() override { refuse_inverse(); }

  /// In all processes.
  std::vector<T> solution() override {
    const auto n = static_cast<std::size_t>(problem_.n);
    const auto columns = static_cast<std::size_t>(b_->columns());
    const MatrixView<T> own = b_->block(rank_);
    std::string text(static_cast<std::size_t>(own.rows()) * columns * sizeof(T), '\0');
    if (!own.empty()) {
      check(cudaMemcpy(text.data(), own.data(), text.size(), cudaMemcpyDefault),
            "reading the solution");
    }
    const std::vector<std::string> texts = comm::tell_all(line_, text);
    std::vector<T> x(n * columns);
    for (std::int64_t rank = 0; rank < mesh_->ranks(); ++rank) {
      const GlobalRange rows = b_->layout().segment(rank);
      const std::size_t bytes = static_cast<std::size_t>(rows.size()) * sizeof(T);
      const char* from = texts[static_cast<std::size_t>(rank)].data();
      for (std::size_t j = 0; j < columns && bytes > 0; ++j) {
        std::memcpy(
            static_cast<void*>(x.data() + j * n + static_cast<std::size_t>(rows.begin.value())),
            from + j * bytes, bytes);
      }
    }
    return x;
  }

  double inverse_residual() override { refuse_inverse(); }

  void eigenpairs(const Wanted& wanted) override {
    found_ = eigh(*mesh_, *a_, request_of(wanted));
    finish(found_.outcome);
  }
  std::vector<double> eigenvalues() override {
    return {found_.values.begin(), found_.values.end()};
  }
  EigenpairRatios eigenpair_residuals() override {
    const Part<T> part{device_, Axis::contiguous(0), own_rows(),
                       first_columns(a_->slab(rank_), own_rows().first, found_.vectors)};
    return eigenpair_ratios(problem_, {device_}, {part}, eigenvalues(),
                            [this](std::vector<std::complex<double>>& sums) { add_up(sums); });
  }
  nlohmann::json certificate() const override { return certificate_; }

  void release() override {
    factor_.reset();
    b_.reset();
    a_.reset();
    memory_.reset();
    mesh_.reset();
  }

  void barrier() override { comm::tell_all(line_, ""); }
  bool leads() const override { return rank_ == 0; }

 private:
  [[noreturn]] static void refuse_inverse() {
    throw Error(ErrorKind::unsupported, "inverses are timed in one process");
  }
  Mesh make_mesh() const {
    return Mesh::mpi_cuda(
        {.communicator = {}, .devices = options_.devices, .path = options_.communicator});
  }
  /// The sum of what all processes have.
  void add_up(std::vector<std::complex<double>>& sums) {
    const std::string own(reinterpret_cast<const char*>(sums.data()),
                          sums.size() * sizeof sums.front());
    std::fill(sums.begin(), sums.end(), 0.0);
    for (const std::string& text : comm::tell_all(line_, own)) {
      std::vector<std::complex<double>> theirs(sums.size());
      std::memcpy(static_cast<void*>(theirs.data()), text.data(), text.size());
      std::transform(sums.begin(), sums.end(), theirs.begin(), sums.begin(), std::plus<>());
    }
  }
  Axis own_rows() const { return Axis::contiguous(memory_->layout().segment(rank_).begin.value()); }

  void finish(const Outcome& outcome) {
    synchronize(device_);
    require_ok(outcome);
    certificate_ = certificate_of<T>(outcome);
  }

  ProcessOptions options_;
  Problem<T> problem_;
  comm::Transport& line_;  // between the processes of the benchmark
  std::int64_t rank_;
  int device_;
  std::optional<Mesh> mesh_;
  std::int64_t tile_;
  std::optional<ShardedMatrix<T>> memory_;
  std::optional<ShardedMatrix<T>> a_;  // memory_ with the tile asked for
  std::optional<RightHandSides<T>> b_;
  std::optional<CholeskyFactor<T>> factor_;
  Eigenvalues<T> found_;
  nlohmann::json certificate_ = nlohmann::json::object();
};

constexpr const char* the_end = "end";

/// The other processes do what rank 0 is asked for, and say nothing.
template <Scalar T>
void follow(Jobs<T>& jobs, comm::Transport& line) {
  for (;;) {
    const std::string asked = comm::tell_all(line, "").front();
    if (asked == the_end) {
      return;
    }
    Request request;
    std::istringstream words(asked);
    words >> request.job >> request.argument;
    try {
      jobs.answer(request);
    } catch (const std::exception& error) {
      std::cerr << "rank " << line.rank() << ": " << error.what() << '\n';
    }
  }
}

void serve_processes(const ProcessOptions& options, comm::Transport& line) {
  if (line.ranks() != static_cast<std::int64_t>(options.devices.size())) {
    throw Error(ErrorKind::invalid_argument, "as many processes are needed as --devices lists");
  }
  with_dtype(options.dtype, [&]<class T>() {
    const Problem<T> problem(options.kind, options.n);
    const std::vector<int> own{options.devices.at(static_cast<std::size_t>(line.rank()))};
    MemoryMeter memory(own);
    std::unique_ptr<OursInProcesses<T>> solver;
    const double seconds =
        time([&] { solver = std::make_unique<OursInProcesses<T>>(options, problem, line); });
    memory.end();
    Jobs<T> jobs(problem, own, options.columns, *solver, memory);
    if (line.rank() != 0) {
      return follow(jobs, line);
    }
    nlohmann::json hello = solver->hello();
    hello["devices"] = describe_devices(options.devices);
    hello["libraries"].update(describe_cuda());
    hello["tile"] = solver->default_tile();
    hello["setup_seconds"] = seconds;
    serve(hello, [&](const Request& request) {
      comm::tell_all(line, request.job + " " + request.argument);
      return jobs.answer(request);
    });
    comm::tell_all(line, the_end);
  });
}

}  // namespace
}  // namespace shardsolve::bench

int main(int argc, char** argv) {
  using namespace shardsolve;
  using namespace shardsolve::bench;
  CLI::App app("Times shardsolve with a process for each GPU; start it by mpirun");
  ProcessOptions options;
  add_gpu_options(app, options);
  const std::map<std::string, GpuCommunicator> communicators = {
      {"auto", GpuCommunicator::automatic},
      {"ipc", GpuCommunicator::ipc},
      {"nccl", GpuCommunicator::nccl}};
  app.add_option("--communicator", options.communicator, "auto, ipc or nccl")
      ->transform(CLI::CheckedTransformer(communicators));
  CLI11_PARSE(app, argc, argv);
  try {
    const auto line = mesh::make_mpi_transport(std::nullopt);
    serve_processes(options, *line);
  } catch (const std::exception& error) {
    std::cerr << argv[0] << ": " << error.what() << '\n';
    return 1;
  }
}
