// solve(): by the family that A is assumed to be of.

#include "dense/cholesky/solve.hpp"

#include "core/each_dtype.hpp"
#include "dense/lu/solve.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

namespace shardsolve {

template <Scalar T>
Outcome solve(Mesh& mesh, ShardedMatrix<T> a, RightHandSides<T> b, const RunOptions& options,
              Rcond rcond, Assume assume) {
  if (!(a.layout() == b.layout())) {
    throw Error(ErrorKind::invalid_argument,
                "matrix and right-hand sides lie on different layouts: use the matrix's for both");
  }
  if (rcond != Rcond::estimated && rcond != Rcond::left_out) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("rcond = {} is no value of Rcond: pass Rcond::estimated or "
                            "Rcond::left_out",
                            static_cast<int>(rcond)));
  }
  switch (assume) {
    case Assume::positive_definite:
      return dense::cholesky::solve<T>(mesh, a, b, options, rcond);
    case Assume::general:
      return dense::lu::solve<T>(mesh, a, b, options, rcond);
  }
  throw Error(ErrorKind::unsupported,
              "solve() was given a value of Assume that this version does not have: "
              "Assume::positive_definite and Assume::general are accepted");
}

#define SHARDSOLVE_INSTANTIATE(T)                                                              \
  template Outcome solve(Mesh&, ShardedMatrix<T>, RightHandSides<T>, const RunOptions&, Rcond, \
                         Assume);

SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve
