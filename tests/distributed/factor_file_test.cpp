// A factor that was saved and loaded is the factor, bit for bit; anything else is refused.

#include "io/checksum.hpp"
#include "io/factor_file_header.hpp"
#include "support/bits.hpp"
#include "support/cuts.hpp"
#include "support/dtypes.hpp"
#include "support/files.hpp"
#include "support/matrix_zoo.hpp"
#include "support/npy_bytes.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <shardsolve/factor_file.hpp>
#include <shardsolve/version.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ErrorKind misuse = ErrorKind::invalid_argument;

/// Slabs of different widths, one of them empty, none a multiple of 64 bytes.
SlabLayout uneven() { return SlabLayout({0, 3, 3, 8, 13}, 2); }

template <Scalar T>
CholeskyFactor<T> factor_on(const SlabLayout& layout) {
  Mesh mesh = Mesh::host(layout.ranks());
  const DenseMatrix<T> a = dense<T>({.n = layout.size(), .seed = 3});
  CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
  EXPECT_TRUE(factor.outcome.ok()) << factor.outcome.message();
  return factor;
}

/// All that a factor consists of.
template <Scalar T>
void expect_same_factor(const CholeskyFactor<T>& loaded, const CholeskyFactor<T>& saved) {
  EXPECT_TRUE(loaded.layout() == saved.layout());
  EXPECT_TRUE(same_bits(whole(loaded.slabs), whole(saved.slabs)));
  EXPECT_EQ(*loaded.diagonal, *saved.diagonal);
  EXPECT_EQ(loaded.norm.fraction, saved.norm.fraction);
  EXPECT_EQ(loaded.norm.exponent, saved.norm.exponent);
  EXPECT_TRUE(loaded.outcome.ok());
}

/// What becomes of a factor must not depend on which of the two it is.
template <Scalar T>
void expect_same_answers(CholeskyFactor<T> loaded, CholeskyFactor<T> saved) {
  Mesh mesh = Mesh::host(saved.layout().ranks());
  const DenseMatrix<T> b = right_hand_sides<T>(saved.layout().size(), 3);
  const RightHandSides<T> expected = shard_rows(b, saved.layout());
  const RightHandSides<T> x = shard_rows(b, saved.layout());
  const Outcome saved_outcome = cholesky_solve(mesh, saved, expected);
  const Outcome outcome = cholesky_solve(mesh, loaded, x);
  ASSERT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_TRUE(same_bits(whole(x), whole(expected)));
  EXPECT_EQ(outcome.backward_error, saved_outcome.backward_error);
  EXPECT_EQ(log_determinant(loaded), log_determinant(saved));
  EXPECT_EQ(condition_estimate(mesh, loaded), condition_estimate(mesh, saved));

  const ShardedMatrix<T> expected_inverse = saved.slabs;
  const ShardedMatrix<T> inverse = loaded.slabs;
  const Outcome saved_inverted = cholesky_inverse(mesh, std::move(saved));
  const Outcome inverted = cholesky_inverse(mesh, std::move(loaded));
  EXPECT_TRUE(same_bits(whole(inverse), whole(expected_inverse)));
  EXPECT_EQ(inverted.backward_error, saved_inverted.backward_error);
  EXPECT_EQ(inverted.rcond, saved_inverted.rcond);
}

template <class T>
class FactorFile : public ::testing::Test {
 protected:
  TemporaryDirectory directory_;
  std::string path_ = directory_ / "A.factor";
};
TYPED_TEST_SUITE(FactorFile, Dtypes, DtypeNames);

TYPED_TEST(FactorFile, Loaded_OnEveryCut_IsTheFactorAndGivesItsAnswers) {
  using T = TypeParam;
  for (const Cut& cut : cuts()) {
    SCOPED_TRACE(cut.name);
    const CholeskyFactor<T> factor = factor_on<T>(cut.layout);
    save_factor(factor, this->path_, true);
    CholeskyFactor<T> loaded = load_factor<T>(this->path_);
    expect_same_factor(loaded, factor);
    expect_same_answers(std::move(loaded), factor);
  }
  EXPECT_THAT(this->directory_.names(), ElementsAre("A.factor"));
}

