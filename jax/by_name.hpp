/// What Python and the library give each other by name: JSON, in which an array is [address,
/// numbers, bytes of one] and a function its address.
#pragma once

#include <shardsolve/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace shardsolve::jax {

/// The array of that name; empty where it is null. Throws where its numbers are not as wide as T.
template <class T>
std::span<T> array_in(const nlohmann::json& given, const char* name) {
  const nlohmann::json& array = given.at(name);
  if (array.is_null()) {
    return {};
  }
  if (array.at(2).get<std::size_t>() != sizeof(T)) {
    throw Error(ErrorKind::internal, fmt::format("numbers of {} have {} bytes, {} are read", name,
                                                 array.at(2).get<std::size_t>(), sizeof(T)));
  }
  return {reinterpret_cast<T*>(array.at(0).get<std::uintptr_t>()), array.at(1).get<std::size_t>()};
}

/// A copy of the array of that name.
inline std::vector<double> doubles_in(const nlohmann::json& given, const char* name) {
  const auto numbers = array_in<const double>(given, name);
  return {numbers.begin(), numbers.end()};
}

/// As array_in() reads it.
template <class Range>
nlohmann::json array_of(const Range& numbers) {
  return {reinterpret_cast<std::uintptr_t>(numbers.data()), numbers.size(),
          sizeof(*numbers.data())};
}

/// The function of that name.
template <class F>
F* function_in(const nlohmann::json& given, const char* name) {
  static_assert(std::is_function_v<F>);
  return reinterpret_cast<F*>(given.at(name).get<std::uintptr_t>());
}

}  // namespace shardsolve::jax
