// Preconditioners that are more than a diagonal: blocks that the problem has, and polynomials in A.

#include "core/each_dtype.hpp"
#include "krylov/band_factor.hpp"
#include "krylov/block_tables.hpp"
#include "krylov/callers_function.hpp"
#include "krylov/chebyshev.hpp"
#include "krylov/incomplete_factor.hpp"
#include "krylov/linear_operator.hpp"
#include "krylov/operators.hpp"
#include "krylov/spelling.hpp"
#include "krylov/whole_vector.hpp"
#include "runtime/krylov_kernels.hpp"
#include "sparse/csr_checks.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/krylov.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardsolve::krylov {
namespace {

/// Adds the factored block with these rows.
template <Scalar T>
using FactorBlock = std::function<void(GlobalRange, BlockTables<T>&)>;

/// The blocks that have rows on this rank. One that is cut by a slab boundary is factored and
/// solved by each rank that has rows of it, to the same bits. Factored on the host, once a solve.
template <Scalar T>
class BlockSolves final : public LinearOperator<T> {
 public:
  BlockSolves(mesh::Rank& rank, const SlabLayout& layout, const char* name, bool is_band,
              const std::vector<std::int64_t>& blocks, const FactorBlock<T>& factor)
      : name_(name), segment_(layout.segment(rank.index())) {
    const auto ends_a_block = [&](std::int64_t row) {
      return std::binary_search(blocks.begin(), blocks.end(), row);
    };
    const auto& cut = layout.boundaries();
    if (!std::all_of(cut.begin(), cut.end(), ends_a_block)) {
      whole_.emplace(rank, layout);
    }
    BlockTables<T> tables(is_band);
    for (std::size_t b = 0; b + 1 < blocks.size(); ++b) {
      const GlobalRange rows{GlobalIndex(blocks[b]), GlobalIndex(blocks[b + 1])};
      if (rows.begin.value() >= segment_.end.value() ||
          rows.end.value() <= segment_.begin.value()) {
        continue;
      }
      rank.beat("factoring a block");
      first_row_ = tables.rows() == 0 ? rows.begin.value() : first_row_;
      factor(rows, tables);
    }
    const auto copied = [&](const auto& values) {
      return rank.upload(rank.update(), values.data(), static_cast<std::int64_t>(values.size()));
    };
    factors_ =
        tables.factors(copied(tables.blocks()), copied(tables.numbers()), copied(tables.lists()));
    work_ = rank.workspace<T>(tables.rows(), 1);
  }

  void apply(mesh::Rank& rank, runtime::Queue& queue, const T* x, T* y,
             const std::int32_t* skip) override {
    // From the whole vector, or from this rank's rows, which are then those of its blocks.
    const T* const from = whole_ ? whole_->gather(rank, queue, x) : x;
    const std::int64_t before = whole_ ? first_row_ : 0;
    rank.kernels<runtime::KrylovKernels<T>>().solve_blocks(
        queue, name_, factors_, MatrixView<const T>(from + before, work_.rows(), 1), work_,
        work_.empty() ? 0 : segment_.begin.value() - first_row_,
        MatrixView<T>(y, segment_.size(), 1), skip);
  }

 private:
  const char* name_;
  GlobalRange segment_;
  std::int64_t first_row_ = 0;  // of the first block
  std::optional<WholeVector<T>> whole_;
  BlockFactors<T> factors_;
  MatrixView<T> work_;
};

/// `rows` that the last block ends with, if they are known.
void require_blocks(const std::vector<std::int64_t>& blocks,
                    std::optional<std::int64_t> rows = std::nullopt) {
  const bool ascend =
      std::adjacent_find(blocks.begin(), blocks.end(), std::greater_equal<>{}) == blocks.end();
  if (blocks.size() < 2 || blocks.front() != 0 || !ascend) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("blocks given as {} boundaries; they must begin with 0, rise, and end "
                            "with n",
                            blocks.size()));
  }
  if (rows && blocks.back() != *rows) {
    throw Error(
        ErrorKind::invalid_argument,
        fmt::format("the blocks end at row {} and the matrix has {} rows", blocks.back(), *rows));
  }
}

/// The entries of A whose row and column lie in the same block.
template <Scalar T>
CsrMatrix<T> in_blocks(const CsrMatrix<T>& a, const std::vector<std::int64_t>& blocks) {
  CsrMatrix<T> inside{a.rows, a.columns, {0}, {}, {}};
  for (std::size_t b = 0; b + 1 < blocks.size(); ++b) {
    for (std::int64_t row = blocks[b]; row < blocks[b + 1]; ++row) {
      for (std::int64_t k = a.row_pointers[static_cast<std::size_t>(row)];
           k < a.row_pointers[static_cast<std::size_t>(row) + 1]; ++k) {
        const std::int64_t column = a.column_indices[static_cast<std::size_t>(k)];
        if (blocks[b] <= column && column < blocks[b + 1]) {
          inside.column_indices.push_back(column);
          inside.values.push_back(a.values[static_cast<std::size_t>(k)]);
        }
      }
      inside.row_pointers.push_back(inside.entries());
    }
  }
  return inside;
}

}  // namespace

namespace {

template <Scalar T>
typename Operator<T>::Make make_blocks(const char* name, bool is_band,
                                       std::vector<std::int64_t> blocks, FactorBlock<T> factor) {
  return [name, is_band, blocks = std::move(blocks), factor = std::move(factor)](
             mesh::Rank& rank, const SlabLayout& layout) -> std::unique_ptr<LinearOperator<T>> {
    if (blocks.back() != layout.size()) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("the blocks of {} end at row {} and b has {} rows", name,
                              blocks.back(), layout.size()));
    }
    return std::make_unique<BlockSolves<T>>(rank, layout, name, is_band, blocks, factor);
  };
}

