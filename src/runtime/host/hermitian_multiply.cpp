#include "runtime/host/hermitian_multiply.hpp"

#include "core/each_dtype.hpp"
#include "runtime/host/twofold.hpp"
#include "runtime/host/wide_lanes.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <type_traits>

// All that takes or returns vectors is inlined: no caller of another file depends on how.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace shardsolve::runtime::host {
namespace {

using wide::across;
using wide::all;
using wide::Lanes;
using wide::lanes;
using wide::leading_bits;
using wide::load;
using wide::store;
using wide::Sum;
using wide::swapped;

/// Columns taken together, so that x and the sums of rows are read once for all of them.
constexpr std::int64_t max_columns = 4;

/// Where the sums of rows stand: numbers by row, the real and the imaginary part of each in turn.
struct RowSums {
  double* high;
  double* low;
};

/// What `count` columns of one rectangle add to the sums of its rows and of its columns.
template <Scalar T, std::int64_t count>
struct Columns {
  using Real = RealOf<T>;
  static constexpr std::int64_t parts = is_complex<T> ? 2 : 1;

  const Real* entries[count] = {};  // of each column, from the rectangle's first row on
  double x_re[count] = {};          // x of each column
  double x_im[count] = {};
  Sum<Real> sums[parts][count] = {};

  [[gnu::always_inline]] Columns(const T* first, std::int64_t stride, const T* x) {
    for (std::int64_t c = 0; c < count; ++c) {
      entries[c] = reinterpret_cast<const Real*>(first + c * stride);
      x_re[c] = double{std::real(x[c])};
      x_im[c] = double{std::imag(x[c])};
    }
  }

  /// One vector of each column; `x_rows`: x of these rows.
  [[gnu::always_inline]] void take(const Lanes (&a)[count], Lanes x_rows, Sum<Real>& rows) {
    for (std::int64_t c = 0; c < count; ++c) {
      rows.add_product(a[c], all(x_re[c]));
      sums[0][c].add_product(a[c], x_rows);
      if constexpr (parts == 2) {
        rows.add_product(swapped(a[c]), Lanes{-x_im[c], x_im[c], -x_im[c], x_im[c]});
        // conj(a) x: its imaginary part is a_re x_im - a_im x_re
        sums[1][c].add_product(a[c], swapped(x_rows) * Lanes{1, -1, 1, -1});
      }
    }
  }

  /// The rectangle has so many reals a column.
  [[gnu::always_inline]] void take_rows(std::int64_t reals, const Real* x_rows, RowSums rows) {
    Lanes a[count];
    std::int64_t i = 0;
    for (; i + lanes <= reals; i += lanes) {
      Sum<Real> sum;
      sum.high = load(rows.high + i);
      sum.low = load(rows.low + i);
      for (std::int64_t c = 0; c < count; ++c) {
        a[c] = load(entries[c] + i);
      }
      take(a, load(x_rows + i), sum);
      store(sum.high, rows.high + i);
      store(sum.low, rows.low + i);
    }
    if (i == reals) {
      return;
    }
    Sum<Real> sum;
    Lanes x_some{};
    for (std::int64_t l = 0; l < reals - i; ++l) {
      sum.high[l] = rows.high[i + l];
      sum.low[l] = rows.low[i + l];
      x_some[l] = double{x_rows[i + l]};
    }
    for (std::int64_t c = 0; c < count; ++c) {
      a[c] = Lanes{};
      for (std::int64_t l = 0; l < reals - i; ++l) {
        a[c][l] = double{entries[c][i + l]};
      }
    }
    take(a, x_some, sum);
    for (std::int64_t l = 0; l < reals - i; ++l) {
      rows.high[i + l] = sum.high[l];
      rows.low[i + l] = sum.low[l];
    }
  }
};

template <Scalar T>
class UpperProduct {
 public:
  [[gnu::always_inline]] UpperProduct(const UpperPart<T, RealOf<T>>& a, const T* x, double* sums)
      : a_(a), x_(x), n_(a.begin[a.ranks]), rows_{sums, sums + parts * n_} {}

  [[gnu::always_inline]] void run() {
    std::fill_n(rows_.high, 2 * parts * n_, 0.0);
    const std::int64_t columns = a_.slab.columns();
    for (std::int64_t j = 0; j < columns; ++j) {
      Sum<RealOf<T>> sum;
      const T entry = x_[a_.begin[a_.rank] + j];
      sum.add_product(all(double{a_.diagonal[j]}),
                      Lanes{double{std::real(entry)}, double{std::imag(entry)}, 0.0, 0.0});
      for (std::int64_t part = 0; part < parts; ++part) {
        add_to_row(a_.begin[a_.rank] + j, part, {sum.high[part], sum.low[part]});
      }
    }
    for (std::int64_t first = 0; first < columns; first += a_.tile) {
      const std::int64_t last = std::min(first + a_.tile, columns);
      std::int64_t j = first;
      for (; j + max_columns <= last; j += max_columns) {
        take_columns<max_columns>(first, j);
      }
      for (; j < last; ++j) {
        take_columns<1>(first, j);
      }
    }
  }

