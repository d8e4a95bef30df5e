/// The tables of all methods.
#pragma once

#include "krylov/bicgstab_rounds.hpp"
#include "krylov/cg_rounds.hpp"
#include "krylov/fgmres_rounds.hpp"
#include "krylov/minres_rounds.hpp"

#include <array>
#include <cstddef>

namespace shardsolve::krylov {

/// Lives as long as the library.
inline const MethodTable& table_of(Method method) {
  static const auto& tables = *new std::array<MethodTable, 4>{cg::rounds(), minres::rounds(),
                                                              bicgstab::rounds(), fgmres::rounds()};
  return tables.at(static_cast<std::size_t>(method));
}

}  // namespace shardsolve::krylov
