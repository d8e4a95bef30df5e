// shardsolve_bench_peer: times LAPACK on a threaded OpenBLAS, one run for each request.

#include "bench/support/problem.hpp"
#include "bench/support/residuals.hpp"
#include "bench/support/serve.hpp"
#include "core/each_dtype.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <dlfcn.h>

#include <complex>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

// Fortran symbols: every argument by address, then the hidden length of the character argument.
#define SHARDSOLVE_DECLARE_LAPACK(T, potrf, potrs, potri)                                     \
  void potrf(const char*, const int*, T*, const int*, int*, std::size_t);                     \
  void potrs(const char*, const int*, const int*, const T*, const int*, T*, const int*, int*, \
             std::size_t);                                                                    \
  void potri(const char*, const int*, T*, const int*, int*, std::size_t);

extern "C" {
void ssyevd_(const char*, const char*, const int*, float*, const int*, float*, float*, const int*,
             int*, const int*, int*, std::size_t, std::size_t);
void dsyevd_(const char*, const char*, const int*, double*, const int*, double*, double*,
             const int*, int*, const int*, int*, std::size_t, std::size_t);
SHARDSOLVE_DECLARE_LAPACK(float, spotrf_, spotrs_, spotri_)
SHARDSOLVE_DECLARE_LAPACK(double, dpotrf_, dpotrs_, dpotri_)
SHARDSOLVE_DECLARE_LAPACK(std::complex<float>, cpotrf_, cpotrs_, cpotri_)
SHARDSOLVE_DECLARE_LAPACK(std::complex<double>, zpotrf_, zpotrs_, zpotri_)
const char* openblas_get_config();
const char* openblas_get_corename();
int openblas_get_num_threads();
}

namespace shardsolve::bench {
namespace {

template <Scalar T>
struct Symbols;
template <>
struct Symbols<float> {
  static constexpr auto potrf = spotrf_;
  static constexpr auto potrs = spotrs_;
  static constexpr auto potri = spotri_;
  static constexpr auto syevd = ssyevd_;
};
template <>
struct Symbols<double> {
  static constexpr auto potrf = dpotrf_;
  static constexpr auto potrs = dpotrs_;
  static constexpr auto potri = dpotri_;
  static constexpr auto syevd = dsyevd_;
};
template <>
struct Symbols<std::complex<float>> {
  static constexpr auto potrf = cpotrf_;
  static constexpr auto potrs = cpotrs_;
  static constexpr auto potri = cpotri_;
};
template <>
struct Symbols<std::complex<double>> {
  static constexpr auto potrf = zpotrf_;
  static constexpr auto potrs = zpotrs_;
  static constexpr auto potri = zpotri_;
};

void require_zero(const char* routine, int info) {
  if (info != 0) {
    throw Error(ErrorKind::internal, fmt::format("{} returned info = {}", routine, info));
  }
}

/// One matrix in one piece: a layout of one rank, whose elimination order is the natural one.
SlabLayout one_slab(std::int64_t n) { return SlabLayout::even(n, 1, n); }

template <Scalar T>
class Lapack {
 public:
  explicit Lapack(std::int64_t n)
      : n_(static_cast<int>(n)), problem_(one_slab(n)), a_(one_slab(n)), b_(one_slab(n), 1) {}

  using Jobs = std::vector<std::string>;

  nlohmann::json hello() const {
    // The file that was loaded, which need not be the one that was linked.
    Dl_info loaded{};
    dladdr(reinterpret_cast<const void*>(&openblas_get_config), &loaded);
    return {{"program", "LAPACK, threaded"},
            {"jobs", is_complex<T> ? Jobs{"factor", "solve", "inverse"}
                                   : Jobs{"factor", "solve", "inverse", "eigh"}},
            {"matrix", fmt::format("{:016x}", problem_.checksum())},
            {"blas",
             {{"file", std::filesystem::canonical(loaded.dli_fname).string()},
              {"config", openblas_get_config()},
              {"core", openblas_get_corename()},
              {"threads", openblas_get_num_threads()}}}};
  }

  nlohmann::json answer(const Request& request) {
    problem_.restore(a_);
    problem_.restore(b_);
    if (request.job == "factor") {
      const double seconds = time([&] { factor(); });
      solve();
      return timed(seconds, {factor_residual(problem_.a(), a_), solution_residual()});
    }
    if (request.job == "solve") {
      const double seconds = time([&] {
        factor();
        solve();
      });
      return timed(seconds, {solution_residual()});
    }
    if (request.job == "inverse") {
      const double seconds = time([&] {
        factor();
        invert();
      });
      mirror();
      return timed(seconds, {inverse_residual(problem_.a(), a_)});
    }
    if constexpr (!is_complex<T>) {
      if (request.job == "eigh") {
        const double seconds = time([&] { find_eigenpairs(); });
        return timed(seconds, eigenpair_residuals(problem_.a(), a_, values_));
      }
    }
    refuse(request);
  }

 private:
  /// The workspace is made once, as the library asks for it.
  void find_eigenpairs() {
    values_.resize(static_cast<std::size_t>(n_));
    if (work_.empty()) {
      T size{};
      int integers = 0;
      syevd(&size, -1, &integers, -1);
      work_.resize(static_cast<std::size_t>(size));
      integers_.resize(static_cast<std::size_t>(integers));
    }
    syevd(work_.data(), static_cast<int>(work_.size()), integers_.data(),
          static_cast<int>(integers_.size()));
  }
  void syevd(T* work, int work_size, int* integers, int integers_size) {
    int info = 0;
    Symbols<T>::syevd("V", "L", &n_, a_.slab(0).data(), &n_, values_.data(), work, &work_size,
                      integers, &integers_size, &info, 1, 1);
    require_zero("syevd", info);
  }

  void factor() {
    int info = 0;
    Symbols<T>::potrf("L", &n_, a_.slab(0).data(), &n_, &info, 1);
    require_zero("potrf", info);
  }

  void solve() {
    const int one = 1;
    int info = 0;
    Symbols<T>::potrs("L", &n_, &one, a_.slab(0).data(), &n_, b_.block(0).data(), &n_, &info, 1);
    require_zero("potrs", info);
  }

  /// The lower triangle of the inverse.
  void invert() {
    int info = 0;
    Symbols<T>::potri("L", &n_, a_.slab(0).data(), &n_, &info, 1);
    require_zero("potri", info);
  }

  void mirror() {
    const MatrixView<T> x = a_.slab(0);
    for (std::int64_t j = 0; j < n_; ++j) {
      for (std::int64_t i = j + 1; i < n_; ++i) {
        x(j, i) = reference::conjugate(x(i, j));
      }
    }
  }

  Residual solution_residual() const { return solve_residual(problem_.a(), b_, problem_.b()); }

  int n_;
  Problem<T> problem_;
  ShardedMatrix<T> a_;
  RightHandSides<T> b_;
  std::vector<RealOf<T>> values_;
  std::vector<T> work_;
  std::vector<int> integers_;
};

}  // namespace
}  // namespace shardsolve::bench

int main(int argc, char** argv) {
  CLI::App app("Times threaded LAPACK, one run for each line that it reads; see bench/run.py");
  shardsolve::bench::ProblemOptions options;
  shardsolve::bench::add_problem_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    shardsolve::with_dtype(options.dtype, [&]<class T>() {
      shardsolve::bench::Lapack<T> lapack(options.n);
      shardsolve::bench::serve(lapack.hello(),
                               [&](const auto& request) { return lapack.answer(request); });
    });
  } catch (const std::exception& error) {
    std::cerr << "shardsolve_bench_peer: " << error.what() << '\n';
    return 1;
  }
}
