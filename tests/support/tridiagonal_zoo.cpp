#include "tests/support/tridiagonal_zoo.hpp"

#include "reference/wide.hpp"
#include "runtime/host/blas.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <stdexcept>
#include <type_traits>
#include <utility>

#define SHARDSOLVE_DECLARE_TRIDIAGONAL(Real, sytrd, stedc, syevd)                                \
  void sytrd(const char*, const int*, Real*, const int*, Real*, Real*, Real*, Real*, const int*, \
             int*, std::size_t);                                                                 \
  void stedc(const char*, const int*, Real*, Real*, Real*, const int*, Real*, const int*, int*,  \
             const int*, int*, std::size_t);                                                     \
  void syevd(const char*, const char*, const int*, Real*, const int*, Real*, Real*, const int*,  \
             int*, const int*, int*, std::size_t, std::size_t);

extern "C" {
SHARDSOLVE_DECLARE_TRIDIAGONAL(float, ssytrd_, sstedc_, ssyevd_)
SHARDSOLVE_DECLARE_TRIDIAGONAL(double, dsytrd_, dstedc_, dsyevd_)
}

namespace shardsolve::testing::tridiagonal {
namespace {

template <class Real>
struct TridiagonalLapack;
template <>
struct TridiagonalLapack<float> {
  static constexpr auto sytrd = ssytrd_;
  static constexpr auto stedc = sstedc_;
  static constexpr auto syevd = ssyevd_;
};
template <>
struct TridiagonalLapack<double> {
  static constexpr auto sytrd = dsytrd_;
  static constexpr auto stedc = dstedc_;
  static constexpr auto syevd = dsyevd_;
};

using reference::larger;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Numbers from -1 to 1, by a seed.
class Numbers {
 public:
  explicit Numbers(std::uint32_t seed) : engine_(seed) {}
  double next() { return 2.0 * (static_cast<double>(engine_()) / 4294967296.0) - 1.0; }

 private:
  std::mt19937 engine_;
};

template <class Real>
TridiagonalCase<Real> made_of(std::string name, std::int64_t n, auto diagonal, auto off_diagonal) {
  TridiagonalCase<Real> t{std::move(name), {}, {}};
  for (std::int64_t i = 0; i < n; ++i) {
    t.diagonal.push_back(static_cast<Real>(diagonal(i)));
    if (i + 1 < n) {
      t.off_diagonal.push_back(static_cast<Real>(off_diagonal(i)));
    }
  }
  return t;
}

/// A = Q A Q^T, Q a product of random reflections.
void reflect(DenseMatrix<double>& a) {
  const std::int64_t n = a.rows();
  Numbers numbers(7);
  for (int reflection = 0; reflection < 3; ++reflection) {
    std::vector<double> v(at(n));
    double norm = 0.0;
    for (double& one : v) {
      one = numbers.next();
      norm += one * one;
    }
    // A - v w^T - w v^T with w = p - (v^T p / 2) v, p = A v for v of norm sqrt(2)
    for (double& one : v) {
      one *= std::sqrt(2.0 / norm);
    }
    std::vector<double> w(at(n));
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < n; ++i) {
        w[at(i)] += a(i, j) * v[at(j)];
      }
    }
    double product = 0.0;
    for (std::int64_t i = 0; i < n; ++i) {
      product += v[at(i)] * w[at(i)];
    }
    for (std::int64_t i = 0; i < n; ++i) {
      w[at(i)] -= product / 2 * v[at(i)];
    }
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < n; ++i) {
        a(i, j) -= v[at(i)] * w[at(j)] + w[at(i)] * v[at(j)];
      }
    }
  }
}

template <class Real>
DenseMatrix<Real> rounded(const DenseMatrix<double>& a) {
  DenseMatrix<Real> result(a.rows(), a.columns());
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      result(i, j) = static_cast<Real>(a(i, j));
    }
  }
  return result;
}

/// What LAPACK makes of a matrix with this spectrum.
template <class Real>
TridiagonalCase<Real> with_spectrum(std::string name, std::int64_t n, auto spectrum) {
  DenseMatrix<double> wide(n, n);
  for (std::int64_t i = 0; i < n; ++i) {
    wide(i, i) = spectrum(i);
  }
  reflect(wide);
  DenseMatrix<Real> a = rounded<Real>(wide);
  TridiagonalCase<Real> t{std::move(name), std::vector<Real>(at(n)), std::vector<Real>(at(n))};
  const int order = static_cast<int>(n);
  const int stride = std::max(order, 1);
  const int work_size = std::max(32 * order, 1);
  std::vector<Real> tau(at(std::max<std::int64_t>(n, 1)));
  std::vector<Real> work(static_cast<std::size_t>(work_size));
  int info = 0;
  const char lower = 'L';
  TridiagonalLapack<Real>::sytrd(&lower, &order, a.data(), &stride, t.diagonal.data(),
                                 t.off_diagonal.data(), tau.data(), work.data(), &work_size, &info,
                                 1);
  t.off_diagonal.resize(at(std::max<std::int64_t>(n - 1, 0)));
  return t;
}

