/// Valid .npy files, damaged at random: whatever the bytes, the reader gives an array that fits the
/// file or throws an Error that names the file.
#include "io/npy.hpp"
#include "tests/support/fuzz.hpp"
#include "tests/support/memory_file.hpp"
#include "tests/support/npy_bytes.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::io {
namespace {

using ::testing::HasSubstr;
using testing::npy_bytes;
using testing::Random;

/// What headers are made of, right and wrong.
constexpr std::string_view npy_tokens[] = {"{",
                                           "}",
                                           "(",
                                           ")",
                                           "[",
                                           "]",
                                           ",",
                                           ":",
                                           "'",
                                           "\"",
                                           "\\",
                                           " ",
                                           "\n",
                                           "-",
                                           "True",
                                           "False",
                                           "'descr'",
                                           "'shape'",
                                           "'<f8'",
                                           "'>f8'",
                                           "'<c16'",
                                           "'|O'",
                                           "'fortran_order'",
                                           "(3, 2)",
                                           "0",
                                           "1",
                                           "2L",
                                           "(6,)",
                                           "()",
                                           "9223372036854775807",
                                           "4294967296",
                                           "[('x', '<f8')]"};

std::string random_data(Random& random, std::int64_t bytes) {
  std::string data(static_cast<std::size_t>(bytes), '\0');
  std::ranges::generate(data, [&] { return static_cast<char>(random.bits() & 0xff); });
  return data;
}

std::string valid_file(Random& random) {
  constexpr Dtype dtypes[] = {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128};
  NpyHeader header{random.one_of(dtypes), random.one_in(2), {}, 0};
  std::int64_t elements = 1;
  for (std::int64_t dimensions = random.below(4); dimensions > 0; --dimensions) {
    header.shape.push_back(random.below(5));
    elements *= header.shape.back();
  }
  std::string text = format_npy_header(header);
  if (random.one_in(2)) {
    text = npy_bytes(static_cast<int>(2 + random.below(2)), text.substr(10), 0);
  }
  return text + random_data(random, elements * element_size(header.dtype));
}

std::size_t place_in(const std::string& bytes, Random& random) {
  // Mostly in the header, where the decisions are.
  const auto size = std::ssize(bytes) + 1;
  return static_cast<std::size_t>(random.below(random.one_in(4) ? size : std::min(size, 80L)));
}

void damage(std::string& bytes, Random& random) {
  const std::size_t place = place_in(bytes, random);
  const auto few = static_cast<std::size_t>(random.below(8));
  switch (random.below(7)) {
    case 0:  // one bit the other way
      if (place < bytes.size()) {
        bytes[place] = static_cast<char>(bytes[place] ^ (1 << few));
      }
      break;
    case 1:  // cut off
      bytes.resize(place);
      break;
    case 2:  // something behind
      bytes += random_data(random, random.below(40));
      break;
    case 3:  // a token put in
      bytes.insert(place, random.one_of(npy_tokens));
      break;
    case 4:  // a few bytes taken out
      bytes.erase(place, few);
      break;
    case 5: {  // the header of one file, the data of another
      const std::string other = valid_file(random);
      bytes = bytes.substr(0, place) + other.substr(std::min(place, other.size()));
      break;
    }
    default:  // a random version and length of the header
      bytes.resize(std::max<std::size_t>(bytes.size(), 12));
      bytes.replace(6, 2 + few % 4, random_data(random, static_cast<std::int64_t>(2 + few % 4)));
      break;
  }
}

/// Compared as bytes, since a NaN is not equal to itself.
template <Scalar T>
std::string_view bytes_of(const std::vector<T>& elements) {
  return {reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T)};
}

/// The array, read as rows and as columns, is the bytes behind the header.
template <Scalar T>
void expect_data(const NpyReader& reader, std::string_view data) {
  const NpyLines lines = npy_lines(reader.header(), reader.path());
  const std::int64_t rows = lines.rows();
  const std::int64_t columns = lines.columns();
  std::vector<T> by_rows(data.size() / sizeof(T));
  std::vector<T> by_columns(by_rows.size());
  reader.read_rows<T>({GlobalIndex(0), GlobalIndex(rows)}, {by_rows.data(), rows, columns});
  reader.read_columns<T>({GlobalIndex(0), GlobalIndex(columns)},
                         {by_columns.data(), rows, columns});
  EXPECT_TRUE(bytes_of(by_rows) == bytes_of(by_columns));
  if (lines.are_columns) {
    EXPECT_TRUE(bytes_of(by_rows) == data);
  }
}

void expect_consistent(const NpyReader& reader, std::string_view bytes) {
  const NpyHeader& header = reader.header();
  auto size = static_cast<double>(element_size(header.dtype));
  for (const std::int64_t extent : header.shape) {
    EXPECT_GE(extent, 0);
    size *= static_cast<double>(extent);
  }
  ASSERT_EQ(static_cast<double>(header.data_offset) + size, static_cast<double>(bytes.size()));
  const std::string_view data = bytes.substr(static_cast<std::size_t>(header.data_offset));
  if (header.shape.size() != 1 && header.shape.size() != 2) {
    return;
  }
  switch (header.dtype) {
    case Dtype::float32:
      return expect_data<float>(reader, data);
    case Dtype::float64:
      return expect_data<double>(reader, data);
    case Dtype::complex64:
      return expect_data<std::complex<float>>(reader, data);
    case Dtype::complex128:
      return expect_data<std::complex<double>>(reader, data);
  }
}

TEST(NpyFuzz, DamagedFile_IsReadConsistentlyOrRefused) {
  const testing::MemoryFile file;
  const std::string path = file.path();
  std::int64_t read = 0;
  std::int64_t refused = 0;
  testing::fuzz(150000, [&](Random& random) {
    std::string bytes = valid_file(random);
    for (std::int64_t damages = random.below(5); damages > 0; --damages) {
      damage(bytes, random);
    }
    ASSERT_TRUE(file.hold(bytes));
    try {
      expect_consistent(NpyReader(path), bytes);
      ++read;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(path));
      ++refused;
    }
  });
  // Neither side of the property is empty.
  EXPECT_GT(read, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace shardsolve::io