/// The slabs in memory of the caller: each with another gap between its columns, or in one piece.
TYPED_TEST(FactorFile, AdoptedMemory_GivesTheSameFile) {
  using T = TypeParam;
  const SlabLayout layout = uneven();
  const std::int64_t n = layout.size();
  const CholeskyFactor<T> own = factor_on<T>(layout);
  save_factor(own, this->path_);

  std::vector<std::vector<T>> memory;
  std::vector<MatrixView<T>> slabs;
  for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
    const std::int64_t stride = n + rank;
    memory.emplace_back(static_cast<std::size_t>(1 + stride * layout.width(rank)), T{77});
    slabs.emplace_back(memory.back().data() + 1, n, layout.width(rank), stride);
    copy_entries<T>(own.slabs.slab(rank), slabs.back());
  }
  CholeskyFactor<T> strided = own;
  strided.slabs = ShardedMatrix<T>(layout, slabs);
  const std::string strided_path = this->directory_ / "strided.factor";
  save_factor(strided, strided_path);
  EXPECT_EQ(read_file(strided_path), read_file(this->path_));

  DenseMatrix<T> one_piece = whole(own.slabs);
  CholeskyFactor<T> adopted = own;
  adopted.slabs = ShardedMatrix<T>(layout, one_piece.view());
  const std::string adopted_path = this->directory_ / "adopted.factor";
  save_factor(adopted, adopted_path);
  EXPECT_EQ(read_file(adopted_path), read_file(this->path_));
}

TYPED_TEST(FactorFile, NormBeyondTheRangeOfDouble_ComesBack) {
  using T = TypeParam;
  CholeskyFactor<T> factor = factor_on<T>(uneven());
  for (const Scaled norm : {Scaled{0x1.fffffffffffffp-1, 1030}, Scaled{0.1, -1080}, Scaled{}}) {
    factor.norm = norm;
    save_factor(factor, this->path_, true);
    expect_same_factor(load_factor<T>(this->path_), factor);
  }
}

TYPED_TEST(FactorFile, Info_TellsDtypeAndLayout) {
  using T = TypeParam;
  for (const Cut& cut : cuts()) {
    const CholeskyFactor<T> factor{ShardedMatrix<T>(cut.layout),
                                   std::make_shared<std::vector<RealOf<T>>>(cut.layout.size()),
                                   {},
                                   {}};
    save_factor(factor, this->path_, true);
    const FactorFileInfo info = read_factor_info(this->path_);
    EXPECT_EQ(info.kind, "cholesky");
    EXPECT_EQ(info.dtype, dtype_of<T>);
    EXPECT_TRUE(info.layout == cut.layout) << cut.name;
    EXPECT_EQ(info.version, SHARDSOLVE_VERSION_STRING);
  }
}

/// Refused, and the file is named.
template <Scalar T>
void expect_damaged(const std::string& path) {
  const auto error = thrown_by([&] { load_factor<T>(path); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), misuse) << error->what();
  EXPECT_THAT(error->what(), HasSubstr("'" + path + "'"));
}

TYPED_TEST(FactorFile, CutOffOrContinued_IsRefused) {
  using T = TypeParam;
  save_factor(factor_on<T>(uneven()), this->path_);
  const std::string bytes = read_file(this->path_);
  for (const std::size_t more : {1, 64}) {
    write_file(this->path_, bytes + std::string(more, '\0'));
    const auto error = thrown_by([&] { load_factor<T>(this->path_); });
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(), HasSubstr("something else follows the factor"));
  }
  for (std::size_t length = bytes.size(); length-- > 0;) {
    SCOPED_TRACE(length);
    std::filesystem::resize_file(this->path_, length);
    expect_damaged<T>(this->path_);
    EXPECT_TRUE(throws(misuse, [&] { read_factor_info(this->path_); }));
  }
}

TYPED_TEST(FactorFile, AnotherDtype_IsRefused) {
  using T = TypeParam;
  save_factor(factor_on<T>(uneven()), this->path_);
  const auto expect_refused = [&]<Scalar U>(U) {
    if (dtype_of<U> == dtype_of<T>) {
      return;
    }
    const auto error = thrown_by([&] { load_factor<U>(this->path_); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), misuse);
    EXPECT_THAT(error->what(), AllOf(HasSubstr("holds " + std::string(name(dtype_of<T>))),
                                     HasSubstr(std::string(name(dtype_of<U>)) + " was asked for")));
  };
  expect_refused(float{});
  expect_refused(double{});
  expect_refused(std::complex<float>{});
  expect_refused(std::complex<double>{});
}

// ---- damage
// --------------------------------------------------------------------------------------

using Float64File = FactorFile<double>;

