#include "krylov/methods.hpp"

#include "core/each_dtype.hpp"
#include "krylov/tables.hpp"

namespace shardsolve::krylov {

std::vector<ReductionShape> reductions_of(const Problem& problem) {
  std::vector<ReductionShape> shapes;
  for (const TableReduction& one : table_of(problem.method).reductions) {
    shapes.push_back({one.fixed, one.over_columns ? static_cast<int>(problem.cycle) : 0});
  }
  return shapes;
}

template <Scalar T>
MethodRounds<T>::MethodRounds(const MethodTable& table, const Problem& problem, Rounds<T>& rounds)
    : table_(table) {
  for (int vector = own_vectors; vector < table.vectors; ++vector) {
    rounds.add_vector(vector);
  }
  for (const int matrix : table.matrices) {
    rounds.add_columns(matrix, problem.cycle);
  }
  for (const MethodTable::ColumnName& name : table.column_names) {
    rounds.add_column_name(name.number, name.of, name.which);
  }
  if (table.identity.output >= 0) {
    rounds.add_identity(table.identity.output, table.identity.input);
  }
  if (table.hessenberg != nullptr) {
    rounds.add_hessenberg(table.hessenberg(problem.cycle));
  }
}

template <Scalar T>
void MethodRounds<T>::enqueue(Rounds<T>& rounds) const {
  for (const Stage& stage : table_.stages) {
    switch (stage.kind) {
      case Stage::Kind::run:
        rounds.run(stage.program, stage.reduction);
        break;
      case Stage::Kind::multiply:
        rounds.multiply(stage.input, stage.output, stage.skip);
        break;
      case Stage::Kind::precondition:
        rounds.precondition(stage.input, stage.output, stage.skip);
        break;
      case Stage::Kind::reduce:
        rounds.reduce(stage.reduction);
        break;
    }
  }
}

template <Scalar T>
std::unique_ptr<MethodRounds<T>> make_method(const Problem& problem, Rounds<T>& rounds) {
  return std::make_unique<MethodRounds<T>>(table_of(problem.method), problem, rounds);
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template class MethodRounds<T>; \
  template std::unique_ptr<MethodRounds<T>> make_method(const Problem&, Rounds<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
