#include "runtime/cuda/cuda_kernels.hpp"

#include "runtime/cuda/cublas.hpp"
#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/device_kernels.hpp"
#include "runtime/cuda/panel_products.hpp"
#include "runtime/cuda/update_list.hpp"
#include "runtime/operand_shapes.hpp"

#include <algorithm>
#include <complex>
#include <type_traits>
#include <vector>

namespace shardsolve::runtime::cuda {
namespace {

/// The kernels of our own for T.
template <Scalar T>
using Own = DeviceKernels<Element<T>>;

template <Scalar T>
PersistentSolve<Element<T>> with_elements(const PersistentSolve<T>& solve) {
  using E = Element<T>;
  PersistentSolve<E> same{elements(solve.slab), reinterpret_cast<E*>(solve.b),
                          solve.blocks,         solve.own,
                          solve.count,          solve.own_count,
                          solve.rank,           solve.ranks};
  same.width = solve.width;
  for (std::int32_t r = 0; r < solve.ranks; ++r) {
    same.first[r] = solve.first[r];
    same.memory[r] = reinterpret_cast<E*>(solve.memory[r]);
  }
  return same;
}

template <Scalar T>
UpperPart<Element<T>, RealOf<T>> with_elements(const UpperPart<T, RealOf<T>>& a) {
  UpperPart<Element<T>, RealOf<T>> same{elements(a.slab), a.diagonal, a.rank, a.ranks};
  std::copy_n(a.begin, a.ranks + 1, same.begin);
  same.tile = a.tile;
  same.eliminated = a.eliminated;
  return same;
}

/// Columns up to which herk_batch makes both triangles of a tile.
constexpr std::int64_t narrow_tile = 256;

/// Whether WideGemm has taken the product.
template <Scalar T>
bool by_wide_gemm(CudaQueue& queue, Op op_a, Op op_b, T alpha, MatrixView<const T> a,
                  MatrixView<const T> b, T beta, MatrixView<T> c, const Steps& steps) {
  if constexpr (std::is_same_v<RealOf<T>, double>) {
    return op_a == Op::conjugate_transpose && op_b == Op::none &&
           queue.wide_gemm().enqueue(queue.stream(), alpha, a, b, beta, c, steps);
  }
  return false;
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
void CudaKernels<T>::gemm_batch(Queue& queue, Op op_a, Op op_b, T alpha, In a, In b, T beta, Out c,
                                const Steps& steps) const {
  const std::int64_t k = require_product(op_a, a, op_b, b, c);
  if (steps.count == 1 || c.empty() || k == 0) {
    Kernels<T>::gemm_batch(queue, op_a, op_b, alpha, a, b, beta, c, steps);
    return;
  }
  CudaQueue& cuda = as_cuda(queue);
  const WorkInfo info{.name = "gemm",
                      .flops = multiply_add<T> * product(steps.count, c.rows(), c.columns(), k)};
  cuda.launch(info, [&] {
    if (by_wide_gemm<T>(cuda, op_a, op_b, alpha, a, b, beta, c, steps)) {
      return;
    }
    const auto factor = cublas_scalar(alpha);
    const auto keep = cublas_scalar(beta);
    check(Cublas<T>::gemm_batch(cuda.blas(), as_cublas(op_a), as_cublas(op_b), c.rows(),
                                c.columns(), k, &factor, as_cublas(a.data()), a.stride(), steps.a,
                                as_cublas(b.data()), b.stride(), steps.b, &keep,
                                as_cublas(c.data()), c.stride(), steps.c, steps.count),
          "gemm");
  });
}

// Tiles are too small to fill a GPU one by one, and cuBLAS has no batch of herk: what lies beside
// the diagonal by products, in halves down to narrow tiles; of these whole products into scratch
// memory, of which one triangle is added.
template <Scalar T>
void CudaKernels<T>::herk_batch(Queue& queue, Triangle triangle, Op op, Real alpha, In a, Out c,
                                const Steps& steps) const {
  const std::int64_t n = c.rows();
  require(c.columns() == n && rows_of(op, a) == n, "herk");
  if (c.empty()) {
    return;
  }
  const Op other = op == Op::none ? Op::conjugate_transpose : Op::none;
  if (n > narrow_tile) {
    const std::int64_t half = n / 2;
    const auto rows_of_a = [&](std::int64_t first, std::int64_t count) {
      return op == Op::none ? a.block(first, 0, count, a.columns()) : a.columns_from(first, count);
    };
    const In a1 = rows_of_a(0, half);
    const In a2 = rows_of_a(half, n - half);
    const bool lower = triangle == Triangle::lower;
    gemm_batch(queue, op, other, T{alpha}, lower ? a2 : a1, lower ? a1 : a2, T{1},
               lower ? c.block(half, 0, n - half, half) : c.block(0, half, half, n - half),
               {steps.count, steps.a, steps.a, steps.c});
    const std::int64_t row_of_a = op == Op::none ? 1 : a.stride();
    const bool in_line =
        steps.count == 1 || (steps.a == n * row_of_a && steps.c == n * (c.stride() + 1));
    if (in_line && n == 2 * half) {
      const std::int64_t step_of_a = half * row_of_a;
      herk_batch(queue, triangle, op, alpha, a1, c.block(0, 0, half, half),
                 {2 * steps.count, step_of_a, step_of_a, half * (c.stride() + 1)});
      return;
    }
    herk_batch(queue, triangle, op, alpha, a1, c.block(0, 0, half, half), steps);
    herk_batch(queue, triangle, op, alpha, a2, c.block(half, half, n - half, n - half), steps);
    return;
  }
  CudaQueue& cuda = as_cuda(queue);
  const auto tile_bytes = static_cast<std::size_t>(n * n) * sizeof(T);
  const std::int64_t fit =
      std::max<std::int64_t>(static_cast<std::int64_t>(own_scratch / tile_bytes), 1);
  for (std::int64_t first = 0; first < steps.count; first += fit) {
    const std::int64_t count = std::min(fit, steps.count - first);
    const Out products(static_cast<T*>(cuda.scratch(std::max(own_scratch, tile_bytes))), n, n);
    const In some_a = moved(a, first * steps.a);
    gemm_batch(queue, op, other, T{alpha}, some_a, some_a, T{0}, products,
               {count, steps.a, steps.a, n * n});
    cuda.launch({.name = "add triangle"}, [&] {
      Own<T>::add_triangles(cuda.stream(), triangle, elements(products),
                            elements(moved(c, first * steps.c)), {count, n * n, 0, steps.c});
    });
  }
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
    if (side == Side::left && b.columns() <= Own<T>::most_columns &&
        a.rows() <= Own<T>::largest_tile &&
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
void CudaKernels<T>::hermitian_multiply(Queue& queue, const UpperPart<T, Real>& a, const T* x, T* y,
                                        void* scratch) const {
  using E = Element<T>;
  CudaQueue& cuda = as_cuda(queue);
  const WorkInfo info{.name = "multiply",
                      .flops = multiply_add<T> * product(a.slab.rows(), a.slab.columns())};
  cuda.launch(info, [&] {
    Own<T>::hermitian_multiply(cuda.stream(), with_elements(a), reinterpret_cast<const E*>(x),
                               reinterpret_cast<E*>(y), scratch);
  });
}

template <Scalar T>
std::int64_t CudaKernels<T>::hermitian_multiply_scratch(const UpperPart<T, Real>& a) const {
  return static_cast<std::int64_t>(Own<T>::hermitian_multiply_scratch(with_elements(a)));
}

template <Scalar T>
void CudaKernels<T>::add_twofold(Queue& queue, In source, Out sums) const {
  const std::int64_t k = sums.columns() / 2;
  require(sums.columns() == 2 * k && source.rows() == sums.rows() &&
              (source.columns() == k || source.columns() == 2 * k),
          "add_twofold");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "add"},
              [&] { Own<T>::add_twofold(cuda.stream(), elements(source), elements(sums)); });
}

template <Scalar T>
void CudaKernels<T>::persistent_solve(Queue& queue, const PersistentSolve<T>& solve,
                                      double flops) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "solve", .flops = flops}, [&] {
    Own<T>::persistent_solve(cuda.stream(), with_elements(solve), cuda.failed());
  });
}

