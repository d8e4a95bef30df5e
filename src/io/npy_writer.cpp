#include "core/each_dtype.hpp"
#include "io/npy.hpp"
#include "io/npy_parts.hpp"

#include <algorithm>
#include <complex>
#include <memory>
#include <utility>

namespace shardsolve::io {
namespace {

struct Target {
  OutputFile& file;
  NpyLines lines;
};

/// Element e of line l of the part = block(e, l).
template <Scalar T>
void write_straight(const Target& target, const FilePart& part, MatrixView<const T> block) {
  if (block.empty()) {
    return;
  }
  constexpr std::int64_t size = sizeof(T);
  const auto [begin, count] = part.lines;
  const auto [first, length] = part.elements;
  if (length == target.lines.length && length == block.stride()) {
    target.file.pwrite_all(block.data(), count * length * size, target.lines.offset(begin, first));
    return;
  }
  for (std::int64_t l = 0; l < count; ++l) {
    target.file.pwrite_all(&block(0, l), length * size, target.lines.offset(begin + l, first));
  }
}

/// Writes the part piece by piece. fill(piece, staged) sets staged(e, l) to element e of line l of
/// the piece, whose lines and elements are counted from those of the part.
template <Scalar T, class Fill>
void write_staged(const Target& target, const FilePart& part, Fill fill) {
  constexpr std::int64_t capacity = staging_bytes / std::int64_t{sizeof(T)};
  if (part.lines.count == 0 || part.elements.count == 0) {
    return;
  }
  const std::int64_t elements = std::min(part.elements.count, capacity);
  const std::int64_t lines = std::min(part.lines.count, capacity / elements);
  const auto buffer = std::make_unique<T[]>(static_cast<std::size_t>(lines * elements));
  for_each_piece(part, lines, elements, [&](const FilePart& piece) {
    const MatrixView<T> staged(buffer.get(), piece.elements.count, piece.lines.count);
    fill(FilePart{{piece.lines.begin - part.lines.begin, piece.lines.count},
                  {piece.elements.begin - part.elements.begin, piece.elements.count}},
         staged);
    write_straight<T>(target, piece, staged);
  });
}

/// Element e of line l of the part = block(l, e).
template <Scalar T>
void write_transposed(const Target& target, const FilePart& part, MatrixView<const T> block) {
  write_staged<T>(target, part, [&](const FilePart& piece, MatrixView<T> staged) {
    transpose(block.block(piece.lines.begin, piece.elements.begin, piece.lines.count,
                          piece.elements.count),
              staged);
  });
}

/// Element e of line l of the part = conj(block(e, l)).
template <Scalar T>
void write_conjugated(const Target& target, const FilePart& part, MatrixView<const T> block) {
  if constexpr (!is_complex<T>) {
    write_straight(target, part, block);
  } else {
    write_staged<T>(target, part, [&](const FilePart& piece, MatrixView<T> staged) {
      for (std::int64_t l = 0; l < staged.columns(); ++l) {
        for (std::int64_t e = 0; e < staged.rows(); ++e) {
          staged(e, l) = std::conj(block(piece.elements.begin + e, piece.lines.begin + l));
        }
      }
    });
  }
}

}  // namespace

NpyWriter::NpyWriter(OutputFile& file, Dtype dtype, std::vector<std::int64_t> shape,
                     bool fortran_order)
    : file_(file), header_{dtype, fortran_order, std::move(shape), 0} {
  const std::string text = format_npy_header(header_);
  header_.data_offset = static_cast<std::int64_t>(text.size());
  if (!file_.joined()) {
    file_.reserve(npy_lines(header_, file_.path()).file_bytes());
    file_.pwrite_all(text.data(), header_.data_offset, 0);
  }
}

template <Scalar T>
void NpyWriter::write_rows(GlobalRange rows, MatrixView<const T> block) const {
  check_dtype(header_, dtype_of<T>, file_.path());
  const Target target{file_, npy_lines(header_, file_.path())};
  const FilePart part =
      part_of_rows(target.lines, rows, block.rows(), block.columns(), file_.path());
  if (target.lines.are_columns) {
    write_straight(target, part, block);
  } else {
    write_transposed(target, part, block);
  }
}

template <Scalar T>
void NpyWriter::write_columns(GlobalRange columns, MatrixView<const T> block) const {
  check_dtype(header_, dtype_of<T>, file_.path());
  const Target target{file_, npy_lines(header_, file_.path())};
  const FilePart part =
      part_of_columns(target.lines, columns, block.rows(), block.columns(), file_.path());
  if (target.lines.are_columns) {
    write_straight(target, part, block);
  } else {
    write_transposed(target, part, block);
  }
}

template <Scalar T>
void NpyWriter::write_hermitian_columns(GlobalRange columns, MatrixView<const T> block) const {
  check_dtype(header_, dtype_of<T>, file_.path());
  const NpyLines lines = npy_lines(header_, file_.path());
  const Target target{file_, hermitian_columns(lines, file_.path())};
  const FilePart part =
      part_of_columns(target.lines, columns, block.rows(), block.columns(), file_.path());
  if (lines.are_columns) {
    write_straight(target, part, block);
  } else {
    write_conjugated(target, part, block);
  }
}

#define SHARDSOLVE_INSTANTIATE(T)                                                    \
  template void NpyWriter::write_rows<T>(GlobalRange, MatrixView<const T>) const;    \
  template void NpyWriter::write_columns<T>(GlobalRange, MatrixView<const T>) const; \
  template void NpyWriter::write_hermitian_columns<T>(GlobalRange, MatrixView<const T>) const;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::io
