#include "comm/process_group.hpp"

#include "comm/patience.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace shardsolve::comm {
namespace {

constexpr std::chrono::milliseconds watch_interval(10);
/// A stop that was asked for and that the ranks have not agreed on for so long ends the call.
constexpr std::chrono::milliseconds stop_patience(300);

constexpr const char* end_of_call = "the end of the call";

Failure failure_in(const Note& note) {
  return {note.error, {note.text.data(), static_cast<std::size_t>(note.length)}};
}

}  // namespace

ProcessGroup::ProcessGroup(std::unique_ptr<Transport> transport)
    : transport_(std::move(transport)),
      data_(*transport_),
      peers_(static_cast<std::size_t>(transport_->ranks())) {
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    peers_[r].rank = static_cast<std::int64_t>(r);
  }
}

ProcessGroup::~ProcessGroup() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  if (watcher_.joinable()) {
    watcher_.join();
  }
}

void ProcessGroup::attach(const Pulses& pulses,
                          std::function<void(std::exception_ptr)> on_failure) {
  pulses_ = &pulses;
  for (const Peer& peer : peers_) {
    if (peer.rank != rank()) {
      pulses.of(peer.rank).set_told();
    }
  }
  on_failure_ = std::move(on_failure);
  watcher_ = std::thread([this] { watch(); });
}

void ProcessGroup::begin_call(std::stop_token cancel, bool traced) {
  const std::lock_guard lock(mutex_);
  traced_ = traced;
  data_.begin_call(traced);
  cancel_ = std::move(cancel);
  to_tell_.reset();
  found_.reset();
  heard_.reset();
  heard_from_ = -1;
  silent_ = -1;
  lost_.reset();
  unlike_ = -1;
  stop_seen_ = {};
  last_pulses_ = {};
  for (Peer& each : peers_) {
    each.beats = 0;
    each.last_beat = Clock::now();
  }
  for_each_peer([this](Peer& peer) {
    peer.end.reset();
    peer.last_note = Clock::now();
    reach(peer, [&] { expect_note(peer); });
  });
  in_call_ = true;
  changed_.notify_all();
}

void ProcessGroup::tell_failure(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  to_tell_ = failure;
  changed_.notify_all();
}

// ---- notes

void ProcessGroup::watch() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return in_call_ || closing_; });
    if (closing_) {
      return;
    }
    if (const std::exception_ptr reason = look_around()) {
      found_ = found_ ? found_ : describe(reason);
      calling_back_ = true;
      lock.unlock();
      on_failure_(reason);
      lock.lock();
      calling_back_ = false;
      changed_.notify_all();
    }
    changed_.wait_for(lock, watch_interval, [&] { return closing_ || to_tell_.has_value(); });
  }
}

/// Takes the notes that have come and sends those that are due. Why the call has failed, if it has.
std::exception_ptr ProcessGroup::look_around() {
  try {
    bool failed = false;
    for_each_peer([&](Peer& peer) { reach(peer, [&] { failed = take_notes(peer) || failed; }); });
    forget_old_waits();
    if (in_call_) {
      tell();
    }
    outgoing_.remove_if([this](const Outgoing& one) {
      bool gone = true;  // also if it can never be
      reach(one.to, [&] { gone = one.message->test(); });
      return gone;
    });
    if (lost_ && !std::exchange(lost_->told, true)) {
      return std::make_exception_ptr(Error(lost_->why.kind, std::string(lost_->why.text())));
    }
    // Before what others say: what they have met is a consequence.
    if (in_call_ && !own_pulse().failed() && unlike_ >= 0) {
      return std::make_exception_ptr(
          Error(ErrorKind::invalid_argument,
                fmt::format("rank {} was given a trace to record in and rank {} none: give one "
                            "(RunOptions::trace) in all processes of a mesh or in none",
                            traced_ ? rank() : unlike_, traced_ ? unlike_ : rank())));
    }
    // Again and again where a process is gone: what it had begun may go on for a while, and undo
    // what was done so that nobody waits for it.
    const bool gone =
        std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.silent; });
    if (failed || (in_call_ && gone)) {
      return std::make_exception_ptr(runtime::Abandoned{});
    }
    // Ranks leave together at a step, but not where one of them is gone.
    if (const bool overdue = stop_overdue(); overdue && in_call_ && !own_pulse().failed()) {
      return std::make_exception_ptr(
          Error(ErrorKind::cancelled, "the call was cancelled as asked"));
    }
    if (in_call_ && !own_pulse().failed() && watches_progress_) {
      require_progress();
    }
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void ProcessGroup::expect_note(Peer& peer) {
  peer.receive = transport_->receive(peer.rank, Transport::Channel::control, 0,
                                     {&peer.incoming, sizeof(Note)});
}

