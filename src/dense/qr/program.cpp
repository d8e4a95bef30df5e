#include "dense/qr/program.hpp"

#include "core/each_dtype.hpp"
#include "dense/qr/factor.hpp"
#include "dense/qr/factor_in_columns.hpp"
#include "dense/qr/first_rank.hpp"
#include "dense/qr/householder.hpp"
#include "dense/qr/powers.hpp"
#include "dense/qr/probes.hpp"
#include "dense/qr/small_solver.hpp"
#include "dense/qr/tall_solve.hpp"
#include "dense/qr/wide_solve.hpp"
#include "dense/shared/right_hand_sides.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace shardsolve::dense::qr {
namespace {

/// One look at this rank's rows of A.
template <Scalar T>
CheckedSides check_rows(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> a) {
  CheckedSides checked = check_right_hand_sides<T>(rank, layout, a);
  if (checked.outcome.location) {
    checked.outcome.location->what = Located::matrix_entry;
  }
  return checked;
}

/// Likewise of B, unless A is refused: the second outcome is that of both.
template <Scalar T>
std::pair<CheckedSides, CheckedSides> check_both(mesh::Rank& rank, const SlabLayout& layout,
                                                 MatrixView<const T> a, MatrixView<const T> b) {
  CheckedSides of_a = check_rows<T>(rank, layout, a);
  CheckedSides of_b = of_a.outcome.ok() ? check_right_hand_sides<T>(rank, layout, b) : of_a;
  return {std::move(of_a), std::move(of_b)};
}

/// R of A, from that of A D, which it takes the place of, on all ranks. Empty if an entry does not
/// fit the dtype.
template <Scalar T>
std::vector<T> unscaled(mesh::Rank& rank, const Factored<T>& factored) {
  using Wide = runtime::WideOf<T>;
  const auto n = static_cast<std::int64_t>(factored.exponents.size());
  const MatrixView<T> there = rank.workspace<T>(n, n);
  if (rank.index() == 0) {
    std::vector<std::int64_t> back(factored.exponents.size());
    std::ranges::transform(factored.exponents, back.begin(), std::negate<>());
    const std::int64_t* const exponents = rank.upload(rank.update(), back.data(), n);
    rank.kernels<runtime::QrKernels<Wide>>().scale_columns(rank.update(), factored.r, exponents,
                                                           factored.r);
    if constexpr (std::is_same_v<T, Wide>) {
      rank.kernels<T>().copy(rank.update(), factored.r, there);
    } else {
      rank.kernels<T>().convert(rank.update(), factored.r, there);
    }
  }
  from_first(rank, there);
  std::vector<T> r = rank.fetch(rank.update(), there.data(), n * n);
  for (std::int64_t j = 0; j < n; ++j) {
    const auto diagonal = r.begin() + j + j * n;
    if (!std::all_of(diagonal - j, diagonal + 1, is_finite<T>)) {
      return {};
    }
    std::fill(diagonal + 1, diagonal + n - j, T{0});  // it may be -0 there
  }
  return r;
}

/// What is factored, and what is solved with it.
template <Scalar T>
class Problem {
 public:
  using Wide = runtime::WideOf<T>;

  Problem(mesh::Rank& rank, const Request& request, const Prepared<T>* prepared,
          LeastSquares<T>& found)
      : rank_(rank), request_(request), prepared_(prepared), found_(found) {}

