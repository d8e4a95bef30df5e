/// A method as data: its vectors, its reductions, and what a round of it does. Read by Rounds, and
/// by the calls of the JAX package; what the scalar step does in a round: src/runtime/krylov.
#pragma once

#include "runtime/krylov/program.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::krylov {

/// Vectors that every method has; its own begin with number `own_vectors`.
enum CommonVector : std::uint8_t { vector_b, vector_x, vector_best, vector_r, own_vectors };

/// Sums of a reduction: `fixed` of their own, and then one for each column of a basis.
struct TableReduction {
  int fixed = 0;
  bool over_columns = false;

  /// How many there are at most, with a basis of so many columns.
  int slots(std::int64_t cycle) const {
    return fixed + (over_columns ? static_cast<int>(cycle) : 0);
  }
};

/// One thing that a round does. The state says, by actions and flags, what of it.
struct Stage {
  enum class Kind : std::uint8_t {
    run,           ///< a kernel, whose sums belong to `reduction`
    multiply,      ///< output = A input, unless the flag `skip` is set
    precondition,  ///< output = M input, likewise
    reduce,        ///< sums of all ranks, and the step
  };
  Kind kind{};
  int reduction = 0;
  Program program = {};
  int input = 0;
  int output = 0;
  std::int32_t State::* skip = nullptr;

  bool is_product() const { return kind == Kind::multiply || kind == Kind::precondition; }
};

/// The flag of a preconditioner's product as an update heeds it.
inline Unless unless(std::int32_t State::* skip) {
  return skip == &State::skip_preconditioner ? Unless::skip_preconditioner
                                             : Unless::skip_second_preconditioner;
}

struct MethodTable {
  /// The numbers from 0 on are one vector each.
  int vectors = own_vectors;
  /// Numbers of matrices of `cycle` columns.
  std::vector<int> matrices = {};
  /// A number that stands for one column of a matrix, as the state says, or for a vector.
  struct ColumnName {
    int number;
    int of;
    Column which;
  };
  std::vector<ColumnName> column_names = {};
  /// Where M is the identity, number `output` stands for the vector `input`; none if output is -1.
  struct Identity {
    int output = -1;
    int input = -1;
  };
  Identity identity = {};
  std::vector<TableReduction> reductions = {};
  /// Numbers that StateRoom::hessenberg takes, with a basis of so many columns.
  std::int64_t (*hessenberg)(std::int64_t cycle) = nullptr;
  std::vector<Stage> stages = {};

  MethodTable& run(const Program& program, int reduction) {
    stages.push_back({.kind = Stage::Kind::run, .reduction = reduction, .program = program});
    return *this;
  }
  MethodTable& multiply(int input, int output, std::int32_t State::* skip) {
    stages.push_back(
        {.kind = Stage::Kind::multiply, .input = input, .output = output, .skip = skip});
    return *this;
  }
  MethodTable& precondition(int input, int output, std::int32_t State::* skip) {
    stages.push_back(
        {.kind = Stage::Kind::precondition, .input = input, .output = output, .skip = skip});
    return *this;
  }
  MethodTable& reduce(int reduction) {
    stages.push_back({.kind = Stage::Kind::reduce, .reduction = reduction});
    return *this;
  }
};

}  // namespace shardsolve::krylov
