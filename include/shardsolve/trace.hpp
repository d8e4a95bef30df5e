/// What every queue of every rank did, and when.
#pragma once

#include <shardsolve/export.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve {

/// One piece of work on one queue.
struct TraceSpan {
  const char* name = "";  ///< operation: "gemm", "broadcast", "wait", ...; a string literal
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
  double flops = 0.0;
  double bytes = 0.0;      ///< bytes moved between ranks
  std::int64_t step = -1;  ///< step of the elimination it belongs to, -1 if none
  /// What the bytes went over where ranks are GPUs: "NVLink", "PCIe", "host" (the GPUs do not reach
  /// each other) or "same device"; else empty. A string literal.
  const char* link = "";
};

/// A record of spans, filled by calls that get it through RunOptions::trace. Not thread-safe:
/// read it between calls.
class SHARDSOLVE_EXPORT Trace {
 public:
  /// All spans of one queue.
  struct Lane {
    std::int64_t rank = 0;
    std::string queue;
    std::vector<TraceSpan> spans;
  };

  const std::vector<Lane>& lanes() const { return lanes_; }
  /// Adds spans to the lane of (rank, queue).
  void add(std::int64_t rank, const std::string& queue, std::vector<TraceSpan> spans);
  /// Floating-point operations of each rank.
  std::vector<double> flops_by_rank() const;
  /// The trace in Chrome's JSON format, which Perfetto and chrome://tracing open: one process a
  /// rank, one thread a queue, times in microseconds since the first span.
  std::string to_json() const;

 private:
  std::vector<Lane> lanes_;
};

}  // namespace shardsolve
