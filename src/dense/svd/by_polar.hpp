/// Polar factors by QDWH, and singular values as the eigenvalues of the Hermitian one: products and
/// Cholesky factors of slabs, so that memory and work are spread over the ranks.
#pragma once

#include "dense/svd/task.hpp"

#include <shardsolve/outcome.hpp>
#include <shardsolve/svd.hpp>

#include <memory>
#include <optional>
#include <vector>

namespace shardsolve::dense::svd {

/// svd() or svdvals(), as the task wants it; `places` has what is wanted.
template <Scalar T>
SingularValues<T> svd_by_polar(const Task<T>& task, const Places<T>& places);

/// polar(): U, and H in `h` or in memory of the call; H goes to `all`, too, if that is not null.
template <Scalar T>
Outcome polar_by_products(const Task<T>& task, const RowBlocks<T>& u,
                          const std::optional<ShardedMatrix<T>>& h,
                          const std::shared_ptr<std::vector<T>>& all);

}  // namespace shardsolve::dense::svd
