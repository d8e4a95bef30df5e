/// A column-major matrix that somebody else owns.
#pragma once

#include <shardsolve/error.hpp>
#include <shardsolve/index.hpp>

#include <cstdint>
#include <string>
#include <type_traits>

namespace shardsolve {

namespace detail {
[[noreturn]] SHARDSOLVE_EXPORT void throw_bad_view(std::int64_t rows, std::int64_t columns,
                                                   std::int64_t stride);
[[noreturn]] SHARDSOLVE_EXPORT void throw_bad_block(std::int64_t row, std::int64_t column,
                                                    std::int64_t rows, std::int64_t columns,
                                                    std::int64_t of_rows, std::int64_t of_columns);
}  // namespace detail

/// `rows` x `columns` elements of T, column-major; columns start `stride` elements apart
/// (LAPACK's leading dimension). Does not own its memory. `MatrixView<const T>` only reads.
template <class T>
class MatrixView {
 public:
  MatrixView() = default;

  /// Throws Error(invalid_argument) on a negative size or a stride below max(1, rows).
  MatrixView(T* data, std::int64_t rows, std::int64_t columns, std::int64_t stride)
      : data_(data), rows_(rows), columns_(columns), stride_(stride) {
    if (rows < 0 || columns < 0 || stride < rows || stride < 1) {
      detail::throw_bad_view(rows, columns, stride);
    }
  }
  MatrixView(T* data, std::int64_t rows, std::int64_t columns)
      : MatrixView(data, rows, columns, rows > 0 ? rows : 1) {}

  /// A view that may write is accepted where one that only reads is asked for.
  operator MatrixView<const T>() const  // NOLINT(google-explicit-constructor)
    requires(!std::is_const_v<T>)
  {
    return {data_, rows_, columns_, stride_};
  }

  T* data() const { return data_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t stride() const { return stride_; }
  bool empty() const { return rows_ == 0 || columns_ == 0; }

  T& operator()(std::int64_t row, std::int64_t column) const {
    return data_[row + column * stride_];
  }

  /// The `rows` x `columns` part that starts at (row, column). Throws Error(internal) if it is not
  /// inside this view: every operand of every kernel is cut out here.
  MatrixView block(std::int64_t row, std::int64_t column, std::int64_t rows,
                   std::int64_t columns) const {
    if (row < 0 || column < 0 || rows < 0 || columns < 0 || row + rows > rows_ ||
        column + columns > columns_) {
      detail::throw_bad_block(row, column, rows, columns, rows_, columns_);
    }
    // An empty view may have no memory to count from.
    T* const first = data_ == nullptr ? nullptr : data_ + row + column * stride_;
    return {first, rows, columns, stride_};
  }
  MatrixView columns_from(std::int64_t column, std::int64_t count) const {
    return block(0, column, rows_, count);
  }

 private:
  T* data_ = nullptr;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  std::int64_t stride_ = 1;
};

}  // namespace shardsolve
