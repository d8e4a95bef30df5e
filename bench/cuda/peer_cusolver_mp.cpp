// shardsolve_bench_cusolver_mp: times cuSOLVERMp (potrf, potrs, syevd), one process a GPU. It has
// no potri; an inverse is potrs with the identity.

#include "bench/cuda/jobs.hpp"
#include "bench/cuda/mp_process.hpp"
#include "bench/cuda/team.hpp"
#include "core/each_dtype.hpp"

#include <fmt/format.h>

#include <cusolverMp.h>
#include <nccl.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <sstream>

namespace shardsolve::bench {
namespace {

template <class T>
class CusolverMp final : public Solver<T> {
 public:
  CusolverMp(const MpOptions& options, Problem<T> problem, Team& team)
      : process_(team, options),
        n_(problem.n),
        problem_(problem),
        tile_(options.tile > 0 ? options.tile : 1024),
        info_(process_.device(), 1) {}

  nlohmann::json hello() const override {
    int version = 0;
    int nccl = 0;
    int cusolver = 0;
    check(cusolverMpGetVersion(process_.handle(), &version), "cusolverMpGetVersion");
    check(cusolverGetVersion(&cusolver), "cusolverGetVersion");
    check_nccl(ncclGetVersion(&nccl), "ncclGetVersion");
    const std::string name =
        fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
    return {
        {"program", "cuSOLVERMp " + name},
        {"jobs", {"factor", "solve", "solve_many", "one_call", "inverse", "eigh", "eigh_values"}},
        {"grid", {process_.grid_rows(), process_.grid_columns()}},
        {"libraries", {{"cusolvermp", version}, {"nccl", nccl}, {"cusolver", cusolver}}}};
  }
  std::int64_t default_tile() const override { return tile_; }

  void fill_matrix(std::int64_t tile) override {
    x_.reset();
    if (!a_ || a_->tile() != tile) {
      release();
      a_ = std::make_unique<MpMatrix<T>>(process_, n_, n_, tile);
      std::size_t device_bytes = 0;
      std::size_t host_bytes = 0;
      check(cusolverMpPotrf_bufferSize(process_.handle(), lower, n_, a_->data(), 1, 1,
                                       a_->descriptor(), type, &device_bytes, &host_bytes),
            "cusolverMpPotrf_bufferSize");
      require_workspace(device_bytes, host_bytes);
    }
    fill(problem_, process_.device(), a_->rows(), a_->columns(), a_->local());
  }

  void fill_right_hand_sides(std::int64_t columns) override {
    if (!b_ || b_->width() != columns) {
      b_.reset();
      b_ = std::make_unique<MpMatrix<T>>(process_, n_, columns, a_->tile());
      prepare_solve(*b_);
    }
    bench::fill_right_hand_sides(problem_, process_.device(), b_->rows(), b_->columns(),
                                 b_->local());
  }

  void factor() override {
    check(cusolverMpPotrf(process_.handle(), lower, n_, a_->data(), 1, 1, a_->descriptor(), type,
                          workspace_.data(), workspace_.bytes(), host_workspace_.data(),
                          host_workspace_.size(), info_.data()),
          "cusolverMpPotrf");
    finish("cusolverMpPotrf");
  }
  void solve() override { solve(*b_); }

  /// The identity, where the inverse will be.
  void prepare_inverse() override {
    const std::int64_t tile = a_->tile();
    x_ = std::make_unique<MpMatrix<T>>(process_, n_, n_, tile);
    prepare_solve(*x_);
    select(process_.device());
    check(cudaMemset(x_->data(), 0, x_->bytes()), "clearing memory");
    const std::vector<T> ones(static_cast<std::size_t>(tile), T(1));
    for (std::int64_t block = 0; block * tile < n_; ++block) {
      const Axis rows = x_->rows();
      const Axis columns = x_->columns();
      if (block % rows.parts != rows.part || block % columns.parts != columns.part) {
        continue;
      }
      const std::int64_t row = block / rows.parts * tile;
      const std::int64_t column = block / columns.parts * tile;
      check(cudaMemcpy2D(x_->data() + row + column * x_->stride(),
                         static_cast<std::size_t>(x_->stride() + 1) * sizeof(T), ones.data(),
                         sizeof(T), sizeof(T),
                         static_cast<std::size_t>(std::min(tile, n_ - block * tile)),
                         cudaMemcpyHostToDevice),
            "writing a diagonal");
    }
    check(cudaDeviceSynchronize(), "writing the identity");
  }
  void factor_and_invert() override {
    factor();
    solve(*x_);
  }

