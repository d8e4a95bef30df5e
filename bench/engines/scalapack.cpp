// shardsolve_bench_scalapack: times ScaLAPACK's pdpotrf and pdsyevd, one run for each request.
// Started by mpirun; all processes read the same lines.

#include "bench/support/problem.hpp"
#include "bench/support/residuals.hpp"
#include "bench/support/serve.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <dlfcn.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

extern "C" {
void Cblacs_get(int context, int what, int* value);
void Cblacs_gridinit(int* context, const char* order, int rows, int columns);
void Cblacs_gridinfo(int context, int* rows, int* columns, int* row, int* column);
int numroc_(const int* n, const int* nb, const int* process, const int* first, const int* count);
void descinit_(int* descriptor, const int* m, const int* n, const int* mb, const int* nb,
               const int* first_row, const int* first_column, const int* context, const int* ld,
               int* info);
void pdpotrf_(const char* triangle, const int* n, double* a, const int* ia, const int* ja,
              const int* descriptor, int* info);
void pdsyevd_(const char* job, const char* triangle, const int* n, double* a, const int* ia,
              const int* ja, const int* descriptor_of_a, double* w, double* z, const int* iz,
              const int* jz, const int* descriptor_of_z, double* work, const int* work_size,
              int* integers, const int* integers_size, int* info);
void dgemm_();
const char* openblas_get_config();
const char* openblas_get_corename();
int openblas_get_num_threads();
}

namespace shardsolve::bench {
namespace {

/// One matrix in one piece: a layout of one rank, whose elimination order is the natural one.
SlabLayout one_slab(std::int64_t n) { return SlabLayout::even(n, 1, n); }

/// The grid is as square as it can be, and not higher than wide.
int rows_of_grid(int processes) {
  int rows = 1;
  for (int candidate = 1; candidate * candidate <= processes; ++candidate) {
    rows = processes % candidate == 0 ? candidate : rows;
  }
  return rows;
}

class Scalapack {
 public:
  explicit Scalapack(std::int64_t n) : n_(static_cast<int>(n)), problem_(one_slab(n)) {
    int processes = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    Cblacs_get(-1, 0, &context_);
    const int rows = rows_of_grid(processes);
    Cblacs_gridinit(&context_, "Row-major", rows, processes / rows);
    Cblacs_gridinfo(context_, &rows_, &columns_, &row_, &column_);
  }

  bool speaks() const { return rank_ == 0; }

  nlohmann::json hello() const {
    // The file whose dgemm is called, which need not be the one that was linked.
    Dl_info loaded{};
    dladdr(reinterpret_cast<const void*>(&dgemm_), &loaded);
    return {{"program", fmt::format("ScaLAPACK, {} x {} processes", rows_, columns_)},
            {"jobs", {"factor", "eigh"}},
            {"ranks", rows_ * columns_},
            {"matrix", fmt::format("{:016x}", problem_.checksum())},
            {"blas",
             {{"file", std::filesystem::canonical(loaded.dli_fname).string()},
              {"config", openblas_get_config()},
              {"core", openblas_get_corename()},
              {"threads", openblas_get_num_threads()}}}};
  }

