#include "bench/cuda/check.hpp"
#include "bench/cuda/device_buffer.hpp"
#include "bench/cuda/gates.hpp"
#include "bench/cuda/wide_sum.cuh"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shardsolve::bench {
namespace {

constexpr unsigned threads = 256;
/// Right-hand sides that share one making of A.
constexpr int group = 4;
/// Columns that one thread of add_mirrored adds up.
constexpr std::int64_t run = 512;

enum class Start { zero, right_hand_side };

/// y = start - A x for some rows, and the sum of |a_ij| of each: a block has one row.
template <Scalar T>
__global__ void residual_kernel(Problem<T> problem, std::int64_t first_row, const T* x,
                                std::int64_t first_column, int columns, Start start, double2* y,
                                double* magnitudes) {
  const std::int64_t row = first_row + blockIdx.x;
  WideComplexSum sums[group];
  WideSum magnitude;
  for (std::int64_t j = threadIdx.x; j < problem.n; j += blockDim.x) {
    const Value a = widen(entry(problem, row, j));
    magnitude.add(is_complex<T> ? sqrt(a.real * a.real + a.imag * a.imag) : fabs(a.real));
#pragma unroll
    for (int c = 0; c < group; ++c) {
      if (c < columns) {
        sums[c].template subtract_product<T>(a, widen(x[j + (first_column + c) * problem.n]));
      }
    }
  }
#pragma unroll
  for (int c = 0; c < group; ++c) {
    if (c >= columns) {
      break;
    }
    if (threadIdx.x == 0 && start == Start::right_hand_side) {
      const Value b = widen(right_hand_side<T>(row, first_column + c));
      sums[c].real.add(b.real);
      sums[c].imag.add(b.imag);
    }
    const WideSum real = sum_over_block(sums[c].real);
    const WideSum imag = sum_over_block(sums[c].imag);
    if (threadIdx.x == 0) {
      y[blockIdx.x + c * std::int64_t{gridDim.x}] = {real.value(), imag.value()};
    }
  }
  magnitude = sum_over_block(magnitude);
  if (threadIdx.x == 0) {
    magnitudes[blockIdx.x] = magnitude.value();
  }
}

/// y += X^H w and magnitudes += |X|^T 1 for stored entries: a block has one column of X. With
/// `lower` the entries above the diagonal are left out.
template <Scalar T>
__global__ void add_columns(Axis rows, Axis columns, const T* x, std::int64_t height,
                            std::int64_t stride, bool lower, const double2* w, double2* y,
                            double* magnitudes) {
  const std::int64_t column = columns.global(blockIdx.x);
  WideSum real;
  WideSum imag;
  WideSum magnitude;
  for (std::int64_t i = threadIdx.x; i < height; i += blockDim.x) {
    const std::int64_t row = rows.global(i);
    if (lower && row < column) {
      continue;
    }
    const Value a = widen(x[i + blockIdx.x * stride]);
    real.add(a.real * w[row].x + a.imag * w[row].y);
    imag.add(a.real * w[row].y - a.imag * w[row].x);
    magnitude.add(hypot(a.real, a.imag));
  }
  real = sum_over_block(real);
  imag = sum_over_block(imag);
  magnitude = sum_over_block(magnitude);
  if (threadIdx.x == 0) {
    atomicAdd(&y[column].x, real.value());
    atomicAdd(&y[column].y, imag.value());
    atomicAdd(&magnitudes[column], magnitude.value());
  }
}

/// The same for the entries above the diagonal, which are those below it, conjugated: a thread has
/// one row below it and `run` columns.
template <Scalar T>
__global__ void add_mirrored(Axis rows, Axis columns, const T* x, std::int64_t height,
                             std::int64_t width, std::int64_t stride, const double2* w, double2* y,
                             double* magnitudes) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= height) {
    return;
  }
  const std::int64_t row = rows.global(i);
  const std::int64_t begin = blockIdx.y * run;
  const std::int64_t end = min(begin + run, width);
  double2 sum = {0.0, 0.0};
  double magnitude = 0.0;
  for (std::int64_t j = begin; j < end; ++j) {
    const std::int64_t column = columns.global(j);
    if (row <= column) {
      continue;
    }
    const Value a = widen(x[i + j * stride]);
    sum.x += a.real * w[column].x - a.imag * w[column].y;
    sum.y += a.real * w[column].y + a.imag * w[column].x;
    magnitude += hypot(a.real, a.imag);
  }
  atomicAdd(&y[row].x, sum.x);
  atomicAdd(&y[row].y, sum.y);
  atomicAdd(&magnitudes[row], magnitude);
}