  void write(T* y) const {
    for (std::int32_t segment = 0; segment < a_.ranks; ++segment) {
      const std::int64_t height = a_.begin[segment + 1] - a_.begin[segment];
      auto* const high = reinterpret_cast<RealOf<T>*>(y + 2 * a_.begin[segment]);
      RealOf<T>* const low = high + parts * height;
      for (std::int64_t i = 0; i < parts * height; ++i) {
        const double sum = rows_.high[parts * a_.begin[segment] + i];
        const double lost = rows_.low[parts * a_.begin[segment] + i];
        const double leading = leading_bits<RealOf<T>>(sum + lost);
        high[i] = static_cast<RealOf<T>>(leading);
        low[i] = static_cast<RealOf<T>>((sum - leading) + lost);
      }
    }
  }

 private:
  static constexpr std::int64_t parts = is_complex<T> ? 2 : 1;

  [[gnu::always_inline]] void add_to_row(std::int64_t row, std::int64_t part,
                                         const Twofold<double>& sum) {
    const std::int64_t at = parts * row + part;
    Twofold<double> all_of_it{rows_.high[at], rows_.low[at]};
    all_of_it.add(sum);
    rows_.high[at] = all_of_it.high;
    rows_.low[at] = all_of_it.low;
  }

  /// Rows [begin, end) of the segment, and columns from j on.
  template <std::int64_t count>
  [[gnu::always_inline]] void take_rectangle(std::int32_t segment, std::int64_t begin,
                                             std::int64_t end, std::int64_t j) {
    if (begin >= end) {
      return;
    }
    const std::int64_t row = a_.begin[segment] + begin;
    const std::int64_t own = a_.begin[a_.rank] + j;
    Columns<T, count> columns(a_.slab.data() + row + j * a_.slab.stride(), a_.slab.stride(),
                              x_ + own);
    columns.take_rows(parts * (end - begin), reinterpret_cast<const RealOf<T>*>(x_ + row),
                      {rows_.high + parts * row, rows_.low + parts * row});
    for (std::int64_t c = 0; c < count; ++c) {
      for (std::int64_t part = 0; part < parts; ++part) {
        add_to_row(own + c, part, across(columns.sums[part][c]));
      }
    }
  }

  /// Columns from j on, of the block that begins with column `first`.
  template <std::int64_t count>
  [[gnu::always_inline]] void take_columns(std::int64_t first, std::int64_t j) {
    for (std::int32_t segment = 0; segment < a_.ranks; ++segment) {
      if (segment != a_.rank) {
        take_rectangle<count>(segment, 0, a_.eliminated[first / a_.tile * a_.ranks + segment], j);
        continue;
      }
      take_rectangle<count>(segment, 0, j, j);
      for (std::int64_t c = 1; c < count; ++c) {  // the triangle below
        take_rectangle<1>(segment, j, j + c, j + c);
      }
    }
  }

  const UpperPart<T, RealOf<T>>& a_;
  const T* x_;
  std::int64_t n_;
  RowSums rows_;
};

template <Scalar T>
void sum_up(const UpperPart<T, RealOf<T>>& a, const T* x, double* sums) {
  UpperProduct<T>(a, x, sums).run();
}

#if defined(__x86_64__) && !defined(__FMA__)
/// The same operations, with the instructions that most processors have: the same bits.
template <Scalar T>
[[gnu::target("avx2,fma")]] void sum_up_by_fma(const UpperPart<T, RealOf<T>>& a, const T* x,
                                               double* sums) {
  UpperProduct<T>(a, x, sums).run();
}
bool has_fma() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#endif

}  // namespace

template <Scalar T>
void multiply_upper_part(const UpperPart<T, RealOf<T>>& a, const T* x, T* y, double* sums) {
#if defined(__x86_64__) && !defined(__FMA__)
  has_fma() ? sum_up_by_fma(a, x, sums) : sum_up(a, x, sums);
#else
  sum_up(a, x, sums);
#endif
  UpperProduct<T>(a, x, sums).write(y);
}

template <Scalar T>
void add_to_twofold(MatrixView<const T> source, MatrixView<T> sums) {
  constexpr std::int64_t parts = is_complex<T> ? 2 : 1;
  const std::int64_t k = sums.columns() / 2;
  const auto column = [](auto view, std::int64_t j) {
    return reinterpret_cast<
        std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(view.data())>>,
                           const RealOf<T>*, RealOf<T>*>>(view.columns_from(j, 1).data());
  };
  for (std::int64_t j = 0; j < k; ++j) {
    const RealOf<T>* const high = column(source, j);
    const RealOf<T>* const low = source.columns() > k ? column(source, k + j) : nullptr;
    RealOf<T>* const sum_high = column(sums, j);
    RealOf<T>* const sum_low = column(sums, k + j);
    for (std::int64_t i = 0; i < parts * sums.rows(); ++i) {
      Twofold<RealOf<T>> sum{sum_high[i], sum_low[i]};
      sum.add({high[i], low == nullptr ? RealOf<T>{0} : low[i]});
      sum_high[i] = sum.high;
      sum_low[i] = sum.low;
    }
  }
}

#define SHARDSOLVE_INSTANTIATE(T)                                                           \
  template void multiply_upper_part(const UpperPart<T, RealOf<T>>&, const T*, T*, double*); \
  template void add_to_twofold(MatrixView<const T>, MatrixView<T>);

SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::host
