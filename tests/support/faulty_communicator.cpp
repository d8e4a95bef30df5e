#include "tests/support/faulty_communicator.hpp"

#include "runtime/host/host_queue.hpp"

#include <thread>
#include <utility>

namespace shardsolve::testing {

/// A window whose operations count as calls of the communicator.
class FaultyWindow final : public comm::Window {
 public:
  FaultyWindow(std::unique_ptr<comm::Window> inner, FaultyCommunicator& communicator)
      : inner_(std::move(inner)), communicator_(communicator) {}

  std::byte* base(std::int64_t root) const override { return inner_->base(root); }
  void publish(runtime::Queue& queue, const comm::WindowPart& part) override {
    communicator_.meet(queue, "publish");
    inner_->publish(queue, part);
  }
  void release(runtime::Queue& queue) override {
    communicator_.meet(queue, "release");
    inner_->release(queue);
  }
  void reclaim(runtime::Queue& queue) override {
    communicator_.meet(queue, "reclaim");
    inner_->reclaim(queue);
  }

 private:
  std::unique_ptr<comm::Window> inner_;
  FaultyCommunicator& communicator_;
};

/// Likewise memory of other ranks.
class FaultyPeerMemory final : public comm::PeerMemory {
 public:
  FaultyPeerMemory(std::unique_ptr<comm::PeerMemory> inner, FaultyCommunicator& communicator)
      : inner_(std::move(inner)), communicator_(communicator) {}

  void* of(std::int64_t rank) const override { return inner_->of(rank); }
  void fence(runtime::Queue& queue) override {
    communicator_.meet(queue, "fence");
    inner_->fence(queue);
  }

 private:
  std::unique_ptr<comm::PeerMemory> inner_;
  FaultyCommunicator& communicator_;
};

/// A stream takes no work of the host's, and an error of its own would stay for the whole process.
/// So with GPUs the thread that enqueues waits until the stream has come so far, and fails or is
/// late itself.
void FaultyCommunicator::meet(runtime::Queue& queue, const char* operation) {
  const std::optional<Fault> fault = faults_.next_call(rank_);
  if (!fault) {
    return;
  }
  if (*fault == Fault::refused) {
    throw faults_.planted();
  }
  if (auto* const worker = dynamic_cast<runtime::host::HostQueue*>(&queue)) {
    worker->launch({.name = operation}, [this, fault = *fault] { suffer(fault); });
  } else {
    queue.synchronize();
    suffer(*fault);
  }
}

void FaultyCommunicator::meet() {
  if (const std::optional<Fault> fault = faults_.next_call(rank_)) {
    suffer(*fault);
  }
}

void FaultyCommunicator::suffer(Fault fault) const {
  if (fault == Fault::refused || fault == Fault::failed) {
    throw faults_.planted();
  }
  std::this_thread::sleep_for(faults_.late());
}

void FaultyCommunicator::broadcast(runtime::Queue& queue, comm::Bytes data, std::int64_t root) {
  meet(queue, "broadcast");
  inner_->broadcast(queue, data, root);
}

void FaultyCommunicator::all_gather(runtime::Queue& queue, std::vector<comm::Bytes> pieces) {
  meet(queue, "all_gather");
  inner_->all_gather(queue, std::move(pieces));
}

void FaultyCommunicator::gather(runtime::Queue& queue, comm::Bytes data,
                                std::vector<comm::Bytes> pieces, std::int64_t root) {
  meet(queue, "gather");
  inner_->gather(queue, data, std::move(pieces), root);
}

void FaultyCommunicator::all_to_all(runtime::Queue& queue, std::vector<comm::Bytes> send,
                                    std::vector<comm::Bytes> receive) {
  meet(queue, "all_to_all");
  inner_->all_to_all(queue, std::move(send), std::move(receive));
}

std::unique_ptr<comm::Window> FaultyCommunicator::make_window(comm::Bytes memory) {
  meet();
  return std::make_unique<FaultyWindow>(inner_->make_window(memory), *this);
}

std::unique_ptr<comm::PeerMemory> FaultyCommunicator::make_peer_memory(comm::Bytes memory) {
  meet();
  auto inner = inner_->make_peer_memory(memory);
  return inner ? std::make_unique<FaultyPeerMemory>(std::move(inner), *this) : nullptr;
}

}  // namespace shardsolve::testing