/// The bytes of a file whose header has been exchanged for this one, its checksum right.
std::string with_header(const std::string& bytes, std::uint32_t version, std::string text) {
  const auto decode = [&](std::size_t place) {
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(bytes[place + i]);
    }
    return value;
  };
  const auto encode = [](std::uint32_t value) {
    std::string four;
    for (int i = 0; i < 4; ++i) {
      four += static_cast<char>(value >> (8 * i) & 0xff);
    }
    return four;
  };
  const std::string sections = bytes.substr(20 + decode(12));
  text.resize((20 + text.size() + 63) / 64 * 64 - 20, ' ');
  const std::string front =
      bytes.substr(0, 8) + encode(version) + encode(static_cast<std::uint32_t>(text.size()));
  io::Crc32 checksum;
  checksum.update((front + text).data(), std::ssize(front + text));
  return front + encode(checksum.value()) + text + sections;
}

/// The JSON of the header.
std::string header_text(const std::string& bytes) {
  return bytes.substr(20, bytes.find('\n', 20) - 20);
}

TEST_F(Float64File, AnyBitTheOtherWay_IsFound) {
  save_factor(factor_on<double>(uneven()), path_);
  const std::string bytes = read_file(path_);
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&](std::size_t place, char byte) {
    file.seekp(static_cast<std::streamoff>(place)).put(byte).flush();
  };
  for (std::size_t place = 0; place < bytes.size(); ++place) {
    for (int bit = 0; bit < 8; ++bit) {
      SCOPED_TRACE(::testing::Message() << "byte " << place << " bit " << bit);
      put(place, static_cast<char>(bytes[place] ^ (1 << bit)));
      expect_damaged<double>(path_);
    }
    put(place, bytes[place]);
  }
  EXPECT_EQ(load_factor<double>(path_).layout().size(), uneven().size());
}

TEST_F(Float64File, DamagedSection_IsNamed) {
  save_factor(factor_on<double>(uneven()), path_);
  const std::string bytes = read_file(path_);
  const io::FactorFileFront front = io::read_factor_front(io::open_for_reading(path_), path_);
  std::vector<std::string> names;
  for (const io::FactorSection& section : front.header.sections) {
    names.push_back(section.name);
    EXPECT_EQ((front.data_offset + section.offset) % 64, 0);
    if (section.bytes == 0) {
      continue;  // slab 1 is empty
    }
    std::string damaged = bytes;
    damaged[static_cast<std::size_t>(front.data_offset + section.end() - 1)] ^= 4;
    write_file(path_, damaged);
    const auto error = thrown_by([&] { load_factor<double>(path_); });
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(),
                HasSubstr("the checksum of its section \"" + section.name + "\" is wrong"));
  }
  EXPECT_THAT(names, ElementsAre("diagonal", "slab 0", "slab 1", "slab 2", "slab 3"));
}

/// Refused for what it is, not as damaged.
void expect_unsupported(const std::string& path, const std::vector<std::string>& words) {
  for (const auto& error : {thrown_by([&] { load_factor<double>(path); }),
                            thrown_by([&] { read_factor_info(path); })}) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::unsupported) << error->what();
    EXPECT_THAT(error->what(), HasSubstr("'" + path + "'"));
    for (const std::string& word : words) {
      EXPECT_THAT(error->what(), HasSubstr(word));
    }
  }
}

TEST_F(Float64File, AnotherFormat_IsUnsupported) {
  save_factor(factor_on<double>(uneven()), path_);
  const std::string bytes = read_file(path_);
  write_file(path_, with_header(bytes, 2, header_text(bytes)));
  EXPECT_EQ(load_factor<double>(path_).layout().size(), uneven().size());
  for (const std::uint32_t version : {1, 3}) {
    write_file(path_, with_header(bytes, version, header_text(bytes)));
    expect_unsupported(path_, {"format version " + std::to_string(version), "reads version 2",
                               "save the factor again"});
  }
}

/// `from` in the header becomes `to`.
std::string exchanged(const std::string& bytes, std::string_view from, std::string_view to) {
  std::string text = header_text(bytes);
  const std::size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return with_header(bytes, 2, text.replace(place, from.size(), to));
}

TEST_F(Float64File, AnotherKind_IsUnsupported) {
  save_factor(factor_on<double>(uneven()), path_);
  write_file(path_, exchanged(read_file(path_), "\"kind\":\"cholesky\"", "\"kind\":\"qr\""));
  expect_unsupported(path_, {"kind \"qr\"", "\"cholesky\"", SHARDSOLVE_VERSION_STRING});
}

