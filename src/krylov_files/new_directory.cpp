#include "krylov_files/new_directory.hpp"

#include "io/file_descriptor.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

namespace shardsolve::krylov::files {
namespace {

constexpr ::mode_t all_rights = 0777;  // the system takes the umask off

std::string without_last_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') {
    path.pop_back();
  }
  return path;
}

/// A new folder beside the target; "" with errno set if none can be made.
std::string make_beside(const std::string& target) {
  const std::filesystem::path parent = std::filesystem::path(target).parent_path();
  std::random_device random;
  constexpr int attempts = 100;
  for (int i = 0; i < attempts; ++i) {
    std::string name = (parent / fmt::format(".shardsolve-{:08x}{:08x}.tmp", random(), random()));
    if (::mkdir(name.c_str(), all_rights) == 0) {
      return name;
    }
    if (errno != EEXIST) {
      break;
    }
  }
  return "";
}

bool rename_with(const std::string& from, const std::string& to, unsigned flags) {
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0;
}

}  // namespace

NewDirectory::NewDirectory(std::string target, io::Overwrite overwrite, std::string mark,
                           std::function<bool(const std::string&)> belongs)
    : target_(without_last_slashes(std::move(target))),
      overwrite_(overwrite),
      mark_(std::move(mark)),
      belongs_(std::move(belongs)) {
  require_free();
  temporary_ = make_beside(target_);
  if (temporary_.empty()) {
    const int error = errno;
    throw Error(ErrorKind::io,
                fmt::format("cannot write the folder '{}': no folder can be made beside it: {}; "
                            "choose another place",
                            target_, std::generic_category().message(error)));
  }
}

NewDirectory::~NewDirectory() {
  if (!temporary_.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(temporary_, ignored);
  }
}

void NewDirectory::require_free() const {
  struct stat status{};
  if (::lstat(target_.c_str(), &status) != 0) {
    return;
  }
  if (!overwrite_.allowed) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("'{}' exists already and is left as it is; choose another name, or "
                            "allow it to be replaced with {}",
                            target_, overwrite_.allowed_by));
  }
  if (!S_ISDIR(status.st_mode) || ::access((target_ + "/" + mark_).c_str(), F_OK) != 0) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("'{}' exists already and is no capture (a folder with {}), so that {} "
                            "does not replace it; choose another name",
                            target_, mark_, overwrite_.allowed_by));
  }
  require_nothing_else();
}

void NewDirectory::require_nothing_else() const {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(target_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code unknown;
    if (!entry->is_regular_file(unknown) || unknown || !belongs_(name)) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("'{}' holds '{}', which is no part of a capture, so that {} does not "
                              "replace it; move that away, or choose another name",
                              target_, name, overwrite_.allowed_by));
    }
  }
  if (error) {
    io::throw_system_error("read the folder", target_, error.value());
  }
}

void NewDirectory::commit() {
  require_free();
  struct stat status{};
  const bool replaces = overwrite_.allowed && ::lstat(target_.c_str(), &status) == 0;
  bool done = rename_with(temporary_, target_, replaces ? RENAME_EXCHANGE : RENAME_NOREPLACE);
  if (done && replaces) {
    return;  // the destructor removes what was there before, under the temporary name
  }
  if (!done && !replaces && errno == EINVAL) {
    // A file system without these flags: rename() replaces an empty folder at most.
    done = std::rename(temporary_.c_str(), target_.c_str()) == 0;
  }
  if (!done) {
    io::throw_system_error("write", target_, errno);
  }
  temporary_.clear();
}

}  // namespace shardsolve::krylov::files
