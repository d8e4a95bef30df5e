/// The JSON text in the header of a factor file. Keys: see factor_file_header.cpp.
#pragma once

#include "io/factor_file_header.hpp"

#include <string>
#include <string_view>

namespace shardsolve::io {

/// Throws Error(invalid_argument) unless `text` is one JSON object with exactly the keys of a
/// factor file: sections with different names that lie one behind the other, and whose sizes no
/// later sum can overflow.
FactorHeader parse_factor_json(std::string_view text, const std::string& path);

/// In one line. Its length does not depend on the values of the checksums.
std::string format_factor_json(const FactorHeader& header);

}  // namespace shardsolve::io
