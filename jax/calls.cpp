#include "jax/calls.hpp"

#include "jax/devices.hpp"
#include "jax/records.hpp"
#include "mesh/mesh_state.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace shardsolve::jax {
namespace {

/// How many rows every device has, its padding with them.
std::int64_t width_of(const Job& job) { return (job.n + job.ranks - 1) / job.ranks; }

SlabLayout layout_of(const Job& job, const Devices& devices) {
  const std::int64_t tile = job.tile > 0 ? job.tile : devices.default_tile(job.n, job.dtype);
  return rows_layout(job.n, job.ranks, tile);
}

template <Scalar T>
ShardedMatrix<T> matrix(const SlabLayout& layout, const std::vector<Seat>& seats,
                        std::size_t buffer, Memory memory) {
  std::vector<MatrixView<T>> slabs(static_cast<std::size_t>(layout.ranks()));
  for (const Seat& seat : seats) {
    slabs[static_cast<std::size_t>(seat.rank)] = {static_cast<T*>(seat.buffers[buffer]),
                                                  layout.size(), layout.width(seat.rank)};
  }
  return {layout, std::move(slabs), memory};
}

/// Columns of right-hand sides, one after the other, each with a device's rows and its padding.
template <Scalar T>
RightHandSides<T> right_hand_sides(const Job& job, const SlabLayout& layout,
                                   const std::vector<Seat>& seats, std::size_t buffer,
                                   Memory memory) {
  const std::int64_t width = width_of(job);
  std::vector<MatrixView<T>> blocks(static_cast<std::size_t>(layout.ranks()));
  for (const Seat& seat : seats) {
    blocks[static_cast<std::size_t>(seat.rank)] = {static_cast<T*>(seat.buffers[buffer]),
                                                   layout.width(seat.rank), job.columns,
                                                   std::max<std::int64_t>(width, 1)};
  }
  return {layout, std::move(blocks), memory};
}

/// Throws if a factor was made of another matrix or on other devices.
void require_made_for(const Job& job, const FactorRecord& record) {
  if (record.n != job.n || record.devices != job.devices) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("this factor was made of {} rows on {} devices and is used as one of "
                            "{} rows on {}: use it with the sharding that it was made on, or "
                            "factor again",
                            record.n, record.devices, job.n, job.devices));
  }
  if (record.ranks != job.ranks) {
    throw Error(ErrorKind::invalid_argument,
                "this factor was made by one CPU device for all, as small ones are, and is used "
                "on GPUs: factor again there");
  }
}

/// The factor that lies in the buffers of a call that uses one.
template <Scalar T>
CholeskyFactor<T> adopt(const Job& job, const FactorRecord& record, const std::vector<Seat>& seats,
                        const Devices& devices, std::size_t slab, std::size_t diagonal) {
  require_made_for(job, record);
  const SlabLayout layout = rows_layout(job.n, job.ranks, record.tile);
  CholeskyFactor<T> factor{matrix<T>(layout, seats, slab, devices.memory()),
                           std::make_shared<std::vector<RealOf<T>>>(job.n),
                           record.norm(),
                           {}};
  for (std::size_t seat = 0; seat < seats.size(); ++seat) {
    const GlobalRange rows = layout.segment(seats[seat].rank);
    devices.read(seat, seats[seat].buffers[diagonal], factor.diagonal->data() + rows.begin.value(),
                 rows.size());
  }
  return factor;
}

/// Runs `body`, which returns an outcome, and gives the verdict; what is thrown is part of it.
template <class Body>
Verdict judge(Body body) {
  try {
    return verdict_of(body());
  } catch (const Error& error) {
    return verdict_of(error);
  } catch (const std::bad_alloc&) {
    return verdict_of(Error(ErrorKind::out_of_memory, "there is not enough memory for this call"));
  } catch (const std::exception& error) {
    return verdict_of(Error(ErrorKind::internal, error.what()));
  }
}

template <Scalar T>
constexpr T not_a_number = T(std::numeric_limits<RealOf<T>>::quiet_NaN());

/// In rows of `length` elements, on all devices, padding and all.
template <Scalar T>
void fill_nan(const Job& job, const std::vector<Seat>& seats, const Devices& devices,
              std::size_t buffer, std::int64_t length) {
  for (std::size_t seat = 0; seat < seats.size(); ++seat) {
    devices.fill(seat, seats[seat].buffers[buffer], not_a_number<T>, width_of(job) * length);
  }
}

