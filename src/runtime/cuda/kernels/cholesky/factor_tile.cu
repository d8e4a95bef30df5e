/// Cholesky factor of a tile and its inverse, on the critical path of every algorithm: as few
/// launches one after another as there are columns of small squares.
///
/// The tile is cut into squares (i, j). Step k takes the trailing matrix A and the inverse so far,
///
///     A(k, k) = L(k, k) L(k, k)^H
///     L(i, k) = A(i, k) L(k, k)^-H                     i > k
///     W(c, k) = B(c, k) L(k, k)^-H                     c <= k
///     A(i, j) = A(i, j) - L(i, k) L(j, k)^H            i >= j > k
///     B(c, j) = B(c, j) - W(c, k) L(j, k)^H            c <= k < j
///
/// where B starts as the identity and W ends as L^-H: the rows of B are just more rows of A. What
/// is wanted is the inverse of wide diagonal blocks only: each is a group of squares, and c and j
/// in B and W stay in the group of k.
///
/// One block of threads computes one square of A or B; it eliminates the rows of A and B that it
/// needs by itself, because to wait for another block would take longer.
///
/// No square may be both read and written in one step by different blocks. So these live apart:
/// A in `adjoint` below the diagonal (in `a` before the first step), L in `a` (its first column in
/// `adjoint`), B in `inverse` above the diagonal, W in `adjoint` above it (its diagonal squares in
/// `inverse`). The last launch puts all of it where the caller wants it.
#include "runtime/cuda/cholesky_device_kernels.hpp"
#include "runtime/cuda/kernels/cholesky/factor_eliminate.cuh"
#include "runtime/cuda/kernels/cholesky/factor_shape.cuh"
#include "runtime/cuda/kernels/cholesky/factor_update.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/stream_tools.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

/// The square that a block updates: row <= step means B, else A. Where B has no column left, in the
/// last step of a group, its blocks come with the column behind.
struct Square {
  int row;
  int column;
};

/// The squares of one tile, and the groups in which it is inverted.
struct Squares {
  int count;
  int group;

  __host__ __device__ int group_begin(int step) const { return step / group * group; }
  __host__ __device__ int group_end(int step) const {
    const int end = group_begin(step) + group;
    return end < count ? end : count;
  }
  __host__ __device__ int rows_of_inverse(int step) const { return step + 1 - group_begin(step); }
  __host__ __device__ int columns_of_inverse(int step) const {
    const int left = group_end(step) - step - 1;
    return left > 1 ? left : 1;
  }
  /// How many are updated in a step.
  __host__ std::int64_t updated(int step) const {
    const std::int64_t columns = count - step - 1;
    return std::int64_t{rows_of_inverse(step)} * columns_of_inverse(step) +
           columns * (columns + 1) / 2;
  }
};

__device__ Square square_of(int block, int step, Squares squares) {
  const int rows_of_inverse = squares.rows_of_inverse(step);
  const int of_inverse = rows_of_inverse * squares.columns_of_inverse(step);
  if (block < of_inverse) {
    return {squares.group_begin(step) + block % rows_of_inverse,
            step + 1 + block / rows_of_inverse};
  }
  int row = block - of_inverse;
  int column = step + 1;
  while (row >= squares.count - column) {
    row -= squares.count - column;
    ++column;
  }
  return {column + row, column};
}

template <class E>
struct Factorization {
  DeviceMatrix<E> a;
  DeviceMatrix<E> adjoint;
  DeviceMatrix<E> inverse;
  std::int64_t* info;
};

/// One block's work in one step; see above.
template <class E>
class Step {
 public:
  using Shape = FactorShape<E>;
  static constexpr int side = Shape::side;

  __device__ Step(const Factorization<E>& all, int step, Squares squares)
      : all_(all),
        trailing_(choose(step == 0, all.a, all.adjoint)),
        factor_(choose(step == 0, all.adjoint, all.a)),
        square_(square_of(static_cast<int>(blockIdx.x), step, squares)),
        end_(square_.row <= step ? squares.group_end(step) : squares.count),
        n_(static_cast<int>(all.a.rows)),
        step_(step),
        top_(step * side),
        row_(static_cast<int>(threadIdx.x) % side),
        group_(static_cast<int>(threadIdx.x) / side) {}

  __device__ void run() {
    auto& shared = dynamic_shared<FactorShared<E>>();
    load(shared);
    Elimination<E>(shared).run();
    if (in_inverse() && square_.column == step_ + 1) {
      const DeviceMatrix<E> target = choose(square_.row == step_, all_.inverse, all_.adjoint);
      store(walk(target, square_.row * side + row_, side), shared.panels[1]);
    }
    if (square_.row == step_ && square_.column == step_ + 1) {
      store(walk(factor_, top_ + row_, row_ + 1), shared.panels[0]);
      report(shared);
    }
    if (square_.row == square_.column) {
      store(walk(factor_, square_.row * side + row_, side), shared.panels[1]);
    }
    if (square_.column < end_) {
      update(shared);
    }
  }

