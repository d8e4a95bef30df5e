/// The rounds of runtime/krylov/minres.hpp.
#pragma once

#include "krylov/method_table.hpp"
#include "runtime/krylov/minres.hpp"

namespace shardsolve::krylov::minres {

enum Vector : std::uint8_t { z = own_vectors, kept, q, y, v, v_before, w, w_before, vectors };

inline MethodTable rounds() {
  constexpr std::uint32_t step = act_advance | act_collect;
  const Program direction =
      Program{.name = "direction"}
          .then({act_scale_x, UpdateKind::scale, vector_x, vector_x, 0, of_scale_x})
          .then({act_restore_best, UpdateKind::copy, vector_x, vector_best})
          .then({act_save_best, UpdateKind::copy, vector_best, vector_x})
          .then({act_probe_first, UpdateKind::random, z, 0, 0, 1})
          .then({act_probe_first, UpdateKind::random, v, 0, 0, 2})
          .then({act_probe_second, UpdateKind::random, z, 0, 0, 2})
          .then({act_probe_second, UpdateKind::random, v, 0, 0, 1})
          // w+ = (z - a3 w- - a2 w) / a1, then w- = w, w = w+
          .then({step, UpdateKind::scale_add, w_before, z, 0, of_w_before})
          .then({step, UpdateKind::add_scaled, w_before, w, 0, of_w})
          .then({step, UpdateKind::copy, q, w})
          .then({step, UpdateKind::scale, w, w_before, 0, of_both})
          .then({step, UpdateKind::copy, w_before, q})
          // x += c+ eta w+, r = s+^2 r + (c+ eta+ / gamma+) v+
          .then({step, UpdateKind::add_scaled, vector_x, w, 0, of_step})
          .then({step, UpdateKind::scale, vector_r, vector_r, 0, of_r})
          .then({step, UpdateKind::add_scaled, vector_r, v, 0, of_v_in_r})
          .sum({act_advance, vector_r, vector_r, 0, r_r})
          .sum({step, w, w, 0, w_w});
  const Program basis =
      Program{.name = "basis"}
          .then({act_new_direction, UpdateKind::clear, w})
          .then({act_new_direction, UpdateKind::clear, w_before})
          // z = M v / gamma
          .then({act_new_direction | act_next_direction, UpdateKind::scale, z, y, 0, of_z})
          .then({act_keep_direction, UpdateKind::copy, z, kept})
          .then({act_new_direction | act_next_direction, UpdateKind::copy, kept, z})
          .then({act_load_x, UpdateKind::copy, z, vector_x})
          .then({act_round_x, UpdateKind::scale, z, z, 0, of_round_x})
          .then({act_round_x, UpdateKind::scale, z, z, 0, of_rounded_x})
          .then({act_load_ones, UpdateKind::ones, z});
  const Program product = Program{.name = "product"}
                              .then({act_scale_a, UpdateKind::scale, q, q, 0, of_scale_a})
                              .then({act_residual, UpdateKind::subtract, q, vector_b, q})
                              .sum({act_iterate, z, q, 0, z_q})
                              .sum({act_probe_first | act_probe_second, v, q, 0, z_q})
                              .sum({act_always, z, z, 0, z_z})
                              .sum({act_always, q, q, 0, q_q})
                              .sum({act_measure_b, vector_b, vector_b, 0, b_b})
                              .sum({act_load_ones, z, vector_b, 0, b_b});
  const Program lanczos =
      Program{.name = "lanczos"}  // v+ = q - (delta / gamma) v - (gamma / gamma-) v-
          .then({act_half_step, UpdateKind::add_scaled, q, v, 0, of_v})
          .then({act_half_step, UpdateKind::add_scaled, q, v_before, 0, of_v_before})
          .then({act_half_step, UpdateKind::copy, v_before, v})
          .then({act_half_step, UpdateKind::copy, v, q})
          .then({act_take_residual, UpdateKind::clear, v_before})
          .then({act_take_residual, UpdateKind::copy, v, q})
          .then({act_take_residual, UpdateKind::copy, vector_r, q})
          .sum({act_always, v, v, 0, v_v});
  const Program preconditioned =
      Program{.name = "preconditioned"}
          .then({act_scale_m, UpdateKind::scale, y, y, 0, of_scale_m, Unless::skip_preconditioner})
          .sum({act_half_step | act_take_residual, y, v, 0, y_v})
          .sum({act_probe_first | act_probe_second, z, y, 0, y_v})
          .sum({act_always, y, y, 0, y_y});
  MethodTable table{.vectors = vectors,
                    .reductions = {{sums_after_operator}, {sums_after_preconditioner}}};
  return table.run(direction, after_operator)
      .run(basis, after_operator)
      .multiply(z, q, &State::skip_operator)
      .run(product, after_operator)
      .reduce(after_operator)
      .run(lanczos, after_preconditioner)
      .precondition(v, y, &State::skip_preconditioner)
      .run(preconditioned, after_preconditioner)
      .reduce(after_preconditioner);
}

}  // namespace shardsolve::krylov::minres
