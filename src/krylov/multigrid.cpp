// A V-cycle over a hierarchy that is given: products with sparse matrices, smoothed by Chebyshev's
// iteration, the coarsest level by its inverse.

#include "krylov/multigrid.hpp"

#include "core/each_dtype.hpp"
#include "krylov/band_arithmetic.hpp"
#include "krylov/band_factor.hpp"
#include "krylov/chebyshev.hpp"
#include "krylov/lanczos.hpp"
#include "krylov/linear_operator.hpp"
#include "krylov/operators.hpp"
#include "runtime/host/block_sweeps.hpp"
#include "runtime/krylov_kernels.hpp"
#include "sparse/csr_checks.hpp"
#include "sparse/operator.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/krylov.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::krylov {
namespace multigrid {
namespace {

/// Of the coarsest level, which is solved by its inverse as a matrix.
constexpr std::int64_t max_coarsest_rows = 2048;

template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Error(ErrorKind::invalid_argument,
              fmt::format(text, std::forward<Arguments>(arguments)...));
}

template <Scalar T>
void require_hierarchy(const std::vector<MultigridLevel<T>>& levels,
                       const MultigridOptions& options) {
  if (levels.empty()) {
    refuse("multigrid was given no level; it needs at least that of A");
  }
  if (options.degree < 1 || !(options.smoothed > 0.0) || !(options.smoothed < 1.0)) {
    refuse(
        "multigrid with degree = {} and smoothed = {} given; a degree of at least 1 and a share "
        "above 0 and below 1 are accepted",
        options.degree, options.smoothed);
  }
  for (std::size_t level = 0; level < levels.size(); ++level) {
    sparse::require_square_in_order(levels[level].a, "multigrid");
    const auto& p = levels[level].prolongation;
    const std::int64_t rows = levels[level].a.rows;
    if (level + 1 == levels.size()) {
      if (p.rows != 0 || p.columns != 0) {
        refuse(
            "the last of {} levels of multigrid has a prolongation of {} x {}; it has none, as "
            "there is no coarser level",
            levels.size(), p.rows, p.columns);
      }
    } else if (p.rows != rows || p.columns != levels[level + 1].a.rows) {
      refuse(
          "the prolongation of level {} of multigrid is {} x {}; from level {} of {} rows to level "
          "{} of {} it is {} x {}",
          level, p.rows, p.columns, level + 1, levels[level + 1].a.rows, level, rows, rows,
          levels[level + 1].a.rows);
    }
  }
  if (levels.back().a.rows > max_coarsest_rows) {
    refuse(
        "the coarsest level of multigrid has {} rows and is solved by its inverse, of at most {}; "
        "coarsen once more",
        levels.back().a.rows, max_coarsest_rows);
  }
}

/// Up to rounding, beside the diagonal: entries that nearly cancel have no digits in common.
template <Scalar T>
bool is_hermitian(const CsrMatrix<T>& a, const std::vector<double>& diagonal) {
  const CsrMatrix<T> turned = transposed(a);
  if (a.row_pointers != turned.row_pointers || a.column_indices != turned.column_indices) {
    return false;
  }
  for (std::size_t row = 0; row < diagonal.size(); ++row) {
    for (auto k = static_cast<std::size_t>(a.row_pointers[row]);
         k < static_cast<std::size_t>(a.row_pointers[row + 1]); ++k) {
      const double other = diagonal[static_cast<std::size_t>(a.column_indices[k])];
      const double size = std::sqrt(diagonal[row]) * std::sqrt(other);
      const double change = std::abs(a.values[k] - band::conjugate(turned.values[k]));
      if (!(change <= 1e4 * unit_roundoff<T> * size)) {
        return false;
      }
    }
  }
  return true;
}

/// A level on the mesh; what it lacks if it is the last one.
template <Scalar T>
struct Level {
  std::optional<SparseMatrix<T>> a;
  std::optional<SparseMatrix<T>> down;  ///< P^H
  std::optional<SparseMatrix<T>> up;    ///< P
  std::vector<T> diagonal;              ///< of all rows
  double largest = 0.0;                 ///< eigenvalue of D^-1 A
  std::optional<SparseMatrix<T>> inverse;
};

template <Scalar T>
struct Hierarchy {
  SlabLayout layout;  ///< of the first level
  MultigridOptions options;
  std::vector<Level<T>> levels;
};

template <Scalar T>
CsrMatrix<T> conjugate_transposed(const CsrMatrix<T>& a) {
  CsrMatrix<T> result = transposed(a);
  for (T& value : result.values) {
    value = band::conjugate(value);
  }
  return result;
}

template <Scalar T>
std::shared_ptr<const Hierarchy<T>> make_hierarchy(Mesh& mesh,
                                                   const std::vector<MultigridLevel<T>>& given,
                                                   const SlabLayout& layout,
                                                   const MultigridOptions& options,
                                                   const RunOptions& run) {
  auto made = std::make_shared<Hierarchy<T>>(Hierarchy<T>{layout, options, {}});
  SlabLayout fine = layout;
  for (std::size_t level = 0; level < given.size(); ++level) {
    const MultigridLevel<T>& from = given[level];
    Level<T> to;
    if (level + 1 == given.size()) {
      to.inverse.emplace(mesh, krylov::inverse_of(from.a), fine, run);
    } else {
      const SlabLayout coarse = row_slabs(given[level + 1].a.rows, layout.ranks());
      to.a.emplace(mesh, from.a, fine, run);
      to.up.emplace(mesh, from.prolongation, fine, coarse, run);
      to.down.emplace(mesh, conjugate_transposed(from.prolongation), coarse, fine, run);
      to.diagonal = diagonal_to_divide_by(from.a, "multigrid");
      to.largest = krylov::largest_eigenvalue(from.a, to.diagonal);
      fine = coarse;
    }
    made->levels.push_back(std::move(to));
  }
  return made;
}

/// A product as a LinearOperator.
template <Scalar T>
class Product final : public LinearOperator<T> {
 public:
  Product(mesh::Rank& rank, const SparseMatrix<T>& a) : product_(rank, a) {}
  void apply(mesh::Rank& /*rank*/, runtime::Queue& queue, const T* x, T* y,
             const std::int32_t* skip) override {
    product_.apply(queue, x, y, skip);
  }

