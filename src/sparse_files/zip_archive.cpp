#include "sparse_files/zip_archive.hpp"

#include "io/npy_literal.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>
#include <string_view>
#include <utility>

namespace shardsolve::sparse_files {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view end_signature = "PK\x05\x06"sv;
constexpr std::string_view large_end_signature = "PK\x06\x06"sv;
constexpr std::string_view large_locator_signature = "PK\x06\x07"sv;
constexpr std::string_view directory_signature = "PK\x01\x02"sv;
constexpr std::string_view member_signature = "PK\x03\x04"sv;
constexpr std::int64_t end_bytes = 22;
constexpr std::int64_t large_end_bytes = 56;
constexpr std::int64_t large_locator_bytes = 20;
constexpr std::size_t directory_bytes = 46;
constexpr std::int64_t member_bytes = 30;
constexpr std::int64_t longest_comment = 65535;
constexpr std::uint64_t is_elsewhere = 0xFFFFFFFF;  // of a number that 32 bits do not hold
constexpr std::uint64_t large_sizes = 1;            // the kind of extra field that has it
constexpr unsigned stored = 0;
constexpr unsigned deflated = 8;
constexpr std::int64_t max_gain = 1032;  // bytes that one byte of deflate stands for, at most

/// Unsigned and little-endian; inside of `bytes`.
std::uint64_t number(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  }
  return value;
}

/// Numbers that no file has become the largest one, which no file has either.
std::int64_t count(std::string_view bytes, std::size_t at, std::size_t size) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return static_cast<std::int64_t>(std::min(number(bytes, at, size), most));
}

}  // namespace

ZipArchive::ZipArchive(std::string path)
    : path_(std::move(path)),
      file_(io::open_for_reading(path_)),
      file_bytes_(io::file_size(file_, path_)) {
  const Directory directory = find_directory();
  const std::string bytes = bytes_at(directory.offset, directory.bytes, "its list of members");
  std::size_t at = 0;
  for (std::int64_t i = 0; i < directory.members; ++i) {
    members_.push_back(parse_member(bytes, at));
  }
}

void ZipArchive::refuse(const std::string& what) const {
  throw Error(ErrorKind::invalid_argument,
              fmt::format("'{}' {}: copy it again, or write it again with scipy.sparse.save_npz",
                          path_, what));
}

std::string ZipArchive::bytes_at(std::int64_t offset, std::int64_t count_of,
                                 const char* what) const {
  if (offset > file_bytes_ || count_of > file_bytes_ - offset) {
    refuse(
        fmt::format("is cut off or damaged: {} should be {} bytes from byte {}, and the file "
                    "has {}",
                    what, count_of, offset, file_bytes_));
  }
  std::string bytes(static_cast<std::size_t>(count_of), '\0');
  io::read_exactly(file_, bytes.data(), count_of, offset, path_);
  return bytes;
}

ZipArchive::Directory ZipArchive::find_directory() const {
  const std::int64_t tail_bytes = std::min(file_bytes_, end_bytes + longest_comment);
  const std::int64_t tail_offset = file_bytes_ - tail_bytes;
  const std::string tail = bytes_at(tail_offset, tail_bytes, "its end");
  if (tail_bytes < end_bytes) {
    refuse(fmt::format("is no .npz file: {} bytes are too few for one", file_bytes_));
  }
  for (std::size_t at = tail.size() - static_cast<std::size_t>(end_bytes) + 1; at-- > 0;) {
    const std::string_view record = std::string_view(tail).substr(at);
    if (!record.starts_with(end_signature) ||
        number(record, 20, 2) != record.size() - static_cast<std::size_t>(end_bytes)) {
      continue;
    }
    if (number(record, 10, 2) == 0xFFFF || number(record, 12, 4) == is_elsewhere ||
        number(record, 16, 4) == is_elsewhere) {
      return large_directory(tail_offset + static_cast<std::int64_t>(at));
    }
    return {count(record, 16, 4), count(record, 12, 4), count(record, 10, 2)};
  }
  const std::string head = bytes_at(0, std::min<std::int64_t>(file_bytes_, 4), "its beginning");
  if (head == member_signature) {
    refuse("is cut off: it begins as an .npz file and lacks the end of one");
  }
  refuse(fmt::format("is no .npz file: it begins with '{}'", io::printable(head)));
}

ZipArchive::Directory ZipArchive::large_directory(std::int64_t end_record) const {
  if (end_record < large_locator_bytes) {
    refuse("is damaged: the place of its list of members is missing");
  }
  const std::string locator =
      bytes_at(end_record - large_locator_bytes, large_locator_bytes, "the place of its end");
  if (!locator.starts_with(large_locator_signature)) {
    refuse("is damaged: the place of its list of members is missing");
  }
  const std::string record = bytes_at(count(locator, 8, 8), large_end_bytes, "its end");
  if (!record.starts_with(large_end_signature)) {
    refuse("is damaged: its list of members is not where it should be");
  }
  return {count(record, 48, 8), count(record, 40, 8), count(record, 32, 8)};
}

