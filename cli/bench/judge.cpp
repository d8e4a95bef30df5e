#include "judge.hpp"

#include "core/each_dtype.hpp"
#include "matgen/matrices.hpp"
#include "matgen/philox.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/rank.hpp"
#include "programs/gather.hpp"
#include "reference/wide.hpp"
#include "system.hpp"

#include <shardsolve/error.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <memory>
#include <set>
#include <utility>

namespace shardsolve::cli::bench {
namespace {

using reference::conjugate;
using reference::product;
using reference::Wide;
using reference::widen;
using reference::WideReal;

template <Scalar T>
using Vector = std::vector<Wide<T>>;

constexpr double solve_limit = 10.0;
constexpr double factor_limit = 30.0;
constexpr double inverse_limit = 30.0;
constexpr double eigenpair_limit = 30.0;
constexpr double eigenvalue_limit = 20.0;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Signs, the same in every run.
template <Scalar T>
Vector<T> random_signs(std::int64_t n) {
  constexpr std::uint64_t key = 7;
  Vector<T> v(index(n));
  for (std::int64_t i = 0; i < n; ++i) {
    v[index(i)] = matgen::uniform_pair(key, matgen::Stream::point, i, 0)[0] < 0 ? -1 : 1;
  }
  return v;
}

template <Scalar T>
WideReal<T> inf_norm(const Wide<T>* x, std::int64_t n) {
  WideReal<T> largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    largest = reference::larger(largest, static_cast<WideReal<T>>(std::abs(x[i])));
  }
  return largest;
}

/// Sums of `length` numbers over all ranks, in all processes; give(rank, sums) adds what a rank
/// has.
template <Scalar T, class Give>
Vector<T> sum_over_ranks(Mesh& mesh, const RunOptions& options, std::int64_t length, Give give) {
  const auto total = std::make_shared<Vector<T>>(index(length));
  mesh.state().run(options, [total, length, give = std::move(give)](mesh::Rank& rank) {
    Vector<T> own(index(length));
    give(rank, own);
    const auto all = programs::gather_from_all(rank, own);
    if (rank.leads()) {
      for (const Vector<T>& one : all) {
        for (std::size_t i = 0; i < one.size(); ++i) {
          (*total)[i] += one[i];
        }
      }
    }
  });
  return std::move(*total);
}

/// Sums over all columns of the matrix: add(j, column j, sums) for each, in the caller's order.
template <Scalar T, class Add>
Vector<T> sum_over_columns(Mesh& mesh, const RunOptions& options, const ShardedMatrix<T>& a,
                           std::int64_t length, Add add) {
  return sum_over_ranks<T>(
      mesh, options, length, [a, add = std::move(add)](mesh::Rank& rank, Vector<T>& sums) {
        const std::int64_t begin = a.layout().segment(rank.index()).begin.value();
        for_each_piece(a, rank.index(),
                       [&](std::int64_t first, MatrixView<T> piece, MatrixView<T> room) {
                         rank.leave_if_failed();
                         if (rank.stop_requested()) {
                           throw Error(ErrorKind::cancelled, "interrupted");
                         }
                         if (room.data() != piece.data()) {
                           rank.update().copy(room.data(), piece.data(),
                                              index(room.rows() * room.columns()) * sizeof(T));
                           rank.update().synchronize();
                         }
                         for (std::int64_t j = 0; j < room.columns(); ++j) {
                           add(begin + first + j, room.columns_from(j, 1).data(), sums);
                         }
                       });
      });
}

/// A V, column after column; then the sums of the absolute values of A's rows.
template <Scalar T>
Vector<T> multiply(Mesh& mesh, const RunOptions& options, const ShardedMatrix<T>& a, Vector<T> v) {
  const std::int64_t n = a.layout().size();
  const std::int64_t columns = static_cast<std::int64_t>(v.size()) / n;
  return sum_over_columns<T>(
      mesh, options, a, n * (columns + 1),
      [n, columns, v = std::move(v)](std::int64_t j, const T* column, Vector<T>& sums) {
        for (std::int64_t i = 0; i < n; ++i) {
          for (std::int64_t c = 0; c < columns; ++c) {
            sums[index(c * n + i)] += product(widen(column[i]), v[index(c * n + j)]);
          }
          sums[index(columns * n + i)] += std::abs(column[i]);
        }
      });
}

/// L L^H v, rows in the caller's order: of column j, L has the rows that are eliminated with or
/// after it; the others are A's. Then sum log(L_jj), and the sum of the absolute values.
template <Scalar T>
Vector<T> multiply_factor(Mesh& mesh, const RunOptions& options, const ShardedMatrix<T>& l,
                          Vector<T> v) {
  const std::int64_t n = l.layout().size();
  std::vector<std::int64_t> position;
  for (std::int64_t row = 0; row < n; ++row) {
    position.push_back(l.layout().position(GlobalIndex(row)).value());
  }
  return sum_over_columns<T>(mesh, options, l, n + 2,
                             [n, v = std::move(v), position = std::move(position)](
                                 std::int64_t j, const T* column, Vector<T>& sums) {
                               Wide<T> w{};
                               for (std::int64_t i = 0; i < n; ++i) {
                                 if (position[index(i)] >= position[index(j)]) {
                                   w += product(conjugate(widen(column[i])), v[index(i)]);
                                 }
                               }
                               for (std::int64_t i = 0; i < n; ++i) {
                                 if (position[index(i)] >= position[index(j)]) {
                                   sums[index(i)] += product(widen(column[i]), w);
                                 }
                               }
                               const WideReal<T> log = std::log(std::real(widen(column[j])));
                               sums[index(n)] += log;
                               sums[index(n + 1)] += std::abs(log);
                             });
}

/// U Q v, rows in the order of elimination; then sum log|U_jj|, and the sum of the absolute values.
template <Scalar T>
Vector<T> multiply_upper(Mesh& mesh, const RunOptions& options, const ShardedMatrix<T>& slabs,
                         Vector<T> v) {
  const std::int64_t n = slabs.layout().size();
  return sum_over_columns<T>(mesh, options, slabs, n + 2,
                             [n, layout = slabs.layout(), v = std::move(v)](
                                 std::int64_t j, const T* column, Vector<T>& sums) {
                               const std::int64_t place = layout.position(GlobalIndex(j)).value();
                               for (std::int64_t i = 0; i <= place; ++i) {
                                 sums[index(i)] += product(widen(column[i]), v[index(j)]);
                               }
                               const WideReal<T> log = std::log(std::abs(widen(column[place])));
                               sums[index(n)] += log;
                               sums[index(n + 1)] += std::abs(log);
                             });
}

/// L w without its diagonal of ones, rows of both in the order of elimination.
template <Scalar T>
Vector<T> multiply_lower(Mesh& mesh, const RunOptions& options, const ShardedMatrix<T>& slabs,
                         Vector<T> w) {
  const std::int64_t n = slabs.layout().size();
  return sum_over_columns<T>(mesh, options, slabs, n,
                             [n, layout = slabs.layout(), w = std::move(w)](
                                 std::int64_t j, const T* column, Vector<T>& sums) {
                               const std::int64_t place = layout.position(GlobalIndex(j)).value();
                               for (std::int64_t i = place + 1; i < n; ++i) {
                                 sums[index(i)] += product(widen(column[i]), w[index(place)]);
                               }
                             });
}

/// The columns `which` of the solutions, one after the other.
template <Scalar T>
Vector<T> columns_of(Mesh& mesh, const RunOptions& options, const RightHandSides<T>& x,
                     const std::vector<std::int64_t>& which) {
  const std::int64_t n = x.layout().size();
  return sum_over_ranks<T>(
      mesh, options, n * static_cast<std::int64_t>(which.size()),
      [x, which, n](mesh::Rank& rank, Vector<T>& values) {
        const MatrixView<T> block = x.block(rank.index());
        const std::int64_t begin = x.layout().segment(rank.index()).begin.value();
        for (std::size_t c = 0; c < which.size(); ++c) {
          const std::vector<T> column =
              rank.fetch(rank.update(), block.columns_from(which[c], 1).data(), block.rows());
          for (std::size_t i = 0; i < column.size(); ++i) {
            values[c * index(n) + index(begin) + i] = widen(column[i]);
          }
        }
      });
}

template <Scalar T>
double in_roundoffs(WideReal<T> ratio) {
  return static_cast<double>(ratio / WideReal<T>{unit_roundoff<T>});
}

/// How far `found` is from the sum of n logarithms whose absolute values add up to `size`: the
/// library adds them in double.
template <class Real>
Gate sum_of_logs(std::int64_t n, double found, Real sum, Real size) {
  const double rounding = unit_roundoff<double> * std::max(1.0, static_cast<double>(size)) *
                          std::sqrt(static_cast<double>(n));
  return {"log-determinant", std::abs(found - static_cast<double>(sum)) / rounding, solve_limit};
}

}  // namespace

