// Matrix Market files, and read_sparse_matrix() of sparse_file.hpp.

#include "io/file_descriptor.hpp"
#include "io/npy_literal.hpp"
#include "sparse_files/matrix_market_lines.hpp"
#include "sparse_files/require_size.hpp"
#include "sparse_files/sparse_file.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace shardsolve::sparse_files {
namespace market {
namespace {

constexpr std::string_view banner = "%%MatrixMarket";

enum class Format : std::uint8_t { coordinate, array };
enum class Field : std::uint8_t { real, integer, pattern, complex };
enum class Symmetry : std::uint8_t { general, symmetric, skew, hermitian };

std::string read_text(const std::string& path, std::int64_t most) {
  const io::FileDescriptor file = io::open_for_reading(path);
  std::string text(static_cast<std::size_t>(std::min(io::file_size(file, path), most)), '\0');
  io::read_exactly(file, text.data(), static_cast<std::int64_t>(text.size()), 0, path);
  return text;
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& path) : lines_(text, path), path_(path) {}

  AnyCoo read() {
    read_banner();
    if (field_ == Field::complex) {
      return read_matrix<std::complex<double>>();
    }
    return read_matrix<double>();
  }

 private:
  void read_banner() {
    if (!lines_.next() || lines_.word() != banner) {
      throw Error(
          ErrorKind::invalid_argument,
          fmt::format("'{}' does not begin with {} and is no Matrix Market file", path_, banner));
    }
    if (const std::string_view object = lines_.word(); lower_case(object) != "matrix") {
      lines_.refuse(fmt::format("the file holds a '{}'; a matrix is read", io::printable(object)));
    }
    static constexpr std::pair<std::string_view, Format> formats[] = {
        {"coordinate", Format::coordinate}, {"array", Format::array}};
    format_ = choice(lines_, "format", formats);
    static constexpr std::pair<std::string_view, Field> fields[] = {
        {"real", Field::real},       {"double", Field::real},
        {"integer", Field::integer}, {"unsigned-integer", Field::integer},
        {"pattern", Field::pattern}, {"complex", Field::complex}};
    field_ = choice(lines_, "field", fields);
    static constexpr std::pair<std::string_view, Symmetry> symmetries[] = {
        {"general", Symmetry::general},
        {"symmetric", Symmetry::symmetric},
        {"skew-symmetric", Symmetry::skew},
        {"hermitian", Symmetry::hermitian}};
    symmetry_ = choice(lines_, "symmetry", symmetries);
    lines_.end_of_line();
    if (format_ == Format::array && field_ == Field::pattern) {
      lines_.refuse(
          "a pattern says where entries are, and an array has all: pattern goes with "
          "coordinate");
    }
  }

  template <Scalar T>
  CooMatrix<T> read_matrix() {
    if (!lines_.next_with_numbers()) {
      lines_.refuse("the file is cut off before the line of its sizes");
    }
    CooMatrix<T> matrix;
    matrix.rows = lines_.integer("the number of rows");
    matrix.columns = lines_.integer("the number of columns");
    const std::int64_t announced =
        format_ == Format::array ? 0 : lines_.integer("the number of entries");
    lines_.end_of_line();
    require_size(matrix.rows, matrix.columns, path_);
    if (announced < 0) {
      lines_.refuse(fmt::format("{} entries are announced", announced));
    }
    if (symmetry_ != Symmetry::general && matrix.rows != matrix.columns) {
      lines_.refuse(fmt::format("the matrix is of {} x {} and not general: it must be square",
                                matrix.rows, matrix.columns));
    }
    if (format_ == Format::array) {
      read_array(matrix);
    } else {
      read_entries(matrix, announced);
    }
    require_one_triangle(matrix);
    add_mirrored(matrix);
    return matrix;
  }

  /// Column after column; of the symmetric kinds the lower triangle alone.
  template <Scalar T>
  void read_array(CooMatrix<T>& matrix) {
    for (std::int64_t column = 0; column < matrix.columns; ++column) {
      const std::int64_t first = symmetry_ == Symmetry::general ? 0
                                 : symmetry_ == Symmetry::skew  ? column + 1
                                                                : column;
      for (std::int64_t row = first; row < matrix.rows; ++row) {
        if (!lines_.next_with_numbers()) {
          lines_.refuse(fmt::format("the file is cut off: the value at ({}, {}) is missing",
                                    row + 1, column + 1));
        }
        const T value = read_value<T>();
        lines_.end_of_line();
        if (value != T{0}) {
          add(matrix, row, column, value);
        }
      }
    }
    if (lines_.next_with_numbers()) {
      lines_.refuse(
          fmt::format("there are more values than {} x {} take", matrix.rows, matrix.columns));
    }
  }

