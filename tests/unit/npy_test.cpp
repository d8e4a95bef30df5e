#include "io/npy.hpp"

#include "tests/support/dtypes.hpp"
#include "tests/support/files.hpp"
#include "tests/support/npy_bytes.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <complex>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace shardsolve::io {
namespace {

using testing::expect_error;
using testing::TemporaryDirectory;

GlobalRange range(std::int64_t begin, std::int64_t end) {
  return {GlobalIndex(begin), GlobalIndex(end)};
}

/// A column-major matrix with `gap` elements between its columns, all of them `untouched` at first.
template <Scalar T>
class Matrix {
 public:
  static constexpr T untouched = T(-7);

  Matrix(std::int64_t rows, std::int64_t columns, std::int64_t gap)
      : data_(static_cast<std::size_t>((rows + gap + 1) * columns), untouched),
        view_(data_.data(), rows, columns, std::max<std::int64_t>(rows + gap, 1)) {}

  MatrixView<T> view() const { return view_; }

  /// What lies between and behind the columns is as it was.
  bool gaps_are_untouched() const {
    Matrix copy(*this);
    for (std::int64_t j = 0; j < view_.columns(); ++j) {
      T* column = copy.data_.data() + j * view_.stride();
      std::fill(column, column + view_.rows(), untouched);
    }
    return std::ranges::all_of(copy.data_, [](T x) { return x == untouched; });
  }

 private:
  std::vector<T> data_;
  MatrixView<T> view_;
};

/// Differs in every entry that the tests are small enough to confuse; exact in float32.
template <Scalar T>
T general(std::int64_t i, std::int64_t j) {
  const auto re = static_cast<RealOf<T>>((i * 1009 + j * 31) % 1048573);
  if constexpr (is_complex<T>) {
    return {re, static_cast<RealOf<T>>(1 + (i * 17 + j * 2003) % 1048573)};
  } else {
    return re;
  }
}

template <Scalar T>
T hermitian(std::int64_t i, std::int64_t j) {
  const T entry = general<T>(std::max(i, j), std::min(i, j));
  if constexpr (is_complex<T>) {
    return i == j ? T(entry.real()) : i < j ? std::conj(entry) : entry;
  } else {
    return entry;
  }
}

template <Scalar T>
using Entry = T (*)(std::int64_t, std::int64_t);

/// The block of `entry` that starts at (row, column).
template <Scalar T>
void fill(MatrixView<T> a, Entry<T> entry, std::int64_t row, std::int64_t column) {
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      a(i, j) = entry(row + i, column + j);
    }
  }
}

template <Scalar T>
bool is_block(MatrixView<T> a, Entry<T> entry, std::int64_t row, std::int64_t column) {
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      if (a(i, j) != entry(row + i, column + j)) {
        return false;
      }
    }
  }
  return true;
}

/// Three ranges that cover [0, n), some of them empty if n is small.
std::vector<GlobalRange> cuts(std::int64_t n) {
  const std::int64_t a = n / 4;
  const std::int64_t b = a + (n + 1) / 3;
  return {range(0, a), range(a, b), range(b, n)};
}

struct Format {
  std::int64_t rows;
  std::int64_t columns;
  bool fortran_order;
};

std::vector<Format> formats() {
  std::vector<Format> formats;
  const std::int64_t shapes[][2] = {{0, 0}, {0, 3}, {3, 0}, {1, 1},  {1, 9},
                                    {9, 1}, {5, 5}, {7, 3}, {3, 70}, {200, 65}};
  for (const auto& [rows, columns] : shapes) {
    formats.push_back({rows, columns, false});
    formats.push_back({rows, columns, true});
  }
  return formats;
}

template <class T>
class NpyFile : public ::testing::Test {
 protected:
  /// Writes a file as `write` does.
  template <class Write>
  void make(const std::vector<std::int64_t>& shape, bool fortran_order, Write write) {
    OutputFile file(path_, true);
    const NpyWriter writer(file, dtype_of<T>, shape, fortran_order);
    write(writer);
    file.commit();
  }

  void make(const Format& format, Entry<T> entry) {
    make({format.rows, format.columns}, format.fortran_order, [&](const NpyWriter& writer) {
      for (const GlobalRange& rows : cuts(format.rows)) {
        const Matrix<T> block(rows.size(), format.columns, 2);
        fill(block.view(), entry, rows.begin.value(), 0);
        writer.write_rows<T>(rows, block.view());
      }
    });
  }