  std::vector<T> solution() override {
    const MatrixView<T> local = b_->local();
    std::vector<T> x(static_cast<std::size_t>(n_ * b_->width()));
    std::vector<T> column(static_cast<std::size_t>(local.rows()));
    select(process_.device());
    for (std::int64_t j = 0; j < local.columns() && !column.empty(); ++j) {
      check(cudaMemcpy(column.data(), &local(0, j), column.size() * sizeof(T),
                       cudaMemcpyDeviceToHost),
            "reading the solution");
      T* to = x.data() + b_->columns().global(j) * n_;
      for (std::int64_t i = 0; i < local.rows(); ++i) {
        to[b_->rows().global(i)] = column[static_cast<std::size_t>(i)];
      }
    }
    // The others' entries are zero here.
    add_up(x);
    return x;
  }

  double inverse_residual() override {
    const Part<T> part{process_.device(), x_->rows(), x_->columns(), x_->local()};
    return inverse_ratio(problem_, {process_.device()}, {part}, Triangle::both,
                         [&](ColumnSums& sums) {
                           add_up(sums.products);
                           add_up(sums.magnitudes);
                         });
  }

  /// x is Z.
  void prepare_eigenpairs(const Wanted& wanted) override {
    vectors_ = wanted.vectors;
    x_ = std::make_unique<MpMatrix<T>>(process_, n_, n_, a_->tile());
    w_ = DeviceBuffer<RealOf<T>>(process_.device(), n_);
    std::size_t device_bytes = 0;
    std::size_t host_bytes = 0;
    check(cusolverMpSyevd_bufferSize(process_.handle(), mode(), lower, n_, a_->data(), 1, 1,
                                     a_->descriptor(), w_.data(), x_->data(), 1, 1,
                                     x_->descriptor(), type, &device_bytes, &host_bytes),
          "cusolverMpSyevd_bufferSize");
    require_workspace(device_bytes, host_bytes);
  }
  void eigenpairs(const Wanted&) override {
    check(cusolverMpSyevd(process_.handle(), mode(), lower, n_, a_->data(), 1, 1, a_->descriptor(),
                          w_.data(), x_->data(), 1, 1, x_->descriptor(), type, workspace_.data(),
                          workspace_.bytes(), host_workspace_.data(), host_workspace_.size(),
                          info_.data()),
          "cusolverMpSyevd");
    finish("cusolverMpSyevd");
  }
  std::vector<double> eigenvalues() override {
    select(process_.device());
    const std::vector<RealOf<T>> values = w_.read(n_);
    return {values.begin(), values.end()};
  }
  EigenpairRatios eigenpair_residuals() override {
    const Part<T> part{process_.device(), x_->rows(), x_->columns(), x_->local()};
    return eigenpair_ratios(problem_, {process_.device()}, {part}, eigenvalues(),
                            [&](std::vector<std::complex<double>>& sums) { add_up(sums); });
  }

  void release() override {
    w_ = DeviceBuffer<RealOf<T>>();
    x_.reset();
    b_.reset();
    a_.reset();
    workspace_ = MpMemory();
    host_workspace_.clear();
  }

  void barrier() override { process_.largest(0); }
  bool leads() const override { return process_.leads(); }

 private:
  static constexpr cudaDataType type = cuda_type<T>();
  static constexpr cublasFillMode_t lower = CUBLAS_FILL_MODE_LOWER;

  /// It takes a letter that it may write to.
  char* mode() {
    mode_ = vectors_ ? 'V' : 'N';
    return &mode_;
  }

  void require_workspace(std::size_t device_bytes, std::size_t host_bytes) {
    const auto wanted = process_.largest(static_cast<std::int64_t>(device_bytes));
    if (static_cast<std::size_t>(wanted) > workspace_.bytes()) {
      workspace_ = MpMemory();
      workspace_ = MpMemory(process_, device_bytes);
    }
    host_workspace_.resize(std::max(host_workspace_.size(), host_bytes));
  }

