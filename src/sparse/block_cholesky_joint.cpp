// Fronts that all processes factor together, as slabs of the distributed dense factorisation: each
// process assembles its columns of what the matrix has there itself, and gets what the children
// leave in them from those who have it.

#include "comm/communicator.hpp"
#include "core/each_dtype.hpp"
#include "dense/cholesky/factor.hpp"
#include "mesh/rank.hpp"
#include "sparse/block_cholesky.hpp"
#include "sparse/joint_solve.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace shardsolve::sparse {
namespace joint {

/// Adds the lower triangle of a block of the matrix, or all of it, to the columns of a rank.
template <Scalar T>
void scatter(const JointFront& front, std::int64_t rank, MatrixView<const T> block,
             std::int64_t first_row, std::int64_t first_column, MatrixView<T> slab) {
  for (std::int64_t j = 0; j < block.columns(); ++j) {
    const std::int64_t column = first_column + j;
    if (front.rank(column) != rank) {
      continue;
    }
    T* const target = &slab(0, front.place(column));
    for (std::int64_t i = first_row == first_column ? j : 0; i < block.rows(); ++i) {
      target[front.row(first_row + i)] += block(i, j);
    }
  }
}

std::vector<std::int64_t> rows_of(const JointFront& front,
                                  const std::vector<std::int64_t>& columns) {
  std::vector<std::int64_t> rows;
  rows.reserve(columns.size());
  for (const std::int64_t column : columns) {
    rows.push_back(front.row(column));
  }
  return rows;
}

/// One piece of memory for what goes to each rank, or comes from there.
template <Scalar T>
std::vector<comm::Bytes> pieces_for(mesh::Rank& rank,
                                    const std::vector<std::vector<std::int64_t>>& columns,
                                    std::int64_t outer) {
  std::int64_t total = 0;
  for (const auto& of_rank : columns) {
    total += numbers_of(of_rank, outer);
  }
  T* at = rank.workspace<T>(std::max<std::int64_t>(total, 1), 1).data();
  std::vector<comm::Bytes> pieces;
  for (const auto& of_rank : columns) {
    const std::int64_t count = numbers_of(of_rank, outer);
    pieces.push_back({at, static_cast<std::size_t>(count) * sizeof(T)});
    at += count;
  }
  return pieces;
}

}  // namespace joint

/// Of each outer column of a front, which one of its parent's it is.
template <Scalar T>
std::vector<std::int64_t> BlockCholesky<T>::parent_columns(std::int32_t node) const {
  const Front& of = front(node);
  const auto& begin = of.block_begin;
  const std::size_t own = shape(node).blocks.size();
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < of.parent_place.size(); ++i) {
    const std::int64_t first =
        front(shape(node).parent).block_begin[static_cast<std::size_t>(of.parent_place[i])];
    for (std::int64_t k = 0; k < begin[own + i + 1] - begin[own + i]; ++k) {
      result.push_back(first + k);
    }
  }
  return result;
}

/// What the matrix has in the rank's columns. A block whose columns two ranks share is made by
/// both.
template <Scalar T>
void BlockCholesky<T>::assemble_own_columns(std::int32_t node, const AddBlock& add,
                                            mesh::Rank& rank) {
  const FrontNode& of = shape(node);
  const JointFront& joint = *front(node).joint;
  const std::vector<std::int64_t>& begin = front(node).block_begin;
  const std::int64_t n = joint.layout().size();
  const MatrixView<T> slab(front(node).panel.get(), n, joint.layout().width(rank.index()));
  std::vector<T> memory;
  for (std::size_t column = 0; column < of.blocks.size(); ++column) {
    rank.beat("assemble fronts");
    bool is_here = false;
    for (std::int64_t k = begin[column]; k < begin[column + 1]; ++k) {
      is_here = is_here || joint.rank(k) == rank.index();
    }
    if (!is_here) {
      continue;
    }
    const std::int32_t block = of.blocks[column];
    const auto& others = neighbours_[static_cast<std::size_t>(block)];
    for (std::size_t row = column; row + 1 < begin.size(); ++row) {
      const std::int32_t other = block_at(node, static_cast<std::int64_t>(row));
      if (row != column && !std::binary_search(others.begin(), others.end(), other)) {
        continue;
      }
      const std::int64_t rows = begin[row + 1] - begin[row];
      const std::int64_t columns = begin[column + 1] - begin[column];
      memory.assign(static_cast<std::size_t>(rows * columns), T{});
      add(other, block, MatrixView<T>(memory.data(), rows, columns));
      joint::scatter(joint, rank.index(), MatrixView<const T>(memory.data(), rows, columns),
                     begin[row], begin[column], slab);
    }
  }
  for (std::int64_t pad = of.front(); pad < of.front() + joint.pads(); ++pad) {
    if (joint.rank(pad) == rank.index()) {
      slab(joint.row(pad), joint.place(pad)) = T{1};
    }
  }
}

