#include "io/npy_literal.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <system_error>

namespace shardsolve::io {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_quote(char c) { return c == '\'' || c == '"'; }

/// Reads one token after another, spaces between them skipped.
class Scanner {
 public:
  Scanner(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  bool at_end() {
    skip_space();
    return place_ == text_.size();
  }

  bool accept(char c) {
    if (at_end() || text_[place_] != c) {
      return false;
    }
    ++place_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) {
      fail(fmt::format("'{}' is missing", c));
    }
  }

  /// The characters between two quotes. Escapes are left as they are: no name we know has one.
  std::string_view string() {
    if (at_end() || !is_quote(text_[place_])) {
      fail("a quoted string is missing");
    }
    const char quote = text_[place_++];
    const std::size_t begin = place_;
    while (place_ < text_.size() && text_[place_] != quote) {
      place_ += text_[place_] == '\\' ? 2 : 1;
    }
    if (place_ >= text_.size()) {
      place_ = text_.size();
      fail("a quoted string does not end");
    }
    return text_.substr(begin, place_++ - begin);
  }

  bool boolean() {
    skip_space();
    const std::size_t begin = place_;
    while (place_ < text_.size() && is_letter(text_[place_])) {
      ++place_;
    }
    const std::string_view word = text_.substr(begin, place_ - begin);
    if (word != "True" && word != "False") {
      fail("True or False is missing");
    }
    return word == "True";
  }

  std::int64_t size() {
    skip_space();
    if (accept('-')) {
      fail("the shape has a negative size");
    }
    std::int64_t value = 0;
    const char* begin = text_.data() + place_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) {
      fail("a size of the shape does not fit 64 bits");
    }
    if (error != std::errc()) {
      fail("a size of the shape is missing");
    }
    place_ += static_cast<std::size_t>(end - begin);
    // Python 2 wrote long integers as 3L.
    if (place_ < text_.size() && text_[place_] == 'L') {
      ++place_;
    }
    return value;
  }

  /// A list or tuple with all that is in it, uninterpreted.
  std::string_view bracketed() {
    skip_space();
    const std::size_t begin = place_;
    std::int64_t depth = 0;
    do {
      if (at_end()) {
        fail("a bracket does not close");
      }
      const char c = text_[place_];
      if (is_quote(c)) {
        string();
        continue;
      }
      depth += c == '[' || c == '(' ? 1 : 0;
      depth -= c == ']' || c == ')' ? 1 : 0;
      ++place_;
    } while (depth > 0);
    return text_.substr(begin, place_ - begin);
  }

  bool at_bracket() { return !at_end() && (text_[place_] == '[' || text_[place_] == '('); }

  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("the .npy header of '{}' is damaged: {} at character {} of {}; write "
                            "the file again with numpy.save",
                            path_, what, place_, text_.size()));
  }

 private:
  void skip_space() {
    while (place_ < text_.size() && is_space(text_[place_])) {
      ++place_;
    }
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t place_ = 0;
};

std::vector<std::int64_t> parse_shape(Scanner& scanner) {
  std::vector<std::int64_t> shape;
  scanner.expect('(');
  while (!scanner.accept(')')) {
    shape.push_back(scanner.size());
    if (scanner.accept(',')) {
      continue;
    }
    // In Python (3) is a number and (3,) a tuple.
    if (shape.size() == 1) {
      scanner.fail("the comma of a one-element tuple is missing");
    }
    scanner.expect(')');
    break;
  }
  return shape;
}

template <class T>
void set_once(std::optional<T>& field, T value, std::string_view key, const Scanner& scanner) {
  if (field) {
    scanner.fail(fmt::format("a second '{}'", key));
  }
  field = std::move(value);
}

}  // namespace

NpyFields parse_npy_literal(std::string_view text, const std::string& path) {
  Scanner scanner(text, path);
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;

  scanner.expect('{');
  while (!scanner.accept('}')) {
    const std::string_view key = scanner.string();
    scanner.expect(':');
    if (key == "descr") {
      const auto value = scanner.at_bracket() ? scanner.bracketed() : scanner.string();
      set_once(descr, std::string(value), key, scanner);
    } else if (key == "fortran_order") {
      set_once(fortran_order, scanner.boolean(), key, scanner);
    } else if (key == "shape") {
      set_once(shape, parse_shape(scanner), key, scanner);
    } else {
      scanner.fail(fmt::format("an unknown key '{}'", printable(key)));
    }
    if (!scanner.accept(',')) {
      scanner.expect('}');
      break;
    }
  }
  if (!scanner.at_end()) {
    scanner.fail("something other than padding follows the dictionary");
  }
  if (!descr || !fortran_order || !shape) {
    scanner.fail("one of the keys 'descr', 'fortran_order' and 'shape' is missing");
  }
  return {std::move(*descr), *fortran_order, std::move(*shape)};
}

std::string format_npy_literal(const NpyFields& fields) {
  return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", fields.descr,
                     fields.fortran_order ? "True" : "False", format_shape(fields.shape));
}

std::string format_shape(const std::vector<std::int64_t>& shape) {
  std::string sizes;
  for (const std::int64_t size : shape) {
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  }
  return fmt::format("({}{})", sizes, shape.size() == 1 ? "," : "");
}

std::string printable(std::string_view text) {
  constexpr std::size_t longest = 60;
  std::string out(text.substr(0, longest));
  for (char& c : out) {
    if (c < ' ' || c > '~') {
      c = '?';
    }
  }
  return text.size() > longest ? out + "..." : out;
}

}  // namespace shardsolve::io
