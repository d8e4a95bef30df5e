// Solves with the factor, front by front: up the tree and down again.

#include "core/each_dtype.hpp"
#include "runtime/host/blas.hpp"
#include "sparse/block_cholesky.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::sparse {
namespace block_solve {

using runtime::Op;
using runtime::Side;
using runtime::Triangle;
template <Scalar T>
using Blas = runtime::host::blas::Blas<T>;

}  // namespace block_solve

/// The own part of b and what the children leave, of all columns of the front.
template <Scalar T>
std::vector<T> BlockCholesky<T>::gathered(std::int32_t node, MatrixView<T> b,
                                          std::vector<std::vector<T>>& borders) const {
  const FrontNode& of = shape(node);
  const auto& begin = front(node).block_begin;
  const std::int64_t k = b.columns();
  std::vector<T> local(static_cast<std::size_t>(of.front() * k), T{});
  const MatrixView<T> x(local.data(), of.front(), k);
  for (std::size_t i = 0; i < of.blocks.size(); ++i) {
    const std::int64_t from = offsets_[static_cast<std::size_t>(of.blocks[i])];
    for (std::int64_t j = 0; j < k; ++j) {
      std::copy_n(&b(from, j), begin[i + 1] - begin[i], &x(begin[i], j));
    }
  }
  for (const std::int32_t child : of.children) {
    const auto own = static_cast<std::size_t>(shape(child).blocks.size());
    const auto& child_begin = front(child).block_begin;
    const std::vector<T>& border = borders[static_cast<std::size_t>(child)];
    const MatrixView<const T> from(border.data(), shape(child).outer, k);
    for (std::size_t i = 0; i < front(child).parent_place.size(); ++i) {
      const std::int64_t rows = child_begin[own + i + 1] - child_begin[own + i];
      const std::int64_t row = child_begin[own + i] - shape(child).own;
      const std::int64_t to = begin[static_cast<std::size_t>(front(child).parent_place[i])];
      for (std::int64_t j = 0; j < k; ++j) {
        for (std::int64_t r = 0; r < rows; ++r) {
          x(to + r, j) += from(row + r, j);
        }
      }
    }
    borders[static_cast<std::size_t>(child)] = {};
  }
  return local;
}

/// The own part of b := L11^-1 (b + what the children leave); the border's share for the parent.
template <Scalar T>
void BlockCholesky<T>::substitute_forward(std::int32_t node, MatrixView<T> b,
                                          std::vector<std::vector<T>>& borders) const {
  using namespace block_solve;
  const FrontNode& of = shape(node);
  const auto& begin = front(node).block_begin;
  const std::int64_t k = b.columns();
  std::vector<T> local = gathered(node, b, borders);
  const MatrixView<T> x(local.data(), of.front(), k);
  if (of.own > 0) {
    const MatrixView<T> a = panel(node);
    const MatrixView<T> own = x.block(0, 0, of.own, k);
    Blas<T>::trsm(Side::left, Triangle::lower, Op::none, a.block(0, 0, of.own, of.own), own);
    if (of.outer > 0) {
      Blas<T>::gemm(Op::none, Op::none, T{-1}, a.block(of.own, 0, of.outer, of.own), own, T{1},
                    x.block(of.own, 0, of.outer, k));
    }
  }
  std::vector<T>& border = borders[static_cast<std::size_t>(node)];
  border.resize(static_cast<std::size_t>(of.outer * k));
  for (std::int64_t j = 0; j < k; ++j) {
    std::copy_n(x.data() + of.own + j * of.front(), of.outer, border.data() + j * of.outer);
  }
  for (std::size_t i = 0; i < of.blocks.size(); ++i) {
    const std::int64_t to = offsets_[static_cast<std::size_t>(of.blocks[i])];
    for (std::int64_t j = 0; j < k; ++j) {
      std::copy_n(&x(begin[i], j), begin[i + 1] - begin[i], &b(to, j));
    }
  }
}

