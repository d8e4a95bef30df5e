// The JAX of the Python on PATH.

#include "findings.hpp"
#include "jax_support.hpp"
#include "text.hpp"
#include "xla_flags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace shardsolve::cli::doctor {
namespace {

constexpr const char* right_jax = "pip install 'jax>=0.8.1,<0.13'";

void judge_range(const Surroundings& s, const std::string& package, Findings& findings) {
  const std::string version = s.python.version_of(package);
  const auto numbers = version_numbers(version);
  if (version.empty() ||
      (numbers >= version_numbers(oldest_jax) && numbers < version_numbers(first_jax_too_new))) {
    return;
  }
  findings.push_back({Severity::error, "jax-version",
                      fmt::format("{} is version {}", package, version),
                      fmt::format("this shardsolve works with {} and later, before {}, and refuses "
                                  "others",
                                  oldest_jax, first_jax_too_new),
                      right_jax});
}

void judge_pair(const Surroundings& s, Findings& findings) {
  const std::string jax = s.python.version_of("jax");
  const std::string jaxlib = s.python.version_of("jaxlib");
  if (!jax.empty() && jaxlib.empty()) {
    findings.push_back({Severity::error, "jaxlib-missing", fmt::format("jax {} has no jaxlib", jax),
                        "import jax fails", "pip install --force-reinstall jax"});
  } else if (!jax.empty() && version_numbers(jaxlib) > version_numbers(jax)) {
    findings.push_back({Severity::error, "jaxlib-newer",
                        fmt::format("jaxlib {} is newer than jax {}", jaxlib, jax),
                        "jax refuses a jaxlib that is newer than itself",
                        fmt::format("pip install 'jax=={0}' 'jaxlib=={0}'", jaxlib)});
  }
}

/// The parts of JAX's GPU support are of one version, or JAX leaves them aside.
void judge_plugin_versions(const Surroundings& s, Findings& findings) {
  const auto jaxlib = version_numbers(s.python.version_of("jaxlib"));
  for (const int cuda : jax_cuda_versions(s.python)) {
    for (const char* part : {"plugin", "pjrt"}) {
      const std::string package = fmt::format("jax-cuda{}-{}", cuda, part);
      const std::string version = s.python.version_of(package);
      if (version.empty() || jaxlib.empty() || version_numbers(version) != jaxlib) {
        findings.push_back(
            {Severity::warning, "jax-plugin-version",
             fmt::format("{} is {}, jaxlib is {}", package,
                         version.empty() ? "missing" : fmt::format("version {}", version),
                         jaxlib.empty() ? "missing"
                                        : fmt::format("version {}", s.python.version_of("jaxlib"))),
             "JAX then computes on the CPU, with a warning at most",
             fmt::format("pip install 'jax[cuda{}]=={}'", cuda, s.python.version_of("jax"))});
      }
    }
  }
}

/// The CUDA that JAX should be for: that of our library that driver and GPUs suit.
int fitting_cuda(const Surroundings& s) { return s.cuda.runtime / 1000 == 12 ? 12 : 13; }

void judge_cuda_support(const Surroundings& s, Findings& findings) {
  const auto cuda = jax_cuda_versions(s.python);
  const bool with_jax = !s.python.version_of("jaxlib").empty();
  if (with_jax && s.has_gpu() && cuda.empty()) {
    findings.push_back(
        {Severity::warning, "jax-without-gpu",
         fmt::format("there is a GPU, and the JAX of {} has no support for it (no "
                     "package jax-cuda{}-plugin)",
                     s.python.path, fitting_cuda(s)),
         "JAX arrays lie on the CPU, and shardsolve solves them there",
         fmt::format("pip install 'shardsolve[cuda{0}]', or 'jax[cuda{0}]'", fitting_cuda(s))});
  }
  if (cuda.size() > 1) {
    findings.push_back({Severity::warning, "jax-two-plugins",
                        "jax-cuda12-plugin and jax-cuda13-plugin are both installed",
                        "both call themselves cuda, and JAX can use one of them only",
                        fmt::format("pip uninstall jax-cuda{0}-plugin jax-cuda{0}-pjrt",
                                    fitting_cuda(s) == 12 ? 13 : 12)});
  }
  const int ours = s.cuda.runtime / 1000;
  if (cuda.size() == 1 && ours != 0 && cuda.front() != ours && !s.cuda.has_both) {
    findings.push_back(
        {Severity::warning, "mixed-cuda",
         fmt::format("JAX's plugin is for CUDA {}, shardsolve's library for CUDA {}", cuda.front(),
                     ours),
         "each loads a cuBLAS of its own, which takes GPU memory twice, and pip does not bring the "
         "one that shardsolve needs",
         fmt::format("pip uninstall jax-cuda{0}-plugin jax-cuda{0}-pjrt; pip install "
                     "'shardsolve[cuda{1}]'",
                     cuda.front(), ours)});
  }
}

void judge_platform_name(const std::string& platform, const std::string& setting,
                         Findings& findings) {
  static const std::set<std::string> known{"cpu", "cuda", "gpu", "rocm", "tpu", "METAL"};
  if (known.count(platform) != 0) {
    return;
  }
  const std::string written = lower_case(trimmed(platform));
  const std::string meant = written == "metal" ? "METAL" : nearest(written, known);
  findings.push_back({meant.empty() ? Severity::warning : Severity::error, "jax-unknown-platform",
                      fmt::format("{}: '{}' is no platform that JAX brings", setting, platform),
                      "JAX does not start, unless a plugin of that name is installed",
                      meant.empty() ? "use cpu, cuda or tpu, several with commas and no blanks"
                                    : fmt::format("'{}' is probably meant", meant)});
}

/// Whether the package is there that brings a platform other than the CPU and NVIDIA's GPUs.
bool has_support(const Surroundings& s, const std::string& platform) {
  const auto has = [&](const char* beginning) {
    return std::any_of(s.python.packages.begin(), s.python.packages.end(), [&](const auto& one) {
      return one.first.compare(0, std::string_view(beginning).size(), beginning) == 0;
    });
  };
  if (platform == "tpu") {
    return has("libtpu") || !value_of(s.environment, "TPU_LIBRARY_PATH").empty();
  }
  return platform == "rocm" ? has("jax-rocm") : platform != "METAL" || has("jax-metal");
}

/// These JAX does not pass over, wherever in the list they stand.
void judge_other_platforms(const Surroundings& s, const std::string& setting,
                           const std::string& platform, Findings& findings) {
  if (has_support(s, platform) || s.python.version_of("jaxlib").empty()) {
    return;
  }
  findings.push_back(
      {Severity::error, "jax-platform-missing",
       fmt::format("{}, and the JAX of {} has no support for {}", setting, s.python.path, platform),
       "JAX does not start: it is told to use what it has not",
       platform == "tpu" ? "pip install 'jax[tpu]', or unset JAX_PLATFORMS"
                         : fmt::format("install its plugin ({}), or unset JAX_PLATFORMS",
                                       platform == "rocm" ? "jax-rocm7-plugin" : "jax-metal")});
}

void judge_platforms(const Surroundings& s, Findings& findings) {
  const auto platforms = jax_platforms(s.environment);
  if (platforms.empty()) {
    return;
  }
  const std::string setting = fmt::format("JAX_PLATFORMS={}", fmt::join(platforms, ","));
  for (const std::string& one : platforms) {
    judge_platform_name(one, setting, findings);
    judge_other_platforms(s, setting, one, findings);
  }
  // With another platform beside it ("cuda,cpu") JAX takes that.
  const bool needs_gpu = std::all_of(platforms.begin(), platforms.end(),
                                     [](const auto& one) { return one == "cuda" || one == "gpu"; });
  const bool with_jax = !s.python.version_of("jaxlib").empty();
  if (platforms.front() == "cpu" && s.has_gpu()) {
    findings.push_back({Severity::warning, "jax-on-cpu",
                        fmt::format("{}, and there is a GPU", setting),
                        "JAX arrays lie on the CPU unless they are put elsewhere, and shardsolve "
                        "solves them there",
                        "unset JAX_PLATFORMS, or set it to cuda,cpu"});
  }
  if (needs_gpu && with_jax && jax_cuda_versions(s.python).empty()) {
    findings.push_back(
        {Severity::error, "jax-platform-missing",
         fmt::format("{}, and the JAX of {} has no support for GPUs", setting, s.python.path),
         "JAX does not start: it is told to use what it has not",
         fmt::format("pip install 'shardsolve[cuda{}]', or unset JAX_PLATFORMS", fitting_cuda(s))});
  }
}

void judge_debugging(const Surroundings& s, Findings& findings) {
  const std::string value = lower_case(trimmed(value_of(s.environment, "JAX_DEBUG_NANS")));
  if (value.empty() || value == "0" || value == "false" || value == "off" || value == "no" ||
      value == "f" || value == "n") {
    return;
  }
  findings.push_back({Severity::note, "jax-debug-nans", fmt::format("JAX_DEBUG_NANS={}", value),
                      "inside jit a system without an answer has NaN for one: JAX's own exception "
                      "comes before the reason can be read",
                      "with jax.debug_nans(False): around the solve"});
}

void judge_package(const Surroundings& s, Findings& findings) {
  const std::string version = s.python.version_of("shardsolve");
  const bool with_jax = !s.python.version_of("jax").empty();
  if (!version.empty() && !with_jax) {
    findings.push_back({Severity::error, "jax-missing",
                        fmt::format("{} has shardsolve {} and no jax", s.python.path, version),
                        "import shardsolve fails", right_jax});
  }
}

}  // namespace

void judge_jax(const Surroundings& s, Findings& findings) {
  judge_range(s, "jax", findings);
  judge_range(s, "jaxlib", findings);
  judge_pair(s, findings);
  judge_package(s, findings);
  judge_plugin_versions(s, findings);
  judge_cuda_support(s, findings);
  judge_platforms(s, findings);
  judge_debugging(s, findings);
}

}  // namespace shardsolve::cli::doctor