/// `count` values that are the same on all devices.
template <class V>
void write_to_all(const std::vector<Seat>& seats, const Devices& devices, std::size_t buffer,
                  const V* values, std::int64_t count = 1) {
  for (std::size_t seat = 0; seat < seats.size(); ++seat) {
    devices.write(seat, seats[seat].buffers[buffer], values, count);
  }
}

/// The record of a factor, from the device that has it.
FactorRecord read_record(const std::vector<Seat>& seats, const Devices& devices,
                         std::size_t buffer) {
  FactorRecord record;
  devices.read(0, seats[0].buffers[buffer], &record, 1);
  return record;
}

template <Scalar T>
RealOf<T> number(const std::optional<double>& value) {
  return value ? static_cast<RealOf<T>>(*value) : not_a_number<RealOf<T>>;
}

/// Does the call with the memory of the seats: if `before` is not ok, writes that this is how it
/// ended.
using TypedWork = void (*)(const Job& job, const std::vector<Seat>& seats, const Verdict& before);

template <Scalar T>
void factor_typed(const Job& job, const std::vector<Seat>& seats, const Verdict& before) {
  using Buffers = FactorBuffers;
  Devices devices(seats);
  devices.bring(Buffers::matrix, Buffers::slab,
                static_cast<std::size_t>(width_of(job) * job.n) * sizeof(T));
  FactorRecord record;
  record.n = static_cast<std::int32_t>(job.n);
  record.devices = static_cast<std::int32_t>(job.devices);
  record.ranks = static_cast<std::int32_t>(job.ranks);
  RealOf<T> log_determinant = not_a_number<RealOf<T>>;
  record.verdict = before;
  if (before.ok()) {
    record.verdict = judge([&] {
      const SlabLayout layout = layout_of(job, devices);
      record.tile = static_cast<std::int32_t>(layout.tile());
      const auto a = matrix<T>(layout, seats, Buffers::slab, devices.memory());
      const CholeskyFactor<T> factor = devices.with_mesh(
          [&](Mesh& mesh, const RunOptions& run) { return cholesky_factor(mesh, a, run); });
      if (factor.outcome.ok()) {
        record.set_norm(factor.norm);
        log_determinant = static_cast<RealOf<T>>(shardsolve::log_determinant(factor));
        for (std::size_t seat = 0; seat < seats.size(); ++seat) {
          const GlobalRange rows = layout.segment(seats[seat].rank);
          devices.write(seat, seats[seat].buffers[Buffers::diagonal],
                        factor.diagonal->data() + rows.begin.value(), rows.size());
        }
      }
      return factor.outcome;
    });
  }
  if (!record.verdict.ok()) {
    fill_nan<RealOf<T>>(job, seats, devices, Buffers::diagonal, 1);
  }
  write_to_all(seats, devices, Buffers::record, &record);
  write_to_all(seats, devices, Buffers::log_determinant, &log_determinant);
}

template <Scalar T>
void solve_typed(const Job& job, const std::vector<Seat>& seats, const Verdict& before) {
  using Buffers = SolveBuffers;
  Devices devices(seats);
  devices.bring(Buffers::b, Buffers::x,
                static_cast<std::size_t>(width_of(job) * job.columns) * sizeof(T));
  const FactorRecord record = read_record(seats, devices, Buffers::record);
  RealOf<T> backward_error = not_a_number<RealOf<T>>;
  Verdict verdict = before.ok() ? record.verdict : before;
  if (verdict.ok()) {
    verdict = judge([&] {
      const auto factor = adopt<T>(job, record, seats, devices, Buffers::slab, Buffers::diagonal);
      const auto x = right_hand_sides<T>(job, factor.layout(), seats, Buffers::x, devices.memory());
      const Outcome outcome = devices.with_mesh(
          [&](Mesh& mesh, const RunOptions& run) { return cholesky_solve(mesh, factor, x, run); });
      backward_error = number<T>(outcome.backward_error);
      return outcome;
    });
  }
  if (!verdict.ok()) {
    fill_nan<T>(job, seats, devices, Buffers::x, job.columns);
    backward_error = not_a_number<RealOf<T>>;
  }
  write_to_all(seats, devices, Buffers::verdict, &verdict);
  write_to_all(seats, devices, Buffers::error, &backward_error);
}

