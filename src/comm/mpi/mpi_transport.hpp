/// Messages by MPI.
#pragma once

#include "comm/transport.hpp"

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::comm::mpi {

/// On two communicators of its own, so that its messages never meet those of anybody else. All its
/// calls of MPI are made one at a time: MPI_THREAD_SERIALIZED is enough.
class MpiTransport final : public Transport {
 public:
  /// Over the processes of `communicator`, all of which call this. MPI is running.
  explicit MpiTransport(MPI_Comm communicator);
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;
  ~MpiTransport() override;

  std::int64_t ranks() const override { return ranks_; }
  std::int64_t rank() const override { return rank_; }
  const std::vector<std::int64_t>& hosts() const override { return hosts_; }

  std::unique_ptr<Message> send(std::int64_t to, Channel channel, int tag, Bytes data) override;
  std::unique_ptr<Message> receive(std::int64_t from, Channel channel, int tag,
                                   Bytes room) override;
  std::int64_t arrived(std::int64_t from, int tag) override;
  void abandon() override;

 private:
  MPI_Comm communicator(Channel channel) const {
    return channel == Channel::data ? data_ : control_;
  }

  MPI_Comm data_ = MPI_COMM_NULL;
  MPI_Comm control_ = MPI_COMM_NULL;
  int ranks_ = 0;
  int rank_ = 0;
  std::vector<std::int64_t> hosts_;
  bool abandoned_ = false;
};

/// Starts MPI unless the program has, and sees to its end then. Throws Error(unsupported) if its
/// threads may not take turns in calling MPI, or if the program has ended MPI already.
void start_mpi();

}  // namespace shardsolve::comm::mpi
