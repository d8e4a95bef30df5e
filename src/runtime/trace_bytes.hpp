/// Spans on their way from one process to another.
#pragma once

#include <shardsolve/trace.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::runtime {

/// As CBOR (RFC 8949); times are those of the clock of this process.
std::vector<std::uint8_t> to_bytes(const Trace::Lane& lane);
/// The reverse.
Trace::Lane lane_from_bytes(const std::vector<std::uint8_t>& bytes);

/// Lanes of at most `count` spans with the same spans in the same order.
std::vector<Trace::Lane> in_pieces(std::vector<Trace::Lane> lanes, std::int64_t count);

}  // namespace shardsolve::runtime
