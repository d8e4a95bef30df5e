/// An open file that closes itself, and what the system says when a call on a file fails.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardsolve::io {

/// Owns one file descriptor; -1 is none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor();

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

/// Opens a regular file for reading. Throws Error(io) on anything else: missing, a directory, a
/// pipe, no permission.
FileDescriptor open_for_reading(const std::string& path);

/// Bytes of an open file now.
std::int64_t file_size(const FileDescriptor& file, const std::string& path);

/// What changes when a file is written to.
struct FileState {
  std::int64_t bytes = 0;
  std::int64_t written_s = 0;   ///< when it was last written, since 1970
  std::int64_t written_ns = 0;  ///< beyond those seconds

  friend bool operator==(const FileState&, const FileState&) = default;
};

FileState file_state(const FileDescriptor& file, const std::string& path);

/// Reads exactly `bytes` bytes that start at `offset`. Safe from several threads at once. Throws
/// Error(io) if the device fails or the file has become shorter.
void read_exactly(const FileDescriptor& file, void* data, std::int64_t bytes, std::int64_t offset,
                  const std::string& path);

/// Throws Error(io): "cannot <action> '<path>': <what the system says about error>".
[[noreturn]] void throw_system_error(std::string_view action, const std::string& path, int error);

}  // namespace shardsolve::io
