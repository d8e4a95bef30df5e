// Sixteen bytes at a time by tables: Kounavis and Berry, "Novel table lookup-based algorithms for
// high-performance CRC generation", IEEE Transactions on Computers 57, 2008 ("slicing").

#include "io/checksum.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

namespace shardsolve::io {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the checksum takes its bytes out of little-endian words");

constexpr std::size_t slice = 16;

/// tables[k][b]: what byte b does to the checksum when k more bytes follow it.
using Tables = std::array<std::array<std::uint32_t, 256>, slice>;

constexpr Tables make_tables() {
  constexpr std::uint32_t reflected_polynomial = 0xedb88320;
  Tables tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t rest = b;
    for (int bit = 0; bit < 8; ++bit) {
      rest = rest >> 1 ^ ((rest & 1) != 0 ? reflected_polynomial : 0);
    }
    tables[0][b] = rest;
  }
  for (std::size_t k = 1; k < slice; ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t before = tables[k - 1][b];
      tables[k][b] = before >> 8 ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables tables = make_tables();

}  // namespace

void Crc32::update(const void* data, std::int64_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  const unsigned char* const end = at + bytes;
  std::uint32_t state = state_;
  for (; end - at >= std::ptrdiff_t{slice}; at += slice) {
    std::array<std::uint64_t, 2> words;
    std::memcpy(words.data(), at, slice);
    words[0] ^= state;
    state = 0;
    for (std::size_t i = 0; i < slice; ++i) {
      state ^= tables[slice - 1 - i][words[i / 8] >> (8 * (i % 8)) & 0xff];
    }
  }
  for (; at != end; ++at) {
    state = state >> 8 ^ tables[0][(state ^ *at) & 0xff];
  }
  state_ = state;
}

}  // namespace shardsolve::io
