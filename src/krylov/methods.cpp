#include "krylov/methods.hpp"

#include "core/each_dtype.hpp"
#include "krylov/cg_rounds.hpp"

#include <shardsolve/error.hpp>

namespace shardsolve::krylov {

std::vector<ReductionShape> reductions_of(const Problem& problem) {
  switch (problem.method) {
    case Method::cg:
      return {{cg::sums_after_operator, 0}, {cg::sums_after_preconditioner, 0}};
    default:
      break;
  }
  throw Error(ErrorKind::internal, "no such method: this is a bug of shardsolve");
}

template <Scalar T>
std::unique_ptr<MethodRounds<T>> make_method(const Problem& problem, Rounds<T>& rounds) {
  switch (problem.method) {
    case Method::cg:
      return std::make_unique<cg::CgRounds<T>>(rounds);
    default:
      break;
  }
  throw Error(ErrorKind::internal, "no such method: this is a bug of shardsolve");
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template std::unique_ptr<MethodRounds<T>> make_method(const Problem&, Rounds<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
