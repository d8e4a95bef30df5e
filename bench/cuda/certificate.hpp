/// What an outcome of ours says, for the report.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/outcome.hpp>

#include <nlohmann/json.hpp>

namespace shardsolve::bench {

template <Scalar T>
nlohmann::json certificate_of(const Outcome& outcome) {
  nlohmann::json certificate = {{"seconds", outcome.seconds}, {"flops", outcome.flops}};
  if (outcome.backward_error) {
    certificate["backward_error_in_u"] = *outcome.backward_error / unit_roundoff<T>;
  }
  if (outcome.rcond) {
    certificate["rcond"] = *outcome.rcond;
  }
  return certificate;
}

}  // namespace shardsolve::bench