ZipArchive::Member ZipArchive::parse_member(const std::string& bytes, std::size_t& at) const {
  const std::string_view record = std::string_view(bytes).substr(at);
  if (record.size() < directory_bytes || !record.starts_with(directory_signature)) {
    refuse("is damaged: its list of members is not whole");
  }
  const auto name_bytes = static_cast<std::size_t>(number(record, 28, 2));
  const auto extra_bytes = static_cast<std::size_t>(number(record, 30, 2));
  const auto comment_bytes = static_cast<std::size_t>(number(record, 32, 2));
  const std::size_t size = directory_bytes + name_bytes + extra_bytes + comment_bytes;
  if (record.size() < size) {
    refuse("is damaged: its list of members is not whole");
  }
  Member member;
  member.name = record.substr(directory_bytes, name_bytes);
  member.flags = static_cast<unsigned>(number(record, 8, 2));
  member.method = static_cast<unsigned>(number(record, 10, 2));
  member.checksum = static_cast<std::uint32_t>(number(record, 16, 4));
  member.packed_bytes = count(record, 20, 4);
  member.bytes = count(record, 24, 4);
  member.offset = count(record, 42, 4);
  read_large_sizes(std::string(record.substr(directory_bytes + name_bytes, extra_bytes)), member);
  at += size;
  return member;
}

void ZipArchive::read_large_sizes(const std::string& extra, Member& member) const {
  for (std::size_t at = 0; at + 4 <= extra.size();) {
    const std::uint64_t kind = number(extra, at, 2);
    const auto size = static_cast<std::size_t>(number(extra, at + 2, 2));
    at += 4;
    if (at + size > extra.size()) {
      return;  // padding of other programs
    }
    std::size_t from = at;
    if (kind == large_sizes) {
      for (std::int64_t* value : {&member.bytes, &member.packed_bytes, &member.offset}) {
        if (*value == static_cast<std::int64_t>(is_elsewhere) && from + 8 <= at + size) {
          *value = count(extra, from, 8);
          from += 8;
        }
      }
    }
    at += size;
  }
}

std::vector<std::string> ZipArchive::names() const {
  std::vector<std::string> names;
  for (const Member& member : members_) {
    names.push_back(member.name);
  }
  return names;
}

const ZipArchive::Member* ZipArchive::find(const std::string& name) const {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const Member& member) { return member.name == name; });
  return found == members_.end() ? nullptr : &*found;
}

std::string ZipArchive::read(const std::string& name) const {
  const Member* const member = find(name);
  if (member == nullptr) {
    refuse(fmt::format("has no member '{}'", io::printable(name)));
  }
  if ((member->flags & 1U) != 0) {
    refuse(fmt::format("has an encrypted member, '{}'", io::printable(name)));
  }
  const std::string head = bytes_at(member->offset, member_bytes, "the header of a member");
  if (!head.starts_with(member_signature)) {
    refuse(
        fmt::format("is damaged: its member '{}' is not where it should be", io::printable(name)));
  }
  const std::int64_t data = member->offset + member_bytes + count(head, 26, 2) + count(head, 28, 2);
  std::string bytes = bytes_at(data, member->packed_bytes, "a member");
  if (member->method == deflated) {
    bytes = inflated(bytes, *member);
  } else if (member->method != stored) {
    refuse(fmt::format("has its member '{}' compressed by method {}; stored and deflated are read",
                       io::printable(name), member->method));
  }
  const auto checksum =
      ::crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  if (static_cast<std::int64_t>(bytes.size()) != member->bytes || checksum != member->checksum) {
    refuse(
        fmt::format("is damaged: the checksum of its member '{}' is wrong", io::printable(name)));
  }
  return bytes;
}

std::string ZipArchive::inflated(const std::string& packed, const Member& member) const {
  const auto damaged = [&] {
    refuse(fmt::format("is damaged: its member '{}' does not unpack to {} bytes",
                       io::printable(member.name), member.bytes));
  };
  // Before any memory is taken for what cannot come.
  if (member.bytes / max_gain > member.packed_bytes) {
    damaged();
  }
  std::string bytes;
  try {
    bytes.resize(static_cast<std::size_t>(member.bytes));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::out_of_memory,
                fmt::format("no memory for the {} bytes of '{}' in '{}'", member.bytes,
                            io::printable(member.name), path_));
  }
  z_stream stream{};
  constexpr int without_header = -MAX_WBITS;
  if (::inflateInit2(&stream, without_header) != Z_OK) {
    throw Error(ErrorKind::out_of_memory, fmt::format("no memory to unpack '{}'", path_));
  }
  // zlib counts in 32 bits: pieces.
  constexpr std::size_t piece = std::size_t{1} << 30;
  std::size_t taken = 0;
  std::size_t made = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    const std::size_t input = std::min(piece, packed.size() - taken);
    const std::size_t output = std::min(piece, bytes.size() - made);
    stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(packed.data())) + taken;
    stream.avail_in = static_cast<unsigned>(input);
    stream.next_out = reinterpret_cast<unsigned char*>(bytes.data()) + made;
    stream.avail_out = static_cast<unsigned>(output);
    status = ::inflate(&stream, Z_NO_FLUSH);
    taken += input - stream.avail_in;
    made += output - stream.avail_out;
  }
  ::inflateEnd(&stream);
  if (status != Z_STREAM_END || made != bytes.size()) {
    damaged();
  }
  return bytes;
}

}  // namespace shardsolve::sparse_files
