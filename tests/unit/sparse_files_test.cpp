// Sparse matrices in .npz and Matrix Market files.

#include "sparse_files/sparse_file.hpp"
#include "tests/support/memory_file.hpp"
#include "tests/support/npz_bytes.hpp"
#include "tests/support/scipy_files.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace shardsolve::sparse_files {
namespace {

using testing::csr_members;
using testing::expect_error;
using testing::MemoryFile;
using testing::npy_array;
using testing::npy_vector;
using testing::zip_bytes;

using Indices = std::vector<std::int64_t>;

std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

AnyCsr read_bytes(const std::string& bytes) {
  const MemoryFile file;
  EXPECT_TRUE(file.hold(bytes));
  return read_sparse_matrix(file.path());
}

template <Scalar T>
void expect_matrix(const AnyCsr& any, std::int64_t rows, std::int64_t columns,
                   const Indices& row_pointers, const Indices& column_indices,
                   const std::vector<T>& values) {
  const auto* const matrix = std::get_if<CsrMatrix<T>>(&any);
  ASSERT_NE(matrix, nullptr) << "another dtype";
  EXPECT_EQ(matrix->rows, rows);
  EXPECT_EQ(matrix->columns, columns);
  EXPECT_EQ(matrix->row_pointers, row_pointers);
  EXPECT_EQ(matrix->column_indices, column_indices);
  EXPECT_EQ(matrix->values, values);
}

/// The matrix of scipy_files.hpp.
template <Scalar T>
void expect_small(const AnyCsr& any, T factor = T{1}) {
  std::vector<T> values{T(1.5), T(-2), T(3), T(0.25)};
  for (T& value : values) {
    value *= factor;
  }
  expect_matrix<T>(any, 3, 4, {0, 2, 2, 4}, {0, 3, 1, 2}, values);
}

TEST(SparseNpz, FilesOfSciPy_AreRead) {
  for (const auto& [name, digits] : testing::scipy_files) {
    SCOPED_TRACE(name);
    const AnyCsr any = read_bytes(from_hex(digits));
    if (name.find("complex128") != std::string_view::npos) {
      expect_small<std::complex<double>>(any, {1, 2});
    } else if (name.find("float32") != std::string_view::npos) {
      expect_small<float>(any);
    } else {
      expect_small<double>(any);
    }
  }
}

/// Every way to cut a file short, and every byte changed: a matrix or an Error that names the file.
TEST(SparseNpz, DamagedFile_IsReadOrRefused) {
  const MemoryFile file;
  for (const auto& [name, digits] : testing::scipy_files) {
    SCOPED_TRACE(name);
    const std::string bytes = from_hex(digits);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      ASSERT_TRUE(file.hold(bytes.substr(0, size)));
      expect_error([&] { read_npz(file.path()); }, ErrorKind::invalid_argument, {file.path()});
    }
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      for (const int flip : {0x01, 0x80, 0xff}) {
        std::string changed = bytes;
        changed[at] = static_cast<char>(changed[at] ^ flip);
        ASSERT_TRUE(file.hold(changed));
        try {
          read_npz(file.path());
        } catch (const Error& error) {
          EXPECT_NE(std::string_view(error.what()).find(file.path()), std::string_view::npos)
              << error.what();
        }
      }
    }
  }
}

AnyCsr read_members(const std::map<std::string, std::string>& members) {
  return read_bytes(zip_bytes(members));
}

void expect_refused(const std::string& member, const std::string& bytes,
                    const std::vector<std::string>& words) {
  SCOPED_TRACE(member);
  auto members = csr_members();
  members[member] = bytes;
  expect_error([&] { read_members(members); }, ErrorKind::invalid_argument, words);
}

TEST(SparseNpz, FileByHand_IsRead) { expect_small<double>(read_members(csr_members())); }