template <Scalar T>
void CudaKernels<T>::potrf(Queue& queue, Out a, Out aid, std::int64_t* info) const {
  const std::int64_t n = a.rows();
  require(a.columns() == n && aid.rows() >= n && aid.columns() >= 2 * n, "potrf");
  CudaQueue& cuda = as_cuda(queue);
  const WorkInfo work{.name = "potrf", .flops = multiply_add<T> / 3.0 * product(n, n, n)};
  cuda.launch(work, [&] {
    Own<T>::factor_tile(cuda.stream(), elements(a), elements(aid.block(0, 0, n, n)),
                        elements(aid.block(0, n, n, n)), wide_panel_block, info);
  });
}

// As many tiles at once as there is scratch memory for.
template <Scalar T>
void CudaKernels<T>::invert(Queue& queue, In l, Out m, const Steps& steps) const {
  const std::int64_t n = l.rows();
  require(l.columns() == n && same_shape(l, In(m)) && n <= Own<T>::largest_tile, "invert");
  if (n == 0 || steps.count == 0) {
    return;
  }
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "invert"},
              [&] { Own<T>::invert_squares(cuda.stream(), elements(l), elements(m), steps); });
  T* const scratch = static_cast<T*>(cuda.scratch(own_scratch));
  const std::int64_t half = Own<T>::largest_tile / 2;
  const std::int64_t at_once = panel_rows<T>(half * half);
  for (std::int64_t first = 0; first < steps.count; first += at_once) {
    invert_below<T>(queue, *this, moved(l, first * steps.a), moved(m, first * steps.c), scratch,
                    Own<T>::inverted_square,
                    {.count = std::min(at_once, steps.count - first), .a = steps.a, .c = steps.c});
  }
}

