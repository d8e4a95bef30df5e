/// Factor files, damaged at random: the loader gives the factor that the bytes hold or throws an
/// Error that names the file, also when the damage comes with a header whose checksum is right.
#include "io/checksum.hpp"
#include "io/cholesky_factor_header.hpp"
#include "io/factor_file_header.hpp"
#include "io/lu_factor_header.hpp"
#include "tests/support/files.hpp"
#include "tests/support/fuzz.hpp"
#include "tests/support/memory_file.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/factor_file.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::io {
namespace {

using ::testing::HasSubstr;
using testing::Random;

constexpr std::size_t text_place = 20;

/// What headers are made of, right and wrong.
constexpr std::string_view factor_tokens[] = {"{",
                                              "}",
                                              "[",
                                              "]",
                                              ",",
                                              ":",
                                              "\"",
                                              "\\u0000",
                                              " ",
                                              "\n",
                                              "-",
                                              "1",
                                              "0",
                                              "9",
                                              ".5",
                                              "e9",
                                              "null",
                                              "true",
                                              "\"n\":",
                                              "\"tile\":",
                                              "\"name\":",
                                              "\"slab 1\"",
                                              "\"diagonal\"",
                                              "\"offset\":",
                                              "\"bytes\":",
                                              "\"shape\":",
                                              "\"complex64\"",
                                              "\"0x1p-1\"",
                                              "0,0",
                                              "9223372036854775807",
                                              "18446744073709551615",
                                              "536870912",
                                              "[[[[[[[[",
                                              "\xff"};

/// What a header may have in place of each other and be JSON still.
constexpr std::string_view factor_words[] = {"\"cholesky\"",
                                             "\"lu\"",
                                             "\"diagonal\"",
                                             "\"slab 0\"",
                                             "\"slab 1\"",
                                             "\"slab 2\"",
                                             "\"float32\"",
                                             "\"float64\"",
                                             "[0]",
                                             "[]",
                                             "1",
                                             "2",
                                             "3",
                                             "\"n\"",
                                             "\"name\"",
                                             "\"bytes\"",
                                             "\"tile\"",
                                             "128",
                                             "64"};

SlabLayout random_layout(Random& random) {
  std::vector<std::int64_t> boundaries{0};
  for (std::int64_t ranks = 1 + random.below(3); ranks > 0; --ranks) {
    boundaries.push_back(boundaries.back() + random.below(4));
  }
  return {boundaries, 1 + random.below(3)};
}

template <class T>
void fill(T* data, std::int64_t count, Random& random) {
  auto* bytes = reinterpret_cast<char*>(data);
  std::generate_n(bytes, count * std::int64_t{sizeof(T)},
                  [&] { return static_cast<char>(random.bits() & 0xff); });
}

/// The bytes of a file whose numbers mean nothing: that is all the same to the loader.
template <Scalar T>
std::string saved_factor(Random& random) {
  const SlabLayout layout = random_layout(random);
  const CholeskyFactor<T> factor{ShardedMatrix<T>(layout),
                                 std::make_shared<std::vector<RealOf<T>>>(layout.size()),
                                 {0.5 + 0.001 * static_cast<double>(random.below(500)),
                                  static_cast<int>(random.below(40)) - 20},
                                 {}};
  fill(factor.diagonal->data(), layout.size(), random);
  for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
    const MatrixView<T> slab = factor.slabs.slab(rank);
    fill(slab.data(), slab.rows() * slab.columns(), random);
  }
  const testing::TemporaryDirectory directory;
  save_factor(factor, directory / "A.factor");
  return testing::read_file(directory / "A.factor");
}

/// Likewise of an LU factor; but its rows are a permutation.
template <Scalar T>
std::string saved_lu_factor(Random& random) {
  const SlabLayout layout = random_layout(random);
  LuFactor<T> factor{ShardedMatrix<T>(layout),
                     ShardedMatrix<T>(layout),
                     std::make_shared<std::vector<std::int64_t>>(layout.size()),
                     {0.5, static_cast<int>(random.below(40)) - 20},
                     {0.75, 3},
                     {},
                     T{random.below(2) == 0 ? RealOf<T>{1} : RealOf<T>{-1}},
                     -0.25 * static_cast<double>(random.below(9))};
  std::iota(factor.rows->begin(), factor.rows->end(), 0);
  for (std::int64_t i = layout.size(); i > 1; --i) {
    std::swap((*factor.rows)[static_cast<std::size_t>(i - 1)],
              (*factor.rows)[static_cast<std::size_t>(random.below(i))]);
  }
  for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
    for (const MatrixView<T> slab : {factor.slabs.slab(rank), factor.matrix.slab(rank)}) {
      fill(slab.data(), slab.rows() * slab.columns(), random);
    }
  }
  const testing::TemporaryDirectory directory;
  save_factor(factor, directory / "A.factor", false,
              random.below(2) == 0 ? Transpose::none : Transpose::transpose);
  return testing::read_file(directory / "A.factor");
}

