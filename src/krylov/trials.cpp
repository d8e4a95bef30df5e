#include "krylov/trials.hpp"

#include "core/each_dtype.hpp"
#include "krylov/lanczos.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/rank.hpp"
#include "programs/gather.hpp"
#include "programs/memory_of_call.hpp"
#include "runtime/krylov/program.hpp"

#include <shardsolve/device_memory.hpp>
#include <shardsolve/error.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <memory>
#include <utility>

namespace shardsolve::krylov {
namespace trying {
namespace {

template <Scalar T>
T random_entry(std::int64_t row) {
  const auto real = static_cast<RealOf<T>>(random_number(8, row));
  if constexpr (is_complex<T>) {
    return T{real, static_cast<RealOf<T>>(random_number(9, row))};
  } else {
    return real;
  }
}

}  // namespace
}  // namespace trying

template <Scalar T>
Trials<T>::Trials(Mesh& mesh, const Operator<T>& a, const SlabLayout& layout, double entries,
                  double rtol, const RunOptions& run)
    : mesh_(mesh),
      a_(a),
      b_(programs::make_rows_together<T>(mesh, layout, 1, run)),
      x_(programs::make_rows_together<T>(mesh, layout, 1, run)),
      entries_(entries),
      rtol_(rtol),
      run_(run) {
  set_b(trying::random_entry<T>);
}

template <Scalar T>
void Trials<T>::set_b_in_range(const CsrMatrix<T>& a) {
  set_b([&](std::int64_t row) {
    T sum{};
    for (auto k = static_cast<std::size_t>(a.row_pointers[static_cast<std::size_t>(row)]);
         k < static_cast<std::size_t>(a.row_pointers[static_cast<std::size_t>(row) + 1]); ++k) {
      sum += a.values[k] * trying::random_entry<T>(a.column_indices[k]);
    }
    return sum;
  });
}

template <Scalar T>
void Trials<T>::take_mean_from_b() {
  T sum{};
  for (std::int64_t row = 0; row < b_.layout().size(); ++row) {
    sum += trying::random_entry<T>(row);
  }
  const T mean = sum / static_cast<RealOf<T>>(b_.layout().size());
  set_b([mean](std::int64_t row) { return trying::random_entry<T>(row) - mean; });
}

template <Scalar T>
template <class EntryOfRow>
void Trials<T>::set_b(const EntryOfRow& entry_of_row) {
  const SlabLayout& layout = b_.layout();
  const RightHandSides<T> entries(layout, 1);
  for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
    for (std::int64_t i = 0; i < layout.width(rank); ++i) {
      entries.block(rank)(i, 0) = entry_of_row(layout.segment(rank).begin.value() + i);
    }
  }
  copy(mesh_, entries, b_);
}

template <Scalar T>
Result Trials<T>::solve(const Candidate<T>& candidate, const Options& options) {
  return candidate.preconditioner
             ? krylov::solve(mesh_, a_, *candidate.preconditioner, b_, x_, options, run_)
             : krylov::solve(mesh_, a_, b_, x_, options, run_);
}

template <Scalar T>
Trial Trials<T>::run(const Candidate<T>& candidate, Method usual, std::int64_t max_iterations) {
  const Method method = candidate.method.value_or(usual);
  const Result result = solve(candidate, {.method = method,
                                          .rtol = rtol_,
                                          .max_iterations = max_iterations,
                                          .log = method == Method::cg});
  Trial trial{.name = candidate.name,
              .method = method,
              .status = result.status,
              .iterations = result.iterations,
              .residual = result.residual,
              .condition = method == Method::cg ? condition_of(result.log) : 0.0,
              .message = result.message,
              .blocks = candidate.blocks};
  const double products = method == Method::bicgstab ? 2.0 : 1.0;
  trial.work = products * (entries_ + candidate.numbers);
  trial.predicted_iterations = predicted_iterations(trial.condition, rtol_);
  return trial;
}

/// All of x, in every process.
template <Scalar T>
std::vector<T> Trials<T>::whole_x() {
  const auto whole = std::make_shared<std::vector<T>>();
  mesh_.state().run(run_, [whole, x = x_](mesh::Rank& rank) {
    const MatrixView<T> own = x.block(rank.index());
    std::vector<T> all =
        programs::gather_rows(rank, x.layout(), rank.fetch(rank.update(), own.data(), own.rows()));
    if (rank.leads()) {
      *whole = std::move(all);
    }
  });
  return *whole;
}

template <Scalar T>
double Trials<T>::inverse_norm(const Candidate<T>& candidate, std::int64_t max_iterations) {
  constexpr int steps = 5;  // the first is for a vector of norm 1
  double norm = 0.0;
  for (int step = 0; step < steps; ++step) {
    const Result result =
        solve(candidate, {.method = Method::cg, .rtol = rtol_, .max_iterations = max_iterations});
    if (!is_converged(result.status)) {
      return 0.0;
    }
    // b = x / ||x||
    const std::vector<T> x = whole_x();
    double size = 0.0;
    for (const T& value : x) {
      size = std::hypot(size, static_cast<double>(std::abs(value)));
    }
    if (step > 0) {
      norm = std::max(norm, size);
    }
    set_b([&](std::int64_t row) {
      return x[static_cast<std::size_t>(row)] / static_cast<RealOf<T>>(size);
    });
  }
  return norm;
}

std::int64_t predicted_iterations(double condition, double rtol) {
  const double iterations = 0.5 * std::sqrt(condition) * std::log(2.0 / rtol);
  return condition > 0.0 && iterations < 1e15 ? static_cast<std::int64_t>(std::ceil(iterations))
                                              : 0;
}

double condition_of(const std::vector<LogRecord>& log) {
  // T = L D L^T, D = 1 / alpha, L bidiagonal with sqrt(beta); Y. Saad (2003), section 6.7.3.
  Tridiagonal ritz;
  double alpha_before = 0.0;
  double rho_before = 0.0;
  for (const LogRecord& record : log) {
    if (record.event == Event::residual_recomputed) {
      continue;
    }
    const double alpha = record.alpha.real();
    const double rho = record.rho.real();
    if (record.event != Event::none || !(alpha > 0.0) || !(rho > 0.0)) {
      break;
    }
    double diagonal = 1.0 / alpha;
    if (ritz.size() > 0) {
      const double beta = rho / rho_before;
      diagonal += beta / alpha_before;
      ritz.off_diagonal.push_back(std::sqrt(beta) / alpha_before);
    }
    ritz.diagonal.push_back(diagonal);
    alpha_before = alpha;
    rho_before = rho;
  }
  if (ritz.size() == 0) {
    return 0.0;
  }
  const double least = eigenvalue(ritz, 0);
  const double largest = eigenvalue(ritz, ritz.size() - 1);
  return least > 0.0 && std::isfinite(largest) ? std::max(1.0, largest / least) : 0.0;
}

#define SHARDSOLVE_INSTANTIATE(T) template class Trials<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
