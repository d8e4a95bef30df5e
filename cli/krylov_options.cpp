#include "krylov_options.hpp"

#include "option_values.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/sparse.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsolve::cli {
namespace {

using krylov::Method;
using Kind = krylov::Recipe::Kind;

constexpr std::int64_t largest_restart = 1000;
constexpr std::int64_t max_degree = 1000;
constexpr std::int64_t largest_capture = 4200;  // MB

template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Error(ErrorKind::invalid_argument,
              fmt::format(text, std::forward<Arguments>(arguments)...));
}

CLI::Option* in_group(CLI::Option* option) { return option->group("Sparse A"); }

Kind kind_of(const std::string& text) {
  for (const Kind kind : {Kind::none, Kind::jacobi, Kind::block_jacobi, Kind::incomplete_cholesky,
                          Kind::incomplete_lu, Kind::chebyshev, Kind::multigrid}) {
    if (krylov::name(kind) == text) {
      return kind;
    }
  }
  throw Error(ErrorKind::internal, "no such preconditioner: this is a bug of shardsolve");
}

Method method_of(const std::string& text) {
  for (const Method method : {Method::cg, Method::minres, Method::bicgstab, Method::fgmres}) {
    if (krylov::name(method) == text) {
      return method;
    }
  }
  return Method::cg;  // auto begins with it
}

bool has_blocks(Kind kind) {
  return kind == Kind::block_jacobi || kind == Kind::incomplete_cholesky ||
         kind == Kind::incomplete_lu;
}

std::vector<std::string> those_given(std::initializer_list<std::pair<const char*, bool>> options) {
  std::vector<std::string> names;
  for (const auto& [option, is_given] : options) {
    if (is_given) {
      names.emplace_back(option);
    }
  }
  return names;
}

void take_preconditioner(const Options& options, const CutBlocks& cut, krylov::Request& request) {
  const KrylovOptions& asked = options.krylov;
  krylov::Recipe& recipe = request.preconditioner;
  if (asked.preconditioner) {
    recipe = {kind_of(*asked.preconditioner), {}};
  }
  if (asked.degree) {
    if (recipe.kind != Kind::chebyshev) {
      refuse(
          "--degree {} given with --preconditioner {}: it is that of chebyshev; leave it out, or "
          "take --preconditioner chebyshev",
          *asked.degree, krylov::name(recipe.kind));
    }
    recipe.degree = *asked.degree;
  }
  if (!asked.levels.empty() && recipe.kind != Kind::multigrid) {
    refuse(
        "--levels '{}' given with --preconditioner {}: they are those of multigrid; leave them "
        "out, or take --preconditioner multigrid",
        asked.levels, krylov::name(recipe.kind));
  }
  if (!has_blocks(recipe.kind)) {
    if (asked.blocks) {
      refuse(
          "--blocks {} given with --preconditioner {}, which has none: leave it out, or take "
          "block-jacobi, ic0 or ilu0",
          *asked.blocks, krylov::name(recipe.kind));
    }
    if (request.n == 0) {
      recipe = {};
    }
    return;
  }
  if (request.n == 0) {
    recipe = {};
    return;
  }
  if (asked.blocks) {
    if (*asked.blocks > request.n) {
      refuse("--blocks {} given; '{}' has {} rows: 1 to {} blocks are accepted", *asked.blocks,
             options.matrix, request.n, request.n);
    }
  } else if (!asked.preconditioner) {
    return;  // those of a capture
  } else if (recipe.kind == Kind::block_jacobi) {
    refuse(
        "--preconditioner block-jacobi given without --blocks: give the number of blocks of "
        "rows, which are solved exactly: --blocks 4");
  }
  recipe.blocks = cut(asked.blocks.value_or(1));
}

void take_restart(const Options& options, krylov::Request& request) {
  if (!options.krylov.restart) {
    return;
  }
  if (request.options.method != Method::fgmres && !request.is_automatic) {
    refuse(
        "--restart {} given with --method {}: it is for fgmres, which keeps so many vectors; "
        "leave it out",
        *options.krylov.restart, krylov::name(request.options.method));
  }
  request.options.restart = *options.krylov.restart;
}

}  // namespace

std::string rtol_defaults() {
  return fmt::format("{:g}; float32: {:g}", krylov::default_rtol(Dtype::float64),
                     krylov::default_rtol(Dtype::float32));
}

