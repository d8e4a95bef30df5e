/// What values of options are checked by; messages say what was given and what is accepted.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::cli {

/// The whole number that the text is, if it is one of this range.
std::optional<std::int64_t> to_whole_number(std::string_view text, std::int64_t least,
                                            std::int64_t most);

/// The parts between commas, empty ones too.
std::vector<std::string> parts_of(const std::string& list);

/// Accepts whole numbers of a range; the message says which.
CLI::Validator whole_number(std::int64_t least, std::int64_t most, const std::string& accepted);

/// Accepts these names alone.
CLI::Validator one_of(const std::vector<std::string>& names);

/// Accepts all but the empty text; `accepted` says what that is.
CLI::Validator not_empty(const std::string& accepted);

/// Accepts what can be the name of a file and is no option: where a value is forgotten, CLI11 takes
/// the next option for it. Not for positional arguments, which `--` sets apart.
CLI::Validator file_name(const std::string& accepted = "the name of a file is accepted");

/// Accepts finite numbers from 0 on.
CLI::Validator tolerance();

/// Accepts seconds above 0.
CLI::Validator positive_seconds();

}  // namespace shardsolve::cli
