/// A call under way, for the function that does its work.
#pragma once

#include "jax/calls.hpp"
#include "jax/devices.hpp"
#include "jax/records.hpp"
#include "jax/seat.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/dtype.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/slab_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::jax {

template <Scalar T>
inline constexpr T not_a_number = T(std::numeric_limits<RealOf<T>>::quiet_NaN());

/// A figure that an outcome may not have: NaN then.
template <Scalar T>
RealOf<T> number(const std::optional<double>& value) {
  return value ? static_cast<RealOf<T>>(*value) : not_a_number<RealOf<T>>;
}

/// Up to this size one rank computes in the thread that has come: others are not woken in less
/// time.
constexpr bool is_serial(std::int64_t n) { return n <= 512; }

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

/// The job, the devices, and the buffers of the seats by their places in the call's row. Whoever
/// does the work writes all results, also where there is no answer.
class Task {
 public:
  /// What the row has a result take the memory of is there, on GPUs too. `before`: whether there is
  /// a reason already why there is no answer.
  Task(const Job& job, const std::vector<Seat>& seats, const Verdict& before);

  const Job& job() const { return job_; }
  const Verdict& before() const { return before_; }
  Memory memory() const { return devices_.memory(); }
  /// As Devices has them.
  template <class Body>
  auto with_mesh(Body body) {
    return devices_.with_mesh(body);
  }

  /// Cut as JAX cuts rows, in tiles as asked for or of the default size.
  SlabLayout layout();
  /// The matrix in a buffer of slabs.
  template <Scalar T>
  ShardedMatrix<T> matrix(const SlabLayout& layout, BufferIndex buffer) const;
  /// Columns of right-hand sides, one after the other, each with a device's rows and its padding.
  template <Scalar T>
  RightHandSides<T> right_hand_sides(const SlabLayout& layout, BufferIndex buffer) const {
    return columns_of<T>(layout, buffer, job_.columns);
  }
  /// Likewise the columns of the matrix, where that is not n x n.
  template <Scalar T>
  RightHandSides<T> tall_matrix(const SlabLayout& layout, BufferIndex buffer) const {
    return columns_of<T>(layout, buffer, job_.unknowns);
  }

  /// A record, from the device that has it.
  template <class Record>
  Record read_record(BufferIndex buffer) const {
    Record record;
    devices_.read(0, seats_[0].at(buffer), &record, 1);
    return record;
  }
  /// `count` values that are the same on all devices.
  template <class V>
  void read_whole(BufferIndex buffer, V* values, std::int64_t count) const {
    devices_.read(0, seats_[0].at(buffer), values, count);
  }
  /// The n values of a buffer of rows, or those of them that are in reach.
  template <class V>
  void read_rows(const SlabLayout& layout, BufferIndex buffer, V* values) const {
    for (std::size_t seat = 0; seat < seats_.size(); ++seat) {
      const GlobalRange own = layout.segment(seats_[seat].rank);
      devices_.read(seat, seats_[seat].at(buffer), values + own.begin.value(), own.size());
    }
  }
  template <class V>
  void write_rows(const SlabLayout& layout, BufferIndex buffer, const V* values) const {
    for (std::size_t seat = 0; seat < seats_.size(); ++seat) {
      const GlobalRange own = layout.segment(seats_[seat].rank);
      devices_.write(seat, seats_[seat].at(buffer), values + own.begin.value(), own.size());
    }
  }
  /// `count` values that are the same on all devices.
  template <class V>
  void write_to_all(BufferIndex buffer, const V* values, std::int64_t count = 1) const {
    for (std::size_t seat = 0; seat < seats_.size(); ++seat) {
      devices_.write(seat, seats_[seat].at(buffer), values, count);
    }
  }
  /// All of a buffer of T on all devices, padding and all.
  template <Scalar T>
  void fill_nan(BufferIndex buffer) const {
    const std::int64_t count = elements_of(job_.row->buffers.at(buffer), job_);
    for (std::size_t seat = 0; seat < seats_.size(); ++seat) {
      devices_.fill(seat, seats_[seat].at(buffer), not_a_number<T>, count);
    }
  }

 private:
  template <Scalar T>
  RightHandSides<T> columns_of(const SlabLayout& layout, BufferIndex buffer,
                               std::int64_t count) const;

  const Job& job_;
  const std::vector<Seat>& seats_;
  Verdict before_;
  Devices devices_;
};

template <Scalar T>
ShardedMatrix<T> Task::matrix(const SlabLayout& layout, BufferIndex buffer) const {
  std::vector<MatrixView<T>> slabs(static_cast<std::size_t>(layout.ranks()));
  for (const Seat& seat : seats_) {
    slabs[static_cast<std::size_t>(seat.rank)] = {static_cast<T*>(seat.at(buffer)), layout.size(),
                                                  layout.width(seat.rank)};
  }
  return {layout, std::move(slabs), memory()};
}

template <Scalar T>
RightHandSides<T> Task::columns_of(const SlabLayout& layout, BufferIndex buffer,
                                   std::int64_t count) const {
  std::vector<MatrixView<T>> blocks(static_cast<std::size_t>(layout.ranks()));
  for (const Seat& seat : seats_) {
    blocks[static_cast<std::size_t>(seat.rank)] = {static_cast<T*>(seat.at(buffer)),
                                                   layout.width(seat.rank), count,
                                                   std::max<std::int64_t>(width_of(job_), 1)};
  }
  return {layout, std::move(blocks), memory()};
}

}  // namespace shardsolve::jax
