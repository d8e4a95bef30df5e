/// The first linear systems of the beam of examples/beam.
#pragma once

#include "examples/beam/banded_lu.hpp"
#include "examples/beam/cases.hpp"
#include "examples/beam/simulation.hpp"
#include "support/krylov_sparse.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing::krylov_problems {

struct BeamSystem {
  CsrMatrix<double> a;
  std::vector<double> b;
};

/// That of the first Newton iteration: 1275 unknowns, condition 6e6. Made once.
inline const BeamSystem& beam_system(const std::string& name, beam::Elimination elimination) {
  static std::map<std::pair<std::string, beam::Elimination>, BeamSystem> made;
  const auto found = made.find({name, elimination});
  if (found != made.end()) {
    return found->second;
  }
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
  return made.emplace(std::pair(name, elimination), std::move(first)).first->second;
}

}  // namespace shardsolve::testing::krylov_problems
