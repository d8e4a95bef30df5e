/// Is the answer of a timed run right? Without any BLAS, in wider arithmetic, in O(n^2) operations,
/// so that every run can be asked. The limits are those of tests/support/gates.hpp.
#pragma once

#include "bench/support/parallel.hpp"
#include "bench/support/serve.hpp"
#include "matgen/philox.hpp"
#include "reference/wide.hpp"

#include <shardsolve/sharded.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

namespace shardsolve::bench {

using reference::Wide;
using reference::WideReal;

template <Scalar T>
using WideVector = std::vector<Wide<T>>;

template <Scalar T>
WideVector<T> zeros(const SlabLayout& layout) {
  return WideVector<T>(static_cast<std::size_t>(layout.size()));
}

/// Signs, the same in every run.
template <Scalar T>
WideVector<T> random_signs(const SlabLayout& layout) {
  constexpr std::uint64_t seed = 7;
  WideVector<T> v = zeros<T>(layout);
  for (std::size_t i = 0; i < v.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    v[i] = matgen::uniform_pair(seed, matgen::Stream::point, row, 0)[0] < 0 ? -1 : 1;
  }
  return v;
}

template <Scalar T>
WideVector<T> widen(const RightHandSides<T>& x) {
  WideVector<T> wide;
  for (std::int64_t rank = 0; rank < x.layout().ranks(); ++rank) {
    for (std::int64_t i = 0; i < x.block(rank).rows(); ++i) {
      wide.push_back(reference::widen(x.block(rank)(i, 0)));
    }
  }
  return wide;
}

template <Scalar T>
WideReal<T> inf_norm(const WideVector<T>& x) {
  WideReal<T> largest = 0;
  for (const Wide<T>& value : x) {
    largest = reference::larger(largest, std::abs(value));
  }
  return largest;
}

/// Calls body(j, column j) for every column of the matrix, in the caller's order, on all cores.
template <Scalar T, class Body>
void for_each_column(const ShardedMatrix<T>& a, Body body) {
  for (std::int64_t rank = 0; rank < a.layout().ranks(); ++rank) {
    const MatrixView<T> slab = a.slab(rank);
    const std::int64_t first = a.layout().segment(rank).begin.value();
    parallel_pieces(slab.columns(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t j = begin; j < end; ++j) {
        body(static_cast<std::size_t>(first + j), slab.data() + j * slab.stride());
      }
    });
  }
}

/// ||A||_1 = ||A||_inf of a Hermitian A.
template <Scalar T>
WideReal<T> one_norm(const ShardedMatrix<T>& a) {
  std::vector<WideReal<T>> sums(static_cast<std::size_t>(a.layout().size()));
  for_each_column(a, [&](std::size_t j, const T* column) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[j] += std::abs(column[i]);
    }
  });
  WideReal<T> largest = 0;
  for (const WideReal<T> sum : sums) {
    largest = reference::larger(largest, sum);
  }
  return largest;
}

/// A x for a Hermitian A, whose rows are its conjugated columns.
template <Scalar T>
WideVector<T> multiply(const ShardedMatrix<T>& a, const WideVector<T>& x) {
  WideVector<T> y = zeros<T>(a.layout());
  for_each_column(a, [&](std::size_t j, const T* column) {
    Wide<T> sum{};
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum += reference::product(reference::conjugate(reference::widen(column[i])), x[i]);
    }
    y[j] = sum;
  });
  return y;
}

/// L L^H x, rows and columns in the caller's order: of column j, L has the rows that are eliminated
/// with or after it; the other entries of the slab are A's.
template <Scalar T>
WideVector<T> multiply_factor(const ShardedMatrix<T>& l, const WideVector<T>& x) {
  const SlabLayout& layout = l.layout();
  std::vector<std::int64_t> position;
  for (std::int64_t row = 0; row < layout.size(); ++row) {
    position.push_back(layout.position(GlobalIndex(row)).value());
  }
  // w = L^H x
  WideVector<T> w = zeros<T>(layout);
  for_each_column(l, [&](std::size_t j, const T* column) {
    Wide<T> sum{};
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (position[i] >= position[j]) {
        sum += reference::product(reference::conjugate(reference::widen(column[i])), x[i]);
      }
    }
    w[j] = sum;
  });
  // y = L w
  WideVector<T> y = zeros<T>(layout);
  for (std::size_t j = 0; j < w.size(); ++j) {
    const std::int64_t rank = layout.owner(GlobalIndex(static_cast<std::int64_t>(j)));
    const MatrixView<T> slab = l.slab(rank);
    const std::int64_t local = static_cast<std::int64_t>(j) - layout.segment(rank).begin.value();
    const T* column = slab.data() + local * slab.stride();
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (position[i] >= position[j]) {
        y[i] += reference::product(reference::widen(column[i]), w[j]);
      }
    }
  }
  return y;
}

