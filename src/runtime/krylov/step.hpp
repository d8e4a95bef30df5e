/// The one scalar step of all methods: the sums of a reduction in, what the kernels do next out.
#pragma once

#include "runtime/krylov/cg.hpp"

namespace shardsolve::krylov {

/// Before the first round, and nothing else: what the first kernels do.
SHARDSOLVE_HOST_DEVICE inline void begin(const Problem& problem, State& state) {
  switch (problem.method) {
    case Method::cg:
      cg::begin(problem, state);
      break;
    default:
      break;
  }
}

/// `reduction`: which one of a round, from 0. `stop`: whether any rank was asked to cancel.
SHARDSOLVE_HOST_DEVICE inline void step(const Problem& problem, State& state, const StateRoom& room,
                                        int reduction, bool stop, const Number* sums) {
  if (state.done != 0) {
    return;
  }
  int last = 0;
  switch (problem.method) {
    case Method::cg:
      last = cg::reductions - 1;
      reduction == 0 ? cg::step_after_operator(problem, state, room, sums)
                     : cg::step_after_preconditioner(problem, state, room, sums);
      break;
    default:
      break;
  }
  if (reduction < last || state.done != 0) {
    return;
  }
  ++state.rounds;
  if (is_ended_from_outside(problem, state, stop)) {
    plan_end(state, stop ? Status::cancelled : Status::max_iterations, 0.0);
    begin_check(state, Check::last);
  }
  keep_best_now(state);
}

}  // namespace shardsolve::krylov
