#include <shardsolve/dtype.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

#include <fmt/format.h>

namespace shardsolve {

std::string_view name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return "invalid_argument";
    case ErrorKind::out_of_memory:
      return "out_of_memory";
    case ErrorKind::device:
      return "device";
    case ErrorKind::communication:
      return "communication";
    case ErrorKind::io:
      return "io";
    case ErrorKind::cancelled:
      return "cancelled";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::internal:
      return "internal";
  }
  return "unknown";
}

Error::Error(ErrorKind kind, const std::string& message)
    : std::runtime_error(message), kind_(kind) {}

namespace detail {

void throw_bad_rank(std::int64_t rank, std::int64_t ranks) {
  throw Error(ErrorKind::invalid_argument,
              fmt::format("rank {} asked for; there are {}, numbered from 0", rank, ranks));
}

void throw_bad_dtype(int dtype) {
  throw Error(ErrorKind::invalid_argument,
              fmt::format("{} is no value of Dtype: float32, float64, complex64 and complex128 are",
                          dtype));
}

void throw_bad_view(std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  throw Error(ErrorKind::invalid_argument,
              fmt::format("a matrix view of {} x {} elements with column stride {} is impossible: "
                          "sizes are at least 0 and the stride at least max(1, rows)",
                          rows, columns, stride));
}

void throw_bad_block(std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns,
                     std::int64_t of_rows, std::int64_t of_columns) {
  throw Error(ErrorKind::internal,
              fmt::format("block of {} x {} at ({}, {}) is outside a matrix of {} x {}: "
                          "this is a bug of shardsolve, please report it",
                          rows, columns, row, column, of_rows, of_columns));
}

}  // namespace detail
}  // namespace shardsolve
