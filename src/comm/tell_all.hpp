/// What processes tell each other before they are a mesh.
#pragma once

#include "comm/transport.hpp"

#include <string>
#include <vector>

namespace shardsolve::comm {

/// The texts of all processes, by rank. All call it together; it waits for all, for as long as the
/// transport has patience. Throws Error(communication).
std::vector<std::string> tell_all(Transport& transport, const std::string& own);

/// The first text that is not empty, with its rank: "rank 2: ..."; empty if all are. The same in
/// all processes.
std::string first_said(Transport& transport, const std::string& own);

}  // namespace shardsolve::comm
