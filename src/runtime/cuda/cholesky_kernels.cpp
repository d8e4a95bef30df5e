#include "runtime/cuda/cholesky_kernels.hpp"

#include "runtime/cuda/cholesky_device_kernels.hpp"
#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/panel_products.hpp"
#include "runtime/cuda/update_list.hpp"
#include "runtime/operand_shapes.hpp"

#include <algorithm>
#include <complex>
#include <vector>

namespace shardsolve::runtime::cuda {
namespace {

/// The kernels of our own for T.
template <Scalar T>
using OwnCholesky = CholeskyDeviceKernels<Element<T>>;

}  // namespace

template <Scalar T>
CholeskyTuning CudaCholeskyKernels<T>::tuning(std::int64_t tile) const {
  return {
      // L^H with zeros below its diagonal, and what panel() takes of its inverse.
      .tile_scratch_columns = 2 * tile,
      // With fewer a GPU does less at a time. In single precision updates leave it more of its
      // time, and the next panel begins earlier (measured on two H200s).
      .least_panel_rows = sizeof(RealOf<T>) == 4 ? 2048 : 4096,
      // Products, of which fewer take the host longer to enqueue than the GPU needs.
      .least_inverse_panel_rows = 4096,
  };
}

template <Scalar T>
void CudaCholeskyKernels<T>::do_potrf(Queue& queue, const WorkInfo& work, Out a, Out tile_scratch,
                                      std::int64_t* info) const {
  const std::int64_t n = a.rows();
  require(tile_scratch.columns() >= 2 * n, "potrf");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(work, [&] {
    OwnCholesky<T>::factor_tile(cuda.stream(), elements(a),
                                elements(tile_scratch.block(0, 0, n, n)),
                                elements(tile_scratch.block(0, n, n, n)), wide_panel_block, info);
  });
}

// As many tiles at once as there is scratch memory for.
template <Scalar T>
void CudaCholeskyKernels<T>::do_invert(Queue& queue, In l, Out m,
                                       const BatchStrides& strides) const {
  const std::int64_t n = l.rows();
  require(n <= OwnCholesky<T>::largest_tile, "invert");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch({.name = "invert"}, [&] {
    OwnCholesky<T>::invert_squares(cuda.stream(), elements(l), elements(m), strides);
  });
  T* const scratch = static_cast<T*>(cuda.scratch(own_scratch));
  const std::int64_t half = OwnCholesky<T>::largest_tile / 2;
  const std::int64_t at_once = panel_rows<T>(half * half);
  for (std::int64_t first = 0; first < strides.count; first += at_once) {
    invert_below<T>(
        queue, this->base(), moved(l, first * strides.a), moved(m, first * strides.c), scratch,
        OwnCholesky<T>::inverted_square,
        {.count = std::min(at_once, strides.count - first), .a = strides.a, .c = strides.c});
  }
}

// By products with inverses, which a GPU does many times faster than triangular solves: in one
// kernel where there is one, else block row by block row of p.
template <Scalar T>
void CudaCholeskyKernels<T>::do_panel(Queue& queue, const WorkInfo& info, In l11, In tile_scratch,
                                      Out a21, Out packed) const {
  const std::int64_t n = l11.rows();
  require(tile_scratch.columns() >= 2 * n, "panel");
  CudaQueue& cuda = as_cuda(queue);
  const In adjoint = tile_scratch.block(0, 0, n, n);
  const In inverse = tile_scratch.block(0, n, n, n);
  // Here and not below: memory that is short is to be missed in the first panel.
  T* const scratch = static_cast<T*>(cuda.scratch(own_scratch));
  const PanelSolver solver = OwnCholesky<T>::panel_solver(elements(adjoint), elements(inverse),
                                                          elements(In(a21)), elements(In(packed)));
  if (solver != PanelSolver::products) {
    cuda.launch(info, [&] {
      OwnCholesky<T>::solve_panel(cuda.stream(), solver, elements(adjoint), elements(inverse),
                                  elements(a21), elements(packed));
    });
    return;
  }
  in_parts<T>(queue, this->base(), scratch, a21, packed, [&](Out residual, Out p) {
    const std::int64_t most = widest_block(p.columns());
    for (std::int64_t begin = 0; begin < n; begin += most) {
      const std::int64_t width = std::min(most, n - begin);
      solve_block<T>(queue, this->base(), adjoint.block(0, begin, begin, width),
                     row_range(p, 0, begin), adjoint.block(begin, begin, width, width),
                     inverse.block(begin, begin, width, width), row_range(residual, begin, width),
                     row_range(p, begin, width));
    }
  });
}

// Likewise, from the last block to the first.
template <Scalar T>
void CudaCholeskyKernels<T>::do_inverse_panel(Queue& queue, In l11, In m11, Out s21,
                                              Out packed) const {
  const std::int64_t n = l11.rows();
  T* const scratch = static_cast<T*>(as_cuda(queue).scratch(own_scratch));
  in_parts<T>(queue, this->base(), scratch, s21, packed, [&](Out residual, Out p) {
    const std::int64_t most = widest_block(p.columns());
    for (std::int64_t end = n; end > 0; end -= most) {
      const std::int64_t begin = std::max<std::int64_t>(end - most, 0);
      const std::int64_t width = end - begin;
      solve_block<T>(queue, this->base(), l11.block(end, begin, n - end, width),
                     row_range(p, end, n - end), l11.block(begin, begin, width, width),
                     m11.block(begin, begin, width, width), row_range(residual, begin, width),
                     row_range(p, begin, width));
    }
  });
}

template <Scalar T>
std::int64_t CudaCholeskyKernels<T>::packed_rows(std::int64_t tile) const {
  return OwnCholesky<T>::splits_panels(tile) ? tile + OwnCholesky<T>::split_rows : tile;
}

template <Scalar T>
void CudaCholeskyKernels<T>::do_prepare_updates(Queue& queue, Out packed) const {
  if (OwnCholesky<T>::splits_panels(packed.rows())) {
    require_split<T>(packed);
    CudaQueue& cuda = as_cuda(queue);
    cuda.launch({.name = "split"},
                [&] { OwnCholesky<T>::split_panel(cuda.stream(), elements(packed)); });
  }
}

template <Scalar T>
void CudaCholeskyKernels<T>::do_update(Queue& queue, In left, In right,
                                       const std::vector<PanelUpdate<T>>& updates) const {
  if (!OwnCholesky<T>::updates_panels(elements(left)) ||
      !OwnCholesky<T>::updates_panels(elements(right))) {
    CholeskyKernels<T>::do_update(queue, left, right, updates);
    return;
  }
  if (OwnCholesky<T>::splits_panels(left.rows())) {
    require_split(left);
    require_split(right);
  }
  CudaQueue& cuda = as_cuda(queue);
  const UpdateTileSize largest{update_rows, update_columns<Element<T>>};
  std::int64_t tiles = 0;
  for (const PanelUpdate<T>& update : updates) {
    tiles += update.count * tiles_of(update, largest).changed;
  }
  const UpdatePieces<Element<T>> none{.size = OwnCholesky<T>::update_size(tiles)};
  UpdatePieces<Element<T>> pieces = none;
  WorkInfo info{.name = "update"};
  const auto enqueue = [&] {
    cuda.launch(info, [&] {
      OwnCholesky<T>::update(cuda.stream(), elements(left), elements(right), pieces);
    });
    pieces = none;
    info.flops = 0.0;
  };
  for (const PanelUpdate<T>& update : updates) {
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

template class CudaCholeskyKernels<float>;
template class CudaCholeskyKernels<double>;
template class CudaCholeskyKernels<std::complex<float>>;
template class CudaCholeskyKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::cuda
