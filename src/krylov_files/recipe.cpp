// Preconditioners by name.

#include "core/each_dtype.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/krylov_files.hpp>

namespace shardsolve::krylov {

std::string_view name(Recipe::Kind kind) {
  switch (kind) {
    case Recipe::Kind::none:
      return "none";
    case Recipe::Kind::jacobi:
      return "jacobi";
    case Recipe::Kind::block_jacobi:
      return "block-jacobi";
    case Recipe::Kind::incomplete_cholesky:
      return "ic0";
    case Recipe::Kind::incomplete_lu:
      return "ilu0";
    case Recipe::Kind::recorded:
      return "recorded";
    case Recipe::Kind::chebyshev:
      return "chebyshev";
    case Recipe::Kind::multigrid:
      return "multigrid";
  }
  return "unknown";
}

template <Scalar T>
std::optional<Operator<T>> make_preconditioner(const Recipe& recipe, const CsrMatrix<T>& a,
                                               const Operator<T>* product) {
  switch (recipe.kind) {
    case Recipe::Kind::none:
      return std::nullopt;
    case Recipe::Kind::jacobi:
      return Operator<T>::jacobi(a);
    case Recipe::Kind::block_jacobi:
      return Operator<T>::block_jacobi(recipe.blocks, a);
    case Recipe::Kind::incomplete_cholesky:
      return Operator<T>::incomplete_cholesky(recipe.blocks, a);
    case Recipe::Kind::incomplete_lu:
      return Operator<T>::incomplete_lu(recipe.blocks, a);
    case Recipe::Kind::recorded:
      throw Error(ErrorKind::invalid_argument,
                  "a preconditioner that was recorded has no recipe: replay its products, or take "
                  "another one");
    case Recipe::Kind::multigrid:
      throw Error(ErrorKind::invalid_argument,
                  "multigrid has levels beside A: make it by Operator::multigrid");
    case Recipe::Kind::chebyshev: {
      if (product == nullptr) {
        throw Error(ErrorKind::invalid_argument,
                    "chebyshev is made of products with A: give the operator as well");
      }
      const EigenvalueBounds bounds = chebyshev_bounds(a);
      return Operator<T>::chebyshev(*product, bounds.low, bounds.high, recipe.degree);
    }
  }
  return std::nullopt;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                             \
  template std::optional<Operator<T>> make_preconditioner(const Recipe&, const CsrMatrix<T>&, \
                                                          const Operator<T>*);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
