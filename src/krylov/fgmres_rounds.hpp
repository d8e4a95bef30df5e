/// The rounds of runtime/krylov/fgmres.hpp.
#pragma once

#include "krylov/rounds.hpp"
#include "runtime/krylov/fgmres.hpp"

namespace shardsolve::krylov::fgmres {

template <Scalar T>
class FgmresRounds final : public MethodRounds<T> {
 public:
  FgmresRounds(const Problem& problem, Rounds<T>& rounds) {
    using Column = typename Vectors<T>::Column;
    for (const int vector : {v, z, q}) {
      rounds.add_vector(vector);
    }
    rounds.add_columns(all_v, problem.cycle);
    rounds.add_columns(all_z, problem.cycle);
    rounds.add_column_name(this_v, all_v, Column::current);
    rounds.add_column_name(this_z, all_z, Column::current);
    rounds.add_hessenberg(room_length(problem.cycle));
  }

  void enqueue(Rounds<T>& rounds) override {
    static const Program direction =
        Program{.name = "direction"}
            .then({act_restore_best, UpdateKind::copy, vector_x, vector_best})
            .then({act_save_best, UpdateKind::copy, vector_best, vector_x})
            // x += Z y
            .then({act_collect, UpdateKind::add_columns, vector_x, all_z})
            .then({act_new_direction, UpdateKind::scale, v, vector_r, 0, 0})
            .then({act_next_direction, UpdateKind::scale, v, q, 0, 0})
            .then({act_iterate, UpdateKind::copy, this_v, v})
            .then({act_load_x, UpdateKind::copy, z, vector_x});
    static const Program keep_z =
        Program{.name = "keep z"}.then({act_iterate, UpdateKind::copy, this_z, z});
    static const Program product = Program{.name = "product"}
                                       .then({act_residual, UpdateKind::subtract, q, vector_b, q})
                                       .sum({act_always, q, q, 0, q_q})
                                       .sum({act_always, z, z, 0, z_z})
                                       .sum({act_measure_b, vector_b, vector_b, 0, b_b})
                                       .sum({act_iterate, all_v, q, 1, sums_after_operator});
    static const Program first = Program{.name = "orthogonalise"}
                                     .then({act_half_step, UpdateKind::subtract_columns, q, all_v})
                                     .then({act_take_residual, UpdateKind::copy, vector_r, q})
                                     .sum({act_half_step, all_v, q, 1, sums_after_first});
    static const Program second = Program{.name = "orthogonalise"}
                                      .then({act_advance, UpdateKind::subtract_columns, q, all_v})
                                      .sum({act_always, q, q, 0, q_q_second});
    rounds.run(direction, after_operator);
    rounds.precondition(v, z, &State::skip_preconditioner);
    rounds.run(keep_z, after_operator);
    rounds.multiply(z, q, &State::skip_operator);
    rounds.run(product, after_operator);
    rounds.reduce(after_operator);
    rounds.run(first, after_first);
    rounds.reduce(after_first);
    rounds.run(second, after_second);
    rounds.reduce(after_second);
  }

 private:
  enum Vector : std::uint8_t { v = own_vectors, z, q, all_v, all_z, this_v, this_z };
};

}  // namespace shardsolve::krylov::fgmres
