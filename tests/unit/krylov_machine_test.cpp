// The verdict machine as data tables: scalar sequences in, phase and status out.

#include "runtime/krylov/step.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace shardsolve::testing::krylov_machine {
namespace {

using krylov::Method;
using krylov::Number;
using krylov::Phase;
using krylov::Problem;
using krylov::State;
using krylov::StateRoom;
using krylov::Status;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// The sums of one reduction, and what is to be seen after it.
struct Step {
  std::vector<double> sums;
  Phase phase = Phase::iterate;
  Status status = Status::running;
};

struct Case {
  std::string name;
  Method method = Method::cg;
  std::vector<Step> steps;
  std::int64_t max_iterations = 100;
  double atol = 0.0;
  double rtol = 1e-6;
};

Problem problem_of(const Case& one) {
  Problem problem;
  problem.method = one.method;
  problem.n = 4;
  problem.cycle = 2;
  problem.roundoff = 0x1p-53;
  problem.breakdown = 1e-14;
  problem.asymmetry = 1e-12;
  problem.growth = 1e4;
  problem.rtol = one.rtol;
  problem.atol = one.atol;
  problem.max_iterations = one.max_iterations;
  problem.drift_every = 50;
  problem.records = 64;
  return problem;
}

// cg: reductions {<p, q>, ||p||^2, ||q||^2, ||b||^2} and {||r||^2, <r, z>, ||z||^2}.
// Round 1 is the check of the guess.
const Step guess{{0, 0, 1, 1}};        // ||b|| = ||b - A x0|| = 1
const Step preconditioned{{1, 1, 1}};  // r'z > 0
const Step curved{{1, 1, 1, 0}};       // p'Ap > 0
// Of the last product of a solve that has failed, with the vector of ones, which is not mapped to
// 0; of bicgstab with one sum more, which is not looked at.
const std::vector<double> of_ones{0, 1, 1, 0, 0};

/// Four times in a row the recurrence says converged and ||b - A x||^2 is `squared`; only the first
/// time that is less than before.
Case kept_up(const std::string& name, double squared, Status status) {
  Case one{name, Method::cg, {guess}};
  for (int time = 0; time < 4; ++time) {
    one.steps.push_back(preconditioned);
    one.steps.push_back(curved);
    one.steps.push_back({{1e-60, 1, 1}, Phase::verify});
    one.steps.push_back({{0, 1, squared, 0}});
  }
  one.steps.push_back({{0, 0, 0}, Phase::verify});
  one.steps.push_back({{0, 1, squared, 0}});
  one.steps.push_back({{0, 0, 0}, Phase::verify});
  one.steps.push_back({of_ones, Phase::done, status});
  one.rtol = 1e-13;
  return one;
}

std::vector<Case> cases() {
  using enum Status;
  const Step recheck{{0, 1, 0.25, 0}, Phase::iterate};
  return {
      {"cg_guess_within_tolerance",
       Method::cg,
       {{{0, 0, 1e-14, 1}, Phase::done, converged_at_start}}},
      {"cg_one_step",
       Method::cg,
       {guess,
        preconditioned,
        curved,
        {{1e-13, 1, 1}, Phase::verify},
        {{0, 1, 1e-13, 0}, Phase::done, converged_rtol}}},
      {"cg_atol",
       Method::cg,
       {guess,
        preconditioned,
        curved,
        {{1e-7, 1, 1}, Phase::verify},
        {{0, 1, 1e-7, 0}, Phase::done, converged_atol}},
       100,
       1e-3},
      {"cg_recurrence_lies_then_restarts",
       Method::cg,
       {guess, preconditioned, curved, {{1e-13, 1, 1}, Phase::verify}, recheck, {{0.25, 1, 1}}}},
      {"cg_stagnates_after_three_checks_without_gain",
       Method::cg,
       {guess,
        preconditioned,
        curved,
        {{1e-13, 1, 1}, Phase::verify},
        {{0, 1, 1, 0}},
        preconditioned,
        curved,
        {{1e-13, 1, 1}, Phase::verify},
        {{0, 1, 1, 0}},
        preconditioned,
        curved,
        {{1e-13, 1, 1}, Phase::verify},
        {{0, 1, 1, 0}, Phase::verify},
        {{0, 0, 0}, Phase::verify},
        {{0, 1, 1, 0}},
        {{0, 0, 0}, Phase::verify},
        {of_ones, Phase::done, stagnated}}},
      // ||A||, ||x|| and ||b|| are 1: rounding may leave 4e-15, and 1e5 times that if no probe has
      // seen how large ||A|| is.
      kept_up("cg_small_residual_that_no_restart_lowers", 1e-24, accuracy_limit),
      kept_up("cg_residual_too_large_for_rounding", 1e-18, stagnated),
      {"cg_negative_curvature",
       Method::cg,
       {guess,
        preconditioned,
        {{-1, 1, 1, 0}},
        {{0, 0, 0}, Phase::verify},
        {{0, 0, 1, 0}},
        {{0, 0, 0}, Phase::verify},
        {of_ones, Phase::done, indefinite_operator}}},
      {"cg_zero_curvature_restarts_first",
       Method::cg,
       {guess,
        preconditioned,
        {{1e-15, 1, 1, 0}},
        {{0, 0, 0}, Phase::restart},
        {{0, 0, 1, 0}, Phase::iterate}}},
      {"cg_negative_preconditioner",
       Method::cg,
       {guess,
        {{1, -1, 1}, Phase::verify},
        {{0, 0, 1, 0}, Phase::done, indefinite_preconditioner}}},
      {"cg_nan_from_the_operator",
       Method::cg,
       {guess,
        preconditioned,
        {{nan, 1, nan, 0}},
        {{0, 0, 0}, Phase::verify},
        {{0, 0, 1, 0}, Phase::done, nonfinite_operator}}},
      {"cg_nan_from_the_operator_also_in_the_last_check",
       Method::cg,
       {guess,
        preconditioned,
        {{nan, 1, nan, 0}},
        {{0, 0, 0}, Phase::verify},
        {{0, 0, nan, 0}, Phase::done, nonfinite_operator}}},
      {"cg_nan_from_the_preconditioner",
       Method::cg,
       {guess,
        {{1, nan, nan}, Phase::verify},
        {{0, 0, 1, 0}, Phase::done, nonfinite_preconditioner}}},
      {"cg_nan_at_the_start", Method::cg, {{{0, 0, nan, 1}, Phase::done, nonfinite_operator}}},
      {"cg_limit",
       Method::cg,
       {guess,
        preconditioned,
        curved,
        {{0.5, 1, 1}, Phase::verify},
        {{0, 1, 0.5, 0}},
        {{0, 0, 0}, Phase::verify},
        {of_ones, Phase::done, max_iterations}},
       1},
      {"cg_limit_where_the_recurrence_lies",
       Method::cg,
       {guess,
        preconditioned,
        curved,
        {{1e-13, 1, 1}, Phase::verify},
        {{0, 1, 0.25, 0}, Phase::verify},
        {{0, 0, 0}, Phase::verify},
        {{0, 1, 0.25, 0}},
        {{0, 0, 0}, Phase::verify},
        {of_ones, Phase::done, max_iterations}},
       1},
      {"cg_limit_but_within_tolerance",
       Method::cg,
       {guess,
        preconditioned,
        curved,
        {{0.5, 1, 1}, Phase::verify},
        {{0, 1, 1e-13, 0}, Phase::done, converged_rtol}},
       1},
      {"cg_last_x_is_worse_than_the_one_that_was_kept",
       Method::cg,
       {guess,
        preconditioned,
        curved,
        {{0.5, 1, 1}, Phase::verify},
        {{0, 1, 100, 0}},
        {{0, 0, 0}, Phase::verify},
        {{0, 1, 1, 0}},
        {{0, 0, 0}, Phase::verify},
        {of_ones, Phase::done, max_iterations}},
       1},
      {"cg_direction_that_is_mapped_to_zero",
       Method::cg,
       {guess,
        preconditioned,
        curved,
        {{0.25, 0.25, 0.25}},
        {{1e-18, 0.3125, 1e-19, 0}},
        {{0, 0, 0}, Phase::verify},
        {{0, 1, 0.25, 0}},
        {{0, 0, 0}, Phase::verify},
        {of_ones, Phase::done, singular_operator}}},
      {"cg_ones_that_are_mapped_to_zero_and_b_has_a_part_of",
       Method::cg,
       {guess,
        preconditioned,
        curved,
        {{0.5, 1, 1}, Phase::verify},
        {{0, 1, 0.5, 0}},
        {{0, 0, 0}, Phase::verify},
        {{0, 4, 1e-40, 1}, Phase::done, singular_operator}},
       1},
      {"cg_ones_that_are_mapped_to_zero_and_b_has_no_part_of",
       Method::cg,
       {guess,
        preconditioned,
        curved,
        {{0.5, 1, 1}, Phase::verify},
        {{0, 1, 0.5, 0}},
        {{0, 0, 0}, Phase::verify},
        {{0, 4, 1e-40, 1e-20}, Phase::done, max_iterations}},
       1},
      {"cg_growth_restarts_from_the_best",
       Method::cg,
       {guess, preconditioned, curved, {{1e10, 1, 1}, Phase::restart}}},
      {"cg_growth_twice_from_the_same_best_ends",
       Method::cg,
       {guess,
        preconditioned,
        curved,
        {{0.001, 1, 1}},
        {{1, 1, 1, 0}},
        {{1e10, 1, 1}, Phase::restart},
        {{0, 1, 0.001, 0}},
        {{0.001, 1, 1}},
        curved,
        {{1e10, 1, 1}, Phase::restart},
        {{0, 1, 0.001, 0}, Phase::verify},
        {{0, 0, 0}, Phase::verify},
        {{0, 1, 0.001, 0}},
        {{0, 0, 0}, Phase::verify},
        {of_ones, Phase::done, diverged}}},
      // bicgstab: {<r^, v>, ||v||^2, ||y||^2, ||p||^2, ||b||^2}, {||s||^2, <t, s>, ||t||^2,
      // ||z||^2},
      // {<r^, r>, ||r||^2, ||r^||^2}.
      {"bicgstab_half_step_is_enough",
       Method::bicgstab,
       {{{0, 1, 0, 0, 1}},
        {{0, 0, 0, 0}},
        {{1, 1, 1}},
        {{1, 1, 1, 1, 0}},
        {{0, 0, 0, 0}},
        {{0, 0, 0}, Phase::verify},
        {{0, 0, 1, 0, 0}, Phase::done, converged_rtol}}},
      {"bicgstab_sigma",
       Method::bicgstab,
       {{{0, 1, 0, 0, 1}},
        {{0, 0, 0, 0}},
        {{1, 1, 1}},
        {{0, 1, 1, 1, 0}},
        {{0, 0, 0, 0}},
        {{0, 0, 0}, Phase::restart},
        {{0, 1, 0, 0, 0}},
        {{0, 0, 0, 0}},
        {{1, 1, 1}},
        {{0, 1, 1, 1, 0}},
        {{0, 0, 0, 0}},
        {{0, 0, 0}, Phase::restart},
        {{0, 1, 0, 0, 0}},
        {{0, 0, 0, 0}},
        {{1, 1, 1}},
        {{0, 1, 1, 1, 0}},
        {{0, 0, 0, 0}},
        {{0, 0, 0}, Phase::restart},
        {{0, 1, 0, 0, 0}, Phase::restart},
        {{0, 0, 0, 0}, Phase::restart},
        {{0, 0, 0}, Phase::verify},
        {{0, 1, 0, 0, 0}},
        {{0, 0, 0, 0}},
        {{0, 0, 0}, Phase::verify},
        {of_ones, Phase::done, breakdown_sigma}}},
      {"bicgstab_omega_restarts",
       Method::bicgstab,
       {{{0, 1, 0, 0, 1}},
        {{0, 0, 0, 0}},
        {{1, 1, 1}},
        {{1, 1, 1, 1, 0}},
        {{0.5, 0, 1, 1}},
        {{0, 0, 0}, Phase::restart}}},
      {"bicgstab_rho_restarts",
       Method::bicgstab,
       {{{0, 1, 0, 0, 1}},
        {{0, 0, 0, 0}},
        {{1, 1, 1}},
        {{1, 1, 1, 1, 0}},
        {{0.5, 0.5, 1, 1}},
        {{1e-15, 0.25, 0}, Phase::restart}}},
      // minres: {<z, q>, ||z||^2, ||q||^2, ||b||^2, ||r||^2}, {<y, v>, ||y||^2, ||v||^2}.
      {"minres_happy",
       Method::minres,
       {{{0, 0, 1, 1, 0}},
        {{1, 1, 1}},
        {{1, 1, 1, 0, 0}},
        {{0, 0, 0}, Phase::verify},
        {{0, 1, 0, 0, 0}, Phase::done, happy_breakdown}}},
      {"minres_indefinite_preconditioner",
       Method::minres,
       {{{0, 0, 1, 1, 0}},
        {{-1, 1, 1}, Phase::verify},
        {{0, 0, 1, 0, 0}, Phase::done, indefinite_preconditioner}}},
  };
}

TEST(KrylovMachine, ScalarSequences_GiveThePhaseAndTheStatus) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Problem problem = problem_of(one);
    State state;
    std::vector<krylov::Record> records(64);
    std::vector<Number> factors(3);
    std::vector<Number> hessenberg(32);
    const StateRoom room{nullptr, records.data(), factors.data(), hessenberg.data()};
    krylov::begin(problem, state);
    int reduction = 0;
    for (std::size_t i = 0; i < one.steps.size(); ++i) {
      std::vector<Number> sums;
      for (const double sum : one.steps[i].sums) {
        sums.push_back({sum, 0.0});
      }
      krylov::step(problem, state, room, reduction, false, sums.data());
      EXPECT_EQ(static_cast<int>(state.status), static_cast<int>(one.steps[i].status)) << i;
      if (state.done == 0 && reduction + 1 < krylov::reductions_of(one.method)) {
        ++reduction;
        continue;  // a round is seen at its end
      }
      EXPECT_EQ(static_cast<int>(state.phase), static_cast<int>(one.steps[i].phase)) << i;
      reduction = 0;
    }
    if (one.steps.back().status != Status::running) {
      EXPECT_EQ(state.done, 1);
      EXPECT_EQ(state.actions, 0U);
      State same = state;
      krylov::step(problem, same, room, 0, true, nullptr);
      EXPECT_EQ(same.rounds, state.rounds);
    }
  }
}

