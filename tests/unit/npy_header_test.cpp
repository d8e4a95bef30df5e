#include "io/npy_header.hpp"

#include "tests/support/case_name.hpp"
#include "tests/support/files.hpp"
#include "tests/support/npy_bytes.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace shardsolve::io {
namespace {

using ::testing::ElementsAreArray;
using ::testing::EndsWith;
using testing::expect_error;
using testing::npy_bytes;
using ::testing::StartsWith;
using testing::TemporaryDirectory;
using testing::write_file;

using Shape = std::vector<std::int64_t>;

void expect_refused(const std::string& bytes, const std::vector<std::string>& words) {
  const TemporaryDirectory directory;
  const std::string path = directory / "A.npy";
  write_file(path, bytes);
  expect_error([&] { read_npy_header(path); }, ErrorKind::invalid_argument, words);
  expect_error([&] { read_npy_header(path); }, ErrorKind::invalid_argument, {path});
}

// ---- what is accepted --------------------------------------------------------------------------

struct Accepted {
  std::string name;
  std::string bytes;
  Dtype dtype;
  bool fortran_order;
  Shape shape;
  std::int64_t data_offset;

  friend std::ostream& operator<<(std::ostream& out, const Accepted& c) { return out << c.name; }
};

/// With a dictionary of version 1: its length is the offset of the data less ten.
Accepted literal(const std::string& name, const std::string& text, Dtype dtype, bool fortran_order,
                 const Shape& shape, std::size_t data_bytes) {
  return {name,  npy_bytes(1, text, data_bytes),
          dtype, fortran_order,
          shape, static_cast<std::int64_t>(text.size()) + 10};
}

std::vector<Accepted> accepted() {
  // The bytes of numpy.save("A.npy", numpy.zeros((2, 1))), NumPy 2.4.
  const std::string numpy_v1 = "\x93NUMPY\x01" + std::string(1, '\0') + "v" + std::string(1, '\0') +
                               "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1), }" +
                               std::string(58, ' ') + "\n" + std::string(16, '\0');
  const std::string plain = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }\n";
  const auto plain_size = static_cast<std::int64_t>(plain.size());
  constexpr auto f8 = Dtype::float64;
  return {
      {"version_1_by_numpy", numpy_v1, f8, false, {2, 1}, 128},
      {"version_2", npy_bytes(2, plain, 48), f8, false, {2, 3}, plain_size + 12},
      {"version_3", npy_bytes(3, plain, 48), f8, false, {2, 3}, plain_size + 12},
      literal("float32", "{'descr':'<f4','fortran_order':True,'shape':(3,)}", Dtype::float32, true,
              {3}, 12),
      literal("complex64", "{'descr':'<c8','fortran_order':True,'shape':(3,)}", Dtype::complex64,
              true, {3}, 24),
      literal("complex128", "{'descr':'<c16','fortran_order':True,'shape':(3,)}", Dtype::complex128,
              true, {3}, 48),
      literal("native_order", "{'descr':'=f8','fortran_order':False,'shape':(1,)}", f8, false, {1},
              8),
      literal("other_key_order", "{'shape': (1, 2), 'descr': '<f8', 'fortran_order': True}", f8,
              true, {1, 2}, 16),
      literal("double_quotes", R"({"descr": "<f8", "fortran_order": False, "shape": (2,), })", f8,
              false, {2}, 16),
      literal("spaces_and_lines",
              " {'descr'\t: '<f8' ,\n'fortran_order':False,'shape':( 2 , 1 ,)\n} \n ", f8, false,
              {2, 1}, 16),
      literal("python_2_longs", "{'descr': '<f8', 'fortran_order': False, 'shape': (2L, 1L)}", f8,
              false, {2, 1}, 16),
      literal("single_number", "{'descr': '<f8', 'fortran_order': False, 'shape': ()}", f8, false,
              {}, 8),
      literal("stack", "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1, 2)}", f8, false,
              {2, 1, 2}, 32),
      literal("empty", "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 0)}", f8, false,
              {0, 0}, 0),
      literal("empty_though_long",
              "{'descr': '<f8', 'fortran_order': False, 'shape': (9000000000000000000, 0)}", f8,
              false, {9000000000000000000, 0}, 0),
  };
}

class NpyHeaderAccepted : public ::testing::TestWithParam<Accepted> {};

TEST_P(NpyHeaderAccepted, Read_GivesWhatTheFileSays) {
  const TemporaryDirectory directory;
  const std::string path = directory / "A.npy";
  write_file(path, GetParam().bytes);
  const NpyHeader header = read_npy_header(path);
  EXPECT_EQ(header.dtype, GetParam().dtype);
  EXPECT_EQ(header.fortran_order, GetParam().fortran_order);
  EXPECT_THAT(header.shape, ElementsAreArray(GetParam().shape));
  EXPECT_EQ(header.data_offset, GetParam().data_offset);
}

