#include "matgen/sparse_matrices.hpp"

#include "core/each_dtype.hpp"
#include "matgen/philox.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <utility>
#include <vector>

namespace shardsolve::matgen {
namespace {

std::int64_t points(std::int64_t edge, int dimensions) {
  std::int64_t count = 1;
  for (int d = 0; d < dimensions; ++d) {
    if (edge < 0 || (edge > 0 && count > SlabLayout::largest_size / edge)) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("a grid of {} points an edge was asked for: 0 or more are accepted, "
                              "and at most {} in all",
                              edge, SlabLayout::largest_size));
    }
    count *= edge;
  }
  return count;
}

/// Entries row after row, each row in ascending order.
template <Scalar T>
class Rows {
 public:
  Rows(std::int64_t rows, std::int64_t columns, std::int64_t entries)
      : matrix_{rows, columns, {0}, {}, {}} {
    matrix_.row_pointers.reserve(static_cast<std::size_t>(rows) + 1);
    matrix_.column_indices.reserve(static_cast<std::size_t>(entries));
    matrix_.values.reserve(static_cast<std::size_t>(entries));
  }

  void add(bool is_there, std::int64_t column, T value) {
    if (is_there) {
      matrix_.column_indices.push_back(column);
      matrix_.values.push_back(value);
    }
  }
  void end_row() { matrix_.row_pointers.push_back(matrix_.entries()); }
  CsrMatrix<T> take() { return std::move(matrix_); }

 private:
  CsrMatrix<T> matrix_;
};

template <Scalar T>
T number(double real, double imaginary = 0.0) {
  using Real = RealOf<T>;
  if constexpr (is_complex<T>) {
    return {static_cast<Real>(real), static_cast<Real>(imaginary)};
  } else {
    return static_cast<Real>(real);
  }
}

}  // namespace

template <Scalar T>
CsrMatrix<T> laplacian_3d(std::int64_t edge) {
  const std::int64_t n = points(edge, 3);
  Rows<T> rows(n, n, 7 * n);
  const std::int64_t plane = edge * edge;
  for (std::int64_t row = 0; row < n; ++row) {
    const std::int64_t x = row % edge;
    const std::int64_t y = row / edge % edge;
    const std::int64_t z = row / plane;
    rows.add(z > 0, row - plane, T{-1});
    rows.add(y > 0, row - edge, T{-1});
    rows.add(x > 0, row - 1, T{-1});
    rows.add(true, row, T{6});
    rows.add(x + 1 < edge, row + 1, T{-1});
    rows.add(y + 1 < edge, row + edge, T{-1});
    rows.add(z + 1 < edge, row + plane, T{-1});
    rows.end_row();
  }
  return rows.take();
}

template <Scalar T>
CsrMatrix<T> convection_diffusion_2d(std::int64_t edge, double cx, double cy) {
  const std::int64_t n = points(edge, 2);
  Rows<T> rows(n, n, 5 * n);
  for (std::int64_t row = 0; row < n; ++row) {
    const std::int64_t x = row % edge;
    const std::int64_t y = row / edge;
    rows.add(y > 0, row - edge, number<T>(-1.0 - cy));
    rows.add(x > 0, row - 1, number<T>(-1.0 - cx));
    rows.add(true, row, T{4});
    rows.add(x + 1 < edge, row + 1, number<T>(-1.0 + cx));
    rows.add(y + 1 < edge, row + edge, number<T>(-1.0 + cy));
    rows.end_row();
  }
  return rows.take();
}

template <Scalar T>
CsrMatrix<T> random_sparse(std::int64_t rows, std::int64_t columns, std::int64_t most,
                           std::uint64_t seed) {
  if (rows < 0 || columns < 0 || most < 0) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("a random matrix of {} x {} with up to {} entries a row was asked for: "
                            "0 or more of each are accepted",
                            rows, columns, most));
  }
  // A number of [-1, 1) as one of 0, ..., count - 1.
  const auto choice = [](double uniform, std::int64_t count) {
    return std::min(static_cast<std::int64_t>((uniform + 1.0) / 2.0 * static_cast<double>(count)),
                    count - 1);
  };
  Rows<T> result(rows, columns, rows * most / 2);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t count =
        columns == 0 ? 0 : choice(uniform_pair(seed, Stream::point, row, 0)[0], most + 1);
    std::vector<std::int64_t> places;
    for (std::int64_t k = 0; k < count; ++k) {
      places.push_back(choice(uniform_pair(seed, Stream::point, row, k + 1)[0], columns));
    }
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    for (const std::int64_t column : places) {
      const auto [real, imaginary] = uniform_pair(seed, Stream::matrix, row, column);
      result.add(true, column, number<T>(real, imaginary));
    }
    result.end_row();
  }
  return result.take();
}

#define SHARDSOLVE_INSTANTIATE(T)                                              \
  template CsrMatrix<T> laplacian_3d(std::int64_t);                            \
  template CsrMatrix<T> convection_diffusion_2d(std::int64_t, double, double); \
  template CsrMatrix<T> random_sparse(std::int64_t, std::int64_t, std::int64_t, std::uint64_t);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::matgen
