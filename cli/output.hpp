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
  ArrayFile(const std::string& path, bool force, Dtype dtype, std::vector<std::int64_t> shape,
            bool fortran_order)
      : file(path, force), writer(file, dtype, std::move(shape), fortran_order) {}

  io::OutputFile file;
  io::NpyWriter writer;
};

/// Throws Error(invalid_argument) if two outputs, or an output and an input, are the same file,
/// also through links.
void require_distinct_files(const Options& options);

/// Claims the name and the disk space of the result. Throws Error(invalid_argument) if the name is
/// taken and may not be replaced, Error(io) if it cannot be written.
std::shared_ptr<ArrayFile> open_result(const Options& options, Dtype dtype,
                                       std::vector<std::int64_t> shape, bool fortran_order);

/// The same for the trace; nothing if none is asked for.
std::unique_ptr<io::OutputFile> open_trace(const Options& options);

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
double commit(const Workplace& workplace, ArrayFile* result, io::OutputFile* trace);

}  // namespace shardsolve::cli
