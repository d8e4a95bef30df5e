#include "tests/support/memory_transport.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace shardsolve::testing {

class MemoryMessage final : public comm::Message {
 public:
  MemoryMessage(std::shared_ptr<MemoryPost> post, MemoryPost::Line line,
                std::shared_ptr<MemoryPost::End> end)
      : post_(std::move(post)), line_(std::move(line)), end_(std::move(end)) {}
  MemoryMessage(const MemoryMessage&) = delete;
  MemoryMessage& operator=(const MemoryMessage&) = delete;
  /// The memory may go now.
  ~MemoryMessage() override {
    const std::lock_guard lock(post_->mutex_);
    if (!end_->complete) {
      post_->withdraw(line_, end_);
      post_->dropped_ = true;
    }
  }

  bool test() override {
    const std::lock_guard lock(post_->mutex_);
    return end_->complete;
  }
  void give_up() override {
    const std::lock_guard lock(post_->mutex_);
    if (!end_->complete) {
      post_->withdraw(line_, end_);
      end_->complete = true;
      end_->given_up = true;
    }
  }
  bool given_up() const override { return end_->given_up; }
  std::size_t received() const override { return end_->received; }

 private:
  std::shared_ptr<MemoryPost> post_;
  MemoryPost::Line line_;
  std::shared_ptr<MemoryPost::End> end_;
};

/// As MPI has it, of a message that is too large nothing is of use but the fact.
void MemoryPost::deliver(End& send, End& receive) {
  const bool fits = send.memory.size <= receive.memory.size;
  if (fits && send.memory.size > 0) {
    std::memcpy(receive.memory.data, send.memory.data, send.memory.size);
  }
  receive.received = fits ? send.memory.size : receive.memory.size + 1;
  receive.complete = true;
  send.complete = true;
}

void MemoryPost::withdraw(const Line& line, const std::shared_ptr<End>& end) {
  Waiting& waiting = waiting_[line];
  for (auto* ends : {&waiting.sends, &waiting.receives}) {
    ends->erase(std::remove(ends->begin(), ends->end(), end), ends->end());
  }
  forget_if_empty(line);
}

void MemoryPost::forget_if_empty(const Line& line) {
  const auto found = waiting_.find(line);
  if (found->second.sends.empty() && found->second.receives.empty()) {
    waiting_.erase(found);
  }
}

std::unique_ptr<comm::Message> MemoryTransport::send(std::int64_t to, Channel channel, int tag,
                                                     comm::Bytes data) {
  const MemoryPost::Line line{rank_, to, channel, tag};
  const auto end = std::make_shared<MemoryPost::End>();
  end->memory = data;
  const std::lock_guard lock(post_->mutex_);
  MemoryPost::Waiting& waiting = post_->waiting_[line];
  if (!waiting.receives.empty()) {
    MemoryPost::deliver(*end, *waiting.receives.front());
    waiting.receives.pop_front();
    post_->forget_if_empty(line);
  } else {
    if (data.size <= post_->eager_) {
      const auto* bytes = static_cast<const std::byte*>(data.data);
      end->copy.assign(bytes, bytes + data.size);
      end->memory.data = end->copy.data();
      end->complete = true;
    }
    waiting.sends.push_back(end);
  }
  return std::make_unique<MemoryMessage>(post_, line, end);
}

std::unique_ptr<comm::Message> MemoryTransport::receive(std::int64_t from, Channel channel, int tag,
                                                        comm::Bytes room) {
  const MemoryPost::Line line{from, rank_, channel, tag};
  const auto end = std::make_shared<MemoryPost::End>();
  end->memory = room;
  const std::lock_guard lock(post_->mutex_);
  MemoryPost::Waiting& waiting = post_->waiting_[line];
  if (!waiting.sends.empty()) {
    MemoryPost::deliver(*waiting.sends.front(), *end);
    waiting.sends.pop_front();
    post_->forget_if_empty(line);
  } else {
    waiting.receives.push_back(end);
  }
  return std::make_unique<MemoryMessage>(post_, line, end);
}

std::int64_t MemoryTransport::arrived(std::int64_t from, int tag) {
  const std::lock_guard lock(post_->mutex_);
  const auto found = post_->waiting_.find({from, rank_, Channel::data, tag});
  if (found == post_->waiting_.end() || found->second.sends.empty()) {
    return -1;
  }
  return static_cast<std::int64_t>(found->second.sends.front()->memory.size);
}

}  // namespace shardsolve::testing