template <Scalar T>
void invert_typed(const Job& job, const std::vector<Seat>& seats, const Verdict& before) {
  using Buffers = InverseBuffers;
  Devices devices(seats);
  devices.bring(Buffers::slab, Buffers::inverse,
                static_cast<std::size_t>(width_of(job) * job.n) * sizeof(T));
  const FactorRecord record = read_record(seats, devices, Buffers::record);
  Verdict verdict = before.ok() ? record.verdict : before;
  RealOf<T> numbers[2] = {not_a_number<RealOf<T>>, not_a_number<RealOf<T>>};
  if (verdict.ok()) {
    verdict = judge([&] {
      auto factor = adopt<T>(job, record, seats, devices, Buffers::inverse, Buffers::diagonal);
      const Outcome outcome = devices.with_mesh([&](Mesh& mesh, const RunOptions& run) {
        return cholesky_inverse(mesh, std::move(factor), run);
      });
      numbers[0] = number<T>(outcome.backward_error);
      numbers[1] = number<T>(outcome.rcond);
      return outcome;
    });
  }
  if (!verdict.ok()) {
    fill_nan<T>(job, seats, devices, Buffers::inverse, job.n);
  }
  write_to_all(seats, devices, Buffers::verdict, &verdict);
  write_to_all(seats, devices, Buffers::numbers, numbers, 2);
}

template <Scalar T>
void condition_typed(const Job& job, const std::vector<Seat>& seats, const Verdict& before) {
  using Buffers = ConditionBuffers;
  Devices devices(seats);
  const FactorRecord record = read_record(seats, devices, Buffers::record);
  RealOf<T> rcond = not_a_number<RealOf<T>>;
  Verdict verdict = before.ok() ? record.verdict : before;
  if (verdict.ok()) {
    verdict = judge([&] {
      const auto factor = adopt<T>(job, record, seats, devices, Buffers::slab, Buffers::diagonal);
      rcond = static_cast<RealOf<T>>(devices.with_mesh([&](Mesh& mesh, const RunOptions& run) {
        return condition_estimate(mesh, factor, run);
      }));
      return Outcome{};
    });
  }
  write_to_all(seats, devices, Buffers::verdict, &verdict);
  write_to_all(seats, devices, Buffers::rcond, &rcond);
}

/// How one buffer of a seat is laid out, and whether the call writes it.
struct Part {
  enum Kind { unused, rows, columns, small };
  Kind kind = unused;
  std::int64_t length = 0;  // bytes of a row, of an element of a column, or of all
  bool read = false;
  bool written = false;
  bool verdict = false;  // begins with one
};
using Parts = std::vector<Part>;

/// The call as one rank does it for all devices, with copies of their rows. Throws only before
/// anything has been written.
void on_one_rank(const Job& job, const std::vector<Seat>& seats, const Parts& parts,
                 TypedWork work) {
  const std::vector<std::int64_t> first = rows_layout(job.n, job.devices, 1).boundaries();
  const std::int64_t width = (job.n + job.devices - 1) / job.devices;
  Job alone = job;
  alone.ranks = 1;
  std::vector<Seat> seat{seats[0]};
  std::vector<std::vector<std::byte>> copies(parts.size());
  // Calls body(a device's memory, the copy's, bytes) for every run of rows.
  const auto each_run = [&](std::size_t buffer, auto body) {
    const Part& part = parts[buffer];
    const std::int64_t count = part.kind == Part::columns ? job.columns : 1;
    for (std::size_t device = 0; device < seats.size(); ++device) {
      for (std::int64_t column = 0; column < count; ++column) {
        body(static_cast<std::byte*>(seats[device].buffers[buffer]) + column * width * part.length,
             copies[buffer].data() + (column * job.n + first[device]) * part.length,
             static_cast<std::size_t>((first[device + 1] - first[device]) * part.length));
      }
    }
  };
  for (std::size_t buffer = 0; buffer < parts.size(); ++buffer) {
    const Part& part = parts[buffer];
    if (part.kind != Part::rows && part.kind != Part::columns) {
      continue;
    }
    const std::int64_t count = part.kind == Part::columns ? job.columns : 1;
    copies[buffer].resize(static_cast<std::size_t>(job.n * count * part.length));
    seat[0].buffers[buffer] = copies[buffer].data();
    if (part.read) {
      each_run(buffer, [](std::byte* own, std::byte* copy, std::size_t bytes) {
        std::copy_n(own, bytes, copy);
      });
    }
  }
  work(alone, seat, Verdict{});
  for (std::size_t buffer = 0; buffer < parts.size(); ++buffer) {
    const Part& part = parts[buffer];
    if (!part.written) {
      continue;
    }
    if (part.kind != Part::small) {
      each_run(buffer, [](std::byte* own, std::byte* copy, std::size_t bytes) {
        std::copy_n(copy, bytes, own);
      });
      continue;
    }
    for (std::size_t device = 1; device < seats.size(); ++device) {
      std::copy_n(static_cast<std::byte*>(seat[0].buffers[buffer]), part.length,
                  static_cast<std::byte*>(seats[device].buffers[buffer]));
    }
  }
}

