#include "io/output_file.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <random>
#include <system_error>
#include <utility>

namespace shardsolve::io {
namespace {

constexpr ::mode_t permissions = 0666;  // the system takes the umask off

[[noreturn]] void reject_existing(const std::string& path, Overwrite overwrite) {
  throw Error(ErrorKind::invalid_argument,
              fmt::format("'{}' exists already and is left as it is; choose another name, or allow "
                          "it to be replaced with {}",
                          path, overwrite.allowed_by));
}

/// Where the bytes finally go: `path`, or what it points to if it is a symbolic link.
std::string final_target(const std::string& path, Overwrite overwrite) {
  if (path.empty()) {
    throw Error(ErrorKind::invalid_argument, "the name of the output file is empty");
  }
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return path;
    }
    throw_system_error("write", path, errno);
  }
  const bool is_link = S_ISLNK(status.st_mode);
  if (is_link && ::stat(path.c_str(), &status) != 0) {
    throw Error(ErrorKind::io,
                fmt::format("cannot write '{}': it is a symbolic link that points to nothing; "
                            "remove it or give the name of the file itself",
                            path));
  }
  if (S_ISDIR(status.st_mode)) {
    throw_system_error("write", path, EISDIR);
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::io, fmt::format("cannot write '{}': it exists and is not a regular "
                                           "file; give the name of a file",
                                           path));
  }
  if (!overwrite.allowed) {
    reject_existing(path, overwrite);
  }
  return is_link ? std::filesystem::canonical(path).string() : path;
}

std::string random_name() {
  std::random_device random;
  return fmt::format(".shardsolve-{:08x}{:08x}.tmp", random(), random());
}

/// Calls attempt(name) with one hidden name after another until one is free. Returns the name, or
/// "" with errno set.
template <class Attempt>
std::string with_free_name(Attempt attempt) {
  constexpr int attempts = 100;
  for (int i = 0; i < attempts; ++i) {
    std::string name = random_name();
    if (attempt(name.c_str())) {
      return name;
    }
    if (errno != EEXIST) {
      break;
    }
  }
  return "";
}

/// errno, if a call that returns 0 has failed; 0 if not.
int error_of(int result) { return result == 0 ? 0 : errno; }

/// The name under which the system shows an open file, whether it has another or not.
std::string link_to(const FileDescriptor& file) {
  return fmt::format("/proc/self/fd/{}", file.get());
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::uint64_t giga = 1'000'000'000;
  constexpr std::uint64_t mega = 1'000'000;
  if (bytes >= giga) {
    return fmt::format("{:.1f} GB", static_cast<double>(bytes) / double{giga});
  }
  if (bytes >= mega) {
    return fmt::format("{:.1f} MB", static_cast<double>(bytes) / double{mega});
  }
  return fmt::format("{} bytes", bytes);
}

