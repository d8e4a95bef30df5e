/// What doctor has to say, as text or JSON.
#pragma once

#include "choice.hpp"
#include "findings.hpp"
#include "measure.hpp"
#include "surroundings.hpp"

#include <optional>
#include <string>

namespace shardsolve::cli::doctor {

struct Diagnosis {
  Surroundings surroundings;
  Choice choice;
  Findings findings;
  std::optional<Rates> rates;  ///< with --measure

  bool has_errors() const;
};

/// For people: what there is, what will be used, what is wrong.
std::string text_of(const Diagnosis& diagnosis);
/// One JSON object with the same; what is not there is null.
std::string json_of(const Diagnosis& diagnosis);

}  // namespace shardsolve::cli::doctor
