/// The calls that JAX can make, one row each: the only place that knows a call's buffers.
///
/// The handlers check what XLA brings against the row, Python asks for it (description()), and the
/// work of a call names its buffers by indices that the compiler makes from the row.
#pragma once

#include "jax/records.hpp"
#include "jax/seat.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/routine.hpp>

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

namespace shardsolve::jax {

/// The elements of a buffer: those of the call's matrix, or of others whatever that has.
enum class Element : std::uint8_t { matrix, real, float64, words };

/// How a buffer lies on each device, row-major, and what JAX's array is. With w = ceil(n / ranks)
/// rows a device, padding and all, k right-hand sides, and c columns of a matrix that is not n x n.
enum class Kind : std::uint8_t {
  slab,          ///< (w, n): a device's rows of an (n, n) array
  rows,          ///< (w,): its elements of an (n,) array
  sides,         ///< (k, w): the conjugate transpose of its rows of an (n, k) array
  columns,       ///< (w, n): the conjugate transpose of its columns of an (n, n) array
  tall,          ///< (c, w): the conjugate transpose of its rows of an (n, c) array, the matrix
  square,        ///< (c, c): the conjugate transpose of a (c, c) array, the same on all devices
  unknowns,      ///< (k, c): that of a (c, k) array, likewise
  each_unknown,  ///< (c,): likewise
  each_side,     ///< (k,): likewise
  whole,         ///< (n,): the same array on all devices
  small,         ///< (length,): likewise, of a length that depends on nothing
  any,           ///< (batch..., length), of any length: of calls that each device makes by itself
  vectors,       ///< (batch..., k, length), likewise
};

struct CallBuffer {
  std::string_view name;
  Kind kind{};
  Element element = Element::matrix;
  std::int64_t length = 0;  ///< of a small one
};

constexpr CallBuffer slab(std::string_view name) { return {name, Kind::slab}; }
constexpr CallBuffer rows(std::string_view name, Element element = Element::matrix) {
  return {name, Kind::rows, element};
}
constexpr CallBuffer sides(std::string_view name) { return {name, Kind::sides}; }
constexpr CallBuffer columns(std::string_view name) { return {name, Kind::columns}; }
constexpr CallBuffer tall(std::string_view name) { return {name, Kind::tall}; }
constexpr CallBuffer square(std::string_view name) { return {name, Kind::square}; }
constexpr CallBuffer unknowns(std::string_view name) { return {name, Kind::unknowns}; }
constexpr CallBuffer each_unknown(std::string_view name, Element element) {
  return {name, Kind::each_unknown, element};
}
constexpr CallBuffer each_side(std::string_view name, Element element) {
  return {name, Kind::each_side, element};
}
constexpr CallBuffer whole(std::string_view name, Element element = Element::matrix) {
  return {name, Kind::whole, element};
}
constexpr CallBuffer any(std::string_view name, Element element = Element::matrix) {
  return {name, Kind::any, element};
}
constexpr CallBuffer vectors(std::string_view name) { return {name, Kind::vectors}; }
constexpr CallBuffer small(std::string_view name, Element element, std::int64_t length = 1) {
  return {name, Kind::small, element, length};
}
template <class Record>
constexpr CallBuffer record(std::string_view name) {
  return {name, Kind::small, Element::words, words<Record>};
}

/// A few values, known when this is compiled.
template <class T, std::size_t most>
class ShortList {
 public:
  constexpr ShortList() = default;
  constexpr ShortList(std::initializer_list<T> values) {
    for (const T& value : values) {
      values_.at(size_++) = value;
    }
  }

  constexpr void add(const T& value) { values_.at(size_++) = value; }
  constexpr std::size_t size() const { return size_; }
  constexpr const T& operator[](std::size_t index) const { return values_.at(index); }
  constexpr const T* begin() const { return values_.data(); }
  constexpr const T* end() const { return values_.data() + size_; }

 private:
  std::array<T, most> values_{};
  std::size_t size_ = 0;
};

/// A call's buffers in the order of its operands, then its results.
struct CallBuffers {
  ShortList<CallBuffer, Seat::max_buffers> operands;
  ShortList<CallBuffer, Seat::max_buffers> results;

  /// A name that is not there does not compile.
  consteval BufferIndex operator[](std::string_view name) const {
    for (std::size_t index = 0; index < size(); ++index) {
      if (at(index).name == name) {
        return BufferIndex{index};
      }
    }
    throw std::logic_error("the call has no buffer of that name");
  }
  constexpr std::size_t size() const { return operands.size() + results.size(); }
  constexpr const CallBuffer& at(std::size_t index) const {
    return index < operands.size() ? operands[index] : results[index - operands.size()];
  }
  constexpr const CallBuffer& at(BufferIndex index) const {
    return at(static_cast<std::size_t>(index));
  }
};

/// An option: an attribute of XLA's of the type that its default has.
using OptionValue = std::variant<std::int64_t, double, bool>;
struct Option {
  std::string_view name;
  OptionValue unset;  ///< what stands for "not given"
};
constexpr std::size_t max_options = 13;
using Options = std::array<OptionValue, max_options>;

class Task;
class LocalTask;
/// The work of a call for each dtype of its matrix.
using WorkByDtype = std::array<void (*)(Task&), 4>;

/// Of a template: by_dtype([]<Scalar T>(Task& task) { factor<T>(task); }).
template <class Template>
constexpr WorkByDtype by_dtype(Template /*work*/) {
  return {[](Task& task) { Template{}.template operator()<float>(task); },
          [](Task& task) { Template{}.template operator()<double>(task); },
          [](Task& task) { Template{}.template operator()<std::complex<float>>(task); },
          [](Task& task) { Template{}.template operator()<std::complex<double>>(task); }};
}

/// Either `work`, for which all devices meet, or `local`, which each one does by itself: on the CPU
/// before it returns, on a GPU by what it enqueues on XLA's stream. A local call has `any` buffers
/// with the same batch, of which one by one is solved, and neither record nor verdict nor copy.
struct CallRow {
  std::string_view name;    ///< of XLA's target, after "shardsolve_", and the attribute "call"
  std::string_view phrase;  ///< in messages: "a solve"
  CallBuffers buffers;
  BufferIndex matrix{};  ///< operand that has the dtype; and n columns, or rows, if not local
  std::optional<BufferIndex> record;  ///< operand: begins with FactorRecord of the factor used
  BufferIndex verdict{};              ///< result that begins with a Verdict
  struct Copy {
    BufferIndex from;
    BufferIndex to;
  };
  std::optional<Copy> copy;  ///< an operand whose memory a result takes, or else is copied to
  ShortList<Option, max_options> options;
  Routine routine = Routine::cholesky;  ///< whose tile size it takes by default
  WorkByDtype work{};
  void (*local)(const LocalTask&) = nullptr;

  /// The place of an option; throws Error(internal) if there is none of that name.
  std::size_t option(std::string_view name) const;
};

/// All calls. A row's place is its number in invitations.
std::size_t call_count();
const CallRow& call_at(std::size_t number);
std::size_t number_of(const CallRow& row);
/// Null if there is none of that name.
const CallRow* find_call(std::string_view name);

/// What Python asks for: the calls, the statuses by name, and the lengths of records, as JSON.
const std::string& description();

}  // namespace shardsolve::jax
