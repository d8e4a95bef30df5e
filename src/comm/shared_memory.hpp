/// Memory that several processes of one machine have in common.
#pragma once

#include <cstddef>
#include <string>

namespace shardsolve::comm {

/// One process makes it, others open it. It has no name in the file system: when all have closed
/// it, or are killed, it is gone.
class SharedMemory {
 public:
  /// Zeroed, rounded up to whole pages, which the system takes when they are touched: whether it
  /// has so many is for the caller to see to. Throws Error(io).
  explicit SharedMemory(std::size_t bytes);
  /// Opens what another process has made, by what that one's ticket() says, before it withdraws
  /// that. Throws Error(io), also where this process sees another process by that number.
  SharedMemory(const std::string& ticket, std::size_t bytes);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  /// What others open it by: for processes of the same user that see each other in /proc.
  std::string ticket() const;
  /// Nobody else is to open it.
  void withdraw();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// Bytes at the beginning that are taken: they tell this memory from other.
  static constexpr std::size_t reserved = 64;

 private:
  void map();

  int file_ = -1;
  std::size_t size_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace shardsolve::comm