/// True if they say that the call has failed.
bool ProcessGroup::take_notes(Peer& peer) {
  bool failed = false;
  while (peer.receive && peer.receive->test()) {
    peer.receive.reset();
    failed = take(peer) || failed;
    if (!peer.end) {
      expect_note(peer);
    }
  }
  return failed;
}

bool ProcessGroup::take(Peer& peer) {
  const Note& note = peer.incoming;
  if (note.kind == NoteKind::farewell) {
    throw Error(ErrorKind::communication,
                fmt::format("rank {} has given up: a rank was lost, perhaps this one, as it was "
                            "silent for too long. Start the job again, or make a new mesh",
                            peer.rank));
  }
  peer.last_note = Clock::now();
  runtime::Pulse& pulse = pulses_->of(peer.rank);
  pulse.show(note.beats, operations_.emplace(note.operation.data()).first->c_str(), note.step);
  pulse.set_waiting_for(note.kind == NoteKind::end ? -1 : note.waiting_for);
  if (note.silent >= 0) {
    peers_[static_cast<std::size_t>(note.silent)].silent = true;
  }
  if (note.kind == NoteKind::end) {
    peer.end = note;
  }
  if (note.failed && !heard_) {
    heard_ = failure_in(note);
    heard_from_ = peer.rank;
  }
  if (note.traced != traced_) {
    unlike_ = peer.rank;
  }
  return note.failed;
}

/// A process that has sent no note for a while has perhaps stopped itself: what it last said of its
/// own waiting is forgotten, so that nobody blames the rank that it waited for.
void ProcessGroup::forget_old_waits() {
  const auto oldest = Clock::now() - 3 * pulses_->interval();
  for_each_peer([&](const Peer& peer) {
    if (peer.last_note < oldest) {
      pulses_->of(peer.rank).set_waiting_for(-1);
    }
  });
}

Note ProcessGroup::make_note(NoteKind kind, const std::optional<Failure>& failure) const {
  const runtime::Pulse& pulse = own_pulse();
  Note note;
  note.kind = kind;
  note.traced = traced_;
  note.silent = silent_;
  note.beats = pulse.beats();
  note.step = pulse.step();
  note.waiting_for = pulse.waiting_for();
  std::strncpy(note.operation.data(), pulse.operation(), note.operation.size() - 1);
  if (failure) {
    note.failed = true;
    note.error = failure->kind;
    const std::string_view text = failure->text();
    note.length = std::min(text.size(), note.text.size());
    std::memcpy(note.text.data(), text.data(), note.length);
  }
  return note;
}

/// Also to one that has been silent: should it come back, it is to know why nobody is there.
void ProcessGroup::send(Peer& peer, const Note& note) {
  reach(peer, [&] {
    auto copy = std::make_unique<Note>(note);
    const Bytes bytes{copy.get(), offsetof(Note, text) + note.length};
    std::shared_ptr<Message> message =
        transport_->send(peer.rank, Transport::Channel::control, 0, bytes);
    if (note.kind == NoteKind::pulse) {
      peer.last_pulse = message;
    }
    outgoing_.push_back({peer, std::move(copy), std::move(message)});
  });
}

/// Runs `body`, which sends notes to a process or receives its notes. If the transport fails there,
/// the process is lost, like a silent one: what it knows of the call cannot be found out.
template <class Body>
void ProcessGroup::reach(Peer& peer, Body body) {
  try {
    body();
  } catch (const Error& error) {
    peer.receive.reset();
    peer.silent = true;
    silent_ = peer.rank;
    if (!lost_) {
      lost_ = Lost{{error.kind(), error.what()}};
    }
  }
}

/// Tells every other process that this one has failed, or how far it is.
void ProcessGroup::tell() {
  if (to_tell_) {
    const Note note = make_note(NoteKind::failure, to_tell_);
    for_each_peer([&](Peer& peer) { send(peer, note); });
    to_tell_.reset();
  }
  const auto now = Clock::now();
  if (now - last_pulses_ >= pulses_->interval()) {
    last_pulses_ = now;
    const Note note = make_note(NoteKind::pulse, std::nullopt);
    for_each_peer([&](Peer& peer) {
      if (peer.last_pulse.expired()) {  // no more than one to a process that takes none
        send(peer, note);
      }
    });
  }
}