INSTANTIATE_TEST_SUITE_P(Files, NpyHeaderAccepted, ::testing::ValuesIn(accepted()),
                         testing::CaseName());

// ---- what is refused ---------------------------------------------------------------------------

struct Refused {
  std::string name;
  std::string bytes;
  std::vector<std::string> words;

  friend std::ostream& operator<<(std::ostream& out, const Refused& c) { return out << c.name; }
};

class NpyHeaderRefused : public ::testing::TestWithParam<Refused> {};

TEST_P(NpyHeaderRefused, Read_ThrowsWhatWasGivenAndWhatToDo) {
  expect_refused(GetParam().bytes, GetParam().words);
}

Refused dtype(const std::string& name, const std::string& descr, std::vector<std::string> words) {
  words.push_back("float32, float64, complex64 and complex128 in little-endian order");
  return {name,
          npy_bytes(1, "{'descr': " + descr + ", 'fortran_order': False, 'shape': (1,), }\n", 8),
          std::move(words)};
}

std::vector<Refused> dtypes() {
  return {
      dtype("big_endian", "'>f8'", {"big-endian", ">f8", "A.astype(\"<f8\")"}),
      dtype("big_endian_complex", "'>c16'", {"big-endian", ">c16", "A.astype(\"<c16\")"}),
      dtype("network_order", "'!f4'", {"big-endian", "!f4", "A.astype(\"<f4\")"}),
      dtype("no_order", "'f8'", {"unknown byte order", "A.astype(\"<f8\")"}),
      dtype("order_not_applicable", "'|f8'", {"unknown byte order", "A.astype(\"<f8\")"}),
      dtype("integers", "'<i8'", {"holds integers", "<i8", "A.astype(\"<f8\")"}),
      dtype("bytes", "'|i1'", {"holds integers", "|i1", "A.astype(\"<f8\")"}),
      dtype("big_endian_integers", "'>i4'", {"holds integers", ">i4", "A.astype(\"<f8\")"}),
      dtype("unsigned_integers", "'<u4'", {"unsigned integers", "A.astype(\"<f8\")"}),
      dtype("booleans", "'|b1'", {"booleans", "|b1", "A.astype(\"<f8\")"}),
      dtype("half", "'<f2'", {"half-precision", "<f2", "A.astype(\"<f4\")"}),
      dtype("long_double", "'<f16'", {"extended-precision", "<f16", "A.astype(\"<f8\")"}),
      dtype("long_complex", "'<c32'", {"extended-precision", "<c32", "A.astype(\"<c16\")"}),
      dtype("objects", "'|O'", {"Python objects", "never unpickled", "A.astype(\"<f8\")"}),
      dtype("byte_strings", "'|S5'", {"byte strings", "|S5"}),
      dtype("text", "'<U3'", {"holds text", "<U3"}),
      dtype("bfloat16", "'<V2'", {"raw bytes", "bfloat16", "A.astype(\"<f4\")"}),
      dtype("dates", "'<M8[s]'", {"dates", "<M8[s]"}),
      dtype("durations", "'<m8[s]'", {"time differences", "<m8[s]"}),
      dtype("unknown", "'<q8'", {"unknown dtype", "<q8"}),
      dtype("empty_name", "''", {"unknown dtype"}),
      dtype("structured", "[('x', '<f8'), ('it\\'s ]', '<f8', (2,))]",
            {"records with named fields", "[('x', '<f8')", "A[\"x\"]"}),
      dtype("subarray", "('<f8', (2,))", {"records with named fields"}),
      dtype("control_characters", "'<f8\x1b[2J'", {"extended-precision", "<f8?[2J"}),
  };
}

INSTANTIATE_TEST_SUITE_P(Dtypes, NpyHeaderRefused, ::testing::ValuesIn(dtypes()),
                         testing::CaseName());

Refused damaged(const std::string& name, const std::string& text, const std::string& word) {
  return {name, npy_bytes(1, text, 8), {word, "damaged", "numpy.save"}};
}

