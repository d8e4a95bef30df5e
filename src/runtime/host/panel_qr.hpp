/// QR of a panel by Householder's reflectors, on the CPU.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime::host {

/// See BandKernels::panel_qr. `work`: 3 a.columns()^2 elements.
template <Scalar T>
void panel_qr(MatrixView<T> a, MatrixView<T> r, MatrixView<T> t, T* work);

}  // namespace shardsolve::runtime::host
