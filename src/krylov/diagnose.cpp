// Figures of a system, trials of preconditioners, and what follows from them.

#include "core/each_dtype.hpp"
#include "krylov/diagnosis_words.hpp"
#include "krylov/lanczos.hpp"
#include "krylov/linear_operator.hpp"
#include "krylov/matrix_figures.hpp"
#include "krylov/probe_products.hpp"
#include "krylov/spelling.hpp"
#include "krylov/trials.hpp"
#include "mesh/mesh_state.hpp"
#include "runtime/krylov_kernels.hpp"
#include "sparse/csr_checks.hpp"

#include <shardsolve/diagnose.hpp>
#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::krylov {
namespace diagnosing {
namespace {

/// Factors of blocks that are larger than that are not tried.
constexpr double max_numbers = 0x1p27;
constexpr double max_multiplications = 0x1p35;
/// What is less than that many roundings of the largest eigenvalue has no sign.
constexpr double roundings = 1e3;
/// Products of sums that are no further off are linear.
constexpr double roundings_of_products = 1e4;

void require_valid(const DiagnoseOptions& options, double rtol) {
  if (!(rtol > 0.0) || !(rtol < 1.0) || options.lanczos_steps < 1 || options.trial_iterations < 1 ||
      options.max_iterations < options.trial_iterations) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{}, {}, {}, {} given; a tolerance above 0 and below 1, counts of at "
                            "least 1, and max_iterations not less than trial_iterations are "
                            "accepted",
                            option("rtol", rtol), option("lanczos_steps", options.lanczos_steps),
                            option("trial_iterations", options.trial_iterations),
                            option("max_iterations", options.max_iterations)));
  }
}

/// Bandwidth of the largest of some blocks.
template <Scalar T>
std::int64_t bandwidth_in(const CsrMatrix<T>& a, const std::vector<std::int64_t>& blocks) {
  std::int64_t bandwidth = 0;
  for (std::size_t b = 0; b + 1 < blocks.size(); ++b) {
    for (std::int64_t row = blocks[b]; row < blocks[b + 1]; ++row) {
      for (auto k = static_cast<std::size_t>(a.row_pointers[static_cast<std::size_t>(row)]);
           k < static_cast<std::size_t>(a.row_pointers[static_cast<std::size_t>(row) + 1]); ++k) {
        const std::int64_t column = a.column_indices[k];
        if (blocks[b] <= column && column < blocks[b + 1] && a.values[k] != T{0}) {
          bandwidth = std::max(bandwidth, std::abs(row - column));
        }
      }
    }
  }
  return bandwidth;
}

/// Exact factors of blocks of A; nothing if they would be too large. `kept`: numbers of a row, over
/// the bandwidth.
template <Scalar T>
std::optional<Candidate<T>> exact_blocks(const CsrMatrix<T>& a, std::int64_t count, double kept) {
  std::vector<std::int64_t> blocks = blocks_of(a, count);
  const auto n = static_cast<double>(a.rows);
  const auto bandwidth = static_cast<double>(bandwidth_in(a, blocks));
  const double numbers = n * kept * bandwidth + n;
  if (numbers > max_numbers || numbers * bandwidth > max_multiplications) {
    return std::nullopt;
  }
  return Candidate<T>{fmt::format("{} with {} block{}", preconditioner_name("block_jacobi"), count,
                                  count == 1 ? "" : "s"),
                      Operator<T>::block_jacobi(blocks, a), numbers, blocks};
}

/// Exact factors of all of A: what is left where nothing else converges, or the diagonal has a
/// zero. They need not be Hermitian or positive definite.
template <Scalar T>
void add_exact_factors(const CsrMatrix<T>& a, std::vector<Candidate<T>>& all) {
  constexpr double of_lu = 4.0;
  if (auto one = exact_blocks(a, 1, of_lu)) {
    one->method = Method::fgmres;
    all.push_back(std::move(*one));
  }
}

