/// Processes that do the same at the same time, for libraries that want one for each GPU.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace shardsolve::bench {

/// This process and the ones it forked. Make it before any thread and any CUDA call. The first one
/// leads: it speaks, the others hear, through a pipe each. It ends after them; should it be killed,
/// so are they.
class Team {
 public:
  explicit Team(int size);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

  int size() const { return size_; }
  int rank() const { return rank_; }
  bool leads() const { return rank_ == 0; }

  /// The leader's line to all others.
  void tell(const std::string& line);
  /// The next line; false when the leader has ended.
  bool hear(std::string& line);
  /// No more lines: the others leave, each giving back together with the leader what they share.
  void dismiss();
  /// The leader's bytes, in every process.
  void share(void* bytes, std::size_t size);

 private:
  int size_;
  int rank_ = 0;
  int from_leader_ = -1;
  std::vector<int> to_others_;
  std::vector<int> others_;  // process ids
};

}  // namespace shardsolve::bench
