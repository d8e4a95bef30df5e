#include "io/strict_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace shardsolve::io {

std::int64_t whole_number(const Json& value, const std::string& name, std::int64_t least,
                          std::int64_t most) {
  // The library keeps what is not negative as unsigned: it may be beyond int64_t.
  constexpr std::uint64_t largest = std::numeric_limits<std::int64_t>::max();
  const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= largest
                                               : value.is_number_integer();
  if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
    throw JsonFault(fmt::format("{} is not a whole number from {} to {}", name, least, most));
  }
  return value.get<std::int64_t>();
}

JsonObject::JsonObject(const Json& value, std::string name)
    : object_(&value), name_(std::move(name)) {
  if (!value.is_object()) {
    throw JsonFault(fmt::format("{} is no JSON object", name_));
  }
}

void JsonObject::require_keys(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    (*this)[key];
  }
  if (const auto unknown = unknown_key(keys)) {
    throw JsonFault(fmt::format("{} has \"{}\", which is not known", name_, *unknown));
  }
}

std::optional<std::string> JsonObject::unknown_key(
    std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : object_->items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return key;
    }
  }
  return std::nullopt;
}

bool JsonObject::has(std::string_view key) const { return object_->contains(std::string(key)); }

const Json& JsonObject::operator[](std::string_view key) const {
  const auto found = object_->find(std::string(key));
  if (found == object_->end()) {
    throw JsonFault(fmt::format("{} has no \"{}\"", name_, key));
  }
  return *found;
}

std::string JsonObject::text(std::string_view key) const {
  const Json& value = (*this)[key];
  if (!value.is_string()) {
    reject(key, "a text");
  }
  return value.get<std::string>();
}

bool JsonObject::boolean(std::string_view key) const {
  const Json& value = (*this)[key];
  if (!value.is_boolean()) {
    reject(key, "true or false");
  }
  return value.get<bool>();
}

std::int64_t JsonObject::integer(std::string_view key, std::int64_t least,
                                 std::int64_t most) const {
  return whole_number((*this)[key], name_of(key), least, most);
}

double JsonObject::number(std::string_view key) const {
  const Json& value = (*this)[key];
  if (!value.is_number()) {
    reject(key, "a number");
  }
  return value.get<double>();
}

Dtype JsonObject::dtype(std::string_view key) const {
  const std::string given = text(key);
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128}) {
    if (given == shardsolve::name(dtype)) {
      return dtype;
    }
  }
  reject(key, fmt::format("float32, float64, complex64 or complex128, but '{}'", given));
}

JsonObject JsonObject::object(std::string_view key) const { return {(*this)[key], name_of(key)}; }

const Json& JsonObject::list(std::string_view key) const {
  const Json& value = (*this)[key];
  if (!value.is_array()) {
    reject(key, "a list");
  }
  return value;
}

std::string JsonObject::name_of(std::string_view key) const {
  return fmt::format("\"{}\" of {}", key, name_);
}

void JsonObject::reject(std::string_view key, std::string_view wanted) const {
  throw JsonFault(fmt::format("{} is not {}", name_of(key), wanted));
}

}  // namespace shardsolve::io