void add_krylov_options(CLI::App& command, Options& options) {
  KrylovOptions& krylov = options.krylov;
  in_group(command.add_option(
               "--method", krylov.method,
               "cg (default), minres, bicgstab, fgmres; auto: one after the other, with reason"))
      ->type_name("NAME")
      ->check(one_of({"cg", "minres", "bicgstab", "fgmres", "auto"}));
  in_group(
      command.add_option("--preconditioner", krylov.preconditioner,
                         "none (default), jacobi, block-jacobi, ic0, ilu0, chebyshev, multigrid"))
      ->type_name("NAME")
      ->check(one_of({"none", "jacobi", "block-jacobi", "ic0", "ilu0", "chebyshev", "multigrid"}));
  in_group(command.add_option("--blocks", krylov.blocks,
                              "of rows, for block-jacobi, ic0 (default 1) and ilu0 (1)"))
      ->type_name("N")
      ->check(whole_number(1, SlabLayout::largest_size,
                           "a number of blocks, at least 1, is accepted, in digits"));
  in_group(command.add_option("--degree", krylov.degree,
                              fmt::format("of chebyshev: so many products with A less one "
                                          "(default {})",
                                          krylov::Recipe().degree)))
      ->type_name("N")
      ->check(whole_number(
          1, max_degree, fmt::format("a degree from 1 to {} is accepted, in digits", max_degree)));
  const krylov::Options defaults;
  in_group(command.add_option(
               "--rtol", krylov.rtol,
               "converged: ||b - A x|| <= max(rtol ||b||, atol) (" + rtol_defaults() + ")"))
      ->type_name("X")
      ->check(tolerance());
  in_group(command.add_option("--atol", krylov.atol, "see --rtol (default 0)"))
      ->type_name("X")
      ->check(tolerance());
  in_group(command.add_option("--max-iterations", krylov.max_iterations,
                              fmt::format("give up then (default {})", defaults.max_iterations)))
      ->type_name("N")
      ->check(whole_number(1, std::numeric_limits<std::int64_t>::max() / 4,
                           "a number of iterations, at least 1, is accepted, in digits"));
  in_group(
      command.add_option("--restart", krylov.restart,
                         fmt::format("vectors that fgmres keeps (default {})", defaults.restart)))
      ->type_name("N")
      ->check(whole_number(1, largest_restart,
                           fmt::format("1 to {} vectors are accepted, in digits; usually 20 to 100",
                                       largest_restart)));
}

void add_krylov_files(CLI::App& command, Options& options) {
  KrylovOptions& krylov = options.krylov;
  const auto add = [&](const char* name, std::string& path, const char* what,
                       const char* type = "FILE") {
    in_group(command.add_option(name, path, what))->type_name(type)->check(file_name());
  };
  add("--guess", krylov.guess, "x0, where the iteration begins, an .npy file (default: 0)");
  add("--levels", krylov.levels,
      "of multigrid, a folder: P0.npz, A1.npz, P1.npz, ...; A is the first level", "DIR");
  add("--best", krylov.best, "where the best iterate goes if the solve fails");
  add("--log", krylov.log, "write what every iteration did, for 'shardsolve compare-logs'");
  add("--capture", krylov.capture, "write a folder for 'shardsolve replay' if the solve fails",
      "DIR");
  in_group(command.add_option("--capture-limit", krylov.capture_limit,
                              "write no folder that is larger (default 1000)"))
      ->type_name("MB")
      ->check(whole_number(
          0, largest_capture,
          fmt::format("a number of megabytes up to {} is accepted, in digits", largest_capture)));
}

std::vector<std::string> options_of_solve(const Options& options) {
  const KrylovOptions& krylov = options.krylov;
  return those_given({{"--method", krylov.method.has_value()},
                      {"--preconditioner", krylov.preconditioner.has_value()},
                      {"--blocks", krylov.blocks.has_value()},
                      {"--degree", krylov.degree.has_value()},
                      {"--rtol", krylov.rtol.has_value()},
                      {"--atol", krylov.atol.has_value()},
                      {"--max-iterations", krylov.max_iterations.has_value()},
                      {"--restart", krylov.restart.has_value()}});
}

void refuse_krylov_options(const Options& options) {
  const KrylovOptions& krylov = options.krylov;
  std::vector<std::string> given = options_of_solve(options);
  const auto files = those_given({{"--levels", !krylov.levels.empty()},
                                  {"--guess", !krylov.guess.empty()},
                                  {"--best", !krylov.best.empty()},
                                  {"--log", !krylov.log.empty()},
                                  {"--capture", !krylov.capture.empty()},
                                  {"--capture-limit", krylov.capture_limit.has_value()}});
  given.insert(given.end(), files.begin(), files.end());
  if (!given.empty()) {
    refuse(
        "{} given, and '{}' is a dense matrix, which is factored: the option is for a sparse "
        "one (.npz of scipy.sparse.save_npz, or Matrix Market); leave it out",
        given.front(), options.matrix);
  }
}

void refuse_dense_options(const Options& options) {
  const std::pair<const char*, bool> given[] = {{"--no-rcond", !options.rcond},
                                                {"--in-place", options.in_place},
                                                {"--assume", options.assume_chosen},
                                                {"--tile", options.tile.has_value()},
                                                {"--tile-table", !options.tile_table.empty()}};
  for (const auto& [option, is_given] : given) {
    if (is_given) {
      refuse(
          "{} given, and '{}' is a sparse matrix, which is not factored: the option is for a "
          "dense one (.npy); leave it out",
          option, options.matrix);
    }
  }
  if (options.krylov.capture_limit && options.krylov.capture.empty()) {
    refuse("--capture-limit given without --capture DIR: give both, or leave it out");
  }
}

void take_request(const Options& options, const CutBlocks& cut, krylov::Request& request) {
  const KrylovOptions& asked = options.krylov;
  if (asked.method) {
    request.options.method = method_of(*asked.method);
    request.is_automatic = *asked.method == "auto";
  }
  if (asked.rtol) {
    request.options.rtol = asked.rtol;
  }
  request.options.atol = asked.atol.value_or(request.options.atol);
  request.options.max_iterations = asked.max_iterations.value_or(request.options.max_iterations);
  request.options.log = !asked.log.empty() || !asked.capture.empty();
  take_restart(options, request);
  take_preconditioner(options, cut, request);
}

}  // namespace shardsolve::cli
