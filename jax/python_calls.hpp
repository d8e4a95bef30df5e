/// Functions that Python calls itself, by ctypes. Nothing of them throws.
#pragma once

#include "jax/records.hpp"

#include <shardsolve/error.hpp>

#include <cstdint>
#include <exception>

#define SHARDSOLVE_API extern "C" __attribute__((visibility("default")))

namespace shardsolve::jax {

/// Runs `body` and writes what became of it.
template <class Body>
void report(std::int32_t* verdict, Body body) {
  Verdict result;
  try {
    body();
  } catch (const Error& error) {
    result = verdict_of(error);
  } catch (const std::exception& error) {
    result = verdict_of(Error(ErrorKind::internal, error.what()));
  }
  write(result, verdict);
}

}  // namespace shardsolve::jax
