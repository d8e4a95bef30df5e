/// Looking around: everything that findings.hpp judges.
#pragma once

#include "surroundings.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>

namespace shardsolve::cli::doctor {

/// Variables of this process.
Environment own_environment();

/// Asks the system, the libraries of shardsolve and the `python3` on PATH, whatever is missing;
/// never throws but std::bad_alloc. `processes`: how many were started together.
Surroundings look_around(const Job& job, std::int64_t processes);

// The parts of it.
Host look_at_host();
/// `folder`: where the driver tells of itself.
Driver look_at_driver(const std::filesystem::path& folder = "/proc/driver/nvidia");
/// Between those `wanted` if these are several and can be used, else between all that can.
std::optional<Links> look_at_links(const mesh::CudaFacts& cuda, const std::vector<int>& wanted);
/// `device`: as Mesh::device_kind().
Tiles look_for_tiles(const std::string& option, const std::string& device);
Nccl look_for_nccl(const Environment& environment);
/// Whether its jaxlib's flags are read, which takes a tenth of a second, is for the caller to say.
Python look_at_python(const Environment& environment, bool with_xla_flags);

}  // namespace shardsolve::cli::doctor
