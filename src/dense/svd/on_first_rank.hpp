/// Singular values by LAPACK on the first rank: of a square matrix, or of R. On a few CPU ranks it
/// takes less time than what is spread over them.
#pragma once

#include "dense/svd/task.hpp"

#include <shardsolve/svd.hpp>

namespace shardsolve::dense::svd {

/// svd() or svdvals(), as the task wants it; `places` has what is wanted.
template <Scalar T>
SingularValues<T> svd_on_first_rank(const Task<T>& task, const Places<T>& places);

}  // namespace shardsolve::dense::svd
