/// What travels at each step of an algorithm: a header and a piece of a matrix.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <vector>

#include "dense/step_flags.hpp"
#include "mesh/rank.hpp"

namespace shardsolve::dense {

/// A buffer whose first cache line is the header; the rest holds up to `capacity` elements.
template <Scalar T>
class Message {
 public:
  Message(mesh::Rank& rank, std::int64_t capacity)
      : memory_(rank.workspace<T>(header_elements + capacity, 1)) {}

  StepHeader* header() const { return reinterpret_cast<StepHeader*>(memory_.data()); }
  /// The payload as a rows x columns matrix without gaps.
  MatrixView<T> payload(std::int64_t rows, std::int64_t columns) const {
    return payload_from(0, rows, columns);
  }
  /// Likewise from element `offset` of the payload on.
  MatrixView<T> payload_from(std::int64_t offset, std::int64_t rows, std::int64_t columns) const {
    const MatrixView<T> flat =
        memory_.block(header_elements + offset, 0, rows * columns, memory_.columns());
    return {flat.data(), rows, columns};
  }
  /// Header and the first `elements` of the payload.
  comm::Bytes bytes(std::int64_t elements) const {
    return {memory_.data(), static_cast<std::size_t>(header_elements + elements) * sizeof(T)};
  }

 private:
  static constexpr auto header_elements =
      static_cast<std::int64_t>(sizeof(StepHeader) / sizeof(T));
  MatrixView<T> memory_;
};

/// A view without gaps as a piece to send or receive.
template <class T>
comm::Bytes bytes_of(MatrixView<T> view) {
  return {const_cast<std::remove_const_t<T>*>(view.data()),
          static_cast<std::size_t>(view.rows() * view.columns()) * sizeof(T)};
}

}  // namespace shardsolve::dense
