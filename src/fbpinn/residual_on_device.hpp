/// The user's functions where the derivatives are needed: on devices.
#pragma once

#include "fbpinn/pointwise_rows.hpp"
#include "fbpinn/training_geometry.hpp"
#include "sparse/workers.hpp"

#include <shardsolve/fbpinn.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace shardsolve::fbpinn {

struct RowsOnDevices {
  PointwiseRows rows;                   ///< with derivatives on the devices
  std::vector<std::int64_t> nonfinite;  ///< of each term the first such point of all; or -1
};

/// As pointwise_rows, by Residual::on_device, each device some of the points. Nothing where
/// functions are called on the host: a term has no function for devices or it declines, or the
/// host needs the derivatives.
std::optional<RowsOnDevices> rows_on_devices(const Problem& problem, const std::vector<Term>& terms,
                                             const PointGeometry& geometry,
                                             std::span<const double> v,
                                             const std::vector<double>& coefficients,
                                             bool derivatives, std::int64_t chunk,
                                             const sparse::Workers& workers);

}  // namespace shardsolve::fbpinn
