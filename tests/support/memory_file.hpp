/// A file without a disk.
#pragma once

#include "io/file_descriptor.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <iterator>
#include <string>

namespace shardsolve::testing {

/// A file in memory with a path: a disk would take most of the time.
class MemoryFile {
 public:
  MemoryFile() : file_(::memfd_create("A", MFD_CLOEXEC)) {}

  std::string path() const { return "/proc/self/fd/" + std::to_string(file_.get()); }
  bool hold(const std::string& bytes) const {
    return ::ftruncate(file_.get(), 0) == 0 &&
           ::pwrite(file_.get(), bytes.data(), bytes.size(), 0) == std::ssize(bytes);
  }

 private:
  io::FileDescriptor file_;
};

}  // namespace shardsolve::testing