/// The own part of b := L11^-H (b - L21^H times the border's part, which is final).
template <Scalar T>
void BlockCholesky<T>::substitute_back(std::int32_t node, MatrixView<T> b) const {
  using namespace block_solve;
  const FrontNode& of = shape(node);
  if (of.own == 0) {
    return;
  }
  const auto& begin = front(node).block_begin;
  const std::int64_t k = b.columns();
  const auto blocks = static_cast<std::int64_t>(begin.size()) - 1;
  std::vector<T> local(static_cast<std::size_t>(of.front() * k), T{});
  const MatrixView<T> x(local.data(), of.front(), k);
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t from = offsets_[static_cast<std::size_t>(block_at(node, i))];
    const std::int64_t place = begin[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < k; ++j) {
      std::copy_n(b.data() + from + j * b.stride(), begin[static_cast<std::size_t>(i) + 1] - place,
                  x.data() + place + j * x.stride());
    }
  }
  const MatrixView<T> a = panel(node);
  const MatrixView<T> own = x.block(0, 0, of.own, k);
  if (of.outer > 0) {
    Blas<T>::gemm(Op::conjugate_transpose, Op::none, T{-1}, a.block(of.own, 0, of.outer, of.own),
                  x.block(of.own, 0, of.outer, k), T{1}, own);
  }
  Blas<T>::trsm(Side::left, Triangle::lower, Op::conjugate_transpose, a.block(0, 0, of.own, of.own),
                own);
  for (std::size_t i = 0; i < of.blocks.size(); ++i) {
    const std::int64_t to = offsets_[static_cast<std::size_t>(of.blocks[i])];
    for (std::int64_t j = 0; j < k; ++j) {
      std::copy_n(&x(begin[i], j), begin[i + 1] - begin[i], &b(to, j));
    }
  }
}

/// The parts of b that belong to some nodes.
template <Scalar T>
void BlockCholesky<T>::tell_solution(const std::vector<std::int32_t>& nodes, MatrixView<T> b,
                                     Packet& packet) const {
  for (const std::int32_t node : nodes) {
    for (const std::int32_t block : shape(node).blocks) {
      for (std::int64_t j = 0; j < b.columns(); ++j) {
        packet.array(b.data() + offsets_[static_cast<std::size_t>(block)] + j * b.stride(),
                     sizes_[static_cast<std::size_t>(block)]);
      }
    }
  }
}

template <Scalar T>
void BlockCholesky<T>::solve(MatrixView<T> b, const Workers& workers) const {
  std::vector<std::vector<T>> borders(fronts_.size());
  const auto nodes_of = [&](std::int64_t i) -> const std::vector<std::int32_t>& {
    return schedule_.alone[static_cast<std::size_t>(i)];
  };
  workers.share_by(
      schedule_.process_of_piece,
      [&](std::int64_t i) {
        for (const std::int32_t node : nodes_of(i)) {
          substitute_forward(node, b, borders);
        }
      },
      [&](std::int64_t i, Packet& packet) {
        if (leaves_to_others(nodes_of(i).back())) {
          packet.vector(borders[static_cast<std::size_t>(nodes_of(i).back())]);
        }
      });
  for (const std::vector<std::int32_t>& nodes : schedule_.above) {
    share_above(
        nodes, workers, [&](std::int32_t node) { substitute_forward(node, b, borders); },
        [&](std::int32_t node, Packet& packet) {
          packet.vector(borders[static_cast<std::size_t>(node)]);
        });
  }
  if (!schedule_.joint.empty()) {
    workers.together([&](mesh::Rank& rank) { solve_jointly(b, borders, rank); });
  }
  for (auto nodes = schedule_.above.rbegin(); nodes != schedule_.above.rend(); ++nodes) {
    share_above(
        *nodes, workers, [&](std::int32_t node) { substitute_back(node, b); },
        [&](std::int32_t node, Packet& packet) { tell_solution({node}, b, packet); });
  }
  // Of a process fronts depend on each other: the last one first. Else pieces are whole subtrees.
  std::vector<std::int64_t> process_of = schedule_.process_of_piece;
  if (workers.together) {
    std::reverse(process_of.begin(), process_of.end());
  }
  const auto nodes_back = [&](std::int64_t i) -> const std::vector<std::int32_t>& {
    return nodes_of(workers.together ? static_cast<std::int64_t>(process_of.size()) - 1 - i : i);
  };
  workers.share_by(
      process_of,
      [&](std::int64_t i) {
        for (auto node = nodes_back(i).rbegin(); node != nodes_back(i).rend(); ++node) {
          substitute_back(*node, b);
        }
      },
      [&](std::int64_t i, Packet& packet) { tell_solution(nodes_back(i), b, packet); });
}

#define SHARDSOLVE_INSTANTIATE(T)                                                         \
  template std::vector<T> BlockCholesky<T>::gathered(std::int32_t, MatrixView<T>,         \
                                                     std::vector<std::vector<T>>&) const; \
  template void BlockCholesky<T>::solve(MatrixView<T>, const Workers&) const;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::sparse
