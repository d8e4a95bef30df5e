/// What kernels are told beside their operands. Seen by the compilers on both sides: nothing here
/// is more than numbers and views.
#pragma once

#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime {

/// Of a factor of a product. For real numbers the two transposes are one.
enum class Op : char { none = 'N', transpose = 'T', conjugate_transpose = 'C' };
enum class Side : char { left = 'L', right = 'R' };
enum class Triangle : char { lower = 'L', upper = 'U' };

/// The operands of `count` kernels of one shape. Element (0, 0) of a's operand in kernel i lies
/// i * a elements behind that in kernel 0; likewise b and c.
struct BatchStrides {
  std::int64_t count = 1;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;
};

template <class T>
MatrixView<T> moved(MatrixView<T> view, std::int64_t elements) {
  return {view.data() + elements, view.rows(), view.columns(), view.stride()};
}

template <class Real>
using OtherReal = std::conditional_t<std::is_same_v<Real, float>, double, float>;

/// What one pass over columns of a matrix finds; see Kernels::inspect. All in double precision.
struct Inspection {
  /// Per column: sum of |scale * a_ij|, for complex ones sqrt(re^2 + im^2) without scaling.
  double* column_sums = nullptr;
  double* probe = nullptr;            ///< per column: (A^H v)_j, two doubles if complex, else one
  double* partial_product = nullptr;  ///< per row: sum over these columns of a_ij v_j, likewise
};

}  // namespace shardsolve::runtime
