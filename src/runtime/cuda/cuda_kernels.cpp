#include "runtime/cuda/cuda_kernels.hpp"

#include "runtime/cuda/cublas.hpp"
#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/device_kernels.hpp"
#include "runtime/operand_shapes.hpp"

#include <algorithm>
#include <complex>
#include <iterator>
#include <mutex>
#include <type_traits>

namespace shardsolve::runtime::cuda {
namespace {

/// The kernels of our own for T.
template <Scalar T>
using Own = DeviceKernels<Element<T>>;

/// Columns up to which herk_batch makes both triangles of a tile.
constexpr std::int64_t narrow_tile = 256;

/// Whether WideGemm has taken the product.
template <Scalar T>
bool by_wide_gemm(CudaQueue& queue, Op op_a, Op op_b, T alpha, MatrixView<const T> a,
                  MatrixView<const T> b, T beta, MatrixView<T> c, const BatchStrides& strides) {
  if constexpr (std::is_same_v<RealOf<T>, double>) {
    return op_a == Op::conjugate_transpose && op_b == Op::none &&
           queue.wide_gemm().enqueue(queue.stream(), alpha, a, b, beta, c, strides);
  }
  return false;
}

template <Scalar T>
PersistentSolveArguments<Element<T>> with_elements(const PersistentSolveArguments<T>& solve) {
  using E = Element<T>;
  PersistentSolveArguments<E> same;
  same.slab = elements(solve.slab);
  same.b = reinterpret_cast<E*>(solve.b);
  std::copy(std::begin(solve.sweeps), std::end(solve.sweeps), same.sweeps);
  same.count = solve.count;
  same.own_count = solve.own_count;
  same.rank = solve.rank;
  same.ranks = solve.ranks;
  same.width = solve.width;
  same.second = solve.second;
  std::transform(std::begin(solve.memory), std::end(solve.memory), same.memory,
                 [](T* memory) { return reinterpret_cast<E*>(memory); });
  return same;
}

}  // namespace

template <Scalar T>
void CudaKernels<T>::do_gemm(Queue& queue, const WorkInfo& info, Op op_a, Op op_b, T alpha, In a,
                             In b, T beta, Out c) const {
  const std::int64_t k = columns_of(op_a, a);
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    if (k == 0) {
      if (beta == T{0}) {
        Own<T>::fill(cuda.stream(), Element<T>{}, elements(c));
      }
      return;
    }
    const auto factor = cublas_scalar(alpha);
    const auto keep = cublas_scalar(beta);
    if (c.columns() == 1 && op_b == Op::none) {
      check(Cublas<T>::gemv(cuda.blas(), as_cublas(op_a), a.rows(), a.columns(), &factor,
                            as_cublas(a.data()), a.stride(), as_cublas(b.data()), 1, &keep,
                            as_cublas(c.data()), 1),
            "gemv");
      return;
    }
    if (by_wide_gemm<T>(cuda, op_a, op_b, alpha, a, b, beta, c, {})) {
      return;
    }
    check(Cublas<T>::gemm(cuda.blas(), as_cublas(op_a), as_cublas(op_b), c.rows(), c.columns(), k,
                          &factor, as_cublas(a.data()), a.stride(), as_cublas(b.data()), b.stride(),
                          &keep, as_cublas(c.data()), c.stride()),
          "gemm");
  });
}

template <Scalar T>
void CudaKernels<T>::do_herk(Queue& queue, const WorkInfo& info, Triangle triangle, Op op,
                             Real alpha, In a, Real beta, Out c) const {
  CudaQueue& cuda = as_cuda(queue);
  const std::int64_t k = columns_of(op, a);
  // syrk takes transposes only as such
  const cublasOperation_t operation = is_complex<T> || op == Op::none ? as_cublas(op) : CUBLAS_OP_T;
  cuda.launch(info, [&] {
    check(Cublas<T>::herk(cuda.blas(), as_cublas(triangle), operation, c.rows(), k, &alpha,
                          as_cublas(a.data()), a.stride(), &beta, as_cublas(c.data()), c.stride()),
          "herk");
  });
}

template <Scalar T>
void CudaKernels<T>::do_gemm_batch(Queue& queue, const WorkInfo& info, Op op_a, Op op_b, T alpha,
                                   In a, In b, T beta, Out c, const BatchStrides& strides) const {
  const std::int64_t k = columns_of(op_a, a);
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    if (by_wide_gemm<T>(cuda, op_a, op_b, alpha, a, b, beta, c, strides)) {
      return;
    }
    const auto factor = cublas_scalar(alpha);
    const auto keep = cublas_scalar(beta);
    check(Cublas<T>::gemm_batch(cuda.blas(), as_cublas(op_a), as_cublas(op_b), c.rows(),
                                c.columns(), k, &factor, as_cublas(a.data()), a.stride(), strides.a,
                                as_cublas(b.data()), b.stride(), strides.b, &keep,
                                as_cublas(c.data()), c.stride(), strides.c, strides.count),
          "gemm");
  });
}

