#include "fbpinn/block_system.hpp"

#include "fbpinn/conjugate_gradients.hpp"
#include "fbpinn/lists.hpp"
#include "runtime/host/blas.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <span>
#include <utility>

namespace shardsolve::fbpinn {
namespace block_system {

using runtime::Op;
using Blas = runtime::host::blas::Blas<double>;

double norm_of(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double value : x) {
    sum += value * value;
  }
  return std::sqrt(sum);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Of Q, by the smallest eigenvalue of Q^T Q from a few steps of inverse iteration; the largest is
/// at most the number of boxes that share a row, and at least 1.
double condition_by(const std::function<std::vector<double>(std::vector<double>)>& solved,
                    std::size_t columns) {
  std::vector<double> x(columns);
  for (std::size_t k = 0; k < x.size(); ++k) {
    x[k] = (k * 2654435761U >> 7U & 1U) != 0 ? 1.0 : -1.0;
  }
  double inverse = 1.0;
  for (int step = 0; step < 3 && !x.empty(); ++step) {
    const double scale = 1.0 / norm_of(x);
    for (double& value : x) {
      value *= scale;
    }
    x = solved(std::move(x));
    inverse = norm_of(x);
  }
  return std::sqrt(std::max(inverse, 1.0));
}

/// The columns of a that are listed, one behind the other.
void gather_columns(const OrthonormalBlock& a, const std::vector<std::int32_t>& which, double* to) {
  for (const std::int32_t column : which) {
    std::copy_n(a.adjoint.data() + column * a.rank, a.rank, to);
    to += a.rank;
  }
}

}  // namespace block_system

sparse::BlockGraph graph_of(const Boxes& boxes, const RowLists& lists,
                            std::vector<std::int64_t> sizes, const sparse::ForEach& each) {
  Numbers<std::int32_t> box_of(lists.row.size());
  each_range(lists.boxes(), each, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t box = first; box < last; ++box) {
      std::fill(box_of.begin() + lists.begin[static_cast<std::size_t>(box)],
                box_of.begin() + lists.begin[static_cast<std::size_t>(box) + 1],
                static_cast<std::int32_t>(box));
    }
  });
  // Of each row, one after the other.
  Numbers<std::int32_t> boxes_by_row(lists.row.size());
  each_range(lists.slots(), each, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t k = first; k < last; ++k) {
      const auto at = static_cast<std::size_t>(k);
      boxes_by_row[at] = box_of[static_cast<std::size_t>(lists.by_row[at])];
    }
  });
  // Most rows are in the same boxes as the row before, and say nothing new.
  Numbers<char> repeats(static_cast<std::size_t>(lists.rows));
  const auto boxes_of = [&](std::int64_t row) {
    const auto begin = lists.by_row_begin[static_cast<std::size_t>(row)];
    return std::span(boxes_by_row)
        .subspan(static_cast<std::size_t>(begin),
                 static_cast<std::size_t>(lists.by_row_begin[static_cast<std::size_t>(row) + 1] -
                                          begin));
  };
  each_range(lists.rows, each, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const bool repeats_it = row > 0 && std::ranges::equal(boxes_of(row - 1), boxes_of(row));
      repeats[static_cast<std::size_t>(row)] = repeats_it ? 1 : 0;
    }
  });
  std::vector<std::vector<std::int32_t>> neighbours(static_cast<std::size_t>(lists.boxes()));
  each_range(lists.boxes(), each, [&](std::int64_t first, std::int64_t last) {
    std::vector<std::int64_t> seen_by(static_cast<std::size_t>(lists.boxes()), -1);
    for (std::int64_t box = first; box < last; ++box) {
      std::vector<std::int32_t>& found = neighbours[static_cast<std::size_t>(box)];
      seen_by[static_cast<std::size_t>(box)] = box;
      for (const std::int32_t row : lists.rows_of(box)) {
        if (repeats[static_cast<std::size_t>(row)] != 0) {
          continue;
        }
        for (const std::int32_t other : boxes_of(row)) {
          if (seen_by[static_cast<std::size_t>(other)] != box) {
            seen_by[static_cast<std::size_t>(other)] = box;
            found.push_back(other);
          }
        }
      }
      std::sort(found.begin(), found.end());
    }
  });
  sparse::BlockGraph graph;
  graph.sizes = std::move(sizes);
  graph.axes = boxes.axes();
  graph.neighbour_begin.push_back(0);
  for (std::int64_t box = 0; box < lists.boxes(); ++box) {
    const std::vector<std::int32_t>& found = neighbours[static_cast<std::size_t>(box)];
    graph.neighbours.insert(graph.neighbours.end(), found.begin(), found.end());
    graph.neighbour_begin.push_back(static_cast<std::int64_t>(graph.neighbours.size()));
    graph.coordinates.insert(graph.coordinates.end(), boxes.center(box),
                             boxes.center(box) + boxes.axes());
  }
  return graph;
}

