#include "mesh/trace_gathering.hpp"

#include "runtime/trace_bytes.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace shardsolve::mesh {
namespace {

constexpr int probes_of_a_clock = 16;
/// Spans that travel together: about 0.3 MB.
constexpr std::int64_t spans_at_a_time = 4096;

/// Messages between this process and one other.
class Line {
 public:
  Line(comm::ProcessGroup& processes, runtime::Pulse& pulse, std::int64_t peer,
       const char* operation)
      : processes_(processes), pulse_(pulse), peer_(peer), operation_(operation) {}

  void send(std::uint64_t value) { send_array(std::make_shared<Values>(1, value)); }
  std::uint64_t receive_value() { return receive_array<Values>(1)->front(); }
  /// Of any length, with the length in front.
  void send(std::vector<std::uint8_t> bytes) {
    send(std::uint64_t{bytes.size()});
    send_array(std::make_shared<std::vector<std::uint8_t>>(std::move(bytes)));
  }
  std::vector<std::uint8_t> receive_bytes() {
    return std::move(*receive_array<std::vector<std::uint8_t>>(receive_value()));
  }

 private:
  using Values = std::vector<std::uint64_t>;

  template <class Array>
  void send_array(const std::shared_ptr<Array>& array) {
    pulse_.beat(operation_, -1);
    processes_.exchange(operation_, only(*array), nothing(), array);
  }
  template <class Array>
  std::shared_ptr<Array> receive_array(std::size_t size) {
    const auto array = std::make_shared<Array>(size);
    pulse_.beat(operation_, -1);
    processes_.exchange(operation_, nothing(), only(*array), array);
    return array;
  }

  std::vector<comm::Bytes> nothing() const {
    return std::vector<comm::Bytes>(static_cast<std::size_t>(processes_.ranks()));
  }
  /// For the other process.
  template <class Array>
  std::vector<comm::Bytes> only(Array& array) const {
    auto pieces = nothing();
    pieces[static_cast<std::size_t>(peer_)] = {array.data(), sizeof(array[0]) * array.size()};
    return pieces;
  }

  comm::ProcessGroup& processes_;
  runtime::Pulse& pulse_;
  std::int64_t peer_;
  const char* operation_;
};

std::uint64_t own_time() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

comm::ClockReading read_clock_of(Line line) {
  std::vector<comm::ClockProbe> probes;
  for (int i = 0; i < probes_of_a_clock; ++i) {
    comm::ClockProbe probe;
    probe.asked = comm::ClockTime::clock::now();
    line.send(std::uint64_t{0});
    probe.theirs =
        comm::ClockTime(comm::ClockSpan(static_cast<comm::ClockSpan::rep>(line.receive_value())));
    probe.answered = comm::ClockTime::clock::now();
    probes.push_back(probe);
  }
  return comm::read_clock(probes);
}

void show_clock(Line line) {
  for (int i = 0; i < probes_of_a_clock; ++i) {
    line.receive_value();
    line.send(own_time());
  }
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

void send_trace(Line line, std::vector<Trace::Lane> lanes) {
  const std::string host = host_name();
  line.send(std::vector<std::uint8_t>(host.begin(), host.end()));
  const auto pieces = runtime::in_pieces(std::move(lanes), spans_at_a_time);
  line.send(std::uint64_t{pieces.size()});
  for (const Trace::Lane& piece : pieces) {
    line.send(runtime::to_bytes(piece));
  }
}

/// Adds the host's name to the clock, and the lanes with their times by our clock.
void receive_trace(Line line, const comm::ClockMap& map, GatheredTrace& all) {
  const std::vector<std::uint8_t> host = line.receive_bytes();
  all.clocks.back().host.assign(host.begin(), host.end());
  for (std::uint64_t pieces = line.receive_value(); pieces > 0; --pieces) {
    all.lanes.push_back(runtime::lane_from_bytes(line.receive_bytes()));
    for (TraceSpan& span : all.lanes.back().spans) {
      span.begin = map.ours(span.begin);
      span.end = map.ours(span.end);
    }
  }
}

double seconds(comm::ClockSpan span) { return std::chrono::duration<double>(span).count(); }

}  // namespace

std::vector<comm::ClockReading> read_clocks(comm::ProcessGroup& processes, runtime::Pulse& pulse) {
  constexpr const char* operation = "read clocks";
  if (processes.rank() != 0) {
    show_clock({processes, pulse, 0, operation});
    return {};
  }
  std::vector<comm::ClockReading> readings(1);
  for (std::int64_t peer = 1; peer < processes.ranks(); ++peer) {
    readings.push_back(read_clock_of({processes, pulse, peer, operation}));
  }
  return readings;
}

GatheredTrace gather_trace(comm::ProcessGroup& processes, runtime::Pulse& pulse,
                           const std::vector<comm::ClockReading>& before,
                           std::vector<Trace::Lane> own) {
  constexpr const char* operation = "gather the trace";
  const std::vector<comm::ClockReading> after = read_clocks(processes, pulse);
  if (processes.rank() != 0) {
    send_trace({processes, pulse, 0, operation}, own);
    return {std::move(own), {}};
  }
  GatheredTrace all{std::move(own), {{.rank = 0, .host = host_name()}}};
  for (std::int64_t peer = 1; peer < processes.ranks(); ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    const comm::ClockMap map(before[at], after[at]);
    all.clocks.push_back({.rank = peer,
                          .host = "",
                          .offset = seconds(after[at].ahead),
                          .uncertainty = seconds(map.uncertainty())});
    receive_trace({processes, pulse, peer, operation}, map, all);
  }
  return all;
}

}  // namespace shardsolve::mesh