  /// A = Q R for these rows of [A; damping I], A cut as `layout`, and what the first rank solves
  /// with. False if that is the end: the outcome says why.
  bool factor(const SlabLayout& layout, MatrixView<const T> a, const std::vector<double>& maxima,
              std::int64_t sides) {
    const std::int64_t rows = layout.size() + (request_.damping > 0.0 ? a.columns() : 0);
    Factored<T> factored;
    MatrixView<Wide> uh;
    MatrixView<Wide> vh;
    if (prepared_ == nullptr) {
      q_ = rank_.workspace<T>(a.rows(), a.columns());
      factored = request_.dealt ? factor_in_columns<T>(rank_, layout, a, maxima, q_)
                                : qr::factor<T>(rank_, rows, a, maxima, q_);
    } else {
      q_ = prepared_->q->block(rank_.index());
      factored.r = prepared_->r->block(rank_.index());
      factored.exponents = prepared_->exponents;
    }
    if (prepared_ != nullptr && prepared_->u) {
      const SlabLayout& layout = prepared_->u->layout();
      uh = adjoint_on_first<Wide>(rank_, layout, prepared_->u->block(rank_.index()));
      vh = adjoint_on_first<Wide>(rank_, layout, prepared_->v->block(rank_.index()));
    }
    std::vector<double> said(2);
    if (rank_.index() == 0) {
      solver_ = std::make_unique<SmallSolver<Wide>>(rank_, factored.r, factored.exponents, sides);
      bool found = true;
      if (prepared_ != nullptr) {
        solver_->use_singular_values(prepared_->values, uh, vh);
      } else if (request_.by_singular_values) {
        found = find_values(rows);
      }
      said = {solver_->rcond(), static_cast<double>(found ? found_rank(rows) : -1)};
      if (found && request_.by_singular_values) {
        const std::vector<double>& values = solver_->singular_values();
        solver_->keep(static_cast<std::int64_t>(said[1]));
        said.insert(said.end(), values.begin(), values.end());
      }
    }
    said.resize(2 + (request_.by_singular_values ? static_cast<std::size_t>(a.columns()) : 0));
    said = numbers_from_first(rank_, said);
    found_.outcome.rcond = said[0];
    found_.rank = static_cast<std::int64_t>(said[1]);
    found_.singular_values.assign(said.begin() + 2, said.end());
    if (found_.rank < 0) {
      found_.rank = 0;
      found_.singular_values.clear();
      found_.outcome.status = Status::not_converged;
    } else if (!request_.by_singular_values && found_.rank == 0) {
      found_.outcome.status = Status::rank_deficient;
    }
    if (found_.outcome.status == Status::rank_deficient && request_.damping > 0.0) {
      // sqrt(eps) I makes x unique, if hardly
      found_.rank = a.columns();
      found_.outcome.status = Status::nearly_singular;
    }
    return has_answer();
  }
  bool has_answer() const { return class_of(found_.outcome.status) == StatusClass::answered; }
  MatrixView<const T> q() const { return q_; }
  SmallSolver<Wide>* solver() const { return solver_.get(); }

  /// Adds what was solved for columns from `first` on, `rows_of_x` rows each.
  void add(const Solved<T>& solved) {
    found_.x.insert(found_.x.end(), solved.x.begin(), solved.x.end());
    found_.residuals.insert(found_.residuals.end(), solved.residuals.begin(),
                            solved.residuals.end());
    found_.outcome.backward_error =
        std::max(found_.outcome.backward_error.value_or(0.0), solved.backward_error);
    if (!solved.in_range) {
      found_.outcome.status = Status::overflow;
    } else if (has_answer() && !(solved.backward_error <= given_up_from * unit_roundoff<T>)) {
      found_.outcome.status = Status::inaccurate;  // x is below the range, in part or as a whole
    }
  }

 private:
  /// With vectors where not all count. The condition of R says what to expect.
  bool find_values(std::int64_t rows) {
    const bool expects_all = solver_->rcond() >= request_.rcond;
    return solver_->find_singular_values(!expects_all) &&
           (!expects_all || found_rank(rows) == solver_->size() ||
            solver_->find_singular_values(true));
  }
  /// With singular values how many of them count, as NumPy has it; without all or none, whatever
  /// the scales of columns.
  std::int64_t found_rank(std::int64_t rows) const {
    const std::int64_t n = solver_->size();
    if (request_.by_singular_values) {
      return rank_of(solver_->scaled_values(), request_.rcond);
    }
    const auto most = static_cast<double>(std::max(rows, n));
    return solver_->rcond() >= 2.0 * unit_roundoff<T> * most ? n : 0;
  }

