/// JSON texts whose values have to be there, of their type and in their range.
#pragma once

#include <shardsolve/dtype.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::io {

using Json = nlohmann::ordered_json;

/// What is wrong with a text: "entry 2 has no \"tile\"". Who reads the file catches it and adds the
/// file's name and what to do about it.
class JsonFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws JsonFault unless `value` is a whole number from `least` to `most`. `name` is what the
/// message calls it.
std::int64_t whole_number(const Json& value, const std::string& name, std::int64_t least,
                          std::int64_t most);

/// One object of a text. Every member but has() throws JsonFault if the key is missing or its value
/// is another than asked for. The text's Json has to outlive it.
class JsonObject {
 public:
  /// `name` is what messages call it: "entry 2". Throws JsonFault unless `value` is an object.
  JsonObject(const Json& value, std::string name);

  /// All of these, and no others.
  void require_keys(std::initializer_list<std::string_view> keys) const;
  /// A key that is none of these; nothing if there is no other.
  std::optional<std::string> unknown_key(std::initializer_list<std::string_view> keys) const;

  bool has(std::string_view key) const { return object_->contains(key); }
  const Json& operator[](std::string_view key) const;
  std::string text(std::string_view key) const;
  bool boolean(std::string_view key) const;
  std::int64_t integer(std::string_view key, std::int64_t least, std::int64_t most) const;
  double number(std::string_view key) const;
  Dtype dtype(std::string_view key) const;
  JsonObject object(std::string_view key) const;
  const Json& list(std::string_view key) const;

  /// "\"tile\" of entry 2"
  std::string name_of(std::string_view key) const;
  /// Throws JsonFault: "\"tile\" of entry 2 is not <wanted>".
  [[noreturn]] void reject(std::string_view key, std::string_view wanted) const;

 private:
  const Json* object_;
  std::string name_;
};

}  // namespace shardsolve::io
