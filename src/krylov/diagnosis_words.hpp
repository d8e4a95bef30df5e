/// What a diagnosis comes to, in sentences.
#pragma once

#include <shardsolve/diagnose.hpp>

namespace shardsolve::krylov {

/// Fills findings and answer from the figures and trials.
void add_words(Diagnosis& diagnosis);

}  // namespace shardsolve::krylov
