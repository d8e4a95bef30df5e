#include "sparse/make_part.hpp"

#include "core/each_dtype.hpp"
#include "programs/bytes_of.hpp"
#include "programs/gather.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace shardsolve::sparse {
namespace {

template <Scalar T>
void require_ascending(const RowsOf<T>& mine, std::int64_t first_row, std::int64_t columns) {
  for (std::int64_t row = 0; row < mine.count; ++row) {
    std::int64_t before = -1;
    for (std::int64_t k = mine.begin(row); k < mine.begin(row + 1); ++k) {
      const std::int64_t column = mine.column(k);
      if (column < 0 || column >= columns) {
        throw Error(ErrorKind::invalid_argument,
                    fmt::format("row {} of the sparse matrix has an entry in column {}; there are "
                                "the columns 0 to {}",
                                first_row + row, column, columns - 1));
      }
      if (column <= before) {
        throw Error(ErrorKind::invalid_argument,
                    fmt::format("row {} of the sparse matrix has column {} behind column {}: "
                                "columns of a row ascend and none comes twice. sorted() sorts "
                                "them and adds entries of the same place",
                                first_row + row, column, before));
      }
      before = column;
    }
  }
}

/// The columns that belong to other ranks, ascending.
template <Scalar T>
std::vector<std::int64_t> columns_of_others(const RowsOf<T>& mine, GlobalRange own) {
  std::vector<std::int64_t> others;
  for (std::int64_t k = mine.begin(0); k < mine.begin(mine.count); ++k) {
    const std::int64_t column = mine.column(k);
    if (column < own.begin.value() || column >= own.end.value()) {
      others.push_back(column);
    }
  }
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  return others;
}

template <Scalar T>
void add_row(RowSet& set, const CsrSlab<T>& slab, std::int64_t row) {
  if (set.count == 0) {
    set.first = row;
  }
  set.list.push_back(static_cast<std::int32_t>(row));
  ++set.count;
  set.entries += slab.row_pointers[static_cast<std::size_t>(row) + 1] -
                 slab.row_pointers[static_cast<std::size_t>(row)];
}

void forget_list_of_neighbours(RowSet& set) {
  if (set.count > 0 && set.list.back() - set.first + 1 == set.count) {
    set.list = {};
  }
}

template <Scalar T>
CsrSlab<T> make_slab(const RowsOf<T>& mine, GlobalRange own) {
  CsrSlab<T> slab;
  slab.rows = mine.count;
  slab.own = own.size();
  slab.halo = columns_of_others(mine, own);
  const std::int64_t first = mine.begin(0);
  const std::int64_t end = mine.begin(mine.count);
  slab.values.assign(mine.matrix.values.begin() + first, mine.matrix.values.begin() + end);
  slab.columns.reserve(slab.values.size());
  slab.row_pointers.push_back(0);
  for (std::int64_t row = 0; row < mine.count; ++row) {
    bool is_interior = true;
    for (std::int64_t k = mine.begin(row); k < mine.begin(row + 1); ++k) {
      std::int64_t local = mine.column(k) - own.begin.value();
      if (local < 0 || local >= slab.own) {
        is_interior = false;
        local = slab.own + (std::lower_bound(slab.halo.begin(), slab.halo.end(), mine.column(k)) -
                            slab.halo.begin());
      }
      slab.columns.push_back(static_cast<std::int32_t>(local));
    }
    slab.row_pointers.push_back(mine.begin(row + 1) - first);
    add_row(is_interior ? slab.interior : slab.boundary, slab, row);
  }
  forget_list_of_neighbours(slab.interior);
  forget_list_of_neighbours(slab.boundary);
  return slab;
}

/// Where the columns of each rank begin in an ascending list.
std::vector<std::int64_t> begin_of_ranks(const std::vector<std::int64_t>& list,
                                         const SlabLayout& columns) {
  std::vector<std::int64_t> begin;
  for (const std::int64_t boundary : columns.boundaries()) {
    begin.push_back(std::lower_bound(list.begin(), list.end(), boundary) - list.begin());
  }
  return begin;
}

void require_same(const std::vector<std::int64_t>& ours, const std::vector<std::int64_t>& theirs,
                  std::int64_t rank) {
  if (ours != theirs) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("the process of rank {} cuts rows or columns of the sparse matrix at "
                            "other places: all processes give the same layouts",
                            rank));
  }
}

