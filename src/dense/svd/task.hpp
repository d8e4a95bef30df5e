/// What a call for singular values or polar factors is asked for, and where its results go.
#pragma once

#include "dense/svd/problem.hpp"
#include "programs/apart.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/qr.hpp>
#include <shardsolve/run_options.hpp>
#include <shardsolve/sharded.hpp>
#include <shardsolve/slab_layout.hpp>

#include <memory>
#include <optional>
#include <vector>

namespace shardsolve::dense::svd {

/// A call, whose arguments have been checked.
template <Scalar T>
struct Task {
  const char* name;  ///< in messages
  Mesh& mesh;
  RowBlocks<T> a;
  SlabLayout of_columns;  ///< of what has as many rows as A columns
  Wanted wanted;
  RunOptions options;
  /// Whether a square result, V or H, is to go to the memory of each process, too.
  bool gathers = false;
  /// A and where results go.
  programs::Apart apart = {};
};

/// Where vectors go: those of A or, if A has fewer rows than columns, of A^H.
template <Scalar T>
struct Places {
  std::optional<RowBlocks<T>> u;
  std::optional<RowBlocks<T>> v;
  std::shared_ptr<std::vector<T>> vh;  ///< all of V^H, column-major, if that is wanted
};

}  // namespace shardsolve::dense::svd
