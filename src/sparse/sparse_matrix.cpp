// Sparse matrices on a mesh, and their public product: sparse.hpp.

#include "core/each_dtype.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/require_ranks.hpp"
#include "programs/apart.hpp"
#include "programs/require_reachable.hpp"
#include "sparse/device_part.hpp"
#include "sparse/make_part.hpp"
#include "sparse/operator.hpp"
#include "sparse/transpose.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/sparse.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <utility>

namespace shardsolve {
namespace sparse {
namespace {

template <Scalar T>
using MakePart = std::function<Totals(mesh::Rank&, Part<T>&)>;

/// Runs `make_part` on all ranks. If that throws, a rank that never came back may still be writing:
/// to what it shares.
template <Scalar T>
std::shared_ptr<const Parts<T>> make_parts(Mesh& mesh, const SlabLayout& rows,
                                           const SlabLayout& columns, const RunOptions& options,
                                           MakePart<T> make_part) {
  mesh::require_ranks(mesh, rows);
  mesh::require_ranks(mesh, columns);
  const auto parts = std::make_shared<Parts<T>>(Parts<T>{rows, columns});
  parts->of_ranks.resize(static_cast<std::size_t>(mesh.ranks()));
  mesh.state().run(
      options, [parts, make_part = std::move(make_part), state = &mesh.state()](mesh::Rank& rank) {
        static_cast<void>(rank.kernels<runtime::SparseKernels<T>>());
        Part<T>& part = parts->of_ranks[static_cast<std::size_t>(rank.index())];
        const Totals totals = make_part(rank, part);
        if (state->backend().memory() == Memory::device) {
          copy_to_gpu(rank, state->device(rank.index()), part);
        }
        if (rank.leads()) {
          parts->entries = totals.entries;
          parts->lanes = runtime::row_lanes(parts->rows.size(), totals.entries);
          parts->exchanges = std::any_of(totals.halos.begin(), totals.halos.end(),
                                         [](std::int64_t halo) { return halo > 0; });
          parts->halos = totals.halos;
        }
      });
  return parts;
}

template <Scalar T>
void require_shape(const CsrMatrix<T>& matrix, std::int64_t rows, std::int64_t columns) {
  const auto& pointers = matrix.row_pointers;
  if (matrix.rows != rows || matrix.columns != columns) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("rows of a sparse matrix of {} x {} were given; the layouts are for "
                            "{} x {}",
                            matrix.rows, matrix.columns, rows, columns));
  }
  if (static_cast<std::int64_t>(pointers.size()) != rows + 1 || pointers.front() != 0 ||
      pointers.back() != matrix.entries() || matrix.column_indices.size() != matrix.values.size() ||
      !std::is_sorted(pointers.begin(), pointers.end())) {
    throw Error(
        ErrorKind::invalid_argument,
        fmt::format("{} row pointers, {} column indices and {} values were given for {} "
                    "rows of a sparse matrix: one row pointer more than rows is needed, "
                    "from 0 to the number of entries and never falling, and as many "
                    "column indices as values",
                    pointers.size(), matrix.column_indices.size(), matrix.values.size(), rows));
  }
}

template <Scalar T>
std::shared_ptr<const Parts<T>> parts_of_whole(Mesh& mesh, const CsrMatrix<T>& whole,
                                               const SlabLayout& rows, const SlabLayout& columns,
                                               const RunOptions& options) {
  return make_parts<T>(mesh, rows, columns, options, [&](mesh::Rank& rank, Part<T>& part) {
    require_shape(whole, rows.size(), columns.size());
    const GlobalRange mine = rows.segment(rank.index());
    return make_part(rank, rows, columns, {whole, mine.begin.value(), mine.size()}, part);
  });
}

template <Scalar T>
std::shared_ptr<const Parts<T>> parts_of_slabs(Mesh& mesh, const std::vector<CsrMatrix<T>>& slabs,
                                               const SlabLayout& rows, const SlabLayout& columns,
                                               const RunOptions& options) {
  return make_parts<T>(mesh, rows, columns, options, [&](mesh::Rank& rank, Part<T>& part) {
    const auto index = static_cast<std::size_t>(rank.index());
    if (index >= slabs.size()) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("{} slabs of a sparse matrix were given for {} ranks", slabs.size(),
                              rank.count()));
    }
    require_shape(slabs[index], rows.width(rank.index()), columns.size());
    return make_part(rank, rows, columns, {slabs[index], 0, slabs[index].rows}, part);
  });
}

}  // namespace
}  // namespace sparse