 private:
  sparse::Operator<T> product_;
};

/// One level on one rank: z = (cycle from here on) r.
template <Scalar T>
class Cycle final : public LinearOperator<T> {
 public:
  Cycle(mesh::Rank& rank, std::shared_ptr<const Hierarchy<T>> hierarchy, std::size_t number)
      : hierarchy_(std::move(hierarchy)) {
    const Level<T>& level = hierarchy_->levels[number];
    if (level.inverse) {
      inverse_.emplace(rank, *level.inverse);
      return;
    }
    const SlabLayout& layout = level.a->rows();
    const GlobalRange mine = layout.segment(rank.index());
    const T* const diagonal =
        rank.upload(rank.update(), level.diagonal.data() + mine.begin.value(), mine.size());
    a_ = std::make_shared<Product<T>>(rank, *level.a);
    smoother_.emplace(
        rank, layout, a_, make_jacobi<T>(MatrixView<const T>(diagonal, mine.size(), 1)),
        hierarchy_->options.smoothed * level.largest, level.largest, hierarchy_->options.degree);
    down_.emplace(rank, *level.down);
    up_.emplace(rank, *level.up);
    const std::int64_t coarse = level.down->rows().width(rank.index());
    for (MatrixView<T>* const vector : {&residual_, &correction_, &sum_}) {
      *vector = cleared(rank, mine.size());
    }
    coarse_residual_ = cleared(rank, coarse);
    coarse_sum_ = cleared(rank, coarse);
    identity_ = make_identity<T>(mine.size());
    next_ = std::make_unique<Cycle>(rank, hierarchy_, number + 1);
  }

  void apply(mesh::Rank& rank, runtime::Queue& queue, const T* r, T* z,
             const std::int32_t* skip) override {
    if (inverse_) {
      inverse_->apply(queue, r, z, skip);
      return;
    }
    const auto& kernels = rank.kernels<runtime::KrylovKernels<T>>();
    constexpr RealOf<T> one{1};
    // z = S r
    smoother_->apply(rank, queue, r, sum_.data(), skip);
    // z += P (cycle) P^H (r - A z)
    take_residual(rank, queue, r, skip);
    down_->apply(queue, residual_.data(), coarse_residual_.data(), skip);
    next_->apply(rank, queue, coarse_residual_.data(), coarse_sum_.data(), skip);
    up_->apply(queue, coarse_sum_.data(), correction_.data(), skip);
    kernels.combine(queue, one, correction_, one, sum_, skip);
    // z += S (r - A z)
    take_residual(rank, queue, r, skip);
    smoother_->apply(rank, queue, residual_.data(), correction_.data(), skip);
    kernels.combine(queue, one, correction_, one, sum_, skip);
    identity_->apply(rank, queue, sum_.data(), z, skip);
  }

 private:
  static MatrixView<T> cleared(mesh::Rank& rank, std::int64_t rows) {
    const MatrixView<T> memory = rank.workspace<T>(rows, 1);
    rank.kernels<T>().fill(rank.update(), T{0}, memory);
    return memory;
  }