 private:
  __device__ bool in_inverse() const { return square_.row <= step_; }
  __device__ int column_of(int m) const { return group_ + Shape::groups * m; }

  /// This thread's elements of one row in the columns of this step, `length` of them.
  struct Walk {
    E* next;
    std::int64_t step;
    int length;
  };

  /// Those in row i whose column in the square is below `end`, and which are inside the tile.
  __device__ Walk walk(const DeviceMatrix<E>& matrix, int i, int end) const {
    const int columns = min(end, n_ - top_) - group_ + Shape::groups - 1;
    return {matrix.data + i + std::int64_t{top_ + group_} * matrix.stride,
            Shape::groups * matrix.stride, i < n_ ? columns / Shape::groups : 0};
  }

  static __device__ void read(Walk from, E (&x)[Shape::own]) {
#pragma unroll
    for (int m = 0; m < Shape::own; ++m) {
      if (m < from.length) {
        x[m] = *from.next;
      }
      from.next += from.step;
    }
  }

  __device__ void store(Walk to, const Panel<E>& rows) const {
#pragma unroll
    for (int m = 0; m < Shape::own; ++m) {
      if (m < to.length) {
        *to.next = rows(row_, column_of(m));
      }
      to.next += to.step;
    }
  }

  /// Beyond the edge of the tile the diagonal goes on with ones and the panels with zeros.
  __device__ void load(FactorShared<E>& shared) const {
    ThreadRows<E> x;
#pragma unroll
    for (int m = 0; m < Shape::own; ++m) {
      const E identity = from_real<E>(row_ == column_of(m) ? 1 : 0);
      x[0][m] = identity;
      x[1][m] = square_.row == step_ ? identity : from_real<E>(0);
      x[2][m] = from_real<E>(0);
    }
    read(walk(trailing_, top_ + row_, row_ + 1), x[0]);
    if (square_.row != step_) {
      const DeviceMatrix<E> panel = choose(in_inverse(), all_.inverse, trailing_);
      read(walk(panel, square_.row * side + row_, side), x[1]);
    }
    if (square_.column != square_.row && square_.column < end_) {
      read(walk(trailing_, square_.column * side + row_, side), x[2]);
    }
#pragma unroll
    for (int kind = 0; kind < row_kinds; ++kind) {
#pragma unroll
      for (int m = 0; m < Shape::own; ++m) {
        shared.panels[kind](row_, column_of(m)) = x[kind][m];
      }
    }
  }

  /// The first warp looks for the first bad pivot; an earlier step's finding stays.
  __device__ void report(const FactorShared<E>& shared) const {
    if (threadIdx.x >= lanes_a_warp) {
      return;
    }
    std::int64_t found = 0;
#pragma unroll
    for (int first = side - lanes_a_warp; first >= 0; first -= lanes_a_warp) {
      const RealPart<E> pivot = shared.pivot(first + static_cast<int>(threadIdx.x));
      const unsigned infinite = __ballot_sync(0xffffffffU, !isfinite(pivot));
      const unsigned bad = __ballot_sync(0xffffffffU, !(pivot > 0)) | infinite;
      if (bad != 0) {
        const int lane = __ffs(static_cast<int>(bad)) - 1;
        const std::int64_t column = top_ + first + lane + 1;
        found = (infinite >> lane & 1U) != 0 ? -column : column;
      }
    }
    if (threadIdx.x == 0 && (step_ == 0 || (found != 0 && *all_.info == 0))) {
      *all_.info = found;
    }
  }

  __device__ void update(const FactorShared<E>& shared) const {
    using Tile = UpdateTile<E>;
    const Tile tile;
    const DeviceMatrix<E> target = choose(in_inverse(), all_.inverse, all_.adjoint);
    const DeviceMatrix<E> old = choose(in_inverse(), all_.inverse, trailing_);
    const bool diagonal = square_.row == square_.column;
    const auto is_part = [&](int e) {
      return square_.row * side + tile.row(e) < n_ && square_.column * side + tile.column(e) < n_ &&
             (!diagonal || tile.row(e) >= tile.column(e));
    };
    E c[Tile::count];
#pragma unroll
    for (int e = 0; e < Tile::count; ++e) {
      c[e] = square_.row != step_ && is_part(e)
                 ? old(square_.row * side + tile.row(e), square_.column * side + tile.column(e))
                 : from_real<E>(0);
    }
    tile.subtract_product(c, shared.panels[1], shared.panels[diagonal ? 1 : 2]);
#pragma unroll
    for (int e = 0; e < Tile::count; ++e) {
      if (is_part(e)) {
        target(square_.row * side + tile.row(e), square_.column * side + tile.column(e)) = c[e];
      }
    }
  }

