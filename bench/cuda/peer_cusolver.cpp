// shardsolve_bench_cusolver: times cuSOLVER (Xpotrf, Xpotrs, potri, Xsyevd, Xsyevdx) on one GPU.

#include "bench/cuda/cuda_type.hpp"
#include "bench/cuda/jobs.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <cusolverDn.h>

#include <algorithm>
#include <complex>
#include <cstddef>

namespace shardsolve::bench {
namespace {

// There is no 64-bit potri: one function a dtype, with CUDA's own complex types.
template <class T>
struct Potri;
#define SHARDSOLVE_POTRI(T, Theirs, letter)                            \
  template <>                                                          \
  struct Potri<T> {                                                    \
    using Element = Theirs;                                            \
    static constexpr auto size = cusolverDn##letter##potri_bufferSize; \
    static constexpr auto call = cusolverDn##letter##potri;            \
  };
SHARDSOLVE_POTRI(float, float, S)
SHARDSOLVE_POTRI(double, double, D)
SHARDSOLVE_POTRI(std::complex<float>, cuComplex, C)
SHARDSOLVE_POTRI(std::complex<double>, cuDoubleComplex, Z)
#undef SHARDSOLVE_POTRI

template <class T>
class CusolverDn final : public Solver<T> {
 public:
  CusolverDn(const GpuOptions& options, Problem<T> problem)
      : device_(options.devices.front()), n_(problem.n), problem_(problem) {
    if (options.devices.size() != 1) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("{} GPUs given; cuSOLVER works on one", options.devices.size()));
    }
    select(device_);
    check(cusolverDnCreate(&handle_), "cusolverDnCreate");
    check(cusolverDnCreateParams(&parameters_), "cusolverDnCreateParams");
    info_ = DeviceBuffer<int>(device_, 1);
  }
  ~CusolverDn() override {
    cusolverDnDestroyParams(parameters_);
    cusolverDnDestroy(handle_);
  }

  nlohmann::json hello() const override {
    int version = 0;
    check(cusolverGetVersion(&version), "cusolverGetVersion");
    return {{"program", fmt::format("cuSOLVER {}", version)},
            {"jobs",
             {"factor", "solve", "solve_many", "one_call", "inverse", "eigh", "eigh_tenth",
              "eigh_values"}},
            {"libraries", {{"cusolver", version}}}};
  }
  std::int64_t default_tile() const override { return 0; }

  void fill_matrix(std::int64_t) override {
    if (a_.data() == nullptr) {
      a_ = DeviceBuffer<T>(device_, n_ * n_);
      std::size_t device_bytes = 0;
      std::size_t host_bytes = 0;
      check(cusolverDnXpotrf_bufferSize(handle_, parameters_, CUBLAS_FILL_MODE_LOWER, n_, type,
                                        a_.data(), n_, type, &device_bytes, &host_bytes),
            "cusolverDnXpotrf_bufferSize");
      require_workspace(device_bytes, host_bytes);
    }
    fill(problem_, device_, Axis::contiguous(0), Axis::contiguous(0),
         MatrixView<T>(a_.data(), n_, n_));
  }

  void fill_right_hand_sides(std::int64_t columns) override {
    if (columns_ != columns) {
      b_ = DeviceBuffer<T>();
      b_ = DeviceBuffer<T>(device_, n_ * columns);
      columns_ = columns;
    }
    bench::fill_right_hand_sides(problem_, device_, Axis::contiguous(0), Axis::contiguous(0),
                                 MatrixView<T>(b_.data(), n_, columns));
  }

  void factor() override {
    check(cusolverDnXpotrf(handle_, parameters_, CUBLAS_FILL_MODE_LOWER, n_, type, a_.data(), n_,
                           type, workspace_.data(), workspace_bytes_, host_workspace_.data(),
                           host_workspace_.size(), info_.data()),
          "cusolverDnXpotrf");
    finish("potrf");
  }
  void solve() override {
    check(cusolverDnXpotrs(handle_, parameters_, CUBLAS_FILL_MODE_LOWER, n_, columns_, type,
                           a_.data(), n_, type, b_.data(), n_, info_.data()),
          "cusolverDnXpotrs");
    finish("potrs");
  }
  void factor_and_invert() override {
    using Element = typename Potri<T>::Element;
    factor();
    const int n = static_cast<int>(n_);
    auto* a = reinterpret_cast<Element*>(a_.data());
    if (inverse_elements_ == 0) {
      check(Potri<T>::size(handle_, CUBLAS_FILL_MODE_LOWER, n, a, n, &inverse_elements_),
            "cusolverDn potri_bufferSize");
      inverse_workspace_ = DeviceBuffer<T>(device_, inverse_elements_);
    }
    check(Potri<T>::call(handle_, CUBLAS_FILL_MODE_LOWER, n, a, n,
                         reinterpret_cast<Element*>(inverse_workspace_.data()), inverse_elements_,
                         info_.data()),
          "cusolverDn potri");
    finish("potri");
  }

  std::vector<T> solution() override { return b_.read(n_ * columns_); }
  double inverse_residual() override {
    const Part<T> whole{device_, Axis::contiguous(0), Axis::contiguous(0),
                        MatrixView<const T>(a_.data(), n_, n_)};
    return inverse_ratio(problem_, {device_}, {whole}, Triangle::lower);
  }

