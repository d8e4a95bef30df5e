#include "sparse_input.hpp"

#include "core/each_dtype.hpp"
#include "input.hpp"
#include "io/checksum.hpp"
#include "io/npy.hpp"
#include "io/npy_literal.hpp"
#include "krylov_files/capture_index.hpp"
#include "sparse_files/sparse_file.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <utility>

namespace shardsolve::cli {
namespace {

std::string ending_of(const std::string& path) {
  const std::size_t dot = std::min(path.rfind('.'), path.size());
  std::string ending = path.substr(dot);
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending;
}

/// By the first bytes of the file.
bool begins_as_sparse(const std::string& path) {
  constexpr std::string_view market = "%%MatrixMarket";
  const io::FileDescriptor file = io::open_for_reading(path);
  std::string head(static_cast<std::size_t>(std::min<std::int64_t>(
                       io::file_size(file, path), static_cast<std::int64_t>(market.size()))),
                   '\0');
  io::read_exactly(file, head.data(), static_cast<std::int64_t>(head.size()), 0, path);
  return head == market || head.starts_with("PK");
}

template <Scalar T>
std::string describe(const CsrMatrix<T>& a, const std::string& path) {
  return fmt::format("'{}' holds a {} sparse matrix of {} x {} ({} entries)", path,
                     name(dtype_of<T>), a.rows, a.columns, a.entries());
}

/// Right-hand sides or guesses of a file.
template <Scalar T>
struct Columns {
  std::vector<std::int64_t> shape;  ///< as the file has it
  bool fortran_order = false;
  std::int64_t count = 0;
  std::vector<T> numbers;  ///< one column after the other
};

/// Throws Error(invalid_argument) unless `shape`, which `what` describes, goes with A: (n,) or
/// (n, k). Returns k.
template <Scalar T>
std::int64_t columns_of(const std::vector<std::int64_t>& shape, const std::string& what,
                        const CsrMatrix<T>& a, const std::string& path_of_a,
                        std::string_view letter) {
  if (shape.empty() || shape.size() > 2 || (shape.size() == 2 && shape[1] < 1)) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{}; {} of shape ({},) or ({}, k), k at least 1, is accepted with a "
                            "sparse matrix",
                            what, letter, a.rows, a.rows));
  }
  if (shape[0] != a.rows) {
    throw Error(ErrorKind::invalid_argument, fmt::format("{} and {}; {} needs as many rows as A",
                                                         describe(a, path_of_a), what, letter));
  }
  return shape.size() == 2 ? shape[1] : 1;
}

/// Of an .npy file; `letter` is what messages call it.
template <Scalar T>
Columns<T> read_npy_columns(const std::string& path, const CsrMatrix<T>& a,
                            const std::string& path_of_a, std::string_view letter) {
  const io::NpyReader reader(path);
  const io::NpyHeader& header = reader.header();
  const std::string what = io::describe(header, path);
  Columns<T> read{
      header.shape, header.fortran_order, columns_of(header.shape, what, a, path_of_a, letter), {}};
  if (header.dtype != dtype_of<T>) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} and {}; both need the same dtype: save {}", describe(a, path_of_a),
                            what, cast_advice(dtype_of<T>, header.dtype, letter)));
  }
  read.numbers.resize(static_cast<std::size_t>(a.rows * read.count));
  if (!read.numbers.empty()) {
    reader.read_rows<T>({GlobalIndex(0), GlobalIndex(a.rows)},
                        MatrixView<T>(read.numbers.data(), a.rows, read.count));
  }
  reader.require_unchanged();
  return read;
}

/// Of a Matrix Market file, whose numbers, being text, take the dtype of A.
template <Scalar T>
Columns<T> read_market_columns(const std::string& path, const CsrMatrix<T>& a,
                               const std::string& path_of_a, std::string_view letter) {
  return std::visit(
      [&]<Scalar U>(const CooMatrix<U>& entries) -> Columns<T> {
        const std::string what =
            fmt::format("'{}' holds a {} matrix of {} x {}", path,
                        is_complex<U> ? "complex" : "real", entries.rows, entries.columns);
        Columns<T> read{{entries.rows, entries.columns}, false, 0, {}};
        read.count = columns_of(read.shape, what, a, path_of_a, letter);
        if constexpr (is_complex<U> && !is_complex<T>) {
          throw Error(ErrorKind::invalid_argument,
                      fmt::format("{} and {}; both have to be real or complex: save {}",
                                  describe(a, path_of_a), what,
                                  cast_advice(dtype_of<T>, dtype_of<U>, letter)));
        } else {
          read.numbers.resize(static_cast<std::size_t>(a.rows * read.count));
          for (std::size_t k = 0; k < entries.values.size(); ++k) {
            const auto at = entries.column_indices[k] * a.rows + entries.row_indices[k];
            if constexpr (is_complex<U>) {
              read.numbers[static_cast<std::size_t>(at)] += static_cast<T>(entries.values[k]);
            } else {
              read.numbers[static_cast<std::size_t>(at)] +=
                  static_cast<RealOf<T>>(entries.values[k]);
            }
          }
          return read;
        }
      },
      sparse_files::read_matrix_market_entries(path));
}

