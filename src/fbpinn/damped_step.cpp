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

std::vector<double> BlockJacobian::norms() const {
  std::vector<double> result;
  const auto add = [&](const std::vector<double>& matrix, std::int64_t count) {
    const std::size_t rows = count == 0 ? 0 : matrix.size() / static_cast<std::size_t>(count);
    for (std::int64_t k = 0; k < count; ++k) {
      const double* const column = matrix.data() + static_cast<std::size_t>(k) * rows;
      double sum = 0.0;
      for (std::size_t i = 0; i < rows; ++i) {
        sum += column[i] * column[i];
      }
      result.push_back(std::sqrt(sum));
    }
  };
  for (const std::vector<double>& block : blocks) {
    add(block, columns);
  }
  add(border, border_columns);
  return result;
}

void BlockJacobian::divide_columns(const std::vector<double>& scales) {
  std::size_t parameter = 0;
  const auto divide = [&](std::vector<double>& matrix, std::int64_t count) {
    const std::size_t rows = count == 0 ? 0 : matrix.size() / static_cast<std::size_t>(count);
    for (std::int64_t k = 0; k < count; ++k, ++parameter) {
      double* const column = matrix.data() + static_cast<std::size_t>(k) * rows;
      for (std::size_t i = 0; i < rows; ++i) {
        column[i] /= scales[parameter];
      }
    }
  };
  for (std::vector<double>& block : blocks) {
    divide(block, columns);
  }
  divide(border, border_columns);
}

std::vector<double> BlockJacobian::multiply_adjoint(const std::vector<double>& r) const {
  std::vector<double> result;
  for (std::int64_t box = 0; box < lists->boxes(); ++box) {
    const auto rows = lists->rows_of(box);
    const double* column = blocks[static_cast<std::size_t>(box)].data();
    for (std::int64_t k = 0; k < columns; ++k, column += rows.size()) {
      double sum = 0.0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        sum += column[i] * r[static_cast<std::size_t>(rows[i])];
      }
      result.push_back(sum);
    }
  }
  for (std::int64_t k = 0; k < border_columns; ++k) {
    double sum = 0.0;
    for (std::size_t i = 0; i < r.size(); ++i) {
      sum += border[static_cast<std::size_t>(k) * r.size() + i] * r[i];
    }
    result.push_back(sum);
  }
  return result;
}

DampedSteps::DampedSteps(const BlockJacobian& jacobian, const sparse::BlockGraph& graph)
    : jacobian_(jacobian), graph_(graph) {
  if (jacobian.border_columns > 0) {
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
    graph_.sizes.push_back(jacobian.border_columns);
    // Anywhere among the others.
    const std::vector<double> first(graph.coordinates.begin(),
                                    graph.coordinates.begin() + graph.axes);
    graph_.coordinates.insert(graph_.coordinates.end(), first.begin(), first.end());
  }
  cost_ = sparse::cost_of(sparse::nested_dissection(graph_));
}

StepSpace DampedSteps::cheaper() const {
  const auto rows = static_cast<double>(jacobian_.lists->rows);
  double products = 0.0;
  for (std::int64_t box = 0; box < jacobian_.lists->boxes(); ++box) {
    const auto of_box = static_cast<double>(jacobian_.lists->rows_of(box).size());
    products += of_box * of_box * static_cast<double>(jacobian_.columns);
  }
  products += rows * rows * static_cast<double>(jacobian_.border_columns);
  return rows * rows * rows / 3.0 + products < cost_.flops ? StepSpace::samples
                                                           : StepSpace::parameters;
}

double DampedSteps::bytes(StepSpace space) const {
  const auto rows = static_cast<double>(jacobian_.lists->rows);
  return space == StepSpace::samples ? 8.0 * rows * rows : cost_.peak_bytes;
}

std::optional<std::vector<double>> DampedSteps::step(StepSpace space, double damping,
                                                     const std::vector<double>& r,
                                                     const sparse::Workers& workers) const {
  workers.enter("step");
  return space == StepSpace::samples ? step_of_samples(damping, r, workers)
                                     : step_of_parameters(damping, r, workers);
}

