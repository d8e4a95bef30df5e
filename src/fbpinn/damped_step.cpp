#include "fbpinn/damped_step.hpp"

#include "runtime/host/blas.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace shardsolve::fbpinn {
namespace damped {

using runtime::Op;
using runtime::Triangle;
using Blas = runtime::host::blas::Blas<double>;

}  // namespace damped

namespace damped {

/// Numbers for each column of each box, by who multiplies with it, and of the border, by all.
/// of_column(column, rows) is one; the rows are those of the box.
template <class OfColumn>
std::vector<double> of_columns(const BlockJacobian& jacobian, const sparse::Workers& workers,
                               const OfColumn& of_column) {
  std::vector<double> result(static_cast<std::size_t>(jacobian.parameters()));
  const auto in = [&](std::int64_t box) { return result.data() + box * jacobian.columns; };
  workers.share_by(
      jacobian.boxes.doer,
      [&](std::int64_t box) {
        const auto rows = jacobian.lists->rows_of(box);
        const double* column = jacobian.blocks[static_cast<std::size_t>(box)].data();
        for (std::int64_t k = 0; k < jacobian.columns; ++k, column += rows.size()) {
          in(box)[k] = of_column(column, rows);
        }
      },
      [&](std::int64_t box, sparse::Packet& packet) { packet.array(in(box), jacobian.columns); });
  return result;
}

}  // namespace damped

std::vector<double> BlockJacobian::norms(const sparse::Workers& workers) const {
  return norms(std::vector<double>(static_cast<std::size_t>(lists->rows), 1.0), workers);
}

std::vector<double> BlockJacobian::norms(const std::vector<double>& weights,
                                         const sparse::Workers& workers) const {
  const auto square = [](double value) { return value * value; };
  std::vector<double> result =
      damped::of_columns(*this, workers, [&](const double* column, auto rows) {
        double sum = 0.0;
        for (std::size_t i = 0; i < rows.size(); ++i) {
          sum += square(weights[static_cast<std::size_t>(rows[i])] * column[i]);
        }
        return std::sqrt(sum);
      });
  for (std::int64_t k = 0; k < border_columns; ++k) {
    const double* const column = border.data() + static_cast<std::size_t>(k) * weights.size();
    double sum = 0.0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      sum += square(weights[i] * column[i]);
    }
    result[static_cast<std::size_t>(lists->boxes() * columns + k)] = std::sqrt(sum);
  }
  return result;
}

void BlockJacobian::divide_columns(const std::vector<double>& scales) {
  const auto divide = [&](std::vector<double>& matrix, std::int64_t first, std::int64_t count) {
    const std::size_t rows = count == 0 ? 0 : matrix.size() / static_cast<std::size_t>(count);
    for (std::int64_t k = 0; k < count; ++k) {
      double* const column = matrix.data() + static_cast<std::size_t>(k) * rows;
      for (std::size_t i = 0; i < rows; ++i) {
        column[i] /= scales[static_cast<std::size_t>(first + k)];
      }
    }
  };
  for (std::int64_t box = 0; box < lists->boxes(); ++box) {
    divide(blocks[static_cast<std::size_t>(box)], box * columns, columns);
  }
  divide(border, lists->boxes() * columns, border_columns);
}

std::vector<double> BlockJacobian::multiply_adjoint(const std::vector<double>& r,
                                                    const sparse::Workers& workers) const {
  std::vector<double> result =
      damped::of_columns(*this, workers, [&](const double* column, auto rows) {
        double sum = 0.0;
        for (std::size_t i = 0; i < rows.size(); ++i) {
          sum += column[i] * r[static_cast<std::size_t>(rows[i])];
        }
        return sum;
      });
  for (std::int64_t k = 0; k < border_columns; ++k) {
    double sum = 0.0;
    for (std::size_t i = 0; i < r.size(); ++i) {
      sum += border[static_cast<std::size_t>(k) * r.size() + i] * r[i];
    }
    result[static_cast<std::size_t>(lists->boxes() * columns + k)] = sum;
  }
  return result;
}

