// How blocks of the matrix and what fronts leave get to where fronts of several devices are made.

#include "comm/communicator.hpp"
#include "programs/bytes_of.hpp"
#include "runtime/kernels.hpp"
#include "sparse/fronts_on_devices.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardsolve::sparse {
namespace front_moves {

using Kind = FrontPlacement::Kind;

/// Columns of the matrix that are made before they are added to a joint front.
constexpr std::int64_t columns_at_a_time = 512;

template <class T>
const T* upload(mesh::Rank& rank, const std::vector<T>& values) {
  return rank.upload(rank.update(), values.data(), static_cast<std::int64_t>(values.size()));
}

/// Lists of a ColumnMove.
struct MoveLists {
  std::vector<std::int32_t> columns;
  std::vector<std::int32_t> places;
  std::vector<std::int64_t> begin;

  void push(std::int64_t column, std::int64_t place, std::int64_t first) {
    columns.push_back(static_cast<std::int32_t>(column));
    places.push_back(static_cast<std::int32_t>(place));
    begin.push_back(first - column);
  }
  runtime::ColumnMove move(mesh::Rank& rank, MatrixView<double> matrix,
                           const std::vector<std::int32_t>& rows, double* packed) const {
    return {.matrix = matrix.data(),
            .stride = matrix.stride(),
            .rows = upload(rank, rows),
            .rows_count = static_cast<std::int64_t>(rows.size()),
            .columns = upload(rank, columns),
            .places = upload(rank, places),
            .begin = upload(rank, begin),
            .count = static_cast<std::int64_t>(columns.size()),
            .packed = packed};
  }
};

std::int64_t triangle(std::int64_t columns) { return columns * (columns + 1) / 2; }

}  // namespace front_moves

/// What subtrees leave, to the first rank.
void FrontsOnDevices::bring_to_top() {
  using namespace front_moves;
  const auto& base = rank_.kernels<double>();
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(rank_.count()));
  const auto each_given = [&](const auto& act) {
    for (std::size_t i = 0; i < top_.node.size(); ++i) {
      if (top_.tree.nodes[i].is_given && top_.tree.nodes[i].outer > 0) {
        act(static_cast<std::int32_t>(i), top_.node[i], top_.tree.nodes[i].outer);
      }
    }
  };
  const auto all_columns = [](std::int64_t outer, std::int64_t first) {
    MoveLists lists;
    for (std::int64_t column = 0; column < outer; ++column) {
      lists.push(column, column, first);
      first += outer - column;
    }
    return lists;
  };
  const auto all_rows = [](std::int64_t outer) {
    std::vector<std::int32_t> rows;
    for (std::int64_t row = 0; row < outer; ++row) {
      rows.push_back(static_cast<std::int32_t>(row));
    }
    return rows;
  };
  each_given([&](std::int32_t, std::int32_t node, std::int64_t outer) {
    numbers[static_cast<std::size_t>(owner(node))] += triangle(outer);
  });
  const std::int64_t mine = numbers[static_cast<std::size_t>(rank_.index())];
  std::int64_t total = 0;
  for (std::size_t r = 1; r < numbers.size(); ++r) {
    total += numbers[r];
  }
  const MatrixView<double> sent = take(is_first() ? 0 : mine, 1);
  const MatrixView<double> received = take(is_first() ? total : 0, 1);
  std::int64_t at = 0;
  each_given([&](std::int32_t, std::int32_t node, std::int64_t outer) {
    if (owner(node) == rank_.index() && !is_first()) {
      kernels_.pack_columns(
          rank_.update(),
          all_columns(outer, at).move(rank_, whole_rest(node), all_rows(outer), sent.data()));
      at += triangle(outer);
    }
  });
  rank_.finish(rank_.update());
  std::vector<comm::Bytes> pieces(numbers.size());
  if (is_first()) {
    double* to = received.data();
    for (std::size_t r = 1; r < numbers.size(); ++r) {
      pieces[r] = {to, static_cast<std::size_t>(numbers[r]) * sizeof(double)};
      to += numbers[r];
    }
  }
  rank_.communicator().gather(rank_.transfer(), programs::bytes_of(sent), pieces, 0);
  rank_.finish(rank_.transfer());
  if (is_first()) {
    std::vector<std::int64_t> next(numbers.size());
    for (std::size_t r = 2; r < numbers.size(); ++r) {
      next[r] = next[r - 1] + numbers[r - 1];
    }
    each_given([&](std::int32_t place, std::int32_t node, std::int64_t outer) {
      const MatrixView<double> rest = of_top_->rest(place);
      if (owner(node) == 0) {
        base.copy(rank_.update(), whole_rest(node), rest);
        return;
      }
      std::int64_t& first = next[static_cast<std::size_t>(owner(node))];
      base.fill(rank_.update(), 0.0, rest);
      kernels_.add_columns(
          rank_.update(),
          all_columns(outer, first).move(rank_, rest, all_rows(outer), received.data()));
      first += triangle(outer);
    });
    rank_.finish(rank_.update());
  }
  give_back(sent);
  give_back(received);
}

