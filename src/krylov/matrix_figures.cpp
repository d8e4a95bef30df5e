#include "krylov/matrix_figures.hpp"

#include "core/each_dtype.hpp"
#include "krylov/band_arithmetic.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdlib>
#include <numeric>
#include <type_traits>
#include <vector>

namespace shardsolve::krylov {
namespace figures {
namespace {

void note(Places& places, std::int64_t row) {
  if (places.count++ == 0) {
    places.first = row;
  }
}

/// use(row, column, value) for all that is not 0, row after row.
template <Scalar T, class Use>
void for_each_nonzero(const CsrMatrix<T>& a, Use use) {
  for (std::int64_t row = 0; row < a.rows; ++row) {
    for (auto k = static_cast<std::size_t>(a.row_pointers[static_cast<std::size_t>(row)]);
         k < static_cast<std::size_t>(a.row_pointers[static_cast<std::size_t>(row) + 1]); ++k) {
      if (a.values[k] != T{0}) {
        use(row, a.column_indices[k], a.values[k]);
      }
    }
  }
}

/// Rows that have a 1 on the diagonal and nothing else.
template <Scalar T>
std::vector<char> identity_rows(const CsrMatrix<T>& a) {
  std::vector<char> is_identity(static_cast<std::size_t>(a.rows), 0);
  std::vector<std::int64_t> entries(static_cast<std::size_t>(a.rows), 0);
  for_each_nonzero(a, [&](std::int64_t row, std::int64_t column, T value) {
    const auto at = static_cast<std::size_t>(row);
    is_identity[at] = ++entries[at] == 1 && row == column && value == T{1} ? 1 : 0;
  });
  return is_identity;
}

/// How A and A^H differ: entries without a counterpart, and the norm of the difference.
struct Difference {
  std::int64_t unmatched = 0;
  double norm = 0.0;
};

/// Goes through the rows of both at a time; what `leave_out` says counts as 0.
template <Scalar T, class LeaveOut>
Difference difference(const CsrMatrix<T>& a, const CsrMatrix<T>& turned, LeaveOut leave_out) {
  Difference result;
  const auto value_of = [&](const CsrMatrix<T>& m, std::size_t k, std::int64_t i, std::int64_t j) {
    return leave_out(i, j) ? T{0} : m.values[k];
  };
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const auto at = static_cast<std::size_t>(row);
    auto k = static_cast<std::size_t>(a.row_pointers[at]);
    auto m = static_cast<std::size_t>(turned.row_pointers[at]);
    const auto k_end = static_cast<std::size_t>(a.row_pointers[at + 1]);
    const auto m_end = static_cast<std::size_t>(turned.row_pointers[at + 1]);
    while (k < k_end || m < m_end) {
      const std::int64_t ours = k < k_end ? a.column_indices[k] : a.columns;
      const std::int64_t theirs = m < m_end ? turned.column_indices[m] : a.columns;
      const std::int64_t column = std::min(ours, theirs);
      T here{0};
      T there{0};
      if (ours == column) {
        here = value_of(a, k++, row, column);
      }
      if (theirs == column) {
        there = band::conjugate(value_of(turned, m++, column, row));
      }
      result.unmatched += here != T{0} && there == T{0} ? 1 : 0;
      result.norm = std::hypot(result.norm, static_cast<double>(std::abs(here - there)));
    }
  }
  return result;
}

/// Sets of rows that are joined one pair at a time.
class Parts {
 public:
  explicit Parts(std::int64_t rows) : parent_(static_cast<std::size_t>(rows)) {
    std::iota(parent_.begin(), parent_.end(), std::int64_t{0});
  }
  /// The least row of the set that `row` is in, as sets are joined to those of lesser rows.
  std::int64_t first_of(std::int64_t row) {
    while (at(row) != row) {
      at(row) = at(at(row));
      row = at(row);
    }
    return row;
  }
  void join(std::int64_t a, std::int64_t b) {
    const auto [less, more] = std::minmax({first_of(a), first_of(b)});
    at(more) = less;
  }