TEST(SparseNpz, UnsortedRowsWithDuplicates_ComeInOrderAndAdded) {
  auto members = csr_members();
  members["indptr.npy"] = npy_vector("<i4", std::vector<std::int32_t>{0, 4, 4, 5});
  members["indices.npy"] = npy_vector("<i4", std::vector<std::int32_t>{3, 0, 3, 1, 2});
  members["data.npy"] = npy_vector("<f8", std::vector<double>{1, 2, 4, 0, std::nan("")});
  const AnyCsr any = read_members(members);
  const auto& matrix = std::get<CsrMatrix<double>>(any);
  EXPECT_EQ(matrix.row_pointers, (Indices{0, 3, 3, 4}));
  EXPECT_EQ(matrix.column_indices, (Indices{0, 1, 3, 2}));
  EXPECT_EQ(matrix.values[2], 5.0);
  EXPECT_EQ(first_nonfinite(matrix), (EntryPlace{2, 2}));
}

TEST(SparseNpz, RoomBehindTheLastEntry_IsLeftOut) {
  auto members = csr_members();
  members["indices.npy"] = npy_vector("<i4", std::vector<std::int32_t>{0, 3, 1, 2, 77, 78});
  members["data.npy"] = npy_vector("<f8", std::vector<double>{1.5, -2, 3, 0.25, 9, 9});
  expect_small<double>(read_members(members));
}

TEST(SparseNpz, MatrixWithoutEntries_IsRead) {
  auto members = csr_members();
  members["indptr.npy"] = npy_vector("<i4", std::vector<std::int32_t>{0, 0, 0, 0});
  members["indices.npy"] = npy_vector("<i4", std::vector<std::int32_t>{});
  members["data.npy"] = npy_vector("<c8", std::vector<std::complex<float>>{});
  expect_matrix<std::complex<float>>(read_members(members), 3, 4, {0, 0, 0, 0}, {}, {});
}

TEST(SparseNpz, WrongMembers_AreRefusedByName) {
  expect_refused("format.npy", npy_array("|S3", "()", std::vector<char>{'b', 's', 'r'}),
                 {"format 'bsr'", "A.tocsr()"});
  expect_refused("format.npy", npy_array("|S4", "()", std::vector<char>{'c', 's', 'r', 0}),
                 {"format.npy", "|S4"});
  expect_refused("data.npy", npy_vector("<i8", std::vector<std::int64_t>{1, 2, 3, 4}),
                 {"data.npy", "integers", "astype"});
  expect_refused("data.npy", npy_vector("|O", std::vector<char>{'c', 'o', 's'}),
                 {"data.npy", "never unpickled"});
  expect_refused("indices.npy", npy_vector("<f8", std::vector<double>{0, 3, 1, 2}),
                 {"indices.npy", "<f8", "int32 or int64"});
  expect_refused("indices.npy", npy_vector("<i4", std::vector<std::int32_t>{0, 4, 1, 2}),
                 {"(0, 4)", "3 x 4"});
  expect_refused("indices.npy", npy_vector("<i4", std::vector<std::int32_t>{0, -1, 1, 2}),
                 {"(0, -1)"});
  expect_refused("indices.npy", npy_vector("<i4", std::vector<std::int32_t>{0, 3, 1}),
                 {"3 column indices and 4 values"});
  expect_refused("indptr.npy", npy_vector("<i4", std::vector<std::int32_t>{0, 3, 2, 4}),
                 {"fall at row 2"});
  expect_refused("indptr.npy", npy_vector("<i4", std::vector<std::int32_t>{0, 2, 4}),
                 {"3 row pointers", "4 are needed"});
  expect_refused("indptr.npy", npy_vector("<i4", std::vector<std::int32_t>{0, 2, 2, 5}),
                 {"0 to 5", "4 entries"});
  expect_refused("indptr.npy", npy_vector("<i4", std::vector<std::int32_t>{}), {"0 row pointers"});
  expect_refused("shape.npy", npy_vector("<i8", std::vector<std::int64_t>{3, 4, 5}),
                 {"3 dimensions"});
  expect_refused("shape.npy",
                 npy_vector("<i8", std::vector<std::int64_t>{3, std::int64_t{1} << 40}),
                 {"1099511627776", "134217728"});
  expect_refused("shape.npy", npy_vector("<i8", std::vector<std::int64_t>{-3, 4}), {"-3 x 4"});
  expect_refused("data.npy", npy_array("<f8", "(2, 2)", std::vector<double>{1, 2, 3, 4}),
                 {"data.npy", "(2, 2)", "one dimension"});
  expect_refused("data.npy",
                 npy_array("<f8", "(2305843009213693953,)", std::vector<double>{1, 2, 3, 4}),
                 {"data.npy"});
  expect_refused("data.npy", "no array", {"data.npy"});
}

