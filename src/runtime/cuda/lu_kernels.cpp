#include "runtime/cuda/lu_kernels.hpp"

#include "runtime/cuda/cublas.hpp"
#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/device_kernels.hpp"
#include "runtime/cuda/eliminate_above.hpp"
#include "runtime/cuda/lu_device_kernels.hpp"
#include "runtime/cuda/panel_in_halves.hpp"
#include "runtime/cuda/panel_products.hpp"
#include "runtime/operand_shapes.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstddef>

namespace shardsolve::runtime::cuda {
namespace {

/// The kernels of our own for T.
template <Scalar T>
using OwnLu = LuDeviceKernels<Element<T>>;

/// Of a unit lower triangle of a panel's block: so many columns our own solve takes in parts sooner
/// than cuBLAS solves for all of them.
template <Scalar T>
constexpr std::int64_t few_columns = 2 * DeviceKernels<Element<T>>::max_columns;

void* scratch_of(CudaQueue& queue, std::size_t bytes) {
  return bytes > 0 ? queue.scratch(std::max(own_scratch, bytes)) : nullptr;
}

}  // namespace

template <Scalar T>
void CudaLuKernels<T>::do_panel(Queue& queue, const WorkInfo& work, std::int64_t first, Out a,
                                std::int64_t* places, std::int64_t* info) const {
  CudaQueue& cuda = as_cuda(queue);
  const std::int64_t narrow = OwnLu<T>::narrow_columns(a.rows());
  if (narrow == 0) {
    throw Error(ErrorKind::unsupported,
                fmt::format("a GPU like this one has no registers for the {} rows of a panel of an "
                            "LU factorisation in {}: use CPU devices, or a matrix of fewer rows",
                            a.rows(), name(dtype_of<T>)));
  }
  void* const scratch = scratch_of(cuda, OwnLu<T>::narrow_panel_scratch(a.rows()));
  panel_in_halves<T>(
      *this, queue, first, 0, a, places, narrow,
      [&](std::int64_t place, std::int64_t before, Out columns, std::int64_t* their_places) {
        cuda.launch({.name = work.name}, [&] {
          OwnLu<T>::narrow_panel(cuda.stream(), place, before, elements(columns), their_places,
                                 info, scratch);
        });
      });
}

template <Scalar T>
void CudaLuKernels<T>::do_swap_rows(Queue& queue, const WorkInfo& info, std::int64_t first,
                                    const std::int64_t* places, std::int64_t count, Out a) const {
  CudaQueue& cuda = as_cuda(queue);
  void* const scratch = cuda.scratch(OwnLu<T>::swap_scratch);
  cuda.launch(info, [&] {
    for (std::int64_t done = 0; done < count; done += OwnLu<T>::max_swaps) {
      OwnLu<T>::swap_rows(cuda.stream(), first + done, places + done,
                          std::min(OwnLu<T>::max_swaps, count - done),
                          elements(a.block(done, 0, a.rows() - done, a.columns())), scratch);
    }
  });
}

// Block row by block row, so that most of the solve is products, too.
template <Scalar T>
void CudaLuKernels<T>::do_eliminate(Queue& queue, In panel, Out a, Out scratch) const {
  const std::int64_t block = a.columns() <= few_columns<T> ? 256 : 64;
  const std::int64_t w = panel.columns();
  for (std::int64_t begin = 0; begin < w; begin += block) {
    const std::int64_t width = std::min(block, w - begin);
    const std::int64_t below = begin + width;
    const Out solved = row_range(a, begin, width);
    this->solve_tile(queue, Triangle::lower, Op::none, panel.block(begin, begin, width, width),
                     solved);
    // What is below the panel's own rows takes all block rows at once, in the end.
    if (below < w) {
      this->base().gemm(queue, Op::none, Op::none, T{-1},
                        panel.block(below, begin, w - below, width), solved, T{1},
                        row_range(a, below, w - below));
    }
  }
  if (a.rows() == w) {
    return;
  }
  const std::int64_t rows = a.rows() - w;
  const In l21 = row_range(panel, w, rows);
  const Out a1 = row_range(a, 0, w);
  const Out a2 = row_range(a, w, rows);
  const std::int64_t needed = eliminate_scratch(w, rows, a.columns());
  if (needed == 0 || scratch.rows() * scratch.columns() < needed) {
    this->base().gemm(queue, Op::none, Op::none, T{-1}, l21, a1, T{1}, a2);
    return;
  }
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "update", .flops = multiply_add<T> * product(rows, a.columns(), w)}, [&] {
    OwnLu<T>::split_update(cuda.stream(), elements(l21), elements(In(a1)), elements(a2),
                           elements(scratch).data());
  });
}

template <Scalar T>
std::int64_t CudaLuKernels<T>::eliminate_scratch(std::int64_t width, std::int64_t rows,
                                                 std::int64_t columns) const {
  return OwnLu<T>::splits_update(width, rows, columns)
             ? OwnLu<T>::split_scratch(width, rows, columns)
             : 0;
}

template <Scalar T>
void CudaLuKernels<T>::do_eliminate_above(Queue& queue, In panel, Out a) const {
  eliminate_above_in_blocks<T>(
      panel, a, [&](In u, Out b) { this->solve_tile(queue, Triangle::upper, Op::none, u, b); },
      [&](In u, In x, Out b) {
        this->base().gemm(queue, Op::none, Op::none, T{-1}, u, x, T{1}, b);
      });
}

