#include "sparse/transpose.hpp"

#include "core/each_dtype.hpp"
#include "programs/bytes_of.hpp"
#include "programs/gather.hpp"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <utility>
#include <vector>

namespace shardsolve::sparse {
namespace {

/// An entry on its way to another rank.
template <Scalar T>
struct Entry {
  std::int64_t row;
  std::int64_t column;
  T value;
};

template <Scalar T>
T conjugate(T value) {
  if constexpr (is_complex<T>) {
    return std::conj(value);
  } else {
    return value;
  }
}

/// The entries of A on this rank as those of its transpose, by the rank that will own them; in the
/// order of A's rows for each.
template <Scalar T>
std::vector<std::vector<Entry<T>>> entries_by_owner(mesh::Rank& rank, const Parts<T>& a,
                                                    bool conjugated) {
  const CsrSlab<T>& slab = a.of(rank.index()).slab;
  const std::int64_t first_row = a.rows.segment(rank.index()).begin.value();
  const std::int64_t first_column = a.columns.segment(rank.index()).begin.value();
  std::vector<std::vector<Entry<T>>> entries(static_cast<std::size_t>(rank.count()));
  for (std::int64_t row = 0; row < slab.rows; ++row) {
    const auto end = static_cast<std::size_t>(slab.row_pointers[static_cast<std::size_t>(row) + 1]);
    for (auto k = static_cast<std::size_t>(slab.row_pointers[static_cast<std::size_t>(row)]);
         k < end; ++k) {
      const std::int64_t column = slab.global(slab.columns[k], first_column);
      const std::int64_t owner =
          slab.columns[k] < slab.own ? rank.index() : a.columns.owner(GlobalIndex(column));
      entries[static_cast<std::size_t>(owner)].push_back(
          {column, first_row + row, conjugated ? conjugate(slab.values[k]) : slab.values[k]});
    }
  }
  return entries;
}

/// What the other ranks have for this one, rank after rank, with what it has itself.
template <Scalar T>
std::vector<Entry<T>> from_all_ranks(mesh::Rank& rank,
                                     const std::vector<std::vector<Entry<T>>>& mine) {
  std::vector<std::int64_t> counts;
  std::vector<Entry<T>> leaving;
  for (const auto& entries : mine) {
    counts.push_back(static_cast<std::int64_t>(entries.size()));
    leaving.insert(leaving.end(), entries.begin(), entries.end());
  }
  const auto all_counts = programs::gather_from_all(rank, counts);
  const auto self = static_cast<std::size_t>(rank.index());
  std::int64_t total = 0;
  for (const auto& of_rank : all_counts) {
    total += of_rank[self];
  }
  const auto size = static_cast<std::int64_t>(leaving.size());
  const MatrixView<const Entry<T>> outgoing(rank.upload(rank.transfer(), leaving.data(), size),
                                            size, 1);
  const MatrixView<Entry<T>> incoming = rank.workspace<Entry<T>>(total, 1);
  std::vector<comm::Bytes> send;
  std::vector<comm::Bytes> receive;
  std::int64_t sent = 0;
  std::int64_t received = 0;
  std::int64_t own_place = 0;
  for (std::size_t r = 0; r < mine.size(); ++r) {
    if (r == self) {
      own_place = received;
    }
    send.push_back(programs::bytes_of(outgoing.block(sent, 0, counts[r], 1)));
    receive.push_back(programs::bytes_of(incoming.block(received, 0, all_counts[r][self], 1)));
    sent += counts[r];
    received += all_counts[r][self];
  }
  rank.communicator().all_to_all(rank.transfer(), std::move(send), std::move(receive));
  std::vector<Entry<T>> entries = rank.fetch(rank.transfer(), incoming.data(), total);
  std::copy(mine[self].begin(), mine[self].end(), entries.begin() + own_place);
  return entries;
}

}  // namespace

template <Scalar T>
CsrMatrix<T> transposed_rows(mesh::Rank& rank, const Parts<T>& a, bool conjugated) {
  const std::vector<Entry<T>> entries = from_all_ranks(rank, entries_by_owner(rank, a, conjugated));
  const GlobalRange mine = a.columns.segment(rank.index());
  // Rows of A came in their order, so columns of each row of the result ascend.
  CsrMatrix<T> result{mine.size(), a.rows.size(), {}, {}, {}};
  result.row_pointers.assign(static_cast<std::size_t>(mine.size()) + 1, 0);
  const auto place_of = [&](const Entry<T>& entry) {
    return static_cast<std::size_t>(entry.row - mine.begin.value());
  };
  for (const Entry<T>& entry : entries) {
    ++result.row_pointers[place_of(entry) + 1];
  }
  for (std::size_t row = 0; row + 1 < result.row_pointers.size(); ++row) {
    result.row_pointers[row + 1] += result.row_pointers[row];
  }
  std::vector<std::int64_t> next(result.row_pointers.begin(), result.row_pointers.end() - 1);
  result.column_indices.resize(entries.size());
  result.values.resize(entries.size());
  for (const Entry<T>& entry : entries) {
    const auto to = static_cast<std::size_t>(next[place_of(entry)]++);
    result.column_indices[to] = entry.column;
    result.values[to] = entry.value;
  }
  return result;
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template CsrMatrix<T> transposed_rows(mesh::Rank&, const Parts<T>&, bool);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::sparse
