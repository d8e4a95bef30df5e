/// The rounds of runtime/krylov/fgmres.hpp.
#pragma once

#include "krylov/method_table.hpp"
#include "runtime/krylov/fgmres.hpp"

namespace shardsolve::krylov::fgmres {

enum Vector : std::uint8_t { v = own_vectors, z, q, all_v, all_z, this_v, this_z };

inline MethodTable rounds() {
  const Program direction =
      Program{.name = "direction"}
          .then({act_scale_x, UpdateKind::scale, vector_x, vector_x, 0, of_scale_x})
          .then({act_restore_best, UpdateKind::copy, vector_x, vector_best})
          .then({act_save_best, UpdateKind::copy, vector_best, vector_x})
          // x += Z y
          .then({act_collect, UpdateKind::add_columns, vector_x, all_z})
          .then({act_collect, UpdateKind::clear, v})
          .then({act_collect, UpdateKind::add_weak_columns, v, all_z})
          .then({act_new_direction, UpdateKind::scale, v, vector_r, 0, 0})
          .then({act_next_direction, UpdateKind::scale, v, q, 0, 0})
          .then({act_iterate, UpdateKind::copy, this_v, v})
          .then({act_load_x, UpdateKind::copy, z, vector_x})
          .then({act_round_x, UpdateKind::scale, z, z, 0, of_round_x})
          .then({act_round_x, UpdateKind::scale, z, z, 0, of_rounded_x})
          .then({act_load_ones, UpdateKind::ones, z});
  const Program keep_z =
      Program{.name = "keep z"}
          .then({act_scale_m, UpdateKind::scale, z, z, 0, of_scale_m, Unless::skip_preconditioner})
          .then({act_iterate, UpdateKind::copy, this_z, z});
  const Program product = Program{.name = "product"}
                              .then({act_scale_a, UpdateKind::scale, q, q, 0, of_scale_a})
                              .then({act_residual, UpdateKind::subtract, q, vector_b, q})
                              .sum({act_always, q, q, 0, q_q})
                              .sum({act_always, z, z, 0, z_z})
                              .sum({act_measure_b, vector_b, vector_b, 0, b_b})
                              .sum({act_load_ones, z, vector_b, 0, b_b})
                              .sum({act_collect, v, v, 0, v_v})
                              .sum({act_iterate, all_v, q, 1, sums_after_operator});
  const Program first = Program{.name = "orthogonalise"}
                            .then({act_half_step, UpdateKind::subtract_columns, q, all_v})
                            .then({act_take_residual, UpdateKind::copy, vector_r, q})
                            .sum({act_half_step, all_v, q, 1, sums_after_first});
  const Program second = Program{.name = "orthogonalise"}
                             .then({act_advance, UpdateKind::subtract_columns, q, all_v})
                             .sum({act_always, q, q, 0, q_q_second});
  MethodTable table{
      .vectors = all_v,
      .matrices = {all_v, all_z},
      .column_names = {{this_v, all_v, Column::current}, {this_z, all_z, Column::current}},
      .reductions = {{sums_after_operator, true}, {sums_after_first, true}, {sums_after_second}},
      .hessenberg = room_length};
  return table.run(direction, after_operator)
      .precondition(v, z, &State::skip_preconditioner)
      .run(keep_z, after_operator)
      .multiply(z, q, &State::skip_operator)
      .run(product, after_operator)
      .reduce(after_operator)
      .run(first, after_first)
      .reduce(after_first)
      .run(second, after_second)
      .reduce(after_second);
}

}  // namespace shardsolve::krylov::fgmres
