/// Requests, records and verdicts as JSON, and back.
#pragma once

#include "io/strict_json.hpp"

#include <shardsolve/krylov_files.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace shardsolve::krylov::files {

using io::Json;
using io::JsonObject;

Json to_json(const Request& request);
/// The verdict without its records.
Json verdict_to_json(const Result& result);

// These throw io::JsonFault; keys that are not known are left out.

Request request_of(const JsonObject& object);
Result verdict_of(const JsonObject& object);
LogRecord record_of(const JsonObject& object);

/// "auto", or the name of the method.
std::string method_text(const Request& request);
/// "jacobi", "block-jacobi with 4 blocks".
std::string recipe_text(const Recipe& recipe);
/// The number as a hexadecimal text, null if it is not finite.
Json hex(double x);

}  // namespace shardsolve::krylov::files