/// What is tried for A, the plain one first.
template <Scalar T>
std::vector<Candidate<T>> candidates_for(const CsrMatrix<T>& a, const Diagnosis& diagnosis,
                                         const DiagnoseOptions& options) {
  const MatrixFigures& figures = *diagnosis.figures;
  const bool needs_positive = diagnosis.is_hermitian;
  const bool has_diagonal = figures.zero_diagonal.count == 0;
  const bool is_positive = has_diagonal && figures.negative_diagonal.count == 0;
  const auto n = static_cast<double>(a.rows);
  std::vector<Candidate<T>> all;
  if (needs_positive ? is_positive : has_diagonal) {
    all.push_back({"jacobi", Operator<T>::jacobi(a), n});
  } else {
    all.push_back({"no preconditioner", std::nullopt, 0.0});
  }
  for (const std::int64_t count : {4, 16}) {
    if (a.rows < 8 * count) {
      continue;
    }
    if (auto exact = exact_blocks(a, count, needs_positive ? 2.0 : 4.0)) {
      all.push_back(std::move(*exact));
    }
    if (options.incomplete_factors && count == 4 && (needs_positive ? is_positive : has_diagonal)) {
      const std::vector<std::int64_t> blocks = blocks_of(a, count);
      all.push_back({fmt::format("{} in {} blocks",
                                 preconditioner_name(needs_positive ? "incomplete_cholesky"
                                                                    : "incomplete_lu"),
                                 count),
                     needs_positive ? Operator<T>::incomplete_cholesky(blocks, a)
                                    : Operator<T>::incomplete_lu(blocks, a),
                     static_cast<double>(figures.entries), blocks});
    }
  }
  if (!has_diagonal) {
    add_exact_factors(a, all);
  }
  return all;
}

/// Signs and sizes of eigenvalues of a Hermitian A.
template <Scalar T>
void look_at_spectrum(const CsrMatrix<T>& a, std::int64_t steps, Diagnosis& diagnosis) {
  const Tridiagonal ritz = lanczos(a, {}, steps);
  if (ritz.size() == 0) {
    return;
  }
  diagnosis.least_eigenvalue = eigenvalue(ritz, 0);
  diagnosis.largest_eigenvalue = eigenvalue(ritz, ritz.size() - 1);
  const double size =
      std::max(std::abs(diagnosis.least_eigenvalue), std::abs(diagnosis.largest_eigenvalue));
  const double zero = roundings * unit_roundoff<T> * size;
  const bool has_negative = diagnosis.least_eigenvalue < -zero;
  const bool has_positive = diagnosis.largest_eigenvalue > zero;
  diagnosis.definiteness = has_negative && has_positive ? Definiteness::indefinite
                           : has_negative               ? Definiteness::negative
                           : has_positive               ? Definiteness::positive
                                                        : Definiteness::unknown;
}

void take_condition(Diagnosis& diagnosis, double largest, double inverse, double roundoff) {
  if (largest > 0.0 && inverse > 0.0) {
    diagnosis.condition = std::max({1.0, diagnosis.condition, largest * inverse});
    diagnosis.attainable = roundoff * diagnosis.condition;
  }
}

Method method_for(const Diagnosis& diagnosis) {
  const bool is_positive = diagnosis.definiteness == Definiteness::positive ||
                           diagnosis.definiteness == Definiteness::positive_semidefinite;
  return !diagnosis.is_hermitian ? Method::bicgstab : is_positive ? Method::cg : Method::minres;
}

void note_singular(Diagnosis& diagnosis) {
  diagnosis.is_singular = true;
  if (diagnosis.definiteness == Definiteness::positive) {
    diagnosis.definiteness = Definiteness::positive_semidefinite;
  } else if (diagnosis.definiteness == Definiteness::negative) {
    diagnosis.definiteness = Definiteness::negative_semidefinite;
  }
}

/// One rank's share of -A.
template <Scalar T>
class Negative final : public LinearOperator<T> {
 public:
  Negative(std::unique_ptr<LinearOperator<T>> a, std::int64_t rows)
      : a_(std::move(a)), rows_(rows) {}

  void apply(mesh::Rank& rank, runtime::Queue& queue, const T* x, T* y,
             const std::int32_t* skip) override {
    a_->apply(rank, queue, x, y, skip);
    rank.kernels<runtime::KrylovKernels<T>>().combine(queue, RealOf<T>{0}, {x, rows_, 1},
                                                      RealOf<T>{-1}, {y, rows_, 1}, skip);
  }

 private:
  std::unique_ptr<LinearOperator<T>> a_;
  std::int64_t rows_;
};

template <Scalar T>
Operator<T> negative(const Operator<T>& a) {
  return Operator<T>([make = a.make()](mesh::Rank& rank, const SlabLayout& layout) {
    return std::make_unique<Negative<T>>(make(rank, layout), layout.width(rank.index()));
  });
}