SlabLayout row_slabs(std::int64_t rows, std::int64_t ranks) {
  return SlabLayout::even(rows, ranks, SlabLayout::largest_size);
}

SlabLayout row_slabs(std::vector<std::int64_t> boundaries) {
  return {std::move(boundaries), SlabLayout::largest_size};
}

template <Scalar T>
SparseMatrix<T>::SparseMatrix(std::shared_ptr<const sparse::Parts<T>> parts)
    : parts_(std::move(parts)) {}

template <Scalar T>
SparseMatrix<T>::SparseMatrix(Mesh& mesh, const CsrMatrix<T>& whole, const SlabLayout& rows,
                              const SlabLayout& columns, const RunOptions& options)
    : parts_(sparse::parts_of_whole(mesh, whole, rows, columns, options)) {}

template <Scalar T>
SparseMatrix<T>::SparseMatrix(Mesh& mesh, const std::vector<CsrMatrix<T>>& slabs,
                              const SlabLayout& rows, const SlabLayout& columns,
                              const RunOptions& options)
    : parts_(sparse::parts_of_slabs(mesh, slabs, rows, columns, options)) {}

template <Scalar T>
const SlabLayout& SparseMatrix<T>::rows() const {
  return parts_->rows;
}
template <Scalar T>
const SlabLayout& SparseMatrix<T>::columns() const {
  return parts_->columns;
}
template <Scalar T>
std::int64_t SparseMatrix<T>::entries() const {
  return parts_->entries;
}
template <Scalar T>
std::int64_t SparseMatrix<T>::lanes() const {
  return parts_->lanes;
}
template <Scalar T>
std::int64_t SparseMatrix<T>::halo(std::int64_t rank) const {
  const auto ranks = std::ssize(parts_->halos);
  if (rank < 0 || rank >= ranks) {
    throw Error(
        ErrorKind::invalid_argument,
        fmt::format("there is no rank {}: the matrix lies on {} ranks, from 0 on", rank, ranks));
  }
  return parts_->halos[static_cast<std::size_t>(rank)];
}

template <Scalar T>
SparseMatrix<T> SparseMatrix<T>::transposed(Mesh& mesh, bool conjugated,
                                            const RunOptions& options) const {
  return SparseMatrix(sparse::make_parts<T>(
      mesh, columns(), rows(), options,
      [parts = parts_, conjugated](mesh::Rank& rank, sparse::Part<T>& part) {
        const CsrMatrix<T> mine = sparse::transposed_rows(rank, *parts, conjugated);
        return sparse::make_part(rank, parts->columns, parts->rows, {mine, 0, mine.rows}, part);
      }));
}

template <Scalar T>
Outcome multiply(Mesh& mesh, const SparseMatrix<T>& a, const RightHandSides<T>& x,
                 const RightHandSides<T>& y, const RunOptions& options) {
  mesh::require_ranks(mesh, a.rows());
  if (x.layout().boundaries() != a.columns().boundaries() ||
      y.layout().boundaries() != a.rows().boundaries() || x.columns() != y.columns()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("a sparse matrix of {} x {} was to be multiplied with x of {} x {}, y "
                            "being {} x {}: x is cut as the columns of the matrix are, y as its "
                            "rows, and both have as many columns",
                            a.rows().size(), a.columns().size(), x.layout().size(), x.columns(),
                            y.layout().size(), y.columns()));
  }
  const mesh::CallCost cost = mesh.state().run(options, [a, x, y](mesh::Rank& rank) {
    programs::require_reachable(rank, x);
    programs::require_reachable(rank, y);
    programs::Apart().reads("x", x).writes("y", y).require(rank);
    sparse::Operator<T> product(rank, a);
    for (std::int64_t j = 0; j < x.columns(); ++j) {
      product.apply(rank.update(), x.block(rank.index()).columns_from(j, 1).data(),
                    y.block(rank.index()).columns_from(j, 1).data());
    }
    rank.finish(rank.update());
  });
  Outcome outcome;
  outcome.seconds = cost.seconds;
  outcome.flops = std::accumulate(cost.flops.begin(), cost.flops.end(), 0.0);
  return outcome;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                    \
  template class SparseMatrix<T>;                                                    \
  template Outcome multiply(Mesh&, const SparseMatrix<T>&, const RightHandSides<T>&, \
                            const RightHandSides<T>&, const RunOptions&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve
