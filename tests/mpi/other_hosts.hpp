/// Processes of one host that believe to be on several.
#pragma once

#include "comm/transport.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace shardsolve::testing {

/// Says that ranks are on `count` hosts in turn, and counts the data messages from this process
/// that would leave its host.
class OtherHosts final : public comm::Transport {
 public:
  using Count = std::shared_ptr<std::atomic<std::int64_t>>;

  OtherHosts(std::unique_ptr<comm::Transport> transport, std::int64_t count,
             Count sent = std::make_shared<std::atomic<std::int64_t>>(0))
      : transport_(std::move(transport)), sent_(std::move(sent)) {
    for (std::int64_t rank = 0; rank < ranks(); ++rank) {
      hosts_.push_back(rank % count);
    }
  }

  std::int64_t ranks() const override { return transport_->ranks(); }
  std::int64_t rank() const override { return transport_->rank(); }
  const std::vector<std::int64_t>& hosts() const override { return hosts_; }
  std::unique_ptr<comm::Message> send(std::int64_t to, Channel channel, int tag,
                                      comm::Bytes data) override {
    *sent_ += channel == Channel::data && host(to) != host(rank()) ? 1 : 0;
    return transport_->send(to, channel, tag, data);
  }
  std::unique_ptr<comm::Message> receive(std::int64_t from, Channel channel, int tag,
                                         comm::Bytes room) override {
    return transport_->receive(from, channel, tag, room);
  }
  std::int64_t arrived(std::int64_t from, int tag) override {
    return transport_->arrived(from, tag);
  }
  void abandon() override { transport_->abandon(); }

 private:
  std::int64_t host(std::int64_t rank) const { return hosts_[static_cast<std::size_t>(rank)]; }

  std::unique_ptr<comm::Transport> transport_;
  std::vector<std::int64_t> hosts_;
  Count sent_;
};

}  // namespace shardsolve::testing