template <Scalar T>
WideVector<T> difference(WideVector<T> a, const WideVector<T>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] -= b[i];
  }
  return a;
}

template <Scalar T>
double in_roundoffs(WideReal<T> ratio) {
  return static_cast<double>(ratio / WideReal<T>{unit_roundoff<T>});
}

/// ||b - A x|| / ((||A|| ||x|| + ||b||) u) in the infinity norm.
template <Scalar T>
Residual solve_residual(const ShardedMatrix<T>& a, const RightHandSides<T>& solution,
                        const RightHandSides<T>& right_hand_side) {
  const WideVector<T> x = widen(solution);
  const WideVector<T> b = widen(right_hand_side);
  const WideReal<T> residual = inf_norm<T>(difference<T>(b, multiply(a, x)));
  const WideReal<T> scale = one_norm(a) * inf_norm<T>(x) + inf_norm<T>(b);
  return {"solve", in_roundoffs<T>(residual / scale), 10.0};
}

/// ||(P A P^T - L L^H) v|| / (||A|| u) in the infinity norm, v of random signs: no more than
/// ||P A P^T - L L^H||_1 / (||A||_1 u), which takes O(n^3) operations.
template <Scalar T>
Residual factor_residual(const ShardedMatrix<T>& a, const ShardedMatrix<T>& l) {
  const WideVector<T> v = random_signs<T>(a.layout());
  const WideVector<T> residual = difference<T>(multiply(a, v), multiply_factor(l, v));
  return {"factor", in_roundoffs<T>(inf_norm<T>(residual) / one_norm(a)), 30.0};
}

/// ||v - X A v|| / (||A|| ||X|| u) in the infinity norm, v of random signs: no more than
/// ||I - X A||_inf / (||A|| ||X|| u).
template <Scalar T>
Residual inverse_residual(const ShardedMatrix<T>& a, const ShardedMatrix<T>& x) {
  const WideVector<T> v = random_signs<T>(a.layout());
  const WideVector<T> residual = difference<T>(v, multiply(x, multiply(a, v)));
  const WideReal<T> scale = one_norm(a) * one_norm(x);
  return {"inverse", in_roundoffs<T>(inf_norm<T>(residual) / scale), 30.0};
}

/// Of all eigenpairs, in the infinity norm and with v of random signs: (A Z - Z diag(w))^H v /
/// (||A|| u), and (Z^H Z - I) v / u. An entry has about the size of a column's 2-norm; of the
/// second one these grow with the root of n (LAPACK: 2 sqrt(n) u).
template <Scalar T>
std::vector<Residual> eigenpair_residuals(const ShardedMatrix<T>& a, const ShardedMatrix<T>& z,
                                          const std::vector<RealOf<T>>& values) {
  const WideVector<T> v = random_signs<T>(a.layout());
  // Z^H A v - diag(w) Z^H v; `multiply` takes columns as rows of the adjoint.
  WideVector<T> residual = multiply(z, multiply(a, v));
  const WideVector<T> zv = multiply(z, v);
  for (std::size_t j = 0; j < residual.size(); ++j) {
    residual[j] -= WideReal<T>{values.at(j)} * zv[j];
  }
  // Z^H (Z v) - v
  WideVector<T> sum = zeros<T>(a.layout());
  for (std::int64_t rank = 0; rank < z.layout().ranks(); ++rank) {
    const MatrixView<T> slab = z.slab(rank);
    const std::int64_t first = z.layout().segment(rank).begin.value();
    for (std::int64_t j = 0; j < slab.columns(); ++j) {
      const T* const column = slab.data() + j * slab.stride();
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] +=
            reference::product(reference::widen(column[i]), v[static_cast<std::size_t>(first + j)]);
      }
    }
  }
  const WideVector<T> departure = difference<T>(multiply(z, sum), v);
  constexpr double limit = 30.0;
  const double rows = static_cast<double>(a.layout().size());
  return {{"eigenpairs", in_roundoffs<T>(inf_norm<T>(residual) / one_norm(a)), limit},
          {"orthogonality", in_roundoffs<T>(inf_norm<T>(departure)), limit * std::sqrt(rows)}};
}

}  // namespace shardsolve::bench
