#include "io/npy_parts.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <string_view>

namespace shardsolve::io {
namespace {

[[noreturn]] void reject_part(const std::string& message) {
  throw Error(ErrorKind::invalid_argument, message);
}

void check_part(GlobalRange range, std::int64_t limit, std::string_view what,
                const std::string& path) {
  if (range.begin.value() < 0 || range.end < range.begin || range.end.value() > limit) {
    reject_part(fmt::format("{} [{}, {}) of '{}' were asked for; it has {}", what,
                            range.begin.value(), range.end.value(), path, limit));
  }
}

void check_view(std::int64_t view_rows, std::int64_t view_columns, std::int64_t rows,
                std::int64_t columns, const std::string& path) {
  if (view_rows != rows || view_columns != columns) {
    reject_part(fmt::format("a part of '{}' has {} x {} elements but its view {} x {}", path, rows,
                            columns, view_rows, view_columns));
  }
}

Run run_of(GlobalRange range) { return {range.begin.value(), range.size()}; }

}  // namespace

void check_dtype(const NpyHeader& header, Dtype given, const std::string& path) {
  if (header.dtype != given) {
    reject_part(fmt::format("'{}' holds {} but {} was asked for: use one dtype for all arrays",
                            path, name(header.dtype), name(given)));
  }
}

NpyLines hermitian_columns(NpyLines lines, const std::string& path) {
  if (lines.count != lines.length) {
    reject_part(fmt::format("'{}' has {} rows and {} columns; a Hermitian matrix is square", path,
                            lines.rows(), lines.columns()));
  }
  lines.are_columns = true;
  return lines;
}

FilePart part_of_columns(const NpyLines& lines, GlobalRange columns, std::int64_t view_rows,
                         std::int64_t view_columns, const std::string& path) {
  check_part(columns, lines.columns(), "columns", path);
  check_view(view_rows, view_columns, lines.rows(), columns.size(), path);
  const Run all_rows{0, lines.rows()};
  return lines.are_columns ? FilePart{run_of(columns), all_rows}
                           : FilePart{all_rows, run_of(columns)};
}

FilePart part_of_rows(const NpyLines& lines, GlobalRange rows, std::int64_t view_rows,
                      std::int64_t view_columns, const std::string& path) {
  check_part(rows, lines.rows(), "rows", path);
  check_view(view_rows, view_columns, rows.size(), lines.columns(), path);
  const Run all_columns{0, lines.columns()};
  return lines.are_columns ? FilePart{all_columns, run_of(rows)}
                           : FilePart{run_of(rows), all_columns};
}

}  // namespace shardsolve::io
