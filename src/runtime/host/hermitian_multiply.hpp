/// A product with a Hermitian matrix of which half is there, read once and summed in twice the
/// precision.
#pragma once

#include "runtime/upper_part.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime::host {

/// Doubles that multiply_upper_part() keeps its sums in.
template <Scalar T>
std::int64_t upper_part_sums(const UpperPart<T, RealOf<T>>& a) {
  return (is_complex<T> ? 4 : 2) * a.begin[a.ranks];
}

/// See HermitianKernels::hermitian_multiply. `sums`: room for upper_part_sums() doubles.
template <Scalar T>
void multiply_upper_part(const UpperPart<T, RealOf<T>>& a, const T* x, T* y, double* sums);

/// See HermitianKernels::add_twofold.
template <Scalar T>
void add_to_twofold(MatrixView<const T> source, MatrixView<T> sums);

}  // namespace shardsolve::runtime::host