/// Before they are made with another b.
void forget_trials(Diagnosis& diagnosis) {
  diagnosis.trials.clear();
  diagnosis.best = -1;
}

bool has_singular_trial(const Diagnosis& diagnosis) {
  return std::any_of(diagnosis.trials.begin(), diagnosis.trials.end(),
                     [](const Trial& trial) { return trial.status == Status::singular_operator; });
}

/// The trial that converged with the least work.
void choose_best(Diagnosis& diagnosis) {
  const auto cost = [](const Trial& trial) {
    return trial.work * static_cast<double>(std::max<std::int64_t>(trial.iterations, 1));
  };
  for (std::size_t i = 0; i < diagnosis.trials.size(); ++i) {
    const Trial& trial = diagnosis.trials[i];
    if (trial.is_converged() &&
        (diagnosis.best < 0 ||
         cost(trial) < cost(diagnosis.trials[static_cast<std::size_t>(diagnosis.best)]))) {
      diagnosis.best = static_cast<std::int64_t>(i);
    }
  }
}

/// Tries candidates that were not tried yet.
template <Scalar T>
void try_all(Trials<T>& trials, const std::vector<Candidate<T>>& candidates,
             const DiagnoseOptions& options, Diagnosis& diagnosis) {
  for (std::size_t i = diagnosis.trials.size(); i < candidates.size(); ++i) {
    diagnosis.trials.push_back(
        trials.run(candidates[i], diagnosis.method, options.trial_iterations));
  }
  choose_best(diagnosis);
}

/// How many iterations the best trial saves.
template <Scalar T>
void take_gain(Trials<T>& trials, const std::vector<Candidate<T>>& candidates,
               const DiagnoseOptions& options, Diagnosis& diagnosis) {
  if (diagnosis.best < 0) {
    return;
  }
  // The plain one has longer, so that the gain is a ratio of counts and not of bounds.
  const auto best_iterations = [&] {
    return std::max<std::int64_t>(
        diagnosis.trials[static_cast<std::size_t>(diagnosis.best)].iterations, 1);
  };
  Trial& plain = diagnosis.trials.front();
  const std::int64_t longer = std::min(options.max_iterations, 100 * best_iterations());
  if (plain.status == Status::max_iterations && longer > options.trial_iterations) {
    plain = trials.run(candidates.front(), diagnosis.method, longer);
    diagnosis.best = -1;
    choose_best(diagnosis);
  }
  diagnosis.gain = static_cast<double>(plain.iterations) / static_cast<double>(best_iterations());
}

}  // namespace
}  // namespace diagnosing

template <Scalar T>
Diagnosis diagnose(Mesh& mesh, const CsrMatrix<T>& a, const DiagnoseOptions& options,
                   const RunOptions& run) {
  using namespace diagnosing;
  const double rtol = options.rtol.value_or(default_rtol(dtype_of<T>));
  require_valid(options, rtol);
  sparse::require_square_in_order(a, "diagnose");
  Diagnosis diagnosis{.rows = a.rows, .rtol = rtol, .figures = figures_of(a)};
  const MatrixFigures& figures = *diagnosis.figures;
  const bool is_solvable = a.rows > 0 && !figures.nonfinite && figures.empty_rows.count == 0 &&
                           figures.empty_columns.count == 0;
  diagnosis.is_hermitian =
      !figures.nonfinite && figures.asymmetry_without_identity_rows <= 1e4 * unit_roundoff<T>;
  if (is_solvable) {
    const bool is_to_be_cleared = diagnosis.is_hermitian && figures.identity_rows.count > 0;
    const CsrMatrix<T> looked_at = is_to_be_cleared ? without_identity_columns(a) : a;
    if (diagnosis.is_hermitian) {
      look_at_spectrum(looked_at, options.lanczos_steps, diagnosis);
    }
    if (figures.null_parts.count > 0) {
      note_singular(diagnosis);
    }
    diagnosis.method = method_for(diagnosis);
    const SlabLayout layout = row_slabs(a.rows, mesh.ranks());
    const SparseMatrix<T> on_mesh(mesh, looked_at, layout, run);
    Trials<T> trials(mesh, Operator<T>::sparse(on_mesh), layout,
                     static_cast<double>(figures.entries), rtol, run);
    std::vector<Candidate<T>> candidates = candidates_for(looked_at, diagnosis, options);
    if (diagnosis.is_singular) {
      trials.set_b_in_range(looked_at);
    }
    try_all(trials, candidates, options, diagnosis);
    if (!diagnosis.is_singular && has_singular_trial(diagnosis)) {
      note_singular(diagnosis);
      trials.set_b_in_range(looked_at);
      forget_trials(diagnosis);
      try_all(trials, candidates, options, diagnosis);
    }
    if (diagnosis.best < 0 && figures.zero_diagonal.count == 0) {
      add_exact_factors(looked_at, candidates);
      try_all(trials, candidates, options, diagnosis);
    }
    take_gain(trials, candidates, options, diagnosis);
    if (diagnosis.method == Method::cg && !diagnosis.is_singular) {
      const double inverse =
          diagnosis.best < 0
              ? 0.0
              : trials.inverse_norm(candidates[static_cast<std::size_t>(diagnosis.best)],
                                    options.trial_iterations);
      if (inverse > 0.0) {
        diagnosis.least_eigenvalue = std::min(diagnosis.least_eigenvalue, 1.0 / inverse);
      }
      if (diagnosis.least_eigenvalue > 0.0) {
        take_condition(diagnosis, diagnosis.largest_eigenvalue, 1.0 / diagnosis.least_eigenvalue,
                       unit_roundoff<T>);
      }
    }
    if (diagnosis.best >= 0) {
      diagnosis.method = diagnosis.trials[static_cast<std::size_t>(diagnosis.best)].method;
    }
  }
  add_words(diagnosis);
  return diagnosis;
}