/// Likewise, of the blocks of a sparse matrix.
template <Scalar T, class Factor>
typename Operator<T>::Make make_sparse_blocks(const char* name, std::vector<std::int64_t> blocks,
                                              const CsrMatrix<T>& a) {
  require_blocks(blocks, a.rows);
  // Only what lies in the blocks is kept.
  const auto inside = std::make_shared<const CsrMatrix<T>>(in_blocks(a, blocks));
  constexpr bool is_band = std::is_same_v<Factor, BandFactor<T>>;
  return make_blocks<T>(
      name, is_band, std::move(blocks),
      [inside](GlobalRange rows, BlockTables<T>& tables) { Factor(*inside, rows).add_to(tables); });
}

/// Throws Error(invalid_argument) unless all of the diagonal is in the pattern, and positive if it
/// has to be.
template <Scalar T>
void require_diagonal(const CsrMatrix<T>& a, const char* name, bool is_positive) {
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const auto begin = a.column_indices.begin() + a.row_pointers[static_cast<std::size_t>(row)];
    const auto end = a.column_indices.begin() + a.row_pointers[static_cast<std::size_t>(row) + 1];
    const auto found = std::lower_bound(begin, end, row);
    if (found == end || *found != row) {
      throw Error(
          ErrorKind::invalid_argument,
          fmt::format("{} needs all of the diagonal, and row {} (0-based) of the matrix has "
                      "no entry there; use {}",
                      preconditioner_name(name), row, preconditioner_name("block_jacobi")));
    }
    const T value = a.values[static_cast<std::size_t>(found - a.column_indices.begin())];
    if (is_positive && !(std::real(value) > 0)) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("{} is for matrices that are positive definite, and the diagonal of "
                              "this one is {} in row {} (0-based); use {}",
                              preconditioner_name(name), std::real(value), row,
                              preconditioner_name("incomplete_lu")));
    }
  }
}

}  // namespace

template <Scalar T>
Operator<T> Operator<T>::block_jacobi(std::vector<std::int64_t> blocks, FillBlock<T> fill) {
  require_blocks(blocks);
  fill = callers_function(std::move(fill), "Operator::block_jacobi", "writes a block");
  return Operator(
      make_blocks<T>("block_jacobi", true, std::move(blocks),
                     [fill = std::move(fill)](GlobalRange rows, BlockTables<T>& tables) {
                       std::vector<T> memory(static_cast<std::size_t>(rows.size() * rows.size()));
                       const MatrixView<T> block(memory.data(), rows.size(), rows.size());
                       fill(rows, block);
                       BandFactor<T>(block).add_to(tables);
                     }));
}

template <Scalar T>
Operator<T> Operator<T>::block_jacobi(std::vector<std::int64_t> blocks, const CsrMatrix<T>& a) {
  sparse::require_square_in_order(a, "block_jacobi");
  return Operator(make_sparse_blocks<T, BandFactor<T>>("block_jacobi", std::move(blocks), a));
}

template <Scalar T>
Operator<T> Operator<T>::incomplete_lu(std::vector<std::int64_t> blocks, const CsrMatrix<T>& a) {
  sparse::require_square_in_order(a, "incomplete_lu");
  require_diagonal(a, "incomplete_lu", false);
  return Operator(make_sparse_blocks<T, IncompleteLu<T>>("incomplete_lu", std::move(blocks), a));
}

template <Scalar T>
Operator<T> Operator<T>::incomplete_cholesky(std::vector<std::int64_t> blocks,
                                             const CsrMatrix<T>& a) {
  sparse::require_square_in_order(a, "incomplete_cholesky");
  require_diagonal(a, "incomplete_cholesky", true);
  return Operator(
      make_sparse_blocks<T, IncompleteCholesky<T>>("incomplete_cholesky", std::move(blocks), a));
}

template <Scalar T>
Operator<T> Operator<T>::chebyshev(const Operator& a, double low, double high,
                                   std::int64_t degree) {
  if (!(low > 0.0) || !(high > low) || !std::isfinite(high) || degree < 1) {
    throw Error(
        ErrorKind::invalid_argument,
        fmt::format("chebyshev from {} to {} of degree {} given; 0 < low < high and a degree "
                    "of at least 1 are accepted",
                    low, high, degree));
  }
  return Operator(
      [a, low, high, degree](mesh::Rank& rank,
                             const SlabLayout& layout) -> std::unique_ptr<LinearOperator<T>> {
        return std::make_unique<Chebyshev<T>>(rank, layout, a.make()(rank, layout), nullptr, low,
                                              high, degree);
      });
}

#define SHARDSOLVE_INSTANTIATE(T)                                                                  \
  template Operator<T> Operator<T>::block_jacobi(std::vector<std::int64_t>, FillBlock<T>);         \
  template Operator<T> Operator<T>::block_jacobi(std::vector<std::int64_t>, const CsrMatrix<T>&);  \
  template Operator<T> Operator<T>::incomplete_lu(std::vector<std::int64_t>, const CsrMatrix<T>&); \
  template Operator<T> Operator<T>::incomplete_cholesky(std::vector<std::int64_t>,                 \
                                                        const CsrMatrix<T>&);                      \
  template Operator<T> Operator<T>::chebyshev(const Operator&, double, double, std::int64_t);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