TEST_F(Float64File, AttributeThatIsNotKnown_IsUnsupported) {
  save_factor(factor_on<double>(uneven()), path_);
  write_file(path_, exchanged(read_file(path_), "\"n\":13", "\"n\":13,\"scaled\":true"));
  expect_unsupported(path_, {"\"scaled\"", SHARDSOLVE_VERSION_STRING});
}

/// The file with its sections the other way round, and with others around them that this library
/// does not know.
std::string with_more_sections(const std::string& path) {
  const std::string bytes = read_file(path);
  const io::FactorFileFront front = io::read_factor_front(io::open_for_reading(path), path);
  io::FactorHeader header = front.header;
  header.sections.clear();
  std::string data;
  const auto add_unknown = [&] {
    header.add_section("pivots " + std::to_string(header.sections.size()), "bfloat16", {5, 7}, 70);
    data += std::string(128, 'u');
  };
  add_unknown();
  for (auto one = front.header.sections.rbegin(); one != front.header.sections.rend(); ++one) {
    header.add_section(one->name, one->dtype, one->shape, one->bytes);
    header.sections.back().checksum = one->checksum;
    data += bytes.substr(static_cast<std::size_t>(front.data_offset + one->offset),
                         static_cast<std::size_t>(one->bytes + one->padding()));
    add_unknown();
  }
  return io::format_factor_header(header) + data;
}

TEST_F(Float64File, SectionsThatAreNotKnown_AreLeftOut) {
  const CholeskyFactor<double> factor = factor_on<double>(uneven());
  save_factor(factor, path_);
  const std::string bytes = with_more_sections(path_);
  write_file(path_, bytes);
  expect_same_factor(load_factor<double>(path_), factor);
  EXPECT_TRUE(read_factor_info(path_).layout == uneven());
  write_file(path_, bytes.substr(0, bytes.size() - 1));
  expect_damaged<double>(path_);
}

/// Headers that no damage makes, but a program or a person may.
TEST_F(Float64File, ImpossibleHeader_IsRefused) {
  save_factor(factor_on<double>(uneven()), path_);
  const std::string bytes = read_file(path_);
  const std::pair<std::string_view, std::string_view> exchanges[] = {
      {"\"kind\":\"cholesky\"", "\"kind\":7"},
      {"float64", "float16"},
      {"\"n\":13", "\"n\":12"},
      {"\"n\":13", "\"n\":-13"},
      {"\"n\":13", "\"n\":13.0"},
      {"\"n\":13", "\"n\":true"},
      {"\"n\":13", "\"n\":null"},
      {"\"n\":13,", ""},
      {"\"n\":13,\"boundaries\":[0,3,3,8,13]",
       "\"n\":4611686018427387904,"
       "\"boundaries\":[0,3,3,8,4611686018427387904]"},
      {"\"n\":13,\"boundaries\":[0,3,3,8,13]",
       "\"n\":18446744073709551615,"
       "\"boundaries\":[0,3,3,8,18446744073709551615]"},
      {"\"n\":13,\"boundaries\":[0,3,3,8,13]",
       "\"n\":536870912,"
       "\"boundaries\":[0,3,3,8,536870912]"},
      {"[0,3,3,8,13]", "[0,3,3,8,12]"},
      {"[0,3,3,8,13]", "[0,3,2,8,13]"},
      {"[0,3,3,8,13]", "[1,3,3,8,13]"},
      {"[0,3,3,8,13]", "[0,3,14,8,13]"},
      {"[0,3,3,8,13]", "[0,3,8,13]"},
      {"[0,3,3,8,13]", "[0,3,3,3,8,13]"},
      {"[0,3,3,8,13]", "[]"},
      {"[0,3,3,8,13]", "[13]"},
      {"[0,3,3,8,13]", "{\"0\":13}"},
      {"[0,3,3,8,13]", "13"},
      {"\"tile\":2", "\"tile\":0"},
      {"\"tile\":2", "\"tile\":6"},
      {"\"fraction\":\"0x", "\"fraction\":\"-0x"},
      {"\"fraction\":\"0x", "\"fraction\":\"0xnan"},
      {"\"fraction\":\"0x", "\"fraction\":\"0x-"},
      {"\"fraction\":\"0x", "\"fraction\":\""},
      {"\"fraction\":\"", "\"fraction\":\"inf"},
      {"\"exponent\":", "\"exponent\":2147483648"},
      {"\"exponent\":", "\"x\":0,\"exponent\":"},
      {"\"attributes\":{", "\"attributes\":7,\"x\":{"},
      {"\"version\":", "\"more\":0,\"version\":"},
      {"\"sections\":[", "\"sections\":[7,"},
      {"\"sections\":", "\"sections\":{},\"x\":"},
      {"\"name\":\"diagonal\"", "\"name\":\"slab 0\""},
      {"\"name\":\"diagonal\"", "\"name\":\"slab 4\""},
      {"\"name\":\"slab 3\"", "\"name\":\"slab 03\""},
      {"\"name\":\"diagonal\"", "\"name\":7"},
      {"\"name\":\"diagonal\"", "\"name\":\"diagonal\",\"more\":0"},
      {"\"dtype\":\"float64\",\"shape\":[13]", "\"dtype\":\"float32\",\"shape\":[13]"},
      {"\"shape\":[13]", "\"shape\":[12]"},
      {"\"shape\":[13]", "\"shape\":[13,1]"},
      {"\"shape\":[13]", "\"shape\":[-13]"},
      {"\"shape\":[13]", "\"shape\":13"},
      {"\"shape\":[13,3]", "\"shape\":[3,13]"},
      {"\"offset\":0", "\"offset\":64"},
      {"\"offset\":128", "\"offset\":0"},
      {"\"offset\":128", "\"offset\":-128"},
      {"\"bytes\":104", "\"bytes\":103"},
      {"\"bytes\":104", "\"bytes\":-104"},
      {"\"bytes\":104", "\"bytes\":1152921504606846976"},
      {"\"bytes\":104", "\"bytes\":9223372036854775807"},
      {"\"bytes\":520", "\"bytes\":576"},
      {"\"crc32\":\"", "\"crc32\":\"0"},
      {"\"crc32\":", "\"crc32\":7,\"x\":"},
      {"{", "[{"},
      {"{", ""},
  };
  for (const auto& [from, to] : exchanges) {
    SCOPED_TRACE(std::string(from) + " -> " + std::string(to));
    write_file(path_, exchanged(bytes, from, to));
    expect_damaged<double>(path_);
  }
}