TEST(SparseNpz, ArchiveOfOtherArrays_IsRefused) {
  auto members = csr_members();
  members.erase("indptr.npy");
  expect_error([&] { read_members(members); }, ErrorKind::invalid_argument,
               {"no 'indptr'", "save_npz"});
  expect_error([] { read_members({{"a.npy", npy_vector("<f8", std::vector<double>{1})}}); },
               ErrorKind::invalid_argument, {"a.npy", "no 'format'"});
  expect_error([] { read_members({}); }, ErrorKind::invalid_argument, {"no 'format'"});
}

TEST(SparseFile, ThatIsMissingOrForeign_IsRefused) {
  expect_error([] { read_sparse_matrix("/nowhere/A.npz"); }, ErrorKind::io, {"/nowhere/A.npz"});
  for (const char* bytes : {"", "P", "\x93NUMPY", "1 2 3\n", "%%MatrixMarke"}) {
    expect_error([&] { read_bytes(bytes); }, ErrorKind::invalid_argument,
                 {"neither", "save_npz", "Matrix Market"});
  }
}

/// All entries, one row after the other.
template <Scalar T>
void expect_dense(const AnyCsr& any, const std::vector<T>& rows) {
  const auto* const matrix = std::get_if<CsrMatrix<T>>(&any);
  ASSERT_NE(matrix, nullptr) << "another dtype";
  std::vector<T> found(static_cast<std::size_t>(matrix->rows * matrix->columns));
  for (std::int64_t row = 0; row < matrix->rows; ++row) {
    for (auto k = matrix->row_pointers[static_cast<std::size_t>(row)];
         k < matrix->row_pointers[static_cast<std::size_t>(row) + 1]; ++k) {
      const auto column = matrix->column_indices[static_cast<std::size_t>(k)];
      found[static_cast<std::size_t>(row * matrix->columns + column)] =
          matrix->values[static_cast<std::size_t>(k)];
    }
  }
  EXPECT_EQ(found, rows);
}

std::string market(std::string_view kind, std::string_view rest) {
  return fmt::format("%%MatrixMarket matrix coordinate {}\n{}", kind, rest);
}

TEST(MatrixMarket, RealGeneral_IsRead) {
  expect_small<double>(read_bytes(market("real general",
                                         "% a comment\n\n3 4 4\r\n"
                                         "1 4 -2.0\n 3\t2 +3e0\n% another\n\n1 1 1.5D+00\n"
                                         "3 3 .25")));
}

TEST(MatrixMarket, EntriesOfTheSamePlace_AreAdded) {
  expect_matrix<double>(read_bytes(market("real general", "2 2 3\n1 1 1\n2 1 5\n1 1 2\n")), 2, 2,
                        {0, 1, 2}, {0, 0}, {3, 5});
}

