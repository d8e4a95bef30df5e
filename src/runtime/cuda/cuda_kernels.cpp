#include "runtime/cuda/cuda_kernels.hpp"

#include "runtime/cuda/cublas.hpp"
#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/device_kernels.hpp"
#include "runtime/operand_shapes.hpp"

#include <algorithm>
#include <complex>

namespace shardsolve::runtime::cuda {
namespace {

CudaQueue& as_cuda(Queue& queue) { return static_cast<CudaQueue&>(queue); }

/// What the correction of a panel may take as scratch; longer panels are made in parts.
constexpr std::size_t panel_scratch = std::size_t{32} << 20U;

template <Scalar T>
std::int64_t panel_rows(std::int64_t tile) {
  const auto elements = static_cast<std::int64_t>(panel_scratch / sizeof(T));
  return std::max<std::int64_t>(elements / tile, 1);
}

}  // namespace

template <Scalar T>
void CudaKernels<T>::gemm(Queue& queue, Op op_a, Op op_b, T alpha, In a, In b, T beta,
                          Out c) const {
  const std::int64_t k = require_product(op_a, a, op_b, b, c);
  if (c.empty()) {
    return;
  }
  CudaQueue& cuda = as_cuda(queue);
  const WorkInfo info{.name = "gemm", .flops = multiply_add<T> * product(c.rows(), c.columns(), k)};
  cuda.launch(info, [&] {
    if (k == 0) {
      if (beta == T{0}) {
        DeviceKernels<T>::fill(cuda.stream(), T{0}, c);
      }
      return;
    }
    if (c.columns() == 1 && op_b == Op::none) {
      check(Cublas<T>::gemv(cuda.blas(), as_cublas(op_a), a.rows(), a.columns(), as_cublas(&alpha),
                            as_cublas(a.data()), a.stride(), as_cublas(b.data()), 1,
                            as_cublas(&beta), as_cublas(c.data()), 1),
            "gemv");
      return;
    }
    check(Cublas<T>::gemm(cuda.blas(), as_cublas(op_a), as_cublas(op_b), c.rows(), c.columns(), k,
                          as_cublas(&alpha), as_cublas(a.data()), a.stride(), as_cublas(b.data()),
                          b.stride(), as_cublas(&beta), as_cublas(c.data()), c.stride()),
          "gemm");
  });
}

template <Scalar T>
void CudaKernels<T>::herk(Queue& queue, Triangle triangle, Op op, Real alpha, In a, Real beta,
                          Out c) const {
  require(c.rows() == c.columns() && rows_of(op, a) == c.rows(), "herk");
  if (c.empty()) {
    return;
  }
  CudaQueue& cuda = as_cuda(queue);
  const std::int64_t k = columns_of(op, a);
  // syrk takes transposes only as such
  const cublasOperation_t operation = is_complex<T> || op == Op::none ? as_cublas(op) : CUBLAS_OP_T;
  const WorkInfo info{.name = "herk",
                      .flops = 0.5 * multiply_add<T> * product(c.rows(), c.rows() + 1, k)};
  cuda.launch(info, [&] {
    check(Cublas<T>::herk(cuda.blas(), as_cublas(triangle), operation, c.rows(), k, &alpha,
                          as_cublas(a.data()), a.stride(), &beta, as_cublas(c.data()), c.stride()),
          "herk");
  });
}

template <Scalar T>
void CudaKernels<T>::trsm(Queue& queue, Side side, Triangle triangle, Op op, In a, Out b) const {
  require(a.rows() == a.columns() && a.rows() == (side == Side::left ? b.rows() : b.columns()),
          "trsm");
  if (b.empty()) {
    return;
  }
  CudaQueue& cuda = as_cuda(queue);
  const WorkInfo info{.name = "trsm",
                      .flops = 0.5 * multiply_add<T> * product(b.rows(), b.columns(), a.rows())};
  cuda.launch(info, [&] {
    const T one{1};
    check(Cublas<T>::trsm(cuda.blas(), as_cublas(side), as_cublas(triangle), as_cublas(op),
                          CUBLAS_DIAG_NON_UNIT, b.rows(), b.columns(), as_cublas(&one),
                          as_cublas(a.data()), a.stride(), as_cublas(b.data()), b.stride()),
          "trsm");
  });
}

template <Scalar T>
void CudaKernels<T>::potrf(Queue& queue, Out a, Out aid, std::int64_t* info) const {
  const std::int64_t n = a.rows();
  require(a.columns() == n && aid.rows() >= n && aid.columns() >= 2 * n, "potrf");
  CudaQueue& cuda = as_cuda(queue);
  const WorkInfo work{.name = "potrf", .flops = multiply_add<T> / 3.0 * product(n, n, n)};
  cuda.launch(work, [&] {
    DeviceKernels<T>::factor_tile(cuda.stream(), a, aid.block(0, 0, n, n), aid.block(0, n, n, n),
                                  info);
  });
}

// By products with the inverse of the tile, which a GPU does many times faster than a triangular
// solve. That alone is not backward stable (an ill-conditioned tile costs what the solve would have
// kept), one correction with the residual makes it so:
//   p = inv(l11) a21^H,   p += inv(l11) (a21^H - l11 p)
template <Scalar T>
void CudaKernels<T>::panel(Queue& queue, In l11, In aid, Out a21, Out packed) const {
  const std::int64_t n = l11.rows();
  require(l11.columns() == n && a21.columns() == n && packed.rows() == n &&
              packed.columns() == a21.rows() && aid.columns() >= 2 * n,
          "panel");
  CudaQueue& cuda = as_cuda(queue);
  const In lower = aid.block(0, 0, n, n);
  const In inverse = aid.block(0, n, n, n);
  for (std::int64_t first = 0; first < a21.rows(); first += panel_rows<T>(n)) {
    const std::int64_t count = std::min(panel_rows<T>(n), a21.rows() - first);
    const Out rows = a21.block(first, 0, count, n);
    const Out p = packed.columns_from(first, count);
    const Out residual(static_cast<T*>(cuda.scratch(panel_scratch)), n, count);
    conjugate_transpose(queue, rows, residual);
    gemm(queue, Op::none, Op::none, T{1}, inverse, residual, T{0}, p);
    gemm(queue, Op::none, Op::none, T{-1}, lower, p, T{1}, residual);
    gemm(queue, Op::none, Op::none, T{1}, inverse, residual, T{1}, p);
    conjugate_transpose(queue, p, rows);
  }
}

template <Scalar T>
void CudaKernels<T>::copy(Queue& queue, In source, Out target) const {
  require(same_shape(source, target), "copy");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "copy"}, [&] { DeviceKernels<T>::copy(cuda.stream(), source, target); });
}

