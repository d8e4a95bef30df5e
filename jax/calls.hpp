/// The solves behind the handlers: from the memory of all devices to the library and back.
///
/// JAX arrays are row-major. The rows that a device holds of a Hermitian A are, read column by
/// column, the same columns of conj(A): a slab. So everything here is about conj(A), and Python
/// passes conj(b) and takes conj(x). The rows may be followed by padding, which is not touched.
#pragma once

#include "jax/seat.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/slab_layout.hpp>

#include <complex>
#include <cstdint>
#include <vector>

namespace shardsolve::jax {

/// What all devices of a call agree on.
struct Job {
  Dtype dtype = Dtype::float64;
  std::int64_t n = 0;
  std::int64_t devices = 0;  ///< that hold the arrays
  std::int64_t ranks = 0;    ///< that work: as many, or one
  std::int64_t tile = 0;     ///< 0: the library's choice
  std::int64_t columns = 0;  ///< right-hand sides
};

/// Buffers of the seats, in the order of the handler's operands and results; w rows of n on each.
struct FactorBuffers {
  enum : std::size_t { matrix, slab, diagonal, log_determinant, record };
};
struct SolveBuffers {
  enum : std::size_t { slab, diagonal, record, b, x, verdict, error };
};
struct InverseBuffers {
  enum : std::size_t { slab, diagonal, record, inverse, verdict, numbers };
};
struct ConditionBuffers {
  enum : std::size_t { slab, diagonal, record, rcond, verdict };
};

/// Rows cut as JAX cuts them: equal parts, and what is missing is missing at the end.
SlabLayout rows_layout(std::int64_t n, std::int64_t ranks, std::int64_t tile);

/// Calls body.operator()<T>() for the type of this dtype.
template <class Body>
void with_dtype(Dtype dtype, Body body) {
  switch (dtype) {
    case Dtype::float32:
      return body.template operator()<float>();
    case Dtype::float64:
      return body.template operator()<double>();
    case Dtype::complex64:
      return body.template operator()<std::complex<float>>();
    case Dtype::complex128:
      return body.template operator()<std::complex<double>>();
  }
}

/// Up to how many rows one rank does the work of all devices; for tests that want all of them.
void set_small_matrix(std::int64_t n);

/// Whether one rank does the work of all, on the CPU, in less time than it takes to wake a thread.
bool is_short(const Job& job);

// Results are the same on all devices, but for each one's own rows. Where there is no answer they
// are NaN and the verdict says why. These throw only where GPUs cannot be written to.
void factor(const Job& job, const std::vector<Seat>& seats);
void solve(const Job& job, const std::vector<Seat>& seats);
void invert(const Job& job, const std::vector<Seat>& seats);
void condition(const Job& job, const std::vector<Seat>& seats);

}  // namespace shardsolve::jax