/// What the matrix has in the rank's columns. A block whose columns two ranks share is made by
/// both.
void FrontsOnDevices::store_own_columns(const Joint& joint, const Store& store) {
  using namespace front_moves;
  const FrontNode& of = shape(joint.node);
  const auto& base = rank_.kernels<double>();
  std::vector<std::int32_t> blocks = of.blocks;
  blocks.insert(blocks.end(), of.border.begin(), of.border.end());
  std::vector<std::int64_t> begin{0};
  for (const std::int32_t block : blocks) {
    begin.push_back(begin.back() + graph_.size(block));
  }
  std::vector<std::int32_t> rows;
  for (std::int64_t column = 0; column < of.front(); ++column) {
    rows.push_back(static_cast<std::int32_t>(joint.front.row(column)));
  }
  std::int64_t widest = columns_at_a_time;
  for (const std::int32_t block : of.blocks) {
    widest = std::max(widest, graph_.size(block));
  }
  const MatrixView<double> scratch = take(of.front(), std::min(widest, of.own));
  for (std::size_t first = 0; first < of.blocks.size();) {
    std::vector<BlockPlace> places;
    MoveLists lists;
    std::int64_t used = 0;
    for (; first < of.blocks.size() &&
           (used == 0 || used + graph_.size(blocks[first]) <= scratch.columns());
         ++first) {
      const std::size_t before = lists.columns.size();
      for (std::int64_t column = begin[first]; column < begin[first + 1]; ++column) {
        if (joint.front.rank(column) == rank_.index()) {
          // Row i of it is number i of its column.
          lists.push(column, joint.front.place(column),
                     (used + column - begin[first]) * of.front() + column);
        }
      }
      if (lists.columns.size() == before) {
        continue;
      }
      const auto others = graph_.neighbours_of(blocks[first]);
      for (std::size_t row = first; row < blocks.size(); ++row) {
        if (row == first || std::binary_search(others.begin(), others.end(), blocks[row])) {
          places.push_back({blocks[row], blocks[first], &scratch(begin[row], used), of.front()});
        }
      }
      used += graph_.size(blocks[first]);
    }
    if (!places.empty()) {
      base.fill(rank_.update(), 0.0, scratch);
      store(places);
      kernels_.add_columns(rank_.update(), lists.move(rank_, joint.slab, rows, scratch.data()));
      rank_.finish(rank_.update());
    }
  }
  give_back(scratch);
  const std::int64_t pad = of.front();  // the first one
  const std::int64_t pads = joint.front.pads();
  if (pads > 0 && joint.front.rank(pad) == rank_.index()) {
    base.identity(rank_.update(),
                  joint.slab.block(joint.front.row(pad), joint.front.place(pad), pads, pads));
  }
}

/// Brings what a child leaves to the slabs of its parent.
void FrontsOnDevices::add_child(std::int32_t child, const Joint& parent) {
  using namespace front_moves;
  const std::int64_t outer = shape(child).outer;
  if (outer == 0) {
    return;
  }
  const Joint* const below = joint_of(child);
  const RestPlace rest{below != nullptr ? &below->front : nullptr, owner(child)};
  const std::vector<std::int64_t> in_parent = columns_in_parent(child);
  std::vector<std::int32_t> from_rows;
  std::vector<std::int32_t> to_rows;
  for (std::int64_t i = 0; i < outer; ++i) {
    from_rows.push_back(
        static_cast<std::int32_t>(below != nullptr ? below->front.row(below->front.own() + i) : i));
    to_rows.push_back(
        static_cast<std::int32_t>(parent.front.row(in_parent[static_cast<std::size_t>(i)])));
  }
  // Packed rank by rank; what stays here is added from where it is sent from.
  const auto ranks = static_cast<std::size_t>(rank_.count());
  const auto mine = static_cast<std::size_t>(rank_.index());
  MoveLists packed;
  MoveLists staying;
  MoveLists arriving;
  std::vector<std::int64_t> sent{0};
  std::vector<std::int64_t> received{0};
  for (std::size_t other = 0; other < ranks; ++other) {
    std::int64_t at = sent.back();
    const auto number = static_cast<std::int64_t>(other);
    for (const std::int64_t column :
         columns_between(rest, parent.front, in_parent, rank_.index(), number)) {
      packed.push(column,
                  below != nullptr ? below->front.place(below->front.own() + column) : column, at);
      if (other == mine) {
        staying.push(column, parent.front.place(in_parent[static_cast<std::size_t>(column)]), at);
      }
      at += outer - column;
    }
    sent.push_back(at);
    at = received.back();
    if (other != mine) {
      for (const std::int64_t column :
           columns_between(rest, parent.front, in_parent, number, rank_.index())) {
        arriving.push(column, parent.front.place(in_parent[static_cast<std::size_t>(column)]), at);
        at += outer - column;
      }
    }
    received.push_back(at);
  }
  const MatrixView<double> from = take(sent.back(), 1);
  const MatrixView<double> to = take(received.back(), 1);
  if (!packed.columns.empty()) {
    kernels_.pack_columns(rank_.update(),
                          packed.move(rank_, below != nullptr ? below->slab : whole_rest(child),
                                      from_rows, from.data()));
  }
  rank_.finish(rank_.update());
  const auto pieces = [&](const MatrixView<double>& memory,
                          const std::vector<std::int64_t>& begin) {
    std::vector<comm::Bytes> result;
    for (std::size_t other = 0; other < ranks; ++other) {
      result.push_back({memory.data() + begin[other],
                        other == mine ? 0
                                      : static_cast<std::size_t>(begin[other + 1] - begin[other]) *
                                            sizeof(double)});
    }
    return result;
  };
  rank_.communicator().all_to_all(rank_.transfer(), pieces(from, sent), pieces(to, received));
  rank_.finish(rank_.transfer());
  for (const auto& [lists, memory] : {std::pair(&staying, from), {&arriving, to}}) {
    if (!lists->columns.empty()) {
      kernels_.add_columns(rank_.update(), lists->move(rank_, parent.slab, to_rows, memory.data()));
    }
  }
  rank_.finish(rank_.update());
  give_back(from);
  give_back(to);
}

}  // namespace shardsolve::sparse
