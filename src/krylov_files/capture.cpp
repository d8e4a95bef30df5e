// A solve as a folder.

#include "core/each_dtype.hpp"
#include "io/npy.hpp"
#include "io/output_file.hpp"
#include "krylov_files/capture_index.hpp"
#include "krylov_files/log_file.hpp"
#include "krylov_files/new_directory.hpp"
#include "krylov_files/npz_writer.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/krylov_files.hpp>
#include <shardsolve/version.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace shardsolve::krylov {
namespace files {
namespace {

constexpr std::int64_t most_of_format = 4'200'000'000;  // of an archive without zip64

template <Scalar T>
void require_sizes(const CsrMatrix<T>& a, const std::vector<T>& b, const std::vector<T>& guess) {
  const auto n = static_cast<std::size_t>(a.rows);
  if (a.rows != a.columns || a.row_pointers.size() != n + 1 ||
      a.column_indices.size() != a.values.size() || b.size() != n ||
      (!guess.empty() && guess.size() != n)) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("A of {} x {} with {} row pointers, b of {} and x0 of {} rows given; "
                            "A is square, b has its rows, and so has x0 if it is there",
                            a.rows, a.columns, a.row_pointers.size(), b.size(), guess.size()));
  }
}

void require_size(std::int64_t bytes, const CaptureOptions& options) {
  const std::int64_t most = std::min(options.most_bytes, most_of_format);
  if (bytes > most) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("the capture would have about {} bytes, and {} are allowed: allow more "
                            "(at most {})",
                            bytes, most, most_of_format));
  }
}

template <Scalar T>
void write_vector(const std::string& path, const std::vector<T>& numbers) {
  io::OutputFile file(path);
  const std::int64_t count = std::ssize(numbers);
  const io::NpyWriter writer(file, dtype_of<T>, {count}, false);
  if (count > 0) {
    writer.write_rows<T>({GlobalIndex(0), GlobalIndex(count)},
                         MatrixView<const T>(numbers.data(), count, 1));
  }
  file.commit();
}

void write_text(const std::string& path, const std::string& text) {
  io::OutputFile file(path);
  file.pwrite_all(text.data(), static_cast<std::int64_t>(text.size()), 0);
  file.commit();
}

}  // namespace
}  // namespace files

template <Scalar T>
void capture(const std::string& directory, const Request& request, const CsrMatrix<T>& a,
             const std::vector<T>& b, const std::vector<T>& guess, const Result& result,
             const CaptureOptions& options) {
  using namespace files;
  require_sizes(a, b, guess);
  CaptureIndex index{SHARDSOLVE_VERSION_STRING, request, result, {}};
  index.request.n = a.rows;
  index.request.entries = a.entries();
  index.request.dtype = dtype_of<T>;
  index.request.options.use_guess = !guess.empty();
  index.result.log.clear();
  const std::string log = log_text(index.request, result);
  require_size(npz_bytes(a) + std::ssize(log) +
                   static_cast<std::int64_t>((b.size() + guess.size()) * sizeof(T)),
               options);
  NewDirectory folder(directory, io::Overwrite(options.overwrite), index_name);
  const auto add = [&](const char* name, const auto& write) {
    const std::string path = folder.path_of(name);
    write(path);
    index.files.push_back(captured_file(path, name));
  };
  add(matrix_name, [&](const std::string& path) {
    io::OutputFile file(path);
    write_npz(file, a);
    file.commit();
  });
  add(rhs_name, [&](const std::string& path) { write_vector(path, b); });
  if (!guess.empty()) {
    add(guess_name, [&](const std::string& path) { write_vector(path, guess); });
  }
  add(log_name, [&](const std::string& path) { write_text(path, log); });
  write_text(folder.path_of(index_name), index_text(index));
  folder.commit();
}

#define SHARDSOLVE_INSTANTIATE(T)                                                    \
  template void capture(const std::string&, const Request&, const CsrMatrix<T>&,     \
                        const std::vector<T>&, const std::vector<T>&, const Result&, \
                        const CaptureOptions&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