TEST(MatrixMarket, OtherFieldsAndSymmetries_AreRead) {
  using Complex = std::complex<double>;
  expect_matrix<double>(read_bytes(market("pattern symmetric", "2 2 2\n1 1\n2 1\n")), 2, 2,
                        {0, 2, 3}, {0, 1, 0}, {1, 1, 1});
  expect_matrix<double>(read_bytes(market("INTEGER Skew-Symmetric", "2 2 1\n2 1 7\n")), 2, 2,
                        {0, 1, 2}, {1, 0}, {-7, 7});
  expect_matrix<Complex>(read_bytes(market("complex hermitian", "2 2 2\n1 1 3 0\n2 1 1 2\n")), 2, 2,
                         {0, 2, 3}, {0, 1, 0}, {{3, 0}, {1, -2}, {1, 2}});
  expect_matrix<Complex>(read_bytes(market("complex symmetric", "2 2 1\n2 1 1 2\n")), 2, 2,
                         {0, 1, 2}, {1, 0}, {{1, 2}, {1, 2}});
  expect_matrix<Complex>(read_bytes(market("complex skew-symmetric", "2 2 1\n2 1 1 2\n")), 2, 2,
                         {0, 1, 2}, {1, 0}, {{-1, -2}, {1, 2}});
  expect_matrix<double>(read_bytes(market("real general", "0 3 0\n")), 0, 3, {0}, {}, {});
}

/// What scipy.io.mmread reads of the same texts.
TEST(MatrixMarket, WhatSciPyReads_IsRead) {
  using Complex = std::complex<double>;
  const auto real = [](std::string_view kind, std::string_view rest,
                       const std::vector<double>& rows) {
    SCOPED_TRACE(kind);
    expect_dense<double>(read_bytes(market(kind, rest)), rows);
  };
  real("pattern general", "2 2 2\n1 1 5\n2 1 7.5 x\n", {1, 0, 1, 0});
  real("pattern skew-symmetric", "2 2 1\n2 1\n", {0, -1, 1, 0});
  real("real symmetric", "2 2 2\n1 1 5\n1 2 7\n", {5, 7, 7, 0});
  real("real symmetric", "3 3 3\n1 2 5\n3 2 7\n3 2 1\n", {0, 5, 0, 5, 0, 8, 0, 8, 0});
  real("real skew-symmetric", "2 2 2\n1 1 0\n2 1 7\n", {0, -7, 7, 0});
  real("real skew-symmetric", "2 2 2\n1 1 3\n1 2 7\n", {3, 7, -7, 0});
  real("real hermitian", "2 2 2\n1 1 3\n2 1 1\n", {3, 1, 1, 0});
  real("unsigned-integer general", "1 2 2\n1 1 3\n1 2 18446744073709551615\n",
       {3, 18446744073709551616.0});
  real("real general", "1 1 1\n1 1 3 % a comment\n", {3});
  expect_dense<Complex>(read_bytes(market("complex hermitian", "2 2 2\n1 1 3 1\n1 2 1 7\n")),
                        {{3, 1}, {1, 7}, {1, -7}, {0, 0}});
}

TEST(MatrixMarket, Array_IsRead) {
  using Complex = std::complex<double>;
  const auto array = [](std::string_view kind, std::string_view rest) {
    return read_bytes(fmt::format("%%MatrixMarket matrix array {}\n{}", kind, rest));
  };
  expect_dense<double>(array("real general", "% columns\n2 3\n1\n2\n3\n0\n5\n6\n"),
                       {1, 3, 5, 2, 0, 6});
  expect_dense<double>(array("integer symmetric", "2 2\n1\n2\n3\n"), {1, 2, 2, 3});
  expect_dense<double>(array("real skew-symmetric", "3 3\n2\n3\n4\n"),
                       {0, -2, -3, 2, 0, -4, 3, 4, 0});
  expect_dense<Complex>(array("complex hermitian", "2 2\n1 0\n2 5\n3 0\n"),
                        {{1, 0}, {2, -5}, {2, 5}, {3, 0}});
  EXPECT_EQ(std::get<CsrMatrix<double>>(array("real general", "2 1\n0\n4\n")).entries(), 1);
}

TEST(MatrixMarket, NumbersThatAreNoneOrTiny_AreRead) {
  const AnyCsr any = read_bytes(market("real general", "1 3 3\n1 1 nan\n1 2 -inf\n1 3 1e-999\n"));
  const auto& matrix = std::get<CsrMatrix<double>>(any);
  EXPECT_TRUE(std::isnan(matrix.values[0]));
  EXPECT_TRUE(std::isinf(matrix.values[1]));
  EXPECT_EQ(matrix.values[2], 0.0);
}

