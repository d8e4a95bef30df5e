// Operators and preconditioners that need nothing but vectors.

#include "krylov/operators.hpp"

#include "core/each_dtype.hpp"
#include "krylov/callers_function.hpp"
#include "krylov/linear_operator.hpp"
#include "krylov/spelling.hpp"
#include "krylov/whole_vector.hpp"
#include "mesh/inside_call.hpp"
#include "runtime/host/host_queue.hpp"
#include "runtime/krylov_kernels.hpp"
#include "sparse/csr_checks.hpp"
#include "sparse/operator.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/krylov.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::krylov {
namespace {

/// The caller's function, with all of x on every rank.
template <Scalar T>
class CallableOperator final : public LinearOperator<T> {
 public:
  CallableOperator(mesh::Rank& rank, const SlabLayout& layout, RowsOfProduct<T> rows)
      : rows_(std::move(rows)), segment_(layout.segment(rank.index())), whole_(rank, layout) {}

  void apply(mesh::Rank& rank, runtime::Queue& queue, const T* x, T* y,
             const std::int32_t* skip) override {
    const T* const all = whole_.gather(rank, queue, x);
    static_cast<runtime::host::HostQueue&>(queue).launch(
        {.name = "callable"}, [&rank, rows = rows_, segment = segment_, all, y, skip] {
          if (*skip == 0) {
            const mesh::InsideCall inside(rank);
            rows(all, segment, y);
          }
        });
  }

 private:
  RowsOfProduct<T> rows_;
  GlobalRange segment_;
  WholeVector<T> whole_;
};

/// A sparse matrix, by the kernels that the mesh has.
template <Scalar T>
class SparseOperator final : public LinearOperator<T> {
 public:
  SparseOperator(mesh::Rank& rank, const SparseMatrix<T>& a) : a_(a), product_(rank, a_) {}

  void apply(mesh::Rank& /*rank*/, runtime::Queue& queue, const T* x, T* y,
             const std::int32_t* skip) override {
    product_.apply(queue, x, y, skip);
  }
  bool is_twofold() const override { return true; }

 private:
  SparseMatrix<T> a_;
  sparse::Operator<T> product_;
};

/// y = D^-1 x, or y = x if there is no D.
template <Scalar T>
class DiagonalOperator final : public LinearOperator<T> {
 public:
  DiagonalOperator(std::int64_t rows, MatrixView<const T> diagonal)
      : rows_(rows), diagonal_(diagonal) {}

  void apply(mesh::Rank& rank, runtime::Queue& queue, const T* x, T* y,
             const std::int32_t* skip) override {
    rank.kernels<runtime::KrylovKernels<T>>().divide_rows(
        queue, diagonal_, MatrixView<const T>(x, rows_, 1), MatrixView<T>(y, rows_, 1), skip);
  }
  std::optional<MatrixView<const T>> as_diagonal() const override { return diagonal_; }

 private:
  std::int64_t rows_;
  MatrixView<const T> diagonal_;
};

}  // namespace

void require_host(mesh::Rank& rank, const char* what) {
  if (dynamic_cast<runtime::host::HostQueue*>(&rank.update()) == nullptr) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("{} was given to a mesh of GPUs: use a mesh of CPU ranks, or an operator "
                    "that has kernels for GPUs",
                    what));
  }
}

template <Scalar T>
std::unique_ptr<LinearOperator<T>> make_identity(std::int64_t rows) {
  return std::make_unique<DiagonalOperator<T>>(rows, MatrixView<const T>());
}

template <Scalar T>
std::unique_ptr<LinearOperator<T>> make_jacobi(MatrixView<const T> diagonal) {
  return std::make_unique<DiagonalOperator<T>>(diagonal.rows(), diagonal);
}

template <Scalar T>
std::vector<T> diagonal_to_divide_by(const CsrMatrix<T>& a, const char* use) {
  std::vector<T> diagonal(static_cast<std::size_t>(a.rows), T{0});
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const auto begin = a.column_indices.begin() + a.row_pointers[static_cast<std::size_t>(row)];
    const auto end = a.column_indices.begin() + a.row_pointers[static_cast<std::size_t>(row) + 1];
    const auto found = std::lower_bound(begin, end, row);
    const bool is_there = found != end && *found == row;
    if (is_there) {
      diagonal[static_cast<std::size_t>(row)] =
          a.values[static_cast<std::size_t>(found - a.column_indices.begin())];
    }
    if (diagonal[static_cast<std::size_t>(row)] == T{0}) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("{} divides by the diagonal of A, and in row {} (0-based) it {}; use "
                              "{}, or no preconditioner",
                              use, row, is_there ? "is 0" : "has no entry",
                              preconditioner_name("block_jacobi")));
    }
  }
  return diagonal;
}

