#include "krylov_files/json.hpp"

#include "krylov/statuses.hpp"

#include <shardsolve/slab_layout.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <complex>
#include <initializer_list>
#include <limits>
#include <system_error>
#include <vector>

namespace shardsolve::krylov::files {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

/// The value of an enum that has this name; their numbers run from 0 to that of `last`.
template <class Enum>
Enum named(const JsonObject& object, std::string_view key, Enum last) {
  const std::string text = object.text(key);
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name(static_cast<Enum>(i)) == text) {
      return static_cast<Enum>(i);
    }
  }
  object.reject(key, "a name that this version knows");
}

double number_of(const Json& value, const std::string& name) {
  if (value.is_null()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    const bool is_negative = text.starts_with('-');
    const std::string_view digits = std::string_view(text).substr(is_negative ? 1 : 0);
    double number = 0.0;
    const char* const end = text.data() + text.size();
    if (digits.starts_with("0x")) {
      const auto [stopped, error] =
          std::from_chars(digits.data() + 2, end, number, std::chars_format::hex);
      if (error == std::errc{} && stopped == end) {
        return is_negative ? -number : number;
      }
    }
  }
  throw io::JsonFault(
      fmt::format("{} is not a hexadecimal number in quotes, as \"0x1.8p+1\", or null", name));
}

double number(const JsonObject& object, std::string_view key) {
  return number_of(object[key], object.name_of(key));
}

std::complex<double> complex_number(const JsonObject& object, std::string_view key) {
  const Json& parts = object.list(key);
  if (parts.size() != 2) {
    object.reject(key, "a pair of numbers");
  }
  const std::string name = object.name_of(key);
  return {number_of(parts[0], name), number_of(parts[1], name)};
}

Recipe recipe_of(const JsonObject& object) {
  Recipe recipe;
  recipe.kind = named(object, "kind", Recipe::Kind::multigrid);
  for (const Json& row : object.list("blocks")) {
    recipe.blocks.push_back(
        io::whole_number(row, object.name_of("blocks"), 0, SlabLayout::largest_size));
  }
  if (recipe.kind == Recipe::Kind::chebyshev) {
    recipe.degree = object.integer("degree", 1, most);
  }
  return recipe;
}

Json json_of(const Recipe& recipe) {
  Json object = {{"kind", name(recipe.kind)}, {"blocks", recipe.blocks}};
  if (recipe.kind == Recipe::Kind::chebyshev) {
    object["degree"] = recipe.degree;
  }
  return object;
}

/// Names of checksums.
constexpr std::pair<const char*, std::optional<std::uint32_t> Checksums::*> checksum_names[] = {
    {"A", &Checksums::a},
    {"b", &Checksums::b},
    {"x0", &Checksums::guess},
    {"levels", &Checksums::levels}};

Json json_of(const Checksums& checksums) {
  Json object = Json::object();
  for (const auto& [name, member] : checksum_names) {
    if (const auto& sum = checksums.*member) {
      object[name] = *sum;
    }
  }
  return object;
}

Checksums checksums_of(const JsonObject& object) {
  Checksums checksums;
  for (const auto& [name, member] : checksum_names) {
    if (object.has(name)) {
      checksums.*member = static_cast<std::uint32_t>(
          object.integer(name, 0, std::numeric_limits<std::uint32_t>::max()));
    }
  }
  return checksums;
}

}  // namespace

Json hex(double x) { return std::isfinite(x) ? Json(fmt::format("{:a}", x)) : Json(nullptr); }

Json to_json(const Request& request) {
  const Options& options = request.options;
  Json object = {{"n", request.n},
                 {"entries", request.entries},
                 {"dtype", name(request.dtype)},
                 {"method", name(options.method)},
                 {"automatic", request.is_automatic},
                 {"rtol", hex(options.rtol.value_or(default_rtol(request.dtype)))},
                 {"atol", hex(options.atol)},
                 {"max_iterations", options.max_iterations},
                 {"restart", options.restart},
                 {"guess", options.use_guess},
                 {"preconditioner", json_of(request.preconditioner)},
                 {"backend", request.backend},
                 {"ranks", request.ranks}};
  if (const Json known = json_of(request.checksums); !known.empty()) {
    object["crc32"] = known;
  }
  return object;
}

