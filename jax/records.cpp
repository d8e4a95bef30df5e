#include "jax/records.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

namespace shardsolve::jax {
namespace {

/// The last messages of failures, as text does not fit an array.
class Messages {
 public:
  std::int32_t keep(std::string message) {
    const std::lock_guard lock(mutex_);
    const std::int32_t number = next_;
    next_ = number == std::numeric_limits<std::int32_t>::max() ? 0 : number + 1;
    messages_[slot(number)] = {number, std::move(message)};
    return number;
  }
  std::string at(std::int32_t number) const {
    const std::lock_guard lock(mutex_);
    const Message& found = messages_[slot(number)];
    if (number < 0 || found.number != number) {
      return fmt::format("the text of this failure is no longer kept: only the last {} are", kept);
    }
    return found.text;
  }

 private:
  struct Message {
    std::int32_t number = -1;
    std::string text;
  };
  static constexpr std::size_t kept = 256;
  static std::size_t slot(std::int32_t number) { return static_cast<std::uint32_t>(number) % kept; }

  mutable std::mutex mutex_;
  std::vector<Message> messages_ = std::vector<Message>(kept);
  std::int32_t next_ = 0;  // the running number, which an array of int32 holds
};

Messages& messages() {
  static auto& all = *new Messages;
  return all;
}

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

}  // namespace

Verdict verdict_of(const Outcome& outcome) {
  Verdict verdict;
  verdict.status = static_cast<std::int32_t>(outcome.status);
  if (!outcome.location) {
    return verdict;
  }
  const Location& location = *outcome.location;
  verdict.row = narrow(location.row.value());
  switch (location.what) {
    case Located::pivot:
      verdict.rows_before = narrow(location.rows_before);
      break;
    case Located::matrix_entry:
      verdict.column = narrow(location.column.value());
      std::swap(verdict.row, verdict.column);  // what we were given are rows, not columns
      break;
    case Located::right_hand_side_entry:
      verdict.column = narrow(location.column.value());
      verdict.in_right_hand_side = 1;
      break;
  }
  return verdict;
}

Verdict verdict_of(const Error& error) {
  Verdict verdict;
  verdict.status = Verdict::failure + static_cast<std::int32_t>(error.kind());
  verdict.row = messages().keep(error.what());
  return verdict;
}

std::string message_of(const Verdict& verdict) {
  if (verdict.status >= Verdict::failure) {
    return messages().at(verdict.row);
  }
  Outcome outcome;
  outcome.status = static_cast<Status>(verdict.status);
  if (verdict.rows_before >= 0) {
    outcome.location = Location::pivot(GlobalIndex(verdict.row), verdict.rows_before);
  }
  if (verdict.column >= 0) {
    const GlobalIndex row(verdict.row);
    const GlobalIndex column(verdict.column);
    outcome.location = verdict.in_right_hand_side != 0 ? Location::in_right_hand_sides(row, column)
                                                       : Location::in_matrix(row, column);
  }
  return outcome.message();
}

}  // namespace shardsolve::jax
