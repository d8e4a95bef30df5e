/// The members of a zip archive, read and never written to.
///
/// Format: APPNOTE 6.3.10 of PKWARE. Members are stored or deflated, of any size (zip64); archives
/// of several parts and encrypted members are refused.
#pragma once

#include "io/file_descriptor.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve::sparse_files {

class ZipArchive {
 public:
  /// Opens the archive and reads its list of members. Throws Error(io) if the file cannot be read,
  /// Error(invalid_argument) if it is none, or damaged.
  explicit ZipArchive(std::string path);

  const std::string& path() const { return path_; }
  bool has(const std::string& member) const { return find(member) != nullptr; }
  std::vector<std::string> names() const;
  /// The bytes of a member, whose length and checksum are right. Throws Error(io) if the file
  /// cannot be read, Error(invalid_argument) if there is no such member or it is damaged, and
  /// Error(out_of_memory).
  std::string read(const std::string& member) const;

 private:
  struct Member {
    std::string name;
    unsigned method = 0;
    unsigned flags = 0;
    std::uint32_t checksum = 0;
    std::int64_t packed_bytes = 0;
    std::int64_t bytes = 0;
    std::int64_t offset = 0;  // of its own header
  };
  struct Directory {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    std::int64_t members = 0;
  };

  [[noreturn]] void refuse(const std::string& what) const;
  std::string bytes_at(std::int64_t offset, std::int64_t count, const char* what) const;
  Directory find_directory() const;
  Directory large_directory(std::int64_t end_record) const;
  Member parse_member(const std::string& bytes, std::size_t& at) const;
  void read_large_sizes(const std::string& extra, Member& member) const;
  const Member* find(const std::string& name) const;
  std::string inflated(const std::string& packed, const Member& member) const;

  std::string path_;
  io::FileDescriptor file_;
  std::int64_t file_bytes_ = 0;
  std::vector<Member> members_;
};

}  // namespace shardsolve::sparse_files