  mesh::Rank& rank_;
  const Request& request_;
  const Prepared<T>* prepared_;
  LeastSquares<T>& found_;
  MatrixView<T> q_;
  std::unique_ptr<SmallSolver<Wide>> solver_;
};

/// What stands below A on the first rank, sqrt(eps) I; nothing elsewhere, or without damping.
std::int64_t rows_below(const mesh::Rank& rank, const Request& request, std::int64_t columns) {
  return request.damping > 0.0 && rank.index() == 0 ? columns : 0;
}

/// The rows of [A; damping I] that are this rank's, in memory of their own where that is more than
/// A.
template <Scalar T>
MatrixView<const T> damped(mesh::Rank& rank, const Request& request, MatrixView<const T> a) {
  const std::int64_t n = a.columns();
  const std::int64_t below = rows_below(rank, request, n);
  if (below == 0) {
    return a;
  }
  const MatrixView<T> all = rank.workspace<T>(a.rows() + below, n);
  const MatrixView<T> diagonal = all.block(a.rows(), 0, below, n);
  const runtime::Kernels<T>& kernels = rank.kernels<T>();
  kernels.copy(rank.update(), a, all.block(0, 0, a.rows(), n));
  kernels.identity(rank.update(), diagonal);
  kernels.scale(rank.update(), static_cast<RealOf<T>>(request.damping), diagonal);
  return all;
}

/// The largest entries of columns of [A; damping I].
std::vector<double> damped_maxima(const Request& request, std::vector<double> maxima) {
  for (double& most : maxima) {
    most = std::max(most, request.damping);
  }
  return maxima;
}

template <Scalar T>
void solve_tall(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> a,
                const std::vector<double>& a_maxima, MatrixView<const T> b,
                const std::vector<double>& b_maxima, const Request& request,
                const Prepared<T>* prepared, LeastSquares<T>& found) {
  const MatrixView<const T> all = damped(rank, request, a);
  const std::int64_t width = std::min(max_sides, std::max<std::int64_t>(b.columns(), 1));
  Problem<T> problem(rank, request, prepared, found);
  if (!problem.factor(layout, all, damped_maxima(request, a_maxima), width)) {
    return;
  }
  TallSolve<T> solve(rank, all, problem.q(), problem.solver(), width, request.refinements);
  for (std::int64_t first = 0; first < b.columns() && problem.has_answer(); first += width) {
    const std::int64_t count = std::min(width, b.columns() - first);
    rank.report("solve", static_cast<double>(first) / static_cast<double>(b.columns()));
    const auto begin = b_maxima.begin() + first;
    problem.add(solve.run(b.columns_from(first, count), {begin, begin + count}));
  }
}

/// Of A^H, cut evenly, and with damping as in solve_tall().
template <Scalar T>
void solve_wide(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> a,
                MatrixView<const T> b, const std::vector<double>& b_maxima, const Request& request,
                const Prepared<T>* prepared, LeastSquares<T>& found) {
  const std::int64_t m = layout.size();
  const std::int64_t below = rows_below(rank, request, m);
  const SlabLayout of_adjoint = SlabLayout::even(a.columns(), rank.count(), 1);
  const MatrixView<T> rows = adjoint_rows<T>(rank, layout, a, of_adjoint, below);
  const MatrixView<T> own = rows.block(0, 0, rows.rows() - below, m);
  const std::vector<double> maxima = column_maxima<T>(rank, own);
  if (below > 0) {
    const MatrixView<T> diagonal = rows.block(own.rows(), 0, below, m);
    rank.kernels<T>().identity(rank.update(), diagonal);
    rank.kernels<T>().scale(rank.update(), static_cast<RealOf<T>>(request.damping), diagonal);
  }
  const std::int64_t width = std::min(max_sides, std::max<std::int64_t>(b.columns(), 1));
  Problem<T> problem(rank, request, prepared, found);
  if (!problem.factor(of_adjoint, rows, damped_maxima(request, maxima), width)) {
    return;
  }
  const double damping = double{static_cast<RealOf<T>>(request.damping)};
  WideSolve<T> solve(rank, layout, of_adjoint, rows, problem.q(), damping, problem.solver(), width,
                     request.refinements);
  for (std::int64_t first = 0; first < b.columns() && problem.has_answer(); first += width) {
    const std::int64_t count = std::min(width, b.columns() - first);
    rank.report("solve", static_cast<double>(first) / static_cast<double>(b.columns()));
    const auto begin = b_maxima.begin() + first;
    problem.add(solve.run(b.columns_from(first, count), {begin, begin + count}));
  }
}

/// This rank's rows of [R; 0] from the whole of R.
template <Scalar T>
void store_rows(mesh::Rank& rank, const SlabLayout& layout, const std::vector<T>& r,
                MatrixView<T> rows) {
  const std::int64_t n = rows.columns();
  const GlobalRange own = layout.segment(rank.index());
  const MatrixView<T> packed = rank.workspace<T>(rows.rows(), n);
  std::vector<T> some(static_cast<std::size_t>(rows.rows() * n));
  for (std::int64_t i = own.begin.value(); i < std::min(own.end.value(), n); ++i) {
    for (std::int64_t j = i; j < n; ++j) {
      some[static_cast<std::size_t>(i - own.begin.value() + j * rows.rows())] =
          r[static_cast<std::size_t>(i + j * n)];
    }
  }
  rank.update().copy(packed.data(), some.data(), some.size() * sizeof(T));
  rank.kernels<T>().copy(rank.update(), packed, rows);
  rank.finish(rank.update());  // from here on `some` may go
}

/// With columns dealt to the ranks.
template <Scalar T>
void factor_dealt(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> a,
                  const std::vector<double>& maxima, const FactorRequest<T>& request,
                  QrFactor<T>& made) {
  const std::vector<std::int64_t> exponents = exponents_to_one(maxima);
  std::unique_ptr<Probes<T>> probes;
  if (request.mode == QrMode::reduced) {
    probes = std::make_unique<Probes<T>>(rank, a, exponents);
  }
  Householder<T> householder(rank, layout, a.columns());
  householder.factor(a, exponents);
  if (probes) {
    probes->take_image(
        [&](MatrixView<const T> g, MatrixView<T> part) { householder.multiply_r(g, part); });
  }
  if (request.r) {
    householder.r_to_rows(*request.r);
  } else {
    made.r = householder.r_to_host();
  }
  if (!householder.r_is_finite()) {
    made.r.clear();
    made.outcome.status = Status::overflow;
  } else if (probes) {
    householder.make_q(a);
    probes->judge_image(a, householder.norm(), made.outcome);
  }
}

/// R on the first rank.
template <Scalar T>
void factor_by_passes(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> a,
                      const std::vector<double>& maxima, const FactorRequest<T>& request,
                      QrFactor<T>& made) {
  const bool with_q = request.mode == QrMode::reduced;
  std::unique_ptr<Probes<T>> probes;
  if (with_q) {
    probes = std::make_unique<Probes<T>>(rank, a, exponents_to_one(maxima));
  }
  const MatrixView<T> q = with_q ? a : rank.workspace<T>(a.rows(), a.columns());
  const Factored<T> factored = factor<T>(rank, layout.size(), a, maxima, q);
  if (probes) {
    probes->judge(q, factored.r, made.outcome);
  }
  made.r = unscaled(rank, factored);
  if (made.r.empty()) {
    made.outcome.status = Status::overflow;
    made.outcome.residual.reset();
    made.outcome.orthogonality.reset();
    return;
  }
  if (request.r) {
    store_rows<T>(rank, layout, made.r, *request.r);
    made.r.clear();
  }
}

}  // namespace