DampedSteps::DampedSteps(const RowLists& lists, const sparse::BlockGraph& graph,
                         std::int64_t border_columns)
    : lists_(lists), border_columns_(border_columns), graph_(graph) {
  if (border_columns > 0) {
    const auto border = static_cast<std::int32_t>(graph.count());
    graph_.neighbours.clear();
    graph_.neighbour_begin.assign(1, 0);
    for (std::int32_t box = 0; box < border; ++box) {
      const auto others = graph.neighbours_of(box);
      graph_.neighbours.insert(graph_.neighbours.end(), others.begin(), others.end());
      graph_.neighbours.push_back(border);
      graph_.neighbour_begin.push_back(static_cast<std::int64_t>(graph_.neighbours.size()));
    }
    for (std::int32_t box = 0; box < border; ++box) {
      graph_.neighbours.push_back(box);
    }
    graph_.neighbour_begin.push_back(static_cast<std::int64_t>(graph_.neighbours.size()));
    graph_.sizes.push_back(border_columns);
    // Anywhere among the others.
    const std::vector<double> first(graph.coordinates.begin(),
                                    graph.coordinates.begin() + graph.axes);
    graph_.coordinates.insert(graph_.coordinates.end(), first.begin(), first.end());
  }
  tree_ = sparse::nested_dissection(graph_);
  cost_ = sparse::cost_of(tree_);
}

namespace damped {

std::vector<double> rows_of(const BlockJacobian& jacobian, std::int32_t block,
                            const std::vector<std::int32_t>& rows) {
  const std::int64_t boxes = jacobian.lists->boxes();
  const bool is_border = block == boxes;
  const std::int64_t columns = is_border ? jacobian.border_columns : jacobian.columns;
  const std::vector<double>& matrix =
      is_border ? jacobian.border : jacobian.blocks[static_cast<std::size_t>(block)];
  const std::size_t height = matrix.size() / static_cast<std::size_t>(columns);
  std::vector<std::size_t> places;
  if (is_border) {
    places.assign(rows.begin(), rows.end());
  } else {
    const auto all = jacobian.lists->rows_of(block);
    for (const std::int32_t row : rows) {
      places.push_back(
          static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), row) - all.begin()));
    }
  }
  std::vector<double> result;
  result.reserve(rows.size() * static_cast<std::size_t>(columns));
  for (std::int64_t k = 0; k < columns; ++k) {
    for (const std::size_t place : places) {
      result.push_back(matrix[static_cast<std::size_t>(k) * height + place]);
    }
  }
  return result;
}

/// Block (i, j) of J^T J.
void add_product(const BlockJacobian& jacobian, std::int32_t i, std::int32_t j,
                 MatrixView<double> target) {
  const auto boxes = static_cast<std::int32_t>(jacobian.lists->boxes());
  const auto rows_in = [&](std::int32_t block) {
    std::vector<std::int32_t> rows;
    if (block == boxes) {
      for (std::int64_t row = 0; row < jacobian.lists->rows; ++row) {
        rows.push_back(static_cast<std::int32_t>(row));
      }
    } else {
      const auto all = jacobian.lists->rows_of(block);
      rows.assign(all.begin(), all.end());
    }
    return rows;
  };
  const std::vector<std::int32_t> left = rows_in(i);
  const std::vector<std::int32_t> right = rows_in(j);
  std::vector<std::int32_t> both;
  std::set_intersection(left.begin(), left.end(), right.begin(), right.end(),
                        std::back_inserter(both));
  if (both.empty() || target.empty()) {
    return;
  }
  const std::vector<double> a = rows_of(jacobian, i, both);
  const std::vector<double> b = rows_of(jacobian, j, both);
  const auto shared = static_cast<std::int64_t>(both.size());
  Blas::gemm(Op::conjugate_transpose, Op::none, 1.0,
             MatrixView<const double>(a.data(), shared, target.rows()),
             MatrixView<const double>(b.data(), shared, target.columns()), 1.0, target);
}

