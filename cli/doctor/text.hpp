/// Reading the small texts that settings are.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::cli::doctor {

/// Bytes of a GB, and so on.
inline constexpr double giga = 1e9;

/// "1 core", "2 cores".
inline std::string plural(std::integral auto count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

inline std::string trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\n\r\v\f";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) {
    return "";
  }
  return std::string(text.substr(begin, text.find_last_not_of(blanks) - begin + 1));
}

/// "a,,b" is "a", "" and "b"; the empty text is "".
inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// As one word of a shell's: in quotes if there is anything in it that the shell would take apart.
inline std::string shell_word(const std::string& text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) {
    return text;
  }
  std::string word = "'";
  for (const char c : text) {
    word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return word + "'";
}

/// "NAME=value" for a shell, the value as one word.
inline std::string shell_setting(const std::string& name, const std::string& value) {
  return fmt::format("{}={}", name, shell_word(value));
}

inline std::string lower_case(std::string text) {
  for (char& c : text) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

/// The number that all of the text is.
template <class Number>
std::optional<Number> to_number(std::string_view text) {
  Number value{};
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = stopped == text.data() + text.size();
  return error == std::errc{} && whole ? std::optional(value) : std::nullopt;
}

/// CUDA's way of counting versions, 13020, as users know it: "13.2".
inline std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// The leading numbers of a version: "0.10.2.dev3" is 0, 10, 2.
inline std::vector<std::int64_t> version_numbers(std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (const std::string& part : split(text, '.')) {
    const auto number = to_number<std::int64_t>(part);
    if (!number) {
      break;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace shardsolve::cli::doctor
