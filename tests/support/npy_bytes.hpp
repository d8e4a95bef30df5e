/// .npy files put together by hand, right or wrong.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardsolve::testing {

/// The bytes of an .npy file of this version whose dictionary is `literal`, as it is, followed by
/// `data_bytes` zeros.
inline std::string npy_bytes(int version, std::string_view literal, std::size_t data_bytes) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
    bytes += static_cast<char>(literal.size() >> (8 * i) & 0xff);
  }
  return bytes.append(literal).append(data_bytes, '\0');
}

}  // namespace shardsolve::testing
