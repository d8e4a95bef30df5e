/// Reading and writing parts of a matrix in an .npy file, each rank its own.
///
/// Views are column-major; the file is in C or in Fortran order. Where both lie the same way, bytes
/// go straight between file and view; otherwise through a staging buffer of at most 8 MiB a call.
/// Every method but the constructors may run on several threads at once, each with its own part.
#pragma once

#include "io/file_descriptor.hpp"
#include "io/npy_header.hpp"
#include "io/output_file.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/index.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve::io {

/// An .npy file that is open for reading. The parts can be read if the array has one dimension (a
/// single column) or two; the header can be asked for in any case.
///
/// Reading throws Error(invalid_argument) if T is not the dtype of the file or the part is not
/// inside the array or not the size of the view, and Error(io) if the file fails or has changed.
class NpyReader {
 public:
  /// Opens the file and reads its header: throws what read_npy_header throws.
  explicit NpyReader(std::string path);

  const std::string& path() const { return path_; }
  const NpyHeader& header() const { return header_; }

  /// A checksum that tells files with different contents apart. Of a large file it takes a sample,
  /// so that the work has a bound: both ends and pages in between. Throws Error(io).
  std::uint32_t sample_checksum() const;

  /// To be called when all is read: throws Error(io) if somebody has written to the file since it
  /// was opened, as far as its size and the time of the last write tell.
  void require_unchanged() const;

  /// out(i, j) = A(i, columns.begin + j), all rows. One contiguous read in Fortran order; in C
  /// order one strided read a row, so prefer read_hermitian_columns where it applies.
  template <Scalar T>
  void read_columns(GlobalRange columns, MatrixView<T> out) const;

  /// out(i, j) = A(rows.begin + i, j), all columns. Contiguous in C order; in Fortran order one
  /// read a column.
  template <Scalar T>
  void read_rows(GlobalRange rows, MatrixView<T> out) const;

  /// out(i, j) = A(i, columns.begin + j) of a Hermitian A, whose columns are its conjugated rows:
  /// one contiguous read in either order. In C order the entries of the rows are what is read.
  /// Throws Error(invalid_argument) unless A is square.
  template <Scalar T>
  void read_hermitian_columns(GlobalRange columns, MatrixView<T> out) const;

 private:
  std::string path_;
  FileDescriptor file_;
  FileState opened_;
  NpyHeader header_;
};

/// Writes an array of one or two dimensions as the contents of an OutputFile, which the caller
/// commits when all parts are written.
///
/// Writing throws Error(invalid_argument) if T is not the dtype of the file or the part is not
/// inside the array or not the size of the view, and what OutputFile::pwrite_all throws.
class NpyWriter {
 public:
  /// Reserves the space of the whole file and writes the header, which whoever has joined in on a
  /// file leaves to its maker. `file` outlives the writer.
  NpyWriter(OutputFile& file, Dtype dtype, std::vector<std::int64_t> shape, bool fortran_order);

  const NpyHeader& header() const { return header_; }

  /// A(rows.begin + i, j) = block(i, j), all columns.
  template <Scalar T>
  void write_rows(GlobalRange rows, MatrixView<const T> block) const;

  /// A(i, columns.begin + j) = block(i, j), all rows. In C order one write a row, so prefer
  /// write_hermitian_columns where it applies.
  template <Scalar T>
  void write_columns(GlobalRange columns, MatrixView<const T> block) const;

  /// write_columns for a Hermitian A: in C order the columns become the conjugated rows, written
  /// contiguously. Throws Error(invalid_argument) unless A is square.
  template <Scalar T>
  void write_hermitian_columns(GlobalRange columns, MatrixView<const T> block) const;

 private:
  OutputFile& file_;
  NpyHeader header_;
};

}  // namespace shardsolve::io
