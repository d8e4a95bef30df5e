/// A transport with a message that goes wrong.
#pragma once

#include "comm/transport.hpp"

#include <shardsolve/error.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace shardsolve::testing {

enum class MessageFault : std::uint8_t {
  refused,  ///< the transport throws when it is to send or receive it
  lost,     ///< it throws when it is asked for it
  delayed,  ///< it comes later
};

/// Counts the messages that a process sends and receives, on each channel by itself, and picks the
/// one that goes wrong.
class MessageFaults {
 public:
  using Channel = comm::Transport::Channel;

  /// Counts from zero; nothing goes wrong. Only while no call runs, like what follows.
  void clear() { strike(Channel::data, -1, MessageFault::lost); }
  void strike(Channel channel, std::int64_t message, MessageFault fault,
              std::chrono::milliseconds late = {}) {
    const std::lock_guard lock(mutex_);
    data_ = 0;
    control_ = 0;
    channel_ = channel;
    message_ = message;
    fault_ = fault;
    late_ = late;
  }
  std::int64_t data_messages() const {
    const std::lock_guard lock(mutex_);
    return data_;
  }

 private:
  friend class FaultyTransport;
  bool next_is_struck(Channel channel) {
    const std::lock_guard lock(mutex_);
    return (channel == Channel::data ? data_++ : control_++) == message_ && channel == channel_;
  }

  mutable std::mutex mutex_;
  std::int64_t data_ = 0;
  std::int64_t control_ = 0;
  Channel channel_ = Channel::data;
  std::int64_t message_ = -1;
  MessageFault fault_ = MessageFault::lost;
  std::chrono::milliseconds late_{};
};

/// Passes everything on to another transport but what is struck.
class FaultyTransport final : public comm::Transport {
 public:
  FaultyTransport(std::unique_ptr<comm::Transport> inner, std::shared_ptr<MessageFaults> faults)
      : inner_(std::move(inner)), faults_(std::move(faults)) {}

  std::int64_t ranks() const override { return inner_->ranks(); }
  std::int64_t rank() const override { return inner_->rank(); }
  const std::vector<std::int64_t>& hosts() const override { return inner_->hosts(); }
  std::unique_ptr<comm::Message> send(std::int64_t to, Channel channel, int tag,
                                      comm::Bytes data) override {
    return meet(channel, [&] { return inner_->send(to, channel, tag, data); });
  }
  std::unique_ptr<comm::Message> receive(std::int64_t from, Channel channel, int tag,
                                         comm::Bytes room) override {
    return meet(channel, [&] { return inner_->receive(from, channel, tag, room); });
  }
  std::int64_t arrived(std::int64_t from, int tag) override { return inner_->arrived(from, tag); }
  void abandon() override { inner_->abandon(); }

  static Error planted() { return {ErrorKind::communication, "planted: a message fails"}; }

 private:
  class LostMessage final : public comm::Message {
   public:
    bool test() override { throw planted(); }
    void give_up() override {}
    bool given_up() const override { return false; }
    std::size_t received() const override { return 0; }
  };
  class LateMessage final : public comm::Message {
   public:
    LateMessage(std::unique_ptr<comm::Message> inner, std::chrono::milliseconds late)
        : inner_(std::move(inner)), due_(std::chrono::steady_clock::now() + late) {}
    bool test() override { return std::chrono::steady_clock::now() >= due_ && inner_->test(); }
    void give_up() override { inner_->give_up(); }
    bool given_up() const override { return inner_->given_up(); }
    std::size_t received() const override { return inner_->received(); }

   private:
    std::unique_ptr<comm::Message> inner_;
    std::chrono::steady_clock::time_point due_;
  };

  template <class Post>
  std::unique_ptr<comm::Message> meet(Channel channel, Post post) {
    if (!faults_->next_is_struck(channel)) {
      return post();
    }
    switch (faults_->fault_) {
      case MessageFault::refused:
        throw planted();
      case MessageFault::lost:
        return std::make_unique<LostMessage>();
      case MessageFault::delayed:
        break;
    }
    return std::make_unique<LateMessage>(post(), faults_->late_);
  }

  std::unique_ptr<comm::Transport> inner_;
  std::shared_ptr<MessageFaults> faults_;
};

}  // namespace shardsolve::testing
