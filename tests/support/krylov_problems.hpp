/// Systems for Krylov solves, their operators row by row, and solves on meshes of any cut.
#pragma once

#include "reference/dense_matrix.hpp"
#include "runtime/krylov/program.hpp"
#include "support/backend.hpp"

#include <shardsolve/krylov.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardsolve::testing::krylov_problems {

using krylov::Operator;
using reference::DenseMatrix;

template <Scalar T>
using Vector = std::vector<T>;

/// Entry (i, j) of a test matrix.
using Entry = std::function<double(std::int64_t, std::int64_t)>;

template <Scalar T>
struct System {
  std::string name;
  std::int64_t n = 0;
  std::vector<T> a;  ///< row after row
  std::vector<T> b;
  std::optional<std::vector<T>> guess = std::nullopt;

  T entry(std::int64_t i, std::int64_t j) const { return a[static_cast<std::size_t>(i * n + j)]; }
};

/// A number in [-1, 1) of a stream.
inline double random_number(std::int64_t stream, std::int64_t i) {
  return krylov::random_number(1000 + stream, i);
}

template <Scalar T>
T random_scalar(std::int64_t stream, std::int64_t i) {
  if constexpr (is_complex<T>) {
    return {static_cast<RealOf<T>>(random_number(2 * stream, i)),
            static_cast<RealOf<T>>(random_number(2 * stream + 1, i))};
  } else {
    return static_cast<T>(random_number(2 * stream, i));
  }
}

template <Scalar T>
System<T> make_system(std::string name, std::int64_t n,
                      const std::function<T(std::int64_t, std::int64_t)>& entry,
                      std::int64_t stream = 7) {
  System<T> system{std::move(name), n, {}, {}};
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      system.a.push_back(entry(i, j));
    }
    system.b.push_back(random_scalar<T>(stream, i));
  }
  return system;
}

/// Hermitian: D^H (tridiagonal (-1, d, -1)) D with phases D if complex; definite from d = 2 on.
template <Scalar T>
System<T> laplacian(std::int64_t n, double d = 2.0) {
  return make_system<T>("laplacian", n, [=](std::int64_t i, std::int64_t j) -> T {
    if (i == j) {
      return static_cast<T>(static_cast<RealOf<T>>(d));
    }
    if (i - j == 1 || j - i == 1) {
      if constexpr (is_complex<T>) {
        return i < j ? T(0, -1) : T(0, 1);
      } else {
        return T{-1};
      }
    }
    return T{0};
  });
}

/// Convection and diffusion in one dimension: far from symmetric.
template <Scalar T>
System<T> convection(std::int64_t n, double speed = 0.8) {
  return make_system<T>("convection", n, [=](std::int64_t i, std::int64_t j) -> T {
    const double entry = i == j ? 2.3 : i - j == 1 ? -1 - speed : j - i == 1 ? -1 + speed : 0.0;
    return static_cast<T>(static_cast<RealOf<T>>(entry));
  });
}

/// Random entries of size 1 / n beside a diagonal of 1 to 2.
template <Scalar T>
System<T> random_system(std::int64_t n, std::int64_t seed) {
  return make_system<T>(
      "random", n,
      [=](std::int64_t i, std::int64_t j) -> T {
        const T noise = random_scalar<T>(100 + seed, i * n + j) / static_cast<RealOf<T>>(n);
        return i == j ? noise + static_cast<RealOf<T>>(1.5 + 0.5 * random_number(200 + seed, i))
                      : noise;
      },
      300 + seed);
}

template <Scalar T>
System<T> diagonal_system(std::string name, const std::vector<double>& d) {
  return make_system<T>(
      std::move(name), static_cast<std::int64_t>(d.size()),
      [&](std::int64_t i, std::int64_t j) -> T {
        return i == j ? static_cast<T>(static_cast<RealOf<T>>(d[static_cast<std::size_t>(i)]))
                      : T{0};
      });
}

/// y_i = sum of a_ij x_j, left to right.
template <Scalar T>
Operator<T> operator_of(const System<T>& system) {
  const auto shared = std::make_shared<const System<T>>(system);
  return Operator<T>::callable([shared](const T* x, GlobalRange rows, T* y) {
    for (std::int64_t i = rows.begin.value(); i < rows.end.value(); ++i) {
      T sum{};
      for (std::int64_t j = 0; j < shared->n; ++j) {
        if (const T a = shared->entry(i, j); a != T{0}) {
          sum += a * x[j];
        }
      }
      *y++ = sum;
    }
  });
}

/// Even cuts on so many ranks, and uneven ones.
inline std::vector<SlabLayout> cuts_of(std::int64_t n) {
  std::vector<SlabLayout> cuts;
  for (const std::int64_t ranks : {1, 2, 3, 4, 6}) {
    cuts.push_back(SlabLayout::even(n, ranks, 1));
  }
  const std::int64_t third = n / 3;
  cuts.push_back(SlabLayout({0, third, 2 * third, n, n}, 1));
  cuts.push_back(SlabLayout({0, 0, std::min<std::int64_t>(5, n), n, n}, 1));
  cuts.push_back(SlabLayout({0, n / 2 + 1, std::min(n / 2 + 3, n), n}, 1));
  return cuts;
}

/// A few of them: an even one, slabs 3/3/3/0, and rows cut within a leaf.
inline std::vector<SlabLayout> few_cuts_of(std::int64_t n) {
  const std::int64_t third = n / 3;
  return {SlabLayout::even(n, 3, 1), SlabLayout({0, third, 2 * third, n, n}, 1),
          SlabLayout({0, n / 2 + 1, std::min(n / 2 + 3, n), n}, 1)};
}