  nlohmann::json answer(const Request& request) {
    const bool eigh = request.job == "eigh";
    if ((request.job != "factor" && !eigh) || request.argument.empty()) {
      refuse(request);
    }
    distribute(std::stoi(request.argument));
    if (eigh) {
      return find_eigenpairs();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int info = 0;
    const double seconds = time([&] {
      const int one = 1;
      pdpotrf_("L", &n_, local_.data(), &one, &one, descriptor_.data(), &info);
      MPI_Barrier(MPI_COMM_WORLD);
    });
    if (info != 0) {
      throw Error(ErrorKind::internal, fmt::format("pdpotrf returned info = {}", info));
    }
    const ShardedMatrix<double> l = collect();
    return timed(seconds, {speaks() ? factor_residual(problem_.a(), l) : Residual{}});
  }

 private:
  /// Calls body(i, j, local element) for all entries of this process.
  template <class Body>
  void for_each_entry(Body body) {
    const int local_rows = descriptor_[8];
    for (std::size_t k = 0; k < local_.size(); ++k) {
      const int i = static_cast<int>(k) % local_rows;
      const int j = static_cast<int>(k) / local_rows;
      body((i / block_ * rows_ + row_) * block_ + i % block_,
           (j / block_ * columns_ + column_) * block_ + j % block_, local_[k]);
    }
  }

  nlohmann::json find_eigenpairs() {
    values_.resize(static_cast<std::size_t>(n_));
    z_.resize(local_.size());
    double size = 0.0;
    int integers = 0;
    syevd(&size, -1, &integers, -1);
    work_.resize(static_cast<std::size_t>(size));
    integers_.resize(static_cast<std::size_t>(integers));
    MPI_Barrier(MPI_COMM_WORLD);
    const double seconds = time([&] {
      syevd(work_.data(), static_cast<int>(work_.size()), integers_.data(),
            static_cast<int>(integers_.size()));
      MPI_Barrier(MPI_COMM_WORLD);
    });
    local_.swap(z_);
    const ShardedMatrix<double> z = collect();
    return timed(seconds, speaks() ? eigenpair_residuals(problem_.a(), z, values_)
                                   : std::vector<Residual>{});
  }
  void syevd(double* work, int work_size, int* integers, int integers_size) {
    const int one = 1;
    int info = 0;
    pdsyevd_("V", "L", &n_, local_.data(), &one, &one, descriptor_.data(), values_.data(),
             z_.data(), &one, &one, descriptor_.data(), work, &work_size, integers, &integers_size,
             &info);
    if (info != 0) {
      throw Error(ErrorKind::internal, fmt::format("pdsyevd returned info = {}", info));
    }
  }

  /// A, block-cyclic with square blocks.
  void distribute(int block) {
    const int zero = 0;
    block_ = block;
    const int local_rows = std::max(1, numroc_(&n_, &block, &row_, &zero, &rows_));
    const int local_columns = numroc_(&n_, &block, &column_, &zero, &columns_);
    int info = 0;
    descinit_(descriptor_.data(), &n_, &n_, &block, &block, &zero, &zero, &context_, &local_rows,
              &info);
    local_.resize(static_cast<std::size_t>(local_rows) * static_cast<std::size_t>(local_columns));
    const MatrixView<const double> a = problem_.a().slab(0);
    for_each_entry([&](int i, int j, double& value) { value = a(i, j); });
  }

  /// L or Z on the process that speaks.
  ShardedMatrix<double> collect() {
    const ShardedMatrix<double> whole(one_slab(n_));
    const MatrixView<double> l = whole.slab(0);
    std::fill_n(l.data(), l.rows() * l.columns(), 0.0);
    for_each_entry([&](int i, int j, double& value) { l(i, j) = value; });
    for (std::int64_t j = 0; j < l.columns(); ++j) {
      double* column = l.columns_from(j, 1).data();
      MPI_Reduce(speaks() ? MPI_IN_PLACE : column, column, n_, MPI_DOUBLE, MPI_SUM, 0,
                 MPI_COMM_WORLD);
    }
    return whole;
  }

  int n_;
  Problem<double> problem_;
  int rank_ = 0;
  int context_ = 0;
  int rows_ = 0;
  int columns_ = 0;
  int row_ = 0;
  int column_ = 0;
  int block_ = 0;
  std::array<int, 9> descriptor_{};
  std::vector<double> local_;
  std::vector<double> z_;
  std::vector<double> values_;
  std::vector<double> work_;
  std::vector<int> integers_;
};

}  // namespace
}  // namespace shardsolve::bench

int main(int argc, char** argv) {
  CLI::App app("Times ScaLAPACK, one run for each line that it reads; see bench/engines.py");
  shardsolve::bench::ProblemOptions options;
  shardsolve::bench::add_problem_options(app, options);
  CLI11_PARSE(app, argc, argv);
  MPI_Init(&argc, &argv);
  try {
    shardsolve::bench::Scalapack scalapack(options.n);
    shardsolve::bench::serve(
        scalapack.hello(), [&](const auto& request) { return scalapack.answer(request); },
        scalapack.speaks());
  } catch (const std::exception& error) {
    std::cerr << "shardsolve_bench_scalapack: " << error.what() << '\n';
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