template <Scalar T>
Columns<T> read_columns(const std::string& path, const CsrMatrix<T>& a,
                        const std::string& path_of_a, std::string_view letter) {
  return sparse_files::is_matrix_market(path) ? read_market_columns<T>(path, a, path_of_a, letter)
                                              : read_npy_columns<T>(path, a, path_of_a, letter);
}

template <Scalar T>
void require_square(const CsrMatrix<T>& a, const std::string& path) {
  if (a.rows != a.columns) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{}; a square matrix is accepted: shape (n, n)", describe(a, path)));
  }
}

/// An array of shape (products, n), one row after the other.
template <Scalar T>
std::vector<T> read_vectors(const std::string& path, std::int64_t n) {
  const io::NpyReader reader(path);
  const io::NpyHeader& header = reader.header();
  if (header.shape.size() != 2 || header.shape[1] != n || header.dtype != dtype_of<T> ||
      header.fortran_order) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{}; recorded products are {} of shape (products, {}) in C order, as b "
                            "has {} rows",
                            io::describe(header, path), name(dtype_of<T>), n, n));
  }
  const std::int64_t count = header.shape[0];
  std::vector<T> numbers(static_cast<std::size_t>(count * n));
  for (std::int64_t k = 0; n > 0 && k < count; ++k) {
    reader.read_rows<T>({GlobalIndex(k), GlobalIndex(k + 1)},
                        MatrixView<T>(numbers.data() + k * n, 1, n));
  }
  reader.require_unchanged();
  return numbers;
}

template <Scalar T>
krylov::RecordedProducts<T> read_products(const ProductPaths& paths, std::int64_t n) {
  krylov::RecordedProducts<T> products{n, read_vectors<T>(paths.x, n), read_vectors<T>(paths.y, n)};
  if (products.x.size() != products.y.size()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("'{}' and '{}' hold {} and {} vectors; each x has its product", paths.x,
                            paths.y, products.x.size() / static_cast<std::size_t>(n),
                            products.y.size() / static_cast<std::size_t>(n)));
  }
  return products;
}

template <Scalar T>
CsrMatrix<T> read_level(const std::string& path) {
  auto any = sparse_files::read_sparse_matrix(path);
  if (auto* const matrix = std::get_if<CsrMatrix<T>>(&any)) {
    return std::move(*matrix);
  }
  throw Error(ErrorKind::invalid_argument,
              std::visit(
                  [&]<Scalar U>(const CsrMatrix<U>& matrix) {
                    return fmt::format("{}, and A is {}; all levels need the dtype of A",
                                       describe(matrix, path), name(dtype_of<T>));
                  },
                  any));
}

/// P0.npz, A1.npz, P1.npz, ... as far as there are any.
template <Scalar T>
std::vector<krylov::MultigridLevel<T>> read_levels(const std::string& folder) {
  const auto path = [&](const std::string& name) { return folder + "/" + name; };
  std::vector<krylov::MultigridLevel<T>> levels(1);
  for (std::size_t level = 1;
       std::filesystem::exists(path(krylov::files::level_matrix_name(level))); ++level) {
    levels.back().prolongation = read_level<T>(path(krylov::files::prolongation_name(level - 1)));
    levels.push_back({read_level<T>(path(krylov::files::level_matrix_name(level))), {}});
  }
  if (levels.size() == 1) {
    throw Error(
        ErrorKind::invalid_argument,
        fmt::format("'{}' has no {}; levels of multigrid are {}, {}, {}, ..., .npz files of "
                    "scipy.sparse.save_npz, where A_1 = P_0^H A P_0 and so on",
                    folder, krylov::files::level_matrix_name(1),
                    krylov::files::prolongation_name(0), krylov::files::level_matrix_name(1),
                    krylov::files::prolongation_name(1)));
  }
  return levels;
}