/// Brings what a child leaves to the slabs of its parent, and gives the child's memory for it back.
template <Scalar T>
void BlockCholesky<T>::add_rest_of(std::int32_t child, mesh::Rank& rank) {
  const std::int64_t outer = shape(child).outer;
  const JointFront& parent = *front(shape(child).parent).joint;
  const std::vector<std::int64_t> in_parent = parent_columns(child);
  const JointFront* const slabs = front(child).joint ? &*front(child).joint : nullptr;
  const RestPlace rest{slabs, schedule_.process[static_cast<std::size_t>(child)]};
  std::vector<std::vector<std::int64_t>> sent;
  std::vector<std::vector<std::int64_t>> received;
  for (std::int64_t other = 0; other < rank.count(); ++other) {
    sent.push_back(columns_between(rest, parent, in_parent, rank.index(), other));
    received.push_back(columns_between(rest, parent, in_parent, other, rank.index()));
  }
  const auto send = joint::pieces_for<T>(rank, sent, outer);
  const auto receive = joint::pieces_for<T>(rank, received, outer);

  std::vector<std::int64_t> from_rows(static_cast<std::size_t>(outer));
  for (std::int64_t i = 0; i < outer; ++i) {
    from_rows[static_cast<std::size_t>(i)] = slabs != nullptr ? slabs->row(slabs->own() + i) : i;
  }
  const auto source = [&](std::int64_t column) {
    return slabs != nullptr ? front(child).panel.get() +
                                  slabs->place(slabs->own() + column) * slabs->layout().size()
                            : front(child).rest.get() + column * outer;
  };
  const auto mine = static_cast<std::size_t>(rank.index());
  for (std::size_t other = 0; other < sent.size(); ++other) {
    // What stays here goes to where it would arrive.
    T* to = static_cast<T*>(other == mine ? receive[mine].data : send[other].data);
    for (const std::int64_t column : sent[other]) {
      rank.beat("assemble fronts");
      const T* const from = source(column);
      for (std::int64_t i = column; i < outer; ++i) {
        *to++ = from[from_rows[static_cast<std::size_t>(i)]];
      }
    }
  }
  rank.communicator().all_to_all(rank.transfer(), send, receive);
  rank.finish(rank.transfer());

  front(child).rest.reset();
  if (slabs != nullptr) {
    keep_own_columns(child, rank.index());
  }
  const std::vector<std::int64_t> rows = joint::rows_of(parent, in_parent);
  T* const target = front(shape(child).parent).panel.get();
  for (std::size_t other = 0; other < received.size(); ++other) {
    const T* from = static_cast<const T*>(receive[other].data);
    for (const std::int64_t column : received[other]) {
      rank.beat("assemble fronts");
      T* const to = target + parent.place(in_parent[static_cast<std::size_t>(column)]) *
                                 parent.layout().size();
      for (std::int64_t i = column; i < outer; ++i) {
        to[rows[static_cast<std::size_t>(i)]] += *from++;
      }
    }
  }
}