  void prepare_solve(const MpMatrix<T>& b) {
    std::size_t device_bytes = 0;
    std::size_t host_bytes = 0;
    check(cusolverMpPotrs_bufferSize(process_.handle(), lower, n_, b.width(), a_->data(), 1, 1,
                                     a_->descriptor(), b.data(), 1, 1, b.descriptor(), type,
                                     &device_bytes, &host_bytes),
          "cusolverMpPotrs_bufferSize");
    require_workspace(device_bytes, host_bytes);
  }

  void solve(MpMatrix<T>& b) {
    check(
        cusolverMpPotrs(process_.handle(), lower, n_, b.width(), a_->data(), 1, 1, a_->descriptor(),
                        b.data(), 1, 1, b.descriptor(), type, workspace_.data(), workspace_.bytes(),
                        host_workspace_.data(), host_workspace_.size(), info_.data()),
        "cusolverMpPotrs");
    finish("cusolverMpPotrs");
  }

  void finish(const char* routine) {
    process_.wait();
    select(process_.device());
    require_zero(info_.read(1).front(), routine);
  }

  /// std::complex<Real> is two Reals.
  template <class Number>
  void add_up(std::vector<Number>& values) {
    using Real = RealOf<Number>;
    const auto count = static_cast<std::int64_t>(values.size() * sizeof(Number) / sizeof(Real));
    process_.add_up(reinterpret_cast<Real*>(values.data()), count);
  }

  MpProcess process_;
  std::int64_t n_;
  Problem<T> problem_;
  std::int64_t tile_;
  DeviceBuffer<int> info_;
  std::unique_ptr<MpMatrix<T>> a_;
  std::unique_ptr<MpMatrix<T>> b_;
  std::unique_ptr<MpMatrix<T>> x_;  // the inverse, or Z
  bool vectors_ = true;
  char mode_ = 'V';
  DeviceBuffer<RealOf<T>> w_;
  MpMemory workspace_;
  std::vector<std::byte> host_workspace_;
};

/// The other processes do what the leader is asked for, and say nothing.
template <Scalar T>
void follow(Jobs<T>& jobs, Team& team) {
  std::string line;
  while (team.hear(line)) {
    Request request;
    std::istringstream words(line);
    words >> request.job >> request.argument;
    try {
      jobs.answer(request);
    } catch (const std::exception& error) {
      std::cerr << "process " << team.rank() << ": " << error.what() << '\n';
    }
  }
}

void serve_team(const MpOptions& options, Team& team) {
  with_dtype(options.dtype, [&]<class T>() {
    const Problem<T> problem(options.kind, options.n);
    const std::vector<int> own{options.devices.at(static_cast<std::size_t>(team.rank()))};
    MemoryMeter memory(own);
    std::unique_ptr<CusolverMp<T>> solver;
    const double seconds =
        time([&] { solver = std::make_unique<CusolverMp<T>>(options, problem, team); });
    memory.end();
    Jobs<T> jobs(problem, own, options.columns, *solver, memory);
    if (!team.leads()) {
      return follow(jobs, team);
    }
    nlohmann::json hello = solver->hello();
    hello["devices"] = describe_devices(options.devices);
    hello["libraries"].update(describe_cuda());
    hello["tile"] = solver->default_tile();
    hello["setup_seconds"] = seconds;
    serve(hello, [&](const Request& request) {
      team.tell(request.job + " " + request.argument);
      return jobs.answer(request);
    });
    team.dismiss();
  });
}

}  // namespace
}  // namespace shardsolve::bench

int main(int argc, char** argv) {
  using namespace shardsolve::bench;
  // NVLink multicast can put the GPUs of a shared host out of service.
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  setenv("NVSHMEM_DISABLE_NVLS", "1", 1);
  CLI::App app("Times cuSOLVERMp, one run for each line that it reads; see bench/cuda/run.py");
  MpOptions options;
  add_gpu_options(app, options);
  app.add_option("--grid-rows", options.grid_rows, "Of the process grid; by default the squarest");
  CLI11_PARSE(app, argc, argv);
  try {
    Team team(static_cast<int>(options.devices.size()));
    serve_team(options, team);
  } catch (const std::exception& error) {
    std::cerr << argv[0] << ": " << error.what() << '\n';
    return 1;
  }
}
