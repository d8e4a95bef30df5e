/// What a user can set, as messages name it: spelled as they would type it where they sit.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardsolve::krylov {

/// Who reads the messages: the caller of a function, or the user of the command.
enum class Reader : std::uint8_t { caller, command };

/// Of the whole process, before it makes a message; without that the caller.
void speak_to(Reader reader);

/// The one or the other.
std::string_view spelled(std::string_view for_caller, std::string_view for_command);

/// "max_iterations", "--max-iterations".
std::string option(std::string_view name);

/// With a value: "rtol = 0", "--rtol 0".
template <class Value>
std::string option(std::string_view name, const Value& value) {
  return fmt::format("{}{}{}", option(name), spelled(" = ", " "), value);
}

/// A choice by name: "method fgmres", "--method fgmres".
std::string choice(std::string_view name, std::string_view value);

/// The name of a preconditioner, of which an Operator's function is the caller's: "incomplete_lu",
/// "ilu0".
std::string preconditioner_name(std::string_view function);

}  // namespace shardsolve::krylov