  /// All by Xsyevd, some by Xsyevdx.
  void prepare_eigenpairs(const Wanted& wanted) override {
    wanted_ = wanted;
    w_ = DeviceBuffer<RealOf<T>>(device_, n_);
    std::size_t device_bytes = 0;
    std::size_t host_bytes = 0;
    if (some()) {
      check(cusolverDnXsyevdx_bufferSize(handle_, parameters_, mode(), CUSOLVER_EIG_RANGE_I,
                                         CUBLAS_FILL_MODE_LOWER, n_, type, a_.data(), n_, &low_,
                                         &high_, 1, wanted_.count, &found_, real_type, w_.data(),
                                         type, &device_bytes, &host_bytes),
            "cusolverDnXsyevdx_bufferSize");
    } else {
      check(cusolverDnXsyevd_bufferSize(handle_, parameters_, mode(), CUBLAS_FILL_MODE_LOWER, n_,
                                        type, a_.data(), n_, real_type, w_.data(), type,
                                        &device_bytes, &host_bytes),
            "cusolverDnXsyevd_bufferSize");
    }
    require_workspace(device_bytes, host_bytes);
  }

  void eigenpairs(const Wanted&) override {
    if (some()) {
      check(cusolverDnXsyevdx(handle_, parameters_, mode(), CUSOLVER_EIG_RANGE_I,
                              CUBLAS_FILL_MODE_LOWER, n_, type, a_.data(), n_, &low_, &high_, 1,
                              wanted_.count, &found_, real_type, w_.data(), type, workspace_.data(),
                              workspace_bytes_, host_workspace_.data(), host_workspace_.size(),
                              info_.data()),
            "cusolverDnXsyevdx");
      finish("syevdx");
      return;
    }
    check(
        cusolverDnXsyevd(handle_, parameters_, mode(), CUBLAS_FILL_MODE_LOWER, n_, type, a_.data(),
                         n_, real_type, w_.data(), type, workspace_.data(), workspace_bytes_,
                         host_workspace_.data(), host_workspace_.size(), info_.data()),
        "cusolverDnXsyevd");
    finish("syevd");
  }

  std::vector<double> eigenvalues() override {
    const std::vector<RealOf<T>> values = w_.read(wanted_.count);
    return {values.begin(), values.end()};
  }
  EigenpairRatios eigenpair_residuals() override {
    const Part<T> vectors{device_, Axis::contiguous(0), Axis::contiguous(0),
                          MatrixView<const T>(a_.data(), n_, wanted_.count, n_)};
    return eigenpair_ratios(problem_, {device_}, {vectors}, eigenvalues());
  }

  void release() override {
    w_ = DeviceBuffer<RealOf<T>>();
    a_ = DeviceBuffer<T>();
    b_ = DeviceBuffer<T>();
    workspace_ = DeviceBuffer<std::byte>();
    workspace_bytes_ = 0;
    inverse_workspace_ = DeviceBuffer<T>();
    columns_ = 0;
    inverse_elements_ = 0;
  }

 private:
  static constexpr cudaDataType type = cuda_type<T>();
  static constexpr cudaDataType real_type = cuda_type<RealOf<T>>();

  bool some() const { return wanted_.count < n_; }
  cusolverEigMode_t mode() const {
    return wanted_.vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  }

  /// At least so much; none is given back before release().
  void require_workspace(std::size_t device_bytes, std::size_t host_bytes) {
    if (device_bytes > workspace_bytes_) {
      workspace_ = DeviceBuffer<std::byte>();
      workspace_ = DeviceBuffer<std::byte>(device_, static_cast<std::int64_t>(device_bytes));
      workspace_bytes_ = device_bytes;
    }
    host_workspace_.resize(std::max(host_workspace_.size(), host_bytes));
  }

  void finish(const char* routine) {
    select(device_);
    require_zero(info_.read(1).front(), routine);
    check(cudaDeviceSynchronize(), routine);
  }

  int device_;
  std::int64_t n_;
  Problem<T> problem_;
  cusolverDnHandle_t handle_ = nullptr;
  cusolverDnParams_t parameters_ = nullptr;
  DeviceBuffer<int> info_;
  DeviceBuffer<T> a_;
  DeviceBuffer<T> b_;
  std::int64_t columns_ = 0;
  DeviceBuffer<std::byte> workspace_;
  std::size_t workspace_bytes_ = 0;
  std::vector<std::byte> host_workspace_;
  DeviceBuffer<T> inverse_workspace_;
  int inverse_elements_ = 0;
  Wanted wanted_;
  DeviceBuffer<RealOf<T>> w_;
  std::int64_t found_ = 0;  // how many, says Xsyevdx
  RealOf<T> low_ = 0;       // of a range of values, which is not asked for
  RealOf<T> high_ = 0;
};

}  // namespace
}  // namespace shardsolve::bench

int main(int argc, char** argv) {
  using namespace shardsolve::bench;
  return run_program(argc, argv, "Times cuSOLVER on one GPU", serve_library<CusolverDn>);
}
