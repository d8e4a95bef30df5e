/// What bench has to say, as text or JSON.
#pragma once

#include "timing.hpp"

#include <shardsolve/dtype.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardsolve::cli::bench {

/// What was timed.
struct BenchSubject {
  std::string_view job;    ///< for scripts: "cholesky"
  std::string_view title;  ///< for people: "Cholesky"
  std::int64_t n = 0;
  Dtype dtype = Dtype::float64;
  std::string backend;  ///< "cpu" or "cuda"
  std::int64_t devices = 0;
  bool processes = false;            ///< each device is one
  std::string device;                ///< Mesh::device_kind()
  std::optional<std::int64_t> tile;  ///< of routines that have one, as the next three
  std::string tile_text;             ///< with where it comes from, for people
  std::string tile_origin;           ///< "option", "table" or "library"
  std::string tile_table;            ///< file of the table that has it; empty if none has
  std::string blas;
};

/// A call whose answer misses its gate has no speed in either.
std::string text_of(const BenchSubject& subject, const BenchResult& result);
std::string json_of(const BenchSubject& subject, const BenchResult& result);

}  // namespace shardsolve::cli::bench