TEST_F(Float64File, ForeignFile_IsRefused) {
  const std::pair<std::string, std::string> files[] = {
      {npy_bytes(1, "{'descr':'<f8','fortran_order':True,'shape':(1,1)}", 8), ".npy array"},
      {"a text of some length, which is no factor", "not a factor file"},
      {"text", "not a factor file"},
      {std::string(1000, '\0'), "not a factor file"},
      {"", "cut off"},
  };
  for (const auto& [bytes, words] : files) {
    write_file(path_, bytes);
    for (const std::function<void()>& read : std::vector<std::function<void()>>{
             [&] { load_factor<double>(path_); }, [&] { read_factor_info(path_); }}) {
      const auto error = thrown_by(read);
      ASSERT_TRUE(error);
      EXPECT_EQ(error->kind(), misuse);
      EXPECT_THAT(error->what(), AllOf(HasSubstr(path_), HasSubstr(words)));
    }
  }
}

TEST_F(Float64File, FileThatCannotBeRead_ThrowsIo) {
  EXPECT_TRUE(throws(ErrorKind::io, [&] { load_factor<double>(path_); }));
  EXPECT_TRUE(throws(ErrorKind::io, [&] { load_factor<double>(directory_.path().string()); }));
  EXPECT_TRUE(throws(ErrorKind::io, [&] { read_factor_info(path_); }));
}

// ---- saving
// --------------------------------------------------------------------------------------

TEST_F(Float64File, ExistingFile_IsReplacedOnlyWhenAllowed) {
  const CholeskyFactor<double> factor = factor_on<double>(uneven());
  write_file(path_, "precious");
  EXPECT_TRUE(throws(misuse, [&] { save_factor(factor, path_); }));
  EXPECT_EQ(read_file(path_), "precious");
  save_factor(factor, path_, true);
  expect_same_factor(load_factor<double>(path_), factor);
  EXPECT_TRUE(throws(misuse, [&] { save_factor(factor, path_); }));
}

TEST_F(Float64File, DirectoryThatIsMissing_ThrowsIo) {
  const CholeskyFactor<double> factor = factor_on<double>(uneven());
  EXPECT_TRUE(throws(ErrorKind::io, [&] { save_factor(factor, directory_ / "missing/A.factor"); }));
}

