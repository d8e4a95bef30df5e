/// A window for ranks that do not reach each other's memory.
#pragma once

#include "comm/communicator.hpp"
#include "comm/window.hpp"

namespace shardsolve::comm {

/// Publishing copies every part into every rank's own buffer; nothing is left to release.
class CopyWindow final : public Window {
 public:
  CopyWindow(Communicator& communicator, std::int64_t rank, Bytes memory)
      : communicator_(communicator), rank_(rank), memory_(memory) {}

  std::byte* base(std::int64_t) const override { return static_cast<std::byte*>(memory_.data); }
  void publish(runtime::Queue& queue, const WindowPart& part) override;
  void release(runtime::Queue&) override {}
  void reclaim(runtime::Queue&) override {}

 private:
  Communicator& communicator_;
  std::int64_t rank_;
  Bytes memory_;
};

}  // namespace shardsolve::comm
