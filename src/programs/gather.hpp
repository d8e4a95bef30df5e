/// Small values of all ranks, on all ranks: how they decide alike.
#pragma once

#include "comm/communicator.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/slab_layout.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

namespace shardsolve::programs {

/// Element r of the result is what rank r gave. All ranks give equally many values. Waits: not for
/// loops.
template <class V>
std::vector<std::vector<V>> gather_from_all(mesh::Rank& rank, const std::vector<V>& mine) {
  static_assert(std::is_trivially_copyable_v<V>);
  if (rank.count() == 1) {
    return {mine};
  }
  const auto count = static_cast<std::int64_t>(mine.size());
  const MatrixView<V> table = rank.workspace<V>(count, rank.count());
  std::vector<comm::Bytes> pieces;
  pieces.reserve(static_cast<std::size_t>(rank.count()));
  for (std::int64_t r = 0; r < rank.count(); ++r) {
    pieces.push_back({table.data() + r * count, mine.size() * sizeof(V)});
  }
  V* const own = rank.host_workspace<V>(count);  // if a rank fails, `mine` may go before its copy
  std::copy(mine.begin(), mine.end(), own);
  rank.transfer().copy(pieces[static_cast<std::size_t>(rank.index())].data, own,
                       mine.size() * sizeof(V));
  rank.communicator().all_gather(rank.transfer(), std::move(pieces));
  const V* const flat = rank.fetch_later(rank.transfer(), table.data(), count * rank.count());
  rank.finish(rank.transfer());
  std::vector<std::vector<V>> values;
  values.reserve(static_cast<std::size_t>(rank.count()));
  for (std::int64_t r = 0; r < rank.count(); ++r) {
    values.emplace_back(flat + r * count, flat + (r + 1) * count);
  }
  return values;
}

/// The sum of what the ranks give, added in rank order. Waits likewise.
inline double sum_of_all(mesh::Rank& rank, double mine) {
  double sum = 0.0;
  for (const auto& one : gather_from_all(rank, std::vector<double>{mine})) {
    sum += one[0];
  }
  return sum;
}

/// The larger of two, NaN if one is.
inline double largest(double a, double b) { return a >= b || std::isnan(a) ? a : b; }

/// The largest of what the ranks give, NaN if one is. Waits likewise.
inline double largest_of_all(mesh::Rank& rank, double mine) {
  double most = mine;
  for (const auto& one : gather_from_all(rank, std::vector<double>{mine})) {
    most = largest(most, one[0]);
  }
  return most;
}

/// One value for each row, on all ranks: each rank gives those of its segment. Waits likewise.
template <class V>
std::vector<V> gather_rows(mesh::Rank& rank, const SlabLayout& layout, const std::vector<V>& mine) {
  static_assert(std::is_trivially_copyable_v<V>);
  if (rank.count() == 1) {
    return mine;
  }
  const MatrixView<V> all = rank.workspace<V>(layout.size(), 1);
  std::vector<comm::Bytes> pieces;
  pieces.reserve(static_cast<std::size_t>(rank.count()));
  for (std::int64_t r = 0; r < rank.count(); ++r) {
    pieces.push_back({all.data() + layout.segment(r).begin.value(),
                      static_cast<std::size_t>(layout.width(r)) * sizeof(V)});
  }
  const comm::Bytes own = pieces[static_cast<std::size_t>(rank.index())];
  rank.transfer().copy(own.data, mine.data(), own.size);
  rank.transfer().synchronize();  // from here on `mine` may go, whatever happens next
  rank.communicator().all_gather(rank.transfer(), std::move(pieces));
  return rank.fetch(rank.transfer(), all.data(), layout.size());
}

/// A table in device memory that has the values of rank behind rank, those of rank r from begin[r]
/// on: of each its own, which its update queue has enqueued, to all. Waits likewise.
template <class V>
void gather_table(mesh::Rank& rank, V* table, const std::vector<std::int64_t>& begin) {
  static_assert(std::is_trivially_copyable_v<V>);
  if (rank.count() == 1) {
    return;
  }
  rank.finish(rank.update());
  std::vector<comm::Bytes> pieces;
  for (std::size_t r = 0; r + 1 < begin.size(); ++r) {
    pieces.push_back(
        {table + begin[r], static_cast<std::size_t>(begin[r + 1] - begin[r]) * sizeof(V)});
  }
  rank.communicator().all_gather(rank.transfer(), std::move(pieces));
  rank.finish(rank.transfer());
}

/// A matrix of which each rank has some columns: all of it, in memory of this call. `own` has been
/// written on the update queue. Waits likewise.
template <Scalar T>
MatrixView<T> all_columns(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> own) {
  const std::int64_t rows = own.rows();
  const MatrixView<T> all = rank.workspace<T>(rows, layout.size());
  std::vector<comm::Bytes> pieces;
  for (std::int64_t r = 0; r < rank.count(); ++r) {
    pieces.push_back({all.data() + rows * layout.segment(r).begin.value(),
                      static_cast<std::size_t>(rows * layout.width(r)) * sizeof(T)});
  }
  const GlobalRange mine = layout.segment(rank.index());
  rank.kernels<T>().copy(rank.update(), own, all.columns_from(mine.begin.value(), mine.size()));
  rank.finish(rank.update());
  if (rank.count() > 1) {
    rank.communicator().all_gather(rank.transfer(), std::move(pieces));
    rank.finish(rank.transfer());
  }
  return all;
}

/// Likewise on the host, column-major.
template <Scalar T>
std::vector<T> gather_columns(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> own) {
  const MatrixView<T> all = all_columns<T>(rank, layout, own);
  return rank.fetch(rank.transfer(), all.data(), all.rows() * all.columns());
}

}  // namespace shardsolve::programs
