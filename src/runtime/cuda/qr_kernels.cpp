#include "runtime/cuda/qr_kernels.hpp"

#include "runtime/cuda/cholesky_device_kernels.hpp"
#include "runtime/cuda/panel_products.hpp"
#include "runtime/cuda/qr_device_kernels.hpp"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <type_traits>

namespace shardsolve::runtime::cuda {
namespace {

/// The kernels of our own for T, and for the small matrices.
template <Scalar T>
using OwnQr = QrDeviceKernels<Element<T>>;
template <Scalar T>
using OwnSmall = SmallQrDeviceKernels<Element<WideOf<T>>>;

/// Rows of the pieces that tall products are made of, at least; and tiles of 64 x 64 sums that all
/// of them are to have.
constexpr std::int64_t rows_of_a_piece = 1024;
constexpr std::int64_t tiles_of_products = 256;
/// Columns of Gram matrices that are made at a time: of others their lower triangles would be.
constexpr std::int64_t gram_columns = 256;

/// Columns of the blocks of a triangle that is divided by, and rows from which on that is done.
constexpr std::int64_t divide_columns = 128;
constexpr std::int64_t least_rows_by_blocks = 4096;

/// Columns of the blocks that Gram matrices are factored by.
constexpr std::int64_t gram_block = wide_panel_block;

template <class V>
V* scratch_of(CudaQueue& queue, std::size_t bytes) {
  return static_cast<V*>(queue.scratch(std::max(own_scratch, bytes)));
}

/// Rows of so many columns in double precision that there is scratch memory for at a time.
template <Scalar W>
std::int64_t rows_at_once(std::int64_t columns) {
  const auto elements = static_cast<std::int64_t>(own_scratch / sizeof(W));
  return std::max<std::int64_t>(elements / std::max<std::int64_t>(columns, 1), 256);
}

template <Scalar W>
std::size_t bytes_of(std::int64_t elements) {
  return static_cast<std::size_t>(elements) * sizeof(W);
}

}  // namespace

template <Scalar T>
void CudaQrKernels<T>::do_scale_columns(Queue& queue, const WorkInfo& info, In source,
                                        const std::int64_t* exponents, Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnQr<T>::scale_columns(cuda.stream(), elements(source), exponents, elements(target));
  });
}

template <Scalar T>
void CudaQrKernels<T>::add_tall_product(CudaQueue& queue, InWide left, InWide right,
                                        std::int64_t diagonal, Wide* products, std::size_t bytes,
                                        OutWide target) const {
  const std::int64_t size = target.rows() * target.columns();
  const std::int64_t room = std::max<std::int64_t>(
      static_cast<std::int64_t>(bytes) / (size * std::int64_t{sizeof(Wide)}), 1);
  const auto in_tiles = [](std::int64_t count) { return (count + 63) / 64; };
  const std::int64_t wanted =
      tiles_of_products / (in_tiles(target.rows()) * in_tiles(target.columns()));
  const std::int64_t pieces =
      std::clamp(std::min(wanted, left.rows() / rows_of_a_piece), std::int64_t{1}, room);
  const std::int64_t rows = left.rows() / pieces;
  const OutWide first(products, target.rows(), target.columns());
  const auto multiply = [&](std::int64_t row, std::int64_t count, Wide keep, std::int64_t at_once) {
    wide_.gemm_batch(queue, Op::conjugate_transpose, Op::none, Wide{1}, row_range(left, row, count),
                     row_range(right, row, count), keep, first, {at_once, count, count, size});
  };
  multiply(0, rows, Wide{0}, pieces);
  if (pieces * rows < left.rows()) {
    multiply(pieces * rows, left.rows() - pieces * rows, Wide{1}, 1);
  }
  queue.launch({.name = "add"}, [&] {
    OwnSmall<T>::add_products(queue.stream(), elements(InWide(first)).data(), pieces, diagonal,
                              elements(target));
  });
}