struct WrongMarket {
  std::string bytes;
  std::vector<std::string> words;
};

TEST(MatrixMarket, WrongFile_IsRefusedWithTheLine) {
  const std::string real = "real general";
  const std::vector<WrongMarket> cases{
      {"%%MatrixMarket\n", {"line 1", "''", "matrix"}},
      {"%%MatrixMarket vector coordinate real general\n", {"line 1", "'vector'"}},
      {"%%MatrixMarket matrix list real general\n", {"line 1", "'list'", "coordinate, array"}},
      {"%%MatrixMarket matrix array pattern general\n", {"line 1", "pattern"}},
      {"%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n", {"(2, 2)", "cut off"}},
      {"%%MatrixMarket matrix array real general\n2 1\n1\n2\n3\n", {"more values than 2 x 1"}},
      {"%%MatrixMarket matrix array real general\n2 1 2\n1\n2\n", {"line 2", "end"}},
      {market("quaternion general", ""), {"line 1", "'quaternion'", "pattern"}},
      {market("real odd", ""), {"line 1", "'odd'", "skew-symmetric"}},
      {market("real general extra", ""), {"line 1", "'extra'"}},
      {market(real, ""), {"cut off", "sizes"}},
      {market(real, "% nothing\n"), {"cut off", "sizes"}},
      {market(real, "3 3\n"), {"line 2", "number of entries"}},
      {market(real, "3 3 1 1\n"), {"line 2", "end"}},
      {market(real, "-3 3 1\n"), {"-3 x 3"}},
      {market(real, "3 999999999999 1\n"), {"999999999999"}},
      {market(real, "3 3 -1\n"), {"line 2", "-1 entries"}},
      {market(real, "3 3 99999999999999999999\n"), {"line 2", "integer"}},
      {market(real, "3 3 2\n1 1 1\n"), {"line 3", "cut off", "1 entries of 2"}},
      {market(real, "3 3 1\n1 1 1\n%\n2 2 2\n"), {"line 5", "more than the 1"}},
      {market(real, "3 3 1\n%\n0 1 1\n"), {"line 4", "(0, 1)", "count from 1"}},
      {market(real, "3 3 1\n1 4 1\n"), {"line 3", "(1, 4)", "3 x 3"}},
      {market(real, "3 3 1\n1 1.5 1\n"), {"line 3", "'1.5'", "column"}},
      {market(real, "3 3 1\n1 1 x\n"), {"line 3", "'x'", "a number"}},
      {market(real, "3 3 1\n1 1\n"), {"line 3", "the value"}},
      {market(real, "3 3 1\n1 1 1 2\n"), {"line 3", "'2'"}},
      {market(real, "3 3 1\n1 1 1e999\n"), {"line 3", "1e999", "float64"}},
      {market("complex general", "3 3 1\n1 1 1\n"), {"line 3", "imaginary part"}},
      {market("integer general", "3 3 1\n1 1 1.5\n"), {"line 3", "'1.5'"}},
      {market("real symmetric", "3 4 0\n"), {"line 2", "square"}},
      {market("integer general", "3 3 1\n1 1 -\n"), {"line 3", "'-'"}},
      {market("real symmetric", "3 3 3\n1 1 1\n1 2 1\n2 1 1\n"),
       {"(2, 1) and (1, 2)", "write 'general'"}},
  };
  for (const auto& [bytes, words] : cases) {
    SCOPED_TRACE(bytes);
    expect_error([&] { read_bytes(bytes); }, ErrorKind::invalid_argument, words);
  }
}

TEST(MatrixMarket, FileCutShort_IsReadOrRefused) {
  const std::string bytes = market("complex hermitian", "3 3 3\n1 1 1 0\n2 1 1 -2\n3 3 7 0\n");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    SCOPED_TRACE(size);
    try {
      read_bytes(bytes.substr(0, size));
      EXPECT_GE(size, bytes.size() - 1) << "only the end of the last line may be missing";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument) << error.what();
    }
  }
}

}  // namespace
}  // namespace shardsolve::sparse_files
