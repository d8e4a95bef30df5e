#include "findings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve::cli::doctor {
namespace {

using Order = std::vector<std::int64_t>;

/// GB/s of the slowest link of a ring.
double slowest(const comm::Topology& topology, const Order& order) {
  double least = topology.link(order.back(), order.front()).gigabytes_per_second;
  for (std::size_t i = 1; i < order.size(); ++i) {
    least = std::min(least, topology.link(order[i - 1], order[i]).gigabytes_per_second);
  }
  return least;
}

/// Whether --devices in this order makes it the ring.
bool gives_ring(const comm::Topology& nominal, const Order& order) {
  comm::Topology topology(nominal.ranks());
  for (std::int64_t from = 0; from < nominal.ranks(); ++from) {
    for (std::int64_t to = 0; to < nominal.ranks(); ++to) {
      topology.set_link(
          from, to,
          nominal.link(order[static_cast<std::size_t>(from)], order[static_cast<std::size_t>(to)]));
    }
  }
  const Order ring = comm::ring_order(topology);
  return std::is_sorted(ring.begin(), ring.end());
}

void judge_ring(const Links& links, Findings& findings) {
  if (!links.measured) {
    return;
  }
  constexpr double noise = 0.1;  // rates of equal links differ by a few percent
  const Order used = comm::ring_order(links.topology);
  const Order better = comm::ring_order(*links.measured);
  const double speed = slowest(*links.measured, used);
  const double could_be = slowest(*links.measured, better);
  if (could_be < (1.0 + noise) * speed) {
    return;
  }
  const std::string gpus = fmt::format("{}", fmt::join(links.gpus_of(better), ","));
  findings.push_back(
      {Severity::note, "ring-order",
       fmt::format("the slowest link of the ring has {:.3g} GB/s, that of a ring of GPUs {} would "
                   "have {:.3g}",
                   speed, gpus, could_be),
       "large panels go round the ring; its order is chosen by nominal bandwidths, so that all "
       "runs have the same",
       gives_ring(links.topology, better)
           ? fmt::format("--devices {} makes it that ring", gpus)
           : "the order cannot be set; please report it, with the output of 'shardsolve doctor "
             "--measure --json'"});
}

}  // namespace

void judge_links(const Surroundings& s, Findings& findings) {
  if (!s.links) {
    return;
  }
  const Links& links = *s.links;
  judge_ring(links, findings);
  const auto counts = [&, used = s.gpus_of_job()](int gpu) {
    return !s.job.cuda || std::find(used.begin(), used.end(), gpu) != used.end();
  };
  for (std::int64_t from = 0; from < links.topology.ranks(); ++from) {
    for (std::int64_t to = 0; to < links.topology.ranks(); ++to) {
      const int one = links.gpus[static_cast<std::size_t>(from)];
      const int other = links.gpus[static_cast<std::size_t>(to)];
      if (links.topology.link(from, to).kind == comm::LinkKind::host && counts(one) &&
          counts(other)) {
        findings.push_back(
            {s.job.cuda ? Severity::warning : Severity::note, "no-peer-access",
             fmt::format("GPU {} does not reach the memory of GPU {}", other, one),
             "copies between them go through the memory of the host, many times more slowly than "
             "over NVLink; solves for one right-hand side go step by step",
             "nvidia-smi topo -p2p r shows why; often it is the IOMMU or access control services "
             "(ACS) of PCIe, or a virtual machine"});
        return;  // once is enough
      }
    }
  }
}

}  // namespace shardsolve::cli::doctor
