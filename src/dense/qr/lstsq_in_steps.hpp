/// lstsq() of many columns.
#pragma once

#include "dense/qr/program.hpp"

#include <shardsolve/mesh.hpp>
#include <shardsolve/qr.hpp>
#include <shardsolve/run_options.hpp>

namespace shardsolve::dense::qr {

/// As lstsq(), of arguments that have been checked.
template <Scalar T>
LeastSquares<T> lstsq_in_steps(Mesh& mesh, const RowBlocks<T>& a, const RowBlocks<T>& b,
                               const Request& request, const RunOptions& options);

}  // namespace shardsolve::dense::qr
