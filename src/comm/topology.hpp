/// What lies between the ranks of a mesh.
#pragma once

#include <cstdint>
#include <vector>

namespace shardsolve::comm {

/// How data gets from one rank's memory to another's.
enum class LinkKind : std::uint8_t {
  same_device,  ///< it stays in the memory of one device
  nvlink,       ///< GPUs read each other's memory over NVLink
  pcie,         ///< they do so over PCIe
  host,         ///< through the memory of the host
  network,      ///< from one host to another
};

/// "NVLink", "PCIe", and so on, as traces and reports have it; a string literal.
const char* name(LinkKind kind);

/// The way from one rank's memory to another's.
struct Link {
  LinkKind kind = LinkKind::same_device;
  double gigabytes_per_second = 0.0;  ///< in this direction; 1e9 bytes
};

/// A link of that kind with a bandwidth that is nominal: the order of magnitude of recent hardware,
/// not that of this machine. Good for comparing links, and for nothing else.
Link nominal_link(LinkKind kind);

/// The links between ranks, one for each direction.
class Topology {
 public:
  /// All on the same device, nominally.
  explicit Topology(std::int64_t ranks);

  std::int64_t ranks() const { return ranks_; }
  const Link& link(std::int64_t from, std::int64_t to) const {
    return links_[static_cast<std::size_t>(from * ranks_ + to)];
  }
  /// Throws Error(invalid_argument) unless the bandwidth is above zero and finite.
  void set_link(std::int64_t from, std::int64_t to, Link link);

 private:
  std::int64_t ranks_;
  std::vector<Link> links_;
};

/// What CUDA says about reading the memory of one GPU from another.
struct PeerAccess {
  bool same_gpu = false;
  bool possible = false;  ///< without the host; what follows counts only then
  /// Whether atomic operations go through, as they do over NVLink and not over PCIe.
  bool native_atomics = false;
  /// 0 for the best links of the machine, more for slower ones.
  int performance_rank = 0;
};

/// Between GPUs of one process; access[from][to] is about GPU `to` reading memory of `from`.
/// Bandwidths are nominal; where links of one kind differ in performance rank by k, the slower one
/// counts as 1 / (1 + k) of the faster.
Topology topology_of_gpus(const std::vector<std::vector<PeerAccess>>& access);

/// Between processes, rank r on the host number hosts[r]: host or network, nominally.
Topology topology_of_processes(const std::vector<std::int64_t>& hosts);

}  // namespace shardsolve::comm
