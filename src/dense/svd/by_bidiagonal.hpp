/// Singular values by a bidiagonal form, on CPU ranks: an eighth of the operations that polar
/// factors take, but as many as half of them wait for memory, and LAPACK's part is one rank's.
#pragma once

#include "dense/svd/task.hpp"

#include <shardsolve/svd.hpp>

namespace shardsolve::dense::svd {

/// svd() or svdvals(), as the task wants it; `places` has what is wanted.
template <Scalar T>
SingularValues<T> svd_by_bidiagonal(const Task<T>& task, const Places<T>& places);

}  // namespace shardsolve::dense::svd
