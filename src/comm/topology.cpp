#include "comm/topology.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace shardsolve::comm {
namespace {

LinkKind kind_of(const PeerAccess& access) {
  if (access.same_gpu) {
    return LinkKind::same_device;
  }
  if (!access.possible) {
    return LinkKind::host;
  }
  return access.native_atomics ? LinkKind::nvlink : LinkKind::pcie;
}

bool has_performance_rank(LinkKind kind) {
  return kind == LinkKind::nvlink || kind == LinkKind::pcie;
}

}  // namespace

const char* name(LinkKind kind) {
  switch (kind) {
    case LinkKind::same_device:
      return "same device";
    case LinkKind::nvlink:
      return "NVLink";
    case LinkKind::pcie:
      return "PCIe";
    case LinkKind::host:
      return "host";
    case LinkKind::network:
      return "network";
  }
  return "";
}

Link nominal_link(LinkKind kind) {
  switch (kind) {
    case LinkKind::same_device:
      return {kind, 1000.0};
    case LinkKind::nvlink:
      return {kind, 200.0};
    case LinkKind::pcie:
      return {kind, 25.0};
    case LinkKind::host:
      return {kind, 10.0};
    case LinkKind::network:
      return {kind, 5.0};
  }
  return {};
}

Topology::Topology(std::int64_t ranks)
    : ranks_(ranks),
      links_(static_cast<std::size_t>(ranks * ranks), nominal_link(LinkKind::same_device)) {}

void Topology::set_link(std::int64_t from, std::int64_t to, Link link) {
  if (!(link.gigabytes_per_second > 0.0) || !std::isfinite(link.gigabytes_per_second)) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("the link from rank {} to rank {} has {} GB/s; a finite number above 0 "
                            "is needed",
                            from, to, link.gigabytes_per_second));
  }
  links_[static_cast<std::size_t>(from * ranks_ + to)] = link;
}

Topology topology_of_gpus(const std::vector<std::vector<PeerAccess>>& access) {
  std::map<LinkKind, int> best;  // performance rank
  for (const auto& row : access) {
    for (const PeerAccess& one : row) {
      const auto [found, is_new] = best.emplace(kind_of(one), one.performance_rank);
      found->second = std::min(found->second, one.performance_rank);
    }
  }
  const auto ranks = static_cast<std::int64_t>(access.size());
  Topology topology(ranks);
  for (std::int64_t from = 0; from < ranks; ++from) {
    for (std::int64_t to = 0; to < ranks; ++to) {
      const PeerAccess& one = access[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
      Link link = nominal_link(kind_of(one));
      if (has_performance_rank(link.kind)) {
        link.gigabytes_per_second /= 1 + one.performance_rank - best.at(link.kind);
      }
      topology.set_link(from, to, link);
    }
  }
  return topology;
}

Topology topology_of_processes(const std::vector<std::int64_t>& hosts) {
  const auto ranks = static_cast<std::int64_t>(hosts.size());
  Topology topology(ranks);
  for (std::int64_t from = 0; from < ranks; ++from) {
    for (std::int64_t to = 0; to < ranks; ++to) {
      if (from != to) {
        const bool together =
            hosts[static_cast<std::size_t>(from)] == hosts[static_cast<std::size_t>(to)];
        topology.set_link(from, to, nominal_link(together ? LinkKind::host : LinkKind::network));
      }
    }
  }
  return topology;
}

}  // namespace shardsolve::comm
