/// Communication between ranks that are threads of one process.
#pragma once

#include "comm/communicator.hpp"
#include "comm/in_process_group.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::comm {

/// One rank's end.
class InProcess final : public Communicator {
 public:
  /// Whether windows read in place. If not they copy, as ranks that share no memory do: for tests
  /// of that path.
  enum class Windows : std::uint8_t { in_place, copied };

  InProcess(InProcessGroup& group, std::int64_t rank, Windows windows)
      : group_(group), rank_(rank), windows_(windows) {}

  void broadcast(runtime::Queue& queue, Bytes data, std::int64_t root) override;
  void all_gather(runtime::Queue& queue, std::vector<Bytes> pieces) override;
  void gather(runtime::Queue& queue, Bytes data, std::vector<Bytes> pieces,
              std::int64_t root) override;
  void all_to_all(runtime::Queue& queue, std::vector<Bytes> send,
                  std::vector<Bytes> receive) override;
  std::unique_ptr<Window> make_window(Bytes memory) override;

  void begin_call() override { windows_made_ = 0; }

 private:
  /// Posts send[r] to every r, takes receive[r] from every r, and returns when all that was posted
  /// has been taken. Every operation above is one of these; null pieces do not take part.
  void exchange(const char* operation, const std::vector<Bytes>& send,
                const std::vector<Bytes>& receive);
  void enqueue(runtime::Queue& queue, const char* operation, std::vector<Bytes> send,
               std::vector<Bytes> receive);

  InProcessGroup& group_;
  std::int64_t rank_;
  Windows windows_;
  std::size_t windows_made_ = 0;
};

}  // namespace shardsolve::comm
