// Operators and preconditioners that need nothing but vectors.

#include "krylov/operators.hpp"

#include "core/each_dtype.hpp"
#include "krylov/linear_operator.hpp"
#include "krylov/whole_vector.hpp"
#include "runtime/host/host_queue.hpp"
#include "runtime/krylov_kernels.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/krylov.hpp>

#include <fmt/format.h>

#include <utility>

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
        {.name = "callable"}, [rows = rows_, segment = segment_, all, y, skip] {
          if (*skip == 0) {
            rows(all, segment, y);
          }
        });
  }

 private:
  RowsOfProduct<T> rows_;
  GlobalRange segment_;
  WholeVector<T> whole_;
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
Operator<T> Operator<T>::callable(RowsOfProduct<T> rows) {
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

#define SHARDSOLVE_INSTANTIATE(T)                                               \
  template std::unique_ptr<LinearOperator<T>> make_identity(std::int64_t rows); \
  template Operator<T> Operator<T>::callable(RowsOfProduct<T>);                 \
  template Operator<T> Operator<T>::jacobi(const RightHandSides<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
