#include "runtime/host/chase_vectors.hpp"

#include "runtime/host/avx512.hpp"
#include "runtime/host/blas.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace shardsolve::runtime::host {

#ifdef SHARDSOLVE_AVX512

namespace avx512 {
namespace {

/// A column, or what stands beside one, in `count` vectors, of which the last may be cut.
template <class Real, std::int64_t count>
struct Column {
  static constexpr std::int64_t most = count * lanes<Real>;

  Vector<Real> part[count] = {};

  [[SHARDSOLVE_AVX512, gnu::always_inline]] static Mask<Real> mask(std::int64_t i,
                                                                   Mask<Real> last) {
    return i == count - 1 ? last : first_lanes<Real>(lanes<Real>);
  }
  [[SHARDSOLVE_AVX512, gnu::always_inline]] void read(const Real* from, Mask<Real> last) {
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < count; ++i) {
      part[i] = load(from + i * lanes<Real>, mask(i, last));
    }
  }
  [[SHARDSOLVE_AVX512, gnu::always_inline]] void write(Real* to, Mask<Real> last) const {
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < count; ++i) {
      store(part[i], to + i * lanes<Real>, mask(i, last));
    }
  }
  /// += factor x
  [[SHARDSOLVE_AVX512, gnu::always_inline]] void add(Real factor, const Column& x) {
    const Vector<Real> factors = all(factor);
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < count; ++i) {
      part[i] = add_product(factors, x.part[i], part[i]);
    }
  }
  [[SHARDSOLVE_AVX512, gnu::always_inline]] Real dot(const Column& x) const {
    Vector<Real> sums[2] = {};
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < count; ++i) {
      sums[i % 2] = add_product(part[i], x.part[i], sums[i % 2]);
    }
    return across<Real>(sums[0] + sums[1]);
  }
};

template <class Real, std::int64_t count>
Mask<Real> last_mask(std::int64_t rows) {
  return first_lanes<Real>(rows - (count - 1) * lanes<Real>);
}

template <class Real, std::int64_t count>
[[SHARDSOLVE_AVX512]] void run_block(MatrixView<Real> block, const Real* before, Real* reflector) {
  const Mask<Real> last = last_mask<Real, count>(block.rows());
  Real* const v = reflector + 1;
  // u = -tau (block v) of the reflector before
  Column<Real, count> u;
  if (before != nullptr) {
    Column<Real, count> sums;
    for (std::int64_t j = 0; j < block.columns(); ++j) {
      Column<Real, count> column;
      column.read(&block(0, j), last);
      sums.add(before[1 + j], column);
    }
    u.add(-before[0], sums);
  }
  Column<Real, count> column;
  column.read(&block(0, 0), last);
  if (before != nullptr) {
    column.add(before[1], u);
  }
  column.write(v, last);
  const Real tau = blas::Blas<Real>::larfg(block.rows(), v);
  reflector[0] = tau;
  std::fill_n(&block(0, 0), block.rows(), Real{0});
  block(0, 0) = v[0];
  v[0] = Real{1};
  Column<Real, count> left;
  left.read(v, last);
  for (std::int64_t j = 1; j < block.columns(); ++j) {
    column.read(&block(0, j), last);
    column.add(before[1 + j], u);
    column.add(-tau * column.dot(left), left);
    column.write(&block(0, j), last);
  }
}

/// Columns whose diagonal entries are in vector `first`: of d v what they and their transposes
/// give.
template <class Real, std::int64_t count, std::int64_t first>
[[SHARDSOLVE_AVX512, gnu::always_inline]] inline void multiply_columns(
    MatrixView<Real> d, const Real* numbers, const Column<Real, count>& v, Mask<Real> last,
    Column<Real, count>& sums, Real* dots) {
  const std::int64_t end = std::min((first + 1) * lanes<Real>, d.rows());
  for (std::int64_t j = first * lanes<Real>; j < end; ++j) {
    const Real* const column = &d(0, j);
    const Vector<Real> factor = all(numbers[j]);
    const Mask<Real> below = lanes_from<Real>(j + 1 - first * lanes<Real>);
    Vector<Real> dot[2] = {};
#pragma GCC unroll 8
    for (std::int64_t i = first; i < count; ++i) {
      const Mask<Real> whole = Column<Real, count>::mask(i, last);
      const Mask<Real> mask = i == first ? static_cast<Mask<Real>>(whole & below) : whole;
      const Vector<Real> part = load(column + i * lanes<Real>, mask);
      sums.part[i] = add_product(part, factor, sums.part[i]);
      dot[i % 2] = add_product(part, v.part[i], dot[i % 2]);
    }
    dots[j] = across<Real>(dot[0] + dot[1]) + d(j, j) * numbers[j];
  }
}

