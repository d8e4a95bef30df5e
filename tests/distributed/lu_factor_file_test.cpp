// An LU factor that was saved and loaded is the factor, bit for bit; anything else is refused.

#include "io/checksum.hpp"
#include "io/factor_file_header.hpp"
#include "support/bits.hpp"
#include "support/cuts.hpp"
#include "support/dtypes.hpp"
#include "support/files.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <shardsolve/factor_file.hpp>
#include <shardsolve/version.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ErrorKind misuse = ErrorKind::invalid_argument;

/// Slabs of different widths, one of them empty.
SlabLayout uneven() { return SlabLayout({0, 3, 3, 8, 13}, 2); }

template <Scalar T>
LuFactor<T> factor_on(const SlabLayout& layout) {
  Mesh mesh = Mesh::host(layout.ranks());
  const DenseMatrix<T> a =
      dense<T>({.kind = matgen::Kind::indefinite, .n = layout.size(), .seed = 5});
  LuFactor<T> factor = lu_factor(mesh, shard(a, layout));
  EXPECT_TRUE(factor.outcome.ok()) << factor.outcome.message();
  return factor;
}

/// All that a factor consists of.
template <Scalar T>
void expect_same_factor(const LuFactor<T>& loaded, const LuFactor<T>& saved) {
  EXPECT_TRUE(loaded.layout() == saved.layout());
  EXPECT_TRUE(same_bits(whole(loaded.slabs), whole(saved.slabs)));
  EXPECT_TRUE(same_bits(whole(loaded.matrix), whole(saved.matrix)));
  EXPECT_EQ(*loaded.rows, *saved.rows);
  for (const auto norm : {&LuFactor<T>::one_norm, &LuFactor<T>::inf_norm}) {
    EXPECT_EQ((loaded.*norm).fraction, (saved.*norm).fraction);
    EXPECT_EQ((loaded.*norm).exponent, (saved.*norm).exponent);
  }
  EXPECT_TRUE(loaded.outcome.ok());
  EXPECT_EQ(loaded.outcome.growth, saved.outcome.growth);
  EXPECT_EQ(loaded.sign, saved.sign);
  EXPECT_EQ(loaded.log_modulus, saved.log_modulus);
}

template <Scalar T>
void expect_same_answers(const LuFactor<T>& loaded, const LuFactor<T>& saved) {
  Mesh mesh = Mesh::host(saved.layout().ranks());
  const DenseMatrix<T> b = right_hand_sides<T>(saved.layout().size(), 3);
  for (const Transpose which : {Transpose::none, Transpose::transpose, Transpose::adjoint}) {
    const RightHandSides<T> expected = shard_rows(b, saved.layout());
    const RightHandSides<T> x = shard_rows(b, saved.layout());
    const Outcome saved_outcome = lu_solve(mesh, saved, expected, {}, which);
    const Outcome outcome = lu_solve(mesh, loaded, x, {}, which);
    ASSERT_TRUE(outcome.ok()) << outcome.message();
    EXPECT_TRUE(same_bits(whole(x), whole(expected)));
    EXPECT_EQ(outcome.backward_error, saved_outcome.backward_error);
    EXPECT_EQ(outcome.growth, saved_outcome.growth);
  }
  EXPECT_EQ(condition_estimate(mesh, loaded), condition_estimate(mesh, saved));
}

template <class T>
class LuFactorFile : public ::testing::Test {
 protected:
  TemporaryDirectory directory_;
  std::string path_ = directory_ / "A.factor";
};
TYPED_TEST_SUITE(LuFactorFile, Dtypes, DtypeNames);

TYPED_TEST(LuFactorFile, Loaded_OnEveryCut_IsTheFactorAndGivesItsAnswers) {
  using T = TypeParam;
  for (const Cut& cut : cuts()) {
    SCOPED_TRACE(cut.name);
    const LuFactor<T> factor = factor_on<T>(cut.layout);
    save_factor(factor, this->path_, true);
    const LuFactor<T> loaded = load_lu_factor<T>(this->path_);
    expect_same_factor(loaded, factor);
    expect_same_answers(loaded, factor);
  }
  EXPECT_THAT(this->directory_.names(), ElementsAre("A.factor"));
}

TYPED_TEST(LuFactorFile, Info_TellsKindDtypeLayoutAndWhatWasFactored) {
  using T = TypeParam;
  const LuFactor<T> factor = factor_on<T>(uneven());
  for (const Transpose of : {Transpose::none, Transpose::transpose}) {
    save_factor(factor, this->path_, true, of);
    const FactorFileInfo info = read_factor_info(this->path_);
    EXPECT_EQ(info.kind, "lu");
    EXPECT_EQ(info.dtype, dtype_of<T>);
    EXPECT_TRUE(info.layout == uneven());
    EXPECT_EQ(info.version, SHARDSOLVE_VERSION_STRING);
    EXPECT_EQ(info.of, of);
    expect_same_factor(load_lu_factor<T>(this->path_), factor);
  }
}

using Float64LuFactorFile = LuFactorFile<double>;

TEST_F(Float64LuFactorFile, AnyBitTheOtherWay_IsFound) {
  save_factor(factor_on<double>(SlabLayout({0, 2, 3}, 1)), path_);
  const std::string bytes = read_file(path_);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    write_file(path_, damaged);
    EXPECT_TRUE(thrown_by([&] { load_lu_factor<double>(path_); })) << at;
  }
}