/// y += X h for stored entries: a thread has one row and `run` columns.
template <Scalar T>
__global__ void add_rows(Axis rows, Axis columns, const T* x, std::int64_t height,
                         std::int64_t width, std::int64_t stride, const double2* h, double2* y) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= height) {
    return;
  }
  const std::int64_t begin = blockIdx.y * run;
  const std::int64_t end = min(begin + run, width);
  WideSum real;
  WideSum imag;
  for (std::int64_t j = begin; j < end; ++j) {
    const double2 factor = h[columns.global(j)];
    const Value a = widen(x[i + j * stride]);
    real.add(a.real * factor.x - a.imag * factor.y);
    imag.add(a.real * factor.y + a.imag * factor.x);
  }
  atomicAdd(&y[rows.global(i)].x, real.value());
  atomicAdd(&y[rows.global(i)].y, imag.value());
}

/// The larger one; NaN if either is.
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

template <class Vector>
double inf_norm(const Vector& values) {
  double norm = 0.0;
  for (const auto& value : values) {
    norm = larger(norm, std::abs(value));
  }
  return norm;
}

std::complex<double> number(Value value) { return {value.real, value.imag}; }

/// The rows [begin, end) of start - A x on one device.
template <Scalar T>
class RowsOfResidual {
 public:
  RowsOfResidual(const Problem<T>& problem, int device, const std::vector<T>& x, std::int64_t begin,
                 std::int64_t end)
      : problem_(problem),
        device_(device),
        begin_(begin),
        rows_(end - begin),
        x_(device, x),
        y_(device, rows_ * group),
        magnitudes_(device, rows_) {}

  void start(std::int64_t first_column, int columns, Start start) {
    if (rows_ == 0) {
      return;
    }
    select(device_);
    residual_kernel<<<static_cast<unsigned>(rows_), threads>>>(
        problem_, begin_, x_.data(), first_column, columns, start, y_.data(), magnitudes_.data());
    check(cudaGetLastError(), "starting the kernel that finds a residual");
  }

  /// Waits, and adds this device's rows to the end of both.
  void finish(int columns, std::vector<std::vector<std::complex<double>>>& y,
              std::vector<double>& magnitudes) {
    if (rows_ == 0) {
      return;
    }
    select(device_);
    const std::vector<double2> own = y_.read(rows_ * columns);
    for (std::int64_t k = 0; k < rows_ * columns; ++k) {
      const double2 value = own[static_cast<std::size_t>(k)];
      y[static_cast<std::size_t>(k / rows_)].emplace_back(value.x, value.y);
    }
    const std::vector<double> sums = magnitudes_.read(rows_);
    magnitudes.insert(magnitudes.end(), sums.begin(), sums.end());
  }

 private:
  Problem<T> problem_;
  int device_;
  std::int64_t begin_;
  std::int64_t rows_;
  DeviceBuffer<T> x_;
  DeviceBuffer<double2> y_;
  DeviceBuffer<double> magnitudes_;
};

struct Residuals {
  std::vector<std::vector<std::complex<double>>> columns;
  double norm_of_a = 0.0;
};

/// start - A x, and ||A||.
template <Scalar T>
Residuals residuals(const Problem<T>& problem, const std::vector<int>& devices,
                    const std::vector<T>& x, std::int64_t columns, Start start) {
  std::vector<RowsOfResidual<T>> shares;
  const auto count = static_cast<std::int64_t>(devices.size());
  for (std::int64_t k = 0; k < count; ++k) {
    shares.emplace_back(problem, devices[static_cast<std::size_t>(k)], x, k * problem.n / count,
                        (k + 1) * problem.n / count);
  }
  Residuals all;
  for (std::int64_t first = 0; first < columns; first += group) {
    const int width = static_cast<int>(std::min<std::int64_t>(group, columns - first));
    std::vector<std::vector<std::complex<double>>> y(static_cast<std::size_t>(width));
    std::vector<double> magnitudes;
    for (RowsOfResidual<T>& share : shares) {
      share.start(first, width, start);
    }
    for (RowsOfResidual<T>& share : shares) {
      share.finish(width, y, magnitudes);
    }
    all.columns.insert(all.columns.end(), y.begin(), y.end());
    all.norm_of_a = inf_norm(magnitudes);
  }
  return all;
}

