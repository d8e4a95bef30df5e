#include "jax/one_rank.hpp"

#include "jax/processes.hpp"
#include "jax/records.hpp"
#include "jax/task.hpp"
#include "mesh/mesh_state.hpp"

#include <shardsolve/error.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

namespace shardsolve::jax {
namespace {

/// How one buffer of a seat is laid out, and what the call does with it.
struct BufferUse {
  enum class Layout { unused, rows, columns, small };
  Layout layout = Layout::unused;
  std::int64_t length = 0;  // bytes of a row, of an element of a column, or of all
  std::int64_t count = 1;   // of columns
  std::size_t bytes = 0;    // on each device, padding and all
  bool read = false;
  bool written = false;
};
using BufferUses = std::vector<BufferUse>;

BufferUse use_of(const CallBuffer& buffer, const Job& job) {
  const auto element = static_cast<std::int64_t>(element_bytes(buffer, job.dtype));
  switch (buffer.kind) {
    case Kind::slab:
    case Kind::columns:
      return {BufferUse::Layout::rows, job.n * element};
    case Kind::rows:
      return {BufferUse::Layout::rows, element};
    case Kind::sides:
      return {BufferUse::Layout::columns, element, job.columns};
    case Kind::tall:
      return {BufferUse::Layout::columns, element, job.unknowns};
    case Kind::square:
    case Kind::unknowns:
    case Kind::each_unknown:
    case Kind::each_side:
      return {BufferUse::Layout::small, elements_of(buffer, job) * element};
    case Kind::whole:
      return {BufferUse::Layout::small, job.n * element};
    case Kind::small:
      return {BufferUse::Layout::small, buffer.length * element};
    case Kind::any:
    case Kind::vectors:
      break;
  }
  return {};
}

/// An operand whose memory a result takes counts as unused: the result holds its values already.
BufferUses uses_of(const Job& job) {
  const CallRow& row = *job.row;
  BufferUses uses;
  for (std::size_t index = 0; index < row.buffers.size(); ++index) {
    BufferUse use = use_of(row.buffers.at(index), job);
    use.bytes = bytes_of(row.buffers.at(index), job);
    use.read = index < row.buffers.operands.size();
    use.written = !use.read;
    uses.push_back(use);
  }
  if (row.copy) {
    uses[static_cast<std::size_t>(row.copy->from)] = {};
    uses[static_cast<std::size_t>(row.copy->to)].read = true;
  }
  return uses;
}

/// All seats are in this process.
void on_one_rank_here(const Job& job, const std::vector<Seat>& seats, const BufferUses& uses,
                      void (*work)(Task&)) {
  const std::vector<std::int64_t> first = rows_layout(job.n, job.devices, 1).boundaries();
  const std::int64_t width = width_of(job);
  Job alone = job;
  alone.ranks = 1;
  std::vector<Seat> seat{seats[0]};
  std::vector<std::vector<std::byte>> copies(uses.size());
  // Calls body(a device's memory, the copy's, bytes) for every run of rows.
  const auto each_run = [&](std::size_t buffer, auto body) {
    const BufferUse& use = uses[buffer];
    for (std::size_t device = 0; device < seats.size(); ++device) {
      for (std::int64_t column = 0; column < use.count; ++column) {
        body(static_cast<std::byte*>(seats[device].buffers[buffer]) + column * width * use.length,
             copies[buffer].data() + (column * job.n + first[device]) * use.length,
             static_cast<std::size_t>((first[device + 1] - first[device]) * use.length));
      }
    }
  };
  for (std::size_t buffer = 0; buffer < uses.size(); ++buffer) {
    const BufferUse& use = uses[buffer];
    if (use.layout != BufferUse::Layout::rows && use.layout != BufferUse::Layout::columns) {
      continue;
    }
    copies[buffer].resize(static_cast<std::size_t>(job.n * use.count * use.length));
    seat[0].buffers[buffer] = copies[buffer].data();
    if (use.read) {
      each_run(buffer, [](std::byte* own, std::byte* copy, std::size_t bytes) {
        std::copy_n(own, bytes, copy);
      });
    }
  }
  Task task(alone, seat, Verdict{});
  work(task);
  for (std::size_t buffer = 0; buffer < uses.size(); ++buffer) {
    const BufferUse& use = uses[buffer];
    if (!use.written) {
      continue;
    }
    if (use.layout != BufferUse::Layout::small) {
      each_run(buffer, [](std::byte* own, std::byte* copy, std::size_t bytes) {
        std::copy_n(copy, bytes, own);
      });
      continue;
    }
    for (std::size_t device = 1; device < seats.size(); ++device) {
      std::copy_n(static_cast<std::byte*>(seat[0].buffers[buffer]), use.length,
                  static_cast<std::byte*>(seats[device].buffers[buffer]));
    }
  }
}

/// Copies of the seats' buffers, where the seats are in several processes and rank 0 does the work
/// of all: on rank 0 a stand-in for each seat, elsewhere one for the own seat.
class StandIns {
 public:
  /// `own`: the seat of this process.
  StandIns(const Job& job, const Seat& own, BufferUses uses)
      : job_(job),
        own_(own),
        uses_(std::move(uses)),
        memory_(static_cast<std::size_t>(own.rank == 0 ? job.devices : 1)) {
    std::size_t size = 0;
    for (const BufferUse& use : uses_) {
      size += use.bytes;
    }
    for (auto& memory : memory_) {
      memory.resize(size);
    }
  }

