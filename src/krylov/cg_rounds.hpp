/// The rounds of runtime/krylov/cg.hpp.
#pragma once

#include "krylov/method_table.hpp"
#include "runtime/krylov/cg.hpp"

namespace shardsolve::krylov::cg {

/// `kept`: p while x takes its place, in the memory of z.
enum Vector : std::uint8_t { z = own_vectors, p, q, vectors, kept = vectors };

inline MethodTable rounds() {
  const Program direction =
      Program{.name = "direction"}
          .then({act_scale_x, UpdateKind::scale, vector_x, vector_x, 0, of_scale_x})
          .then({act_collect, UpdateKind::add_scaled, vector_x, p, 0, 0})
          .then({act_restore_best, UpdateKind::copy, vector_x, vector_best})
          .then({act_save_best, UpdateKind::copy, vector_best, vector_x})
          .then({act_probe_first, UpdateKind::random, p, 0, 0, 1})
          .then({act_probe_first, UpdateKind::random, vector_r, 0, 0, 2})
          .then({act_probe_second, UpdateKind::random, p, 0, 0, 2})
          .then({act_probe_second, UpdateKind::random, vector_r, 0, 0, 1})
          // p = z + beta p
          .then({act_new_direction, UpdateKind::copy, p, z})
          .then({act_next_direction, UpdateKind::scale_add, p, z, 0, 2})
          .then({act_take_kept, UpdateKind::copy, p, kept})
          .then({act_keep_direction, UpdateKind::copy, kept, p})
          .then({act_load_x, UpdateKind::copy, p, vector_x})
          .then({act_round_x, UpdateKind::scale, p, p, 0, of_round_x})
          .then({act_round_x, UpdateKind::scale, p, p, 0, of_rounded_x})
          .then({act_load_ones, UpdateKind::ones, p})
          .usually(act_always | act_collect | act_next_direction, true);
  const Program curvature = Program{.name = "curvature"}
                                .then({act_scale_a, UpdateKind::scale, q, q, 0, of_scale_a})
                                .then({act_residual, UpdateKind::subtract, q, vector_b, q})
                                .sum({act_iterate, p, q, 0, p_q})
                                .sum({act_probe_first | act_probe_second, vector_r, q, 0, p_q})
                                .sum({act_always, p, p, 0, p_p})
                                .sum({act_always, q, q, 0, q_q})
                                .sum({act_measure_b, vector_b, vector_b, 0, b_b})
                                .sum({act_load_ones, p, vector_b, 0, b_b})
                                .usually(act_always | act_iterate, true);
  const Program advance = Program{.name = "advance"}  // r -= alpha q
                              .then({act_advance, UpdateKind::add_scaled, vector_r, q, 0, 1})
                              .then({act_take_residual, UpdateKind::copy, vector_r, q})
                              .sum({act_always, vector_r, vector_r, 0, r_r})
                              .usually(act_always | act_advance);
  const Program preconditioned =
      Program{.name = "preconditioned"}
          .then({act_scale_m, UpdateKind::scale, z, z, 0, of_scale_m, Unless::skip_preconditioner})
          .sum({act_advance | act_take_residual, vector_r, z, 0, r_z})
          .sum({act_probe_first | act_probe_second, p, z, 0, r_z})
          .sum({act_always, z, z, 0, z_z})
          .usually(act_always | act_advance);
  MethodTable table{.vectors = vectors,
                    .column_names = {{kept, z, Column::none}},
                    .identity = {.output = z, .input = vector_r},
                    .reductions = {{sums_after_operator}, {sums_after_preconditioner}}};
  return table.run(direction, after_operator)
      .multiply(p, q, &State::skip_operator)
      .run(curvature, after_operator)
      .reduce(after_operator)
      .run(advance, after_preconditioner)
      .precondition(vector_r, z, &State::skip_preconditioner)
      .run(preconditioned, after_preconditioner)
      .reduce(after_preconditioner);
}

}  // namespace shardsolve::krylov::cg
