#include "krylov/methods.hpp"

#include "core/each_dtype.hpp"
#include "krylov/bicgstab_rounds.hpp"
#include "krylov/cg_rounds.hpp"
#include "krylov/fgmres_rounds.hpp"
#include "krylov/minres_rounds.hpp"

#include <shardsolve/error.hpp>

namespace shardsolve::krylov {

std::vector<ReductionShape> reductions_of(const Problem& problem) {
  switch (problem.method) {
    case Method::cg:
      return {{cg::sums_after_operator, 0}, {cg::sums_after_preconditioner, 0}};
    case Method::minres:
      return {{minres::sums_after_operator, 0}, {minres::sums_after_preconditioner, 0}};
    case Method::bicgstab:
      return {{bicgstab::sums_after_first, 0},
              {bicgstab::sums_after_second, 0},
              {bicgstab::sums_after_update, 0}};
    case Method::fgmres: {
      const auto columns = static_cast<int>(problem.cycle);
      return {{fgmres::sums_after_operator, columns},
              {fgmres::sums_after_first, columns},
              {fgmres::sums_after_second, 0}};
    }
  }
  throw Error(ErrorKind::internal, "no such method: this is a bug of shardsolve");
}

template <Scalar T>
std::unique_ptr<MethodRounds<T>> make_method(const Problem& problem, Rounds<T>& rounds) {
  switch (problem.method) {
    case Method::cg:
      return std::make_unique<cg::CgRounds<T>>(rounds);
    case Method::minres:
      return std::make_unique<minres::MinresRounds<T>>(rounds);
    case Method::bicgstab:
      return std::make_unique<bicgstab::BicgstabRounds<T>>(rounds);
    case Method::fgmres:
      return std::make_unique<fgmres::FgmresRounds<T>>(problem, rounds);
  }
  throw Error(ErrorKind::internal, "no such method: this is a bug of shardsolve");
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template std::unique_ptr<MethodRounds<T>> make_method(const Problem&, Rounds<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
