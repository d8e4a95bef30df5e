/// What the readers of sparse files share.
#pragma once

#include <shardsolve/error.hpp>
#include <shardsolve/slab_layout.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace shardsolve::sparse_files {

/// Throws Error(invalid_argument) unless a SlabLayout takes rows and columns: before memory is
/// taken for row pointers that a damaged file asks for.
inline void require_size(std::int64_t rows, std::int64_t columns, const std::string& path) {
  constexpr std::int64_t most = SlabLayout::largest_size;
  if (rows < 0 || columns < 0 || rows > most || columns > most) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("'{}' holds a sparse matrix of {} x {}; 0 to {} rows and columns are "
                            "accepted",
                            path, rows, columns, most));
  }
}

/// Returns body(); an Error of it that says nothing of the file names it.
template <class Body>
auto with_path(const std::string& path, Body body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("'{}': {}", path, error.what()));
  }
}

}  // namespace shardsolve::sparse_files