std::vector<Refused> damages() {
  const std::string rest = "'fortran_order': False, 'shape': (1,)";
  const std::string begin = "{'descr': '<f8', 'fortran_order': False, 'shape': ";
  return {
      damaged("no_dictionary", "", "'{' is missing"),
      damaged("not_a_dictionary", "[1, 2]", "'{' is missing"),
      damaged("empty_dictionary", "{}", "one of the keys"),
      damaged("key_missing", "{" + rest + "}", "one of the keys"),
      damaged("key_twice", "{'descr': '<f8', 'descr': '<f8', " + rest + "}", "a second 'descr'"),
      damaged("key_unknown", "{'descr': '<f8', 'order': 'C', " + rest + "}",
              "an unknown key 'order'"),
      damaged("key_not_quoted", "{descr: '<f8', " + rest + "}", "a quoted string is missing"),
      damaged("colon_missing", "{'descr' '<f8', " + rest + "}", "':' is missing"),
      damaged("comma_missing", "{'descr': '<f8' " + rest + "}", "'}' is missing"),
      damaged("two_commas", "{'descr': '<f8',, " + rest + "}", "a quoted string is missing"),
      damaged("quote_open", "{'descr': '<f8", "a quoted string does not end"),
      damaged("quote_open_after_escape", "{'descr': '<f8\\", "a quoted string does not end"),
      damaged("list_open", "{'descr': [('x', '<f8'", "a bracket does not close"),
      damaged("descr_a_number", "{'descr': 8, " + rest + "}", "a quoted string is missing"),
      damaged("order_a_number", "{'descr': '<f8', 'fortran_order': 0, 'shape': (1,)}",
              "True or False is missing"),
      damaged("order_misspelt", "{'descr': '<f8', 'fortran_order': Falsey, 'shape': (1,)}",
              "True or False is missing"),
      damaged("shape_a_number", begin + "1}", "'(' is missing"),
      damaged("shape_a_number_in_brackets", begin + "(1)}", "the comma of a one-element tuple"),
      damaged("shape_a_list", begin + "[1, 1]}", "'(' is missing"),
      damaged("shape_open", begin + "(1, 1", "')' is missing"),
      damaged("shape_with_hole", begin + "(1,,1)}", "a size of the shape is missing"),
      damaged("shape_negative", begin + "(-1,)}", "the shape has a negative size"),
      damaged("shape_not_whole", begin + "(1.0,)}", "the comma of a one-element tuple"),
      damaged("shape_an_expression", begin + "(1+1,)}", "the comma of a one-element tuple"),
      damaged("shape_beyond_64_bits", begin + "(9223372036854775808,)}", "does not fit 64 bits"),
      damaged("call", "{'descr': __import__('os'), " + rest + "}", "a quoted string is missing"),
      damaged("something_behind", begin + "(1,)} {}", "something other than padding follows"),
      damaged("zeros_behind", begin + "(1,)}" + std::string(3, '\0'),
              "something other than padding follows"),
  };
}

INSTANTIATE_TEST_SUITE_P(Damages, NpyHeaderRefused, ::testing::ValuesIn(damages()),
                         testing::CaseName());

std::vector<Refused> sizes() {
  const std::string good = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }\n";
  const auto shape = [](const std::string& text) {
    return npy_bytes(1, "{'descr': '<f8', 'fortran_order': False, 'shape': " + text + "}", 0);
  };
  return {
      {"truncated", npy_bytes(1, good, 47), {"(2, 3)", "118 bytes", "only 117", "truncated"}},
      {"no_data", npy_bytes(1, good, 0), {"118 bytes", "only 70", "truncated"}},
      {"too_long", npy_bytes(1, good, 49), {"118 bytes", "has 119", "something else follows"}},
      {"header_cut_off", npy_bytes(1, good, 0).substr(0, 40), {"cut off", "40 bytes of 70"}},
      {"prefix_cut_off", npy_bytes(2, good, 0).substr(0, 11), {"cut off", "after 11 bytes"}},
      {"only_the_magic", "\x93NUMPY", {"cut off", "after 6 bytes"}},
      {"version_4", npy_bytes(4, good, 48), {"version 4.0", "1.0, 2.0 and 3.0"}},
      {"version_0", npy_bytes(0, good, 48), {"version 0.0", "1.0, 2.0 and 3.0"}},
      {"long_header", npy_bytes(2, std::string(65537, ' '), 0), {"65537 bytes", "at most 65536"}},
      {"bytes_beyond_64_bits", shape("(4294967296, 4294967296)"), {"64 bits", "damaged"}},
      {"last_bytes_beyond_64_bits", shape("(1152921504606846975,)"), {"64 bits", "damaged"}},
  };
}

INSTANTIATE_TEST_SUITE_P(Sizes, NpyHeaderRefused, ::testing::ValuesIn(sizes()),
                         testing::CaseName());

std::vector<Refused> foreign_files() {
  return {
      {"empty", "", {"empty file"}},
      {"npz", "PK\x03\x04 and so on", {".npz", "save one array of it with numpy.save"}},
      {"hdf5", "\x89HDF\r\n\x1a\n", {"HDF5", "h5py"}},
      {"gzip", "\x1f\x8b\x08", {"gzip", "unpack"}},
      {"matrix_market", "%%MatrixMarket matrix array", {"Matrix Market", "mmread"}},
      {"matlab", "MATLAB 5.0 MAT-file, Platform", {"MATLAB", "loadmat"}},
      {"pickle", "\x80\x05K\x01.", {"pickle", "never opened"}},
      {"text", "1.0, 2.0\n3.0, 4.0\n", {"text file", "numpy.loadtxt"}},
      {"binary",
       "\x7f"
       "ELF\x02\x01",
       {"unknown binary file", "numpy.save"}},
  };
}

