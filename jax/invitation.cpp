#include "jax/invitation.hpp"

#include <shardsolve/version.hpp>

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>
#include <variant>

namespace shardsolve::jax {
namespace {

using OptionBits = std::array<std::int32_t, 2 * max_options>;

OptionBits bits_of(const Options& options) {
  OptionBits bits{};
  for (std::size_t index = 0; index < options.size(); ++index) {
    std::visit([&](auto value) { std::memcpy(&bits[2 * index], &value, sizeof(value)); },
               options[index]);
  }
  return bits;
}

std::string describe(const Invitation& one) {
  const auto number = static_cast<std::size_t>(one.call);
  if (number >= call_count()) {
    return "something else";
  }
  const CallRow& row = call_at(number);
  std::string text = fmt::format("{} of n = {} in {}", row.phrase, one.n,
                                 shardsolve::name(static_cast<Dtype>(one.dtype)));
  if (one.columns > 0) {
    text += fmt::format(" with {} right-hand sides", one.columns);
  }
  for (std::size_t index = 0; index < row.options.size(); ++index) {
    const auto& [name, unset] = row.options[index];
    OptionValue value = unset;
    std::visit([&](auto& typed) { std::memcpy(&typed, &one.options[2 * index], sizeof(typed)); },
               value);
    if (value != unset) {
      std::visit([&, &called = name](auto typed) { text += fmt::format(", {} {}", called, typed); },
                 value);
    }
  }
  return text;
}

}  // namespace

void Invitation::set(const Job& job) {
  call = static_cast<std::int32_t>(number_of(*job.row));
  dtype = static_cast<std::int32_t>(job.dtype);
  n = static_cast<std::int32_t>(job.n);
  ranks = static_cast<std::int32_t>(job.ranks);
  columns = static_cast<std::int32_t>(job.columns);
  options = bits_of(job.options);
}

std::uint32_t version_number() {
  std::uint32_t value = 2166136261U;  // FNV-1a
  for (const char c : std::string_view(SHARDSOLVE_VERSION_STRING)) {
    value = (value ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return value | 1U;  // never 0
}

bool all_here(const Invitations& all) {
  for (const Invitation& one : all) {
    if (one.address.token != all.front().address.token) {
      return false;
    }
  }
  return true;
}

std::string difference(const Invitations& all) {
  const Invitation& first = all.front();
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const Invitation& one = all[rank];
    if (one.version != first.version) {
      return fmt::format(
          "the processes of ranks 0 and {} have different versions of shardsolve: install the same "
          "one everywhere",
          rank);
    }
    const auto call = [](const Invitation& of) {
      return std::pair(std::array{of.call, of.dtype, of.n, of.ranks, of.columns}, of.options);
    };
    if (call(one) != call(first)) {
      return fmt::format(
          "the processes do not make the same call: rank 0 has {}, rank {} has {}. Every process "
          "has to run the same program with the same arguments",
          describe(first), rank, describe(one));
    }
  }
  return "";
}

}  // namespace shardsolve::jax
