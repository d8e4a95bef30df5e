/// The text of XLA_FLAGS, and the names that XLA knows.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::cli::doctor {

/// One word of XLA_FLAGS: "--name=value", "--name", or something that is no flag.
struct XlaWord {
  std::string text;
  std::string name;                  ///< without "--"; empty if it is no flag
  std::optional<std::string> value;  ///< what stands after "="
};

/// The words as XLA takes them apart: at blanks, but not between quotes.
std::vector<XlaWord> xla_words(std::string_view text);

/// Flags that are in common use, of XLA in jaxlib 0.10.2. There are hundreds more, and they
/// change: jaxlib itself knows better (Python::xla_flags).
const std::set<std::string>& common_xla_flags();

/// Those of them that are on or off, by themselves or with a value; the others need one.
const std::set<std::string>& common_xla_switches();

/// Changes of one character that lead from one to the other: one more, one less, another one, two
/// neighbours exchanged.
std::size_t edit_distance(std::string_view one, std::string_view other);

/// The name that is probably meant: at most two changes away, hyphens apart. Empty if there is
/// none.
std::string nearest(const std::string& name, const std::set<std::string>& names);

}  // namespace shardsolve::cli::doctor
