// read_matrix_market() and read_sparse_matrix() of sparse_file.hpp.

#include "io/file_descriptor.hpp"
#include "io/npy_literal.hpp"
#include "sparse_files/require_size.hpp"
#include "sparse_files/sparse_file.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

namespace shardsolve::sparse_files {
namespace market {
namespace {

constexpr std::string_view banner = "%%MatrixMarket";

enum class Field : std::uint8_t { real, integer, pattern, complex };
enum class Symmetry : std::uint8_t { general, symmetric, skew, hermitian };

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string read_text(const std::string& path, std::int64_t most) {
  const io::FileDescriptor file = io::open_for_reading(path);
  std::string text(static_cast<std::size_t>(std::min(io::file_size(file, path), most)), '\0');
  io::read_exactly(file, text.data(), static_cast<std::int64_t>(text.size()), 0, path);
  return text;
}

/// A file's text, word by word.
class Lines {
 public:
  Lines(std::string_view text, const std::string& path) : rest_(text), path_(path) {}

  /// Goes to the next line; false at the end.
  bool next() {
    if (rest_.empty()) {
      return false;
    }
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++number_;
    return true;
  }
  /// Likewise, past comments and empty lines.
  bool next_with_numbers() {
    while (next()) {
      const std::size_t first = line_.find_first_not_of(blanks);
      if (first != std::string_view::npos && line_[first] != '%') {
        return true;
      }
    }
    return false;
  }
  std::int64_t number() const { return number_; }

  /// The next word of the line; empty if there is none.
  std::string_view word() {
    const std::size_t first = std::min(line_.find_first_not_of(blanks), line_.size());
    line_.remove_prefix(first);
    const std::string_view found = line_.substr(0, line_.find_first_of(blanks));
    line_.remove_prefix(found.size());
    return found;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("'{}', line {}: {}", path_, number_, what));
  }

  std::int64_t integer(const char* what) {
    const std::string_view found = word();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), value);
    if (error != std::errc() || end != found.data() + found.size()) {
      refuse(
          fmt::format("'{}' stands where {} was expected, an integer", io::printable(found), what));
    }
    return value;
  }
  /// As C and Fortran write it: 1, +1.5, 1e-3, 1D-3, inf, nan.
  double real(const char* what) {
    const std::string_view found = word();
    std::string plain(found);
    if (found.starts_with('+') && !found.starts_with("+-")) {
      plain.erase(0, 1);
    }
    std::replace_if(plain.begin(), plain.end(), [](char c) { return c == 'd' || c == 'D'; }, 'e');
    double value = 0;
    const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
    if (error == std::errc::result_out_of_range) {
      value = std::strtod(plain.c_str(), nullptr);  // 0 if it is too small
      if (std::isinf(value)) {
        refuse(fmt::format("{} is '{}', which float64 does not hold", what, io::printable(found)));
      }
    } else if (error != std::errc() || end != plain.data() + plain.size()) {
      refuse(
          fmt::format("'{}' stands where {} was expected, a number", io::printable(found), what));
    }
    return value;
  }
  void end_of_line() {
    if (const std::string_view more = word(); !more.empty()) {
      refuse(fmt::format("'{}' stands where the line was expected to end", io::printable(more)));
    }
  }

 private:
  static constexpr std::string_view blanks = " \t\r\v\f";

  std::string_view rest_;
  std::string_view line_;
  std::int64_t number_ = 0;
  const std::string& path_;
};

