/// Other programs, asked for what they print.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace shardsolve::cli::doctor {

/// The executable file of this name in the directories of `path` (the variable PATH); empty if
/// there is none.
std::string find_program(const std::string& name, const std::string& path);

struct ProgramAnswer {
  std::string out;      ///< standard output
  std::string failure;  ///< why there is no answer; empty if the program ended with 0
};

/// Runs a program without a shell, its standard error thrown away, and ends it after `limit`.
ProgramAnswer ask_program(const std::vector<std::string>& arguments, std::chrono::seconds limit);

}  // namespace shardsolve::cli::doctor