template <Scalar T>
Gate judge_solution(Mesh& mesh, const RunOptions& options, const ShardedMatrix<T>& a,
                    const RightHandSides<T>& x) {
  const std::int64_t n = a.layout().size();
  const std::int64_t last = x.columns() - 1;
  const std::set<std::int64_t> some = {0, last / 3, 2 * last / 3, last};
  const std::vector<std::int64_t> which(some.begin(), some.end());
  const Vector<T> solutions = columns_of(mesh, options, x, which);
  const Vector<T> products = multiply(mesh, options, a, solutions);
  const WideReal<T> norm = inf_norm<T>(products.data() + index(n) * which.size(), n);
  WideReal<T> worst = 0;
  for (std::size_t c = 0; c < which.size(); ++c) {
    Vector<T> b;
    Vector<T> residual;
    for (std::int64_t i = 0; i < n; ++i) {
      b.push_back(widen(matgen::rhs<T>(seed, GlobalIndex(i), which[c])));
      residual.push_back(b.back() - products[c * index(n) + index(i)]);
    }
    const WideReal<T> scale =
        norm * inf_norm<T>(solutions.data() + c * index(n), n) + inf_norm<T>(b.data(), n);
    worst = reference::larger(worst, inf_norm<T>(residual.data(), n) / scale);
  }
  return {"solve", in_roundoffs<T>(worst), solve_limit};
}