/// X^H w of one part, added to the sums.
template <Scalar T>
void add_part(const Part<T>& part, std::int64_t n, Triangle triangle, const std::vector<double2>& w,
              ColumnSums& sums) {
  const MatrixView<const T>& x = part.entries;
  if (x.empty()) {
    return;
  }
  const DeviceBuffer<double2> w_there(part.device, w);
  DeviceBuffer<double2> y(part.device, n);
  DeviceBuffer<double> magnitudes(part.device, n);
  y.clear(n);
  magnitudes.clear(n);
  const bool lower = triangle == Triangle::lower;
  add_columns<<<static_cast<unsigned>(x.columns()), threads>>>(
      part.rows, part.columns, x.data(), x.rows(), x.stride(), lower, w_there.data(), y.data(),
      magnitudes.data());
  check(cudaGetLastError(), "starting the kernel that multiplies by an inverse");
  if (lower) {
    const dim3 grid(static_cast<unsigned>((x.rows() + threads - 1) / threads),
                    static_cast<unsigned>((x.columns() + run - 1) / run));
    add_mirrored<<<grid, threads>>>(part.rows, part.columns, x.data(), x.rows(), x.columns(),
                                    x.stride(), w_there.data(), y.data(), magnitudes.data());
    check(cudaGetLastError(), "starting the kernel that multiplies by an inverse");
  }
  const std::vector<double2> products = y.read(n);
  const std::vector<double> column_sums = magnitudes.read(n);
  for (std::size_t i = 0; i < products.size(); ++i) {
    sums.products[i] += std::complex<double>(products[i].x, products[i].y);
    sums.magnitudes[i] += column_sums[i];
  }
}

using Numbers = std::vector<std::complex<double>>;

std::vector<double2> pairs_of(const Numbers& numbers) {
  std::vector<double2> pairs;
  for (const std::complex<double>& number : numbers) {
    pairs.push_back({number.real(), number.imag()});
  }
  return pairs;
}

/// X h of one part, added to y.
template <Scalar T>
void add_part(const Part<T>& part, const std::vector<double2>& h, Numbers& y) {
  const MatrixView<const T>& x = part.entries;
  if (x.empty()) {
    return;
  }
  const DeviceBuffer<double2> h_there(part.device, h);
  const auto n = static_cast<std::int64_t>(y.size());
  DeviceBuffer<double2> y_there(part.device, n);
  y_there.clear(n);
  const dim3 grid(static_cast<unsigned>((x.rows() + threads - 1) / threads),
                  static_cast<unsigned>((x.columns() + run - 1) / run));
  add_rows<<<grid, threads>>>(part.rows, part.columns, x.data(), x.rows(), x.columns(), x.stride(),
                              h_there.data(), y_there.data());
  check(cudaGetLastError(), "starting the kernel that multiplies by eigenvectors");
  const std::vector<double2> products = y_there.read(n);
  for (std::size_t i = 0; i < products.size(); ++i) {
    y[i] += std::complex<double>(products[i].x, products[i].y);
  }
}

/// X^H w, of all processes, in the first `columns` entries.
template <Scalar T>
Numbers adjoint_products(const std::vector<Part<T>>& parts, const Numbers& w, std::size_t columns,
                         const std::function<void(Numbers&)>& combine) {
  ColumnSums sums;
  sums.products.resize(w.size());
  sums.magnitudes.resize(w.size());
  for (const Part<T>& part : parts) {
    add_part(part, static_cast<std::int64_t>(w.size()), Triangle::both, pairs_of(w), sums);
  }
  combine(sums.products);
  sums.products.resize(columns);
  return sums.products;
}

}  // namespace

template <Scalar T>
double solution_ratio(const Problem<T>& problem, const std::vector<int>& devices,
                      const std::vector<T>& x, std::int64_t columns) {
  const Residuals found = residuals(problem, devices, x, columns, Start::right_hand_side);
  double worst = 0.0;
  for (std::int64_t column = 0; column < columns; ++column) {
    double norm_of_x = 0.0;
    double norm_of_b = 0.0;
    for (std::int64_t i = 0; i < problem.n; ++i) {
      const T& value = x[static_cast<std::size_t>(i + column * problem.n)];
      norm_of_x = larger(norm_of_x, std::abs(number(widen(value))));
      norm_of_b = larger(norm_of_b, std::abs(number(widen(right_hand_side<T>(i, column)))));
    }
    const double residual = inf_norm(found.columns[static_cast<std::size_t>(column)]);
    worst = larger(worst, residual / (found.norm_of_a * norm_of_x + norm_of_b));
  }
  return worst / unit_roundoff<T>;
}