  /// residual = r - A sum.
  void take_residual(mesh::Rank& rank, runtime::Queue& queue, const T* r,
                     const std::int32_t* skip) {
    const auto& kernels = rank.kernels<runtime::KrylovKernels<T>>();
    constexpr RealOf<T> one{1};
    a_->apply(rank, queue, sum_.data(), correction_.data(), skip);
    kernels.combine(queue, one, {r, residual_.rows(), 1}, RealOf<T>{0}, residual_, skip);
    kernels.combine(queue, -one, correction_, one, residual_, skip);
  }

  std::shared_ptr<const Hierarchy<T>> hierarchy_;
  std::optional<sparse::Operator<T>> inverse_;
  std::shared_ptr<LinearOperator<T>> a_;
  std::optional<Chebyshev<T>> smoother_;
  std::optional<sparse::Operator<T>> down_;
  std::optional<sparse::Operator<T>> up_;
  std::unique_ptr<LinearOperator<T>> identity_;
  std::unique_ptr<Cycle> next_;
  MatrixView<T> residual_;
  MatrixView<T> correction_;
  MatrixView<T> sum_;
  MatrixView<T> coarse_residual_;
  MatrixView<T> coarse_sum_;
};

}  // namespace
}  // namespace multigrid

template <Scalar T>
double largest_eigenvalue(const CsrMatrix<T>& a, const std::vector<T>& diagonal) {
  double bound = 0.0;
  std::vector<double> d;
  bool is_positive = true;
  for (std::size_t row = 0; row < diagonal.size(); ++row) {
    double sum = 0.0;
    for (auto k = static_cast<std::size_t>(a.row_pointers[row]);
         k < static_cast<std::size_t>(a.row_pointers[row + 1]); ++k) {
      sum += static_cast<double>(std::abs(a.values[k]));
    }
    bound = std::max(bound, sum / static_cast<double>(std::abs(diagonal[row])));
    d.push_back(static_cast<double>(std::real(diagonal[row])));
    is_positive = is_positive && d.back() > 0.0;
  }
  constexpr std::int64_t steps = 20;
  if (is_positive && multigrid::is_hermitian(a, d)) {
    const Tridiagonal ritz = lanczos(a, d, steps);
    if (ritz.size() > 0) {
      bound = std::min(bound, 1.1 * eigenvalue(ritz, ritz.size() - 1));
    }
  }
  return bound;
}

template <Scalar T>
CsrMatrix<T> inverse_of(const CsrMatrix<T>& a) {
  const std::int64_t n = a.rows;
  const auto size = static_cast<std::size_t>(n);
  const BandFactor<T> factor(a, {GlobalIndex(0), GlobalIndex(n)});
  BlockTables<T> tables(true);
  factor.add_to(tables);
  const BlockFactors<T> factors = tables.factors();
  std::vector<T> columns(size * size, T{0});
  for (std::size_t j = 0; j < size; ++j) {
    columns[j * size + j] = T{1};
    runtime::host::solve_block(factors, *factors.blocks, columns.data() + j * size);
  }
  CsrMatrix<T> result{n, n, {0}, {}, {}};
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j) {
      const T entry = columns[j * size + i];
      const T mirrored = band::conjugate(columns[i * size + j]);
      result.column_indices.push_back(static_cast<std::int64_t>(j));
      // Hermitian to the bit if A is.
      result.values.push_back(factor.is_cholesky() ? RealOf<T>{0.5} * (entry + mirrored) : entry);
    }
    result.row_pointers.push_back(result.entries());
  }
  return result;
}

template <Scalar T>
Operator<T> Operator<T>::multigrid(Mesh& mesh, const std::vector<MultigridLevel<T>>& levels,
                                   const SlabLayout& layout, const MultigridOptions& options,
                                   const RunOptions& run) {
  multigrid::require_hierarchy(levels, options);
  if (levels.front().a.rows != layout.size()) {
    multigrid::refuse("the first level of multigrid has {} rows; the layout is for {}",
                      levels.front().a.rows, layout.size());
  }
  const auto hierarchy = multigrid::make_hierarchy(mesh, levels, layout, options, run);
  return Operator(
      [hierarchy](mesh::Rank& rank, const SlabLayout& of_b) -> std::unique_ptr<LinearOperator<T>> {
        if (hierarchy->layout.boundaries() != of_b.boundaries()) {
          throw Error(
              ErrorKind::invalid_argument,
              "multigrid was made for rows that are cut at other places than b; cut both alike");
        }
        return std::make_unique<multigrid::Cycle<T>>(rank, hierarchy, 0);
      });
}

#define SHARDSOLVE_INSTANTIATE(T)                                                           \
  template double largest_eigenvalue(const CsrMatrix<T>&, const std::vector<T>&);           \
  template CsrMatrix<T> inverse_of(const CsrMatrix<T>&);                                    \
  template Operator<T> Operator<T>::multigrid(Mesh&, const std::vector<MultigridLevel<T>>&, \
                                              const SlabLayout&, const MultigridOptions&,   \
                                              const RunOptions&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
