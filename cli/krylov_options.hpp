/// The options of Krylov solves, and what they come to.
#pragma once

#include "options.hpp"

#include <shardsolve/krylov_files.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace shardsolve::cli {

/// What --rtol is without being given: "1e-08, of float32 ...".
std::string rtol_defaults();

/// Which method, preconditioner, tolerances and limits.
void add_krylov_options(CLI::App& command, Options& options);
/// Files beside A, b and x.
void add_krylov_files(CLI::App& command, Options& options);

/// Throws Error(invalid_argument) if an option was given that means nothing for a dense matrix.
void refuse_krylov_options(const Options& options);
/// Likewise for a sparse one.
void refuse_dense_options(const Options& options);

/// Options that ask for another solve than the captured one, as they are typed: "--method".
std::vector<std::string> options_of_solve(const Options& options);

/// Boundaries of so many blocks of rows.
using CutBlocks = std::function<std::vector<std::int64_t>(std::int64_t count)>;

/// Sets in `request`, whose n is known, what the options ask for; the rest stays. Throws
/// Error(invalid_argument) if they do not go together.
void take_request(const Options& options, const CutBlocks& cut, krylov::Request& request);

}  // namespace shardsolve::cli