template <Scalar T>
double inverse_ratio(const Problem<T>& problem, const std::vector<int>& devices,
                     const std::vector<Part<T>>& parts, Triangle triangle,
                     const std::function<void(ColumnSums&)>& combine) {
  std::vector<T> v;
  for (std::int64_t i = 0; i < problem.n; ++i) {
    v.push_back(uniform_pair(3, i, 0).real < 0.0 ? T(-1) : T(1));
  }
  // w = A v
  const Residuals minus_w = residuals(problem, devices, v, 1, Start::zero);
  std::vector<double2> w;
  for (const std::complex<double>& value : minus_w.columns.front()) {
    w.push_back({-value.real(), -value.imag()});
  }
  // X^H w
  ColumnSums sums;
  sums.products.resize(w.size());
  sums.magnitudes.resize(w.size());
  for (const Part<T>& part : parts) {
    add_part(part, problem.n, triangle, w, sums);
  }
  combine(sums);
  // v - X^H w
  for (std::size_t i = 0; i < v.size(); ++i) {
    sums.products[i] = number(widen(v[i])) - sums.products[i];
  }
  const double scale = minus_w.norm_of_a * inf_norm(sums.magnitudes);
  return inf_norm(sums.products) / scale / unit_roundoff<T>;
}

template <Scalar T>
EigenpairRatios eigenpair_ratios(const Problem<T>& problem, const std::vector<int>& devices,
                                 const std::vector<Part<T>>& parts,
                                 const std::vector<double>& values,
                                 const std::function<void(Numbers&)>& combine) {
  std::vector<T> v;
  Numbers signs;
  for (std::int64_t i = 0; i < problem.n; ++i) {
    v.push_back(uniform_pair(4, i, 0).real < 0.0 ? T(-1) : T(1));
    signs.push_back(number(widen(v.back())));
  }
  // -A v
  const Residuals minus_av = residuals(problem, devices, v, 1, Start::zero);
  const std::size_t count = values.size();
  // Z^H A v - diag(w) Z^H v
  Numbers residual = adjoint_products(parts, minus_av.columns.front(), count, combine);
  const Numbers zv = adjoint_products(parts, signs, count, combine);
  for (std::size_t j = 0; j < count; ++j) {
    residual[j] += values[j] * zv[j];
  }
  // Z^H (Z v) - v
  Numbers product(v.size());
  for (const Part<T>& part : parts) {
    add_part(part, pairs_of(signs), product);
  }
  combine(product);
  Numbers departure = adjoint_products(parts, product, count, combine);
  for (std::size_t j = 0; j < count; ++j) {
    departure[j] -= signs[j];
  }
  return {inf_norm(residual) / minus_av.norm_of_a / unit_roundoff<T>,
          inf_norm(departure) / unit_roundoff<T>};
}

template <Scalar T>
double eigenvalue_ratio(const std::vector<double>& values, const std::vector<double>& all) {
  if (values.size() > all.size()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double difference = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    difference = larger(difference, std::abs(values[i] - all[i]));
  }
  return difference / inf_norm(all) / unit_roundoff<T>;
}

#define SHARDSOLVE_INSTANTIATE(T)                                              \
  template double solution_ratio(const Problem<T>&, const std::vector<int>&,   \
                                 const std::vector<T>&, std::int64_t);         \
  template double inverse_ratio(const Problem<T>&, const std::vector<int>&,    \
                                const std::vector<Part<T>>&, Triangle,         \
                                const std::function<void(ColumnSums&)>&);      \
  template EigenpairRatios eigenpair_ratios(                                   \
      const Problem<T>&, const std::vector<int>&, const std::vector<Part<T>>&, \
      const std::vector<double>&, const std::function<void(Numbers&)>&);       \
  template double eigenvalue_ratio<T>(const std::vector<double>&, const std::vector<double>&);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(std::complex<float>)
SHARDSOLVE_INSTANTIATE(std::complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::bench
