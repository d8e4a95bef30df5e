#include "dense/qr/factor_in_columns.hpp"

#include "core/each_dtype.hpp"
#include "dense/qr/first_rank.hpp"
#include "dense/qr/householder.hpp"
#include "dense/qr/powers.hpp"
#include "dense/qr/solution.hpp"

#include <type_traits>

namespace shardsolve::dense::qr {

template <Scalar T>
Factored<T> factor_in_columns(mesh::Rank& rank, const SlabLayout& rows, MatrixView<const T> a,
                              const std::vector<double>& maxima, MatrixView<T> q) {
  using Wide = WideOf<T>;
  constexpr bool is_wide = std::is_same_v<T, Wide>;
  runtime::Queue& queue = rank.update();
  const runtime::Kernels<Wide>& kernels = rank.kernels<Wide>();
  const std::int64_t n = a.columns();
  Factored<T> factored;
  factored.exponents = exponents_to_one(maxima);
  rank.kernels<runtime::QrKernels<T>>().scale_columns(
      queue, a, rank.upload(queue, factored.exponents.data(), n), q);
  MatrixView<Wide> wide;
  if constexpr (is_wide) {
    wide = q;
  } else {
    wide = rank.workspace<Wide>(q.rows(), n);
    kernels.convert(queue, q, wide);
  }
  Householder<Wide> householder(rank, rows, n);
  householder.factor(wide, std::vector<std::int64_t>(static_cast<std::size_t>(n), 0));
  // R is there before Q takes the place of what makes it.
  const MatrixView<Wide> rows_of_r = rank.workspace<Wide>(q.rows(), n);
  householder.r_to_rows(rows_of_r);
  const MatrixView<Wide> adjoint = adjoint_on_first<Wide>(rank, rows, rows_of_r);
  if (rank.index() == 0) {
    factored.r = rank.workspace<Wide>(n, n);
    kernels.conjugate_transpose(queue, adjoint.columns_from(0, n), factored.r);
  }
  householder.make_q(wide);
  if constexpr (!is_wide) {
    rank.kernels<T>().convert(queue, wide, q);
  }
  return factored;
}

std::int64_t bytes_in_columns(const SlabLayout& rows, std::int64_t columns, Dtype dtype) {
  return with_dtype(dtype, [&]<class T>() {
    using Wide = WideOf<T>;
    const std::int64_t own = (std::is_same_v<T, Wide> ? 1 : 2) * rows.max_width() * columns;
    const std::int64_t first = (rows.size() + columns) * columns;  // R^H with zeros, and R
    return Householder<Wide>::bytes(rows, columns) +
           static_cast<std::int64_t>(sizeof(Wide)) * (own + first) + 24 * columns;
  });
}

#define SHARDSOLVE_INSTANTIATE(T)                                                             \
  template Factored<T> factor_in_columns(mesh::Rank&, const SlabLayout&, MatrixView<const T>, \
                                         const std::vector<double>&, MatrixView<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::qr
