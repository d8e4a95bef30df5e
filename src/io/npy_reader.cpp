#include "core/each_dtype.hpp"
#include "io/checksum.hpp"
#include "io/npy.hpp"
#include "io/npy_parts.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <memory>
#include <utility>
#include <vector>

namespace shardsolve::io {
namespace {

struct Source {
  const FileDescriptor& file;
  const std::string& path;
  NpyLines lines;
};

/// out(e, l) = element e of line l of the part.
template <Scalar T>
void read_straight(const Source& source, const FilePart& part, MatrixView<T> out) {
  if (out.empty()) {
    return;
  }
  constexpr std::int64_t size = sizeof(T);
  const auto [begin, count] = part.lines;
  const auto [first, length] = part.elements;
  if (length == source.lines.length && length == out.stride()) {
    read_exactly(source.file, out.data(), count * length * size, source.lines.offset(begin, first),
                 source.path);
    return;
  }
  for (std::int64_t l = 0; l < count; ++l) {
    read_exactly(source.file, &out(0, l), length * size, source.lines.offset(begin + l, first),
                 source.path);
  }
}

/// out(l, e) = element e of line l of the part.
template <Scalar T>
void read_transposed(const Source& source, const FilePart& part, MatrixView<T> out) {
  if (out.empty()) {
    return;
  }
  constexpr std::int64_t size = sizeof(T);
  constexpr std::int64_t capacity = staging_bytes / size;
  // What lies between the elements wanted of two lines is read along if it is no more than a page:
  // the system reads whole pages, and one call is cheaper than one a line.
  constexpr std::int64_t page = 4096;
  const std::int64_t length = source.lines.length;
  const bool with_gaps = (length - part.elements.count) * size <= page && length <= capacity;

  const std::int64_t elements = std::min(part.elements.count, capacity);
  const std::int64_t stride = with_gaps ? length : elements;
  const std::int64_t lines = std::min(part.lines.count, capacity / stride);
  const auto buffer = std::make_unique<T[]>(static_cast<std::size_t>(lines * stride));
  for_each_piece(part, lines, elements, [&](const FilePart& piece) {
    const auto [line, line_count] = piece.lines;
    const auto [element, element_count] = piece.elements;
    const MatrixView<T> staged(buffer.get(), element_count, line_count, stride);
    if (with_gaps) {
      read_exactly(source.file, buffer.get(), ((line_count - 1) * stride + element_count) * size,
                   source.lines.offset(line, element), source.path);
    } else {
      read_straight(source, piece, staged);
    }
    transpose<T>(staged, out.block(line - part.lines.begin, element - part.elements.begin,
                                   line_count, element_count));
  });
}

template <Scalar T>
void conjugate(MatrixView<T> a) {
  if constexpr (is_complex<T>) {
    for (std::int64_t j = 0; j < a.columns(); ++j) {
      for (std::int64_t i = 0; i < a.rows(); ++i) {
        a(i, j) = std::conj(a(i, j));
      }
    }
  }
}

}  // namespace

NpyReader::NpyReader(std::string path)
    : path_(std::move(path)),
      file_(open_for_reading(path_)),
      opened_(file_state(file_, path_)),
      header_(read_npy_header(file_, path_)) {}

std::uint32_t NpyReader::sample_checksum() const {
  constexpr std::int64_t whole = std::int64_t{4} << 20;  // bytes of a file that is read to the end
  constexpr std::int64_t end = std::int64_t{64} << 10;
  constexpr std::int64_t page = std::int64_t{4} << 10;
  constexpr std::int64_t pages = 64;
  Crc32 checksum;
  std::vector<char> buffer;
  const auto add = [&](std::int64_t offset, std::int64_t bytes) {
    buffer.resize(static_cast<std::size_t>(bytes));
    read_exactly(file_, buffer.data(), bytes, offset, path_);
    checksum.update(buffer.data(), bytes);
  };
  const std::int64_t bytes = file_size(file_, path_);
  if (bytes <= whole) {
    add(0, bytes);
    return checksum.value();
  }
  add(0, end);
  // The distance is seldom a multiple of a row or column, so the pages hold different parts of
  // them.
  const std::int64_t distance = (bytes - 2 * end) / (pages + 1);
  for (std::int64_t i = 1; i <= pages; ++i) {
    add(end + i * distance, page);
  }
  add(bytes - end, end);
  return checksum.value();
}

void NpyReader::require_unchanged() const {
  const FileState now = file_state(file_, path_);
  if (now == opened_) {
    return;
  }
  const auto text = [](const FileState& state) {
    return fmt::format("{} bytes, written at {}.{:09} s", state.bytes, state.written_s,
                       state.written_ns);
  };
  throw Error(ErrorKind::io, fmt::format("'{}' changed while it was read: it was {}, and is {}; "
                                         "run again when nothing writes to it",
                                         path_, text(opened_), text(now)));
}

template <Scalar T>
void NpyReader::read_columns(GlobalRange columns, MatrixView<T> out) const {
  check_dtype(header_, dtype_of<T>, path_);
  const Source source{file_, path_, npy_lines(header_, path_)};
  const FilePart part = part_of_columns(source.lines, columns, out.rows(), out.columns(), path_);
  if (source.lines.are_columns) {
    read_straight(source, part, out);
  } else {
    read_transposed(source, part, out);
  }
}

template <Scalar T>
void NpyReader::read_rows(GlobalRange rows, MatrixView<T> out) const {
  check_dtype(header_, dtype_of<T>, path_);
  const Source source{file_, path_, npy_lines(header_, path_)};
  const FilePart part = part_of_rows(source.lines, rows, out.rows(), out.columns(), path_);
  if (source.lines.are_columns) {
    read_straight(source, part, out);
  } else {
    read_transposed(source, part, out);
  }
}

template <Scalar T>
void NpyReader::read_hermitian_columns(GlobalRange columns, MatrixView<T> out) const {
  check_dtype(header_, dtype_of<T>, path_);
  const NpyLines lines = npy_lines(header_, path_);
  const Source source{file_, path_, hermitian_columns(lines, path_)};
  read_straight(source, part_of_columns(source.lines, columns, out.rows(), out.columns(), path_),
                out);
  if (!lines.are_columns) {
    conjugate(out);
  }
}

#define SHARDSOLVE_INSTANTIATE(T)                                             \
  template void NpyReader::read_columns<T>(GlobalRange, MatrixView<T>) const; \
  template void NpyReader::read_rows<T>(GlobalRange, MatrixView<T>) const;    \
  template void NpyReader::read_hermitian_columns<T>(GlobalRange, MatrixView<T>) const;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::io