INSTANTIATE_TEST_SUITE_P(ForeignFiles, NpyHeaderRefused, ::testing::ValuesIn(foreign_files()),
                         testing::CaseName());

TEST(NpyHeader, PathThatCannotBeRead_ThrowsIo) {
  const TemporaryDirectory directory;
  const std::string pipe = directory / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  struct Case {
    std::string path;
    std::string word;
  };
  const Case cases[] = {{directory / "missing.npy", "No such file"},
                        {directory.path().string(), "Is a directory"},
                        {pipe, "not a regular file"}};
  for (const Case& c : cases) {
    expect_error([&] { read_npy_header(c.path); }, ErrorKind::io, {c.path, c.word});
  }
}

// ---- shapes ------------------------------------------------------------------------------------

NpyHeader of_shape(const Shape& shape) { return {Dtype::float64, false, shape, 128}; }

TEST(RequireSquareMatrix, SquareShape_GivesItsSize) {
  EXPECT_EQ(require_square_matrix(of_shape({5, 5}), "A.npy"), 5);
  EXPECT_EQ(require_square_matrix(of_shape({0, 0}), "A.npy"), 0);
}

TEST(RequireSquareMatrix, OtherShape_ThrowsIt) {
  struct Case {
    Shape shape;
    std::vector<std::string> words;
  };
  const Case cases[] = {{{}, {"shape ()", "right-hand side"}},
                        {{5}, {"shape (5,)", "right-hand side"}},
                        {{3, 4}, {"shape (3, 4)", "square"}},
                        {{2, 3, 3}, {"shape (2, 3, 3)", "A[0]"}}};
  for (const Case& c : cases) {
    const auto act = [&] { require_square_matrix(of_shape(c.shape), "A.npy"); };
    expect_error(act, ErrorKind::invalid_argument, c.words);
    expect_error(act, ErrorKind::invalid_argument, {"'A.npy'", "float64", "(n, n)"});
  }
}

TEST(RequireRightHandSides, FittingShape_GivesTheirNumber) {
  EXPECT_EQ(require_right_hand_sides(of_shape({5}), 5, "b.npy"), 1);
  EXPECT_EQ(require_right_hand_sides(of_shape({5, 3}), 5, "b.npy"), 3);
  EXPECT_EQ(require_right_hand_sides(of_shape({5, 0}), 5, "b.npy"), 0);
  EXPECT_EQ(require_right_hand_sides(of_shape({0}), 0, "b.npy"), 1);
}

TEST(RequireRightHandSides, OtherShape_ThrowsIt) {
  struct Case {
    Shape shape;
    std::vector<std::string> words;
  };
  const Case cases[] = {{{}, {"shape ()"}},
                        {{4}, {"shape (4,)", "as many rows"}},
                        {{4, 2}, {"shape (4, 2)", "as many rows"}},
                        {{2, 5}, {"shape (2, 5)", "b.T"}},
                        {{5, 1, 1}, {"shape (5, 1, 1)"}}};
  for (const Case& c : cases) {
    const auto act = [&] { require_right_hand_sides(of_shape(c.shape), 5, "b.npy"); };
    expect_error(act, ErrorKind::invalid_argument, c.words);
    expect_error(act, ErrorKind::invalid_argument, {"'b.npy'", "(5,) or (5, k)"});
  }
}

// ---- what is written ---------------------------------------------------------------------------

TEST(FormatNpyHeader, AnyShape_IsAlignedAndEndsTheLine) {
  const Shape shapes[] = {{}, {0}, {7}, {3, 4}, {9000000000, 9000000000}, {1, 2, 3, 4, 5, 6}};
  for (const Shape& shape : shapes) {
    const std::string text = format_npy_header({Dtype::complex64, true, shape, 0});
    EXPECT_EQ(text.size() % 64, 0U);
    EXPECT_THAT(text, StartsWith("\x93NUMPY\x01"));
    EXPECT_THAT(text, EndsWith("\n"));
  }
}

TEST(FormatNpyHeader, Matrix_IsWhatNumpyWrites) {
  EXPECT_EQ(format_npy_header({Dtype::float64, false, {3, 4}, 0}),
            npy_bytes(1,
                      "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }" +
                          std::string(58, ' ') + "\n",
                      0));
}

}  // namespace
}  // namespace shardsolve::io