/// A disk is slow, so the files are few and the damages many.
std::vector<std::string> valid_files() {
  std::vector<std::string> files;
  Random random(1);
  for (int i = 0; i < 12; ++i) {
    files.push_back(saved_factor<float>(random));
    files.push_back(saved_factor<double>(random));
    files.push_back(saved_factor<std::complex<float>>(random));
    files.push_back(saved_factor<std::complex<double>>(random));
    files.push_back(saved_lu_factor<float>(random));
    files.push_back(saved_lu_factor<std::complex<double>>(random));
  }
  return files;
}

void encode(std::string& bytes, std::size_t place, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[place + i] = static_cast<char>(value >> (8 * i) & 0xff);
  }
}

/// Makes length and checksum of the header right, so that what it says is looked at.
void seal(std::string& bytes) {
  const std::size_t end_of_line = bytes.find('\n', text_place);
  if (end_of_line == std::string::npos) {
    return;
  }
  const std::size_t used = bytes.find_last_not_of(" \n", end_of_line) + 1;
  const std::size_t begin = std::max(used, text_place);
  const std::size_t padding = (64 - begin % 64) % 64;
  bytes.replace(begin, end_of_line + 1 - begin, std::string(padding, ' '));
  const std::size_t length = begin + padding - text_place;
  encode(bytes, 12, static_cast<std::uint32_t>(length));
  Crc32 checksum;
  checksum.update(bytes.data(), 16);
  checksum.update(bytes.data() + text_place, static_cast<std::int64_t>(length));
  encode(bytes, 16, checksum.value());
}

void damage(std::string& bytes, Random& random, const std::vector<std::string>& files) {
  // Half of it in the header, where the decisions are.
  const auto size = std::ssize(bytes) + 1;
  const auto place = static_cast<std::size_t>(
      random.below(random.one_in(2) ? size : std::min<std::int64_t>(size, 700)));
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
      bytes.append(few, '\0');
      break;
    case 3:  // a token put in
      bytes.insert(place, random.one_of(factor_tokens));
      break;
    case 4:  // a few bytes taken out
      bytes.erase(place, few);
      break;
    case 5: {  // one word for another, wherever it comes next
      const std::string_view from = random.one_of(factor_words);
      const std::size_t found = bytes.find(from, place);
      if (found != std::string::npos) {
        bytes.replace(found, from.size(), random.one_of(factor_words));
      }
      break;
    }
    default: {  // the front of one file, the rest of another
      const std::string& other = random.one_of(files);
      bytes = bytes.substr(0, place) + other.substr(std::min(place, other.size()));
      break;
    }
  }
}

/// Whether the section has these elements, compared as bytes: a NaN is not equal to itself.
template <class T>
bool holds(const std::string& bytes, const FactorFileFront& front, std::string_view name,
           const T* data, std::int64_t count) {
  const FactorSection* const section = front.header.find(name);
  const std::string_view in_memory(reinterpret_cast<const char*>(data),
                                   static_cast<std::size_t>(count) * sizeof(T));
  return section != nullptr && std::string_view(bytes).substr(
                                   static_cast<std::size_t>(front.data_offset + section->offset),
                                   static_cast<std::size_t>(section->bytes)) == in_memory;
}

template <Scalar T>
void expect_loaded_lu(const std::string& path, const std::string& bytes,
                      const FactorFileFront& front) {
  const LuFactor<T> factor = load_lu_factor<T>(path);
  const LuFactorHeader header = to_lu_header(front.header, path);
  ASSERT_EQ(front.data_offset + front.header.section_bytes(), std::ssize(bytes));
  ASSERT_EQ(factor.layout().boundaries(), header.cut.boundaries);
  EXPECT_EQ(factor.layout().tile(), header.cut.tile);
  EXPECT_EQ(factor.log_modulus, header.log_modulus);
  EXPECT_EQ(factor.outcome.growth, header.growth);
  EXPECT_TRUE(holds(bytes, front, rows_name, factor.rows->data(), factor.layout().size()));
  for (std::int64_t rank = 0; rank < factor.layout().ranks(); ++rank) {
    const MatrixView<T> slab = factor.slabs.slab(rank);
    const MatrixView<T> columns = factor.matrix.slab(rank);
    const std::int64_t count = slab.rows() * slab.columns();
    EXPECT_TRUE(holds(bytes, front, slab_name(rank), slab.data(), count));
    EXPECT_TRUE(holds(bytes, front, matrix_name(rank), columns.data(), count));
  }
}

