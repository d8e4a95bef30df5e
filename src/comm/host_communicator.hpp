/// What communicators between CPU ranks share.
#pragma once

#include "comm/exchange_communicator.hpp"

#include <vector>

namespace shardsolve::comm {

/// An exchange is a piece of work of the queue's thread.
class HostCommunicator : public ExchangeCommunicator {
 public:
  using ExchangeCommunicator::ExchangeCommunicator;

 protected:
  void enqueue(runtime::Queue& queue, const char* operation, Pieces pieces) final;

 private:
  /// Runs on the queue: sends send[r] to every r, takes receive[r] from every r, and returns when
  /// all that was sent has been taken. Null pieces do not take part; the own ones are null.
  virtual void exchange(const char* operation, const std::vector<Bytes>& send,
                        const std::vector<Bytes>& receive) = 0;
};

}  // namespace shardsolve::comm
