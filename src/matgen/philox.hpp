/// Philox4x32-10, the counter-based random numbers of Salmon, Moraes, Dror and Shaw, "Parallel
/// Random Numbers: As Easy as 1, 2, 3" (SC 2011). A number is a pure function of its key and
/// counter, so every rank computes its entries of one and the same matrix without asking others.
#pragma once

#include <array>
#include <cstdint>

namespace shardsolve::matgen {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// 128 random bits for this counter and key.
constexpr PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) {
  constexpr std::uint64_t multiplier_0 = 0xD2511F53;
  constexpr std::uint64_t multiplier_1 = 0xCD9E8D57;
  constexpr std::uint32_t weyl_0 = 0x9E3779B9;  // golden ratio
  constexpr std::uint32_t weyl_1 = 0xBB67AE85;  // sqrt(3) - 1
  constexpr int rounds = 10;
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t product_0 = multiplier_0 * counter[0];
    const std::uint64_t product_1 = multiplier_1 * counter[2];
    counter = {static_cast<std::uint32_t>(product_1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product_1),
               static_cast<std::uint32_t>(product_0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product_0)};
    key[0] += weyl_0;
    key[1] += weyl_1;
  }
  return counter;
}

/// What a random number is used for: different uses of one seed must not be correlated.
enum class Stream : std::uint8_t { matrix, right_hand_side, point, phase, reflector };

/// Two independent numbers, uniform in [-1, 1), for place (i, j) of a stream.
/// 0 <= i, j < 2^56: the highest byte of the counter holds the stream.
constexpr std::array<double, 2> uniform_pair(std::uint64_t seed, Stream stream, std::int64_t i,
                                             std::int64_t j) {
  const auto row = static_cast<std::uint64_t>(i);
  const auto column = static_cast<std::uint64_t>(j) | (static_cast<std::uint64_t>(stream) << 56);
  const PhiloxCounter words =
      philox4x32_10({static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(row >> 32),
                     static_cast<std::uint32_t>(column), static_cast<std::uint32_t>(column >> 32)},
                    {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  // 53 bits, so that the double is exact and float32 matrices are float64 ones rounded once.
  const auto to_uniform = [](std::uint32_t low, std::uint32_t high) {
    const std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 11;
    return static_cast<double>(bits) * 0x1p-52 - 1.0;
  };
  return {to_uniform(words[0], words[1]), to_uniform(words[2], words[3])};
}

}  // namespace shardsolve::matgen
