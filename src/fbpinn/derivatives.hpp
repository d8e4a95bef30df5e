/// Derivatives of all residuals by the jets of the networks' sum, on the host or on devices.
#pragma once

#include "runtime/device.hpp"
#include "sparse/workers.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shardsolve::fbpinn {

/// All of them, in the memory of each device of this process; for longer than a call.
class DerivativesOnDevices {
 public:
  /// Not initialised. Throws Error(out_of_memory).
  DerivativesOnDevices(const sparse::Workers& workers, std::int64_t count);

  std::int64_t count() const { return count_; }
  double* of(std::int64_t rank) const {
    return static_cast<double*>(of_rank_[static_cast<std::size_t>(rank)].data());
  }

 private:
  std::int64_t count_;
  std::vector<runtime::Buffer> of_rank_;
};

/// As a linear step takes them. What it is made of must outlive it.
struct Derivatives {
  Derivatives(std::span<const double> numbers) : on_host(numbers) {}      // NOLINT: implicit
  Derivatives(const std::vector<double>& numbers) : on_host(numbers) {}   // NOLINT: implicit
  Derivatives(const DerivativesOnDevices& there) : on_devices(&there) {}  // NOLINT: implicit

  std::span<const double> on_host;
  const DerivativesOnDevices* on_devices = nullptr;  ///< in place of it
};

/// A copy on the host.
std::vector<double> fetch(const DerivativesOnDevices& derivatives, const sparse::Workers& workers);

/// Some of the derivatives.
struct DerivativeRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
/// The largest |a| and |a - b|; NaN where one is.
struct Largest {
  double size = 0.0;
  double difference = 0.0;  ///< 0 without a b
};
/// Of each of the ranges. `b`: others of the same problem, or null.
std::vector<Largest> largest_of(const DerivativesOnDevices& a, const DerivativesOnDevices* b,
                                const std::vector<DerivativeRange>& ranges,
                                const sparse::Workers& workers);

}  // namespace shardsolve::fbpinn