  template <Scalar T>
  void read_entries(CooMatrix<T>& matrix, std::int64_t entries) {
    for (std::int64_t k = 0; k < entries; ++k) {
      if (!lines_.next_with_numbers()) {
        lines_.refuse(fmt::format("the file is cut off: {} entries of {} are there", k, entries));
      }
      const std::int64_t row = lines_.integer("the row of an entry");
      const std::int64_t column = lines_.integer("the column of an entry");
      if (row < 1 || row > matrix.rows || column < 1 || column > matrix.columns) {
        lines_.refuse(
            fmt::format("the entry is at ({}, {}), outside of {} x {}: indices count from 1", row,
                        column, matrix.rows, matrix.columns));
      }
      add(matrix, row - 1, column - 1, read_value<T>());
      if (field_ != Field::pattern) {  // whose lines may go on: SciPy passes that over, too
        lines_.end_of_line();
      }
    }
    if (lines_.next_with_numbers()) {
      lines_.refuse(fmt::format("there are more than the {} entries announced", entries));
    }
  }

  /// Throws if an entry is listed in both triangles of a matrix that is not general: it would be
  /// there twice.
  template <Scalar T>
  void require_one_triangle(const CooMatrix<T>& matrix) const {
    using Place = std::pair<std::int64_t, std::int64_t>;
    std::vector<Place> lower;
    std::vector<Place> upper;
    for (std::size_t k = 0; symmetry_ != Symmetry::general && k < matrix.values.size(); ++k) {
      const std::int64_t row = matrix.row_indices[k];
      const std::int64_t column = matrix.column_indices[k];
      if (row != column) {
        (row > column ? lower : upper).emplace_back(std::max(row, column), std::min(row, column));
      }
    }
    if (lower.empty() || upper.empty()) {
      return;
    }
    std::sort(lower.begin(), lower.end());
    std::sort(upper.begin(), upper.end());
    std::vector<Place> both;
    std::set_intersection(lower.begin(), lower.end(), upper.begin(), upper.end(),
                          std::back_inserter(both));
    if (!both.empty()) {
      const auto& [row, column] = both.front();
      throw Error(
          ErrorKind::invalid_argument,
          fmt::format("'{}' lists the entries at ({}, {}) and ({}, {}): of a matrix that is "
                      "not general one of the two is listed; write 'general' in the first "
                      "line, or leave out one triangle",
                      path_, row + 1, column + 1, column + 1, row + 1));
    }
  }

  template <Scalar T>
  void add_mirrored(CooMatrix<T>& matrix) const {
    const std::size_t listed = symmetry_ == Symmetry::general ? 0 : matrix.values.size();
    for (std::size_t k = 0; k < listed; ++k) {
      const std::int64_t row = matrix.row_indices[k];
      const std::int64_t column = matrix.column_indices[k];
      if (row != column) {
        add(matrix, column, row, mirrored(matrix.values[k]));
      }
    }
  }

  template <Scalar T>
  T read_value() {
    if constexpr (is_complex<T>) {
      const double re = lines_.real("the real part");
      return {re, lines_.real("the imaginary part")};
    } else {
      switch (field_) {
        case Field::pattern:
          return 1.0;
        case Field::integer:
          return lines_.integral("the value");
        default:
          return lines_.real("the value");
      }
    }
  }

  template <Scalar T>
  T mirrored(T value) const {
    if constexpr (is_complex<T>) {
      if (symmetry_ == Symmetry::hermitian) {
        return std::conj(value);
      }
    }
    return symmetry_ == Symmetry::skew ? -value : value;
  }

  template <Scalar T>
  static void add(CooMatrix<T>& matrix, std::int64_t row, std::int64_t column, T value) {
    matrix.row_indices.push_back(row);
    matrix.column_indices.push_back(column);
    matrix.values.push_back(value);
  }

  Lines lines_;
  const std::string& path_;
  Format format_ = Format::coordinate;
  Field field_ = Field::real;
  Symmetry symmetry_ = Symmetry::general;
};

}  // namespace
}  // namespace market

AnyCoo read_matrix_market_entries(const std::string& path) {
  const std::string text = market::read_text(path, INT64_MAX);
  return market::Reader(text, path).read();
}

AnyCsr read_matrix_market(const std::string& path) {
  return std::visit(
      [&](const auto& matrix) { return with_path(path, [&] { return AnyCsr(sorted(matrix)); }); },
      read_matrix_market_entries(path));
}

bool is_matrix_market(const std::string& path) {
  const auto size = static_cast<std::int64_t>(market::banner.size());
  return market::read_text(path, size) == market::banner;
}

AnyCsr read_sparse_matrix(const std::string& path) {
  const std::string head =
      market::read_text(path, static_cast<std::int64_t>(market::banner.size()));
  if (head == market::banner) {
    return read_matrix_market(path);
  }
  if (head.starts_with("PK")) {
    return read_npz(path);
  }
  throw Error(
      ErrorKind::invalid_argument,
      fmt::format("'{}' begins with '{}': neither an .npz file of scipy.sparse.save_npz nor "
                  "a Matrix Market file",
                  path, io::printable(head)));
}

}  // namespace shardsolve::sparse_files
