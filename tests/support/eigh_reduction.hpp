/// Problems for the tests of the reductions of an eigenproblem, and what their results are measured
/// with.
#pragma once

#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "reference/eigh.hpp"
#include "reference/matmul.hpp"
#include "tests/support/backend.hpp"
#include "tests/support/cuts.hpp"
#include "tests/support/faults.hpp"
#include "tests/support/faulty_backend.hpp"
#include "tests/support/matrix_zoo.hpp"

#include <shardsolve/mesh.hpp>
#include <shardsolve/slab_layout.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

// LAPACK's eigenvalues are several times as accurate where it finds the vectors, too.
extern "C" {
void dsyevd_(const char*, const char*, const int*, double*, const int*, double*, double*,
             const int*, int*, const int*, int*, std::size_t, std::size_t);
void zheevd_(const char*, const char*, const int*, std::complex<double>*, const int*, double*,
             std::complex<double>*, const int*, double*, const int*, int*, const int*, int*,
             std::size_t, std::size_t);
}

namespace shardsolve::testing::reduction {

using reference::DenseMatrix;
using reference::matmul;
using ReferenceOp = reference::Op;
using Windows = mesh::HostBackend::Windows;

/// Whatever the devices of the tests are.
inline Mesh cpu_mesh(std::int64_t ranks, Windows windows = Windows::in_place) {
  return Mesh{mesh::MeshState::start(std::make_unique<mesh::HostBackend>(ranks, windows))};
}

template <Scalar T>
DenseMatrix<T> difference(const DenseMatrix<T>& a, const DenseMatrix<T>& b) {
  DenseMatrix<T> c = a;
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      c(i, j) -= b(i, j);
    }
  }
  return c;
}

/// (X + X^H) / 2 of random X.
template <Scalar T>
DenseMatrix<T> random_hermitian(std::int64_t n, std::uint64_t seed = 1) {
  const DenseMatrix<T> x = right_hand_sides<T>(n, n, seed);
  DenseMatrix<T> a(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      a(i, j) = (x(i, j) + reference::conjugate(x(j, i))) / RealOf<T>{2};
    }
  }
  return a;
}

/// X^H X for random X of so many rows, made exactly Hermitian.
template <Scalar T>
DenseMatrix<T> of_rank(std::int64_t rank, std::int64_t n) {
  const DenseMatrix<T> x = right_hand_sides<T>(rank, n, 7);
  DenseMatrix<T> a = matmul(ReferenceOp::conjugate_transpose, x, ReferenceOp::none, x);
  for (std::int64_t j = 0; j < n; ++j) {
    a(j, j) = std::real(a(j, j));
    for (std::int64_t i = 0; i < j; ++i) {
      a(i, j) = reference::conjugate(a(j, i));
    }
  }
  return a;
}

/// Eigenvalues by LAPACK, in double precision.
template <Scalar T>
std::vector<double> eigenvalues(const DenseMatrix<T>& a) {
  using Wide = std::conditional_t<is_complex<T>, std::complex<double>, double>;
  const int n = static_cast<int>(a.rows());
  if (n == 0) {
    return {};
  }
  DenseMatrix<Wide> wide(n, n);
  std::transform(a.data(), a.data() + a.rows() * a.columns(), wide.data(),
                 [](T entry) { return Wide{entry}; });
  const int size = 1 + 6 * n + 2 * n * n;
  const int int_size = 3 + 5 * n;
  std::vector<Wide> work(static_cast<std::size_t>(size));
  std::vector<int> int_work(static_cast<std::size_t>(int_size));
  std::vector<double> values(static_cast<std::size_t>(n));
  int info = 0;
  if constexpr (is_complex<T>) {
    std::vector<double> real_work(static_cast<std::size_t>(size));
    zheevd_("V", "L", &n, wide.data(), &n, values.data(), work.data(), &size, real_work.data(),
            &size, int_work.data(), &int_size, &info, 1, 1);
  } else {
    dsyevd_("V", "L", &n, wide.data(), &n, values.data(), work.data(), &size, int_work.data(),
            &int_size, &info, 1, 1);
  }
  EXPECT_EQ(info, 0);
  return values;
}

/// The largest difference, in units of u times the largest modulus of the first ones.
template <Scalar T>
double spectrum_error(const std::vector<double>& expected, const std::vector<double>& values) {
  double error = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error = std::max(error, std::abs(expected[i] - values[i]));
    norm = std::max(norm, std::abs(expected[i]));
  }
  return error == 0.0 ? 0.0 : error / (norm * unit_roundoff<T>);
}

inline constexpr double spectrum_limit = 20.0;

/// The largest difference of their eigenvalues, in units of u times the largest modulus of a's.
/// LAPACK's have errors of their own, of 23 rows up to 20 u in double precision: what is above the
/// limit is measured again in wider arithmetic, which takes its time.
template <Scalar T>
double spectrum_error(const DenseMatrix<T>& a, const DenseMatrix<T>& b) {
  const double error = spectrum_error<T>(eigenvalues(a), eigenvalues(b));
  if (error <= spectrum_limit) {
    return error;
  }
  const auto wide = [](const DenseMatrix<T>& matrix) {
    const auto values = reference::eigh(matrix).values;
    return std::vector<double>(values.begin(), values.end());
  };
  return spectrum_error<T>(wide(a), wide(b));
}

