#include "option_values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace shardsolve::cli {

std::optional<std::int64_t> to_whole_number(std::string_view text, std::int64_t least,
                                            std::int64_t most) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): up to `end`
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  const bool good = error == std::errc{} && stopped == end && value >= least && value <= most;
  return good ? std::optional(value) : std::nullopt;
}

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most, const std::string& accepted) {
  return {[=](const std::string& text) {
            return to_whole_number(text, least, most)
                       ? std::string()
                       : fmt::format("'{}' given; {}", text, accepted);
          },
          ""};
}

CLI::Validator one_of(const std::vector<std::string>& names) {
  return {[=](const std::string& text) {
            return std::find(names.begin(), names.end(), text) != names.end()
                       ? std::string()
                       : fmt::format("'{}' given; {} is accepted", text, fmt::join(names, " or "));
          },
          fmt::format("{{{}}}", fmt::join(names, ","))};
}

CLI::Validator not_empty(const std::string& accepted) {
  return {[=](const std::string& text) {
            return text.empty() ? fmt::format("'' given; {}", accepted) : std::string();
          },
          ""};
}

CLI::Validator file_name(const std::string& accepted) {
  return {[=](const std::string& text) {
            if (text.starts_with('-')) {
              return fmt::format(
                  "'{}' given where a value is missing; {}; './{}' if that is its name", text,
                  accepted, text);
            }
            if (text.ends_with('/')) {
              return fmt::format("'{}' given, the name of a directory; {}", text, accepted);
            }
            return text.empty() ? fmt::format("'' given; {}", accepted) : std::string();
          },
          ""};
}

CLI::Validator tolerance() {
  return {[](const std::string& text) {
            double value = 0.0;
            const char* end = text.data() + text.size();
            // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): up to `end`
            const auto [stopped, error] = std::from_chars(text.data(), end, value);
            const bool good = error == std::errc{} && stopped == end && value >= 0.0 &&
                              std::isfinite(value) && !std::signbit(value);
            return good ? std::string()
                        : fmt::format("'{}' given; a finite number from 0 on is accepted: 1e-10",
                                      text);
          },
          ""};
}

CLI::Validator positive_seconds() {
  constexpr double longest = 1e8;  // three years; what the clock can count is not far away
  return {[=](const std::string& text) {
            double value = 0.0;
            const char* end = text.data() + text.size();
            // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): up to `end`
            const auto [stopped, error] = std::from_chars(text.data(), end, value);
            const bool good =
                error == std::errc{} && stopped == end && value > 0.0 && value <= longest;
            return good ? std::string()
                        : fmt::format(
                              "'{}' given; a number of seconds above 0 and up to {:g} is "
                              "accepted",
                              text, longest);
          },
          ""};
}

}  // namespace shardsolve::cli