template <Scalar T>
void CudaKernels<T>::conjugate_transpose(Queue& queue, In source, Out target) const {
  require(source.rows() == target.columns() && source.columns() == target.rows(),
          "conjugate_transpose");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "transpose"},
              [&] { DeviceKernels<T>::conjugate_transpose(cuda.stream(), source, target); });
}

template <Scalar T>
void CudaKernels<T>::fill(Queue& queue, T value, Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "fill"}, [&] { DeviceKernels<T>::fill(cuda.stream(), value, target); });
}

template <Scalar T>
void CudaKernels<T>::identity(Queue& queue, Out target) const {
  require(target.rows() == target.columns(), "identity");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "identity"}, [&] { DeviceKernels<T>::identity(cuda.stream(), target); });
}

template <Scalar T>
void CudaKernels<T>::add(Queue& queue, T alpha, In source, Out target) const {
  require(same_shape(source, target), "add");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "add"},
              [&] { DeviceKernels<T>::add(cuda.stream(), alpha, source, target); });
}

template <Scalar T>
void CudaKernels<T>::scale(Queue& queue, Real factor, Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "scale"}, [&] { DeviceKernels<T>::scale(cuda.stream(), factor, target); });
}

template <Scalar T>
void CudaKernels<T>::diagonal(Queue& queue, In a, Real* target) const {
  require(a.rows() == a.columns(), "diagonal");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "diagonal"},
              [&] { DeviceKernels<T>::diagonal(cuda.stream(), a, target); });
}

template <Scalar T>
void CudaKernels<T>::hermitian_tile(Queue& queue, In upper, const Real* diagonal,
                                    Out target) const {
  require(upper.rows() == upper.columns() && same_shape(upper, target), "hermitian_tile");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "hermitian tile"}, [&] {
    DeviceKernels<T>::hermitian_tile(cuda.stream(), upper, diagonal, target);
  });
}

template <Scalar T>
void CudaKernels<T>::column_max(Queue& queue, In a, double* target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "column max"},
              [&] { DeviceKernels<T>::column_max(cuda.stream(), a, target); });
}

template <Scalar T>
void CudaKernels<T>::inspect(Queue& queue, In a, std::int64_t first, const double* signs,
                             double scale, Inspection result) const {
  require(first + a.columns() <= a.rows() || a.columns() == 0, "inspect");
  CudaQueue& cuda = as_cuda(queue);
  const WorkInfo info{.name = "inspect",
                      .flops = 2.0 * multiply_add<T> * product(a.rows(), a.columns())};
  cuda.launch(info, [&] {
    const std::size_t bytes = DeviceKernels<T>::inspect_scratch(a.rows(), a.columns());
    DeviceKernels<T>::inspect(cuda.stream(), a, first, signs, scale, result, cuda.scratch(bytes),
                              bytes);
  });
}

template class CudaKernels<float>;
template class CudaKernels<double>;
template class CudaKernels<std::complex<float>>;
template class CudaKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::cuda