std::optional<std::vector<double>> step_of_samples(const BlockJacobian& jacobian, double damping,
                                                   const std::vector<double>& r,
                                                   const sparse::Workers& workers) {
  const std::int64_t rows = jacobian.lists->rows;
  std::vector<double> z(r.size());
  std::uint8_t is_factored = 0;
  const auto solve = [&] {
    std::vector<double> memory(static_cast<std::size_t>(rows * rows), 0.0);
    const MatrixView<double> gram(memory.data(), rows, rows);
    for (std::int64_t box = 0; box < jacobian.lists->boxes(); ++box) {
      const auto which = jacobian.lists->rows_of(box);
      const auto count = static_cast<std::int64_t>(which.size());
      std::vector<double> product(which.size() * which.size());
      Blas::herk(Triangle::lower, Op::none, 1.0,
                 MatrixView<const double>(jacobian.blocks[static_cast<std::size_t>(box)].data(),
                                          count, jacobian.columns),
                 0.0, MatrixView<double>(product.data(), count, count));
      for (std::int64_t j = 0; j < count; ++j) {
        for (std::int64_t i = j; i < count; ++i) {
          gram(which[static_cast<std::size_t>(i)], which[static_cast<std::size_t>(j)]) +=
              product[static_cast<std::size_t>(j * count + i)];
        }
      }
    }
    if (jacobian.border_columns > 0) {
      Blas::herk(Triangle::lower, Op::none, 1.0,
                 MatrixView<const double>(jacobian.border.data(), rows, jacobian.border_columns),
                 1.0, gram);
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      gram(i, i) += damping;
      z[static_cast<std::size_t>(i)] = -r[static_cast<std::size_t>(i)];
    }
    is_factored = Blas::potrf(Triangle::lower, gram) == 0 ? 1 : 0;
    if (is_factored != 0) {
      const MatrixView<double> x(z.data(), rows, 1);
      Blas::trsm(runtime::Side::left, Triangle::lower, Op::none, gram, x);
      Blas::trsm(runtime::Side::left, Triangle::lower, Op::conjugate_transpose, gram, x);
    }
  };
  workers.once(solve, [&](sparse::Packet& packet) {
    packet.value(is_factored);
    packet.vector(z);
  });
  if (is_factored == 0) {
    return std::nullopt;
  }
  return jacobian.multiply_adjoint(z, workers);
}

}  // namespace damped

StepSpace DampedSteps::cheaper() const {
  const auto rows = static_cast<double>(lists_.rows);
  double products = 0.0;
  for (std::int64_t box = 0; box < lists_.boxes(); ++box) {
    const auto of_box = static_cast<double>(lists_.rows_of(box).size());
    products += of_box * of_box * static_cast<double>(graph_.size(box));
  }
  products += rows * rows * static_cast<double>(border_columns_);
  return rows * rows * rows / 3.0 + products < cost_.flops ? StepSpace::samples
                                                           : StepSpace::parameters;
}

double DampedSteps::bytes(StepSpace space) const {
  const auto rows = static_cast<double>(lists_.rows);
  return space == StepSpace::samples ? 8.0 * rows * rows : cost_.peak_bytes;
}

ProcessBoxes DampedSteps::boxes_for(StepSpace space, const sparse::Workers& workers) const {
  if (space == StepSpace::parameters) {
    std::vector<std::int64_t> work;
    for (std::int64_t box = 0; box < lists_.boxes(); ++box) {
      work.push_back(static_cast<std::int64_t>(lists_.rows_of(box).size()));
    }
    return boxes_of_fronts(tree_, work, workers);
  }
  // The first process makes the equations.
  ProcessBoxes boxes = boxes_in_turn(lists_.boxes(), workers.processes);
  for (std::vector<std::int64_t>& keepers : boxes.keepers) {
    if (keepers.front() != 0) {
      keepers.insert(keepers.begin(), 0);
    }
  }
  return boxes;
}

std::optional<std::vector<double>> DampedSteps::step(StepSpace space, const BlockJacobian& jacobian,
                                                     double damping, const std::vector<double>& r,
                                                     const sparse::Workers& workers) const {
  workers.enter("step");
  return space == StepSpace::samples ? damped::step_of_samples(jacobian, damping, r, workers)
                                     : step_of_parameters(jacobian, damping, r, workers);
}

std::optional<std::vector<double>> DampedSteps::step_of_parameters(
    const BlockJacobian& jacobian, double damping, const std::vector<double>& r,
    const sparse::Workers& workers) const {
  sparse::BlockCholesky<double> normal(graph_, tree_);
  const auto failure = normal.factor(
      [&](std::int32_t i, std::int32_t j, MatrixView<double> target) {
        damped::add_product(jacobian, i, j, target);
        if (i == j) {
          for (std::int64_t k = 0; k < target.rows(); ++k) {
            target(k, k) += damping;
          }
        }
      },
      workers);
  if (failure) {
    return std::nullopt;
  }
  std::vector<double> y = jacobian.multiply_adjoint(r, workers);
  for (double& value : y) {
    value = -value;
  }
  normal.solve(MatrixView<double>(y.data(), static_cast<std::int64_t>(y.size()), 1), workers);
  return y;
}

}  // namespace shardsolve::fbpinn