template <Scalar T>
QrFactor<T> factor_rows(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> a,
                        const FactorRequest<T>& request) {
  QrFactor<T> made;
  const CheckedSides checked = check_rows<T>(rank, layout, a);
  made.outcome = checked.outcome;
  if (!made.outcome.ok()) {
    return made;
  }
  if (request.dealt) {
    factor_dealt<T>(rank, layout, a, checked.maxima, request, made);
  } else {
    factor_by_passes<T>(rank, layout, a, checked.maxima, request, made);
  }
  return made;
}

std::int64_t rank_of(const std::vector<double>& singular_values, double rcond) {
  const double least = rcond * singular_values.front();
  return std::count_if(singular_values.begin(), singular_values.end(),
                       [least](double value) { return value > least; });
}

template <Scalar T>
LeastSquares<T> solve_rows(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> a,
                           MatrixView<const T> b, const Request& request,
                           const Prepared<T>* prepared) {
  LeastSquares<T> found;
  const auto [of_a, of_b] = check_both<T>(rank, layout, a, b);
  found.outcome = of_b.outcome;
  if (!found.outcome.ok()) {
    return found;
  }
  if (layout.size() >= a.columns()) {
    solve_tall<T>(rank, layout, a, of_a.maxima, b, of_b.maxima, request, prepared, found);
  } else {
    solve_wide<T>(rank, layout, a, b, of_b.maxima, request, prepared, found);
  }
  if (class_of(found.outcome.status) != StatusClass::answered) {
    found.x.clear();
    found.residuals.clear();
  }
  return found;
}

