#include "dense/shared/right_hand_sides.hpp"

#include "core/each_dtype.hpp"
#include "programs/gather.hpp"

#include <shardsolve/error.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>

namespace shardsolve::dense {
namespace {

/// The first entry, by rank, of a column of B that is not finite.
template <Scalar T>
Location nonfinite_entry(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> b,
                         std::int64_t column) {
  const std::vector<T> values =
      rank.fetch(rank.update(), b.columns_from(column, 1).data(), b.rows());
  const auto odd = std::find_if(values.begin(), values.end(), [](const T& value) {
    return !std::isfinite(std::real(value)) || !std::isfinite(std::imag(value));
  });
  const std::int64_t mine = odd == values.end() ? -1 : odd - values.begin();
  const auto found = programs::gather_from_all(rank, std::vector<std::int64_t>{mine});
  for (std::int64_t r = 0; r < rank.count(); ++r) {
    const std::int64_t local = found[static_cast<std::size_t>(r)][0];
    if (local >= 0) {
      return Location::in_right_hand_sides(layout.segment(r).begin + local, GlobalIndex(column));
    }
  }
  return Location::in_right_hand_sides(GlobalIndex(0), GlobalIndex(column));
}

/// Of this rank's rows.
template <Scalar T>
std::vector<double> own_maxima(mesh::Rank& rank, MatrixView<const T> a) {
  const MatrixView<double> device = rank.workspace<double>(a.columns(), 1);
  rank.kernels<T>().column_max(rank.update(), a, device.data());
  return rank.fetch(rank.update(), device.data(), a.columns());
}

/// Number by number the largest of what the ranks give.
std::vector<double> largest_of_each(mesh::Rank& rank, const std::vector<double>& mine) {
  std::vector<double> maxima(mine.size(), 0.0);
  for (const auto& one : programs::gather_from_all(rank, mine)) {
    std::transform(one.begin(), one.end(), maxima.begin(), maxima.begin(), programs::largest);
  }
  return maxima;
}

}  // namespace

template <Scalar T>
std::vector<double> column_maxima(mesh::Rank& rank, MatrixView<const T> a) {
  return largest_of_each(rank, own_maxima<T>(rank, a));
}

bool all_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value); });
}

template <Scalar T>
CheckedSides check_right_hand_sides(mesh::Rank& rank, const SlabLayout& layout,
                                    MatrixView<const T> b) {
  // What follows may be one kernel, which nothing stops: so all ranks agree here.
  std::vector<double> mine = own_maxima<T>(rank, b);
  mine.push_back(rank.stop_requested() ? 1.0 : 0.0);
  CheckedSides checked{.outcome = {}, .maxima = largest_of_each(rank, mine)};
  if (checked.maxima.back() > 0.0) {
    throw Error(ErrorKind::cancelled, "the call was cancelled as asked");
  }
  checked.maxima.pop_back();
  if (!all_finite(checked.maxima)) {
    const auto odd = std::find_if_not(checked.maxima.begin(), checked.maxima.end(),
                                      [](double value) { return std::isfinite(value); });
    checked.outcome.status = Status::nonfinite_input;
    checked.outcome.location = nonfinite_entry<T>(rank, layout, b, odd - checked.maxima.begin());
  }
  return checked;
}

template <Scalar T>
int residual_exponent(Scaled norm, double x_max, double b_max) {
  using Limits = std::numeric_limits<RealOf<T>>;
  constexpr int highest = Limits::max_exponent - 2 * Limits::digits / 3 - 8;
  constexpr int lowest = Limits::min_exponent + 2 * Limits::digits;
  const Scaled product = norm * Scaled{x_max, 0};
  if (product.fraction == 0.0 || (product.exponent <= highest && product.exponent >= lowest)) {
    return 0;
  }
  const int room = Limits::max_exponent - 1 - std::ilogb(std::max(x_max, b_max));
  return std::clamp(std::min(-product.exponent, room), Limits::min_exponent,
                    Limits::max_exponent - 1);
}

template <Scalar T>
void scale_columns(mesh::Rank& rank, MatrixView<T> a, const std::vector<int>& exponents) {
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    if (const int exponent = exponents[static_cast<std::size_t>(j)]; exponent != 0) {
      rank.kernels<T>().scale(rank.update(), static_cast<RealOf<T>>(std::ldexp(1.0, exponent)),
                              a.columns_from(j, 1));
    }
  }
}

template <Scalar T>
std::vector<int> exponents_of_second_try(const std::vector<double>& b_maxima,
                                         const std::vector<double>& x_maxima) {
  using Limits = std::numeric_limits<RealOf<T>>;
  std::vector<int> exponents;
  for (std::size_t j = 0; j < x_maxima.size(); ++j) {
    const bool again = !std::isfinite(x_maxima[j]) && b_maxima[j] > 0.0;
    const int down =
        again ? Limits::min_exponent + 2 * Limits::digits - std::ilogb(b_maxima[j]) : 0;
    exponents.push_back(std::clamp(down, Limits::min_exponent, 0));
  }
  return exponents;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                   \
  template std::vector<double> column_maxima(mesh::Rank&, MatrixView<const T>);     \
  template CheckedSides check_right_hand_sides(mesh::Rank&, const SlabLayout&,      \
                                               MatrixView<const T>);                \
  template int residual_exponent<T>(Scaled, double, double);                        \
  template void scale_columns(mesh::Rank&, MatrixView<T>, const std::vector<int>&); \
  template std::vector<int> exponents_of_second_try<T>(const std::vector<double>&,  \
                                                       const std::vector<double>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense
