/// What a job needs, known before anything is allocated.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/export.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace shardsolve {

/// What a job takes, from shapes alone. Bytes are those of the rank that needs most.
struct SHARDSOLVE_EXPORT Plan {
  std::int64_t ranks = 0;
  std::int64_t tile = 0;
  std::int64_t matrix_bytes = 0;           ///< the slab of A
  std::int64_t right_hand_side_bytes = 0;  ///< its rows of B
  /// What the call takes beside them. The mesh keeps it for its next call, unless it was lent (by
  /// JAX). What kernels of GPUs keep, up to 64 MiB a queue, is not in it.
  std::int64_t workspace_bytes = 0;
  double flops = 0.0;        ///< real operations, all ranks together
  double bytes_moved = 0.0;  ///< received from other ranks, all together

  std::int64_t bytes() const { return matrix_bytes + right_hand_side_bytes + workspace_bytes; }
  /// Throws Error(out_of_memory) with both figures if `needed` bytes on each of the ranks exceed
  /// `available` bytes on each. `job` is named in the message.
  void require(std::int64_t needed, std::int64_t available, std::string_view job) const;
};

/// cholesky_factor of a matrix on this layout.
SHARDSOLVE_EXPORT Plan plan_cholesky_factor(const SlabLayout& layout, Dtype dtype);
/// cholesky_solve with `columns` right-hand sides, the factor given. Throws
/// Error(invalid_argument) unless 0 <= columns <= SlabLayout::largest_size.
SHARDSOLVE_EXPORT Plan plan_cholesky_solve(const SlabLayout& layout, Dtype dtype,
                                           std::int64_t columns);
/// cholesky_half of `columns` columns, the factor given, whichever half; as plan_cholesky_solve.
SHARDSOLVE_EXPORT Plan plan_cholesky_half(const SlabLayout& layout, Dtype dtype,
                                          std::int64_t columns);
/// cholesky_inverse, the factor given.
SHARDSOLVE_EXPORT Plan plan_cholesky_inverse(const SlabLayout& layout, Dtype dtype);

/// lu_factor of a matrix on this layout; A and its factor are the matrix bytes.
SHARDSOLVE_EXPORT Plan plan_lu_factor(const SlabLayout& layout, Dtype dtype);
/// lu_factor in the place of A, which with its sketch is the matrix bytes.
SHARDSOLVE_EXPORT Plan plan_lu_factor_in_place(const SlabLayout& layout, Dtype dtype);
/// lu_solve with `columns` right-hand sides, the factor given; as plan_cholesky_solve.
SHARDSOLVE_EXPORT Plan plan_lu_solve(const SlabLayout& layout, Dtype dtype, std::int64_t columns);
/// lu_inverse of a factor beside its matrix, both given.
SHARDSOLVE_EXPORT Plan plan_lu_inverse(const SlabLayout& layout, Dtype dtype);
/// lu_inverse of a factor that has overwritten its matrix.
SHARDSOLVE_EXPORT Plan plan_lu_inverse_in_place(const SlabLayout& layout, Dtype dtype);

/// qr of as many columns, with Q; the layout is that of the rows.
SHARDSOLVE_EXPORT Plan plan_qr(const SlabLayout& layout, Dtype dtype, std::int64_t columns);
/// least_squares, lstsq or ridge, likewise, with `sides` right-hand sides: of whichever needs most;
/// what lstsq of many columns keeps between its steps is in the workspace. `memory`: of the mesh,
/// as for plan_svd. Throws Error(invalid_argument) as plan_cholesky_solve.
SHARDSOLVE_EXPORT Plan plan_least_squares(const SlabLayout& layout, Dtype dtype,
                                          std::int64_t columns, std::int64_t sides,
                                          Memory memory = Memory::device);

/// eigh of a matrix on this layout, of which the boundaries count: with eigenvectors, as many as
/// the matrix has, or without. `factor_tile`: of the factor of B, if there is one.
SHARDSOLVE_EXPORT Plan plan_eigh(const SlabLayout& layout, Dtype dtype, bool vectors,
                                 std::optional<std::int64_t> factor_tile = std::nullopt);

/// svd of as many columns, or svdvals; the layout is that of the rows. Square matrices are taken to
/// be cut evenly, in tiles of the same size. What the call keeps between its steps is in the
/// workspace. `memory`: of the mesh, as CPU devices go another way than GPUs.
SHARDSOLVE_EXPORT Plan plan_svd(const SlabLayout& layout, Dtype dtype, std::int64_t columns,
                                bool vectors, Memory memory = Memory::device);
/// polar, likewise.
SHARDSOLVE_EXPORT Plan plan_polar(const SlabLayout& layout, Dtype dtype, std::int64_t columns);

/// The tile size that CPU devices use when none is asked for and no TileTable has another: a
/// function of the shape alone, so that results are the same bits everywhere.
SHARDSOLVE_EXPORT std::int64_t default_tile(std::int64_t n, std::int64_t ranks, Dtype dtype);

/// Bytes of host memory that this process can still take: the machine's, or its control groups'.
SHARDSOLVE_EXPORT std::int64_t available_host_memory();

}  // namespace shardsolve
