/// Rates of the devices of a job, measured now.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>

#include <optional>
#include <vector>

namespace shardsolve::cli::doctor {

/// Of one device, while all others do the same.
struct DeviceRates {
  double copy = 0.0;  ///< bytes read and written per second, memory to memory
  double gemm = 0.0;  ///< flops per second of a product in float64
};

struct Rates {
  std::vector<DeviceRates> devices;  ///< by rank
  std::optional<double>
      broadcast;  ///< bytes per second from rank 0 to all others; if there are any
};

/// The median of five runs each; takes a second or two. Throws Error(out_of_memory) where there is
/// not enough for it, Error(device) if a device fails.
Rates measure(Mesh& mesh);

/// Flops per second of products in T, of all devices together while all compute: the median of five
/// runs. In all processes of a mesh. Throws as measure().
template <Scalar T>
double measure_gemm(Mesh& mesh, const RunOptions& options);

}  // namespace shardsolve::cli::doctor
