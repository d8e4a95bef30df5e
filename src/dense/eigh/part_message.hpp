/// What ranks tell each other in a merge.
#pragma once

#include "dense/eigh/tridiagonal_problem.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cstddef>
#include <cstdint>

namespace shardsolve::dense::eigh {

/// What the ranks are told about a part of T that goes into a merge of all of them: behind a header
/// its eigenvalues, and its row of Z at the cut.
template <class Real>
class PartMessage {
 public:
  struct Header {
    std::int64_t failed_begin = 0;  // rows of what did not converge, if any
    std::int64_t failed_end = 0;
    std::int64_t stop = 0;  // not 0 if its sender was asked to cancel
    std::int64_t unused[5] = {};
  };

  PartMessage(mesh::Rank& rank, std::int64_t most)
      : memory_(rank.workspace<std::byte>(bytes(most), 1)),
        on_host_(rank.host_workspace<std::byte>(bytes(most))) {}

  static std::int64_t bytes(std::int64_t rows) {
    return static_cast<std::int64_t>(sizeof(Header)) +
           2 * rows * static_cast<std::int64_t>(sizeof(Real));
  }

  // In device memory.
  std::int64_t* header() const { return reinterpret_cast<std::int64_t*>(memory_.data()); }
  Real* values() const { return reinterpret_cast<Real*>(memory_.data() + sizeof(Header)); }
  MatrixView<Real> row(std::int64_t rows) const { return {values() + rows, 1, rows, 1}; }

  void send(mesh::Rank& rank, std::int64_t rows, std::int64_t root) const {
    const auto size = static_cast<std::size_t>(bytes(rows));
    rank.communicator().broadcast(rank.transfer(), {memory_.data(), size}, root);
    rank.transfer().copy(on_host_, memory_.data(), size);
  }
  /// Some columns of row(rows) alone.
  void fetch_row(runtime::Queue& queue, std::int64_t rows, const RowRange& columns) const {
    const std::size_t before =
        sizeof(Header) + static_cast<std::size_t>(rows + columns.begin) * sizeof(Real);
    queue.copy(on_host_ + before, memory_.data() + before,
               static_cast<std::size_t>(columns.size()) * sizeof(Real));
  }

  // On the host, when they have come.
  const Header& host_header() const { return *reinterpret_cast<const Header*>(on_host_); }
  const Real* host_values() const {
    return reinterpret_cast<const Real*>(on_host_ + sizeof(Header));
  }
  const Real* host_row(std::int64_t rows) const { return host_values() + rows; }

 private:
  MatrixView<std::byte> memory_;
  std::byte* on_host_;
};

}  // namespace shardsolve::dense::eigh
