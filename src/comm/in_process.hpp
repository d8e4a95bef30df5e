/// Communication between ranks that are threads of one process.
#pragma once

#include "comm/host_communicator.hpp"
#include "comm/in_process_group.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::comm {

/// One rank's end.
class InProcess final : public HostCommunicator {
 public:
  /// Whether windows read in place. If not they copy, as ranks that share no memory do: for tests
  /// of that path.
  enum class Windows : std::uint8_t { in_place, copied };

  InProcess(InProcessGroup& group, std::int64_t rank, Windows windows)
      : HostCommunicator(group.ranks(), rank), group_(group), windows_(windows) {}

  std::unique_ptr<Window> make_window(Bytes memory) override;

  void begin_call() override {
    HostCommunicator::begin_call();
    group_.begin_call(rank());
    windows_made_ = 0;
  }

 private:
  void exchange(const char* operation, const std::vector<Bytes>& send,
                const std::vector<Bytes>& receive) override;

  InProcessGroup& group_;
  Windows windows_;
  std::size_t windows_made_ = 0;
};

}  // namespace shardsolve::comm
