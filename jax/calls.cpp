#include "jax/calls.hpp"

#include "jax/devices.hpp"
#include "jax/one_rank.hpp"
#include "jax/records.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
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

SlabLayout layout_of(const Job& job, Devices& devices) {
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

/// Up to this size one rank computes in the thread that has come: others are not woken in less
/// time.
constexpr std::int64_t serial_matrix = 512;

bool is_serial(const Job& job) { return job.ranks == 1 && job.n <= serial_matrix; }

template <Scalar T>
void factor_typed(const Job& job, const std::vector<Seat>& seats, const Verdict& before) {
  using Buffers = FactorBuffers;
  Devices devices(seats, is_serial(job));
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
  Devices devices(seats, is_serial(job));
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
  Devices devices(seats, is_serial(job));
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
  Devices devices(seats, is_serial(job));
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

/// Up to this size one rank is faster than several are woken. Not where a tile is asked for.
std::atomic<std::int64_t> small_matrix{512};

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
      on_one_rank(job, seats, parts(), work);
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
  if (ranks < 1) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} rows are to be cut over {} ranks; at least one is needed: use a "
                            "factor as shardsolve.cho_factor returned it",
                            n, ranks));
  }
  const std::int64_t width = (n + ranks - 1) / ranks;
  std::vector<std::int64_t> boundaries;
  for (std::int64_t rank = 0; rank <= ranks; ++rank) {
    boundaries.push_back(std::min(rank * width, n));
  }
  return {std::move(boundaries), tile};
}

void set_small_matrix(std::int64_t n) { small_matrix = n; }

bool is_short(const Job& job) {
  return job.n <= serial_matrix && (job.ranks == 1 || job.n <= small_matrix);
}

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
