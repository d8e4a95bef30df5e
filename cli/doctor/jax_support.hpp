/// The JAX that a Python has, by the names and versions of its packages.
#pragma once

#include "surroundings.hpp"

#include <string>
#include <vector>

namespace shardsolve::cli::doctor {

/// The versions that shardsolve works with, as pyproject.toml and _library.py have them.
inline constexpr const char* oldest_jax = "0.8.1";
inline constexpr const char* first_jax_too_new = "0.13";

/// Major versions of CUDA for which JAX has a plugin: 12, 13, both or none.
std::vector<int> jax_cuda_versions(const Python& python);

/// Platforms that JAX_PLATFORMS (or the older JAX_PLATFORM_NAME) names, in order and as they are
/// written (JAX takes ' cuda' for another one); empty if JAX is to choose.
std::vector<std::string> jax_platforms(const Environment& environment);

}  // namespace shardsolve::cli::doctor
