// shardsolve_bench_cusolver: times cuSOLVER (Xpotrf, Xpotrs, potri) on one GPU.

#include "bench/cuda/cuda_type.hpp"
#include "bench/cuda/jobs.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <cusolverDn.h>

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
            {"jobs", {"factor", "solve", "solve_many", "one_call", "inverse"}},
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
      workspace_ = DeviceBuffer<std::byte>(device_, static_cast<std::int64_t>(device_bytes));
      workspace_bytes_ = device_bytes;
      host_workspace_.resize(host_bytes);
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

  void release() override {
    a_ = DeviceBuffer<T>();
    b_ = DeviceBuffer<T>();
    workspace_ = DeviceBuffer<std::byte>();
    inverse_workspace_ = DeviceBuffer<T>();
    columns_ = 0;
    inverse_elements_ = 0;
  }

 private:
  static constexpr cudaDataType type = cuda_type<T>();

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
};

}  // namespace
}  // namespace shardsolve::bench

int main(int argc, char** argv) {
  using namespace shardsolve::bench;
  return run_program(argc, argv, "Times cuSOLVER on one GPU", serve_library<CusolverDn>);
}
