/// The output files: refused early, written by all ranks, there at the end or not at all.
#pragma once

#include "io/npy.hpp"
#include "io/output_file.hpp"
#include "options.hpp"
#include "workplace.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/sharded.hpp>
#include <shardsolve/trace.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::cli {

/// An array that a job writes.
struct Result {
  std::string_view key;   ///< of its path in JSON: "output"
  std::string_view name;  ///< what it holds, for people: "x"
  std::string path;
  Dtype dtype = Dtype::float64;
  std::optional<std::vector<std::int64_t>> shape;  ///< nothing if only the work can tell
  bool fortran_order = false;
};

/// "'x.npy' is complete", or "'H.values.npy' and 'H.vectors.npy' are complete".
std::string are_complete(const std::vector<std::string>& paths);

/// An array in the making.
class ArrayFile {
 public:
  /// `origin`: what OutputFile takes, the kind of temporary file or the one to join in on.
  template <class Origin>
  ArrayFile(const Result& result, io::Overwrite overwrite, const Origin& origin)
      : file(result.path, overwrite, origin) {
    begin(result);
  }

  /// Claims the disk space, once the shape is known. Throws Error(io).
  void begin(const Result& result) {
    if (result.shape && !writer_) {
      writer_.emplace(file, result.dtype, *result.shape, result.fortran_order);
    }
  }
  /// Of an array whose shape is known.
  const io::NpyWriter& writer() const {
    return *writer_;  // NOLINT(bugprone-unchecked-optional-access)
  }

  io::OutputFile file;

 private:
  std::optional<io::NpyWriter> writer_;
};

/// Those of a job, in the order of its results.
using ArrayFiles = std::vector<std::shared_ptr<ArrayFile>>;

/// Throws Error(invalid_argument), in all processes, if two outputs, or an output and an input, are
/// the same file, also through links.
void require_distinct_files(Workplace& workplace, const std::vector<Result>& results);

/// Claims the names of the results, and the disk space of those whose shape is known. Several
/// processes write to one file, which the one of rank 0 makes: without a name, if all are on one
/// machine. Throws Error(invalid_argument) if a name is taken and may not be replaced, Error(io) if
/// a file cannot be written.
ArrayFiles open_results(Workplace& workplace, const std::vector<Result>& results);

/// Claims the disk space of those whose shape is known only now. Throws Error(io).
void begin_results(Workplace& workplace, const ArrayFiles& files,
                   const std::vector<Result>& results);

/// Claims the name of a file that rank 0 writes, in its process; null in the others, and if `path`
/// is empty. Throws as open_results().
std::shared_ptr<io::OutputFile> open_text_file(Workplace& workplace, const std::string& path);

/// Likewise that of the trace, of which rank 0 holds that of all.
std::shared_ptr<io::OutputFile> open_trace(Workplace& workplace);

/// Each rank writes the rows of its segment. Returns the seconds.
template <Scalar T>
double write_solution(Workplace& workplace, const RightHandSides<T>& x,
                      std::shared_ptr<ArrayFile> to);

/// Each rank writes what its rows are of the adjoint of x: columns. Returns the seconds.
template <Scalar T>
double write_adjoint(Workplace& workplace, const RightHandSides<T>& x,
                     std::shared_ptr<ArrayFile> to);

/// Each rank writes the columns of its slab. Returns the seconds.
template <Scalar T>
double write_hermitian(Workplace& workplace, const ShardedMatrix<T>& x,
                       std::shared_ptr<ArrayFile> to);

/// Each rank writes the columns of its slab, as far as the array has so many; in Fortran order they
/// lie side by side in the file. Returns the seconds.
template <Scalar T>
double write_columns(Workplace& workplace, const ShardedMatrix<T>& x,
                     std::shared_ptr<ArrayFile> to);

/// Rank 0 writes numbers that all processes have. Returns the seconds.
template <Scalar T>
double write_numbers(Workplace& workplace, std::vector<T> numbers, std::shared_ptr<ArrayFile> to);

/// Gives the outputs their names, all bytes of all of them being written first: all results get
/// theirs, or none does and what --force would have replaced stays. `trace` may be null, and so
/// `log`, which is written already. Up to here a request to stop is obeyed: Error(cancelled).
/// Returns the seconds.
double commit(Workplace& workplace, const ArrayFiles& results,
              const std::shared_ptr<io::OutputFile>& trace,
              const std::shared_ptr<io::OutputFile>& log = nullptr);

}  // namespace shardsolve::cli
