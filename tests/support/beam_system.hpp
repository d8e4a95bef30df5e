/// The first linear systems of the beam of examples/beam.
#pragma once

#include "examples/beam/banded_lu.hpp"
#include "examples/beam/cases.hpp"
#include "examples/beam/simulation.hpp"
#include "support/krylov_sparse.hpp"

#include <string>
#include <utility>

namespace shardsolve::testing::krylov_problems {

struct BeamSystem {
  CsrMatrix<double> a;
  std::vector<double> b;
};

/// That of the first Newton iteration: 1275 unknowns, condition 6e6.
inline BeamSystem beam_system(const std::string& name, beam::Elimination elimination) {
  beam::Settings settings;
  settings.until = 0.005;
  settings.elimination = elimination;
  BeamSystem first;
  beam::BandedLu lu;
  beam::simulate(beam::case_named(name), settings,
                 [&](const beam::Csr& a, const beam::Vector& b, double rtol, beam::Vector& x) {
                   if (first.b.empty()) {
                     first = {{a.rows(), a.rows(), a.row_pointers, a.column_indices, a.values}, b};
                   }
                   return lu(a, b, rtol, x);
                 });
  return first;
}

}  // namespace shardsolve::testing::krylov_problems