/// By Sturm sequences in long double.
template <class Real>
std::vector<long double> wide_eigenvalues(const TridiagonalCase<Real>& t, long double norm) {
  const std::int64_t n = t.order();
  std::vector<long double> values;
  for (std::int64_t wanted = 0; wanted < n; ++wanted) {
    long double low = -norm * 1.001L;
    long double high = norm * 1.001L;
    for (int turn = 0; turn < std::numeric_limits<Real>::digits + 10; ++turn) {
      const long double middle = (low + high) / 2;
      std::int64_t below = 0;
      long double pivot = 1;
      for (std::int64_t i = 0; i < n; ++i) {
        const long double e = i == 0 ? 0.0L : static_cast<long double>(t.off_diagonal[at(i - 1)]);
        pivot = (static_cast<long double>(t.diagonal[at(i)]) - middle) - e * e / pivot;
        pivot = pivot == 0 ? -std::numeric_limits<long double>::min() * (1 + norm) : pivot;
        below += pivot < 0 ? 1 : 0;
      }
      (below > wanted ? high : low) = middle;
    }
    values.push_back((low + high) / 2);
  }
  return values;
}

template <class Real>
long double one_norm(const TridiagonalCase<Real>& t) {
  long double norm = 0;
  for (std::int64_t i = 0; i < t.order(); ++i) {
    long double sum = std::abs(static_cast<long double>(t.diagonal[at(i)]));
    for (const std::int64_t j : {i - 1, i}) {
      if (j >= 0 && j + 1 < t.order()) {
        sum += std::abs(static_cast<long double>(t.off_diagonal[at(j)]));
      }
    }
    norm = larger(norm, sum);
  }
  return norm;
}

/// ||A Z - Z Lambda||_1 / (||A||_1 u).
template <class Real>
double dense_residual(const DenseMatrix<Real>& a, const std::vector<Real>& values,
                      const DenseMatrix<Real>& z) {
  using Wide = long double;
  const std::int64_t n = a.rows();
  Wide largest = 0;
  Wide norm = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    std::vector<Wide> column(at(n));
    Wide sum = 0;
    Wide sum_of_a = 0;
    for (std::int64_t k = 0; k < n; ++k) {
      for (std::int64_t i = 0; i < n; ++i) {
        column[at(i)] += Wide(a(i, k)) * Wide(z(k, j));
      }
    }
    for (std::int64_t i = 0; i < n; ++i) {
      sum += std::abs(column[at(i)] - Wide(values[at(j)]) * Wide(z(i, j)));
      sum_of_a += std::abs(Wide(a(i, j)));
    }
    largest = larger(largest, sum);
    norm = larger(norm, sum_of_a);
  }
  return largest == 0 ? 0.0 : static_cast<double>(largest / norm / Wide(unit_roundoff<Real>));
}

/// LAPACK's syevd on a random rotation of T: where T has a special form, stedc may have luck.
template <class Real>
void compare_with_rotated(const TridiagonalCase<Real>& t, TridiagonalTruth<Real>& truth) {
  const std::int64_t n = t.order();
  DenseMatrix<double> wide(n, n);
  for (std::int64_t i = 0; i < n; ++i) {
    wide(i, i) = t.diagonal[at(i)];
    if (i + 1 < n) {
      wide(i + 1, i) = wide(i, i + 1) = t.off_diagonal[at(i)];
    }
  }
  reflect(wide);
  const auto a = rounded<Real>(wide);
  DenseMatrix<Real> z = a;
  std::vector<Real> values(at(n));
  const char with_vectors = 'V';
  const char lower = 'L';
  const int order = static_cast<int>(n);
  const int work_size = static_cast<int>(1 + 6 * n + 2 * n * n);
  const int integers = static_cast<int>(3 + 5 * n);
  std::vector<Real> work(static_cast<std::size_t>(work_size));
  std::vector<int> integer_work(static_cast<std::size_t>(integers));
  int info = 0;
  TridiagonalLapack<Real>::syevd(&with_vectors, &lower, &order, z.data(), &order, values.data(),
                                 work.data(), &work_size, integer_work.data(), &integers, &info, 1,
                                 1);
  if (info != 0) {
    throw std::runtime_error("LAPACK's syevd did not converge on " + t.name);
  }
  truth.lapack_residual = larger(truth.lapack_residual, dense_residual(a, values, z));
  truth.lapack_orthogonality = larger(truth.lapack_orthogonality, orthogonality_ratio(z));
}