/// What follows from A, or from its products.
template <Scalar T>
SparseInput read_system(CsrMatrix<T> a, const SparsePaths& paths) {
  require_square(a, paths.a);
  SparseInput input;
  SparseSystem<T> system;
  system.n = a.rows;
  if (!paths.b.empty()) {
    Columns<T> b = read_columns(paths.b, a, paths.a, "b");
    system.b = std::move(b.numbers);
    system.columns = b.count;
    input.shape = b.shape;
    input.fortran_order = b.fortran_order;
  }
  if (!paths.guess.empty()) {
    Columns<T> guess = read_columns(paths.guess, a, paths.a, "x0");
    if (guess.count != system.columns) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("'{}' has {} columns and '{}' {}; x0 needs as many as b", paths.guess,
                              guess.count, paths.b, system.columns));
    }
    system.guess = std::move(guess.numbers);
  }
  system.a = std::move(a);
  if (paths.recorded_a) {
    system.recorded_a = read_products<T>(*paths.recorded_a, system.n);
    system.a = {};
  }
  if (paths.recorded_m) {
    system.recorded_m = read_products<T>(*paths.recorded_m, system.n);
  }
  if (!paths.levels.empty()) {
    system.levels = read_levels<T>(paths.levels);
  }
  input.system = std::move(system);
  return input;
}

/// A system whose A was recorded: n and dtype are those of b.
SparseInput read_recorded_system(const SparsePaths& paths) {
  const io::NpyHeader b = io::read_npy_header(paths.b);
  const std::int64_t n = b.shape.empty() ? 0 : b.shape.front();
  return with_dtype(b.dtype, [&]<Scalar T>() {
    CsrMatrix<T> empty;
    empty.rows = n;
    empty.columns = n;
    return read_system(std::move(empty), paths);
  });
}

template <class Element>
std::uint32_t checksum(const std::vector<Element>& elements) {
  io::Crc32 sum;
  sum.update(elements.data(), static_cast<std::int64_t>(elements.size() * sizeof(Element)));
  return sum.value();
}

/// What tells the system from others, a line a file.
std::string identity(const SparseInput& input, const SparsePaths& paths) {
  return std::visit(
      [&](const auto& system) {
        std::string text = fmt::format(
            "{}, checksums {:08x} {:08x} {:08x}\n'{}', checksum {:08x}\n'{}', "
            "checksum {:08x}\n",
            describe(system.a, paths.a), checksum(system.a.row_pointers),
            checksum(system.a.column_indices), checksum(system.a.values), paths.b,
            checksum(system.b), paths.guess, checksum(system.guess));
        for (const auto& products : {system.recorded_a, system.recorded_m}) {
          if (products) {
            text += fmt::format("{} products, checksums {:08x} {:08x}\n", products->count(),
                                checksum(products->x), checksum(products->y));
          }
        }
        for (const auto& level : system.levels) {
          for (const auto* const matrix : {&level.a, &level.prolongation}) {
            text += fmt::format("a level's {} x {}, checksums {:08x} {:08x}\n", matrix->rows,
                                matrix->columns, checksum(matrix->column_indices),
                                checksum(matrix->values));
          }
        }
        return text;
      },
      input.system);
}

}  // namespace

bool is_sparse(Workplace& workplace, const std::string& path) {
  const std::string ending = ending_of(path);
  if (ending == ".npy") {
    return false;
  }
  if (ending == ".npz" || ending == ".mtx") {
    return true;
  }
  const bool sparse = workplace.everywhere([path] { return begins_as_sparse(path); });
  workplace.require_same(fmt::format("a {} matrix in '{}'", sparse ? "sparse" : "dense", path));
  return sparse;
}

SparseInput read_sparse_system(Workplace& workplace, const SparsePaths& paths) {
  const auto begin = std::chrono::steady_clock::now();
  SparseInput input = workplace.everywhere(
      [paths] {
        return paths.recorded_a
                   ? read_recorded_system(paths)
                   : std::visit([&](auto a) { return read_system(std::move(a), paths); },
                                sparse_files::read_sparse_matrix(paths.a));
      },
      "read");
  if (workplace.has_processes()) {
    workplace.require_same(identity(input, paths));
  }
  input.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return input;
}

SparseInput read_sparse_matrix(Workplace& workplace, const std::string& path) {
  return read_sparse_system(workplace, {path, "", ""});
}

}  // namespace shardsolve::cli
