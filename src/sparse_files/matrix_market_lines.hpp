/// The text of a Matrix Market file: lines, words, numbers, and errors that name the line.
#pragma once

#include "io/npy_literal.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace shardsolve::sparse_files::market {

inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
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
  /// A whole number of the value's field, rounded to double precision.
  double integral(const char* what) {
    const std::string_view found = word();
    const std::string_view digits = found.substr(found.starts_with('-') || found.starts_with('+'));
    const bool is_whole = !digits.empty() && std::all_of(digits.begin(), digits.end(), [](char c) {
      return '0' <= c && c <= '9';
    });
    if (!is_whole) {
      refuse(
          fmt::format("'{}' stands where {} was expected, an integer", io::printable(found), what));
    }
    return std::strtod(std::string(found).c_str(), nullptr);
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
    if (const std::string_view more = word(); !more.empty() && more.front() != '%') {
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

}  // namespace shardsolve::sparse_files::market
