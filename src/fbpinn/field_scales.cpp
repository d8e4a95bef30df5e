#include "fbpinn/field_scales.hpp"

#include "fbpinn/on_device.hpp"
#include "runtime/kernels.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/matrix_view.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardsolve::fbpinn {
namespace field_scales {

std::vector<double> largest_by_field(const TrainingGeometry& geometry,
                                     std::span<const double> numbers) {
  const auto size = static_cast<std::size_t>(geometry.set.size());
  std::vector<double> largest(static_cast<std::size_t>(geometry.fields), 0.0);
  for (std::size_t at = 0; at < numbers.size();) {
    for (double& of_field : largest) {
      for (std::size_t d = 0; d < size; ++d, ++at) {
        const double one = std::abs(numbers[at]);
        of_field = one > of_field || std::isnan(one) ? one : of_field;
      }
    }
  }
  return largest;
}

}  // namespace field_scales

std::vector<int> field_exponents(const TrainingGeometry& geometry, const Derivatives& derivatives,
                                 const sparse::Workers& workers) {
  constexpr int alike = 6;  // powers of two: what columns of one field differ by as well
  if (geometry.fields == 1) {
    return {};
  }
  std::vector<double> fetched;
  if (derivatives.on_devices != nullptr) {
    fetched = fetch(*derivatives.on_devices, workers);
  }
  const std::vector<double> largest = field_scales::largest_by_field(
      geometry, derivatives.on_devices != nullptr ? fetched : derivatives.on_host);
  const double most = *std::max_element(largest.begin(), largest.end());
  if (!std::all_of(largest.begin(), largest.end(), [](double one) { return std::isfinite(one); })) {
    return {};
  }
  std::vector<int> exponents;
  for (const double of_field : largest) {
    exponents.push_back(of_field > 0.0 ? std::ilogb(most) - std::ilogb(of_field) : 0);
  }
  return *std::max_element(exponents.begin(), exponents.end()) < alike ? std::vector<int>{}
                                                                       : exponents;
}

std::vector<double> scaled_fields(const TrainingGeometry& geometry, std::span<const double> numbers,
                                  const std::vector<int>& exponents) {
  const auto size = static_cast<std::size_t>(geometry.set.size());
  std::vector<double> scaled(numbers.begin(), numbers.end());
  for (std::size_t at = 0; at < scaled.size();) {
    for (const int exponent : exponents) {
      for (std::size_t d = 0; d < size; ++d, ++at) {
        scaled[at] = std::ldexp(scaled[at], exponent);
      }
    }
  }
  return scaled;
}

ScaledOnDevices::ScaledOnDevices(const TrainingGeometry& geometry,
                                 const DerivativesOnDevices& derivatives,
                                 std::vector<int> exponents, const sparse::Workers& workers)
    : geometry_(geometry),
      derivatives_(derivatives),
      exponents_(std::move(exponents)),
      workers_(workers) {
  scale(1);
}

ScaledOnDevices::~ScaledOnDevices() {
  try {
    scale(-1);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // Of a call that has failed: nobody reads them again.
  }
}

void ScaledOnDevices::scale(int sign) const {
  const std::int64_t size = geometry_.set.size();
  const std::int64_t of_row = size * geometry_.fields;
  on_device(workers_, 0.0, [&](mesh::Rank& rank) {
    double* const first = derivatives_.of(rank.index());
    for (std::size_t field = 0; field < exponents_.size(); ++field) {
      const MatrixView<double> of_field(first + static_cast<std::int64_t>(field) * size, size,
                                        derivatives_.count() / of_row, of_row);
      rank.kernels<double>().scale(rank.update(), std::ldexp(1.0, sign * exponents_[field]),
                                   of_field);
    }
    rank.finish(rank.update());
  });
}

}  // namespace shardsolve::fbpinn
