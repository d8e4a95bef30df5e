#include "sparse/block_cholesky.hpp"

#include "core/each_dtype.hpp"
#include "runtime/host/blas.hpp"
#include "sparse/front_placement.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <utility>

namespace shardsolve::sparse {
namespace fronts {

using runtime::Op;
using runtime::Side;
using runtime::Triangle;
template <Scalar T>
using Blas = runtime::host::blas::Blas<T>;

/// Columns that are factored together, and rows of a piece of an update. Not chosen by the number
/// of workers, which the bits would then depend on.
constexpr std::int64_t panel_columns = 256;
constexpr std::int64_t piece = 512;
/// Work below this is done where it is: to hand it to others takes about as long.
constexpr double least_shared_flops = 2e7;

std::int64_t pieces_of(std::int64_t rows) { return (rows + piece - 1) / piece; }

const ForEach& shared_if_worth(const ForEach& each, double flops) {
  static const ForEach alone = one_by_one;
  return flops < least_shared_flops ? alone : each;
}

/// Calls work(first row, rows, first column, columns) for all pieces of the lower triangle of a
/// square of so many rows, or of the rows below it too.
template <class Work>
void each_lower_piece(std::int64_t columns, std::int64_t rows, const ForEach& each, double flops,
                      const Work& work) {
  std::vector<std::pair<std::int64_t, std::int64_t>> list;
  for (std::int64_t column = 0; column < pieces_of(columns); ++column) {
    for (std::int64_t row = column; row < pieces_of(rows); ++row) {
      list.emplace_back(row * piece, column * piece);
    }
  }
  shared_if_worth(each, flops)(static_cast<std::int64_t>(list.size()), [&](std::int64_t i) {
    const auto [row, column] = list[static_cast<std::size_t>(i)];
    work(row, std::min(piece, rows - row), column, std::min(piece, columns - column));
  });
}

}  // namespace fronts

template <Scalar T>
BlockCholesky<T>::BlockCholesky(const BlockGraph& graph, EliminationTree tree)
    : tree_(std::move(tree)), sizes_(graph.sizes), offsets_(graph.offsets()) {
  for (std::int64_t block = 0; block < graph.count(); ++block) {
    const auto others = graph.neighbours_of(block);
    neighbours_.emplace_back(others.begin(), others.end());
  }
  fronts_.resize(tree_.nodes.size());
  for (std::size_t n = 0; n < fronts_.size(); ++n) {
    const auto node = static_cast<std::int32_t>(n);
    std::vector<std::int64_t>& begin = fronts_[n].block_begin;
    begin.push_back(0);
    const auto blocks =
        static_cast<std::int64_t>(shape(node).blocks.size() + shape(node).border.size());
    for (std::int64_t i = 0; i < blocks; ++i) {
      begin.push_back(begin.back() + graph.size(block_at(node, i)));
    }
  }
  // Both lists are in the order of elimination: one walk finds all.
  for (std::size_t n = 0; n < fronts_.size(); ++n) {
    const std::int32_t parent = tree_.nodes[n].parent;
    if (parent < 0) {
      continue;
    }
    std::int64_t at = 0;
    for (const std::int32_t block : tree_.nodes[n].border) {
      while (block_at(parent, at) != block) {
        ++at;
      }
      fronts_[n].parent_place.push_back(at);
    }
  }
}

template <Scalar T>
std::int32_t BlockCholesky<T>::block_at(std::int32_t node, std::int64_t index) const {
  const FrontNode& of = shape(node);
  const auto own = static_cast<std::int64_t>(of.blocks.size());
  return index < own ? of.blocks[static_cast<std::size_t>(index)]
                     : of.border[static_cast<std::size_t>(index - own)];
}

template <Scalar T>
auto BlockCholesky<T>::room(std::int64_t count) -> std::unique_ptr<T[], Free> {
  auto* const memory = static_cast<T*>(
      std::malloc(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * sizeof(T)));
  if (memory == nullptr) {
    throw Error(ErrorKind::out_of_memory,
                fmt::format("a front of a block Cholesky factorisation needs {} bytes that the "
                            "system does not have; use fewer or smaller blocks",
                            count * static_cast<std::int64_t>(sizeof(T))));
  }
  return std::unique_ptr<T[], Free>(memory);
}

template <Scalar T>
auto BlockCholesky<T>::make_schedule(const Workers& workers) const -> Schedule {
  Schedule schedule = workers.together ? of_processes(workers) : of_subtrees(workers);
  schedule.process.resize(tree_.nodes.size());
  schedule.is_alone.assign(tree_.nodes.size(), 0);
  for (std::size_t piece = 0; piece < schedule.alone.size(); ++piece) {
    for (const std::int32_t node : schedule.alone[piece]) {
      schedule.process[static_cast<std::size_t>(node)] = schedule.process_of_piece[piece];
      schedule.is_alone[static_cast<std::size_t>(node)] = 1;
    }
  }
  return schedule;
}

/// Subtrees for whoever is free: so many that all are busy.
template <Scalar T>
auto BlockCholesky<T>::of_subtrees(const Workers& workers) const -> Schedule {
  const auto count = static_cast<std::int32_t>(tree_.nodes.size());
  Schedule schedule;
  // Subtrees are the nodes [first, node]: children come before parents without gaps.
  std::vector<double> flops(tree_.nodes.size());
  std::vector<std::int32_t> first(tree_.nodes.size());
  std::vector<std::int32_t> roots;
  double total = 0.0;
  for (std::int32_t node = 0; node < count; ++node) {
    flops[static_cast<std::size_t>(node)] = shape(node).flops();
    first[static_cast<std::size_t>(node)] = node;
    total += shape(node).flops();
    for (const std::int32_t child : shape(node).children) {
      flops[static_cast<std::size_t>(node)] += flops[static_cast<std::size_t>(child)];
      first[static_cast<std::size_t>(node)] =
          std::min(first[static_cast<std::size_t>(node)], first[static_cast<std::size_t>(child)]);
    }
    if (shape(node).parent < 0) {
      roots.push_back(node);
    }
  }
  if (workers.count > 1) {
    const double largest = total / (4.0 * static_cast<double>(workers.count));
    for (std::size_t i = 0; i < roots.size();) {
      const std::int32_t node = roots[i];
      if (flops[static_cast<std::size_t>(node)] > largest) {
        schedule.above.push_back({node});
        roots.erase(roots.begin() + static_cast<std::ptrdiff_t>(i));
        roots.insert(roots.end(), shape(node).children.begin(), shape(node).children.end());
      } else {
        ++i;
      }
    }
  }
  std::sort(schedule.above.begin(), schedule.above.end());
  // The largest first, so that the last ones to begin are small.
  std::stable_sort(roots.begin(), roots.end(), [&](std::int32_t a, std::int32_t b) {
    return flops[static_cast<std::size_t>(a)] > flops[static_cast<std::size_t>(b)];
  });
  for (const std::int32_t root : roots) {
    schedule.process_of_piece.push_back(static_cast<std::int64_t>(schedule.alone.size()) %
                                        workers.processes);
    std::vector<std::int32_t>& nodes = schedule.alone.emplace_back();
    for (std::int32_t node = first[static_cast<std::size_t>(root)]; node <= root; ++node) {
      nodes.push_back(node);
    }
  }
  return schedule;
}

/// Each process has its subtrees and does them front by front, and some of the fronts above, of
/// which those that do not wait for each other are done at a time.
template <Scalar T>
auto BlockCholesky<T>::of_processes(const Workers& workers) const -> Schedule {
  FrontPlacement placement = spread_fronts(tree_, workers.processes, workers.joint_fronts);
  Schedule schedule;
  for (std::size_t n = 0; n < tree_.nodes.size(); ++n) {
    if (placement.kind[n] == FrontPlacement::Kind::subtree) {
      schedule.alone.push_back({static_cast<std::int32_t>(n)});
      schedule.process_of_piece.push_back(placement.rank[n]);
    }
  }
  schedule.above = levels_of_top(tree_, placement);
  schedule.joint = std::move(placement.joint);
  schedule.process = std::move(placement.rank);
  return schedule;
}

/// One block column of a front, from its diagonal on: what the matrix has there, and what the
/// children leave. Zeros are written before anything is read: pages that are read first are the
/// kernel's one page of zeros, and to replace that stops all threads.
template <Scalar T>
void BlockCholesky<T>::assemble_columns(std::int32_t node, std::int64_t index,
                                        const AddBlock& add) {
  const FrontNode& of = shape(node);
  const std::vector<std::int64_t>& begin = front(node).block_begin;
  const auto own_blocks = static_cast<std::int64_t>(of.blocks.size());
  const bool is_own = index < own_blocks;
  const auto at = static_cast<std::size_t>(index);
  const std::int64_t columns = begin[at + 1] - begin[at];
  // The part of the front that the column's rows, from itself on, lie in.
  const MatrixView<T> lower =
      is_own ? panel(node).block(begin[at], begin[at], of.front() - begin[at], columns)
             : rest(node).block(begin[at] - of.own, begin[at] - of.own, of.front() - begin[at],
                                columns);
  for (std::int64_t j = 0; j < columns; ++j) {
    std::fill_n(lower.data() + j * lower.stride(), lower.rows(), T{});
  }
  if (is_own) {
    const std::int32_t block = block_at(node, index);
    add(block, block, lower.block(0, 0, columns, columns));
    const auto& others = neighbours_[static_cast<std::size_t>(block)];
    const auto blocks = own_blocks + static_cast<std::int64_t>(of.border.size());
    for (std::int64_t row = index + 1; row < blocks; ++row) {
      const std::int32_t other = block_at(node, row);
      if (std::binary_search(others.begin(), others.end(), other)) {
        const std::int64_t place = begin[static_cast<std::size_t>(row)];
        const std::int64_t rows = begin[static_cast<std::size_t>(row) + 1] - place;
        add(other, block, lower.block(place - begin[at], 0, rows, columns));
      }
    }
  }
  for (const std::int32_t child : of.children) {
    const Front& below = front(child);
    const auto& places = below.parent_place;
    const auto found = std::lower_bound(places.begin(), places.end(), index);
    if (found == places.end() || *found != index) {
      continue;
    }
    const auto own_of_child = static_cast<std::size_t>(shape(child).blocks.size());
    const auto first_column = static_cast<std::size_t>(found - places.begin());
    const MatrixView<T> from = rest(child);
    const std::int64_t outer_begin = shape(child).own;
    const std::int64_t from_column = below.block_begin[own_of_child + first_column] - outer_begin;
    for (std::size_t row = first_column; row < places.size(); ++row) {
      const std::int64_t from_row = below.block_begin[own_of_child + row] - outer_begin;
      const std::int64_t rows = below.block_begin[own_of_child + row + 1] - outer_begin - from_row;
      const std::int64_t to_row = begin[static_cast<std::size_t>(places[row])] - begin[at];
      for (std::int64_t j = 0; j < columns; ++j) {
        const T* const source = from.data() + from_row + (from_column + j) * from.stride();
        T* const target = lower.data() + to_row + j * lower.stride();
        for (std::int64_t i = row == first_column ? j : 0; i < rows; ++i) {
          target[i] += source[i];
        }
      }
    }
  }
}

/// L11 of the own columns, L21 = A21 L11^-H, and rest -= L21 L21^H.
template <Scalar T>
void BlockCholesky<T>::factor_columns(std::int32_t node, const ForEach& each) {
  using fronts::Blas;
  using fronts::Op;
  using fronts::Side;
  using fronts::Triangle;
  const FrontNode& of = shape(node);
  const MatrixView<T> a = panel(node);
  for (std::int64_t begin = 0; begin < of.own; begin += fronts::panel_columns) {
    const std::int64_t width = std::min(fronts::panel_columns, of.own - begin);
    const std::int64_t end = begin + width;
    const MatrixView<T> a11 = a.block(begin, begin, width, width);
    if (const std::int64_t info = Blas<T>::potrf(Triangle::lower, a11); info != 0) {
      front(node).failed_column = begin + info - 1;
      return;
    }
    // l21 = a21 l11^-H
    const std::int64_t below = of.front() - end;
    const auto flops = static_cast<double>(below * width);
    fronts::shared_if_worth(each, flops * static_cast<double>(width))(
        fronts::pieces_of(below), [&](std::int64_t i) {
          const std::int64_t row = end + i * fronts::piece;
          Blas<T>::trsm(Side::right, Triangle::lower, Op::conjugate_transpose, a11,
                        a.block(row, begin, std::min(fronts::piece, of.front() - row), width));
        });
    // a22 -= l21 l21^H, for the own columns that are left
    const MatrixView<T> l21 = a.block(end, begin, below, width);
    const MatrixView<T> a22 = a.block(end, end, below, of.own - end);
    fronts::each_lower_piece(
        of.own - end, below, each, flops * static_cast<double>(of.own - end),
        [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
          const MatrixView<T> right = l21.block(column, 0, columns, width);
          if (row == column) {
            Blas<T>::herk(Triangle::lower, Op::none, -1, right, 1,
                          a22.block(row, column, columns, columns));
            row += columns;
            rows -= columns;
          }
          if (rows > 0) {
            Blas<T>::gemm(Op::none, Op::conjugate_transpose, T{-1}, l21.block(row, 0, rows, width),
                          right, T{1}, a22.block(row, column, rows, columns));
          }
        });
  }
  if (of.own == 0 || of.outer == 0) {
    return;
  }
  const MatrixView<T> l21 = a.block(of.own, 0, of.outer, of.own);
  const MatrixView<T> c = rest(node);
  fronts::each_lower_piece(
      of.outer, of.outer, each, static_cast<double>(of.outer * of.outer * of.own),
      [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
        if (row == column) {
          Blas<T>::herk(Triangle::lower, Op::none, -1, l21.block(row, 0, rows, of.own), 1,
                        c.block(row, column, rows, columns));
        } else {
          Blas<T>::gemm(Op::none, Op::conjugate_transpose, T{-1}, l21.block(row, 0, rows, of.own),
                        l21.block(column, 0, columns, of.own), T{1},
                        c.block(row, column, rows, columns));
        }
      });
}

/// False if a pivot was not positive.
template <Scalar T>
bool BlockCholesky<T>::eliminate(std::int32_t node, const AddBlock& add, const ForEach& each) {
  const FrontNode& of = shape(node);
  front(node).panel = room(of.front() * of.own);
  front(node).rest = room(of.outer * of.outer);
  const auto blocks = static_cast<std::int64_t>(of.blocks.size() + of.border.size());
  each(blocks, [&](std::int64_t index) { assemble_columns(node, index, add); });
  for (const std::int32_t child : of.children) {
    front(child).rest.reset();
  }
  factor_columns(node, each);
  return front(node).failed_column < 0;
}

template <Scalar T>
std::optional<BlockPivot> BlockCholesky<T>::failure() const {
  for (std::size_t n = 0; n < fronts_.size(); ++n) {
    const std::int64_t column = fronts_[n].failed_column;
    if (column >= 0) {
      const auto& begin = fronts_[n].block_begin;
      const auto behind = std::upper_bound(begin.begin(), begin.end(), column);
      const auto index = static_cast<std::size_t>(behind - begin.begin() - 1);
      return BlockPivot{tree_.nodes[n].blocks[index], column - begin[index]};
    }
  }
  return std::nullopt;
}

/// Up to the first front that fails, or has one below that has.
template <Scalar T>
void BlockCholesky<T>::factor_piece(std::int64_t piece, const AddBlock& add) {
  const auto is_factored = [&](std::int32_t node) {
    return front(node).panel && front(node).failed_column < 0;
  };
  for (const std::int32_t node : schedule_.alone[static_cast<std::size_t>(piece)]) {
    const auto& children = shape(node).children;
    if (!std::all_of(children.begin(), children.end(), is_factored) ||
        !eliminate(node, add, one_by_one)) {
      return;
    }
  }
}

template <Scalar T>
void BlockCholesky<T>::tell_rest(std::int32_t node, Packet& packet) {
  const std::int64_t outer = shape(node).outer;
  if (packet.reads()) {
    front(node).rest = room(outer * outer);
  }
  for (std::int64_t j = 0; j < outer; ++j) {
    packet.array(front(node).rest.get() + j * outer + j, outer - j);
  }
}

/// What the children of these fronts leave, to the processes whose they are.
template <Scalar T>
void BlockCholesky<T>::bring_rests(const std::vector<std::int32_t>& nodes, const Workers& workers) {
  std::vector<Delivery> deliveries;
  for (const std::int32_t node : nodes) {
    const std::int64_t to = schedule_.process[static_cast<std::size_t>(node)];
    for (const std::int32_t child : shape(node).children) {
      const std::int64_t from = schedule_.process[static_cast<std::size_t>(child)];
      if (from != to && shape(child).outer > 0) {
        deliveries.push_back({child, from, to});
      }
    }
  }
  workers.deliver(deliveries, [&](const Delivery& one, Packet& packet) {
    const auto child = static_cast<std::int32_t>(one.piece);
    tell_rest(child, packet);
    if (!packet.reads()) {
      front(child).rest.reset();
    }
  });
}

/// Fronts above the subtrees that do not wait for each other, each by its process.
template <Scalar T>
void BlockCholesky<T>::share_above(
    const std::vector<std::int32_t>& nodes, const Workers& workers,
    const std::function<void(std::int32_t node)>& work,
    const std::function<void(std::int32_t node, Packet&)>& tell) const {
  if (!workers.together) {
    for (const std::int32_t node : nodes) {
      workers.once([&] { work(node); }, [&](Packet& packet) { tell(node, packet); });
    }
    return;
  }
  std::vector<std::int64_t> process_of;
  for (const std::int32_t node : nodes) {
    process_of.push_back(schedule_.process[static_cast<std::size_t>(node)]);
  }
  workers.share_by(
      process_of, [&](std::int64_t i) { work(nodes[static_cast<std::size_t>(i)]); },
      [&](std::int64_t i, Packet& packet) { tell(nodes[static_cast<std::size_t>(i)], packet); });
}

template <Scalar T>
std::optional<BlockPivot> BlockCholesky<T>::factor(const AddBlock& add, const Workers& workers) {
  runtime::host::blas::use_one_thread();
  for (Front& one : fronts_) {
    one.panel.reset();
    one.rest.reset();
    one.failed_column = -1;
    one.joint.reset();
  }
  schedule_ = make_schedule(workers);
  for (const std::int32_t node : schedule_.joint) {
    front(node).joint.emplace(shape(node).own, shape(node).outer, workers.count,
                              workers.joint_fronts);
  }
  workers.share_by(
      schedule_.process_of_piece, [&](std::int64_t i) { factor_piece(i, add); },
      [&](std::int64_t i, Packet& packet) {
        for (const std::int32_t node : schedule_.alone[static_cast<std::size_t>(i)]) {
          packet.value(front(node).failed_column);
        }
      });
  for (const std::vector<std::int32_t>& nodes : schedule_.above) {
    if (failure()) {
      break;
    }
    bring_rests(nodes, workers);
    share_above(
        nodes, workers,
        [&](std::int32_t node) {
          eliminate(node, add, workers.together ? ForEach(one_by_one) : workers.each);
        },
        [&](std::int32_t node, Packet& packet) { packet.value(front(node).failed_column); });
  }
  // Each in a call of its own, which gives its memory back.
  for (const std::int32_t node : schedule_.joint) {
    if (!failure()) {
      workers.together([&](mesh::Rank& rank) { factor_jointly(node, add, rank); });
    }
  }
  for (Front& one : fronts_) {
    one.rest.reset();  // of other processes, or after a failure
  }
  return failure();
}

#define SHARDSOLVE_INSTANTIATE(T) template class BlockCholesky<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::sparse
