// A solve as a folder.

#include "core/each_dtype.hpp"
#include "io/npy.hpp"
#include "io/output_file.hpp"
#include "krylov/spelling.hpp"
#include "krylov_files/capture_index.hpp"
#include "krylov_files/log_file.hpp"
#include "krylov_files/new_directory.hpp"
#include "krylov_files/npz_writer.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/krylov_files.hpp>
#include <shardsolve/version.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace shardsolve::krylov {
namespace files {
namespace {

constexpr std::int64_t max_of_format = 4'200'000'000;  // of an archive without zip64

/// What a capture has of a system: the parts that are not there are null.
template <Scalar T>
struct System {
  const CsrMatrix<T>* a = nullptr;
  const RecordedProducts<T>* products_of_a = nullptr;
  const RecordedProducts<T>* products_of_m = nullptr;
  const std::vector<MultigridLevel<T>>* levels = nullptr;  // a is that of the first one
  const std::vector<T>& b;
  const std::vector<T>& guess;
};

template <Scalar T>
void require_matrix(const CsrMatrix<T>& a, std::size_t rows) {
  const auto n = static_cast<std::size_t>(a.rows);
  if (a.rows != a.columns || a.row_pointers.size() != n + 1 ||
      a.column_indices.size() != a.values.size() || rows != n) {
    throw Error(
        ErrorKind::invalid_argument,
        fmt::format("A of {} x {} with {} row pointers and b of {} rows given; A is square, "
                    "and b has its rows",
                    a.rows, a.columns, a.row_pointers.size(), rows));
  }
}

/// n = 0: none, as nothing was asked for.
template <Scalar T>
void require_products(const char* name, const RecordedProducts<T>& products, std::size_t rows) {
  const auto numbers = static_cast<std::size_t>(products.count() * products.n);
  const bool fits = products.n == 0 || static_cast<std::size_t>(products.n) == rows;
  if (!fits || products.x.size() != numbers || products.y.size() != numbers) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("products with {} of {} rows, {} numbers x and {} numbers y given, and "
                            "b of {} rows; give what ProductRecorder::products() has returned",
                            name, products.n, products.x.size(), products.y.size(), rows));
  }
}

template <Scalar T>
void require_sizes(const System<T>& system, const Recipe& recipe) {
  const std::size_t rows = system.b.size();
  if (!system.guess.empty() && system.guess.size() != rows) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("b of {} rows and x0 of {} given; x0 has those of b, or is empty", rows,
                            system.guess.size()));
  }
  if (system.a != nullptr) {
    require_matrix(*system.a, rows);
  } else {
    require_products("A", *system.products_of_a, rows);
  }
  if (system.products_of_m != nullptr) {
    require_products("M", *system.products_of_m, rows);
  } else if (recipe.kind == Recipe::Kind::recorded) {
    throw Error(ErrorKind::invalid_argument,
                "a request with a preconditioner that was recorded, without its products: give "
                "them as well");
  } else if (system.a == nullptr && recipe.kind != Recipe::Kind::none) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("products with A and the preconditioner {} given, which is made of the "
                            "matrix A: record the preconditioner as well",
                            name(recipe.kind)));
  }
}

template <Scalar T>
std::int64_t bytes_of(const System<T>& system) {
  std::size_t numbers = system.b.size() + system.guess.size();
  for (const RecordedProducts<T>* const products : {system.products_of_a, system.products_of_m}) {
    numbers += products == nullptr ? 0 : products->x.size() + products->y.size();
  }
  std::int64_t bytes = system.a == nullptr ? 0 : npz_bytes(*system.a);
  for (std::size_t level = 0; system.levels != nullptr && level < system.levels->size(); ++level) {
    const MultigridLevel<T>& one = (*system.levels)[level];
    bytes += (level > 0 ? npz_bytes(one.a) : 0) + npz_bytes(one.prolongation);
  }
  return bytes + static_cast<std::int64_t>(numbers * sizeof(T));
}

