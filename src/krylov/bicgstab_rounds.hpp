/// The rounds of runtime/krylov/bicgstab.hpp.
#pragma once

#include "krylov/rounds.hpp"
#include "runtime/krylov/bicgstab.hpp"

namespace shardsolve::krylov::bicgstab {

template <Scalar T>
class BicgstabRounds final : public MethodRounds<T> {
 public:
  explicit BicgstabRounds(Rounds<T>& rounds) {
    for (const int vector : {shadow, p, y, v, z, t}) {
      rounds.add_vector(vector);
    }
  }

  void enqueue(Rounds<T>& rounds) override {
    static const Program direction =
        Program{.name = "direction"}
            .then({act_restore_best, UpdateKind::copy, vector_x, vector_best})
            .then({act_save_best, UpdateKind::copy, vector_best, vector_x})
            // p = r + beta (p - omega v)
            .then({act_new_direction, UpdateKind::copy, p, vector_r})
            .then({act_next_direction, UpdateKind::add_scaled, p, v, 0, minus_omega})
            .then({act_next_direction, UpdateKind::scale_add, p, vector_r, 0, of_beta})
            .then({act_load_x, UpdateKind::copy, y, vector_x});
    static const Program first = Program{.name = "first product"}
                                     .then({act_residual, UpdateKind::subtract, v, vector_b, v})
                                     .sum({act_iterate, shadow, v, 0, h_v})
                                     .sum({act_always, v, v, 0, v_v})
                                     .sum({act_always, y, y, 0, y_y})
                                     .sum({act_iterate, p, p, 0, p_p})
                                     .sum({act_measure_b, vector_b, vector_b, 0, b_b});
    static const Program half_step =
        Program{.name = "half step"}  // x += alpha y, r -= alpha v
            .then({act_half_step, UpdateKind::add_scaled, vector_x, y, 0, plus_alpha})
            .then({act_half_step, UpdateKind::add_scaled, vector_r, v, 0, minus_alpha})
            .then({act_take_residual, UpdateKind::copy, vector_r, v})
            .sum({act_half_step, vector_r, vector_r, 0, s_s});
    static const Program second = Program{.name = "second product"}
                                      .sum({act_half_step, t, vector_r, 0, t_s})
                                      .sum({act_half_step, t, t, 0, t_t})
                                      .sum({act_half_step, z, z, 0, z_z});
    static const Program update =
        Program{.name = "update"}  // x += omega z, r -= omega t
            .then({act_advance, UpdateKind::add_scaled, vector_x, z, 0, plus_omega})
            .then({act_advance, UpdateKind::add_scaled, vector_r, t, 0, minus_omega})
            .then({act_new_shadow, UpdateKind::copy, shadow, vector_r})
            .then({act_random_shadow, UpdateKind::add_random, shadow, 0, 0, of_shadow})
            .sum({act_always, shadow, vector_r, 0, h_r})
            .sum({act_always, vector_r, vector_r, 0, r_r})
            .sum({act_new_shadow, shadow, shadow, 0, h_h});
    rounds.run(direction, after_first);
    rounds.precondition(p, y, &State::skip_preconditioner);
    rounds.multiply(y, v, &State::skip_operator);
    rounds.run(first, after_first);
    rounds.reduce(after_first);
    rounds.run(half_step, after_second);
    rounds.precondition(vector_r, z, &State::skip_second_preconditioner);
    rounds.multiply(z, t, &State::skip_second_operator);
    rounds.run(second, after_second);
    rounds.reduce(after_second);
    rounds.run(update, after_update);
    rounds.reduce(after_update);
  }

 private:
  enum Vector : std::uint8_t { shadow = own_vectors, p, y, v, z, t };
};

}  // namespace shardsolve::krylov::bicgstab