template <Scalar T>
DenseMatrix<T> from_band(const DenseMatrix<T>& band) {
  DenseMatrix<T> a(band.columns(), band.columns());
  for (std::int64_t j = 0; j < band.columns(); ++j) {
    for (std::int64_t i = j; i < std::min(band.columns(), j + band.rows() - 1); ++i) {
      a(i, j) = band(i - j, j);
      a(j, i) = reference::conjugate(band(i - j, j));
    }
  }
  return a;
}

template <Scalar T>
DenseMatrix<T> from_tridiagonal(const DenseMatrix<RealOf<T>>& tridiagonal) {
  DenseMatrix<T> a(tridiagonal.rows(), tridiagonal.rows());
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    a(j, j) = tridiagonal(j, 0);
    if (j + 1 < a.columns()) {
      a(j + 1, j) = tridiagonal(j, 1);
      a(j, j + 1) = tridiagonal(j, 1);
    }
  }
  return a;
}

template <Scalar T>
double in_roundoffs(const DenseMatrix<T>& error) {
  return static_cast<double>(reference::one_norm(error)) / unit_roundoff<T>;
}

/// ||A Q - Q B||_1 / (||A||_1 u)
template <Scalar T>
double similarity_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& q, const DenseMatrix<T>& b) {
  const auto norm = static_cast<double>(reference::one_norm(a));
  const double error = in_roundoffs(difference(matmul(a, q), matmul(q, b)));
  return error == 0.0 ? 0.0 : error / norm;
}

/// ||Q^H Q - I||_1 / u
template <Scalar T>
double orthogonality_ratio(const DenseMatrix<T>& q) {
  return in_roundoffs(difference(matmul(ReferenceOp::conjugate_transpose, q, ReferenceOp::none, q),
                                 DenseMatrix<T>::identity(q.columns())));
}

/// For products of n reflectors, or of n a row: the norms are sums of n entries, each of which has
/// the roundings of all of them. Of ||Q^H Q - I|| LAPACK's eigenvectors have about n u; four times
/// as much is the gate of the whole eigensolver.
inline double similarity_limit(std::int64_t n) {
  return 10.0 + 8.0 * std::sqrt(static_cast<double>(n));
}
inline double orthogonality_limit(std::int64_t n) { return 10.0 + 4.0 * static_cast<double>(n); }

/// Cuts in which panels are short in the middle, and bands of other widths.
inline std::vector<Cut> reduction_cuts() {
  std::vector<Cut> all = testing::cuts();
  for (const std::int64_t b : {1, 2, 5, 13}) {
    all.push_back({fmt::format("ragged_band{}", b), SlabLayout({0, 7, 7, 50, 60}, b)});
    all.push_back({fmt::format("even_band{}", b), SlabLayout::even(37, 3, b)});
  }
  return all;
}

/// A problem in which each step is of another kind.
struct Ragged {
  SlabLayout layout{{0, 17, 17, 50, 60}, 5};
  std::int64_t deferred = 12;
};

/// A mesh whose calls between ranks may come late.
struct LateMesh {
  explicit LateMesh(std::int64_t ranks)
      : faults(std::make_shared<Faults>(ranks)),
        mesh(mesh::MeshState::start(std::make_unique<FaultyBackend>(backend(ranks), faults))) {}

  /// Runs `work` once without and then with each of some calls late: about `sample` a rank.
  template <class Work>
  void for_late_calls(std::int64_t sample, Work work) {
    faults->clear();
    work();
    std::vector<std::int64_t> calls;
    for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      calls.push_back(faults->calls(rank));
    }
    for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      const std::int64_t count = calls[static_cast<std::size_t>(rank)];
      for (std::int64_t call = rank; call < count;
           call += std::max<std::int64_t>(count / sample, 1)) {
        SCOPED_TRACE(fmt::format("call {} on rank {} is late", call, rank));
        faults->strike_call(rank, call, Fault::delayed, std::chrono::milliseconds(2));
        work();
      }
    }
  }

  std::shared_ptr<Faults> faults;
  Mesh mesh;

 private:
  static std::unique_ptr<mesh::Backend> backend(std::int64_t ranks) {
    if (test_gpus().empty()) {
      return std::make_unique<mesh::HostBackend>(ranks);
    }
    return make_gpus(ranks);
  }
};

/// What scripts/prove_waits.py runs: cuts, and whether ranks read each other's memory or copy it.
class ReductionWaits
    : public ::testing::TestWithParam<std::tuple<std::vector<std::int64_t>, Windows>> {
 public:
  static auto cases() {
    return ::testing::Combine(
        ::testing::Values(std::vector<std::int64_t>{0, 115}, std::vector<std::int64_t>{0, 58, 115},
                          std::vector<std::int64_t>{0, 75, 83, 91, 115}),
        ::testing::Values(Windows::in_place, Windows::copied));
  }
  static std::string name(const ::testing::TestParamInfo<ParamType>& case_info) {
    std::string name = "cut";
    for (const std::int64_t boundary : std::get<0>(case_info.param)) {
      name += '_';
      name += std::to_string(boundary);
    }
    return name + (std::get<1>(case_info.param) == Windows::in_place ? "_in_place" : "_copied");
  }

 protected:
  void SetUp() override {
    if (!test_gpus().empty()) {
      GTEST_SKIP() << "of CPU devices";
    }
  }

  SlabLayout layout_{std::get<0>(GetParam()), 8};
  Mesh mesh_ = cpu_mesh(layout_.ranks(), std::get<1>(GetParam()));
  DenseMatrix<double> a_ = random_hermitian<double>(layout_.size(), 5);
};

}  // namespace shardsolve::testing::reduction