void BlocksOnHost::grow_by(std::int64_t bytes) {
  bytes_ += bytes;
  most_bytes_ = std::max(most_bytes_, bytes_);
}

void BlocksOnHost::make(const MakeBlock& make_block, const sparse::Workers& workers) {
  workers.share_by(
      boxes_.doer, [&](std::int64_t box) { block(box) = make_block(box); },
      [&](std::int64_t box, sparse::Packet& packet) {
        packet.value(block(box).rows);
        packet.value(block(box).columns);
        packet.value(block(box).rank);
      });
  for (const OrthonormalBlock& one : blocks_) {
    grow_by(one.bytes());
  }
}

void BlocksOnHost::bring_to(ProcessBoxes boxes, const sparse::Workers& workers) {
  const auto tell = [&](const sparse::Delivery& one, sparse::Packet& packet) {
    OrthonormalBlock& of = block(one.piece);
    packet.vector(of.adjoint);
    if (boxes.doer[static_cast<std::size_t>(one.piece)] == one.to) {
      packet.vector(of.r);
      packet.vector(of.kept_columns);
    }
    if (packet.reads()) {
      grow_by(of.bytes());
    }
  };
  std::vector<std::int64_t> bytes;
  for (const OrthonormalBlock& one : blocks_) {
    bytes.push_back(static_cast<std::int64_t>(sizeof(double)) * one.rows * one.rank);
  }
  bring_boxes(boxes_, boxes, bytes, workers, tell, [&](std::int64_t box) {
    grow_by(-block(box).bytes());
    block(box).forget();
  });
  boxes_ = std::move(boxes);
}

std::vector<std::int64_t> BlocksOnHost::ranks() const {
  std::vector<std::int64_t> result;
  for (const OrthonormalBlock& one : blocks_) {
    result.push_back(one.rank);
  }
  return result;
}

void BlocksOnHost::add_gram(std::int32_t i, std::int32_t j, MatrixView<double> target) const {
  using namespace block_system;
  if (i == j) {
    for (std::int64_t k = 0; k < target.rows(); ++k) {
      target(k, k) += 1.0;
    }
    return;
  }
  const auto left = lists().rows_of(i);
  const auto right = lists().rows_of(j);
  std::vector<std::int32_t> in_left;
  std::vector<std::int32_t> in_right;
  for (std::size_t a = 0, b = 0; a < left.size() && b < right.size();) {
    if (left[a] == right[b]) {
      in_left.push_back(static_cast<std::int32_t>(a++));
      in_right.push_back(static_cast<std::int32_t>(b++));
    } else {
      left[a] < right[b] ? ++a : ++b;
    }
  }
  const auto shared = static_cast<std::int64_t>(in_left.size());
  if (shared == 0 || target.empty()) {
    return;
  }
  const auto rows_left =
      std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(block(i).rank * shared));
  const auto rows_right =
      std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(block(j).rank * shared));
  gather_columns(block(i), in_left, rows_left.get());
  gather_columns(block(j), in_right, rows_right.get());
  Blas::gemm(Op::none, Op::conjugate_transpose, 1.0,
             MatrixView<const double>(rows_left.get(), block(i).rank, shared),
             MatrixView<const double>(rows_right.get(), block(j).rank, shared), 1.0, target);
}

