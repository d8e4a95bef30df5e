#include "diagnosis.hpp"
#include "jax_support.hpp"
#include "slurm.hpp"
#include "text.hpp"

#include <shardsolve/version.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace shardsolve::cli::doctor {
namespace {

/// Words filled into lines of at most 100 characters, each after `margin` blanks.
std::string filled(const std::string& text, std::size_t margin) {
  constexpr std::size_t width = 100;
  std::istringstream words(text);
  std::string lines;
  std::string line;
  for (std::string word; words >> word;) {
    if (!line.empty() && margin + line.size() + 1 + word.size() > width) {
      lines += fmt::format("{:{}}{}\n", "", margin, line);
      line.clear();
    }
    line += line.empty() ? word : fmt::format(" {}", word);
  }
  return lines + fmt::format("{:{}}{}\n", "", margin, line);
}

std::string row(const std::string& label, const std::string& text) {
  constexpr std::size_t margin = 12;
  std::string lines = filled(text, margin);
  lines.replace(2, label.size(), label);
  return lines;
}

std::string gigabytes(std::int64_t bytes) {
  return fmt::format("{:.1f} GB", static_cast<double>(bytes) / giga);
}

std::string host_rows(const Surroundings& s) {
  const Host& host = s.host;
  std::string cores =
      fmt::format("{} of {} usable", host.usable_cores(), plural(host.cores, "core"));
  if (host.allowed_cores < host.cores) {
    cores += fmt::format(" (affinity: {})", host.allowed_cores);
  }
  if (host.quota) {
    cores += fmt::format(" (control group: {:.3g})", *host.quota);
  }
  return row("CPU", fmt::format("{}; {}", cores, host.cpu.empty() ? "unknown model" : host.cpu)) +
         row("memory", fmt::format("{} of {} available", gigabytes(host.available_memory),
                                   gigabytes(host.memory)));
}

std::string blas_row(const Surroundings& s) {
  std::string text = fmt::format("{} ({})", s.blas.file, s.blas.shared ? "shared" : "static");
  if (!s.blas.version.empty()) {
    text += fmt::format(", {}, kernels {}", s.blas.version, s.blas.kernels);
  }
  return row("BLAS", text);
}

std::string gpu_rows(const Surroundings& s) {
  if (s.cuda.gpus.empty()) {
    return row("GPUs", s.driver.gpus > 0
                           ? fmt::format("{} in this machine, none seen by CUDA", s.driver.gpus)
                           : "none");
  }
  std::string rows;
  for (std::size_t i = 0; i < s.cuda.gpus.size(); ++i) {
    const mesh::GpuFacts& gpu = s.cuda.gpus[i];
    const std::string memory =
        gpu.free_memory
            ? fmt::format("{} of {} free", gigabytes(*gpu.free_memory), gigabytes(gpu.memory))
            : fmt::format("unusable: {}", gpu.failure);
    const std::string uuid = s.uuid_of(gpu);
    rows += row(fmt::format("GPU {}", i),
                fmt::format("{}, {}, compute capability {}.{}, at {}{}{}", gpu.name, memory,
                            gpu.major, gpu.minor, gpu.bus_id, uuid.empty() ? "" : ", ", uuid));
  }
  if (const auto task = slurm_task(s)) {
    std::string takes = "takes none";
    if (task->gpu) {
      const mesh::GpuFacts& gpu = s.cuda.gpus[static_cast<std::size_t>(*task->gpu)];
      const std::string uuid = s.uuid_of(gpu);
      takes = fmt::format("takes GPU {}, {}", *task->gpu, uuid.empty() ? gpu.bus_id : uuid);
    }
    rows += row("task", fmt::format("{} of {} on {} under Slurm: JAX {}", task->number,
                                    task->of_node, s.host.name, takes));
  }
  return rows;
}

std::string link_rows(const Links& links) {
  std::string rows;
  const comm::Topology& topology = links.measured ? *links.measured : links.topology;
  const auto gpu = [&](std::int64_t rank) { return links.gpus[static_cast<std::size_t>(rank)]; };
  for (std::int64_t from = 0; from < topology.ranks(); ++from) {
    std::vector<std::string> others;
    for (std::int64_t to = 0; to < topology.ranks(); ++to) {
      if (to != from) {
        const comm::Link& link = topology.link(from, to);
        others.push_back(fmt::format("GPU {} {} {:.3g} GB/s", gpu(to), comm::name(link.kind),
                                     link.gigabytes_per_second));
      }
    }
    rows += row(
        fmt::format("GPU {} to", gpu(from)),
        fmt::format("{} ({})", fmt::join(others, ", "), links.measured ? "measured" : "nominal"));
  }
  return rows;
}

std::string cuda_row(const Surroundings& s) {
  if (!s.cuda.failure.empty()) {
    return row("CUDA", s.cuda.failure);
  }
  std::string text = fmt::format("{}, built with CUDA {} for {}", s.cuda.library,
                                 cuda_version_text(s.cuda.runtime), s.cuda.architectures);
  text += s.cuda.driver == 0
              ? "; no driver"
              : fmt::format("; driver {} knows CUDA up to {}",
                            s.driver.version.empty() ? "of unknown version" : s.driver.version,
                            cuda_version_text(s.cuda.driver));
  if (!s.cublas.empty()) {
    text += fmt::format("; {}", s.cublas);
  }
  if (!s.cuda.reason.empty()) {
    text += fmt::format("; taken as {}", s.cuda.reason);
  }
  return row("CUDA", text);
}

std::string mpi_row(const Surroundings& s) {
  std::string text = s.mpi.failure;
  if (text.empty()) {
    text = fmt::format("{}, with {}: {}", s.mpi.library, s.mpi.mpi,
                       s.mpi.version.substr(0, s.mpi.version.find_first_of(",\n")));
  }
  if (!s.mpirun.path.empty()) {
    text += fmt::format("; {}: {}", s.mpirun.path, s.mpirun.says);
  }
  return row("MPI", text);
}

std::string nccl_row(const Surroundings& s) {
  std::string text = s.nccl.path.empty()
                         ? "not found by the system"
                         : fmt::format("{}, version {}", s.nccl.path, s.nccl.version);
  for (const auto& [name, version] : s.python.packages) {
    if (name.compare(0, 11, "nvidia-nccl") == 0) {
      text += fmt::format("; in Python {} {}", name, version);
    }
  }
  return row("NCCL", text);
}

std::string jax_row(const Surroundings& s) {
  if (s.python.path.empty()) {
    return row("JAX", "there is no python3 on PATH to ask");
  }
  const std::string python = fmt::format("{} {}", s.python.path, s.python.version);
  if (!s.python.failure.empty()) {
    return row("JAX", fmt::format("{} was asked: {}", s.python.path, s.python.failure));
  }
  std::string packages;
  for (const auto& [name, version] : s.python.packages) {
    if (name == "jax" || name == "jaxlib" || name.compare(0, 4, "jax-") == 0 ||
        name == "shardsolve") {
      packages += fmt::format("{}{} {}", packages.empty() ? "" : ", ", name, version);
    }
  }
  return row("JAX", fmt::format("{}; supported: {} and later, before {}; {}",
                                packages.empty() ? "not installed" : packages, oldest_jax,
                                first_jax_too_new, python));
}

/// How GPUs of the job reach each other, and the ring that they, or all, make.
std::string path_rows(const Choice& choice, const std::optional<Links>& links) {
  std::string rows;
  if (const auto& path = choice.path) {
    rows +=
        row("between", path->name.empty() ? "GPUs no way: see the error below"
                                          : fmt::format("GPUs by {}: {}", path->name, path->why));
  }
  if (links && (!choice.path || choice.path->has_ring())) {
    rows += row("ring",
                fmt::format("GPUs {}{}, chosen by nominal bandwidths: the same in all runs",
                            fmt::join(links->ring(), ", "), choice.path ? "" : " if all compute"));
  }
  return rows;
}

std::string choice_rows(const Choice& choice, const std::optional<Links>& links) {
  const std::string jax =
      choice.jax.empty() ? choice.jax_why : fmt::format("{}: {}", choice.jax, choice.jax_why);
  return row("command", fmt::format("{}: {}", choice.devices, choice.why)) +
         path_rows(choice, links) + row("from JAX", jax);
}

std::string tiles_row(const Tiles& tiles) {
  if (!tiles.failure.empty()) {
    return row("tiles", tiles.failure);
  }
  if (!tiles.found) {
    return row("tiles", "chosen by the library; 'shardsolve tune' looks for faster ones");
  }
  if (tiles.device.empty()) {
    return row("tiles", fmt::format("'{}': {}", tiles.path, plural(tiles.entries.size(), "size")));
  }
  return row("tiles",
             fmt::format("'{}': {}, {} for {}; for other sizes the library's choice", tiles.path,
                         plural(tiles.entries.size(), "size"), tiles.for_device(), tiles.device));
}

/// "12.3" or, of several devices that differ, "12.1 to 12.9".
std::string range(const std::vector<DeviceRates>& devices, double DeviceRates::* rate) {
  const auto [least, most] = std::minmax_element(
      devices.begin(), devices.end(),
      [&](const auto& one, const auto& other) { return one.*rate < other.*rate; });
  const auto text = [](double value) {
    return value < 1000.0 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
  };
  const std::string low = text(*least.*rate / giga);
  const std::string high = text(*most.*rate / giga);
  return low == high ? low : fmt::format("{} to {}", low, high);
}

std::string rate_rows(const Rates& rates) {
  const std::string each =
      rates.devices.size() > 1 ? fmt::format(" on each of {} devices", rates.devices.size()) : "";
  std::string rows = row("copy", fmt::format("{} GB/s{}, read and written",
                                             range(rates.devices, &DeviceRates::copy), each)) +
                     row("gemm", fmt::format("{} GFLOP/s{}, float64",
                                             range(rates.devices, &DeviceRates::gemm), each));
  if (rates.broadcast) {
    rows += row("broadcast",
                fmt::format("{:.4g} GB/s from device 0 to all others", *rates.broadcast / giga));
  }
  return rows;
}

std::string finding_text(const Finding& finding) {
  constexpr std::size_t margin = 10;
  std::string text = filled(finding.found + ":", margin);
  const std::string_view severity = name(finding.severity);
  text.replace(0, severity.size(), severity);
  return text + filled(finding.why + ".", margin) +
         filled(fmt::format("-> {}", finding.remedy), margin);
}

std::string findings_text(const Findings& findings) {
  if (findings.empty()) {
    return "Nothing is wrong, as far as can be seen from here.\n";
  }
  std::vector<std::string> counts;
  for (const auto& [severity, thing] : {std::pair{Severity::error, "error"},
                                        {Severity::warning, "warning"},
                                        {Severity::note, "note"}}) {
    const auto count = static_cast<std::size_t>(
        std::count_if(findings.begin(), findings.end(),
                      [wanted = severity](const Finding& one) { return one.severity == wanted; }));
    if (count > 0) {
      counts.push_back(plural(count, thing));
    }
  }
  std::string text = fmt::format("Found: {}\n", fmt::join(counts, ", "));
  for (const Finding& finding : findings) {
    text += fmt::format("\n{}", finding_text(finding));
  }
  return text;
}

std::string headline(const Surroundings& s) {
  std::string text = fmt::format("shardsolve {} on {}", SHARDSOLVE_VERSION_STRING, s.host.name);
  if (s.launch.processes > 1) {
    text += fmt::format(", rank {} of {} processes: what follows is of this one, on its host",
                        s.launch.rank, s.launch.processes);
  }
  return text + "\n";
}

}  // namespace

std::string text_of(const Diagnosis& diagnosis) {
  const Surroundings& s = diagnosis.surroundings;
  std::string text = headline(s) + host_rows(s) + blas_row(s) + gpu_rows(s) +
                     (s.links ? link_rows(*s.links) : "") + cuda_row(s) + mpi_row(s) + nccl_row(s) +
                     jax_row(s);
  text += fmt::format("\nWhat computes\n{}",
                      choice_rows(diagnosis.choice, s.links) + tiles_row(s.tiles));
  if (diagnosis.rates) {
    text += fmt::format("\nMeasured now\n{}", rate_rows(*diagnosis.rates));
  }
  return text + "\n" + findings_text(diagnosis.findings);
}

}  // namespace shardsolve::cli::doctor