/// Above, its residual takes too long.
constexpr std::int64_t max_rotated = 200;

constexpr double gate = 10.0;
constexpr double times_lapack = 4.0;

}  // namespace

template <class Real>
std::vector<TridiagonalCase<Real>> tridiagonal_zoo(std::int64_t n) {
  runtime::host::blas::use_one_thread();  // LAPACK may run before there is a mesh
  constexpr bool is_float = std::is_same_v<Real, float>;
  const double scale = is_float ? 1e30 : 1e150;
  const double close = is_float ? 1e-6 : 1e-13;
  std::vector<TridiagonalCase<Real>> zoo;
  const auto random = [](std::uint32_t seed, double size) {
    return [numbers = Numbers(seed), size](std::int64_t) mutable { return size * numbers.next(); };
  };
  const auto constant = [](double value) { return [value](std::int64_t) { return value; }; };
  const auto wilkinson = [](std::int64_t order) {
    return [order](std::int64_t i) {
      return std::abs(static_cast<double>(i % order) - static_cast<double>(order - 1) / 2);
    };
  };
  const auto graded = [n](std::int64_t i) {
    return std::pow(10.0, -16.0 * static_cast<double>(i) / static_cast<double>(n));
  };
  zoo.push_back(made_of<Real>("random", n, random(1, 1.0), random(2, 1.0)));
  zoo.push_back(made_of<Real>("one_two_one", n, constant(2), constant(-1)));
  zoo.push_back(made_of<Real>("wilkinson", n, wilkinson(n), constant(1)));
  zoo.push_back(made_of<Real>("glued_wilkinson", n, wilkinson(21), [&](std::int64_t i) {
    return i % 21 == 20 ? (is_float ? 1e-4 : 1e-8) : 1.0;
  }));
  zoo.push_back(with_spectrum<Real>("three_clusters", n, [&](std::int64_t i) {
    return (i % 3 == 0 ? 1.0 : i % 3 == 1 ? 1.0 + close : -2.0);
  }));
  zoo.push_back(with_spectrum<Real>("spread_clusters", n, [&](std::int64_t i) {
    return static_cast<double>(i % 3) - 1.0 +
           close * static_cast<double>(i) / static_cast<double>(n);
  }));
  zoo.push_back(made_of<Real>("identity", n, constant(1), constant(0)));
  zoo.push_back(made_of<Real>("zero", n, constant(0), constant(0)));
  zoo.push_back(made_of<Real>("graded", n, graded, [&](std::int64_t i) { return graded(i) / 2; }));
  zoo.push_back(made_of<Real>(
      "graded_upwards", n, [&](std::int64_t i) { return graded(n - 1 - i); },
      [&](std::int64_t i) { return graded(n - 1 - i) / 2; }));
  zoo.push_back(
      made_of<Real>("split", n, random(3, 1.0), [numbers = Numbers(4)](std::int64_t i) mutable {
        const double next = numbers.next();
        return i % 5 == 4 ? 0.0 : next;
      }));
  zoo.push_back(made_of<Real>("huge", n, random(5, scale), random(6, scale)));
  zoo.push_back(made_of<Real>("tiny", n, random(5, 1 / scale), random(6, 1 / scale)));
  return zoo;
}

template <class Real>
TridiagonalTruth<Real> truth_of(const TridiagonalCase<Real>& t) {
  runtime::host::blas::use_one_thread();
  const std::int64_t n = t.order();
  TridiagonalTruth<Real> truth;
  truth.norm = one_norm(t);
  truth.values = wide_eigenvalues(t, truth.norm);
  if (n == 0) {
    return truth;
  }
  std::vector<Real> values = t.diagonal;
  std::vector<Real> off_diagonal = t.off_diagonal;
  DenseMatrix<Real> z(n, n);
  const char with_vectors = 'I';
  const int order = static_cast<int>(n);
  const int work_size = static_cast<int>(1 + 4 * n + n * n);
  const int integers = static_cast<int>(3 + 5 * n);
  std::vector<Real> work(static_cast<std::size_t>(work_size));
  std::vector<int> integer_work(static_cast<std::size_t>(integers));
  int info = 0;
  TridiagonalLapack<Real>::stedc(&with_vectors, &order, values.data(), off_diagonal.data(),
                                 z.data(), &order, work.data(), &work_size, integer_work.data(),
                                 &integers, &info, 1);
  if (info != 0) {
    throw std::runtime_error("LAPACK's stedc did not converge on " + t.name);
  }
  truth.lapack_residual = tridiagonal_residual(t, values.data(), z);
  truth.lapack_orthogonality = orthogonality_ratio(z);
  if (n <= max_rotated) {
    compare_with_rotated(t, truth);
  }
  return truth;
}