/// What was loaded is what the bytes say.
template <Scalar T>
void expect_loaded(const std::string& path, const std::string& bytes,
                   const FactorFileFront& front) {
  if (front.header.kind == lu_kind) {
    return expect_loaded_lu<T>(path, bytes, front);
  }
  const CholeskyFactor<T> factor = load_factor<T>(path);
  const CholeskyFactorHeader header = to_cholesky_header(front.header, path);
  ASSERT_EQ(front.data_offset + front.header.section_bytes(), std::ssize(bytes));
  ASSERT_EQ(factor.layout().boundaries(), header.cut.boundaries);
  EXPECT_EQ(factor.layout().tile(), header.cut.tile);
  EXPECT_TRUE(holds(bytes, front, diagonal_name, factor.diagonal->data(), factor.layout().size()));
  for (std::int64_t rank = 0; rank < factor.layout().ranks(); ++rank) {
    const MatrixView<T> slab = factor.slabs.slab(rank);
    EXPECT_TRUE(holds(bytes, front, slab_name(rank), slab.data(), slab.rows() * slab.columns()));
  }
}

void expect_consistent(const std::string& path, const std::string& bytes) {
  const FactorFileFront front = read_factor_front(open_for_reading(path), path);
  switch (read_factor_info(path).dtype) {
    case Dtype::float32:
      return expect_loaded<float>(path, bytes, front);
    case Dtype::float64:
      return expect_loaded<double>(path, bytes, front);
    case Dtype::complex64:
      return expect_loaded<std::complex<float>>(path, bytes, front);
    case Dtype::complex128:
      return expect_loaded<std::complex<double>>(path, bytes, front);
  }
}

/// How often the loader came to either verdict.
struct Verdicts {
  std::int64_t loaded = 0;
  std::int64_t refused = 0;
};

void expect_verdict(const std::string& path, const std::string& bytes, Verdicts& verdicts) {
  try {
    expect_consistent(path, bytes);
    ++verdicts.loaded;
  } catch (const Error& error) {
    const bool newer = error.kind() == ErrorKind::unsupported;
    EXPECT_TRUE(newer || error.kind() == ErrorKind::invalid_argument) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(path));
    ++verdicts.refused;
  }
}

TEST(FactorFileFuzz, DamagedFile_IsRefused) {
  const std::vector<std::string> files = valid_files();
  const testing::MemoryFile file;
  Verdicts verdicts;
  testing::fuzz(20000, [&](Random& random) {
    const std::string& valid = random.one_of(files);
    std::string bytes = valid;
    for (std::int64_t damages = random.below(4); damages > 0; --damages) {
      damage(bytes, random, files);
    }
    ASSERT_TRUE(file.hold(bytes));
    const std::int64_t loaded = verdicts.loaded;
    expect_verdict(file.path(), bytes, verdicts);
    // What a checksum covers is whole or refused; spliced files may be another of the valid ones.
    EXPECT_EQ(verdicts.loaded > loaded, std::ranges::find(files, bytes) != files.end());
  });
  // Neither side of the property is empty.
  EXPECT_GT(verdicts.loaded, 1000);
  EXPECT_GT(verdicts.refused, 1000);
}

TEST(FactorFileFuzz, DamagedHeaderWithTheRightChecksum_IsReadConsistentlyOrRefused) {
  const std::vector<std::string> files = valid_files();
  const testing::MemoryFile file;
  Verdicts verdicts;
  testing::fuzz(40000, [&](Random& random) {
    std::string bytes = random.one_of(files);
    for (std::int64_t damages = random.below(4); damages > 0; --damages) {
      damage(bytes, random, files);
    }
    seal(bytes);
    ASSERT_TRUE(file.hold(bytes));
    expect_verdict(file.path(), bytes, verdicts);
  });
  EXPECT_GT(verdicts.loaded, 1000);
  EXPECT_GT(verdicts.refused, 1000);
}

}  // namespace
}  // namespace shardsolve::io