template <Scalar T>
Checksums checksums_of_system(const System<T>& system) {
  const CsrMatrix<T> no_matrix;
  const std::vector<MultigridLevel<T>> no_levels;
  Checksums all = checksums_of(system.a == nullptr ? no_matrix : *system.a, system.b, system.guess,
                               system.levels == nullptr ? no_levels : *system.levels);
  if (system.a == nullptr) {
    all.a.reset();  // known by its products
  }
  return all;
}

void require_size(std::int64_t bytes, const CaptureOptions& options) {
  const std::int64_t most = std::min(options.max_bytes, max_of_format);
  if (bytes > most) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("the capture would have about {} bytes, and {} are allowed: allow more "
                            "({}, at most {} bytes)",
                            bytes, most, spelled("max_bytes", "--capture-limit"), max_of_format));
  }
}

/// An array of (n,), or of (rows, columns) with the numbers of one row after the other.
template <Scalar T>
void write_array(const std::string& path, const std::vector<std::int64_t>& shape,
                 const std::vector<T>& numbers) {
  io::OutputFile file(path);
  const io::NpyWriter writer(file, dtype_of<T>, shape, false);
  file.pwrite_all(numbers.data(), static_cast<std::int64_t>(numbers.size() * sizeof(T)),
                  writer.header().data_offset);
  file.commit();
}

void write_text(const std::string& path, const std::string& text) {
  io::OutputFile file(path);
  file.pwrite_all(text.data(), static_cast<std::int64_t>(text.size()), 0);
  file.commit();
}

/// The files of a capture, as they are written.
class CaptureWriter {
 public:
  CaptureWriter(const std::string& directory, const CaptureOptions& options, CaptureIndex& index)
      : folder_(directory, io::Overwrite(options.overwrite), index_name, is_name_of_capture),
        index_(index) {}

  /// `write` writes the file whose path it is given.
  template <class Write>
  void add(const std::string& name, const Write& write) {
    const std::string path = folder_.path_of(name);
    write(path);
    index_.files.push_back(captured_file(path, name));
  }
  template <Scalar T>
  void add_matrix(const std::string& name, const CsrMatrix<T>& matrix) {
    add(name, [&](const std::string& path) {
      io::OutputFile file(path);
      write_npz(file, matrix);
      file.commit();
    });
  }
  template <Scalar T>
  void add_products(const char* name_of_x, const char* name_of_y, std::int64_t n,
                    const RecordedProducts<T>& products) {
    const std::vector<std::int64_t> shape{products.count(), n};
    add(name_of_x, [&](const std::string& path) { write_array(path, shape, products.x); });
    add(name_of_y, [&](const std::string& path) { write_array(path, shape, products.y); });
  }
  void commit() {
    write_text(folder_.path_of(index_name), index_text(index_));
    folder_.commit();
  }

 private:
  NewDirectory folder_;
  CaptureIndex& index_;
};

template <Scalar T>
void write_capture(const std::string& directory, const Request& request, const System<T>& system,
                   const Result& result, const CaptureOptions& options) {
  CaptureIndex index{SHARDSOLVE_VERSION_STRING, request, result, {}};
  if (system.products_of_m != nullptr) {
    index.request.preconditioner = {Recipe::Kind::recorded, {}};
  } else if (system.levels != nullptr) {
    index.request.preconditioner = {Recipe::Kind::multigrid, {}};
  }
  require_sizes(system, index.request.preconditioner);
  const std::int64_t n = std::ssize(system.b);
  index.request.n = n;
  index.request.entries = system.a == nullptr ? 0 : system.a->entries();
  index.request.dtype = dtype_of<T>;
  index.request.options.use_guess = !system.guess.empty();
  index.request.checksums = checksums_of_system(system);
  index.result.log.clear();
  const std::string log = log_text(index.request, result);
  require_size(bytes_of(system) + std::ssize(log), options);

  CaptureWriter writer(directory, options, index);
  if (system.a != nullptr) {
    writer.add_matrix(matrix_name, *system.a);
  } else {
    writer.add_products(operator_products.x, operator_products.y, n, *system.products_of_a);
  }
  if (system.products_of_m != nullptr) {
    writer.add_products(preconditioner_products.x, preconditioner_products.y, n,
                        *system.products_of_m);
  }
  for (std::size_t level = 0; system.levels != nullptr && level < system.levels->size(); ++level) {
    const MultigridLevel<T>& one = (*system.levels)[level];
    if (level > 0) {
      writer.add_matrix(level_matrix_name(level), one.a);
    }
    if (level + 1 < system.levels->size()) {
      writer.add_matrix(prolongation_name(level), one.prolongation);
    }
  }
  writer.add(rhs_name, [&](const std::string& path) { write_array(path, {n}, system.b); });
  if (!system.guess.empty()) {
    writer.add(guess_name, [&](const std::string& path) { write_array(path, {n}, system.guess); });
  }
  writer.add(log_name, [&](const std::string& path) { write_text(path, log); });
  writer.commit();
}

