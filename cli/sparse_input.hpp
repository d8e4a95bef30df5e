/// Sparse systems from files: every process has all of it.
#pragma once

#include "workplace.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/krylov_files.hpp>
#include <shardsolve/sparse.hpp>

#include <complex>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace shardsolve::cli {

template <Scalar T>
struct SparseSystem {
  CsrMatrix<T> a;  ///< square, in order; 0 x 0 if A was recorded
  std::int64_t n = 0;
  std::int64_t columns = 0;  ///< of b
  std::vector<T> b;          ///< n x columns, one after the other
  std::vector<T> guess;      ///< x0, likewise; empty if there is none
  std::optional<krylov::RecordedProducts<T>> recorded_a;
  std::optional<krylov::RecordedProducts<T>> recorded_m;
  /// Of multigrid, if they were asked for; the first one without its A.
  std::vector<krylov::MultigridLevel<T>> levels;

  /// One column of b or x0; of an x0 that is not there nothing.
  std::vector<T> column_of(const std::vector<T>& all, std::int64_t column) const {
    return all.empty() ? std::vector<T>()
                       : std::vector<T>(all.begin() + column * n, all.begin() + (column + 1) * n);
  }
};

/// What was read.
struct SparseInput {
  std::variant<SparseSystem<float>, SparseSystem<double>, SparseSystem<std::complex<float>>,
               SparseSystem<std::complex<double>>>
      system;
  std::vector<std::int64_t> shape;  ///< of b as its file has it: (n,) or (n, k)
  bool fortran_order = false;       ///< of b
  double seconds = 0.0;             ///< that reading took
};

/// Products in two files.
struct ProductPaths {
  std::string x;
  std::string y;
};

/// Where the parts of a system lie.
struct SparsePaths {
  std::string a;  ///< not looked at if A was recorded
  std::string b;
  std::string guess;  ///< empty if there is none
  std::optional<ProductPaths> recorded_a = std::nullopt;
  std::optional<ProductPaths> recorded_m = std::nullopt;
  std::string levels = {};  ///< folder of a multigrid hierarchy; empty if there is none
};

/// Whether the file's name ends in .npz or .mtx; if it ends in neither these nor .npy, whether it
/// begins like such a file. The same in all processes, as is the next.
bool is_sparse(Workplace& workplace, const std::string& path);

/// Throws Error: io if a file cannot be read; invalid_argument if it is something else, A is not
/// square or the processes have other files. b is empty; shape and order mean nothing.
SparseInput read_sparse_matrix(Workplace& workplace, const std::string& path);

/// Throws Error: io if a file cannot be read; invalid_argument if it is something else, A is not
/// square, b or x0 has other rows or another dtype, or they have not as many columns, levels of
/// multigrid are missing or of another dtype, or the processes have other files.
SparseInput read_sparse_system(Workplace& workplace, const SparsePaths& paths);

}  // namespace shardsolve::cli