template <Scalar T>
void CudaLuKernels<T>::do_solve_tile(Queue& queue, const WorkInfo& info, Triangle triangle, Op op,
                                     In tile, Out b) const {
  if (triangle == Triangle::upper) {
    this->base().trsm(queue, Side::left, triangle, op, tile, b);
    return;
  }
  using Own = DeviceKernels<Element<T>>;
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    if (op != Op::transpose && b.columns() <= few_columns<T> &&
        tile.rows() <= Own::largest_triangle) {
      bool done = true;
      for (std::int64_t j = 0; done && j < b.columns(); j += Own::max_columns) {
        const Out some = b.columns_from(j, std::min(Own::max_columns, b.columns() - j));
        done = Own::solve_tile(cuda.stream(), triangle, op, elements(tile), elements(some), true);
      }
      if (done) {
        return;
      }
    }
    const auto one = cublas_scalar(T{1});
    check(Cublas<T>::trsm(cuda.blas(), CUBLAS_SIDE_LEFT, as_cublas(triangle), as_cublas(op),
                          CUBLAS_DIAG_UNIT, b.rows(), b.columns(), &one, as_cublas(tile.data()),
                          tile.stride(), as_cublas(b.data()), b.stride()),
          "trsm");
  });
}

/// Our own solve takes 32 us for 1024 rows and 8 right-hand sides, 13 us for 256 rows.
template <Scalar T>
std::int64_t CudaLuKernels<T>::rows_to_solve(Op op, std::int64_t columns) const {
  constexpr std::int64_t few = 8;
  return op != Op::transpose && columns <= few ? DeviceKernels<Element<T>>::largest_triangle : 0;
}

template <Scalar T>
void CudaLuKernels<T>::do_upper_max(Queue& queue, const WorkInfo& info, std::int64_t first, In a,
                                    double* target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { OwnLu<T>::upper_max(cuda.stream(), first, elements(a), target); });
}

template <Scalar T>
void CudaLuKernels<T>::do_transpose(Queue& queue, const WorkInfo& info, In source,
                                    Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info,
              [&] { OwnLu<T>::transpose(cuda.stream(), elements(source), elements(target)); });
}

template <Scalar T>
void CudaLuKernels<T>::do_choose_columns(Queue& queue, const WorkInfo& info, In source,
                                         const std::int64_t* columns, Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnLu<T>::choose_columns(cuda.stream(), elements(source), columns, elements(target));
  });
}

template <Scalar T>
void CudaLuKernels<T>::do_choose_rows(Queue& queue, const WorkInfo& info, In source,
                                      const std::int64_t* rows, Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnLu<T>::choose_rows(cuda.stream(), elements(source), rows, elements(target));
  });
}

template <Scalar T>
void CudaLuKernels<T>::do_order_rows(Queue& queue, const WorkInfo& info, const std::int64_t* rows,
                                     Out a, Out scratch) const {
  if (!OwnLu<T>::orders_rows(a.rows())) {
    LuKernels<T>::do_order_rows(queue, info, rows, a, scratch);
    return;
  }
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { OwnLu<T>::order_rows(cuda.stream(), rows, elements(a)); });
}

template <Scalar T>
void CudaLuKernels<T>::do_order_columns(Queue& queue, const WorkInfo& info, In source,
                                        const std::int64_t* columns, Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnLu<T>::order_columns(cuda.stream(), elements(source), columns, elements(target));
  });
}

template <Scalar T>
void CudaLuKernels<T>::do_multiply(Queue& queue, const WorkInfo& info, Op op, In a, In x, Out y,
                                   MatrixView<double> sizes) const {
  CudaQueue& cuda = as_cuda(queue);
  void* const scratch = scratch_of(cuda, OwnLu<T>::multiply_scratch(op, elements(a)));
  cuda.launch(info, [&] {
    OwnLu<T>::multiply(cuda.stream(), op, elements(a), elements(x), elements(y), sizes, scratch);
  });
}

template <Scalar T>
void CudaLuKernels<T>::do_moduli(Queue& queue, const WorkInfo& info, In source,
                                 MatrixView<Real> target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { OwnLu<T>::moduli(cuda.stream(), elements(source), target); });
}

template <Scalar T>
void CudaLuKernels<T>::do_row_sums(Queue& queue, const WorkInfo& info, double scale, In a,
                                   double* sums, double* largest) const {
  CudaQueue& cuda = as_cuda(queue);
  void* const scratch = scratch_of(cuda, OwnLu<T>::row_sums_scratch(elements(a)));
  cuda.launch(
      info, [&] { OwnLu<T>::row_sums(cuda.stream(), scale, elements(a), sums, largest, scratch); });
}

template <Scalar T>
void CudaLuKernels<T>::do_component_errors(Queue& queue, const WorkInfo& info, double least, In r,
                                           MatrixView<const double> sizes, In b,
                                           double* target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnLu<T>::component_errors(cuda.stream(), least, elements(r), sizes, elements(b), target);
  });
}

template class CudaLuKernels<float>;
template class CudaLuKernels<double>;
template class CudaLuKernels<std::complex<float>>;
template class CudaLuKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::cuda