std::uint64_t free_bytes(const FileDescriptor& file) {
  struct statvfs status{};
  if (::fstatvfs(file.get(), &status) != 0) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

/// So that the name survives a power cut. No error of it is reported: the file is complete and has
/// its name, and the caller could do nothing.
void sync_directory(const FileDescriptor& directory) {
  const FileDescriptor readable(::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (readable.is_open()) {
    ::fsync(readable.get());
  }
}

}  // namespace

OutputFile::OutputFile(std::string path, Overwrite overwrite, Temporary temporary)
    : path_(std::move(path)), overwrite_(overwrite) {
  find_place();
  open_temporary(temporary);
}

OutputFile::OutputFile(std::string path, Overwrite overwrite, const std::string& shared_name)
    : path_(std::move(path)), overwrite_(overwrite), joined_(true) {
  find_place();
  const auto space = shared_name.find(' ');
  const std::string inode = shared_name.substr(0, space);
  const std::string name = shared_name.substr(std::min(space, shared_name.size() - 1) + 1);
  const bool has_name = !name.empty() && name.front() != '/';
  file_ = FileDescriptor(
      ::openat(has_name ? directory_.get() : AT_FDCWD, name.c_str(), O_WRONLY | O_CLOEXEC));
  struct stat status{};
  if (!file_.is_open() || ::fstat(file_.get(), &status) != 0 ||
      std::to_string(status.st_ino) != inode) {
    throw Error(ErrorKind::io,
                fmt::format("cannot write '{}': the file that rank 0 has begun there cannot be "
                            "opened by this process; give a place that all processes share",
                            path_));
  }
  temporary_name_ = has_name ? name : "";
}

void OutputFile::find_place() {
  const std::filesystem::path target(final_target(path_, overwrite_));
  name_ = target.filename().string();
  if (name_.empty()) {
    throw_system_error("write", path_, EISDIR);
  }
  open_directory(target.parent_path().string());
}

std::string OutputFile::shared_name() const {
  struct stat status{};
  if (::fstat(file_.get(), &status) != 0) {
    throw_system_error("write", path_, errno);
  }
  return fmt::format("{} {}", status.st_ino,
                     temporary_name_.empty()
                         ? fmt::format("/proc/{}/fd/{}", ::getpid(), file_.get())
                         : temporary_name_);
}

OutputFile::~OutputFile() {
  if (!temporary_name_.empty()) {
    ::unlinkat(directory_.get(), temporary_name_.c_str(), 0);
  }
}

void OutputFile::open_directory(const std::string& directory) {
  directory_path_ = directory.empty() ? "." : directory;
  // O_PATH: a directory may be written to by somebody who cannot list it.
  directory_ = FileDescriptor(::open(directory_path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory_.is_open()) {
    throw_bad_directory(errno);
  }
}

void OutputFile::open_temporary(Temporary temporary) {
  if (temporary == Temporary::unnamed) {
    file_ = FileDescriptor(
        ::openat(directory_.get(), ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, permissions));
    // These say that the kernel or the file system has no O_TMPFILE.
    if (!file_.is_open() && errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) {
      throw_bad_directory(errno);
    }
    // A file without a name can get one only through /proc, which a container may lack.
    if (file_.is_open() && ::access(link_to(file_).c_str(), F_OK) == 0) {
      return;
    }
  }
  open_named_temporary();
}

void OutputFile::open_named_temporary() {
  temporary_name_ = with_free_name([this](const char* name) {
    file_ = FileDescriptor(
        ::openat(directory_.get(), name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, permissions));
    return file_.is_open();
  });
  if (temporary_name_.empty()) {
    throw_bad_directory(errno);
  }
}

void OutputFile::reserve(std::int64_t bytes) {
  if (bytes <= 0) {
    return;
  }
  // Asked first: some file systems fill the disk before they say that it is too small.
  if (free_bytes(file_) < static_cast<std::uint64_t>(bytes)) {
    throw_no_space(bytes, ENOSPC);
  }
  // Not posix_fallocate: where the file system cannot claim space, it writes to every block.
  int error = 0;
  do {
    error = error_of(::fallocate(file_.get(), 0, 0, bytes));
  } while (error == EINTR);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    throw_no_space(bytes, error);
  }
  const bool cannot_claim = error == EOPNOTSUPP || error == EINVAL || error == ENOSYS;
  if (error != 0 && !cannot_claim) {
    throw_system_error("write", path_, error);
  }
}

void OutputFile::pwrite_all(const void* data, std::int64_t bytes, std::int64_t offset) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ::ssize_t put = ::pwrite(file_.get(), from, static_cast<std::size_t>(bytes), offset);
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
      throw_no_space(offset + bytes, errno);
    }
    if (put < 0) {
      throw_system_error("write", path_, errno);
    }
    from += put;
    bytes -= put;
    offset += put;
  }
}

void OutputFile::sync() {
  if (::fsync(file_.get()) != 0) {
    throw_system_error("write", path_, errno);
  }
}

void OutputFile::commit(const std::function<void()>& last_check) {
  sync();  // before the name: after a power cut a name must not lead to missing bytes
  last_check();
  publish();
  settle();
}

void OutputFile::publish() {
  if (overwrite_.allowed) {
    publish_over();
  } else {
    publish_new();
  }
}

void OutputFile::retract() noexcept {
  const int directory = directory_.get();
  if (published_ == Published::over_hidden) {
    // What is hidden then is the new file, which the destructor removes.
    ::renameat2(directory, temporary_name_.c_str(), directory, name_.c_str(), RENAME_EXCHANGE);
  } else if (published_ == Published::new_name) {
    ::unlinkat(directory, name_.c_str(), 0);
  }
  published_ = Published::no;
}

