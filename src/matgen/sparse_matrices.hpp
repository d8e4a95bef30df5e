/// Sparse matrices for tests and benchmarks, on the host. Entries are small integers or random
/// numbers that any process computes alike.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/sparse.hpp>

#include <cstdint>

namespace shardsolve::matgen {

/// The 7-point Laplacian on a grid of edge^3 points, x fastest: 6 on the diagonal, -1 for each
/// neighbour. Symmetric positive definite, condition about (2 (edge + 1) / pi)^2.
/// Throws Error(invalid_argument) if edge < 0 or edge^3 is more than a SlabLayout takes.
template <Scalar T>
CsrMatrix<T> laplacian_3d(std::int64_t edge);

/// -Laplacian(u) + (cx, cy) . grad(u) by central differences on a grid of edge^2 points, x fastest,
/// times the square of the distance h of points: 4 on the diagonal, -1 - cx and -1 + cx for the
/// neighbours before and behind in x, -1 - cy and -1 + cy in y, if (cx, cy) are the velocities
/// times h / 2. Not symmetric unless both are 0.
/// Throws Error(invalid_argument) if edge < 0 or edge^2 is more than a SlabLayout takes.
template <Scalar T>
CsrMatrix<T> convection_diffusion_2d(std::int64_t edge, double cx, double cy);

/// Rows of 0 to `most` entries at random places, whose parts are uniform in [-1, 1): `most` / 2 on
/// average; fewer where a place comes twice. Rows and columns may be empty.
/// Throws Error(invalid_argument) if a size is negative.
template <Scalar T>
CsrMatrix<T> random_sparse(std::int64_t rows, std::int64_t columns, std::int64_t most,
                           std::uint64_t seed);

}  // namespace shardsolve::matgen
