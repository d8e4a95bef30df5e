#include "comm/shared_memory.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

namespace shardsolve::comm {
namespace {

[[noreturn]] void refuse(const char* doing) {
  throw Error(ErrorKind::io, fmt::format("{} failed: {}", doing, std::strerror(errno)));
}

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + SharedMemory::reserved + page - 1) / page * page;
}

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes) : size_(whole_pages(bytes)) {
  std::random_device random;
  const std::array<std::uint32_t, 2> token = {random(), random()};
  // The system takes it for a file, and would send a signal.
  rlimit largest{};
  if (::getrlimit(RLIMIT_FSIZE, &largest) == 0 && size_ > largest.rlim_cur) {
    errno = EFBIG;
    refuse("making shared memory");
  }
  file_ = ::memfd_create("shardsolve", MFD_CLOEXEC);
  if (file_ < 0) {
    refuse("making shared memory");
  }
  if (::ftruncate(file_, static_cast<off_t>(size_)) != 0) {
    ::close(file_);
    refuse("making shared memory");
  }
  map();
  std::memcpy(data_, token.data(), sizeof token);
}

SharedMemory::SharedMemory(const std::string& ticket, std::size_t bytes)
    : size_(whole_pages(bytes)) {
  int process = 0;
  int file = 0;
  unsigned long long token = 0;
  if (std::sscanf(ticket.c_str(), "%d %d %llu", &process, &file, &token) != 3) {
    throw Error(ErrorKind::io, "shared memory without a ticket");
  }
  const std::string path = fmt::format("/proc/{}/fd/{}", process, file);
  file_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file_ < 0) {
    refuse("opening shared memory of another process");
  }
  const bool whole = ::lseek(file_, 0, SEEK_END) == static_cast<off_t>(size_);
  if (whole) {
    map();
  }
  withdraw();
  if (!whole || std::memcmp(data_, &token, sizeof token) != 0) {
    if (data_ != nullptr) {
      ::munmap(data_, size_);
    }
    throw Error(ErrorKind::io,
                "another process was found where shared memory is: the processes do not see each "
                "other by the same numbers (containers of their own)");
  }
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(size_, other.size_);
  std::swap(data_, other.data_);
  return *this;
}

SharedMemory::~SharedMemory() {
  withdraw();
  if (data_ != nullptr) {
    ::munmap(data_, size_);
  }
}

void SharedMemory::map() {
  void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) {
    ::close(std::exchange(file_, -1));
    refuse("mapping shared memory");
  }
  data_ = static_cast<std::byte*>(memory);
}

std::string SharedMemory::ticket() const {
  unsigned long long token = 0;
  std::memcpy(&token, data_, sizeof token);
  return fmt::format("{} {} {}", ::getpid(), file_, token);
}

void SharedMemory::withdraw() {
  if (file_ >= 0) {
    ::close(std::exchange(file_, -1));
  }
}

}  // namespace shardsolve::comm