std::vector<double> BlocksOnHost::multiply(const std::vector<std::int64_t>& offsets,
                                           const std::vector<double>& y,
                                           const sparse::Workers& workers) const {
  using namespace block_system;
  std::vector<double> slots(static_cast<std::size_t>(lists().slots()));
  const auto work = [&](std::int64_t box) {
    const OrthonormalBlock& q = block(box);
    double* const to = slots.data() + lists().begin[static_cast<std::size_t>(box)];
    if (q.rank == 0) {
      std::fill_n(to, q.rows, 0.0);
    } else if (q.rows > 0) {
      Blas::gemv(Op::conjugate_transpose, 1.0,
                 MatrixView<const double>(q.adjoint.data(), q.rank, q.rows),
                 y.data() + offsets[static_cast<std::size_t>(box)], 0.0, to);
    }
  };
  workers.share_by(boxes_.doer, work, [&](std::int64_t box, sparse::Packet& packet) {
    packet.array(slots.data() + lists().begin[static_cast<std::size_t>(box)], block(box).rows);
  });
  std::vector<double> result(static_cast<std::size_t>(lists().rows), 0.0);
  for (std::size_t row = 0; row < result.size(); ++row) {
    for (std::int64_t k = lists().by_row_begin[row]; k < lists().by_row_begin[row + 1]; ++k) {
      result[row] += slots[static_cast<std::size_t>(lists().by_row[static_cast<std::size_t>(k)])];
    }
  }
  return result;
}

std::vector<double> BlocksOnHost::multiply_adjoint(const std::vector<std::int64_t>& offsets,
                                                   const std::vector<double>& r,
                                                   const sparse::Workers& workers) const {
  using namespace block_system;
  std::vector<double> result(static_cast<std::size_t>(offsets.back()), 0.0);
  const auto work = [&](std::int64_t box) {
    const OrthonormalBlock& q = block(box);
    std::vector<double> local;
    for (const std::int32_t row : lists().rows_of(box)) {
      local.push_back(r[static_cast<std::size_t>(row)]);
    }
    if (q.rank > 0) {
      Blas::gemv(Op::none, 1.0, MatrixView<const double>(q.adjoint.data(), q.rank, q.rows),
                 local.data(), 0.0, result.data() + offsets[static_cast<std::size_t>(box)]);
    }
  };
  workers.share_by(boxes_.doer, work, [&](std::int64_t box, sparse::Packet& packet) {
    packet.array(result.data() + offsets[static_cast<std::size_t>(box)], block(box).rank);
  });
  return result;
}

void BlockSystem::polish(const std::vector<std::int64_t>& offsets, const std::vector<double>& b,
                         const Border& border,
                         const std::function<std::vector<double>(std::vector<double>)>& solved,
                         const sparse::Workers& workers, Solution& solution,
                         double& gradient) const {
  using namespace block_system;
  GradientGoal goal;
  goal.tolerance = 1e-8;  // refinement reaches it as a rule
  goal.floor = 1e-13 * norm_of(b);
  goal.gain = 1e-8;
  goal.least_residual = 1e-15 * norm_of(b);
  goal.max_steps = 60;
  const double size = norm_of(solution.residual);
  // The gain is at most (condition gradient / size)^2; the condition is known from below.
  constexpr double certain = 1e-5;
  if (gradient <= goal.tolerance * size && solution.condition * gradient <= certain * size) {
    return;
  }
  const auto n = static_cast<std::ptrdiff_t>(offsets.back());
  const LeastSquaresProduct product{
      [&](const std::vector<double>& x) {
        std::vector<double> result =
            multiply(offsets, std::vector<double>(x.begin(), x.begin() + n), workers);
        for (double& value : result) {
          value = -value;
        }
        border.subtract(std::vector<double>(x.begin() + n, x.end()), result);
        for (double& value : result) {
          value = -value;
        }
        return result;
      },
      [&](const std::vector<double>& r) {
        std::vector<double> result = multiply_adjoint(offsets, r, workers);
        const std::vector<double> of_border = border.multiply_adjoint(r);
        result.insert(result.end(), of_border.begin(), of_border.end());
        return result;
      },
      [&](std::vector<double> s) {
        std::vector<double> result = solved(std::vector<double>(s.begin(), s.begin() + n));
        result.insert(result.end(), s.begin() + n, s.end());
        return result;
      }};
  std::vector<double> x = solution.y;
  x.insert(x.end(), solution.z.begin(), solution.z.end());
  const GradientSteps steps = conjugate_gradients(product, b, goal, x, solution.residual);
  constexpr double much = 1e-2;
  solution.cg_steps = steps.iterations;
  solution.gain = steps.gain;
  solution.is_limited = steps.gain > much && norm_of(solution.residual) > goal.least_residual;
  gradient = steps.gradient;
  solution.y.assign(x.begin(), x.begin() + n);
  solution.z.assign(x.begin() + n, x.end());
}