// By products with inverses, which a GPU does many times faster than triangular solves: in one
// kernel where there is one, else block row by block row of p.
template <Scalar T>
void CudaKernels<T>::panel(Queue& queue, In l11, In aid, Out a21, Out packed) const {
  const std::int64_t n = l11.rows();
  require(l11.columns() == n && a21.columns() == n && packed.rows() == n &&
              packed.columns() == a21.rows() && aid.columns() >= 2 * n,
          "panel");
  CudaQueue& cuda = as_cuda(queue);
  const In adjoint = aid.block(0, 0, n, n);
  const In inverse = aid.block(0, n, n, n);
  // Here and not below: memory that is short is to be missed in the first panel.
  T* const scratch = static_cast<T*>(cuda.scratch(own_scratch));
  const PanelSolver solver = Own<T>::panel_solver(elements(adjoint), elements(inverse),
                                                  elements(In(a21)), elements(In(packed)));
  if (solver != PanelSolver::products) {
    const WorkInfo info{.name = "panel",
                        .flops = 0.5 * multiply_add<T> * product(a21.rows(), n, n)};
    cuda.launch(info, [&] {
      Own<T>::solve_panel(cuda.stream(), solver, elements(adjoint), elements(inverse),
                          elements(a21), elements(packed));
    });
    return;
  }
  in_parts<T>(queue, *this, scratch, a21, packed, [&](Out residual, Out p) {
    const std::int64_t most = widest_block(p.columns());
    for (std::int64_t begin = 0; begin < n; begin += most) {
      const std::int64_t width = std::min(most, n - begin);
      solve_block<T>(queue, *this, adjoint.block(0, begin, begin, width), row_range(p, 0, begin),
                     adjoint.block(begin, begin, width, width),
                     inverse.block(begin, begin, width, width), row_range(residual, begin, width),
                     row_range(p, begin, width));
    }
  });
}

// Likewise, from the last block to the first.
template <Scalar T>
void CudaKernels<T>::inverse_panel(Queue& queue, In l11, In m11, Out s21, Out packed) const {
  const std::int64_t n = l11.rows();
  require(l11.columns() == n && same_shape(l11, m11) && s21.columns() == n && packed.rows() == n &&
              packed.columns() == s21.rows(),
          "inverse panel");
  T* const scratch = static_cast<T*>(as_cuda(queue).scratch(own_scratch));
  in_parts<T>(queue, *this, scratch, s21, packed, [&](Out residual, Out p) {
    const std::int64_t most = widest_block(p.columns());
    for (std::int64_t end = n; end > 0; end -= most) {
      const std::int64_t begin = std::max<std::int64_t>(end - most, 0);
      const std::int64_t width = end - begin;
      solve_block<T>(queue, *this, l11.block(end, begin, n - end, width),
                     row_range(p, end, n - end), l11.block(begin, begin, width, width),
                     m11.block(begin, begin, width, width), row_range(residual, begin, width),
                     row_range(p, begin, width));
    }
  });
}

template <Scalar T>
std::int64_t CudaKernels<T>::packed_rows(std::int64_t tile) const {
  return Own<T>::splits_panels(tile) ? tile + Own<T>::split_rows : tile;
}

template <Scalar T>
void CudaKernels<T>::prepare_updates(Queue& queue, Out packed) const {
  if (Own<T>::splits_panels(packed.rows())) {
    require_split<T>(packed);
    CudaQueue& cuda = as_cuda(queue);
    cuda.launch({.name = "split"}, [&] { Own<T>::split_panel(cuda.stream(), elements(packed)); });
  }
}