template <Scalar T>
template <class Work>
void CudaQrKernels<T>::in_wide_parts(CudaQueue& queue, In a, In b, std::size_t least,
                                     Work work) const {
  const std::size_t bytes = std::max(own_scratch, least);
  if constexpr (std::is_same_v<T, Wide>) {
    if (a.rows() > 0) {
      work(a, b, scratch_of<Wide>(queue, bytes));
    }
  } else {
    const std::int64_t columns = a.columns() + b.columns();
    const std::int64_t at_once = std::min(rows_at_once<Wide>(columns), a.rows());
    const std::int64_t parts = at_once * columns;
    Wide* const scratch = scratch_of<Wide>(queue, bytes_of<Wide>(parts) + bytes);
    for (std::int64_t first = 0; first < a.rows(); first += at_once) {
      const std::int64_t count = std::min(at_once, a.rows() - first);
      const OutWide some_a(scratch, count, a.columns());
      const OutWide some_b(scratch + count * a.columns(), count, b.columns());
      wide_.convert(queue, row_range(a, first, count), some_a);
      if (!b.empty()) {
        wide_.convert(queue, row_range(b, first, count), some_b);
      }
      work(some_a, some_b, scratch + parts);
    }
  }
}

template <Scalar T>
void CudaQrKernels<T>::do_adjoint_product(Queue& queue, const WorkInfo& /*info*/, In a, In b,
                                          OutWide target) const {
  CudaQueue& cuda = as_cuda(queue);
  wide_.fill(queue, Wide{0}, target);
  const std::size_t one = bytes_of<Wide>(target.rows() * target.columns());
  in_wide_parts(cuda, a, b, one, [&](InWide some_a, InWide some_b, Wide* scratch) {
    add_tall_product(cuda, some_a, some_b, target.rows(), scratch, std::max(own_scratch, one),
                     target);
  });
}

template <Scalar T>
void CudaQrKernels<T>::do_gram(Queue& queue, const WorkInfo& /*info*/, In a, OutWide g) const {
  CudaQueue& cuda = as_cuda(queue);
  const std::int64_t n = a.columns();
  wide_.fill(queue, Wide{0}, g);
  const std::size_t one = bytes_of<Wide>(n * gram_columns);
  in_wide_parts(
      cuda, a, In(a.data(), a.rows(), 0), one, [&](InWide some, InWide /*none*/, Wide* scratch) {
        for (std::int64_t begin = 0; begin < n; begin += gram_columns) {
          const std::int64_t width = std::min(gram_columns, n - begin);
          add_tall_product(cuda, some.columns_from(0, begin + width),
                           some.columns_from(begin, width), begin, scratch,
                           std::max(own_scratch, one), g.block(0, begin, begin + width, width));
        }
      });
}

template <Scalar T>
void CudaQrKernels<T>::factor(CudaQueue& queue, OutWide g, Wide* scratch,
                              std::int64_t* infos) const {
  using Tile = CholeskyDeviceKernels<Element<Wide>>;
  static_assert(gram_block <= Tile::largest_tile);
  const std::int64_t n = g.columns();
  const OutWide tiles(scratch, gram_block, 3 * gram_block);
  for (std::int64_t begin = 0; begin < n; begin += gram_block) {
    const std::int64_t width = std::min(gram_block, n - begin);
    const OutWide diagonal = g.block(begin, begin, width, width);
    const OutWide lower = tiles.block(0, 0, width, width);
    const OutWide adjoint = tiles.block(0, gram_block, width, width);
    const OutWide inverse = tiles.block(0, 2 * gram_block, width, width);
    wide_.conjugate_transpose(queue, diagonal, lower);
    queue.launch({.name = "gram factor"}, [&] {
      Tile::factor_tile(queue.stream(), elements(lower), elements(adjoint), elements(inverse),
                        gram_block, infos + begin / gram_block);
    });
    wide_.copy(queue, adjoint, diagonal);
    const std::int64_t rest = n - begin - width;
    if (rest > 0) {
      const OutWide beside = g.block(begin, begin + width, width, rest);
      wide_.trsm(queue, Side::left, Triangle::upper, Op::conjugate_transpose, diagonal, beside);
      wide_.herk(queue, Triangle::upper, Op::conjugate_transpose, -1.0, beside, 1.0,
                 g.block(begin + width, begin + width, rest, rest));
    }
  }
}

