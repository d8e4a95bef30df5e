#include "jax/invitation.hpp"

#include <shardsolve/version.hpp>

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string_view>

namespace shardsolve::jax {
namespace {

std::string_view name(CallKind kind) {
  constexpr std::array<std::string_view, 4> names = {"a factorisation", "a solve", "an inverse",
                                                     "a condition number"};
  const auto number = static_cast<std::size_t>(kind);
  return number < names.size() ? names[number] : "something else";
}

std::string describe(const Invitation& one) {
  return fmt::format("{} of n = {} in {} with {} right-hand sides, tile {}", name(one.kind), one.n,
                     shardsolve::name(static_cast<Dtype>(one.dtype)), one.columns,
                     one.tile > 0 ? std::to_string(one.tile) : "of the library's choice");
}

}  // namespace

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
      return std::array{
          static_cast<std::int32_t>(of.kind), of.dtype, of.n, of.ranks, of.tile, of.columns};
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