std::vector<double> DampedSteps::rows_of(std::int32_t block,
                                         const std::vector<std::int32_t>& rows) const {
  const std::int64_t boxes = jacobian_.lists->boxes();
  const bool is_border = block == boxes;
  const std::int64_t columns = is_border ? jacobian_.border_columns : jacobian_.columns;
  const std::vector<double>& matrix =
      is_border ? jacobian_.border : jacobian_.blocks[static_cast<std::size_t>(block)];
  const std::size_t height = matrix.size() / static_cast<std::size_t>(columns);
  std::vector<std::size_t> places;
  if (is_border) {
    places.assign(rows.begin(), rows.end());
  } else {
    const auto all = jacobian_.lists->rows_of(block);
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

void DampedSteps::add_product(std::int32_t i, std::int32_t j, MatrixView<double> target) const {
  const auto boxes = static_cast<std::int32_t>(jacobian_.lists->boxes());
  const auto rows_in = [&](std::int32_t block) {
    std::vector<std::int32_t> rows;
    if (block == boxes) {
      for (std::int64_t row = 0; row < jacobian_.lists->rows; ++row) {
        rows.push_back(static_cast<std::int32_t>(row));
      }
    } else {
      const auto all = jacobian_.lists->rows_of(block);
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
  const std::vector<double> a = rows_of(i, both);
  const std::vector<double> b = rows_of(j, both);
  const auto shared = static_cast<std::int64_t>(both.size());
  damped::Blas::gemm(damped::Op::conjugate_transpose, damped::Op::none, 1.0,
                     MatrixView<const double>(a.data(), shared, target.rows()),
                     MatrixView<const double>(b.data(), shared, target.columns()), 1.0, target);
}

std::optional<std::vector<double>> DampedSteps::step_of_parameters(
    double damping, const std::vector<double>& r, const sparse::Workers& workers) const {
  sparse::BlockCholesky<double> normal(graph_, sparse::nested_dissection(graph_));
  const auto failure = normal.factor(
      [&](std::int32_t i, std::int32_t j, MatrixView<double> target) {
        add_product(i, j, target);
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
  std::vector<double> y = jacobian_.multiply_adjoint(r);
  for (double& value : y) {
    value = -value;
  }
  normal.solve(MatrixView<double>(y.data(), static_cast<std::int64_t>(y.size()), 1), workers);
  return y;
}

std::optional<std::vector<double>> DampedSteps::step_of_samples(
    double damping, const std::vector<double>& r, const sparse::Workers& workers) const {
  const std::int64_t rows = jacobian_.lists->rows;
  std::vector<double> z(r.size());
  std::uint8_t is_factored = 0;
  const auto solve = [&] {
    std::vector<double> memory(static_cast<std::size_t>(rows * rows), 0.0);
    const MatrixView<double> gram(memory.data(), rows, rows);
    for (std::int64_t box = 0; box < jacobian_.lists->boxes(); ++box) {
      const auto which = jacobian_.lists->rows_of(box);
      const auto count = static_cast<std::int64_t>(which.size());
      std::vector<double> product(which.size() * which.size());
      damped::Blas::herk(
          damped::Triangle::lower, damped::Op::none, 1.0,
          MatrixView<const double>(jacobian_.blocks[static_cast<std::size_t>(box)].data(), count,
                                   jacobian_.columns),
          0.0, MatrixView<double>(product.data(), count, count));
      for (std::int64_t j = 0; j < count; ++j) {
        for (std::int64_t i = j; i < count; ++i) {
          gram(which[static_cast<std::size_t>(i)], which[static_cast<std::size_t>(j)]) +=
              product[static_cast<std::size_t>(j * count + i)];
        }
      }
    }
    if (jacobian_.border_columns > 0) {
      damped::Blas::herk(
          damped::Triangle::lower, damped::Op::none, 1.0,
          MatrixView<const double>(jacobian_.border.data(), rows, jacobian_.border_columns), 1.0,
          gram);
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      gram(i, i) += damping;
      z[static_cast<std::size_t>(i)] = -r[static_cast<std::size_t>(i)];
    }
    is_factored = damped::Blas::potrf(damped::Triangle::lower, gram) == 0 ? 1 : 0;
    if (is_factored != 0) {
      const MatrixView<double> x(z.data(), rows, 1);
      damped::Blas::trsm(runtime::Side::left, damped::Triangle::lower, damped::Op::none, gram, x);
      damped::Blas::trsm(runtime::Side::left, damped::Triangle::lower,
                         damped::Op::conjugate_transpose, gram, x);
    }
  };
  workers.once(solve, [&](sparse::Packet& packet) {
    packet.value(is_factored);
    packet.vector(z);
  });
  if (is_factored == 0) {
    return std::nullopt;
  }
  return jacobian_.multiply_adjoint(z);
}

}  // namespace shardsolve::fbpinn
