/// Systems of so few rows that one block of a GPU solves each, a batch of them at once: Cholesky's
/// and LU's factors, solutions and backward errors, in the arrays that the JAX package passes.
#pragma once

#include "runtime/host_and_device.hpp"

#include <shardsolve/dtype.hpp>

#include <cstdint>

namespace shardsolve::runtime {

/// Rows of the largest ones: with more, routines for any size took less time (one H200).
inline constexpr std::int64_t most_small_rows = 64;

/// What each item of a batch has, `stride` bytes from one to the next; 0: one for all.
struct SmallItems {
  void* data = nullptr;
  std::int64_t stride = 0;

  template <class T>
  SHARDSOLVE_HOST_DEVICE T* of(std::int64_t item) const {
    return reinterpret_cast<T*>(static_cast<char*>(data) + item * stride);
  }
};

enum class SmallStep : std::uint8_t { cholesky_factor, cholesky_solve, lu_factor, lu_solve };

/// One step for all of a batch; memory is the GPU's, matrices lie by rows. A factor is that of
/// `dense::cholesky::factor_small` or `dense::lu::factor_small`; so are x and its errors, of which
/// the largest count.
///
/// A record is `head`, then numbers in three words each: a fraction's low and high bits, and the
/// exponent of the power of two that it is multiplied by. For Cholesky ||A||; for LU ||A||_inf,
/// ||A||_1 and the growth. Its first word, like that of a verdict, is 0, or `undecided` where there
/// would be more to do or to say.
struct SmallSystems {
  static constexpr std::int32_t undecided = -1;
  static constexpr int head_words = 9;
  static constexpr int verdict_words = 5;
  /// Of the head, which the record of a factor that can be solved with begins with.
  static constexpr int known_words = 8;

  SmallStep step{};
  Dtype dtype = Dtype::float64;
  std::int64_t batch = 1;
  std::int64_t n = 0;
  std::int64_t columns = 0;  ///< of b
  bool adjoint = false;      ///< A^H x = b; LU
  std::int32_t head[head_words] = {};

  SmallItems a;         ///< n x n; of a factor by Cholesky's, and LU's
  SmallItems slab;      ///< n x n: the factor
  SmallItems diagonal;  ///< n reals: A's; Cholesky
  SmallItems rows;      ///< n int32: the row of A^T that came to each place; LU
  SmallItems sign;      ///< 1: of det A; LU
  SmallItems log;       ///< 1 real: log |det A|
  SmallItems record;
  SmallItems b;  ///< columns x n: conj(b)^T
  SmallItems x;  ///< likewise
  SmallItems verdict;
  SmallItems errors;  ///< 1 real, by norm; LU: 2, the other one by components
};

}  // namespace shardsolve::runtime