/// Null if there was no preconditioner, or nothing was asked of it.
template <Scalar T>
const RecordedProducts<T>* if_there(const RecordedProducts<T>& m) {
  return m.n == 0 && m.x.empty() && m.y.empty() ? nullptr : &m;
}

}  // namespace
}  // namespace files

template <Scalar T>
void capture(const std::string& directory, const Request& request, const CsrMatrix<T>& a,
             const std::vector<T>& b, const std::vector<T>& guess, const Result& result,
             const CaptureOptions& options) {
  files::write_capture<T>(directory, request, {.a = &a, .b = b, .guess = guess}, result, options);
}

template <Scalar T>
void capture(const std::string& directory, const Request& request,
             const std::vector<MultigridLevel<T>>& levels, const std::vector<T>& b,
             const std::vector<T>& guess, const Result& result, const CaptureOptions& options) {
  if (levels.empty()) {
    throw Error(ErrorKind::invalid_argument,
                "no level of multigrid given; the first one has A itself");
  }
  files::write_capture<T>(directory, request,
                          {.a = &levels.front().a, .levels = &levels, .b = b, .guess = guess},
                          result, options);
}

template <Scalar T>
void capture(const std::string& directory, const Request& request, const CsrMatrix<T>& a,
             const RecordedProducts<T>& m, const std::vector<T>& b, const std::vector<T>& guess,
             const Result& result, const CaptureOptions& options) {
  files::write_capture<T>(directory, request,
                          {.a = &a, .products_of_m = files::if_there(m), .b = b, .guess = guess},
                          result, options);
}

template <Scalar T>
void capture(const std::string& directory, const Request& request, const RecordedProducts<T>& a,
             const RecordedProducts<T>& m, const std::vector<T>& b, const std::vector<T>& guess,
             const Result& result, const CaptureOptions& options) {
  files::write_capture<T>(
      directory, request,
      {.products_of_a = &a, .products_of_m = files::if_there(m), .b = b, .guess = guess}, result,
      options);
}

#define SHARDSOLVE_INSTANTIATE(T)                                                                  \
  template void capture(const std::string&, const Request&, const CsrMatrix<T>&,                   \
                        const std::vector<T>&, const std::vector<T>&, const Result&,               \
                        const CaptureOptions&);                                                    \
  template void capture(const std::string&, const Request&, const std::vector<MultigridLevel<T>>&, \
                        const std::vector<T>&, const std::vector<T>&, const Result&,               \
                        const CaptureOptions&);                                                    \
  template void capture(const std::string&, const Request&, const CsrMatrix<T>&,                   \
                        const RecordedProducts<T>&, const std::vector<T>&, const std::vector<T>&,  \
                        const Result&, const CaptureOptions&);                                     \
  template void capture(const std::string&, const Request&, const RecordedProducts<T>&,            \
                        const RecordedProducts<T>&, const std::vector<T>&, const std::vector<T>&,  \
                        const Result&, const CaptureOptions&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
