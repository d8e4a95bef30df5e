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
#include <string>
#include <vector>

namespace shardsolve::cli {

/// An array in the making.
struct ArrayFile {
  /// `origin`: what OutputFile takes, the kind of temporary file or the one to join in on.
  template <class Origin>
  ArrayFile(const std::string& path, io::Overwrite overwrite, const Origin& origin, Dtype dtype,
            std::vector<std::int64_t> shape, bool fortran_order)
      : file(path, overwrite, origin), writer(file, dtype, std::move(shape), fortran_order) {}

  io::OutputFile file;
  io::NpyWriter writer;
};

/// Throws Error(invalid_argument) if two outputs, or an output and an input, are the same file,
/// also through links.
void require_distinct_files(const Options& options);

/// Claims the name and the disk space of the result. Several processes write to one file, which the
/// one of rank 0 makes: without a name, if all are on one machine. Throws Error(invalid_argument)
/// if the name is taken and may not be replaced, Error(io) if it cannot be written.
std::shared_ptr<ArrayFile> open_result(Workplace& workplace, Dtype dtype,
                                       const std::vector<std::int64_t>& shape, bool fortran_order);

/// Claims the name of the trace, in the process of rank 0, which holds that of all; null in the
/// others, and if none is asked for. Throws as open_result().
std::shared_ptr<io::OutputFile> open_trace(Workplace& workplace);

/// Each rank writes the rows of its segment. Returns the seconds.
template <Scalar T>
double write_solution(Workplace& workplace, const RightHandSides<T>& x,
                      std::shared_ptr<ArrayFile> to);

/// Each rank writes the columns of its slab. Returns the seconds.
template <Scalar T>
double write_hermitian(Workplace& workplace, const ShardedMatrix<T>& x,
                       std::shared_ptr<ArrayFile> to);

/// Gives the outputs their names, all bytes of all of them being written first. Either may be null.
/// Up to here a request to stop is obeyed: Error(cancelled). Returns the seconds.
double commit(Workplace& workplace, const std::shared_ptr<ArrayFile>& result,
              const std::shared_ptr<io::OutputFile>& trace);

}  // namespace shardsolve::cli
