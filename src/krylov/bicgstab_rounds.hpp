/// The rounds of runtime/krylov/bicgstab.hpp.
#pragma once

#include "krylov/method_table.hpp"
#include "runtime/krylov/bicgstab.hpp"

namespace shardsolve::krylov::bicgstab {

enum Vector : std::uint8_t { shadow = own_vectors, p, y, v, z, t, vectors };

inline MethodTable rounds() {
  const Program direction =
      Program{.name = "direction"}
          .then({act_scale_x, UpdateKind::scale, vector_x, vector_x, 0, of_scale_x})
          .then({act_restore_best, UpdateKind::copy, vector_x, vector_best})
          .then({act_save_best, UpdateKind::copy, vector_best, vector_x})
          // p = r + beta (p - omega v)
          .then({act_new_direction, UpdateKind::copy, p, vector_r})
          .then({act_next_direction, UpdateKind::add_scaled, p, v, 0, minus_omega})
          .then({act_next_direction, UpdateKind::scale_add, p, vector_r, 0, of_beta})
          .then({act_load_x, UpdateKind::copy, y, vector_x})
          .then({act_round_x, UpdateKind::scale, y, y, 0, of_round_x})
          .then({act_round_x, UpdateKind::scale, y, y, 0, of_rounded_x})
          .then({act_load_ones, UpdateKind::ones, y});
  // A has M p before that is scaled, so its product is scaled for both.
  constexpr Unless no_m = Unless::skip_preconditioner;
  constexpr Unless no_second_m = Unless::skip_second_preconditioner;
  const Program first = Program{.name = "first product"}
                            .then({act_scale_m, UpdateKind::scale, y, y, 0, of_scale_m, no_m})
                            .then({act_scale_m, UpdateKind::scale, v, v, 0, of_scale_m, no_m})
                            .then({act_scale_a, UpdateKind::scale, v, v, 0, of_scale_a})
                            .then({act_residual, UpdateKind::subtract, v, vector_b, v})
                            .sum({act_iterate, shadow, v, 0, h_v})
                            .sum({act_always, v, v, 0, v_v})
                            .sum({act_always, y, y, 0, y_y})
                            .sum({act_iterate, p, p, 0, p_p})
                            .sum({act_measure_b, vector_b, vector_b, 0, b_b})
                            .sum({act_load_ones, y, vector_b, 0, b_b});
  const Program half_step =
      Program{.name = "half step"}  // x += alpha y, r -= alpha v
          .then({act_half_step, UpdateKind::add_scaled, vector_x, y, 0, plus_alpha})
          .then({act_half_step, UpdateKind::add_scaled, vector_r, v, 0, minus_alpha})
          .then({act_take_residual, UpdateKind::copy, vector_r, v})
          .sum({act_half_step, vector_r, vector_r, 0, s_s});
  const Program second =
      Program{.name = "second product"}
          .then({act_scale_m, UpdateKind::scale, z, z, 0, of_scale_m, no_second_m})
          .then({act_scale_m, UpdateKind::scale, t, t, 0, of_scale_m, no_second_m})
          .then({act_scale_a, UpdateKind::scale, t, t, 0, of_scale_a, no_second_m})
          .sum({act_half_step, t, vector_r, 0, t_s})
          .sum({act_half_step, t, t, 0, t_t})
          .sum({act_half_step, z, z, 0, z_z});
  const Program update =
      Program{.name = "update"}  // x += omega z, r -= omega t
          .then({act_advance, UpdateKind::add_scaled, vector_x, z, 0, plus_omega})
          .then({act_advance, UpdateKind::add_scaled, vector_r, t, 0, minus_omega})
          .then({act_new_shadow, UpdateKind::copy, shadow, vector_r})
          .then({act_random_shadow, UpdateKind::add_random, shadow, 0, 0, of_shadow})
          .sum({act_always, shadow, vector_r, 0, h_r})
          .sum({act_always, vector_r, vector_r, 0, r_r})
          .sum({act_new_shadow, shadow, shadow, 0, h_h});
  MethodTable table{.vectors = vectors,
                    .reductions = {{sums_after_first}, {sums_after_second}, {sums_after_update}}};
  return table.run(direction, after_first)
      .precondition(p, y, &State::skip_preconditioner)
      .multiply(y, v, &State::skip_operator)
      .run(first, after_first)
      .reduce(after_first)
      .run(half_step, after_second)
      .precondition(vector_r, z, &State::skip_second_preconditioner)
      .multiply(z, t, &State::skip_second_operator)
      .run(second, after_second)
      .reduce(after_second)
      .run(update, after_update)
      .reduce(after_update);
}

}  // namespace shardsolve::krylov::bicgstab
