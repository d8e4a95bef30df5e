#include "krylov_files/npz_writer.hpp"

#include "core/each_dtype.hpp"
#include "io/checksum.hpp"
#include "io/npy_foreign.hpp"
#include "io/npy_header.hpp"

#include <cstddef>
#include <limits>

namespace shardsolve::krylov::files {
namespace {

using namespace std::string_view_literals;

constexpr std::int64_t headers_at_most = 4096;  // of five members and their list

/// Little-endian.
void put(std::string& bytes, std::uint64_t number, int size) {
  for (int i = 0; i < size; ++i) {
    bytes += static_cast<char>(number >> (8 * i) & 0xff);
  }
}

/// What the header of a member and its entry in the list share: version 2.0, no flags, stored, the
/// first day that zip knows, checksum, twice the size, length of the name, no extra field.
std::string common_fields(std::uint32_t checksum, std::uint32_t size, std::size_t name_size) {
  constexpr std::uint64_t first_day = 1 << 5 | 1;  // of 1980
  std::string bytes;
  put(bytes, 20, 2);
  put(bytes, 0, 2);
  put(bytes, 0, 2);
  put(bytes, 0, 2);
  put(bytes, first_day, 2);
  put(bytes, checksum, 4);
  put(bytes, size, 4);
  put(bytes, size, 4);
  put(bytes, name_size, 2);
  put(bytes, 0, 2);
  return bytes;
}

template <class Element>
std::string_view bytes_of(const std::vector<Element>& elements) {
  return {reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(Element)};
}

template <class Element>
void add_array(ZipWriter& zip, std::string_view name, std::string_view descr,
               const std::vector<Element>& elements) {
  zip.add(name, io::format_npy_header(descr, false, {std::ssize(elements)}), bytes_of(elements));
}

template <class Index>
void add_indices(ZipWriter& zip, std::string_view name, std::string_view descr,
                 const std::vector<std::int64_t>& indices) {
  add_array(zip, name, descr, std::vector<Index>(indices.begin(), indices.end()));
}

bool has_narrow_indices(std::int64_t entries) {
  return entries <= std::numeric_limits<std::int32_t>::max();
}

}  // namespace

void ZipWriter::write(std::string_view bytes) {
  const auto count = static_cast<std::int64_t>(bytes.size());
  file_.pwrite_all(bytes.data(), count, offset_);
  offset_ += count;
}

void ZipWriter::add(std::string_view name, std::string_view head, std::string_view data) {
  io::Crc32 checksum;
  checksum.update(head.data(), static_cast<std::int64_t>(head.size()));
  checksum.update(data.data(), static_cast<std::int64_t>(data.size()));
  const Member member{std::string(name), checksum.value(),
                      static_cast<std::uint32_t>(head.size() + data.size()),
                      static_cast<std::uint32_t>(offset_)};
  write("PK\x03\x04"sv);
  write(common_fields(member.checksum, member.bytes, name.size()));
  write(name);
  write(head);
  write(data);
  members_.push_back(member);
}

void ZipWriter::finish() {
  const std::int64_t list = offset_;
  for (const Member& member : members_) {
    std::string entry("PK\x01\x02"sv);
    put(entry, 20, 2);  // made by version 2.0
    entry += common_fields(member.checksum, member.bytes, member.name.size());
    put(entry, 0, 2);  // no comment
    put(entry, 0, 2);  // first disk
    put(entry, 0, 2);  // binary
    put(entry, 0, 4);  // no attributes
    put(entry, member.offset, 4);
    write(entry + member.name);
  }
  std::string end("PK\x05\x06"sv);
  put(end, 0, 2);
  put(end, 0, 2);
  put(end, members_.size(), 2);
  put(end, members_.size(), 2);
  put(end, static_cast<std::uint64_t>(offset_ - list), 4);
  put(end, static_cast<std::uint64_t>(list), 4);
  put(end, 0, 2);  // no comment
  write(end);
}

template <Scalar T>
std::int64_t npz_bytes(const CsrMatrix<T>& matrix) {
  const std::int64_t index = has_narrow_indices(matrix.entries()) ? 4 : 8;
  return headers_at_most + matrix.entries() * (index + std::int64_t{sizeof(T)}) +
         (matrix.rows + 1) * index;
}

template <Scalar T>
void write_npz(io::OutputFile& file, const CsrMatrix<T>& matrix) {
  ZipWriter zip(file);
  if (has_narrow_indices(matrix.entries())) {
    add_indices<std::int32_t>(zip, "indices.npy", "<i4", matrix.column_indices);
    add_indices<std::int32_t>(zip, "indptr.npy", "<i4", matrix.row_pointers);
  } else {
    add_array(zip, "indices.npy", "<i8", matrix.column_indices);
    add_array(zip, "indptr.npy", "<i8", matrix.row_pointers);
  }
  zip.add("format.npy", io::format_npy_header("|S3", false, {}), "csr");
  add_array(zip, "shape.npy", "<i8", std::vector<std::int64_t>{matrix.rows, matrix.columns});
  add_array(zip, "data.npy", io::descr_of(dtype_of<T>), matrix.values);
  zip.finish();
}

#define SHARDSOLVE_INSTANTIATE(T)                       \
  template std::int64_t npz_bytes(const CsrMatrix<T>&); \
  template void write_npz(io::OutputFile&, const CsrMatrix<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov::files
