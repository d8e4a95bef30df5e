/// A factor kept in a file: factor once, solve in later runs.
#pragma once

#include <shardsolve/cholesky.hpp>
#include <shardsolve/dtype.hpp>
#include <shardsolve/export.hpp>
#include <shardsolve/lu.hpp>
#include <shardsolve/slab_layout.hpp>

#include <string>

namespace shardsolve {

/// What a factor file says about itself.
struct FactorFileInfo {
  /// What it holds: "cholesky", for load_factor, or "lu", for load_lu_factor.
  std::string kind;
  Dtype dtype = Dtype::float64;
  /// Size, boundaries and tile: the factor is solved with on a mesh of layout.ranks() ranks.
  SlabLayout layout;
  /// Version of shardsolve that wrote the file, "0.1.0".
  std::string version;
  /// none, or transpose if what is factored is A^T, as from JAX: solve with Transpose::transpose.
  Transpose of = Transpose::none;
};

/// Writes a factor to a file, which appears under `path` complete or not at all.
///
/// The file holds all that later solves and their certificates need: L and what is left of A,
/// A's diagonal, ||A||_1 and the layout, each part with a checksum. It takes the n^2 elements of
/// the slabs and little more; the disk space is claimed before anything is written. The slabs are
/// written side by side, wherever they lie: own memory or adopted, with gaps between the columns
/// or without. `factor` is only read. Format: docs/design/factor-files.md.
///
/// A file that exists is refused; with `overwrite` it is replaced once the new one is complete.
/// Throws Error: invalid_argument if the factor's outcome is not ok, if cholesky_inverse has
/// consumed it, if the layout has some thousands of ranks (its header is limited to 1 MiB) or if
/// the file exists; io if the directory is missing, the disk is full or fails.
template <Scalar T>
SHARDSOLVE_EXPORT void save_factor(const CholeskyFactor<T>& factor, const std::string& path,
                                   bool overwrite = false);

/// Likewise an LU factor, with its matrix, which later solves are certified and refined with: 2 n^2
/// elements. `of`: Transpose::transpose says to readers that what was factored is the transpose of
/// what the caller calls A. Throws Error as above: invalid_argument also if the factor has
/// overwritten its matrix, or is singular, or `of` is adjoint.
template <Scalar T>
SHARDSOLVE_EXPORT void save_factor(const LuFactor<T>& factor, const std::string& path,
                                   bool overwrite = false, Transpose of = Transpose::none);

/// Reads a factor back, into memory of its own and onto the layout that it was made on.
///
/// With the same version of shardsolve and of the BLAS it solves to the same bits, with the same
/// certificate, as the factor that was saved. Its outcome is ok and has no seconds and no flops.
/// Everything is checked before it is used: a file that is truncated or damaged, were it in a
/// single bit, is refused. Sections that a later version has added to such a factor are left out.
/// Moves the n^2 elements once, the slabs side by side.
///
/// Throws Error: invalid_argument if the file is no factor file, is damaged or not of dtype T;
/// unsupported if its format is of another version, or what it holds is of another kind or has an
/// attribute that this library does not know; out_of_memory, before the slabs are read, if they do
/// not fit; io if the file cannot be read.
template <Scalar T>
SHARDSOLVE_EXPORT CholeskyFactor<T> load_factor(const std::string& path);

/// Likewise an LU factor; its outcome has the growth too. Whether it is that of A^T is in
/// read_factor_info().
template <Scalar T>
SHARDSOLVE_EXPORT LuFactor<T> load_lu_factor(const std::string& path);

/// Reads and checks the header alone, and that the file is as long as it says: which dtype to load
/// as, and how many ranks the mesh must have. Throws Error as load_factor.
SHARDSOLVE_EXPORT FactorFileInfo read_factor_info(const std::string& path);

}  // namespace shardsolve