// Tiles are too small to fill a GPU one by one, and cuBLAS has no batch of herk: what lies beside
// the diagonal by products, in halves down to narrow tiles; of these whole products into scratch
// memory, of which one triangle is added.
template <Scalar T>
void CudaKernels<T>::do_herk_batch(Queue& queue, const WorkInfo& /*info*/, Triangle triangle, Op op,
                                   Real alpha, In a, Out c, const BatchStrides& strides) const {
  const std::int64_t n = c.rows();
  const Op other = op == Op::none ? Op::conjugate_transpose : Op::none;
  if (n > narrow_tile) {
    const std::int64_t half = n / 2;
    const auto rows_of_a = [&](std::int64_t first, std::int64_t count) {
      return op == Op::none ? a.block(first, 0, count, a.columns()) : a.columns_from(first, count);
    };
    const In a1 = rows_of_a(0, half);
    const In a2 = rows_of_a(half, n - half);
    const bool lower = triangle == Triangle::lower;
    this->gemm_batch(queue, op, other, T{alpha}, lower ? a2 : a1, lower ? a1 : a2, T{1},
                     lower ? c.block(half, 0, n - half, half) : c.block(0, half, half, n - half),
                     {strides.count, strides.a, strides.a, strides.c});
    const std::int64_t row_of_a = op == Op::none ? 1 : a.stride();
    const bool in_line =
        strides.count == 1 || (strides.a == n * row_of_a && strides.c == n * (c.stride() + 1));
    if (in_line && n == 2 * half) {
      const std::int64_t step_of_a = half * row_of_a;
      this->herk_batch(queue, triangle, op, alpha, a1, c.block(0, 0, half, half),
                       {2 * strides.count, step_of_a, step_of_a, half * (c.stride() + 1)});
      return;
    }
    this->herk_batch(queue, triangle, op, alpha, a1, c.block(0, 0, half, half), strides);
    this->herk_batch(queue, triangle, op, alpha, a2, c.block(half, half, n - half, n - half),
                     strides);
    return;
  }
  CudaQueue& cuda = as_cuda(queue);
  const auto tile_bytes = static_cast<std::size_t>(n * n) * sizeof(T);
  const std::int64_t fit =
      std::max<std::int64_t>(static_cast<std::int64_t>(own_scratch / tile_bytes), 1);
  for (std::int64_t first = 0; first < strides.count; first += fit) {
    const std::int64_t count = std::min(fit, strides.count - first);
    const Out products(static_cast<T*>(cuda.scratch(std::max(own_scratch, tile_bytes))), n, n);
    const In some_a = moved(a, first * strides.a);
    this->gemm_batch(queue, op, other, T{alpha}, some_a, some_a, T{0}, products,
                     {count, strides.a, strides.a, n * n});
    cuda.launch({.name = "add triangle"}, [&] {
      Own<T>::add_triangles(cuda.stream(), triangle, elements(products),
                            elements(moved(c, first * strides.c)), {count, n * n, 0, strides.c});
    });
  }
}

template <Scalar T>
void CudaKernels<T>::do_trsm(Queue& queue, const WorkInfo& info, Side side, Triangle triangle,
                             Op op, In a, Out b) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    if (side == Side::left && op != Op::transpose && b.columns() <= Own<T>::max_columns &&
        a.rows() <= Own<T>::largest_triangle &&
        Own<T>::solve_tile(cuda.stream(), triangle, op, elements(a), elements(b))) {
      return;
    }
    const auto one = cublas_scalar(T{1});
    check(Cublas<T>::trsm(cuda.blas(), as_cublas(side), as_cublas(triangle), as_cublas(op),
                          CUBLAS_DIAG_NON_UNIT, b.rows(), b.columns(), &one, as_cublas(a.data()),
                          a.stride(), as_cublas(b.data()), b.stride()),
          "trsm");
  });
}

template <Scalar T>
void CudaKernels<T>::do_copy(Queue& queue, const WorkInfo& info, In source, Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { Own<T>::copy(cuda.stream(), elements(source), elements(target)); });
}

