#include "findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace shardsolve::cli::doctor {

void judge_links(const Surroundings& s, Findings& findings) {
  if (!s.links) {
    return;
  }
  const Links& links = *s.links;
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