std::vector<double> BlocksOnHost::weights_of(const std::vector<std::int64_t>& offsets,
                                             const std::vector<double>& y,
                                             const sparse::Workers& workers) const {
  std::vector<std::int64_t> begin{0};
  for (const OrthonormalBlock& one : blocks_) {
    begin.push_back(begin.back() + one.columns);
  }
  std::vector<double> weights(static_cast<std::size_t>(begin.back()));
  workers.share_by(
      boxes_.doer,
      [&](std::int64_t box) {
        block(box).weights_of(y.data() + offsets[static_cast<std::size_t>(box)],
                              weights.data() + begin[static_cast<std::size_t>(box)]);
      },
      [&](std::int64_t box, sparse::Packet& packet) {
        packet.array(weights.data() + begin[static_cast<std::size_t>(box)], block(box).columns);
      });
  return weights;
}

namespace block_system {

/// Its blocks are computed where a front needs them.
class FactorOnHost final : public BlockSystem::Gram {
 public:
  FactorOnHost(const BlocksOnHost& blocks, const sparse::BlockGraph& graph,
               sparse::EliminationTree tree, const sparse::Workers& workers)
      : blocks_(blocks), workers_(workers), factor_(graph, std::move(tree)) {}

  std::optional<sparse::BlockPivot> factor(double shift) override {
    return factor_.factor(
        [&](std::int32_t i, std::int32_t j, MatrixView<double> target) {
          blocks_.add_gram(i, j, target);
          if (i == j) {
            for (std::int64_t k = 0; k < target.rows(); ++k) {
              target(k, k) += shift;
            }
          }
        },
        workers_);
  }
  void solve(MatrixView<double> b) const override { factor_.solve(b, workers_); }

 private:
  const BlocksOnHost& blocks_;
  const sparse::Workers& workers_;
  sparse::BlockCholesky<double> factor_;
};

}  // namespace block_system

auto BlocksOnHost::make_gram(const sparse::BlockGraph& graph, sparse::EliminationTree tree,
                             const sparse::Workers& workers) const -> std::unique_ptr<Gram> {
  return std::make_unique<block_system::FactorOnHost>(*this, graph, std::move(tree), workers);
}