Json verdict_to_json(const Result& result) {
  Json attempts = Json::array();
  for (const Attempt& attempt : result.attempts) {
    attempts.push_back({{"method", name(attempt.method)},
                        {"status", name(attempt.status)},
                        {"iterations", attempt.iterations},
                        {"matvecs", attempt.matvecs},
                        {"restarts", attempt.restarts},
                        {"residual", hex(attempt.residual)},
                        {"message", attempt.message}});
  }
  return {{"status", name(result.status)},
          {"message", result.message},
          {"iterations", result.iterations},
          {"matvecs", result.matvecs},
          {"restarts", result.restarts},
          {"residual", hex(result.residual)},
          {"tolerance", hex(result.tolerance)},
          {"margin", hex(result.margin)},
          {"is_marginal", result.is_marginal},
          {"condition", hex(result.condition)},
          {"error_estimate", hex(result.error_estimate)},
          {"attempts", attempts}};
}

Request request_of(const JsonObject& object) {
  Request request;
  request.n = object.integer("n", 0, SlabLayout::largest_size);
  request.entries = object.integer("entries", 0, most);
  request.dtype = object.dtype("dtype");
  request.options.method = named(object, "method", Method::fgmres);
  request.is_automatic = object.boolean("automatic");
  request.options.rtol = number(object, "rtol");
  request.options.atol = number(object, "atol");
  request.options.max_iterations = object.integer("max_iterations", 1, most);
  request.options.restart = object.integer("restart", 1, most);
  request.options.use_guess = object.boolean("guess");
  request.preconditioner = recipe_of(object.object("preconditioner"));
  request.backend = object.text("backend");
  request.ranks = object.integer("ranks", 1, most);
  if (object.has("crc32")) {  // logs before had none
    request.checksums = checksums_of(object.object("crc32"));
  }
  return request;
}

Result verdict_of(const JsonObject& object) {
  Result result;
  result.status = named(object, "status", Status::singular_operator);
  result.outcome.status = outcome_status(result.status);
  result.message = object.text("message");
  result.iterations = object.integer("iterations", 0, most);
  result.matvecs = object.integer("matvecs", 0, most);
  result.restarts = object.integer("restarts", 0, most);
  result.residual = number(object, "residual");
  result.tolerance = number(object, "tolerance");
  result.margin = number(object, "margin");
  if (std::isnan(result.margin)) {
    result.margin = std::numeric_limits<double>::infinity();  // of a margin null means no limit
  }
  result.is_marginal = object.boolean("is_marginal");
  // Files of versions before have not got them.
  if (object.has("condition")) {
    result.condition = number(object, "condition");
  }
  if (object.has("error_estimate")) {
    const double error = number(object, "error_estimate");
    result.error_estimate = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
  }
  std::int64_t i = 0;
  for (const Json& value : object.list("attempts")) {
    const JsonObject attempt(value, fmt::format("attempt {}", i++));
    result.attempts.push_back({.method = named(attempt, "method", Method::fgmres),
                               .status = named(attempt, "status", Status::singular_operator),
                               .iterations = attempt.integer("iterations", 0, most),
                               .matvecs = attempt.integer("matvecs", 0, most),
                               .restarts = attempt.integer("restarts", 0, most),
                               .residual = number(attempt, "residual"),
                               .message = attempt.text("message")});
  }
  return result;
}

LogRecord record_of(const JsonObject& object) {
  return {.iteration = object.integer("iteration", 0, most),
          .event = named(object, "event", Event::ended),
          .status = named(object, "status", Status::singular_operator),
          .residual = number(object, "residual"),
          .rho = complex_number(object, "rho"),
          .alpha = complex_number(object, "alpha"),
          .omega = complex_number(object, "omega")};
}

std::string method_text(const Request& request) {
  return std::string(request.is_automatic ? "auto" : name(request.options.method));
}

std::string recipe_text(const Recipe& recipe) {
  if (recipe.kind == Recipe::Kind::recorded) {
    return "a recorded preconditioner";
  }
  if (recipe.kind == Recipe::Kind::chebyshev) {
    return fmt::format("chebyshev of degree {}", recipe.degree);
  }
  if (recipe.blocks.size() < 2) {
    return std::string(name(recipe.kind));
  }
  const std::size_t blocks = recipe.blocks.size() - 1;
  return fmt::format("{} with {} block{}", name(recipe.kind), blocks, blocks == 1 ? "" : "s");
}

}  // namespace shardsolve::krylov::files