  const Job& job() const { return job_; }
  const BufferUses& uses() const { return uses_; }
  /// The stand-in for a rank's seat; outside of rank 0 only the own one is there.
  std::vector<std::byte>& of(std::int64_t rank) {
    return memory_[own_.rank == 0 ? static_cast<std::size_t>(rank) : 0];
  }
  std::vector<Seat> seats() {
    std::vector<Seat> all;
    for (std::int64_t rank = 0; rank < job_.devices; ++rank) {
      Seat seat = own_;
      seat.rank = rank;
      seat.others = nullptr;
      each_buffer(of(rank), [&](std::size_t buffer, std::byte* memory, std::size_t) {
        seat.buffers[buffer] = memory;
      });
      all.push_back(seat);
    }
    return all;
  }
  /// Copies what the call reads from the own seat to its stand-in.
  void fill() {
    each_buffer(of(own_.rank), [&](std::size_t buffer, std::byte* memory, std::size_t size) {
      if (uses_[buffer].read) {
        std::copy_n(static_cast<std::byte*>(own_.buffers[buffer]), size, memory);
      }
    });
  }
  /// Copies what the call has written from the own stand-in to its seat.
  void empty() {
    each_buffer(of(own_.rank), [&](std::size_t buffer, std::byte* memory, std::size_t size) {
      if (uses_[buffer].written) {
        std::copy_n(memory, size, static_cast<std::byte*>(own_.buffers[buffer]));
      }
    });
  }

 private:
  template <class Body>
  void each_buffer(std::vector<std::byte>& all, Body body) {
    std::byte* memory = all.data();
    for (std::size_t buffer = 0; buffer < uses_.size(); ++buffer) {
      const std::size_t size = uses_[buffer].bytes;
      if (uses_[buffer].layout != BufferUse::Layout::unused) {
        body(buffer, memory, size);
      }
      memory += size;
    }
  }

  Job job_;
  Seat own_;
  BufferUses uses_;
  std::vector<std::vector<std::byte>> memory_;
};

/// Throws a failure again, so that all ranks hear of it: only this process knows its message.
void throw_failure(const Seat& seat, const CallRow& row) {
  const auto verdict = read<Verdict>(seat.at(row.verdict));
  if (verdict.status >= Verdict::failure) {
    throw Error(static_cast<ErrorKind>(verdict.status - Verdict::failure), message_of(verdict));
  }
}

/// Rank 0 does the call for all; the other ranks are in other processes.
void on_rank_0(const Job& job, const Seat& own, void (*work)(Task&)) {
  // A rank that is given up keeps what it may still use.
  const auto stand_ins = std::make_shared<StandIns>(job, own, uses_of(job));
  stand_ins->fill();
  const Turn turn = take_turn(*own.others, own.rank, false);  // the one rank's call is recorded
  turn.mesh().state().run(turn.run, [stand_ins, work](mesh::Rank& rank) {
    const auto bytes = [&](std::int64_t of) {
      std::vector<std::byte>& memory = stand_ins->of(of);
      return comm::Bytes{memory.data(), memory.size()};
    };
    const comm::Bytes mine = bytes(rank.index());
    std::vector<comm::Bytes> theirs(static_cast<std::size_t>(rank.count()));
    std::vector<comm::Bytes> back(theirs.size());
    if (rank.index() != 0) {
      back[0] = mine;
    } else {
      for (std::int64_t other = 1; other < rank.count(); ++other) {
        theirs[static_cast<std::size_t>(other)] = bytes(other);
      }
    }
    rank.communicator().gather(rank.transfer(), mine, theirs, 0);
    rank.transfer().synchronize();
    if (rank.index() == 0) {
      const std::vector<Seat> seats = stand_ins->seats();
      on_one_rank_here(stand_ins->job(), seats, stand_ins->uses(), work);
      throw_failure(seats.front(), *stand_ins->job().row);
    }
    rank.communicator().all_to_all(rank.transfer(), theirs, back);
    rank.transfer().synchronize();
  });
  stand_ins->empty();
}

}  // namespace

void on_one_rank(const Job& job, const std::vector<Seat>& seats, void (*work)(Task&)) {
  if (seats.front().others) {
    on_rank_0(job, seats.front(), work);
  } else {
    on_one_rank_here(job, seats, uses_of(job), work);
  }
}

}  // namespace shardsolve::jax