/// Likewise d -= w v^T + v w^T.
template <class Real, std::int64_t count, std::int64_t first>
[[SHARDSOLVE_AVX512, gnu::always_inline]] inline void update_columns(
    MatrixView<Real> d, const Real* v_numbers, const Real* w_numbers, const Column<Real, count>& v,
    const Column<Real, count>& w, Mask<Real> last) {
  const std::int64_t end = std::min((first + 1) * lanes<Real>, d.rows());
  for (std::int64_t j = first * lanes<Real>; j < end; ++j) {
    Real* const column = &d(0, j);
    const Vector<Real> v_j = all(v_numbers[j]);
    const Vector<Real> w_j = all(w_numbers[j]);
    const Mask<Real> below = lanes_from<Real>(j + 1 - first * lanes<Real>);
#pragma GCC unroll 8
    for (std::int64_t i = first; i < count; ++i) {
      const Mask<Real> whole = Column<Real, count>::mask(i, last);
      const Mask<Real> mask = i == first ? static_cast<Mask<Real>>(whole & below) : whole;
      Vector<Real> part = load(column + i * lanes<Real>, mask);
      part = take_product(w.part[i], v_j, part);
      part = take_product(v.part[i], w_j, part);
      store(part, column + i * lanes<Real>, mask);
    }
  }
}

template <class Real, std::int64_t count, std::size_t... first>
[[SHARDSOLVE_AVX512]] void run_triangle(MatrixView<Real> d, const Real* reflector, Real* w_numbers,
                                        std::index_sequence<first...>) {
  const Mask<Real> last = last_mask<Real, count>(d.rows());
  const Real* const numbers = reflector + 1;
  Column<Real, count> v;
  v.read(numbers, last);
  Column<Real, count> sums;
  Real dots[Column<Real, count>::most];
  (multiply_columns<Real, count, first>(d, numbers, v, last, sums, dots), ...);
  Column<Real, count> w;
  w.read(dots, last);
  w.add(Real{1}, sums);
  Column<Real, count> p;
  p.add(reflector[0], w);
  const Real square = v.dot(v);
  p.add(-p.dot(v) / square, v);
  p.add(-p.dot(v) / square, v);
  p.write(w_numbers, last);
  (update_columns<Real, count, first>(d, numbers, w_numbers, v, p, last), ...);
}

/// Calls call(std::integral_constant) with how many vectors so many rows are.
template <class Real, class Call>
void with_vectors(std::int64_t rows, Call call) {
  switch ((rows + lanes<Real> - 1) / lanes<Real>) {
    case 1:
      return call(std::integral_constant<std::int64_t, 1>{});
    case 2:
      return call(std::integral_constant<std::int64_t, 2>{});
    case 3:
      return call(std::integral_constant<std::int64_t, 3>{});
    case 4:
      return call(std::integral_constant<std::int64_t, 4>{});
    case 5:
      return call(std::integral_constant<std::int64_t, 5>{});
    case 6:
      return call(std::integral_constant<std::int64_t, 6>{});
    case 7:
      return call(std::integral_constant<std::int64_t, 7>{});
    default:
      return call(std::integral_constant<std::int64_t, 8>{});
  }
}

}  // namespace
}  // namespace avx512

template <class Real>
void chase_block(MatrixView<Real> block, const Real* before, Real* reflector) {
  avx512::with_vectors<Real>(block.rows(), [&](auto count) {
    avx512::run_block<Real, count()>(block, before, reflector);
  });
}

template <class Real>
void chase_triangle(MatrixView<Real> d, const Real* reflector, Real* w) {
  avx512::with_vectors<Real>(d.rows(), [&](auto count) {
    avx512::run_triangle<Real, count()>(d, reflector, w, std::make_index_sequence<count()>());
  });
}

#else

template <class Real>
void chase_block(MatrixView<Real>, const Real*, Real*) {}
template <class Real>
void chase_triangle(MatrixView<Real>, const Real*, Real*) {}

#endif

template void chase_block(MatrixView<float>, const float*, float*);
template void chase_block(MatrixView<double>, const double*, double*);
template void chase_triangle(MatrixView<float>, const float*, float*);
template void chase_triangle(MatrixView<double>, const double*, double*);

}  // namespace shardsolve::runtime::host
