/// A call behind the handlers: from the memory of all devices to the library and back.
///
/// JAX arrays are row-major. The rows that a device holds of a Hermitian A are, read column by
/// column, the same columns of conj(A): a slab. So everything here is about conj(A), and Python
/// passes conj(b) and takes conj(x). The rows may be followed by padding, which is not touched.
#pragma once

#include "jax/call_table.hpp"
#include "jax/seat.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace shardsolve::jax {

/// What all devices of a call agree on.
struct Job {
  const CallRow* row = nullptr;
  Dtype dtype = Dtype::float64;
  std::int64_t n = 0;
  std::int64_t devices = 0;   ///< that hold the arrays
  std::int64_t ranks = 0;     ///< that work: as many, or one
  std::int64_t columns = 0;   ///< right-hand sides
  std::int64_t unknowns = 0;  ///< columns of the matrix, where that is not n x n
  Options options{};          ///< in the order of the row's

  /// Of an option of the row, of this type; throws Error(internal) if it has none of that name.
  template <class Value>
  Value option(std::string_view name) const {
    return std::get<Value>(options.at(row->option(name)));
  }
  /// What the caller has asked for, 0 for the library's choice; 0 where a call has no such option.
  std::int64_t tile() const;
};

/// Bytes of one element of a buffer.
std::size_t element_bytes(const CallBuffer& buffer, Dtype dtype);
/// How many rows every device has, its padding with them.
inline std::int64_t width_of(const Job& job) { return (job.n + job.ranks - 1) / job.ranks; }
/// The shape of a buffer on each device, row-major.
std::vector<std::int64_t> shape_of(const CallBuffer& buffer, const Job& job);
/// Elements and bytes of it, padding and all.
std::int64_t elements_of(const CallBuffer& buffer, const Job& job);
std::size_t bytes_of(const CallBuffer& buffer, const Job& job);

/// Rows cut as JAX cuts them: equal parts, and what is missing is missing at the end.
SlabLayout rows_layout(std::int64_t n, std::int64_t ranks, std::int64_t tile);

/// Up to how many rows one rank does the work of all devices; for tests that want all of them.
void set_small_matrix(std::int64_t n);

/// Whether one rank does the work of all, on the CPU, in less time than it takes to wake a thread.
bool is_short(const Job& job);

/// Does the work of a call, on as many ranks as there are devices or on one. Results are the same
/// on all devices, but for each one's own rows. Where there is no answer they are NaN and the
/// verdict says why. Throws only where GPUs cannot be written to.
void do_call(const Job& job, const std::vector<Seat>& seats);

}  // namespace shardsolve::jax