  const Factorization<E>& all_;
  const DeviceMatrix<E> trailing_;
  const DeviceMatrix<E> factor_;
  Square square_;
  int end_;  // of the columns that are updated
  int n_;
  int step_;
  int top_;
  int row_;
  int group_;
};

template <class E>
__global__ void __launch_bounds__(FactorShape<E>::threads, 1)
    factor_step(Factorization<E> all, int step, Squares squares) {
  begin_after_last();
  Step<E>(all, step, squares).run();
}

constexpr int patch = 32;
constexpr int patch_lines = 8;

/// One block a patch (row, column) on or below the diagonal and its mirror image: L goes to where
/// it is missing and, turned over, to `adjoint`, W to `inverse`; what is below the diagonal of
/// these becomes zero. `group`: columns that are inverted together; nothing is inverted outside of
/// these squares.
template <class E>
__global__ void __launch_bounds__(patch* patch_lines)
    finish_factor(Factorization<E> all, int patches, int group) {
  constexpr int side = FactorShape<E>::side;
  __shared__ E mirrored[patch][patch + 1];
  const int top = static_cast<int>(blockIdx.x) % patches * patch;
  const int left = static_cast<int>(blockIdx.x) / patches * patch;
  if (top < left) {
    return;
  }
  begin_after_last();
  const bool inverted = top / group == left / group;
  const bool in_first_column = left < side;
  const int n = static_cast<int>(all.a.rows);
  const int x = static_cast<int>(threadIdx.x);
  const DeviceMatrix<E> w = choose(top / side == left / side, all.inverse, all.adjoint);
  const DeviceMatrix<E> l = choose(in_first_column, all.adjoint, all.a);
  for (int y = static_cast<int>(threadIdx.y); y < patch; y += patch_lines) {
    const int above = left + x;
    const int right = top + y;
    if (inverted && above <= right && right < n) {
      all.inverse(above, right) = w(above, right);
    }
    const int i = top + x;
    const int j = left + y;
    if (i >= j && i < n) {
      mirrored[y][x] = l(i, j);
    }
  }
  __syncthreads();
  for (int y = static_cast<int>(threadIdx.y); y < patch; y += patch_lines) {
    const int i = top + x;
    const int j = left + y;
    if (in_first_column && i >= j && i < n) {
      all.a(i, j) = mirrored[y][x];
    }
    if (i > j && i < n) {
      all.adjoint(i, j) = from_real<E>(0);
      if (inverted) {
        all.inverse(i, j) = from_real<E>(0);
      }
    }
    const int above = left + x;
    const int right = top + y;
    if (above <= right && right < n) {
      all.adjoint(above, right) = conjugate(mirrored[x][y]);
    }
  }
}

}  // namespace

template <class E>
void CholeskyDeviceKernels<E>::factor_tile(cudaStream_t stream, Out a, Out adjoint, Out inverse,
                                           std::int64_t inverted, std::int64_t* info) {
  using Shape = FactorShape<E>;
  if (a.empty()) {
    store(stream, info, 0, 1);
    return;
  }
  const Factorization<E> all{device(a), device(adjoint), device(inverse), info};
  const Squares squares{static_cast<int>(divide_up(a.rows(), Shape::side)),
                        static_cast<int>(divide_up(inverted, Shape::side))};
  const std::size_t bytes = std::min(sizeof(FactorShared<E>), max_shared());
  allow_shared(&factor_step<E>, bytes);
  const Block block{dim3(Shape::threads), bytes};
  launch(stream, &factor_step<E>, squares.updated(0), block, all, 0, squares);
  for (int step = 1; step < squares.count; ++step) {
    launch_early(stream, &factor_step<E>, squares.updated(step), block, all, step, squares);
  }
  const int patches = static_cast<int>(divide_up(a.rows(), patch));
  launch_early(stream, &finish_factor<E>, std::int64_t{patches} * patches,
               {dim3(patch, patch_lines)}, all, patches, squares.group * Shape::side);
}

template void CholeskyDeviceKernels<float>::factor_tile(cudaStream_t, Out, Out, Out, std::int64_t,
                                                        std::int64_t*);
template void CholeskyDeviceKernels<double>::factor_tile(cudaStream_t, Out, Out, Out, std::int64_t,
                                                         std::int64_t*);
template void CholeskyDeviceKernels<Complex<float>>::factor_tile(cudaStream_t, Out, Out, Out,
                                                                 std::int64_t, std::int64_t*);
template void CholeskyDeviceKernels<Complex<double>>::factor_tile(cudaStream_t, Out, Out, Out,
                                                                  std::int64_t, std::int64_t*);

}  // namespace shardsolve::runtime::cuda
