/// What every queue of every rank did, and when.
#pragma once

#include <shardsolve/export.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve {

/// One end of a message between two ranks, at the span that sends it (on rank `from`) or receives
/// it (on rank `to`).
struct TraceMessage {
  std::int64_t from = 0;
  std::int64_t to = 0;
  /// Counts the messages of a call from `from` to `to`; the same at both ends.
  std::uint64_t number = 0;
  double bytes = 0.0;  ///< 0 where one rank only tells another that it may go on
};

/// One piece of work on one queue.
struct TraceSpan {
  std::string name;  ///< operation: "gemm", "broadcast", "wait" (for another queue), ...
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
  double flops = 0.0;
  double bytes = 0.0;      ///< bytes moved between ranks
  std::int64_t step = -1;  ///< step of the elimination it belongs to, -1 if none
  /// Counts the steps of a call, forward and backward, alike on all ranks.
  std::int64_t turn = 0;
  std::vector<TraceMessage> messages = {};
  std::int64_t call = 0;  ///< set by Trace::add
  /// What the bytes went over where ranks are GPUs: "NVLink", "PCIe", "host" (the GPUs do not reach
  /// each other) or "same device"; else empty. Of several the last.
  std::string link = {};
};

/// How a rank's times have come to be on the clock of rank 0, in another process.
struct TraceClock {
  std::int64_t rank = 0;
  std::string host;          ///< name of the machine
  double offset = 0.0;       ///< seconds its clock was ahead at the end of the last call
  double uncertainty = 0.0;  ///< seconds its times may be off, at most in any call
};

/// A record of spans, filled by calls that get it through RunOptions::trace; times are of one
/// clock. Of a mesh of processes that of rank 0's process holds all ranks, those of the others hold
/// their own. Not thread-safe: read it between calls.
class SHARDSOLVE_EXPORT Trace {
 public:
  /// All spans of one queue.
  struct Lane {
    std::int64_t rank = 0;
    std::string queue;
    std::vector<TraceSpan> spans;
  };

  const std::vector<Lane>& lanes() const { return lanes_; }
  /// What is added from now on belongs to another call: its messages and steps are counted anew.
  void begin_call() { ++call_; }
  /// Adds spans to the lane of (rank, queue).
  void add(std::int64_t rank, const std::string& queue, std::vector<TraceSpan> spans);
  /// Of every rank, if they were in several processes; else none.
  const std::vector<TraceClock>& clocks() const { return clocks_; }
  /// Notes a reading of a rank's clock: of several the last offset and the largest uncertainty.
  void set_clock(const TraceClock& clock);
  /// Floating-point operations of each rank.
  std::vector<double> flops_by_rank() const;
  /// The trace in Chrome's JSON format, which Perfetto and chrome://tracing open: one process a
  /// rank, one thread a queue, an arrow (flow event) a message, times in microseconds since the
  /// first span. Under "otherData" are the clocks, the summary (trace_summary.hpp) and "origin_ns",
  /// when that span began on the steady clock (null if there is none).
  std::string to_json() const;

 private:
  std::vector<Lane> lanes_;
  std::vector<TraceClock> clocks_;
  std::int64_t call_ = 0;
};

}  // namespace shardsolve
