/// A file that appears under its name complete or not at all.
#pragma once

#include "io/file_descriptor.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace shardsolve::io {

/// Whether a file that exists may be replaced.
struct Overwrite {
  // NOLINTNEXTLINE(google-explicit-constructor)
  Overwrite(bool is_allowed, const char* by = "'overwrite'")
      : allowed(is_allowed), allowed_by(by) {}

  bool allowed;
  const char* allowed_by;  ///< how the user says that it may, a literal
};

/// A file in the making. Its bytes go to a file without a name in the target's directory
/// (O_TMPFILE), which gets its name in commit(). If the process dies before, SIGKILL included, the
/// system drops it; if the object is destroyed before, nothing is left either.
///
/// Where the file system has no O_TMPFILE, the bytes go to a hidden file ".shardsolve-*.tmp" in
/// the same directory. Only SIGKILL or a power cut can leave that behind, never under the target's
/// name. The same holds for the short time in which commit() replaces an existing file.
///
/// A process that may meet a limit on file sizes (RLIMIT_FSIZE) ignores SIGXFSZ: only then is the
/// limit reported as an Error. The command line tool does so.
class OutputFile {
 public:
  /// `named` takes the hidden file in any case, as on a file system without O_TMPFILE.
  enum class Temporary : std::uint8_t { unnamed, named };

  /// Refuses at once, before any work is done, what commit() would refuse: an existing target
  /// unless `overwrite` is set (Error(invalid_argument)); a directory that is missing or cannot be
  /// written to, a target that is no regular file (Error(io)).
  ///
  /// A target that is a symbolic link is kept when overwriting: the file that it points to is
  /// replaced. A link that points nowhere is refused.
  explicit OutputFile(std::string path, Overwrite overwrite = false,
                      Temporary temporary = Temporary::unnamed);
  /// Joins in on a file that another process has in the making, with the same path and this
  /// shared_name(): to write to it, and for sync(). Its maker has claimed the space and commits it
  /// when nobody writes any longer. Throws Error(io) if it cannot be opened from here.
  OutputFile(std::string path, Overwrite overwrite, const std::string& shared_name);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  /// The target, as the caller gave it.
  const std::string& path() const { return path_; }

  /// Whether another process has made it.
  bool joined() const { return joined_; }

  /// What another process needs to join in. A file without a name can be joined on the same machine
  /// only, and where that one may look into this process.
  std::string shared_name() const;

  /// Claims the disk space of a file of `bytes` bytes, so that a full disk is found before the work
  /// rather than after it. Of a file system that cannot claim space it is only asked that so much
  /// is free now. Throws Error(io) with the bytes needed and available.
  void reserve(std::int64_t bytes);

  /// Writes all bytes at `offset`. Safe from several threads at once. Throws Error(io) if the
  /// device fails or is full.
  void pwrite_all(const void* data, std::int64_t bytes, std::int64_t offset);

  /// Brings the bytes that this process has written to the disk.
  void sync();

  /// sync(), `last_check`, publish(), settle(). `last_check` comes where nothing has changed yet,
  /// as bringing bytes to the disk may take long: if it throws, the target is left as it is.
  void commit(const std::function<void()>& last_check = [] {});

  /// Gives the file its name, with the permissions 0666 & ~umask or, as far as the system lets this
  /// user, with owner and permissions of what it replaces. Without `overwrite` a target that has
  /// appeared meanwhile is left alone: Error(invalid_argument) and nothing is written. To be called
  /// once, after sync().
  void publish();
  /// Takes the name back after publish(): what was there before, nothing or a file, is there again.
  /// A file system that cannot exchange two files (NFS) keeps the new one where it has replaced
  /// another.
  void retract() noexcept;
  /// Ends what publish() has begun: what was replaced is gone for good.
  void settle();

 private:
  enum class Published : std::uint8_t {
    no,
    new_name,     // nothing was there before
    over_hidden,  // what was there before is the hidden file now
    over,         // what was there before is gone
  };

  void find_place();
  void open_directory(const std::string& directory);
  void open_temporary(Temporary temporary);
  void open_named_temporary();
  void name_temporary();
  int take_free_name();
  void publish_new();
  /// Whether there is a file to replace, whose permissions the new one then has.
  bool keep_permissions();
  void publish_over();
  [[noreturn]] void throw_bad_directory(int error) const;
  [[noreturn]] void throw_no_space(std::int64_t bytes, int error) const;

  std::string path_;
  Overwrite overwrite_;
  bool joined_ = false;
  std::string directory_path_;
  FileDescriptor directory_;
  std::string name_;            // of the target, inside the directory
  std::string temporary_name_;  // of the hidden file, inside the directory; empty while it has none
  Published published_ = Published::no;
  FileDescriptor file_;
};

/// Whether two paths lead to the same file. False if one of them leads nowhere.
bool same_file(const std::string& path_a, const std::string& path_b);

}  // namespace shardsolve::io