bool ProcessGroup::stop_overdue() {
  if (!cancel_.stop_requested()) {
    return false;
  }
  const auto now = Clock::now();
  stop_seen_ = stop_seen_ == Clock::time_point{} ? now : stop_seen_;
  return now - stop_seen_ > stop_patience;
}

/// Throws SilentRank. When one rank stops the others soon do: the first is to be named.
void ProcessGroup::require_progress() {
  const auto now = Clock::now();
  for (Peer& each : peers_) {
    const std::uint64_t beats = pulses_->of(each.rank).beats();
    if (beats != each.beats) {
      each.beats = beats;
      each.last_beat = now;
    }
  }
  Peer* first = nullptr;  // of the others that have not ended
  for_each_peer([&](Peer& peer) {
    if (!peer.end && (first == nullptr || peer.last_beat < first->last_beat)) {
      first = &peer;
    }
  });
  const Peer& own = peers_[static_cast<std::size_t>(rank())];
  const auto limit = pulses_->silence_limit();
  if (first == nullptr || now - own.last_beat <= limit) {
    return;
  }
  // If it may have been this one, the others speak first; but somebody has to.
  const bool others_first = own.last_beat <= first->last_beat;
  if (now - first->last_beat <= limit + (others_first ? 2.0 : 0.0) * pulses_->interval()) {
    return;
  }
  silent_ = first->rank;
  first->silent = true;
  Watch(*pulses_, rank(), own_pulse().operation()).report(first->rank);
}

CallEnd ProcessGroup::call_end_of_others() const {
  return {.failure = heard_, .origin = heard_from_, .flops = {}, .usable = false};
}

CallEnd ProcessGroup::leave() {
  const std::lock_guard lock(mutex_);
  left_ = true;
  in_call_ = false;
  transport_->abandon();
  return call_end_of_others();
}

bool ProcessGroup::lost(std::int64_t rank) const {
  const std::lock_guard lock(mutex_);
  return peers_[static_cast<std::size_t>(rank)].silent;
}

void ProcessGroup::wait(const Pulses& pulses, const runtime::host::OneWayCounter& counter,
                        std::uint32_t target, std::int64_t peer, const char* operation) {
  try {
    pulses.wait(counter, target, rank(), peer, operation);
  } catch (const SilentRank& silence) {
    lose(silence.rank());
    throw;
  }
}

void ProcessGroup::lose(std::int64_t rank) {
  const std::lock_guard lock(mutex_);
  silent_ = rank;
  peers_[static_cast<std::size_t>(rank)].silent = true;
}

// ---- the end of a call

CallEnd ProcessGroup::conclude(const std::optional<Failure>& known, double flops) {
  std::optional<Failure> own = known;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !calling_back_; });
    if (left_) {
      return call_end_of_others();
    }
    // Once more: of what is found later the others cannot be told.
    if (const std::exception_ptr reason = look_around()) {
      found_ = found_ ? found_ : describe(reason);
      own_pulse().set_failed(true);
    }
    in_call_ = false;  // this thread looks around from here on
    own = own ? own : found_;
    send_ends(own, flops);
  }
  const std::optional<Failure> late = await_ends();
  CallEnd call_end = judge(own, flops, late);
  call_end.usable = call_end.usable && (!call_end.failure || settle());
  if (!call_end.usable) {
    say_farewell();
    transport_->abandon();
  }
  return call_end;
}

void ProcessGroup::send_ends(const std::optional<Failure>& own, double flops) {
  Note note = make_note(NoteKind::end, own);
  note.flops = flops;
  for_each_peer([&](Peer& peer) {
    note.messages = data_.sent_to(peer.rank);
    send(peer, note);
    if (peer.end) {  // nothing was due from it; now it is to take this note
      peer.last_note = Clock::now();
    }
  });
}

void ProcessGroup::show_end() const { own_pulse().beat(end_of_call, own_pulse().step()); }

/// Waits for the last note of everybody who is not silent, and until they have this one's. If
/// somebody falls silent meanwhile: who.
std::optional<Failure> ProcessGroup::await_ends() {
  std::optional<Failure> late;
  bool failing = own_pulse().failed();
  Watch watch(*pulses_, rank(), end_of_call);
  for (Patience patience;; patience.pause()) {
    const std::lock_guard lock(mutex_);
    try {
      failing = look_around() != nullptr || failing;
      show_end();
      const auto missing = std::find_if(peers_.begin(), peers_.end(), [this](const Peer& peer) {
        return peer.rank != rank() && !peer.end && !peer.silent;
      });
      if (missing != peers_.end()) {
        require_life(*missing, watch, failing);
        continue;
      }
      const auto untaken = std::find_if(outgoing_.begin(), outgoing_.end(),
                                        [](const Outgoing& one) { return !one.to.silent; });
      if (untaken == outgoing_.end()) {
        return late || !lost_ ? late : lost_->why;
      }
      require_life(untaken->to, watch, failing);
    } catch (const SilentRank& silence) {
      peers_[static_cast<std::size_t>(silence.rank())].silent = true;
      late = late ? late : Failure{silence.kind(), silence.what()};
    }
  }
}