  /// Reads all rows and all columns in parts, with and without gaps between the view's columns.
  void expect_file(std::int64_t rows, std::int64_t columns, Entry<T> entry) const {
    const NpyReader reader(path_);
    for (const std::int64_t gap : {0, 3}) {
      for (const GlobalRange& part : cuts(rows)) {
        const Matrix<T> block(part.size(), columns, gap);
        reader.read_rows<T>(part, block.view());
        EXPECT_TRUE(is_block(block.view(), entry, part.begin.value(), 0));
        EXPECT_TRUE(block.gaps_are_untouched());
      }
      for (const GlobalRange& part : cuts(columns)) {
        const Matrix<T> block(rows, part.size(), gap);
        reader.read_columns<T>(part, block.view());
        EXPECT_TRUE(is_block(block.view(), entry, 0, part.begin.value()));
        EXPECT_TRUE(block.gaps_are_untouched());
      }
    }
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_ / "A.npy";
};

TYPED_TEST_SUITE(NpyFile, testing::Dtypes, testing::DtypeNames);

TYPED_TEST(NpyFile, WrittenByRows_IsReadByRowsAndColumns) {
  for (const Format& format : formats()) {
    SCOPED_TRACE(::testing::Message()
                 << format.rows << " x " << format.columns << ", Fortran " << format.fortran_order);
    this->make(format, general<TypeParam>);
    this->expect_file(format.rows, format.columns, general<TypeParam>);
  }
}

TYPED_TEST(NpyFile, WrittenByColumns_IsReadByRowsAndColumns) {
  for (const Format& format : formats()) {
    SCOPED_TRACE(::testing::Message()
                 << format.rows << " x " << format.columns << ", Fortran " << format.fortran_order);
    this->make({format.rows, format.columns}, format.fortran_order, [&](const NpyWriter& writer) {
      for (const GlobalRange& columns : cuts(format.columns)) {
        const Matrix<TypeParam> block(format.rows, columns.size(), 1);
        fill(block.view(), general<TypeParam>, 0, columns.begin.value());
        writer.write_columns<TypeParam>(columns, block.view());
      }
    });
    this->expect_file(format.rows, format.columns, general<TypeParam>);
  }
}

TYPED_TEST(NpyFile, Vector_IsASingleColumn) {
  for (const bool fortran_order : {false, true}) {
    this->make({9}, fortran_order, [](const NpyWriter& writer) {
      const Matrix<TypeParam> block(9, 1, 0);
      fill(block.view(), general<TypeParam>, 0, 0);
      writer.write_rows<TypeParam>(range(0, 9), block.view());
    });
    EXPECT_EQ(NpyReader(this->path_).header().shape, std::vector<std::int64_t>{9});
    this->expect_file(9, 1, general<TypeParam>);
  }
}

TYPED_TEST(NpyFile, HermitianColumns_AreTheMatrixInEitherOrder) {
  for (const std::int64_t n : {0, 1, 2, 5, 66}) {
    for (const bool fortran_order : {false, true}) {
      SCOPED_TRACE(::testing::Message() << n << ", Fortran " << fortran_order);
      this->make({n, n}, fortran_order, [&](const NpyWriter& writer) {
        for (const GlobalRange& columns : cuts(n)) {
          const Matrix<TypeParam> block(n, columns.size(), 1);
          fill(block.view(), hermitian<TypeParam>, 0, columns.begin.value());
          writer.write_hermitian_columns<TypeParam>(columns, block.view());
        }
      });
      this->expect_file(n, n, hermitian<TypeParam>);
      const NpyReader reader(this->path_);
      for (const GlobalRange& columns : cuts(n)) {
        const Matrix<TypeParam> block(n, columns.size(), 1);
        reader.read_hermitian_columns<TypeParam>(columns, block.view());
        EXPECT_TRUE(is_block(block.view(), hermitian<TypeParam>, 0, columns.begin.value()));
        EXPECT_TRUE(block.gaps_are_untouched());
      }
    }
  }
}

TYPED_TEST(NpyFile, SeveralThreads_EachReadAndWriteTheirPart) {
  constexpr std::int64_t n = 120;
  constexpr std::int64_t width = 30;
  for (const bool fortran_order : {false, true}) {
    const auto on_threads = [](const std::function<void(std::int64_t)>& work) {
      std::vector<std::jthread> threads;
      for (std::int64_t begin = 0; begin < n; begin += width) {
        threads.emplace_back(work, begin);
      }
    };
    this->make({n, n}, fortran_order, [&](const NpyWriter& writer) {
      on_threads([&](std::int64_t begin) {
        const Matrix<TypeParam> block(n, width, 0);
        fill(block.view(), general<TypeParam>, 0, begin);
        writer.write_columns<TypeParam>(range(begin, begin + width), block.view());
      });
    });
    const NpyReader reader(this->path_);
    on_threads([&](std::int64_t begin) {
      const Matrix<TypeParam> block(width, n, 0);
      reader.read_rows<TypeParam>(range(begin, begin + width), block.view());
      EXPECT_TRUE(is_block(block.view(), general<TypeParam>, begin, 0));
    });
  }
}

/// Larger than the staging buffer in lines, in elements of one line, and with long and short gaps
/// between the elements that are wanted.
using NpyLargeFile = NpyFile<double>;

TEST_F(NpyLargeFile, ManyPieces_AreTheWhole) {
  const Format sizes[] = {{1200, 1100, false}, {2, 1300000, false}, {1300000, 2, true}};
  for (const Format& format : sizes) {
    SCOPED_TRACE(::testing::Message() << format.rows << " x " << format.columns);
    make(format, general<double>);
    expect_file(format.rows, format.columns, general<double>);
    const NpyReader reader(path_);
    const GlobalRange nearly_all = range(1, format.columns);
    const Matrix<double> block(format.rows, nearly_all.size(), 0);
    reader.read_columns(nearly_all, block.view());
    EXPECT_TRUE(is_block(block.view(), general<double>, 0, 1));
  }
}

TEST_F(NpyLargeFile, ConjugatedPieces_AreTheWhole) {
  using T = std::complex<double>;
  constexpr std::int64_t n = 800;
  const Matrix<T> a(n, n, 0);
  fill(a.view(), hermitian<T>, 0, 0);
  OutputFile file(path_);
  const NpyWriter writer(file, Dtype::complex128, {n, n}, false);
  writer.write_hermitian_columns<T>(range(0, n), a.view());
  file.commit();
  const Matrix<T> read(n, n, 0);
  NpyReader(path_).read_rows(range(0, n), read.view());
  EXPECT_TRUE(is_block(read.view(), hermitian<T>, 0, 0));
}

// ---- the bytes in the file ---------------------------------------------------------------------

TEST(NpyReader, FileWrittenByHand_GivesItsNumbers) {
  const TemporaryDirectory directory;
  const std::string path = directory / "A.npy";
  std::string bytes =
      testing::npy_bytes(3, "{'descr':'<c8','fortran_order':False,'shape':(1,2)}", 0);
  bytes += std::string("\x00\x00\x80\x3f\x00\x00\x00\x40", 8);  // 1 + 2i
  bytes += std::string("\x00\x00\x00\xbf\x00\x00\x80\x7f", 8);  // -0.5 + inf i
  testing::write_file(path, bytes);
  const Matrix<std::complex<float>> row(1, 2, 0);
  NpyReader(path).read_rows(range(0, 1), row.view());
  EXPECT_EQ(row.view()(0, 0), std::complex<float>(1.0F, 2.0F));
  EXPECT_EQ(row.view()(0, 1), std::complex<float>(-0.5F, std::numeric_limits<float>::infinity()));
}

// ---- misuse ------------------------------------------------------------------------------------

class NpyMisuse : public NpyFile<double> {
 protected:
  void SetUp() override { make({4, 3, false}, general<double>); }
};

TEST_F(NpyMisuse, Part_ThatIsNotInTheFile_Throws) {
  const NpyReader reader(path_);
  const Matrix<double> columns(4, 2, 0);
  const Matrix<double> rows(2, 3, 0);
  const Matrix<float> wrong_dtype(4, 2, 0);
  const Matrix<double> square(4, 4, 0);
  constexpr auto misuse = ErrorKind::invalid_argument;
  expect_error([&] { reader.read_columns(range(2, 4), columns.view()); }, misuse,
               {"columns [2, 4) of '" + path_});
  expect_error([&] { reader.read_columns(range(-1, 1), columns.view()); }, misuse, {"[-1, 1)"});
  expect_error([&] { reader.read_columns(range(2, 1), columns.view()); }, misuse, {"[2, 1)"});
  expect_error([&] { reader.read_rows(range(3, 5), rows.view()); }, misuse, {"rows [3, 5)"});
  expect_error([&] { reader.read_columns(range(0, 3), columns.view()); }, misuse,
               {"4 x 3 elements but its view 4 x 2"});
  expect_error([&] { reader.read_rows(range(0, 2), columns.view()); }, misuse,
               {"2 x 3 elements but its view 4 x 2"});
  expect_error([&] { reader.read_columns(range(0, 2), wrong_dtype.view()); }, misuse,
               {"holds float64 but float32 was asked for"});
  expect_error([&] { reader.read_hermitian_columns(range(0, 2), columns.view()); }, misuse,
               {"4 rows and 3 columns; a Hermitian matrix is square"});
}

TEST_F(NpyMisuse, Block_ThatDoesNotFitTheFile_Throws) {
  OutputFile file(directory_ / "B.npy");
  const NpyWriter writer(file, Dtype::float64, {4, 3}, true);
  const Matrix<double> columns(4, 2, 0);
  const Matrix<float> wrong_dtype(4, 2, 0);
  constexpr auto misuse = ErrorKind::invalid_argument;
  const auto view = columns.view();
  expect_error([&] { writer.write_columns<double>(range(2, 4), view); }, misuse, {"[2, 4)"});
  expect_error([&] { writer.write_rows<double>(range(0, 2), view); }, misuse,
               {"2 x 3 elements but its view 4 x 2"});
  expect_error([&] { writer.write_columns<float>(range(0, 2), wrong_dtype.view()); }, misuse,
               {"holds float64 but float32 was asked for"});
  expect_error([&] { writer.write_hermitian_columns<double>(range(0, 2), view); }, misuse,
               {"a Hermitian matrix is square"});
}

TEST_F(NpyMisuse, Stack_HasAHeaderButNoColumns) {
  testing::write_file(
      path_, testing::npy_bytes(1, "{'descr':'<f8','fortran_order':True,'shape':(1,1,1)}", 8));
  const NpyReader reader(path_);
  EXPECT_EQ(reader.header().shape.size(), 3U);
  const Matrix<double> block(1, 1, 0);
  expect_error([&] { reader.read_columns(range(0, 1), block.view()); }, ErrorKind::invalid_argument,
               {"a vector or a matrix is needed"});
}

TEST_F(NpyMisuse, FileThatShrinks_ThrowsIo) {
  const NpyReader reader(path_);
  std::filesystem::resize_file(path_, 150);
  const Matrix<double> columns(4, 3, 0);
  expect_error([&] { reader.read_columns(range(0, 3), columns.view()); }, ErrorKind::io,
               {"changed while it was read", "ends at byte 150"});
  const Matrix<double> behind(4, 1, 0);
  expect_error([&] { reader.read_columns(range(2, 3), behind.view()); }, ErrorKind::io,
               {"changed while it was read", "ends at byte 150"});
}

TEST_F(NpyMisuse, FileThatNobodyWrites_IsUnchanged) {
  const NpyReader reader(path_);
  const Matrix<double> columns(4, 3, 0);
  reader.read_columns(range(0, 3), columns.view());
  EXPECT_NO_THROW(reader.require_unchanged());
}

TEST_F(NpyMisuse, FileWrittenInPlace_ThrowsIo) {
  const NpyReader reader(path_);
  const auto written = std::filesystem::last_write_time(path_);
  std::filesystem::last_write_time(path_, written + std::chrono::nanoseconds(1000));
  expect_error([&] { reader.require_unchanged(); }, ErrorKind::io,
               {"changed while it was read", "written", "run again"});
}

TEST_F(NpyMisuse, FileThatGrows_ThrowsIo) {
  const NpyReader reader(path_);
  const auto written = std::filesystem::last_write_time(path_);
  const auto bytes = std::filesystem::file_size(path_);
  std::filesystem::resize_file(path_, bytes + 8);
  std::filesystem::last_write_time(path_, written);
  expect_error([&] { reader.require_unchanged(); }, ErrorKind::io,
               {"changed while it was read", std::to_string(bytes + 8) + " bytes"});
}

}  // namespace
}  // namespace shardsolve::io
