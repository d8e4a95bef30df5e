/// The input files: what they may be, and each rank's share of them.
#pragma once

#include "io/npy.hpp"
#include "workplace.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/outcome.hpp>
#include <shardsolve/sharded.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::cli {

/// An input file that is open, its header read and found good.
struct Input {
  std::shared_ptr<const io::NpyReader> reader;
  std::int64_t columns = 0;

  const std::string& path() const { return reader->path(); }
  Dtype dtype() const { return reader->header().dtype; }
  const std::vector<std::int64_t>& shape() const { return reader->header().shape; }
  bool fortran_order() const { return reader->header().fortran_order; }
  /// Whether load_matrix() gives A^H: lines of the file are rows of A.
  bool is_adjoint() const { return !io::npy_lines(reader->header(), reader->path()).are_columns; }
};

/// Throws Error(io) if the file cannot be read, Error(invalid_argument) if it is no square matrix.
Input open_matrix(const std::string& path);

/// Throws as open_matrix, if rows or dtype are not those of the matrix `a`.
Input open_right_hand_sides(const std::string& path, const Input& a);

/// Throws as open_matrix, if shape or dtype are not those of the matrix `a`.
Input open_second_matrix(const std::string& path, const Input& a);

/// Throws Error(invalid_argument) unless both have one dtype; the message says what to save.
void require_same_dtype(const Input& a, const Input& b, std::string_view name_of_b);

/// What makes two dtypes one without loss: "A.astype(...)", "b.astype(...)" or both.
std::string cast_advice(Dtype a, Dtype b, std::string_view name_of_b);

/// Throws Error(invalid_argument) unless the files are the same in all processes, as far as size,
/// time and a sample of the contents tell.
void require_same_files(Workplace& workplace, const std::vector<Input>& inputs);

template <class Data>
struct Loaded {
  Data data;
  double seconds;
};

/// Each rank reads the columns of its slab, and nothing else. Throws Error(io) if the file is
/// written to meanwhile, as does the other.
template <Scalar T>
Loaded<ShardedMatrix<T>> load_matrix(Workplace& workplace, const Input& a,
                                     const SlabLayout& layout);

/// Each rank reads the rows of its segment.
template <Scalar T>
Loaded<RightHandSides<T>> load_right_hand_sides(Workplace& workplace, const Input& b,
                                                const SlabLayout& layout);

/// The location of an outcome as the file has it: from a file in C order the matrix is read as its
/// conjugate transpose.
std::optional<Location> location_in_file(const Outcome& outcome, const Input& a);

}  // namespace shardsolve::cli
