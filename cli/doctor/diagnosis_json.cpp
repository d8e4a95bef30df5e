#include "diagnosis.hpp"
#include "jax_support.hpp"
#include "slurm.hpp"
#include "text.hpp"

#include <shardsolve/version.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace shardsolve::cli::doctor {
namespace {

using Json = nlohmann::ordered_json;

Json text(const std::string& value) { return value.empty() ? Json(nullptr) : Json(value); }

template <class Number>
Json number(const std::optional<Number>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json cuda_version(int version) {
  return version == 0 ? Json(nullptr) : Json(cuda_version_text(version));
}

Json host(const Host& host) {
  return {{"name", host.name},
          {"cpu", text(host.cpu)},
          {"cores", host.cores},
          {"usable_cores", host.usable_cores()},
          {"affinity_cores", host.allowed_cores},
          {"quota_cores", number(host.quota)},
          {"memory_bytes", host.memory},
          {"available_memory_bytes", host.available_memory}};
}

Json gpus(const Surroundings& s) {
  Json list = Json::array();
  for (std::size_t i = 0; i < s.cuda.gpus.size(); ++i) {
    const mesh::GpuFacts& gpu = s.cuda.gpus[i];
    list.push_back({{"number", i},
                    {"name", gpu.name},
                    {"bus_id", text(gpu.bus_id)},
                    {"uuid", text(s.uuid_of(gpu))},
                    {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
                    {"memory_bytes", gpu.memory},
                    {"free_memory_bytes", number(gpu.free_memory)},
                    {"failure", text(gpu.failure)}});
  }
  return list;
}

Json cuda(const Surroundings& s) {
  return {{"library", text(s.cuda.library)},
          {"reason", text(s.cuda.reason)},
          {"failure", text(s.cuda.failure)},
          {"runtime", cuda_version(s.cuda.runtime)},
          {"architectures", text(s.cuda.architectures)},
          {"driver", text(s.driver.version)},
          {"driver_cuda", cuda_version(s.cuda.driver)},
          {"cublas", text(s.cublas)},
          {"gpus_of_machine", s.driver.gpus}};
}

Json links(const std::optional<Links>& links, const std::optional<GpuPath>& path) {
  if (!links) {
    return nullptr;
  }
  const std::int64_t ranks = links->topology.ranks();
  const auto gpu = [&](std::int64_t rank) { return links->gpus[static_cast<std::size_t>(rank)]; };
  Json all = Json::array();
  for (std::int64_t from = 0; from < ranks; ++from) {
    for (std::int64_t to = 0; to < ranks; ++to) {
      if (from != to) {
        const comm::Link& link = links->topology.link(from, to);
        all.push_back({{"from", gpu(from)},
                       {"to", gpu(to)},
                       {"kind", comm::name(link.kind)},
                       {"nominal_gbytes_per_s", link.gigabytes_per_second},
                       {"measured_gbytes_per_s",
                        links->measured ? Json(links->measured->link(from, to).gigabytes_per_second)
                                        : Json(nullptr)}});
      }
    }
  }
  return {{"links", all},
          {"ring", path && !path->has_ring() ? Json(nullptr) : Json(links->ring())}};
}

Json mpi(const Surroundings& s) {
  return {{"library", text(s.mpi.library)},
          {"failure", text(s.mpi.failure)},
          {"mpi", text(s.mpi.mpi)},
          {"version", text(s.mpi.version)},
          {"mpirun", text(s.mpirun.path)},
          {"mpirun_version", text(s.mpirun.says)},
          {"processes", s.launch.processes},
          {"rank", s.launch.rank},
          {"launcher", text(s.launch.launcher)}};
}

Json task(const Surroundings& s) {
  const auto found = slurm_task(s);
  return found ? Json{{"number", found->number},
                      {"of_node", found->of_node},
                      {"gpu", number(found->gpu)}}
               : Json(nullptr);
}

Json jax(const Surroundings& s) {
  return {{"python", text(s.python.path)},
          {"python_version", text(s.python.version)},
          {"failure", text(s.python.failure)},
          {"jax", text(s.python.version_of("jax"))},
          {"jaxlib", text(s.python.version_of("jaxlib"))},
          {"shardsolve", text(s.python.version_of("shardsolve"))},
          {"oldest_supported", oldest_jax},
          {"before", first_jax_too_new},
          {"task", task(s)},
          {"packages", s.python.packages}};
}

Json backend(const Choice& choice) {
  return {{"command", choice.backend},
          {"devices", choice.devices},
          {"why", choice.why},
          {"between_gpus", choice.path ? text(choice.path->name) : Json(nullptr)},
          {"between_gpus_why", choice.path ? text(choice.path->why) : Json(nullptr)},
          {"jax", text(choice.jax)},
          {"jax_why", choice.jax_why}};
}

Json measured(const std::optional<Rates>& rates) {
  if (!rates) {
    return nullptr;
  }
  Json devices = Json::array();
  for (const DeviceRates& one : rates->devices) {
    devices.push_back({{"copy_gbytes_per_s", one.copy / giga}, {"gemm_gflops", one.gemm / giga}});
  }
  return {{"devices", devices},
          {"broadcast_gbytes_per_s",
           rates->broadcast ? Json(*rates->broadcast / giga) : Json(nullptr)}};
}

Json tiles(const Tiles& tiles) {
  return {{"table", text(tiles.path)},       {"found", tiles.found},
          {"failure", text(tiles.failure)},  {"device", text(tiles.device)},
          {"entries", tiles.entries.size()}, {"entries_for_device", tiles.for_device()}};
}

Json list(const Findings& findings) {
  Json all = Json::array();
  for (const Finding& one : findings) {
    all.push_back({{"severity", name(one.severity)},
                   {"code", one.code},
                   {"found", one.found},
                   {"why", one.why},
                   {"remedy", one.remedy}});
  }
  return all;
}

}  // namespace

bool Diagnosis::has_errors() const {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& one) { return one.severity == Severity::error; });
}

std::string json_of(const Diagnosis& diagnosis) {
  const Surroundings& s = diagnosis.surroundings;
  const Json object = {
      {"command", "doctor"},
      {"status", diagnosis.has_errors() ? "errors" : "ok"},
      {"host", host(s.host)},
      {"gpus", gpus(s)},
      {"links", links(s.links, diagnosis.choice.path)},
      {"cuda", cuda(s)},
      {"blas",
       {{"file", s.blas.file},
        {"linkage", s.blas.shared ? "shared" : "static"},
        {"version", text(s.blas.version)},
        {"kernels", text(s.blas.kernels)}}},
      {"mpi", mpi(s)},
      {"nccl", {{"library", text(s.nccl.path)}, {"version", text(s.nccl.version)}}},
      {"jax", jax(s)},
      {"tiles", tiles(s.tiles)},
      {"backend", backend(diagnosis.choice)},
      {"measured", measured(diagnosis.rates)},
      {"findings", list(diagnosis.findings)},
      {"version", SHARDSOLVE_VERSION_STRING}};
  // Paths and names need not be UTF-8, JSON does.
  constexpr int indent = 2;
  return object.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardsolve::cli::doctor
