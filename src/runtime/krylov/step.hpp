/// The one scalar step of all methods: the sums of a reduction in, what the kernels do next out.
#pragma once

#include "runtime/krylov/bicgstab.hpp"
#include "runtime/krylov/cg.hpp"
#include "runtime/krylov/fgmres.hpp"
#include "runtime/krylov/minres.hpp"

namespace shardsolve::krylov {

SHARDSOLVE_HOST_DEVICE inline void begin_first_round(const Problem& problem, State& state) {
  state.matvecs = 0;
  if (problem.probes != 0) {
    begin_probe(state, act_probe_first);
  } else {
    begin_check(problem, state, Check::start);
  }
}

/// Before the first round, and nothing else: what the first kernels do. `exponent`: b is worked on
/// times 2^that, and the guess likewise but for 2^guess_exponent; then its parts are less than
/// 2^guess_size.
SHARDSOLVE_HOST_DEVICE inline void begin(const Problem& problem, State& state, int exponent = 0,
                                         int guess_exponent = 0, int guess_size = 0) {
  state.atol = ldexp(problem.atol, exponent);
  state.guess_exponent = guess_exponent;
  state.guess_size = guess_size;
  state.exponent_of_b = exponent;
  begin_first_round(problem, state);
}

/// Reductions of a round, at most and of each method.
constexpr int max_reductions = 3;
SHARDSOLVE_HOST_DEVICE inline int reductions_of(Method method) {
  return method == Method::cg         ? int{cg::reductions}
         : method == Method::minres   ? int{minres::reductions}
         : method == Method::bicgstab ? int{bicgstab::reductions}
                                      : int{fgmres::reductions};
}

SHARDSOLVE_HOST_DEVICE inline void step_of_method(const Problem& problem, State& state,
                                                  const StateRoom& room, int reduction,
                                                  const Number* sums) {
  switch (problem.method) {
    case Method::cg:
      reduction == cg::after_operator ? cg::step_after_operator(problem, state, room, sums)
                                      : cg::step_after_preconditioner(problem, state, room, sums);
      break;
    case Method::minres:
      reduction == minres::after_operator
          ? minres::step_after_operator(problem, state, room, sums)
          : minres::step_after_preconditioner(problem, state, room, sums);
      break;
    case Method::bicgstab:
      reduction == bicgstab::after_first ? bicgstab::step_after_first(problem, state, room, sums)
      : reduction == bicgstab::after_second
          ? bicgstab::step_after_second(problem, state, room, sums)
          : bicgstab::step_after_update(problem, state, room, sums);
      break;
    case Method::fgmres:
      reduction == fgmres::after_operator ? fgmres::step_after_operator(problem, state, room, sums)
      : reduction == fgmres::after_first  ? fgmres::step_after_first(problem, state, room, sums)
                                          : fgmres::step_after_second(problem, state, room, sums);
      break;
  }
}

/// `reduction`: which one of a round, from 0. `stop`: whether any rank was asked to cancel.
SHARDSOLVE_HOST_DEVICE inline void step(const Problem& problem, State& state, const StateRoom& room,
                                        int reduction, bool stop, const Number* sums) {
  if (state.done != 0) {
    return;
  }
  step_of_method(problem, state, room, reduction, sums);
  if (reduction + 1 < reductions_of(problem.method) || state.done != 0) {
    return;
  }
  ++state.rounds;
  if (is_ended_from_outside(problem, state, stop)) {
    const bool is_in_cycle = problem.method == Method::fgmres && state.phase == Phase::iterate &&
                             state.plan == Plan::go_on;
    plan_end(state, stop ? Status::cancelled : Status::max_iterations, 0.0);
    if (is_in_cycle) {
      fgmres::collect(problem, state, room, state.column);
    }
  }
  if (state.plan == Plan::begin_anew) {
    begin_first_round(problem, state);
  } else if (state.plan == Plan::check) {
    begin_check(problem, state, state.check);
  }
  if (state.collects != 0) {
    state.actions |= act_collect;
    state.collects = 0;
  }
  keep_best_now(state);
}

}  // namespace shardsolve::krylov