template <Scalar T>
Diagnosis diagnose(Mesh& mesh, const Operator<T>& a, const SlabLayout& layout,
                   const Operator<T>* preconditioner, const DiagnoseOptions& options,
                   const RunOptions& run) {
  using namespace diagnosing;
  const double rtol = options.rtol.value_or(default_rtol(dtype_of<T>));
  require_valid(options, rtol);
  Diagnosis diagnosis{.rows = layout.size(), .rtol = rtol};
  diagnosis.products = probe_products(mesh, a, layout, run);
  const bool is_linear =
      diagnosis.products->nonlinearity <= roundings_of_products * unit_roundoff<T>;
  if (diagnosis.rows > 0 && diagnosis.products->is_finite && is_linear) {
    Trials<T> trials(mesh, a, layout, 1.0, rtol, run);
    std::vector<Candidate<T>> candidates{{"no preconditioner", std::nullopt, 0.0}};
    if (preconditioner != nullptr) {
      candidates.push_back({"the preconditioner that was given", *preconditioner, 1.0});
    }
    if (diagnosis.products->constants <= roundings_of_products * unit_roundoff<T>) {
      trials.take_mean_from_b();
      diagnosis.is_singular = true;
    }
    // cg says by its status whether A is Hermitian and positive definite.
    const Trial probe = trials.run(candidates.front(), Method::cg, options.lanczos_steps);
    diagnosis.is_hermitian = probe.status != Status::nonsymmetric_operator;
    if (diagnosis.is_hermitian && probe.status != Status::indefinite_operator) {
      diagnosis.definiteness = Definiteness::positive;
    } else if (diagnosis.is_hermitian) {
      Trials<T> of_negative(mesh, negative(a), layout, 1.0, rtol, run);
      const Trial other = of_negative.run(candidates.front(), Method::cg, options.lanczos_steps);
      diagnosis.definiteness = other.status == Status::indefinite_operator
                                   ? Definiteness::indefinite
                                   : Definiteness::negative;
    }
    if (diagnosis.is_singular || probe.status == Status::singular_operator) {
      note_singular(diagnosis);
    }
    diagnosis.method = method_for(diagnosis);
    try_all(trials, candidates, options, diagnosis);
    take_gain(trials, candidates, options, diagnosis);
    if (diagnosis.method == Method::cg && !diagnosis.is_singular) {
      diagnosis.condition = diagnosis.trials.front().condition;
      diagnosis.attainable = unit_roundoff<T> * diagnosis.condition;
    }
  }
  add_words(diagnosis);
  return diagnosis;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                               \
  template Diagnosis diagnose(Mesh&, const CsrMatrix<T>&, const DiagnoseOptions&,               \
                              const RunOptions&);                                               \
  template Diagnosis diagnose(Mesh&, const Operator<T>&, const SlabLayout&, const Operator<T>*, \
                              const DiagnoseOptions&, const RunOptions&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