/// Tells the others that this process makes no further call, which perhaps only it knows. They find
/// this note in their next call, instead of silence. It does not wait long for one that does not
/// take the note.
void ProcessGroup::say_farewell() {
  const auto deadline = Clock::now() + least_silence_limit;
  std::unique_lock lock(mutex_);
  const Note note = make_note(NoteKind::farewell, std::nullopt);
  for_each_peer([&](Peer& peer) { send(peer, note); });
  const auto is_on_its_way = [this](const Outgoing& one) {
    bool gone = one.to.silent;
    if (!gone) {
      reach(one.to, [&] { gone = one.message->test(); });
    }
    return !gone;
  };
  for (Patience patience;
       std::any_of(outgoing_.begin(), outgoing_.end(), is_on_its_way) && Clock::now() < deadline;) {
    show_end();
    lock.unlock();
    patience.pause();
    lock.lock();
  }
}

/// The failure of the lowest rank that has one, and what everybody has done.
CallEnd ProcessGroup::judge(const std::optional<Failure>& own, double flops,
                            const std::optional<Failure>& late) const {
  CallEnd call_end;
  for (const Peer& peer : peers_) {
    const bool self = peer.rank == rank();
    call_end.flops.push_back(self ? flops : peer.end ? peer.end->flops : 0.0);
    call_end.usable = call_end.usable && !peer.silent;
    std::optional<Failure> failure = self ? own : std::nullopt;
    if (peer.end && peer.end->failed) {
      failure = failure_in(*peer.end);
    }
    if (failure && !call_end.failure) {
      call_end.failure = failure;
      call_end.origin = peer.rank;
    }
  }
  if (!call_end.failure && (late || !call_end.usable)) {
    // Who has told a failure is silent by now, or ranks have found each other silent.
    call_end.failure = heard_ ? heard_ : late;
    if (!call_end.failure) {
      call_end.failure = {ErrorKind::communication, "a rank was lost in this call"};
    }
    call_end.origin = std::find_if(peers_.begin(), peers_.end(), [this](const Peer& peer) {
                        return peer.rank == rank() || !peer.silent;
                      })->rank;
  }
  return call_end;
}

/// Throws SilentRank. A process may take as long as it needs for what nobody waits for, a file for
/// example, as long as it is there; after a failure it has to move. Who was told to stop does not
/// wait for long, then and where it is not there: launchers kill after a second or two, and there
/// may be files to remove before.
void ProcessGroup::require_life(const Peer& peer, Watch& watch, bool failing) const {
  const bool stopping = stop_seen_ != Clock::time_point{};
  const bool gone = peer.last_note < stop_seen_;  // it tells more often than that how far it is
  if (stopping && (failing || gone) &&
      Clock::now() - stop_seen_ > (failing ? 3 : 5) * stop_patience) {
    watch.report(peer.rank);
  }
  if (failing) {
    watch.look_for_silence(peer.rank);
  }
  // Not even a pulse: another limit need not pass for each rank of a process that is gone.
  if (Clock::now() - peer.last_note > pulses_->silence_limit()) {
    watch.report(peer.rank);
  }
}

/// After a failure: whether nothing of this call is left.
bool ProcessGroup::settle() {
  std::vector<DataMessages::Sent> sent;
  for_each_peer(
      [&](Peer& peer) { sent.push_back({peer.rank, peer.end->messages, peer.end->traced}); });
  return data_.settle(
      sent, Clock::now() + std::chrono::duration_cast<Clock::duration>(pulses_->silence_limit()),
      [this] { show_end(); });
}

void ProcessGroup::exchange(const char* operation, const std::vector<Bytes>& send,
                            const std::vector<Bytes>& receive, std::shared_ptr<const void> keeps) {
  data_.exchange(*pulses_, operation, {send, receive, std::move(keeps)},
                 [this](std::int64_t rank) { lose(rank); });
}

}  // namespace shardsolve::comm