template <Scalar T>
Operator<T>::Operator(Make make) : make_(std::move(make)) {
  if (!make_) {
    throw Error(ErrorKind::invalid_argument,
                "an operator was given an empty function; take Operator::callable or another of "
                "its makers");
  }
}

template <Scalar T>
Operator<T> Operator<T>::callable(RowsOfProduct<T> rows) {
  rows = callers_function(std::move(rows), "Operator::callable", "writes rows of A x");
  return Operator(
      [rows = std::move(rows)](mesh::Rank& rank,
                               const SlabLayout& layout) -> std::unique_ptr<LinearOperator<T>> {
        require_host(rank, "an operator that is a function of C++");
        return std::make_unique<CallableOperator<T>>(rank, layout, rows);
      });
}

template <Scalar T>
Operator<T> Operator<T>::jacobi(const RightHandSides<T>& diagonal) {
  if (diagonal.columns() != 1) {
    throw Error(
        ErrorKind::invalid_argument,
        fmt::format("the diagonal for jacobi has {} columns; it must have 1", diagonal.columns()));
  }
  return Operator(
      [diagonal](mesh::Rank& rank, const SlabLayout& layout) -> std::unique_ptr<LinearOperator<T>> {
        if (diagonal.layout().boundaries() != layout.boundaries()) {
          throw Error(ErrorKind::invalid_argument,
                      "the diagonal for jacobi is cut at other rows than b; cut both alike");
        }
        const MatrixView<T> block = diagonal.block(rank.index());
        rank.require_device_memory(block.data(), diagonal.memory(), "the diagonal for jacobi");
        return std::make_unique<DiagonalOperator<T>>(block.rows(), block);
      });
}

template <Scalar T>
Operator<T> Operator<T>::sparse(const SparseMatrix<T>& a) {
  return Operator(
      [a](mesh::Rank& rank, const SlabLayout& layout) -> std::unique_ptr<LinearOperator<T>> {
        if (a.rows().boundaries() != layout.boundaries() ||
            a.columns().boundaries() != layout.boundaries()) {
          throw Error(ErrorKind::invalid_argument,
                      fmt::format("a sparse matrix of {} x {} whose rows or columns are cut at "
                                  "other places than b, which has {} rows; cut all alike",
                                  a.rows().size(), a.columns().size(), layout.size()));
        }
        return std::make_unique<SparseOperator<T>>(rank, a);
      });
}

template <Scalar T>
Operator<T> Operator<T>::jacobi(const CsrMatrix<T>& a) {
  sparse::require_square_in_order(a, "jacobi");
  const auto diagonal = std::make_shared<const std::vector<T>>(diagonal_to_divide_by(a, "jacobi"));
  return Operator(
      [diagonal](mesh::Rank& rank, const SlabLayout& layout) -> std::unique_ptr<LinearOperator<T>> {
        const auto rows = static_cast<std::int64_t>(diagonal->size());
        if (rows != layout.size()) {
          throw Error(
              ErrorKind::invalid_argument,
              fmt::format("the matrix for jacobi has {} rows and b has {}", rows, layout.size()));
        }
        const GlobalRange mine = layout.segment(rank.index());
        const T* const own =
            rank.upload(rank.update(), diagonal->data() + mine.begin.value(), mine.size());
        return std::make_unique<DiagonalOperator<T>>(mine.size(),
                                                     MatrixView<const T>(own, mine.size(), 1));
      });
}

#define SHARDSOLVE_INSTANTIATE(T)                                                  \
  template std::unique_ptr<LinearOperator<T>> make_identity(std::int64_t rows);    \
  template std::unique_ptr<LinearOperator<T>> make_jacobi(MatrixView<const T>);    \
  template std::vector<T> diagonal_to_divide_by(const CsrMatrix<T>&, const char*); \
  template Operator<T>::Operator(Make);                                            \
  template Operator<T> Operator<T>::callable(RowsOfProduct<T>);                    \
  template Operator<T> Operator<T>::sparse(const SparseMatrix<T>&);                \
  template Operator<T> Operator<T>::jacobi(const RightHandSides<T>&);              \
  template Operator<T> Operator<T>::jacobi(const CsrMatrix<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