auto BlockSystem::solve(const sparse::BlockGraph& graph, sparse::EliminationTree tree,
                        const std::vector<double>& b, MatrixView<const double> border_columns,
                        double border_tolerance, const sparse::Workers& workers) const -> Solution {
  using namespace block_system;
  Solution solution;
  workers.enter("factor");
  auto start = std::chrono::steady_clock::now();
  const std::unique_ptr<Gram> gram = make_gram(graph, std::move(tree), workers);
  const auto n = static_cast<double>(graph.columns());
  // Rounding in the factor is about this; refinement takes its effect out of the solution.
  const double first_shift = 0x1p-53 * std::sqrt(std::max(n, 1.0));
  for (double shift = 0.0;; shift = shift == 0.0 ? first_shift : 100.0 * shift) {
    solution.shift = shift;
    solution.failure = gram->factor(shift);
    if (!solution.failure || shift > 1e-8) {
      break;
    }
  }
  solution.factor_seconds = seconds_since(start);
  if (solution.failure) {
    return solution;
  }
  workers.enter("solve");
  start = std::chrono::steady_clock::now();
  const std::vector<std::int64_t> offsets = graph.offsets();
  const auto solved = [&](std::vector<double> x) {
    gram->solve(MatrixView<double>(x.data(), static_cast<std::int64_t>(x.size()), 1));
    return x;
  };
  Border border;
  if (border_columns.columns() > 0) {
    const auto project = [&](const std::vector<std::vector<double>>& r) {
      std::vector<double> x;
      for (const std::vector<double>& one : r) {
        const std::vector<double> part = multiply_adjoint(offsets, one, workers);
        x.insert(x.end(), part.begin(), part.end());
      }
      gram->solve(
          MatrixView<double>(x.data(), offsets.back(), static_cast<std::int64_t>(r.size())));
      std::vector<std::vector<double>> y;
      for (std::size_t k = 0; k < r.size(); ++k) {
        const auto first = x.begin() + static_cast<std::ptrdiff_t>(k) * offsets.back();
        y.emplace_back(first, first + offsets.back());
      }
      return y;
    };
    border = Border(
        border_columns, [&](const auto& y) { return multiply(offsets, y, workers); }, project,
        border_tolerance, workers);
  }
  solution.border_rank = border.rank();
  // y += G^-1 Q^T r and z += Q_c^T r for r = b - Q y - Q_c z, as long as that makes (Q, Q_c)^T r
  // smaller by half.
  solution.y.assign(static_cast<std::size_t>(offsets.back()), 0.0);
  solution.z.assign(static_cast<std::size_t>(border.rank()), 0.0);
  solution.residual = b;
  std::vector<double> gradient = multiply_adjoint(offsets, b, workers);
  std::vector<double> border_gradient = border.multiply_adjoint(b);
  double before = std::hypot(norm_of(gradient), norm_of(border_gradient));
  constexpr int max_refinements = 8;
  for (int step = 0; step <= max_refinements && before > 0.0; ++step) {
    std::vector<double> y = solved(std::move(gradient));
    for (std::size_t k = 0; k < y.size(); ++k) {
      y[k] += solution.y[k];
    }
    std::vector<double> z = std::move(border_gradient);
    for (std::size_t k = 0; k < z.size(); ++k) {
      z[k] += solution.z[k];
    }
    std::vector<double> residual = multiply(offsets, y, workers);
    for (std::size_t row = 0; row < residual.size(); ++row) {
      residual[row] = b[row] - residual[row];
    }
    border.subtract(z, residual);
    gradient = multiply_adjoint(offsets, residual, workers);
    border_gradient = border.multiply_adjoint(residual);
    const double now = std::hypot(norm_of(gradient), norm_of(border_gradient));
    if (step > 0 && !(now < before)) {
      break;
    }
    solution.y = std::move(y);
    solution.z = std::move(z);
    solution.residual = std::move(residual);
    solution.refinements = step;
    const bool is_done = now > 0.5 * before || now <= 0x1p-50 * norm_of(solution.residual);
    before = now;
    if (is_done) {
      break;
    }
  }
  solution.condition = condition_by(solved, solution.y.size());
  polish(offsets, b, border, solved, workers, solution, before);
  solution.z = border.weights_of(solution.z, solution.y);
  solution.border_deviations = border.deviations(
      solution.residual, static_cast<std::int64_t>(b.size()) - offsets.back() - border.rank());
  const double size = norm_of(solution.residual);
  solution.certificate = size > 0.0 ? before / size : 0.0;
  solution.solve_seconds = seconds_since(start);
  return solution;
}

}  // namespace shardsolve::fbpinn