/// One word of the first line, as one of those that are accepted.
template <class Value, std::size_t count>
Value choice(Lines& lines, const char* what,
             const std::pair<std::string_view, Value> (&accepted)[count]) {
  const std::string_view found = lines.word();
  std::string names;
  for (const auto& [name, value] : accepted) {
    if (lower_case(found) == name) {
      return value;
    }
    names += names.empty() ? "" : ", ";
    names += name;
  }
  lines.refuse(fmt::format("the {} is '{}'; accepted: {}", what, io::printable(found), names));
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& path) : lines_(text, path), path_(path) {}

  AnyCsr read() {
    read_banner();
    if (field_ == Field::complex) {
      return read_entries<std::complex<double>>();
    }
    return read_entries<double>();
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
    if (const std::string_view format = lines_.word(); lower_case(format) != "coordinate") {
      lines_.refuse(
          fmt::format("the format is '{}'; coordinate is read. A dense matrix is read "
                      "from an .npy file: numpy.save",
                      io::printable(format)));
    }
    static constexpr std::pair<std::string_view, Field> fields[] = {{"real", Field::real},
                                                                    {"double", Field::real},
                                                                    {"integer", Field::integer},
                                                                    {"pattern", Field::pattern},
                                                                    {"complex", Field::complex}};
    field_ = choice(lines_, "field", fields);
    static constexpr std::pair<std::string_view, Symmetry> symmetries[] = {
        {"general", Symmetry::general},
        {"symmetric", Symmetry::symmetric},
        {"skew-symmetric", Symmetry::skew},
        {"hermitian", Symmetry::hermitian}};
    symmetry_ = choice(lines_, "symmetry", symmetries);
    lines_.end_of_line();
    if (symmetry_ == Symmetry::hermitian && field_ != Field::complex) {
      lines_.refuse("a hermitian matrix is complex; a real one is called symmetric");
    }
    if (symmetry_ == Symmetry::skew && field_ == Field::pattern) {
      lines_.refuse("a pattern has no signs and is not skew-symmetric");
    }
  }

  template <Scalar T>
  CsrMatrix<T> read_entries() {
    if (!lines_.next_with_numbers()) {
      lines_.refuse("the file is cut off before the line of its sizes");
    }
    CooMatrix<T> matrix;
    matrix.rows = lines_.integer("the number of rows");
    matrix.columns = lines_.integer("the number of columns");
    const std::int64_t entries = lines_.integer("the number of entries");
    lines_.end_of_line();
    require_size(matrix.rows, matrix.columns, path_);
    if (entries < 0) {
      lines_.refuse(fmt::format("{} entries are announced", entries));
    }
    if (symmetry_ != Symmetry::general && matrix.rows != matrix.columns) {
      lines_.refuse(fmt::format("the matrix is of {} x {} and not general: it must be square",
                                matrix.rows, matrix.columns));
    }
    for (std::int64_t k = 0; k < entries; ++k) {
      if (!lines_.next_with_numbers()) {
        lines_.refuse(fmt::format("the file is cut off: {} entries of {} are there", k, entries));
      }
      read_entry(matrix);
    }
    if (lines_.next_with_numbers()) {
      lines_.refuse(fmt::format("there are more than the {} entries announced", entries));
    }
    return with_path(path_, [&] { return sorted(matrix); });
  }

  template <Scalar T>
  void read_entry(CooMatrix<T>& matrix) {
    const std::int64_t row = lines_.integer("the row of an entry");
    const std::int64_t column = lines_.integer("the column of an entry");
    if (row < 1 || row > matrix.rows || column < 1 || column > matrix.columns) {
      lines_.refuse(
          fmt::format("the entry is at ({}, {}), outside of {} x {}: indices count from 1", row,
                      column, matrix.rows, matrix.columns));
    }
    const T value = read_value<T>();
    lines_.end_of_line();
    require_listed(row, column, value);
    add(matrix, row - 1, column - 1, value);
    if (symmetry_ != Symmetry::general && row != column) {
      add(matrix, column - 1, row - 1, mirrored(value));
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
          return static_cast<double>(lines_.integer("the value"));
        default:
          return lines_.real("the value");
      }
    }
  }

  /// Whether a file of this symmetry may list such an entry.
  template <Scalar T>
  void require_listed(std::int64_t row, std::int64_t column, T value) const {
    if (symmetry_ != Symmetry::general && row < column) {
      lines_.refuse(
          fmt::format("the entry at ({}, {}) is above the diagonal: of a matrix that is "
                      "not general the lower triangle is listed",
                      row, column));
    }
    if (symmetry_ == Symmetry::skew && row == column) {
      lines_.refuse(
          fmt::format("the entry at ({}, {}) is on the diagonal, which of a "
                      "skew-symmetric matrix is zero and not listed",
                      row, column));
    }
    if (symmetry_ == Symmetry::hermitian && row == column && std::imag(value) != 0.0) {
      lines_.refuse(
          fmt::format("the entry at ({}, {}) has the imaginary part {}: the diagonal of a "
                      "hermitian matrix is real",
                      row, column, std::imag(value)));
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
  Field field_ = Field::real;
  Symmetry symmetry_ = Symmetry::general;
};

}  // namespace
}  // namespace market

AnyCsr read_matrix_market(const std::string& path) {
  const std::string text = market::read_text(path, INT64_MAX);
  return market::Reader(text, path).read();
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
