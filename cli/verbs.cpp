#include "verb.hpp"

namespace shardsolve::cli {

std::span<const Verb* const> verbs() {
  static constexpr const Verb* table[] = {
      &solve_verb,    &lstsq_verb,        &inverse_verb, &logdet_verb, &eigh_verb, &svd_verb,
      &diagnose_verb, &compare_logs_verb, &replay_verb,  &doctor_verb, &tune_verb, &bench_verb};
  return table;
}

}  // namespace shardsolve::cli
