/// .npz files put together by hand, right or wrong.
#pragma once

#include "tests/support/npy_bytes.hpp"

#include <fmt/format.h>

#include <zlib.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::testing {

/// Members, with their names, in a zip archive that compresses nothing.
inline std::string zip_bytes(const std::map<std::string, std::string>& members) {
  const auto little = [](std::uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i, value >>= 8U) {
      text += static_cast<char>(value & 0xffU);
    }
    return text;
  };
  std::string archive;
  std::string directory;
  for (const auto& [name, bytes] : members) {
    const auto checksum =
        ::crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    const std::string common = little(20, 2) + little(0, 8) + little(checksum, 4) +
                               little(bytes.size(), 4) + little(bytes.size(), 4) +
                               little(name.size(), 2) + little(0, 2);
    directory +=
        "PK\x01\x02" + little(20, 2) + common + little(0, 10) + little(archive.size(), 4) + name;
    archive += "PK\x03\x04" + common + name + bytes;
  }
  return archive + directory + "PK\x05\x06" + little(0, 4) + little(members.size(), 2) +
         little(members.size(), 2) + little(directory.size(), 4) + little(archive.size(), 4) +
         little(0, 2);
}

/// An array of this shape, as numpy.save writes it.
template <class Element>
std::string npy_array(std::string_view descr, std::string_view shape,
                      const std::vector<Element>& elements) {
  return npy_bytes(1,
                   fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}\n", descr,
                               shape),
                   0)
      .append(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(Element));
}
template <class Element>
std::string npy_vector(std::string_view descr, const std::vector<Element>& elements) {
  return npy_array(descr, fmt::format("({},)", elements.size()), elements);
}

/// What scipy.sparse.save_npz writes for a matrix of 3 x 4 with rows (1.5, , , -2), () and
/// ( , 3, 0.25, ), before tests change it.
inline std::map<std::string, std::string> csr_members() {
  return {{"format.npy", npy_array("|S3", "()", std::vector<char>{'c', 's', 'r'})},
          {"shape.npy", npy_vector("<i8", std::vector<std::int64_t>{3, 4})},
          {"indptr.npy", npy_vector("<i4", std::vector<std::int32_t>{0, 2, 2, 4})},
          {"indices.npy", npy_vector("<i4", std::vector<std::int32_t>{0, 3, 1, 2})},
          {"data.npy", npy_vector("<f8", std::vector<double>{1.5, -2, 3, 0.25})}};
}

}  // namespace shardsolve::testing
