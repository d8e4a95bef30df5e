#include "comm/traced_messages.hpp"

namespace shardsolve::comm {

std::vector<TraceMessage> ExchangeMessages::next(const std::vector<Bytes>& send,
                                                 const std::vector<Bytes>& receive) {
  std::vector<TraceMessage> ends;
  for (std::size_t at = 0; at < sent_.size(); ++at) {
    const auto peer = static_cast<std::int64_t>(at);
    if (peer == rank_) {
      continue;
    }
    if (send[at].size > 0) {
      ends.push_back({rank_, peer, ++sent_[at], static_cast<double>(send[at].size)});
    }
    if (receive[at].size > 0) {
      ends.push_back({peer, rank_, ++received_[at], static_cast<double>(receive[at].size)});
    }
  }
  return ends;
}

std::uint64_t window_number(WindowNotice notice, std::size_t window, std::int64_t root,
                            std::uint32_t count) {
  const std::uint64_t kind = 2 * (window + 1) + (notice == WindowNotice::released ? 1 : 0);
  return (kind << 48U) | (static_cast<std::uint64_t>(root) << 32U) | count;
}

}  // namespace shardsolve::comm
