/// What the reader and the writer of .npy files share: the part of a file that one call is about,
/// how it is cut to fit the staging buffer, and how it is transposed.
#pragma once

#include "io/npy_header.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/index.hpp>
#include <shardsolve/matrix_view.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

namespace shardsolve::io {

inline constexpr std::int64_t staging_bytes = std::int64_t{8} << 20;

/// Consecutive lines, or consecutive elements of every line.
struct Run {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

/// Lines of a file, cut to some of their elements.
struct FilePart {
  Run lines;
  Run elements;
};

/// Throws Error(invalid_argument) unless the file holds `given`.
void check_dtype(const NpyHeader& header, Dtype given, const std::string& path);

/// The lines of a Hermitian matrix taken as its columns; rows taken so are to be conjugated.
/// Throws Error(invalid_argument) unless the array is square.
NpyLines hermitian_columns(NpyLines lines, const std::string& path);

/// The part that holds some columns, or some rows, of the array, for a view of view_rows x
/// view_columns. Throws Error(invalid_argument) unless they are inside the array and fit the view.
FilePart part_of_columns(const NpyLines& lines, GlobalRange columns, std::int64_t view_rows,
                         std::int64_t view_columns, const std::string& path);
FilePart part_of_rows(const NpyLines& lines, GlobalRange rows, std::int64_t view_rows,
                      std::int64_t view_columns, const std::string& path);

/// Calls body(piece) for pieces that cover `part`, each of at most `elements` elements of at most
/// `lines` lines.
template <class Body>
void for_each_piece(const FilePart& part, std::int64_t lines, std::int64_t elements, Body body) {
  for (std::int64_t l = 0; l < part.lines.count; l += lines) {
    for (std::int64_t e = 0; e < part.elements.count; e += elements) {
      body(FilePart{{part.lines.begin + l, std::min(lines, part.lines.count - l)},
                    {part.elements.begin + e, std::min(elements, part.elements.count - e)}});
    }
  }
}

/// to = from^T, in square blocks so that both sides stay in the cache.
template <class T>
void transpose(MatrixView<const T> from, MatrixView<T> to) {
  constexpr std::int64_t edge = 32;
  for (std::int64_t j0 = 0; j0 < from.columns(); j0 += edge) {
    for (std::int64_t i0 = 0; i0 < from.rows(); i0 += edge) {
      const std::int64_t j_end = std::min(j0 + edge, from.columns());
      const std::int64_t i_end = std::min(i0 + edge, from.rows());
      for (std::int64_t i = i0; i < i_end; ++i) {
        for (std::int64_t j = j0; j < j_end; ++j) {
          to(j, i) = from(i, j);
        }
      }
    }
  }
}

}  // namespace shardsolve::io