template <Scalar T>
std::vector<Gate> judge_factor(Mesh& mesh, const RunOptions& options, const ShardedMatrix<T>& a,
                               const ShardedMatrix<T>& l, double log_determinant) {
  const std::int64_t n = a.layout().size();
  const Vector<T> v = random_signs<T>(n);
  const Vector<T> by_a = multiply(mesh, options, a, v);
  const Vector<T> by_l = multiply_factor(mesh, options, l, v);
  Vector<T> residual;
  for (std::size_t i = 0; i < index(n); ++i) {
    residual.push_back(by_a[i] - by_l[i]);
  }
  const WideReal<T> norm = inf_norm<T>(by_a.data() + n, n);
  return {{"factor", in_roundoffs<T>(inf_norm<T>(residual.data(), n) / norm), factor_limit},
          sum_of_logs(n, log_determinant, 2 * std::real(by_l[index(n)]),
                      2 * std::real(by_l[index(n + 1)]))};
}

template <Scalar T>
std::vector<Gate> judge_lu(Mesh& mesh, const RunOptions& options, const ShardedMatrix<T>& a,
                           const LuFactor<T>& factor) {
  const std::int64_t n = a.layout().size();
  const Vector<T> v = random_signs<T>(n);
  const Vector<T> by_a = multiply(mesh, options, a, v);
  const Vector<T> by_u = multiply_upper(mesh, options, factor.slabs, v);
  const Vector<T> by_l = multiply_lower(mesh, options, factor.slabs, by_u);
  Vector<T> residual;
  for (std::size_t i = 0; i < index(n); ++i) {
    residual.push_back(by_a[index(factor.rows->at(i))] - by_u[i] - by_l[i]);
  }
  const WideReal<T> norm = inf_norm<T>(by_a.data() + n, n);
  const double limit = factor_limit * std::max(1.0, std::sqrt(static_cast<double>(n) / 4096.0));
  return {
      {"factor", in_roundoffs<T>(inf_norm<T>(residual.data(), n) / norm), limit},
      sum_of_logs(n, factor.log_modulus, std::real(by_u[index(n)]), std::real(by_u[index(n + 1)]))};
}

template <Scalar T>
Gate judge_inverse(Mesh& mesh, const RunOptions& options, const ShardedMatrix<T>& a,
                   const ShardedMatrix<T>& x) {
  const std::int64_t n = a.layout().size();
  const Vector<T> v = random_signs<T>(n);
  Vector<T> by_a = multiply(mesh, options, a, v);
  const WideReal<T> norm_a = inf_norm<T>(by_a.data() + n, n);
  by_a.resize(index(n));
  const Vector<T> by_x = multiply(mesh, options, x, by_a);
  const WideReal<T> norm_x = inf_norm<T>(by_x.data() + n, n);
  Vector<T> residual;
  for (std::size_t i = 0; i < index(n); ++i) {
    residual.push_back(v[i] - by_x[i]);
  }
  return {"inverse", in_roundoffs<T>(inf_norm<T>(residual.data(), n) / (norm_a * norm_x)),
          inverse_limit};
}