void OutputFile::settle() {
  if (published_ == Published::over_hidden) {
    ::unlinkat(directory_.get(), temporary_name_.c_str(), 0);
    temporary_name_.clear();
  }
  sync_directory(directory_);
  file_.close();
}

int OutputFile::take_free_name() {
  const int directory = directory_.get();
  const char* name = name_.c_str();
  const char* temporary = temporary_name_.c_str();
  if (temporary_name_.empty()) {
    const std::string link = link_to(file_);
    return error_of(::linkat(AT_FDCWD, link.c_str(), directory, name, AT_SYMLINK_FOLLOW));
  }
  int error = error_of(::renameat2(directory, temporary, directory, name, RENAME_NOREPLACE));
  // NFS, for one, cannot rename without replacing. Its link() never replaces.
  if (error == EINVAL || error == ENOSYS) {
    error = error_of(::linkat(directory, temporary, directory, name, 0));
    if (error == 0) {
      ::unlinkat(directory, temporary, 0);
    }
  }
  return error;
}

void OutputFile::publish_new() {
  const int error = take_free_name();
  if (error == EEXIST) {
    reject_existing(path_, overwrite_);
  }
  if (error != 0) {
    throw_system_error("write", path_, error);
  }
  temporary_name_.clear();
  published_ = Published::new_name;
}

bool OutputFile::keep_permissions() {
  struct stat before{};
  if (::fstatat(directory_.get(), name_.c_str(), &before, 0) != 0) {
    return false;
  }
  ::mode_t mode = before.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO);
  if (::fchown(file_.get(), before.st_uid, before.st_gid) != 0 &&
      ::fchown(file_.get(), static_cast<::uid_t>(-1), before.st_gid) != 0) {
    mode = (mode & ~S_IRWXG) | (mode & S_IRWXO) << 3U;  // it is another group
  }
  ::fchmod(file_.get(), mode);
  return S_ISREG(before.st_mode);
}

void OutputFile::publish_over() {
  const bool replaces = keep_permissions();
  // link() never replaces and rename() needs a name to start from.
  if (temporary_name_.empty()) {
    name_temporary();
  }
  const int directory = directory_.get();
  const char* name = name_.c_str();
  const char* temporary = temporary_name_.c_str();
  if (replaces && ::renameat2(directory, temporary, directory, name, RENAME_EXCHANGE) == 0) {
    published_ = Published::over_hidden;
    return;
  }
  if (::renameat(directory, temporary, directory, name) != 0) {
    throw_system_error("write", path_, errno);
  }
  temporary_name_.clear();
  published_ = replaces ? Published::over : Published::new_name;
}

void OutputFile::name_temporary() {
  temporary_name_ = with_free_name([this](const char* name) {
    return ::linkat(AT_FDCWD, link_to(file_).c_str(), directory_.get(), name, AT_SYMLINK_FOLLOW) ==
           0;
  });
  if (temporary_name_.empty()) {
    throw_system_error("write", path_, errno);
  }
}

void OutputFile::throw_bad_directory(int error) const {
  if (error == ENOENT && !directory_.is_open()) {
    throw Error(ErrorKind::io,
                fmt::format("cannot write '{}': the directory '{}' does not exist; create it first",
                            path_, directory_path_));
  }
  const std::string why = error == ENOENT ? "it was removed, or is one of the system's own (/proc)"
                                          : std::generic_category().message(error);
  throw Error(ErrorKind::io,
              fmt::format("cannot write '{}': no file can be created in the directory '{}': {}; "
                          "choose another directory",
                          path_, directory_path_, why));
}

void OutputFile::throw_no_space(std::int64_t bytes, int error) const {
  std::string available = format_bytes(free_bytes(file_)) + " are free";
  struct rlimit limit{};
  if (error == EFBIG && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    available = fmt::format("files may have {} (ulimit -f)", format_bytes(limit.rlim_cur));
  }
  throw Error(ErrorKind::io,
              fmt::format("cannot write '{}': {} are needed, {}: {}; make room or choose another "
                          "directory",
                          path_, format_bytes(static_cast<std::uint64_t>(bytes)), available,
                          std::generic_category().message(error)));
}

bool same_file(const std::string& path_a, const std::string& path_b) {
  struct stat a{};
  struct stat b{};
  return ::stat(path_a.c_str(), &a) == 0 && ::stat(path_b.c_str(), &b) == 0 &&
         a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace shardsolve::io