template <Scalar T>
Outcome prepare_rows(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> a,
                     MatrixView<const T> b, const Request& request, const Places<T>& places,
                     Preparation& prepared) {
  using Wide = WideOf<T>;
  const auto [of_a, of_b] = check_both<T>(rank, layout, a, b);
  if (!of_b.outcome.ok()) {
    return of_b.outcome;
  }
  const std::int64_t n = places.square.size();
  const auto factor_tall = [&](const SlabLayout& of_rows, MatrixView<const T> rows,
                               const std::vector<double>& maxima) {
    return request.dealt ? factor_in_columns<T>(rank, of_rows, rows, maxima, places.q)
                         : factor<T>(rank, of_rows.size(), rows, maxima, places.q);
  };
  Factored<T> made;
  if (layout.size() >= a.columns()) {
    made = factor_tall(layout, a, of_a.maxima);
  } else {
    const SlabLayout of_adjoint = SlabLayout::even(a.columns(), rank.count(), 1);
    const MatrixView<T> rows = adjoint_rows<T>(rank, layout, a, of_adjoint, 0);
    made = factor_tall(of_adjoint, rows, column_maxima<T>(rank, rows));
  }
  const MatrixView<Wide> all = rank.workspace<Wide>(n, n);
  if (rank.index() == 0) {
    rank.kernels<Wide>().copy(rank.update(), made.r, places.r);
    undo_scales<Wide>(rank, made.r, made.exponents, all);
  }
  from_first(rank, all);
  const GlobalRange own = places.square.segment(rank.index());
  rank.kernels<Wide>().copy(rank.update(), all.block(own.begin.value(), 0, own.size(), n),
                            places.rows_of_r);
  const MatrixView<double> diagonal = rank.workspace<double>(n, 1);
  rank.kernels<Wide>().diagonal(rank.update(), all, diagonal.data());
  const std::vector<double> pivots = rank.fetch(rank.update(), diagonal.data(), n);
  const auto [least, most] = std::ranges::minmax(pivots);  // none is negative
  prepared = {std::move(made.exponents), least <= request.rcond * most};
  return {};
}

#define SHARDSOLVE_INSTANTIATE(T)                                                               \
  template QrFactor<T> factor_rows(mesh::Rank&, const SlabLayout&, MatrixView<T>,               \
                                   const FactorRequest<T>&);                                    \
  template LeastSquares<T> solve_rows(mesh::Rank&, const SlabLayout&, MatrixView<const T>,      \
                                      MatrixView<const T>, const Request&, const Prepared<T>*); \
  template Outcome prepare_rows(mesh::Rank&, const SlabLayout&, MatrixView<const T>,            \
                                MatrixView<const T>, const Request&, const Places<T>&,          \
                                Preparation&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::qr