TEST_F(Float64File, FactorThatFailed_IsNotSaved) {
  Mesh mesh = Mesh::host(2);
  const DenseMatrix<double> a = dense<double>({.kind = matgen::Kind::indefinite, .n = 10});
  const CholeskyFactor<double> factor = cholesky_factor(mesh, shard(a, SlabLayout::even(10, 2, 4)));
  ASSERT_EQ(factor.outcome.status, Status::not_positive_definite);
  const auto error = thrown_by([&] { save_factor(factor, path_); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), misuse);
  EXPECT_THAT(error->what(), HasSubstr(factor.outcome.message()));
  EXPECT_THAT(directory_.names(), IsEmpty());
}

TEST_F(Float64File, FactorThatWasConsumedOrChanged_IsNotSaved) {
  Mesh mesh = Mesh::host(uneven().ranks());
  CholeskyFactor<double> factor = factor_on<double>(uneven());
  CholeskyFactor<double> changed = factor;
  changed.norm.fraction = -1.0;
  EXPECT_TRUE(throws(misuse, [&] { save_factor(changed, path_); }));
  changed = factor;
  changed.diagonal = std::make_shared<std::vector<double>>(12);
  EXPECT_TRUE(throws(misuse, [&] { save_factor(changed, path_); }));
  ASSERT_TRUE(cholesky_inverse(mesh, std::move(factor)).ok());
  // NOLINTNEXTLINE(bugprone-use-after-move): that is the misuse
  EXPECT_TRUE(throws(misuse, [&] { save_factor(factor, path_); }));
  EXPECT_THAT(directory_.names(), IsEmpty());
}

TEST_F(Float64File, LayoutOfTooManyRanks_IsRefused) {
  const auto on = [](std::int64_t ranks) {
    return CholeskyFactor<double>{ShardedMatrix<double>(SlabLayout::even(0, ranks, 1)),
                                  std::make_shared<std::vector<double>>(),
                                  {},
                                  {}};
  };
  save_factor(on(2000), path_);
  EXPECT_EQ(load_factor<double>(path_).layout().ranks(), 2000);
  const auto error = thrown_by([&] { save_factor(on(20000), directory_ / "B.factor"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), misuse);
  EXPECT_THAT(error->what(), HasSubstr("20001 sections"));
  EXPECT_THAT(directory_.names(), ElementsAre("A.factor"));
}

/// Slabs of several pieces, the last one short.
TEST_F(Float64File, LargeSlabs_ComeBack) {
  const SlabLayout layout({0, 500, 501, 800}, 64);
  CholeskyFactor<double> factor{ShardedMatrix<double>(layout),
                                std::make_shared<std::vector<double>>(layout.size(), 1.5),
                                {0.75, 3},
                                {}};
  for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
    const MatrixView<double> slab = factor.slabs.slab(rank);
    for (std::int64_t j = 0; j < slab.columns(); ++j) {
      for (std::int64_t i = 0; i < slab.rows(); ++i) {
        slab(i, j) = static_cast<double>(1000 * i + 10 * j + rank);
      }
    }
  }
  save_factor(factor, path_);
  expect_same_factor(load_factor<double>(path_), factor);
}

// ---- checksum
// ------------------------------------------------------------------------------------

TEST(Crc32, KnownTexts_HaveTheirValues) {
  const auto checksum_of = [](std::string_view text) {
    io::Crc32 checksum;
    checksum.update(text.data(), std::ssize(text));
    return checksum.value();
  };
  EXPECT_EQ(checksum_of(""), 0U);
  EXPECT_EQ(checksum_of("123456789"), 0xcbf43926U);  // the check value of the standard
  EXPECT_EQ(checksum_of("The quick brown fox jumps over the lazy dog"), 0x414fa339U);
}

TEST(Crc32, AnyPieces_GiveTheValueOfTheWhole) {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += static_cast<char>(i * i % 251);
  }
  io::Crc32 whole_text;
  whole_text.update(text.data(), std::ssize(text));
  for (std::int64_t cut = 0; cut <= std::ssize(text); ++cut) {
    io::Crc32 pieces;
    pieces.update(text.data(), cut);
    pieces.update(text.data() + cut, std::ssize(text) - cut);
    EXPECT_EQ(pieces.value(), whole_text.value()) << cut;
  }
}

}  // namespace
}  // namespace shardsolve::testing