template <Scalar T>
void CudaQrKernels<T>::do_gram_factor(Queue& queue, const WorkInfo& info, double shift, OutWide g,
                                      std::int64_t* verdict) const {
  CudaQueue& cuda = as_cuda(queue);
  const std::int64_t n = g.columns();
  if (n == 0) {
    queue.store(verdict, static_cast<std::int64_t>(GramVerdict::near), 1);
    return;
  }
  const std::int64_t blocks = (n + gram_block - 1) / gram_block;
  const std::int64_t tiles = 3 * gram_block * gram_block;
  const std::size_t numbers = sizeof(double) * static_cast<std::size_t>(2 * n + 2 + 2 * blocks);
  Wide* const scratch = scratch_of<Wide>(cuda, bytes_of<Wide>(2 * n * n + tiles) + numbers);
  const OutWide plain(scratch + tiles, n, n);
  const OutWide shifted(plain.data() + n * n, n, n);
  auto* const sums = reinterpret_cast<double*>(shifted.data() + n * n);
  const typename OwnSmall<T>::GramChoice choice{
      .sums = sums,
      .numbers = sums + 2 * n,
      .infos = reinterpret_cast<std::int64_t*>(sums + 2 * n + 2),
      .blocks = blocks};
  cuda.launch({.name = info.name},
              [&] { OwnSmall<T>::compare_gram(cuda.stream(), elements(g), elements(plain)); });
  const bool is_squared = n <= max_squared_columns;
  if (is_squared) {
    wide_.gemm(queue, Op::none, Op::none, Wide{1}, plain, plain, Wide{0}, shifted);
  }
  cuda.launch({.name = info.name}, [&] {
    OwnSmall<T>::begin_gram(cuda.stream(), shift, elements(g),
                            elements(is_squared ? shifted : plain), is_squared ? 1.0 / 16 : 0.25,
                            elements(plain), elements(shifted), choice);
  });
  factor(cuda, plain, scratch, choice.infos);
  factor(cuda, shifted, scratch, choice.infos + blocks);
  cuda.launch({.name = info.name}, [&] {
    OwnSmall<T>::choose_factor(cuda.stream(), elements(plain), elements(shifted), choice,
                               elements(g), verdict);
  });
}

// A solve by cuBLAS takes four times as long as the products that it could be. A block's correction
// is that of panel_products.hpp; it needs an inverse with some digits, which shifts see to in
// double precision.
template <Scalar T>
void CudaQrKernels<T>::divide_by_blocks(CudaQueue& queue, In r, Out q, bool corrected) const {
  const std::int64_t n = r.columns();
  const std::int64_t width = std::min(divide_columns, n);
  const auto room = static_cast<std::int64_t>(own_scratch / sizeof(T)) / width - n;
  // Of fewer rows cuBLAS takes twice the time a row.
  const std::int64_t at_once = std::min(std::max({room, width, q.rows() / 8}), q.rows());
  const Out inverses(scratch_of<T>(queue, bytes_of<T>((n + at_once) * width)), width, n);
  for (std::int64_t begin = 0; begin < n; begin += width) {
    const std::int64_t count = std::min(width, n - begin);
    const Out inverse = inverses.block(0, begin, count, count);
    base_.identity(queue, inverse);
    base_.trsm(queue, Side::right, Triangle::upper, Op::none, r.block(begin, begin, count, count),
               inverse);
  }
  const auto multiply = [&](T factor, In a, In b, T keep, Out c) {
    base_.gemm(queue, Op::none, Op::none, factor, a, b, keep, c);
  };
  for (std::int64_t row = 0; row < q.rows(); row += at_once) {
    const Out some = row_range(q, row, std::min(at_once, q.rows() - row));
    for (std::int64_t begin = 0; begin < n; begin += width) {
      const std::int64_t count = std::min(width, n - begin);
      const In inverse = inverses.block(0, begin, count, count);
      const Out own = some.columns_from(begin, count);
      const Out found(inverses.data() + n * width, some.rows(), count);
      if (begin > 0) {
        multiply(T{-1}, some.columns_from(0, begin), r.block(0, begin, begin, count), T{1}, own);
      }
      multiply(T{1}, own, inverse, T{0}, found);
      if (corrected) {
        multiply(T{-1}, found, r.block(begin, begin, count, count), T{1}, own);
        multiply(T{1}, own, inverse, T{1}, found);
      }
      base_.copy(queue, found, own);
    }
  }
}

