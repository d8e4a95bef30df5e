/// Memory that several processes of one machine have in common.
#pragma once

#include <cstddef>
#include <string>

namespace shardsolve::comm {

/// One process makes it, others open it. It has no name in the file system: when all have closed
/// it, or are killed, it is gone.
class SharedMemory {
 public:
  /// Makes it, zeroed and rounded up to whole pages. The system takes a page when it is touched:
  /// the caller sees to it that there are so many. Throws Error(io).
  explicit SharedMemory(std::size_t bytes);
  /// Opens what another process has made, by its ticket() and before its withdraw(). Throws
  /// Error(io), also if the number in the ticket is that of another process here.
  SharedMemory(const std::string& ticket, std::size_t bytes);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  /// By this others open it: processes of the same user that see each other in /proc.
  std::string ticket() const;
  /// From now on nobody else can open it.
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