template <Scalar T>
void CudaKernels<T>::update(Queue& queue, In left, In right,
                            const std::vector<PanelUpdate<T>>& updates) const {
  require(left.rows() == right.rows(), "update");
  if (!Own<T>::updates_panels(elements(left)) || !Own<T>::updates_panels(elements(right))) {
    Kernels<T>::update(queue, left, right, updates);
    return;
  }
  if (Own<T>::splits_panels(left.rows())) {
    require_split(left);
    require_split(right);
  }
  CudaQueue& cuda = as_cuda(queue);
  const UpdateTileSize largest{update_rows, update_columns<Element<T>>};
  std::int64_t tiles = 0;
  for (const PanelUpdate<T>& update : updates) {
    tiles += update.count * tiles_of(update, largest).changed;
  }
  const UpdatePieces<Element<T>> none{.size = Own<T>::update_size(tiles)};
  UpdatePieces<Element<T>> pieces = none;
  WorkInfo info{.name = "update"};
  const auto enqueue = [&] {
    cuda.launch(info,
                [&] { Own<T>::update(cuda.stream(), elements(left), elements(right), pieces); });
    pieces = none;
    info.flops = 0.0;
  };
  for (const PanelUpdate<T>& update : updates) {
    require_columns(update, left.columns(), right.columns());
    if (update.c.empty()) {
      continue;
    }
    if (pieces.count == pieces.most) {
      enqueue();
    }
    add_piece(pieces, update);
    info.flops += flops_of(update, left.rows());
  }
  if (pieces.count > 0) {
    enqueue();
  }
}

template <Scalar T>
void CudaKernels<T>::copy(Queue& queue, In source, Out target) const {
  require(same_shape(source, target), "copy");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "copy"},
              [&] { Own<T>::copy(cuda.stream(), elements(source), elements(target)); });
}

template <Scalar T>
void CudaKernels<T>::conjugate_transpose(Queue& queue, In source, Out target) const {
  require(source.rows() == target.columns() && source.columns() == target.rows(),
          "conjugate_transpose");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "transpose"}, [&] {
    Own<T>::conjugate_transpose(cuda.stream(), elements(source), elements(target));
  });
}

template <Scalar T>
void CudaKernels<T>::fill(Queue& queue, T value, Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "fill"},
              [&] { Own<T>::fill(cuda.stream(), element(value), elements(target)); });
}

template <Scalar T>
void CudaKernels<T>::identity(Queue& queue, Out target) const {
  require(target.rows() == target.columns(), "identity");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "identity"}, [&] { Own<T>::identity(cuda.stream(), elements(target)); });
}

template <Scalar T>
void CudaKernels<T>::lower_triangle(Queue& queue, In source, Out target) const {
  require(source.rows() == source.columns() && same_shape(source, target), "lower_triangle");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "copy"},
              [&] { Own<T>::lower_triangle(cuda.stream(), elements(source), elements(target)); });
}

template <Scalar T>
void CudaKernels<T>::scale_rows(Queue& queue, In scales, bool inverted, In source,
                                Out target) const {
  require(same_shape(source, target) && scales.rows() == source.rows() &&
              scales.columns() == source.rows(),
          "scale_rows");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "copy"}, [&] {
    Own<T>::scale_rows(cuda.stream(), elements(scales), inverted, elements(source),
                       elements(target));
  });
}

template <Scalar T>
void CudaKernels<T>::add(Queue& queue, T alpha, In source, Out target) const {
  require(same_shape(source, target), "add");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "add"}, [&] {
    Own<T>::add(cuda.stream(), element(alpha), elements(source), elements(target));
  });
}

template <Scalar T>
void CudaKernels<T>::scale(Queue& queue, Real factor, Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "scale"}, [&] { Own<T>::scale(cuda.stream(), factor, elements(target)); });
}

template <Scalar T>
void CudaKernels<T>::diagonal(Queue& queue, In a, Real* target) const {
  require(a.rows() == a.columns(), "diagonal");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "diagonal"}, [&] { Own<T>::diagonal(cuda.stream(), elements(a), target); });
}

template <Scalar T>
void CudaKernels<T>::hermitian_tile(Queue& queue, In upper, const Real* diagonal,
                                    Out target) const {
  require(upper.rows() == upper.columns() && same_shape(upper, target), "hermitian_tile");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "hermitian tile"}, [&] {
    Own<T>::hermitian_tile(cuda.stream(), elements(upper), diagonal, elements(target));
  });
}

template <Scalar T>
void CudaKernels<T>::column_max(Queue& queue, In a, double* target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "column max"},
              [&] { Own<T>::column_max(cuda.stream(), elements(a), target); });
}

template <Scalar T>
void CudaKernels<T>::inspect(Queue& queue, In a, std::int64_t first, const double* weights,
                             double scale, Inspection result) const {
  require(first + a.columns() <= a.rows() || a.columns() == 0, "inspect");
  CudaQueue& cuda = as_cuda(queue);
  const WorkInfo info{.name = "inspect",
                      .flops = 2.0 * multiply_add<T> * product(a.rows(), a.columns())};
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

template class CudaKernels<float>;
template class CudaKernels<double>;
template class CudaKernels<std::complex<float>>;
template class CudaKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::cuda