/// What each rank asks each other one for: numbers, found by [who asks][who is asked].
using Demands = std::vector<std::vector<std::int64_t>>;

/// Asks the owners for the halo: what they are to send.
HaloPlan make_plan(mesh::Rank& rank, const SlabLayout& columns,
                   const std::vector<std::int64_t>& halo, const Demands& demands) {
  const auto self = static_cast<std::size_t>(rank.index());
  HaloPlan plan;
  plan.receive_begin = begin_of_ranks(halo, columns);
  plan.send_begin.push_back(0);
  for (const auto& demand : demands) {
    plan.send_begin.push_back(plan.send_begin.back() + demand[self]);
  }
  const auto count = static_cast<std::int64_t>(halo.size());
  const auto asked_for =
      MatrixView<const std::int64_t>(rank.upload(rank.transfer(), halo.data(), count), count, 1);
  const auto wanted = rank.workspace<std::int64_t>(plan.send_begin.back(), 1);
  std::vector<comm::Bytes> send;
  std::vector<comm::Bytes> receive;
  for (std::size_t r = 0; r < demands.size(); ++r) {
    const auto part = [r](auto view, const std::vector<std::int64_t>& begin) {
      return programs::bytes_of(view.block(begin[r], 0, begin[r + 1] - begin[r], 1));
    };
    send.push_back(part(asked_for, plan.receive_begin));
    receive.push_back(part(wanted, plan.send_begin));
  }
  rank.communicator().all_to_all(rank.transfer(), std::move(send), std::move(receive));
  const std::int64_t first = columns.segment(rank.index()).begin.value();
  for (const std::int64_t column : rank.fetch(rank.transfer(), wanted.data(), wanted.rows())) {
    plan.packed.push_back(static_cast<std::int32_t>(column - first));
  }
  return plan;
}

}  // namespace

template <Scalar T>
Totals make_part(mesh::Rank& rank, const SlabLayout& rows, const SlabLayout& columns,
                 const RowsOf<T>& mine, Part<T>& part) {
  require_ascending(mine, rows.segment(rank.index()).begin.value(), columns.size());
  part.slab = make_slab(mine, columns.segment(rank.index()));

  std::vector<std::int64_t> cuts = rows.boundaries();
  cuts.insert(cuts.end(), columns.boundaries().begin(), columns.boundaries().end());
  std::vector<std::int64_t> told{static_cast<std::int64_t>(part.slab.values.size())};
  told.insert(told.end(), cuts.begin(), cuts.end());
  const std::vector<std::int64_t> begin = begin_of_ranks(part.slab.halo, columns);
  for (std::size_t r = 0; r + 1 < begin.size(); ++r) {
    told.push_back(begin[r + 1] - begin[r]);
  }

  Totals totals;
  Demands demands;
  for (const auto& one : programs::gather_from_all(rank, told)) {
    const auto behind_cuts = one.begin() + 1 + static_cast<std::ptrdiff_t>(cuts.size());
    require_same(cuts, {one.begin() + 1, behind_cuts}, static_cast<std::int64_t>(demands.size()));
    totals.entries += one.front();
    demands.emplace_back(behind_cuts, one.end());
    totals.halos.push_back(std::accumulate(behind_cuts, one.end(), std::int64_t{0}));
  }
  part.plan = make_plan(rank, columns, part.slab.halo, demands);
  return totals;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                                \
  template Totals make_part(mesh::Rank&, const SlabLayout&, const SlabLayout&, const RowsOf<T>&, \
                            Part<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::sparse
