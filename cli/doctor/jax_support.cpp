#include "jax_support.hpp"

#include "text.hpp"

namespace shardsolve::cli::doctor {

std::vector<int> jax_cuda_versions(const Python& python) {
  std::vector<int> versions;
  if (!python.version_of("jax-cuda12-plugin").empty()) {
    versions.push_back(12);
  }
  if (!python.version_of("jax-cuda13-plugin").empty()) {
    versions.push_back(13);
  }
  return versions;
}

std::vector<std::string> jax_platforms(const Environment& environment) {
  std::string text = value_of(environment, "JAX_PLATFORMS");
  if (text.empty()) {
    text = value_of(environment, "JAX_PLATFORM_NAME");
  }
  return text.empty() ? std::vector<std::string>() : split(text, ',');
}

}  // namespace shardsolve::cli::doctor
