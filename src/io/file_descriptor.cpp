#include "io/file_descriptor.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace shardsolve::io {

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

FileDescriptor::~FileDescriptor() { close(); }

void FileDescriptor::close() {
  if (is_open()) {
    // Linux has freed the number even when close reports EINTR, so it is never tried again.
    ::close(std::exchange(fd_, -1));
  }
}

FileDescriptor open_for_reading(const std::string& path) {
  // O_NONBLOCK: opening a pipe that nobody writes to would otherwise wait for ever.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) {
    throw_system_error("read", path, errno);
  }
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) {
    throw_system_error("read", path, errno);
  }
  if (S_ISDIR(status.st_mode)) {
    throw_system_error("read", path, EISDIR);
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::io,
                fmt::format("cannot read '{}': it is not a regular file; ranks read their parts of "
                            "it at their own places, so save it as a file first",
                            path));
  }
  return file;
}

std::int64_t file_size(const FileDescriptor& file, const std::string& path) {
  return file_state(file, path).bytes;
}

FileState file_state(const FileDescriptor& file, const std::string& path) {
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) {
    throw_system_error("read", path, errno);
  }
  return {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

void read_exactly(const FileDescriptor& file, void* data, std::int64_t bytes, std::int64_t offset,
                  const std::string& path) {
  auto* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ::ssize_t got = ::pread(file.get(), to, static_cast<std::size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      throw_system_error("read", path, errno);
    }
    if (got == 0) {
      // The end may lie before the place that was read from.
      const std::int64_t end = std::min(file_size(file, path), offset);
      throw Error(
          ErrorKind::io,
          fmt::format("'{}' changed while it was read: it ends at byte {}, and had at least "
                      "{} when it was opened; run again when nothing writes to it",
                      path, end, offset + bytes));
    }
    to += got;
    bytes -= got;
    offset += got;
  }
}

void throw_system_error(std::string_view action, const std::string& path, int error) {
  throw Error(ErrorKind::io, fmt::format("cannot {} '{}': {}", action, path,
                                         std::generic_category().message(error)));
}

}  // namespace shardsolve::io