/// L's columns come first in a slab; gives back the memory behind them.
template <Scalar T>
void BlockCholesky<T>::keep_own_columns(std::int32_t node, std::int64_t rank) {
  const JointFront& joint = *front(node).joint;
  const auto count = static_cast<std::size_t>(joint.layout().size() * joint.own_width(rank));
  T* const all = front(node).panel.release();
  void* const kept = std::realloc(all, std::max<std::size_t>(count, 1) * sizeof(T));
  front(node).panel.reset(kept != nullptr ? static_cast<T*>(kept) : all);
}

template <Scalar T>
void BlockCholesky<T>::factor_jointly(std::int32_t node, const AddBlock& add, mesh::Rank& rank) {
  const JointFront& joint = *front(node).joint;
  const std::int64_t n = joint.layout().size();
  const std::int64_t width = joint.layout().width(rank.index());
  front(node).panel = room(n * width);
  std::fill_n(front(node).panel.get(), n * width, T{});
  assemble_own_columns(node, add, rank);
  for (const std::int32_t child : shape(node).children) {
    add_rest_of(child, rank);
  }
  const Outcome outcome = dense::cholesky::factor<T>(
      rank, joint.layout(), MatrixView<T>(front(node).panel.get(), n, width), joint.end());
  for (runtime::Queue* const queue :
       {&rank.panel(), &rank.panel_rest(), &rank.update(), &rank.transfer()}) {
    rank.finish(*queue);
  }
  if (!outcome.ok()) {
    front(node).failed_column = outcome.location->rows_before;
  }
}

template <Scalar T>
void BlockCholesky<T>::solve_jointly(MatrixView<T> b, std::vector<std::vector<T>>& borders,
                                     mesh::Rank& rank) const {
  const std::int64_t k = b.columns();
  std::vector<std::unique_ptr<JointSolve<T>>> solves;
  for (const std::int32_t node : schedule_.joint) {
    const JointFront& joint = *front(node).joint;
    const MatrixView<const T> slab(front(node).panel.get(), joint.layout().size(),
                                   joint.own_width(rank.index()));
    solves.push_back(std::make_unique<JointSolve<T>>(rank, joint, slab, k));
    std::vector<T> local = gathered(node, b, borders);
    const MatrixView<T> x(local.data(), shape(node).front(), k);
    solves.back()->forward(x);
    std::vector<T>& border = borders[static_cast<std::size_t>(node)];
    border.resize(static_cast<std::size_t>(joint.outer() * k));
    for (std::int64_t j = 0; j < k; ++j) {
      std::copy_n(x.data() + joint.own() + j * x.rows(), joint.outer(),
                  border.data() + j * joint.outer());
    }
  }
  for (std::size_t i = solves.size(); i-- > 0;) {
    const std::int32_t node = schedule_.joint[i];
    const auto& begin = front(node).block_begin;
    std::vector<T> local(static_cast<std::size_t>(shape(node).front() * k));
    const MatrixView<T> x(local.data(), shape(node).front(), k);
    const auto each_block = [&](std::size_t first, std::size_t end, const auto& act) {
      for (std::size_t at = first; at < end; ++at) {
        const std::int64_t in_b =
            offsets_[static_cast<std::size_t>(block_at(node, static_cast<std::int64_t>(at)))];
        for (std::int64_t j = 0; j < k; ++j) {
          act(b.data() + in_b + j * b.stride(), x.data() + begin[at] + j * x.stride(),
              begin[at + 1] - begin[at]);
        }
      }
    };
    const std::size_t own = shape(node).blocks.size();
    each_block(own, begin.size() - 1,
               [](const T* from, T* to, std::int64_t count) { std::copy_n(from, count, to); });
    solves[i]->back(x);
    each_block(0, own,
               [](T* to, const T* from, std::int64_t count) { std::copy_n(from, count, to); });
  }
}

#define SHARDSOLVE_INSTANTIATE(T)                                                             \
  template void BlockCholesky<T>::factor_jointly(std::int32_t, const AddBlock&, mesh::Rank&); \
  template void BlockCholesky<T>::solve_jointly(MatrixView<T>, std::vector<std::vector<T>>&,  \
                                                mesh::Rank&) const;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::sparse