template <Scalar T>
void CudaKernels<T>::do_convert(Queue& queue, const WorkInfo& info, InOther source,
                                Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { Own<T>::convert(cuda.stream(), elements(source), elements(target)); });
}

template <Scalar T>
void CudaKernels<T>::do_from_real(Queue& queue, const WorkInfo& info, InReal source,
                                  Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { Own<T>::from_real(cuda.stream(), source, elements(target)); });
}

template <Scalar T>
void CudaKernels<T>::do_conjugate_transpose(Queue& queue, const WorkInfo& info, In source,
                                            Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    Own<T>::conjugate_transpose(cuda.stream(), elements(source), elements(target));
  });
}

template <Scalar T>
void CudaKernels<T>::do_fill(Queue& queue, const WorkInfo& info, T value, Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { Own<T>::fill(cuda.stream(), element(value), elements(target)); });
}

template <Scalar T>
void CudaKernels<T>::do_identity(Queue& queue, const WorkInfo& info, Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { Own<T>::identity(cuda.stream(), elements(target)); });
}

template <Scalar T>
void CudaKernels<T>::do_lower_triangle(Queue& queue, const WorkInfo& info, In source,
                                       Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info,
              [&] { Own<T>::lower_triangle(cuda.stream(), elements(source), elements(target)); });
}

template <Scalar T>
void CudaKernels<T>::do_scale_rows(Queue& queue, const WorkInfo& info, In scales, bool inverted,
                                   In source, Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    Own<T>::scale_rows(cuda.stream(), elements(scales), inverted, elements(source),
                       elements(target));
  });
}

template <Scalar T>
void CudaKernels<T>::do_add(Queue& queue, const WorkInfo& info, T alpha, In source,
                            Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    Own<T>::add(cuda.stream(), element(alpha), elements(source), elements(target));
  });
}

template <Scalar T>
void CudaKernels<T>::do_scale(Queue& queue, const WorkInfo& info, Real factor, Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { Own<T>::scale(cuda.stream(), factor, elements(target)); });
}

template <Scalar T>
void CudaKernels<T>::do_diagonal(Queue& queue, const WorkInfo& info, In a, Real* target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { Own<T>::diagonal(cuda.stream(), elements(a), target); });
}

template <Scalar T>
void CudaKernels<T>::do_hermitian_tile(Queue& queue, const WorkInfo& info, In upper,
                                       const Real* diagonal, Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    Own<T>::hermitian_tile(cuda.stream(), elements(upper), diagonal, elements(target));
  });
}

template <Scalar T>
void CudaKernels<T>::do_column_max(Queue& queue, const WorkInfo& info, In a, double* target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { Own<T>::column_max(cuda.stream(), elements(a), target); });
}

template <Scalar T>
void CudaKernels<T>::do_inspect(Queue& queue, const WorkInfo& info, In a, std::int64_t first,
                                const double* weights, double scale, Inspection result) const {
  CudaQueue& cuda = as_cuda(queue);
  std::int64_t at_once = a.columns();
  while (at_once > 1 && Own<T>::inspect_scratch(a.rows(), at_once) > own_scratch) {
    at_once = (at_once + 1) / 2;
  }
  void* const scratch = cuda.scratch(Own<T>::inspect_scratch(a.rows(), at_once));
  cuda.launch(info, [&] {
    std::int64_t begin = 0;
    do {  // without columns, too: the product is 0 then
      const In some = a.columns_from(begin, std::min(at_once, a.columns() - begin));
      const Inspection of_some{result.column_sums + begin,
                               result.probe + begin * (is_complex<T> ? 2 : 1),
                               result.partial_product};
      Own<T>::inspect(cuda.stream(), elements(some), first + begin, weights, scale, of_some,
                      begin > 0, scratch);
      begin += at_once;
    } while (begin < a.columns());
  });
}

template <Scalar T>
const SolveRoom& CudaKernels<T>::solve_room() const {
  std::call_once(asked_, [this] { solve_room_ = Own<T>::solve_room(); });
  return solve_room_;
}

template <Scalar T>
std::int64_t CudaKernels<T>::solve_block_rows() const {
  return solve_room().clusters > 0 ? Own<T>::solve_block : 0;
}

template <Scalar T>
void CudaKernels<T>::do_persistent_solve(Queue& queue, const WorkInfo& info,
                                         const PersistentSolveArguments<T>& solve) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    Own<T>::persistent_solve(cuda.stream(), solve_room(), with_elements(solve), cuda.failed());
  });
}

template class CudaKernels<float>;
template class CudaKernels<double>;
template class CudaKernels<std::complex<float>>;
template class CudaKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::cuda