/// Bytes of a part on each device, padding and all.
std::size_t bytes_of(const Part& part, const Job& job) {
  const std::int64_t width = (job.n + job.devices - 1) / job.devices;
  switch (part.kind) {
    case Part::unused:
      return 0;
    case Part::rows:
      return static_cast<std::size_t>(width * part.length);
    case Part::columns:
      return static_cast<std::size_t>(width * part.length * job.columns);
    case Part::small:
      return static_cast<std::size_t>(part.length);
  }
  return 0;
}

/// What the seats of other processes hold, where their rank 0 does the work of all.
class StandIns {
 public:
  /// `own` is the seat that is here; on rank 0 there is a stand-in for each other one.
  StandIns(const Job& job, const Seat& own, Parts parts)
      : job_(job), own_(own), parts_(std::move(parts)), memory_(own.rank == 0 ? job.devices : 1) {
    std::size_t size = 0;
    for (const Part& part : parts_) {
      size += bytes_of(part, job_);
    }
    for (auto& memory : memory_) {
      memory.resize(size);
    }
  }

  const Job& job() const { return job_; }
  const Parts& parts() const { return parts_; }
  /// Every rank's memory: on rank 0 of all, elsewhere the own one.
  std::vector<std::byte>& of(std::int64_t rank) {
    return memory_[own_.rank == 0 ? static_cast<std::size_t>(rank) : 0];
  }
  std::vector<Seat> seats() {
    std::vector<Seat> all;
    for (std::int64_t rank = 0; rank < job_.devices; ++rank) {
      Seat seat = own_;
      seat.rank = rank;
      seat.others = nullptr;
      each_part(of(rank), [&](std::size_t buffer, std::byte* memory, std::size_t) {
        seat.buffers[buffer] = memory;
      });
      all.push_back(seat);
    }
    return all;
  }
  /// From the own seat, what is read.
  void fill() {
    each_part(of(own_.rank), [&](std::size_t buffer, std::byte* memory, std::size_t size) {
      if (parts_[buffer].read) {
        std::copy_n(static_cast<std::byte*>(own_.buffers[buffer]), size, memory);
      }
    });
  }
  /// To the own seat, what was written.
  void empty() {
    each_part(of(own_.rank), [&](std::size_t buffer, std::byte* memory, std::size_t size) {
      if (parts_[buffer].written) {
        std::copy_n(memory, size, static_cast<std::byte*>(own_.buffers[buffer]));
      }
    });
  }

 private:
  template <class Body>
  void each_part(std::vector<std::byte>& all, Body body) {
    std::byte* memory = all.data();
    for (std::size_t buffer = 0; buffer < parts_.size(); ++buffer) {
      const std::size_t size = bytes_of(parts_[buffer], job_);
      if (parts_[buffer].kind != Part::unused) {
        body(buffer, memory, size);
      }
      memory += size;
    }
  }

  Job job_;
  Seat own_;
  Parts parts_;
  std::vector<std::vector<std::byte>> memory_;
};

/// A failure is thrown again where all ranks hear of it: its message is known in this process only.
void throw_failure(const Seat& seat, const Parts& parts) {
  for (std::size_t buffer = 0; buffer < parts.size(); ++buffer) {
    if (parts[buffer].verdict) {
      const auto verdict = read<Verdict>(seat.buffers[buffer]);
      if (verdict.status >= Verdict::failure) {
        throw Error(static_cast<ErrorKind>(verdict.status - Verdict::failure), message_of(verdict));
      }
    }
  }
}

/// The call as rank 0 does it for all, where the others are in other processes.
void on_rank_0(const Job& job, const Seat& own, const Parts& parts, TypedWork work) {
  // A rank that is given up keeps what it may still use.
  const auto stand_ins = std::make_shared<StandIns>(job, own, parts);
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
      on_one_rank(stand_ins->job(), seats, stand_ins->parts(), work);
      throw_failure(seats.front(), stand_ins->parts());
    }
    rank.communicator().all_to_all(rank.transfer(), theirs, back);
    rank.transfer().synchronize();
  });
  stand_ins->empty();
}

/// Up to this size one rank is faster than several are woken. Not where a tile is asked for.
std::atomic<std::int64_t> small_matrix{256};

template <Scalar T>
constexpr auto element = static_cast<std::int64_t>(sizeof(T));