 private:
  std::int64_t& at(std::int64_t row) { return parent_[static_cast<std::size_t>(row)]; }
  std::vector<std::int64_t> parent_;
};

template <Scalar T>
Places null_parts(const CsrMatrix<T>& a) {
  using Wide = std::conditional_t<is_complex<T>, std::complex<double>, double>;
  const auto n = static_cast<std::size_t>(a.rows);
  constexpr double roundings = 64.0;
  Parts parts(a.rows);
  std::vector<Wide> sums(n, Wide{});
  std::vector<double> sizes(n, 0.0);
  for_each_nonzero(a, [&](std::int64_t row, std::int64_t column, T value) {
    parts.join(row, column);
    sums[static_cast<std::size_t>(row)] += static_cast<Wide>(value);
    sizes[static_cast<std::size_t>(row)] += static_cast<double>(std::abs(value));
  });
  std::vector<char> is_null(n, 1);  // of the first row of each part
  for (std::size_t i = 0; i < n; ++i) {
    if (!(std::abs(sums[i]) <= roundings * unit_roundoff<T> * sizes[i]) || sizes[i] == 0.0) {
      is_null[static_cast<std::size_t>(parts.first_of(static_cast<std::int64_t>(i)))] = 0;
    }
  }
  Places result;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    if (parts.first_of(row) == row && is_null[static_cast<std::size_t>(row)] != 0) {
      note(result, row);
    }
  }
  return result;
}

}  // namespace
}  // namespace figures

template <Scalar T>
MatrixFigures figures_of(const CsrMatrix<T>& a) {
  const auto n = static_cast<std::size_t>(a.rows);
  MatrixFigures result;
  result.nonfinite = first_nonfinite(a);
  std::vector<double> rows(n, 0.0);
  std::vector<std::int64_t> in_row(n, 0);
  std::vector<std::int64_t> in_column(n, 0);
  std::vector<T> diagonal(n, T{0});
  figures::for_each_nonzero(a, [&](std::int64_t row, std::int64_t column, T value) {
    const double size = static_cast<double>(std::abs(value));
    ++result.entries;
    ++in_row[static_cast<std::size_t>(row)];
    ++in_column[static_cast<std::size_t>(column)];
    rows[static_cast<std::size_t>(row)] = std::hypot(rows[static_cast<std::size_t>(row)], size);
    result.bandwidth = std::max(result.bandwidth, std::abs(row - column));
    if (row == column) {
      diagonal[static_cast<std::size_t>(row)] = value;
    }
  });
  double total = 0.0;  // ||A||_F
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = static_cast<std::int64_t>(i);
    total = std::hypot(total, rows[i]);
    if (in_row[i] == 0) {
      figures::note(result.empty_rows, row);
    } else {
      result.largest_row = std::max(result.largest_row, rows[i]);
      result.least_row = result.least_row == 0.0 ? rows[i] : std::min(result.least_row, rows[i]);
    }
    if (in_column[i] == 0) {
      figures::note(result.empty_columns, row);
    }
    const double size = static_cast<double>(std::abs(diagonal[i]));
    if (diagonal[i] == T{0}) {
      figures::note(result.zero_diagonal, row);
    } else {
      result.largest_diagonal = std::max(result.largest_diagonal, size);
      result.least_diagonal =
          result.least_diagonal == 0.0 ? size : std::min(result.least_diagonal, size);
    }
    if (std::real(diagonal[i]) < 0) {
      figures::note(result.negative_diagonal, row);
    }
  }
  const CsrMatrix<T> turned = transposed(a);
  const auto all = figures::difference(a, turned, [](std::int64_t, std::int64_t) { return false; });
  result.unmatched_entries = all.unmatched;
  const std::vector<char> is_identity = figures::identity_rows(a);
  for (std::size_t i = 0; i < n; ++i) {
    if (is_identity[i] != 0 && in_column[i] > 1) {
      figures::note(result.identity_rows, static_cast<std::int64_t>(i));
    }
  }
  const auto rest = figures::difference(a, turned, [&](std::int64_t row, std::int64_t column) {
    return row != column && is_identity[static_cast<std::size_t>(column)] != 0;
  });
  result.null_parts = figures::null_parts(a);
  if (total > 0.0) {
    result.asymmetry = all.norm / total;
    result.asymmetry_without_identity_rows = rest.norm / total;
  }
  return result;
}

template <Scalar T>
CsrMatrix<T> without_identity_columns(const CsrMatrix<T>& a) {
  const std::vector<char> is_identity = figures::identity_rows(a);
  CsrMatrix<T> result{a.rows, a.columns, {0}, {}, {}};
  for (std::int64_t row = 0; row < a.rows; ++row) {
    for (auto k = static_cast<std::size_t>(a.row_pointers[static_cast<std::size_t>(row)]);
         k < static_cast<std::size_t>(a.row_pointers[static_cast<std::size_t>(row) + 1]); ++k) {
      const std::int64_t column = a.column_indices[k];
      if (column == row || is_identity[static_cast<std::size_t>(column)] == 0) {
        result.column_indices.push_back(column);
        result.values.push_back(a.values[k]);
      }
    }
    result.row_pointers.push_back(result.entries());
  }
  return result;
}

#define SHARDSOLVE_INSTANTIATE(T)                         \
  template MatrixFigures figures_of(const CsrMatrix<T>&); \
  template CsrMatrix<T> without_identity_columns(const CsrMatrix<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