template <class Real>
double tridiagonal_residual(const TridiagonalCase<Real>& t, const Real* values,
                            const DenseMatrix<Real>& z) {
  using Wide = long double;
  const std::int64_t n = t.order();
  Wide largest = 0;
  for (std::int64_t j = 0; j < z.columns(); ++j) {
    Wide sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      Wide row = (Wide(t.diagonal[at(i)]) - Wide(values[j])) * Wide(z(i, j));
      row += i > 0 ? Wide(t.off_diagonal[at(i - 1)]) * Wide(z(i - 1, j)) : 0;
      row += i + 1 < n ? Wide(t.off_diagonal[at(i)]) * Wide(z(i + 1, j)) : 0;
      sum += std::abs(row);
    }
    largest = larger(largest, sum);
  }
  const Wide norm = one_norm(t);
  return largest == 0 && norm == 0 ? 0.0
                                   : static_cast<double>(largest / norm / unit_roundoff<Real>);
}

template <class Real>
double orthogonality_ratio(const DenseMatrix<Real>& z) {
  using Wide = reference::WideReal<Real>;
  const std::int64_t n = z.columns();
  std::vector<Wide> sums(at(n));
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      Wide dot[2] = {};  // beside each other: twice as fast
      const Real* const x = z.data() + i * z.rows();
      const Real* const y = z.data() + j * z.rows();
      for (std::int64_t k = 0; k < z.rows(); ++k) {
        dot[k % 2] += Wide(x[k]) * Wide(y[k]);
      }
      const Wide entry = std::abs(dot[0] + dot[1] - (i == j ? 1 : 0));
      sums[at(j)] += entry;
      sums[at(i)] += i == j ? 0 : entry;
    }
  }
  Wide largest = 0;
  for (const Wide sum : sums) {
    largest = larger(largest, sum);
  }
  return static_cast<double>(largest / Wide(unit_roundoff<Real>));
}

template <class Real>
::testing::AssertionResult are_eigenpairs(const TridiagonalCase<Real>& t,
                                          const TridiagonalTruth<Real>& truth, const Real* values,
                                          const DenseMatrix<Real>& z) {
  if (z.rows() != t.order()) {
    return ::testing::AssertionFailure() << "wrong shape";
  }
  const double residual = tridiagonal_residual(t, values, z);
  const double orthogonality = orthogonality_ratio(z);
  const bool passed = residual <= std::max(gate, times_lapack * truth.lapack_residual) &&
                      orthogonality <= std::max(gate, times_lapack * truth.lapack_orthogonality);
  return (passed ? ::testing::AssertionSuccess() : ::testing::AssertionFailure())
         << "residual " << residual << " u (LAPACK has " << truth.lapack_residual
         << " u), orthogonality " << orthogonality << " u (LAPACK has "
         << truth.lapack_orthogonality << " u); the gates are 10 u and 4 times LAPACK's";
}

template <class Real>
::testing::AssertionResult are_eigenvalues(const TridiagonalTruth<Real>& truth, std::int64_t first,
                                           const std::vector<Real>& values) {
  constexpr long double limit = 20;
  if (first + static_cast<std::int64_t>(values.size()) >
      static_cast<std::int64_t>(truth.values.size())) {
    return ::testing::AssertionFailure() << "too many";
  }
  if (!std::is_sorted(values.begin(), values.end())) {
    return ::testing::AssertionFailure() << "not ascending";
  }
  long double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    worst =
        larger(worst, std::abs(static_cast<long double>(values[i]) - truth.values[at(first) + i]));
  }
  const long double allowed = limit * static_cast<long double>(unit_roundoff<Real>) * truth.norm;
  return (worst <= allowed ? ::testing::AssertionSuccess() : ::testing::AssertionFailure())
         << "off by " << worst << ", of which " << allowed << " are allowed";
}

#define SHARDSOLVE_INSTANTIATE(Real)                                                               \
  template std::vector<TridiagonalCase<Real>> tridiagonal_zoo(std::int64_t);                       \
  template TridiagonalTruth<Real> truth_of(const TridiagonalCase<Real>&);                          \
  template double tridiagonal_residual(const TridiagonalCase<Real>&, const Real*,                  \
                                       const DenseMatrix<Real>&);                                  \
  template double orthogonality_ratio(const DenseMatrix<Real>&);                                   \
  template ::testing::AssertionResult are_eigenpairs(const TridiagonalCase<Real>&,                 \
                                                     const TridiagonalTruth<Real>&, const Real*,   \
                                                     const DenseMatrix<Real>&);                    \
  template ::testing::AssertionResult are_eigenvalues(const TridiagonalTruth<Real>&, std::int64_t, \
                                                      const std::vector<Real>&);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::testing::tridiagonal