template <Scalar T>
void CudaQrKernels<T>::do_divide(Queue& queue, const WorkInfo& /*info*/, InWide r, Out q,
                                 bool is_near) const {
  CudaQueue& cuda = as_cuda(queue);
  if constexpr (std::is_same_v<T, Wide>) {
    if (q.rows() >= least_rows_by_blocks) {
      divide_by_blocks(cuda, r, q, !is_near);
    } else {
      base_.trsm(queue, Side::right, Triangle::upper, Op::none, r, q);
    }
  } else {
    const std::int64_t n = r.columns();
    const Out narrow(scratch_of<T>(cuda, bytes_of<T>(n * n)), n, n);
    base_.convert(queue, r, narrow);
    base_.trsm(queue, Side::right, Triangle::upper, Op::none, narrow, q);
  }
}

template <Scalar T>
void CudaQrKernels<T>::do_reflect(Queue& queue, const WorkInfo& info, Out a, OutWide r) const {
  CudaQueue& cuda = as_cuda(queue);
  Wide* const scales = scratch_of<Wide>(cuda, bytes_of<Wide>(r.rows()));
  cuda.launch(info, [&] {
    OwnQr<T>::reflect(cuda.stream(), elements(a), elements(r),
                      reinterpret_cast<Element<Wide>*>(scales));
  });
}

template <Scalar T>
void CudaQrKernels<T>::do_singular_values(Queue& queue, const WorkInfo& info, OutWide a, double* s,
                                          OutWide u, OutWide vh, std::int64_t* verdict) const {
  CudaQueue& cuda = as_cuda(queue);
  const std::int64_t n = a.columns();
  const std::size_t bytes = OwnSmall<T>::singular_values_scratch(n);
  const std::size_t of_copy = u.empty() ? static_cast<std::size_t>(n * n) * sizeof(Wide) : 0;
  std::byte* const scratch = scratch_of<std::byte>(cuda, bytes + of_copy);
  const OutWide copy = u.empty() ? OutWide(reinterpret_cast<Wide*>(scratch), n, n) : vh;
  // Of a^H = v diag(s) u^H: rows of a triangle are closer to orthogonal than its columns, so fewer
  // rotations are needed (K. Veselic, V. Hari, Numer. Math. 56 (1990) 627).
  wide_.conjugate_transpose(queue, a, copy);
  wide_.copy(queue, copy, a);
  cuda.launch(info, [&] {
    OwnSmall<T>::singular_values(cuda.stream(), elements(a), s, elements(u), elements(vh), verdict,
                                 scratch + of_copy);
  });
  if (u.empty()) {
    return;
  }
  wide_.conjugate_transpose(queue, u, a);
  wide_.conjugate_transpose(queue, vh, u);
  wide_.copy(queue, a, vh);
}

template <Scalar T>
void CudaQrKernels<T>::do_column_sizes(Queue& queue, const WorkInfo& info, In a,
                                       double* target) const {
  CudaQueue& cuda = as_cuda(queue);
  const std::size_t bytes = OwnQr<T>::column_sizes_scratch(a.rows(), a.columns());
  void* const scratch = scratch_of<std::byte>(cuda, bytes);
  cuda.launch(info, [&] { OwnQr<T>::column_sizes(cuda.stream(), elements(a), target, scratch); });
}

template class CudaQrKernels<float>;
template class CudaQrKernels<double>;
template class CudaQrKernels<std::complex<float>>;
template class CudaQrKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::cuda
