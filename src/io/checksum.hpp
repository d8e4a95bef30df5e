/// The checksum of the sections of a factor file, and of samples of .npy files.
#pragma once

#include <cstdint>

namespace shardsolve::io {

/// CRC-32 as in zip, PNG and Python's zlib.crc32, which can check a factor file, too: polynomial
/// 0x04c11db7 with the bits reflected, first and last inverted (ISO 3309, ITU-T V.42). Every single
/// wrong bit changes it, and so does every run of wrong bits that is not longer than 32; of other
/// damage one in 2^32 is missed.
class Crc32 {
 public:
  void update(const void* data, std::int64_t bytes);
  /// Of everything given so far.
  std::uint32_t value() const { return ~state_; }

 private:
  std::uint32_t state_ = 0xffffffff;
};

}  // namespace shardsolve::io
