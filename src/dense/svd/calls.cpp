// The public calls of svd.hpp: each checks its arguments and chooses a way.

#include "core/each_dtype.hpp"
#include "dense/qr/powers.hpp"
#include "dense/svd/by_bidiagonal.hpp"
#include "dense/svd/by_polar.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/svd.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::dense::svd {
namespace {

template <Scalar T>
void require_shape(const RowBlocks<T>& a) {
  if (a.layout().size() == 0 || a.columns() == 0) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("a matrix of {} x {} was given: rows and columns are needed",
                            a.layout().size(), a.columns()));
  }
}

template <Scalar T>
void require_tall(const char* call, const RowBlocks<T>& a) {
  if (a.layout().size() < a.columns()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} of a matrix of {} x {}: at least as many rows as columns are "
                            "needed; of fewer rows take the adjoint",
                            call, a.layout().size(), a.columns()));
  }
}

/// Throws Error(invalid_argument) unless `given` has these rows and columns, cut as `layout` if
/// there is one.
template <Scalar T>
void require_result(const char* name, const RowBlocks<T>& given, std::int64_t rows,
                    std::int64_t columns, const SlabLayout* layout) {
  if (given.layout().size() != rows || given.columns() != columns) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} is {} x {}: {} x {} is what is written", name,
                            given.layout().size(), given.columns(), rows, columns));
  }
  if (layout != nullptr && given.layout().boundaries() != layout->boundaries()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("A and {} are cut at different rows: use one layout for both", name));
  }
}

/// Slabs of square matrices where the caller has none.
template <Scalar T>
SlabLayout even_columns(const RowBlocks<T>& a) {
  return SlabLayout::even(a.columns(), a.layout().ranks(), a.layout().tile());
}

template <Scalar T>
SingularValues<T> find(const Task<T>& task, const Places<T>& places) {
  const std::int64_t least = std::min(task.a.layout().size(), task.a.columns());
  return is_by_bidiagonal(least, task.mesh.memory()) ? svd_by_bidiagonal(task, places)
                                                     : svd_by_polar(task, places);
}

}  // namespace
}  // namespace shardsolve::dense::svd

namespace shardsolve {

using dense::svd::Task;
using dense::svd::Wanted;

template <Scalar T>
SingularValues<T> svd(Mesh& mesh, const RowBlocks<T>& a, RowBlocks<T> u, RowBlocks<T> v,
                      const RunOptions& options) {
  dense::svd::require_shape(a);
  const std::int64_t least = std::min(a.layout().size(), a.columns());
  dense::svd::require_result("u", u, a.layout().size(), least, &a.layout());
  dense::svd::require_result<T>("v", v, a.columns(), least, nullptr);
  const Task<T> task{"svd",
                     mesh,
                     a,
                     v.layout(),
                     Wanted::vectors,
                     options,
                     /*gathers=*/false,
                     programs::Apart().reads("A", a).writes("U", u).writes("V", v)};
  const bool is_wide = a.layout().size() < a.columns();
  return dense::svd::find<T>(task, {.u = is_wide ? v : u, .v = is_wide ? u : v, .vh = nullptr});
}

template <Scalar T>
SingularVectors<T> svd(Mesh& mesh, const RowBlocks<T>& a, RowBlocks<T> u,
                       const RunOptions& options) {
  dense::svd::require_shape(a);
  dense::svd::require_tall("svd with all of V everywhere", a);
  const std::int64_t n = a.columns();
  dense::svd::require_result("u", u, a.layout().size(), n, &a.layout());
  const auto vh = std::make_shared<std::vector<T>>();
  SingularValues<T> values =
      dense::svd::find<T>({"svd", mesh, a, dense::svd::even_columns(a), Wanted::vectors, options,
                           /*gathers=*/true, programs::Apart().reads("A", a).writes("U", u)},
                          {.u = u, .v = std::nullopt, .vh = vh});
  SingularVectors<T> found{std::move(values.values), {}, std::move(values.outcome)};
  if (!found.outcome.ok()) {
    return found;
  }
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      found.v.push_back(dense::qr::conjugate((*vh)[static_cast<std::size_t>(j + i * n)]));
    }
  }
  return found;
}

template <Scalar T>
SingularValues<T> svdvals(Mesh& mesh, const RowBlocks<T>& a, const RunOptions& options) {
  dense::svd::require_shape(a);
  return dense::svd::find<T>(
      {"svdvals", mesh, a, dense::svd::even_columns(a), Wanted::values, options}, {});
}

template <Scalar T>
Outcome polar(Mesh& mesh, const RowBlocks<T>& a, RowBlocks<T> u, ShardedMatrix<T> h,
              const RunOptions& options) {
  dense::svd::require_shape(a);
  dense::svd::require_tall("polar", a);
  dense::svd::require_result("u", u, a.layout().size(), a.columns(), &a.layout());
  if (h.layout().size() != a.columns()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("h is {0} x {0}: {1} x {1} is what is written", h.layout().size(),
                            a.columns()));
  }
  return dense::svd::polar_by_products<T>(
      {"polar", mesh, a, h.layout(), Wanted::polar, options,
       /*gathers=*/false, programs::Apart().reads("A", a).writes("U", u).writes("H", h)},
      u, h, nullptr);
}

template <Scalar T>
PolarFactor<T> polar(Mesh& mesh, const RowBlocks<T>& a, RowBlocks<T> u, const RunOptions& options) {
  dense::svd::require_shape(a);
  dense::svd::require_tall("polar", a);
  dense::svd::require_result("u", u, a.layout().size(), a.columns(), &a.layout());
  const auto h = std::make_shared<std::vector<T>>();
  const Outcome outcome = dense::svd::polar_by_products<T>(
      {"polar", mesh, a, dense::svd::even_columns(a), Wanted::polar, options,
       /*gathers=*/true, programs::Apart().reads("A", a).writes("U", u)},
      u, std::nullopt, h);
  if (!outcome.ok()) {
    return {{}, outcome};
  }
  return {std::move(*h), outcome};
}

#define SHARDSOLVE_INSTANTIATE(T)                                                               \
  template SingularVectors<T> svd(Mesh&, const RowBlocks<T>&, RowBlocks<T>, const RunOptions&); \
  template PolarFactor<T> polar(Mesh&, const RowBlocks<T>&, RowBlocks<T>, const RunOptions&);   \
  template SingularValues<T> svd(Mesh&, const RowBlocks<T>&, RowBlocks<T>, RowBlocks<T>,        \
                                 const RunOptions&);                                            \
  template SingularValues<T> svdvals(Mesh&, const RowBlocks<T>&, const RunOptions&);            \
  template Outcome polar(Mesh&, const RowBlocks<T>&, RowBlocks<T>, ShardedMatrix<T>,            \
                         const RunOptions&);

SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve
