/// What a call reports through arrays, as Python reads it: python/shardsolve/_records.py.
#pragma once

#include <shardsolve/error.hpp>
#include <shardsolve/outcome.hpp>
#include <shardsolve/scaled.hpp>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

namespace shardsolve::jax {

/// How a call ended. A status is that of Outcome, or failure + ErrorKind; then `row` is the number
/// of the message: the process keeps those of the last failures.
struct Verdict {
  static constexpr std::int32_t failure = 100;

  std::int32_t status = 0;
  std::int32_t row = -1;          ///< of the pivot or the entry, 0-based
  std::int32_t column = -1;       ///< of the entry
  std::int32_t rows_before = -1;  ///< eliminated before the pivot
  std::int32_t in_right_hand_side = 0;

  bool ok() const { return status == 0; }
};

/// A Scaled as words.
struct ScaledWords {
  std::int32_t low = 0;  ///< the fraction: the bits of a double
  std::int32_t high = 0;
  std::int32_t exponent = 0;

  static ScaledWords of(Scaled number) {
    const auto bits = std::bit_cast<std::uint64_t>(number.fraction);
    return {static_cast<std::int32_t>(bits & 0xffffffffU), static_cast<std::int32_t>(bits >> 32U),
            number.exponent};
  }
  Scaled value() const {
    const std::uint64_t bits =
        (static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32U) |
        static_cast<std::uint32_t>(low);
    return {std::bit_cast<double>(bits), exponent};
  }
};

/// What later calls have to know of a factor beyond its arrays.
struct FactorRecord {
  Verdict verdict;
  std::int32_t n = 0;
  std::int32_t devices = 0;  ///< over which its arrays are cut
  std::int32_t ranks = 0;    ///< that made it: as many, or one for all of them
  std::int32_t tile = 0;
  ScaledWords norm_of_a;  ///< ||A||_1

  void set_norm(Scaled norm) { norm_of_a = ScaledWords::of(norm); }
  Scaled norm() const { return norm_of_a.value(); }
};

/// Likewise of an LU factor: the same, and what beside it is known of a general matrix.
struct LuRecord {
  FactorRecord factor;   ///< with ||C||_1 of the slabs' matrix C
  ScaledWords inf_norm;  ///< ||C||_inf
  ScaledWords growth;
};

/// Of one that has overwritten its matrix.
struct SketchedLuRecord {
  LuRecord general;
  ScaledWords frobenius_norm;  ///< ||C||_F
};

/// Records travel as arrays of int32: nothing but such fields, no gaps.
template <class Record>
constexpr std::int64_t words = sizeof(Record) / sizeof(std::int32_t);
static_assert(words<Verdict> == 5 && words<FactorRecord> == 12 && words<LuRecord> == 18 &&
              words<SketchedLuRecord> == 21);

template <class Record>
Record read(const void* from) {
  Record record;
  std::memcpy(&record, from, sizeof(Record));
  return record;
}
template <class Record>
void write(const Record& record, void* to) {
  std::memcpy(to, &record, sizeof(Record));
}

Verdict verdict_of(const Outcome& outcome);
Verdict verdict_of(const Error& error);
/// The sentence that belongs to a verdict; empty if all is well.
std::string message_of(const Verdict& verdict);

}  // namespace shardsolve::jax
