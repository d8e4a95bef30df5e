#include "jax/kept_factor.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

namespace shardsolve::jax {

void require_made_for(const Job& job, const FactorRecord& record) {
  if (record.n != job.n || record.devices != job.devices) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("this factor was made of {} rows on {} devices and is used as one of "
                            "{} rows on {}: use it with the sharding that it was made on, or "
                            "factor again",
                            record.n, record.devices, job.n, job.devices));
  }
  if (record.ranks != job.ranks) {
    throw Error(ErrorKind::invalid_argument,
                "this factor was made by one CPU device for all, as small ones are, and is used "
                "on GPUs: factor again there");
  }
}

}  // namespace shardsolve::jax