/// All of them for double precision. What differs in single precision is no matter of cuts.
template <Scalar T>
std::vector<SlabLayout> cuts_for(std::int64_t n) {
  return sizeof(RealOf<T>) == sizeof(double) ? cuts_of(n) : few_cuts_of(n);
}

template <Scalar T>
struct Answer {
  krylov::Result result;
  std::vector<T> x;
};

/// What a solve gives on one cut. `jacobi`: with the diagonal.
template <Scalar T>
Answer<T> solve_on(Mesh& mesh, const SlabLayout& layout, const System<T>& system,
                   const Operator<T>& a, const std::type_identity_t<Operator<T>>* m,
                   krylov::Options options, const RunOptions& run = {}) {
  const RightHandSides<T> b(layout, 1);
  const RightHandSides<T> x(layout, 1);
  for (std::int64_t r = 0; r < layout.ranks(); ++r) {
    for (std::int64_t i = 0; i < layout.width(r); ++i) {
      const auto row = static_cast<std::size_t>(layout.segment(r).begin.value() + i);
      b.block(r)(i, 0) = system.b[row];
      x.block(r)(i, 0) = system.guess ? (*system.guess)[row] : T{77};
    }
  }
  options.use_guess = system.guess.has_value();
  options.log = true;
  const bool on_gpus = mesh.memory() == Memory::device;
  const RightHandSides<T> own_b = on_gpus ? to_devices(b) : b;
  const RightHandSides<T> own_x = on_gpus ? to_devices(x) : x;
  Answer<T> answer;
  answer.result = m == nullptr ? krylov::solve(mesh, a, own_b, own_x, options, run)
                               : krylov::solve(mesh, a, *m, own_b, own_x, options, run);
  const RightHandSides<T> found = to_host(own_x);
  for (std::int64_t r = 0; r < layout.ranks(); ++r) {
    for (std::int64_t i = 0; i < layout.width(r); ++i) {
      answer.x.push_back(found.block(r)(i, 0));
    }
  }
  return answer;
}

/// Jacobi as a function.
template <Scalar T>
Operator<T> jacobi_of(const System<T>& system) {
  const auto shared = std::make_shared<const System<T>>(system);
  return Operator<T>::callable([shared](const T* x, GlobalRange rows, T* y) {
    for (std::int64_t i = rows.begin.value(); i < rows.end.value(); ++i) {
      *y++ = x[i] / shared->entry(i, i);
    }
  });
}

/// Applies a function to the output of the `which`-th product, counted from 1.
template <Scalar T>
Operator<T> disturbed(const System<T>& system, std::int64_t ranks, std::int64_t which, T value) {
  const auto shared = std::make_shared<const System<T>>(system);
  const auto counts = std::make_shared<std::vector<std::int64_t>>(system.n + 1, 0);
  static_cast<void>(ranks);
  return Operator<T>::callable([shared, counts, which, value](const T* x, GlobalRange rows, T* y) {
    if (rows.size() == 0) {
      return;
    }
    // Each rank counts its own products, by its first row.
    const bool hit = ++(*counts)[static_cast<std::size_t>(rows.begin.value())] == which;
    for (std::int64_t i = rows.begin.value(); i < rows.end.value(); ++i) {
      T sum{};
      for (std::int64_t j = 0; j < shared->n; ++j) {
        sum += shared->entry(i, j) * x[j];
      }
      y[i - rows.begin.value()] = hit && i == shared->n / 2 ? value : sum;
    }
  });
}

/// ||b - A x||_2 / ||b||_2 in long double.
template <Scalar T>
double true_residual(const System<T>& system, const std::vector<T>& x) {
  long double above = 0;
  long double below = 0;
  for (std::int64_t i = 0; i < system.n; ++i) {
    std::complex<long double> r = system.b[static_cast<std::size_t>(i)];
    below += std::norm(r);
    for (std::int64_t j = 0; j < system.n; ++j) {
      r -= std::complex<long double>(system.entry(i, j)) *
           std::complex<long double>(x[static_cast<std::size_t>(j)]);
    }
    above += std::norm(r);
  }
  return below > 0 ? static_cast<double>(std::sqrt(above / below)) : 0.0;
}

template <Scalar T>
bool all_finite(const std::vector<T>& x) {
  return std::all_of(x.begin(), x.end(), [](T value) {
    return std::isfinite(std::real(value)) && std::isfinite(std::imag(value));
  });
}

template <Scalar T>
::testing::AssertionResult same_bits(const Answer<T>& ours, const Answer<T>& theirs) {
  if (ours.result.status != theirs.result.status) {
    return ::testing::AssertionFailure()
           << ours.result.message << " against " << theirs.result.message;
  }
  for (std::size_t i = 0; i < std::min(ours.result.log.size(), theirs.result.log.size()); ++i) {
    if (to_json(ours.result.log[i]) != to_json(theirs.result.log[i])) {
      return ::testing::AssertionFailure()
             << to_json(ours.result.log[i]) << " against " << to_json(theirs.result.log[i]);
    }
  }
  if (ours.result.log.size() != theirs.result.log.size() ||
      ours.result.message != theirs.result.message) {
    return ::testing::AssertionFailure() << "logs or messages differ";
  }
  if (ours.x.size() != theirs.x.size() ||
      std::memcmp(ours.x.data(), theirs.x.data(), ours.x.size() * sizeof(T)) != 0) {
    return ::testing::AssertionFailure() << "solutions differ";
  }
  return ::testing::AssertionSuccess();
}

}  // namespace shardsolve::testing::krylov_problems
