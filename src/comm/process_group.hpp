/// What the processes of a mesh tell each other beside the data.
#pragma once

#include "comm/data_messages.hpp"
#include "comm/failure.hpp"
#include "comm/note.hpp"
#include "comm/pulses.hpp"
#include "comm/transport.hpp"

#include <shardsolve/error.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace shardsolve::comm {

/// What became of a call: the same in all processes.
struct CallEnd {
  std::optional<Failure> failure;
  /// The lowest of the ranks with a failure of their own; if all that is known is that a rank was
  /// lost, the lowest of the others.
  std::int64_t origin = -1;
  /// Operations of each rank.
  std::vector<double> flops;
  /// Whether the processes can make another call together: all have left this one in good order.
  bool usable = true;
};

/// The processes of a mesh, one rank each, during a call: each tells the others how far it is and
/// whether it has failed, and at the end all agree on what became of the call. Between calls
/// nothing is sent and nothing looked at.
///
/// Each process sends each other one a series of notes a call: how far it is, a few times before
/// the silence limit would be over; that it has failed; and, last, how the call has ended for it.
/// Nobody returns from a call before it has that last note of everybody. So no note of one call
/// reaches the next one, and a failure in one process is the outcome in all. One kind of note may
/// reach the next call: the farewell of a process that makes no further call.
class ProcessGroup {
 public:
  explicit ProcessGroup(std::unique_ptr<Transport> transport);
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  ~ProcessGroup();

  std::int64_t ranks() const { return transport_->ranks(); }
  std::int64_t rank() const { return transport_->rank(); }
  const std::vector<std::int64_t>& hosts() const { return transport_->hosts(); }

  /// The silence limit is at least this: notes take their time.
  static constexpr std::chrono::milliseconds least_silence_limit{200};

  /// `pulses`: of all ranks; those of other processes become copies of what these send.
  /// `on_failure` is called when the call has failed: with Abandoned if in another process, else
  /// with what this group has found. If a process is gone it is called again and again, until this
  /// process has nothing more to do for the call.
  void attach(const Pulses& pulses, std::function<void(std::exception_ptr)> on_failure);

  /// This process will make no call: the others may wait for its messages.
  void abandon() { transport_->abandon(); }
  /// For ranks whose devices, not threads, wait for each other: from now on a call fails when this
  /// rank and the rank that stopped first have both shown no sign of life for the silence limit.
  void watch_progress() { watches_progress_ = true; }

  /// `traced`: must be the same in all processes, or the call fails with Error(invalid_argument).
  void begin_call(std::stop_token cancel, bool traced);
  /// Tells the others that they wait in vain. Any thread, never waits.
  void tell_failure(const Failure& failure);
  /// Called when this process has nothing more to do for the call: waits for the others, and
  /// returns what all agree on. `known`: the failure of this process, if it has one; the group adds
  /// what it has found itself.
  CallEnd conclude(const std::optional<Failure>& known, double flops);

  /// Called when the rank of this process has not come back from a call that has failed. Returns
  /// what the other processes say of the call. From now on the transport is left alone: when the
  /// rank does come back, its owner may have destroyed it.
  CallEnd leave();

  /// As Pulses::wait, for this process's rank. A rank that it finds silent counts as lost.
  void wait(const Pulses& pulses, const runtime::host::OneWayCounter& counter, std::uint32_t target,
            std::int64_t peer, const char* operation);
  /// Whether a rank is not waited for any longer.
  bool lost(std::int64_t rank) const;

  /// Sends and receives as ExchangeCommunicator has it. Throws as Watch::look. After that messages
  /// may be on their way until the call has ended for all: their memory is the program's, or what
  /// `keeps` holds.
  void exchange(const char* operation, const std::vector<Bytes>& send,
                const std::vector<Bytes>& receive, std::shared_ptr<const void> keeps = nullptr);

 private:
  using Clock = std::chrono::steady_clock;

  /// Another process during a call.
  struct Peer {
    std::int64_t rank = 0;
    Note incoming;
    std::unique_ptr<Message> receive;  // of the next note
    std::optional<Note> end;           // its last one
    Clock::time_point last_note;
    bool silent = false;                // not waited for any longer
    std::weak_ptr<Message> last_pulse;  // gone when it has been sent
    std::uint64_t beats = 0;            // of its pulse, the own rank's too
    Clock::time_point last_beat;        // seen here
  };
  /// A note on its way.
  struct Outgoing {
    Peer& to;
    std::unique_ptr<Note> note;
    std::shared_ptr<Message> message;
  };
  /// Why a process cannot be reached.
  struct Lost {
    Failure why;
    bool told = false;
  };

  void watch();
  std::exception_ptr look_around();
  bool take_notes(Peer& peer);
  bool take(Peer& peer);
  void expect_note(Peer& peer);
  void forget_old_waits();
  Note make_note(NoteKind kind, const std::optional<Failure>& failure) const;
  void send(Peer& peer, const Note& note);
  template <class Body>
  void reach(Peer& peer, Body body);
  void tell();
  bool stop_overdue();
  void require_progress();

  void send_ends(const std::optional<Failure>& own, double flops);
  std::optional<Failure> await_ends();
  void require_life(const Peer& peer, Watch& watch, bool failing) const;
  void say_farewell();
  CallEnd judge(const std::optional<Failure>& own, double flops,
                const std::optional<Failure>& late) const;
  /// What is known of the call where this process has left it.
  CallEnd call_end_of_others() const;
  bool settle();

  /// Life, for whoever waits for this process to return from the call.
  void show_end() const;
  void lose(std::int64_t rank);
  runtime::Pulse& own_pulse() const { return pulses_->of(rank()); }
  template <class Body>
  void for_each_peer(Body body) {
    for (Peer& peer : peers_) {
      if (peer.rank != rank()) {
        body(peer);
      }
    }
  }

  std::unique_ptr<Transport> transport_;
  DataMessages data_;
  const Pulses* pulses_ = nullptr;
  std::function<void(std::exception_ptr)> on_failure_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Peer> peers_;  // one a rank; the own one is not used
  std::list<Outgoing> outgoing_;
  std::set<std::string> operations_;  // names that others have told, for as long as the mesh lives
  std::optional<Failure> to_tell_;
  std::optional<Failure> found_;  // the first failure of this call that the watcher has met
  std::optional<Failure> heard_;  // the first that another process has told
  std::int64_t heard_from_ = -1;
  std::int64_t silent_ = -1;  // the rank that this process has found silent or cannot reach
  std::optional<Lost> lost_;
  std::int64_t unlike_ = -1;  // a rank that has a trace where this process has none, or the reverse
  std::stop_token cancel_;
  Clock::time_point stop_seen_;
  Clock::time_point last_pulses_;
  bool in_call_ = false;
  bool traced_ = false;
  bool calling_back_ = false;
  bool closing_ = false;
  bool left_ = false;
  std::atomic<bool> watches_progress_ = false;
  std::thread watcher_;
};

}  // namespace shardsolve::comm
