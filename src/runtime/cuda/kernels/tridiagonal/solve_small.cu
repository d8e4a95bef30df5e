/// Eigenvalues and eigenvectors of small tridiagonal matrices, a warp each.
///
/// Implicit QL iterations with Wilkinson's shift (A. Dubrulle, Numer. Math. 12 (1968) 377), of a
/// block turned over where its larger numbers are above: of a matrix of low rank rounding keeps
/// changing the rest until these have moved down. (LAPACK's steqr compares its first and its last
/// entry.) Every lane makes all steps, in numbers of its own, and applies their rotations to its
/// row of the eigenvectors: no lane waits for another one.
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/tridiagonal_device_kernels.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int lanes = 32;
constexpr int max_rows = TridiagonalDeviceKernels<double>::max_small;
static_assert(max_rows <= lanes, "a lane has one row");
/// For each eigenvalue, of all together: two or three are usual, but the first ones may take most.
constexpr int max_turns = 30;

/// A small matrix, its largest entry from 1 to 2, and one row of its eigenvectors.
template <class Real>
struct SmallSystem {
  static constexpr Real unit = std::numeric_limits<Real>::epsilon() / 2;
  /// What is smaller is nothing beside the matrix, and has too few digits for a rotation.
  static constexpr Real nothing = std::numeric_limits<Real>::min() / unit;

  Real d[max_rows];
  Real e[max_rows];
  Real z[max_rows];
  int order;

  /// Whether T falls apart behind row i.
  __device__ bool is_torn_behind(int i) const {
    const Real size = std::abs(e[i]);
    return size <= nothing || size <= unit * (std::abs(d[i]) + std::abs(d[i + 1]));
  }
  __device__ int end_of_block(int first) const {
    int last = first;
    while (last + 1 < order && !is_torn_behind(last)) {
      ++last;
    }
    return last;
  }

  __device__ bool is_larger_above(int first, int last) const {
    const int middle = first + (last - first + 1) / 2;
    Real above = 0;
    Real below = 0;
    for (int i = first; i <= last; ++i) {
      (i < middle ? above : below) += std::abs(d[i]) + (i < last ? std::abs(e[i]) : Real{0});
    }
    return above > below;
  }

  /// One step for the block of rows first .. last, from below upwards; turned over, from above
  /// downwards.
  __device__ void step(int first, int last, bool turned) {
    // Row i of the block and what is behind it, counted from its other end where it is turned over.
    const auto row = [=](int i) { return turned ? first + last - i : i; };
    const auto behind = [=](int i) { return turned ? first + last - 1 - i : i; };
    Real g = (d[row(first + 1)] - d[row(first)]) / (2 * e[behind(first)]);
    g = d[row(last)] - d[row(first)] +
        e[behind(first)] / (g + std::copysign(std::hypot(g, Real{1}), g));
    Real s = 1;
    Real c = 1;
    Real p = 0;
    for (int i = last - 1; i >= first; --i) {
      const Real f = s * e[behind(i)];
      const Real b = c * e[behind(i)];
      Real r = g;
      if (std::abs(f) <= nothing) {  // nothing to rotate away
        s = 0;
        c = 1;
      } else {
        r = std::hypot(f, g);
        s = f / r;
        c = g / r;
      }
      if (i + 1 < last) {
        e[behind(i + 1)] = r;
      }
      g = d[row(i + 1)] - p;
      r = (d[row(i)] - g) * s + 2 * c * b;
      p = s * r;
      d[row(i + 1)] = g + p;
      g = c * r - b;
      const Real right = z[row(i + 1)];
      z[row(i + 1)] = s * z[row(i)] + c * right;
      z[row(i)] = c * z[row(i)] - s * right;
    }
    d[row(first)] -= p;
    e[behind(first)] = g;
  }

  /// 0, or the number, from 1 on, of an eigenvalue that was not found.
  __device__ std::int64_t solve() {
    int turn = 0;
    for (int first = 0; first < order; ++first) {
      int block_end = -1;
      bool turned = false;
      for (int last = end_of_block(first); last > first; last = end_of_block(first)) {
        if (turn == max_turns * order) {
          return first + 1;
        }
        if (last != block_end) {
          turned = is_larger_above(first, last);
          block_end = last;
        }
        step(first, last, turned);
        ++turn;
      }
    }
    return 0;
  }

  /// Where an eigenvalue stands in ascending order.
  __device__ int place(int k) const {
    int before = 0;
    for (int j = 0; j < order; ++j) {
      before += d[j] < d[k] || (d[j] == d[k] && j < k) ? 1 : 0;
    }
    return before;
  }
};

template <class Real>
__global__ void __launch_bounds__(lanes)
    solve_parts(Tridiagonal<Real> t, SmallParts parts, Real* values, DeviceMatrix<Real> vectors,
                std::int64_t* infos) {
  const std::int64_t part = blockIdx.x;
  const std::int64_t begin = parts.bounds == nullptr ? 0 : parts.bounds[2 * part];
  const std::int64_t end = parts.bounds == nullptr ? t.order : parts.bounds[2 * part + 1];
  const int row = static_cast<int>(threadIdx.x);
  SmallSystem<Real> system;
  system.order = static_cast<int>(end - begin);
  if (row >= system.order) {
    if (row == 0) {
      infos[part] = 0;
    }
    return;
  }
  Real largest = 0;
  for (int i = 0; i < system.order; ++i) {
    system.d[i] = t.diagonal[begin + i];
    system.e[i] = i + 1 < system.order ? t.off_diagonal[begin + i] : Real{0};
    system.z[i] = i == row ? Real{1} : Real{0};
    largest = std::fmax(largest, std::fmax(std::abs(system.d[i]), std::abs(system.e[i])));
  }
  const int exponent = largest > 0 && std::isfinite(largest) ? std::ilogb(largest) : 0;
  for (int i = 0; i < system.order; ++i) {
    system.d[i] = std::scalbn(system.d[i], -exponent);
    system.e[i] = std::scalbn(system.e[i], -exponent);
  }
  const std::int64_t info = system.solve();
  for (int k = 0; k < system.order; ++k) {
    const int place = system.place(k);
    vectors(begin + row, begin + place) = system.z[k];
    if (row == 0) {
      values[begin + place] = std::scalbn(system.d[k], exponent);
    }
  }
  if (row == 0) {
    infos[part] = info;
  }
}

}  // namespace

template <class Real>
void TridiagonalDeviceKernels<Real>::solve_small(cudaStream_t stream, const Tridiagonal<Real>& t,
                                                 const SmallParts& parts, Real* values, Out vectors,
                                                 std::int64_t* infos) {
  launch(stream, &solve_parts<Real>, parts.count, {dim3(lanes)}, t, parts, values, device(vectors),
         infos);
}

template void TridiagonalDeviceKernels<float>::solve_small(cudaStream_t, const Tridiagonal<float>&,
                                                           const SmallParts&, float*, Out,
                                                           std::int64_t*);
template void TridiagonalDeviceKernels<double>::solve_small(cudaStream_t,
                                                            const Tridiagonal<double>&,
                                                            const SmallParts&, double*, Out,
                                                            std::int64_t*);

}  // namespace shardsolve::runtime::cuda