template <Scalar T>
std::vector<Gate> judge_eigenpairs(Mesh& mesh, const RunOptions& options, const ShardedMatrix<T>& a,
                                   const ShardedMatrix<T>& z,
                                   const std::vector<RealOf<T>>& values) {
  const std::int64_t n = a.layout().size();
  const std::int64_t count = std::ssize(values);
  const Vector<T> v = random_signs<T>(count);
  // Z v, Z diag(w) v
  Vector<T> by_z = sum_over_columns<T>(
      mesh, options, z, 2 * n, [=](std::int64_t j, const T* column, Vector<T>& sums) {
        if (j < count) {
          const Wide<T> weighted = v[index(j)] * WideReal<T>{values[index(j)]};
          for (std::int64_t i = 0; i < n; ++i) {
            sums[index(i)] += product(widen(column[i]), v[index(j)]);
            sums[index(n + i)] += product(widen(column[i]), weighted);
          }
        }
      });
  const Vector<T> by_values(by_z.begin() + n, by_z.end());
  by_z.resize(index(n));
  // Z^H Z v
  const Vector<T> back = sum_over_columns<T>(
      mesh, options, z, count, [=](std::int64_t j, const T* column, Vector<T>& sums) {
        for (std::int64_t i = 0; j < count && i < n; ++i) {
          sums[index(j)] += product(conjugate(widen(column[i])), by_z[index(i)]);
        }
      });
  const Vector<T> by_a = multiply(mesh, options, a, by_z);
  Vector<T> residual;
  for (std::size_t i = 0; i < index(n); ++i) {
    residual.push_back(by_a[i] - by_values[i]);
  }
  Vector<T> overlap;
  for (std::size_t j = 0; j < index(count); ++j) {
    overlap.push_back(back[j] - v[j]);
  }
  const WideReal<T> norm = inf_norm<T>(by_a.data() + n, n);
  return {{"residual", in_roundoffs<T>(inf_norm<T>(residual.data(), n) / norm), eigenpair_limit},
          {"orthogonality", in_roundoffs<T>(inf_norm<T>(overlap.data(), count)),
           eigenpair_limit * std::max(1.0, std::sqrt(static_cast<double>(n)))}};
}

template <Scalar T>
Gate judge_eigenvalues(Mesh& mesh, const RunOptions& options, const ShardedMatrix<T>& a,
                       const std::vector<RealOf<T>>& values, const std::vector<RealOf<T>>& others) {
  const std::int64_t n = a.layout().size();
  const Vector<T> by_a = multiply(mesh, options, a, random_signs<T>(n));
  WideReal<T> most = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    most = reference::larger(most, std::abs(WideReal<T>{values[i]} - WideReal<T>{others.at(i)}));
  }
  return {"eigenvalues", in_roundoffs<T>(most / inf_norm<T>(by_a.data() + n, n)), eigenvalue_limit};
}

#define SHARDSOLVE_INSTANTIATE(T)                                                                \
  template Gate judge_solution(Mesh&, const RunOptions&, const ShardedMatrix<T>&,                \
                               const RightHandSides<T>&);                                        \
  template std::vector<Gate> judge_factor(Mesh&, const RunOptions&, const ShardedMatrix<T>&,     \
                                          const ShardedMatrix<T>&, double);                      \
  template std::vector<Gate> judge_lu(Mesh&, const RunOptions&, const ShardedMatrix<T>&,         \
                                      const LuFactor<T>&);                                       \
  template Gate judge_inverse(Mesh&, const RunOptions&, const ShardedMatrix<T>&,                 \
                              const ShardedMatrix<T>&);                                          \
  template std::vector<Gate> judge_eigenpairs(Mesh&, const RunOptions&, const ShardedMatrix<T>&, \
                                              const ShardedMatrix<T>&,                           \
                                              const std::vector<RealOf<T>>&);                    \
  template Gate judge_eigenvalues(Mesh&, const RunOptions&, const ShardedMatrix<T>&,             \
                                  const std::vector<RealOf<T>>&, const std::vector<RealOf<T>>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::cli::bench