constexpr Part read_rows(std::int64_t bytes) { return {Part::rows, bytes, true, false}; }
constexpr Part written_rows(std::int64_t bytes) { return {Part::rows, bytes, false, true}; }
constexpr Part both_rows(std::int64_t bytes) { return {Part::rows, bytes, true, true}; }
template <class Record>
constexpr Part written_small(std::int64_t count = 1) {
  constexpr bool verdict = std::is_same_v<Record, Verdict> || std::is_same_v<Record, FactorRecord>;
  return {Part::small, count * static_cast<std::int64_t>(sizeof(Record)), false, true, verdict};
}
template <class Record>
constexpr Part read_small() {
  return {Part::small, static_cast<std::int64_t>(sizeof(Record)), true, false};
}

/// Runs `work` on as many ranks as there are devices, or on one; `parts` are read then.
template <class MakeParts>
void run(const Job& job, const std::vector<Seat>& seats, bool alone, TypedWork work,
         MakeParts parts) {
  Verdict room;
  if (alone) {
    room = judge([&] {
      if (seats.front().others) {
        on_rank_0(job, seats.front(), parts(), work);
      } else {
        on_one_rank(job, seats, parts(), work);
      }
      return Outcome{};
    });
  }
  if (!alone || !room.ok()) {
    work(job, seats, room);
  }
}

/// Whether one rank may do the work of several devices: on GPUs it could not reach their rows.
bool may_be_alone(const Job& job, const std::vector<Seat>& seats) {
  return job.devices > 1 && !seats[0].gpu;
}

/// Whether the factor that lies in the buffers was made by one rank for several devices.
bool made_alone(const Job& job, const std::vector<Seat>& seats, std::size_t record_buffer) {
  if (!may_be_alone(job, seats)) {
    return false;
  }
  const auto record = read<FactorRecord>(seats[0].buffers[record_buffer]);
  return record.verdict.ok() && record.ranks == 1;
}

}  // namespace

SlabLayout rows_layout(std::int64_t n, std::int64_t ranks, std::int64_t tile) {
  const std::int64_t width = (n + ranks - 1) / ranks;
  std::vector<std::int64_t> boundaries;
  for (std::int64_t rank = 0; rank <= ranks; ++rank) {
    boundaries.push_back(std::min(rank * width, n));
  }
  return {std::move(boundaries), tile};
}

void set_small_matrix(std::int64_t n) { small_matrix = n; }

void factor(const Job& job, const std::vector<Seat>& seats) {
  const bool alone = job.n <= small_matrix && job.tile == 0 && may_be_alone(job, seats);
  with_dtype(job.dtype, [&]<class T>() {
    using Real = RealOf<T>;
    run(job, seats, alone, factor_typed<T>, [&] {
      return Parts{Part{}, both_rows(job.n * element<T>), written_rows(element<Real>),
                   written_small<Real>(), written_small<FactorRecord>()};
    });
  });
}

void solve(const Job& job, const std::vector<Seat>& seats) {
  const bool alone = made_alone(job, seats, SolveBuffers::record);
  with_dtype(job.dtype, [&]<class T>() {
    using Real = RealOf<T>;
    run(job, seats, alone, solve_typed<T>, [&] {
      return Parts{read_rows(job.n * element<T>),
                   read_rows(element<Real>),
                   read_small<FactorRecord>(),
                   Part{},
                   Part{Part::columns, element<T>, true, true},
                   written_small<Verdict>(),
                   written_small<Real>()};
    });
  });
}

void invert(const Job& job, const std::vector<Seat>& seats) {
  const bool alone = made_alone(job, seats, InverseBuffers::record);
  with_dtype(job.dtype, [&]<class T>() {
    using Real = RealOf<T>;
    run(job, seats, alone, invert_typed<T>, [&] {
      return Parts{Part{},
                   read_rows(element<Real>),
                   read_small<FactorRecord>(),
                   both_rows(job.n * element<T>),
                   written_small<Verdict>(),
                   written_small<Real>(2)};
    });
  });
}

void condition(const Job& job, const std::vector<Seat>& seats) {
  const bool alone = made_alone(job, seats, ConditionBuffers::record);
  with_dtype(job.dtype, [&]<class T>() {
    using Real = RealOf<T>;
    run(job, seats, alone, condition_typed<T>, [&] {
      return Parts{read_rows(job.n * element<T>), read_rows(element<Real>),
                   read_small<FactorRecord>(), written_small<Real>(), written_small<Verdict>()};
    });
  });
}

}  // namespace shardsolve::jax
