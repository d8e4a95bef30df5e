// read_npz() of sparse_file.hpp.

#include "core/each_dtype.hpp"
#include "io/npy_foreign.hpp"
#include "io/npy_header.hpp"
#include "io/npy_literal.hpp"
#include "sparse_files/require_size.hpp"
#include "sparse_files/sparse_file.hpp"
#include "sparse_files/zip_archive.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsolve::sparse_files {
namespace npz {
namespace {

/// One array of the archive.
struct Array {
  std::string path;  ///< of it in messages
  std::string bytes;
  io::NpyText text;

  std::int64_t count() const {
    std::int64_t count = 1;
    for (const std::int64_t size : text.fields.shape) {
      count *= size;
    }
    return count;
  }
  /// Throws unless the array has one dimension, or none if `is_scalar`, of elements of these bytes.
  void require(bool is_scalar, std::int64_t element_bytes) const {
    const auto& shape = text.fields.shape;
    const auto data = static_cast<std::int64_t>(bytes.size()) - text.data_offset;
    if (shape.size() != (is_scalar ? 0 : 1) ||
        (!shape.empty() && shape[0] > data / element_bytes) || data != count() * element_bytes) {
      throw Error(
          ErrorKind::invalid_argument,
          fmt::format("'{}' has the shape {} and {} bytes; {} of {} bytes each was expected. "
                      "Write the file again with scipy.sparse.save_npz",
                      path, io::printable(io::format_shape(shape)), data,
                      is_scalar ? "one element" : "one dimension of elements", element_bytes));
    }
  }
  template <class Element>
  std::vector<Element> elements() const {
    require(false, sizeof(Element));
    std::vector<Element> all(static_cast<std::size_t>(count()));
    if (!all.empty()) {
      std::memcpy(all.data(), bytes.data() + text.data_offset, all.size() * sizeof(Element));
    }
    return all;
  }
  /// 32- or 64-bit integers.
  std::vector<std::int64_t> integers() const {
    const std::string& descr = text.fields.descr;
    if (descr == "<i4") {
      const auto narrow = elements<std::int32_t>();
      return {narrow.begin(), narrow.end()};
    }
    if (descr == "<i8") {
      return elements<std::int64_t>();
    }
    throw Error(
        ErrorKind::invalid_argument,
        fmt::format("'{}' has the dtype {}; indices of int32 or int64 in little-endian order "
                    "are accepted",
                    path, io::printable(descr)));
  }
};

class Reader {
 public:
  explicit Reader(const std::string& path) : archive_(path) {}

  AnyCsr read() const {
    const std::string format = format_of();
    const auto [rows, columns] = shape();
    const Array data = array("data");
    const Dtype dtype = io::dtype_of_descr(data.text.fields.descr, data.path);
    return with_dtype(dtype, [&]<Scalar T>() -> AnyCsr {
      return format == "coo" ? from_coo<T>(rows, columns, data)
                             : from_compressed<T>(rows, columns, data, format == "csc");
    });
  }

 private:
  Array array(const std::string& name) const {
    Array result;
    result.path = fmt::format("{}:{}.npy", archive_.path(), name);
    if (!archive_.has(name + ".npy")) {
      std::vector<std::string> names;
      for (const std::string& member : archive_.names()) {
        names.push_back(io::printable(member));
      }
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("'{}' holds {}, and no '{}': files that scipy.sparse.save_npz writes "
                              "for formats csr, csc and coo are read; a dense matrix is one .npy "
                              "file",
                              archive_.path(), names, name));
    }
    result.bytes = archive_.read(name + ".npy");
    result.text = io::parse_npy_bytes(result.bytes, result.path);
    return result;
  }

  std::string format_of() const {
    const Array array_of_name = array("format");
    const std::string& descr = array_of_name.text.fields.descr;
    // Bytes, |S3; SciPy before 1.0 wrote characters of four bytes, <U3.
    const std::int64_t character = descr.starts_with("<U") ? 4 : 1;
    if (descr != "|S3" && descr != "<U3") {
      throw Error(
          ErrorKind::invalid_argument,
          fmt::format("'{}' has the dtype {}; the name of a format in three letters, '|S3', "
                      "was expected",
                      array_of_name.path, io::printable(descr)));
    }
    array_of_name.require(true, 3 * character);
    std::string format;
    for (std::int64_t i = 0; i < 3; ++i) {
      format +=
          array_of_name
              .bytes[static_cast<std::size_t>(array_of_name.text.data_offset + i * character)];
    }
    if (format != "csr" && format != "csc" && format != "coo") {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("'{}' holds a sparse matrix of format '{}'; csr, csc and coo are "
                              "read: save A.tocsr()",
                              archive_.path(), io::printable(format)));
    }
    return format;
  }

  std::pair<std::int64_t, std::int64_t> shape() const {
    const Array of_sizes = array("shape");
    const std::vector<std::int64_t> sizes = of_sizes.integers();
    if (sizes.size() != 2) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("'{}' holds a sparse array of {} dimensions; 2 are read",
                              archive_.path(), sizes.size()));
    }
    require_size(sizes[0], sizes[1], archive_.path());
    return {sizes[0], sizes[1]};
  }

  template <Scalar T>
  CsrMatrix<T> from_coo(std::int64_t rows, std::int64_t columns, const Array& data) const {
    CooMatrix<T> matrix{rows, columns, array("row").integers(), array("col").integers(),
                        data.elements<T>()};
    return with_path(archive_.path(), [&] { return sorted(matrix); });
  }

  template <Scalar T>
  CsrMatrix<T> from_compressed(std::int64_t rows, std::int64_t columns, const Array& data,
                               bool by_columns) const {
    CsrMatrix<T> matrix{rows, columns, array("indptr").integers(), array("indices").integers(),
                        data.elements<T>()};
    if (by_columns) {
      std::swap(matrix.rows, matrix.columns);
    }
    // SciPy may keep room behind the last entry.
    if (!matrix.row_pointers.empty() && matrix.row_pointers.back() >= 0) {
      const auto used = static_cast<std::size_t>(matrix.row_pointers.back());
      if (used < matrix.values.size() && used < matrix.column_indices.size()) {
        matrix.values.resize(used);
        matrix.column_indices.resize(used);
      }
    }
    return with_path(archive_.path(),
                     [&] { return by_columns ? transposed(matrix) : sorted(matrix); });
  }

  ZipArchive archive_;
};

}  // namespace
}  // namespace npz

AnyCsr read_npz(const std::string& path) { return npz::Reader(path).read(); }

}  // namespace shardsolve::sparse_files