/// A solve by bicgstab that is driven by the sums of each round.
class Bicgstab {
 public:
  explicit Bicgstab(const Problem& problem) : problem_(problem) { krylov::begin(problem_, state_); }

  void round(const std::vector<std::vector<double>>& sums_of_reductions) {
    for (std::size_t reduction = 0; reduction < sums_of_reductions.size(); ++reduction) {
      std::vector<Number> sums;
      for (const double sum : sums_of_reductions[reduction]) {
        sums.push_back({sum, 0.0});
      }
      krylov::step(problem_, state_, StateRoom{nullptr, records_.data(), nullptr, nullptr},
                   static_cast<int>(reduction), false, sums.data());
    }
  }

  [[nodiscard]] const State& state() const { return state_; }

 private:
  Problem problem_;
  State state_;
  std::vector<krylov::Record> records_ = std::vector<krylov::Record>(64);
};

TEST(KrylovMachine, BicgstabThatComesBackToWhereItBegan_TakesAnotherShadow) {
  Problem problem = problem_of({"", Method::bicgstab, {}, 1000});
  problem.drift_every = 1000;
  const std::vector<std::vector<double>> one_step{{1, 1, 1, 1, 0}, {0.5, 0.5, 1, 1}, {1, 1, 1}};
  const std::vector<std::vector<double>> far_too_large{
      {1, 1, 1, 1, 0}, {0.5, 0.5, 1, 1}, {1, 1e10, 1}};
  for (const bool has_stop_between : {false, true}) {
    Bicgstab solve(problem);
    solve.round({{0, 1, 0, 0, 1}, {0, 0, 0, 0}, {1, 1, 1}});
    for (int time = 0; time < 3; ++time) {
      for (std::int64_t iteration = 0; iteration <= krylov::far_iterations; ++iteration) {
        solve.round(one_step);
      }
      if (has_stop_between) {  // a breakdown, from whose x it goes on
        solve.round({{1, 1, 1, 1, 0}, {0.5, 0.5, 1, 1}, {1e-20, 25, 1}});
        EXPECT_EQ(solve.state().phase, Phase::restart);
        solve.round({{0, 25, 0, 0, 0}, {0, 0, 0, 0}, {25, 25, 25}});
      }
      solve.round(far_too_large);
      EXPECT_EQ(solve.state().phase, Phase::restart);
      const auto seed = solve.state().seed;
      solve.round({{0, 1, 0, 0, 0}, {0, 0, 0, 0}, {1, 1, 1}});  // the guess again
      EXPECT_EQ(solve.state().phase, Phase::iterate);
      EXPECT_NE(solve.state().seed, seed);
    }
  }
}

TEST(KrylovMachine, Numbers_AreDividedWithoutOverflow) {
  const Number big{1e300, 1e300};
  const Number one = krylov::divided(big, big);
  EXPECT_EQ(one.re, 1.0);
  EXPECT_EQ(one.im, 0.0);
  EXPECT_DOUBLE_EQ(krylov::magnitude({3e200, 4e200}), 5e200);
  const Number real = krylov::divided({1.0, 0.0}, {3.0, 0.0});
  EXPECT_EQ(real.re, 1.0 / 3.0);
  EXPECT_EQ(real.im, 0.0);
}

}  // namespace
}  // namespace shardsolve::testing::krylov_machine