TEST_F(Float64LuFactorFile, AnotherDtypeOrKind_IsRefused) {
  save_factor(factor_on<double>(uneven()), path_);
  const auto dtype = thrown_by([&] { load_lu_factor<float>(path_); });
  ASSERT_TRUE(dtype);
  EXPECT_EQ(dtype->kind(), misuse);
  EXPECT_THAT(dtype->what(), HasSubstr("holds float64 but float32 was asked for"));
  const auto kind = thrown_by([&] { load_factor<double>(path_); });
  ASSERT_TRUE(kind);
  EXPECT_EQ(kind->kind(), ErrorKind::unsupported);
  EXPECT_THAT(kind->what(), HasSubstr("kind \"lu\""));
}

/// A file whose header and sections are right, but not what they say.
std::string changed(const std::string& path, std::string_view from, std::string_view to) {
  const std::string bytes = read_file(path);
  io::FactorFileFront front = io::read_factor_front(io::open_for_reading(path), path);
  std::string text = front.header.attributes.dump();
  const std::size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  front.header.attributes = io::Json::parse(text.replace(place, from.size(), to));
  return io::format_factor_header(front.header) +
         bytes.substr(static_cast<std::size_t>(front.data_offset));
}

TEST_F(Float64LuFactorFile, ImpossibleHeader_IsRefused) {
  LuFactor<double> factor = factor_on<double>(uneven());
  factor.sign = -1.0;
  factor.log_modulus = -0.5;
  factor.outcome.growth = 1.0;
  struct Change {
    std::string_view from;
    std::string_view to;
  };
  for (const auto& [from, to] : std::to_array<Change>({
           {"\"of\":\"matrix\"", "\"of\":\"adjoint\""},
           {"\"growth\":\"0x1p+0\"", "\"growth\":\"-0x1p+0\""},
           {"\"growth\":\"0x1p+0\"", "\"growth\":\"nan\""},
           {"\"real\":\"-0x1p+0\"", "\"real\":\"0x0p+0\""},
           {"\"real\":\"-0x1p+0\"", "\"real\":\"--0x1p+0\""},
           {"\"log_modulus\":\"-0x1p-1\"", "\"log_modulus\":-0.5"},
           {"\"n\":13", "\"n\":12"},
       })) {
    SCOPED_TRACE(to);
    save_factor(factor, path_, true);
    write_file(path_, changed(path_, from, to));
    const auto error = thrown_by([&] { load_lu_factor<double>(path_); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), misuse) << error->what();
    EXPECT_THAT(error->what(), HasSubstr("'" + path_ + "' is damaged"));
  }
}

TEST_F(Float64LuFactorFile, RowsThatAreNoPermutation_AreRefused) {
  save_factor(factor_on<double>(uneven()), path_);
  std::string bytes = read_file(path_);
  io::FactorFileFront front = io::read_factor_front(io::open_for_reading(path_), path_);
  io::FactorSection& rows = front.header.sections.front();
  ASSERT_EQ(rows.name, "rows");
  const auto place = static_cast<std::size_t>(front.data_offset + rows.offset);
  std::memcpy(bytes.data() + place, bytes.data() + place + 8, 8);  // one row twice
  io::Crc32 checksum;
  checksum.update(bytes.data() + place, rows.bytes + rows.padding());
  rows.checksum = checksum.value();
  write_file(path_, io::format_factor_header(front.header) +
                        bytes.substr(static_cast<std::size_t>(front.data_offset)));
  const auto error = thrown_by([&] { load_lu_factor<double>(path_); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), misuse);
  EXPECT_THAT(error->what(), HasSubstr("each row once"));
}

TEST_F(Float64LuFactorFile, WhatCannotSolve_IsNotSaved) {
  Mesh mesh = Mesh::host(uneven().ranks());
  const ShardedMatrix<double> ones = shard(
      [] {
        DenseMatrix<double> a(13, 13);
        for (std::int64_t i = 0; i < 13 * 13; ++i) {
          a.view().data()[i] = 1.0;
        }
        return a;
      }(),
      uneven());
  const LuFactor<double> singular = lu_factor(mesh, ones);
  ASSERT_EQ(singular.outcome.status, Status::singular);
  LuFactor<double> in_place = factor_on<double>(uneven());
  in_place.matrix = in_place.slabs;
  LuFactor<double> rows = factor_on<double>(uneven());
  rows.rows = std::make_shared<std::vector<std::int64_t>>(13, 0);
  LuFactor<double> moved = factor_on<double>(uneven());
  const LuFactor<double> taken = std::move(moved);
  // NOLINTNEXTLINE(bugprone-use-after-move): that is the misuse
  for (const LuFactor<double>& factor : {singular, in_place, rows, moved}) {
    EXPECT_TRUE(throws(misuse, [&] { save_factor(factor, path_); }));
  }
  EXPECT_TRUE(throws(misuse, [&] { save_factor(taken, path_, false, Transpose::adjoint); }));
  EXPECT_THAT(directory_.names(), IsEmpty());
}

}  // namespace
}  // namespace shardsolve::testing
