// x = R^-1 Q^H b, then up to twice, while the backward error is larger than rounding explains:
//
//   r = b - A x        in twice the precision, each rank its rows
//   Q^H r, A^H r       summed over the ranks
//   x += R^-1 Q^H r    on the first rank; kept where the backward error falls
//
// b is scaled to entries of size 1, and x for products with A to what neither overflows nor drowns.

#include "dense/qr/tall_solve.hpp"

#include "core/each_dtype.hpp"
#include "dense/qr/column_norms.hpp"
#include "dense/qr/powers.hpp"
#include "runtime/lu_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <memory>
#include <utility>

namespace shardsolve::dense::qr {

using runtime::Op;

/// What the first rank knows of some columns of X. Values are of D^-1 x for the scaled b.
template <Scalar T>
class TallSolve<T>::Search {
 public:
  Search(const SmallSolver<Wide>& solver, std::vector<std::int64_t> of_b, const Values& projected)
      : solver_(solver),
        n_(static_cast<std::size_t>(solver.size())),
        of_b_(std::move(of_b)),
        errors_(of_b_.size(), std::numeric_limits<double>::infinity()),
        residuals_(of_b_.size()),
        settled_(of_b_.size(), false),
        best_(projected.size()),
        given_(projected.size()),
        change_(solver.solve(projected)) {
    propose(change_);
  }

  bool in_range() const { return in_range_; }
  /// Whether there is an x, and its residual is a number.
  bool is_answer() const { return std::isfinite(largest_error()); }
  bool is_done() const {
    return std::all_of(settled_.begin(), settled_.end(), [](bool one) { return one; });
  }
  /// What is multiplied with A, and its exponents beside those of b.
  const std::vector<T>& factor() const { return factor_; }
  const std::vector<std::int64_t>& exponents() const { return exponents_; }

  /// `r_norms`, `projected` = Q^H r, `adjoint` = A^H r: of the residual of factor(). `own`: norms
  /// of the rows that count as residuals.
  void judge(const std::vector<double>& r_norms, const std::vector<double>& own, Values projected,
             const Values& adjoint) {
    for (std::size_t at = 0; at < projected.size(); ++at) {
      projected[at] = times_power<Wide>(projected[at], -exponents_[at / n_]);
    }
    const std::vector<double> kept = solver_.kept_norms(projected);
    for (std::size_t j = 0; j < of_b_.size(); ++j) {
      const double error =
          backward_error(solver_.norm(), x_norm(j), std::ldexp(r_norms[j], back(j)), kept[j],
                         std::ldexp(adjoint_norm(adjoint, j), back(j)));
      const bool is_first = std::isinf(errors_[j]);
      const bool helps = !settled_[j] && (is_first || error < errors_[j]);
      settled_[j] = !helps || !(error > refined_from * unit_roundoff<T>);
      if (helps) {
        errors_[j] = error;
        residuals_[j] = std::ldexp(own[j], back(j) - static_cast<int>(of_b_[j]));
        copy_column(tried_, best_, j);
        copy_column(tried_given_, given_, j);
      }
    }
    change_ = solver_.solve(std::move(projected));
  }
  /// Another step, of the columns that are not settled.
  void go_on() {
    Values next = best_;
    for (std::size_t at = 0; at < next.size(); ++at) {
      if (!settled_[at / n_]) {
        next[at] += change_[at];
      }
    }
    propose(next);
    // a step that leaves the range is none
    for (std::size_t j = 0; !in_range_ && j < of_b_.size(); ++j) {
      copy_column(best_, next, j);
      settled_[j] = true;
    }
    if (!in_range_) {
      propose(next);
    }
  }

  const std::vector<T>& x() const { return given_; }
  const std::vector<double>& residuals() const { return residuals_; }
  double largest_error() const {
    double most = 0.0;
    for (const double error : errors_) {
      most = programs::largest(most, error);
    }
    return most;
  }

 private:
  int back(std::size_t column) const { return static_cast<int>(-exponents_[column]); }

  template <class V>
  void copy_column(const std::vector<V>& from, std::vector<V>& to, std::size_t column) const {
    const auto first = static_cast<std::ptrdiff_t>(column * n_);
    std::copy_n(from.begin() + first, n_, to.begin() + first);
  }

  /// As the caller gets it; what is judged is that, not what it was rounded from.
  void propose(const Values& scaled) {
    tried_.resize(scaled.size());
    tried_given_.resize(scaled.size());
    factor_.resize(scaled.size());
    exponents_.assign(of_b_.size(), 0);
    in_range_ = true;
    for (std::size_t j = 0; j < of_b_.size(); ++j) {
      for (std::size_t i = 0; i < n_; ++i) {
        const std::size_t at = i + j * n_;
        const std::int64_t exponent = solver_.exponents()[i];
        tried_given_[at] = times_power<T>(scaled[at], exponent - of_b_[j]);
        tried_[at] = times_power<Wide>(tried_given_[at], of_b_[j] - exponent);
        in_range_ = in_range_ && is_finite(tried_given_[at]) && is_finite(tried_[at]);
      }
      choose_exponent(j);
    }
  }
  /// x times this power of two neither overflows nor drowns, nor do products with A.
  void choose_exponent(std::size_t column) {
    using Limits = std::numeric_limits<RealOf<T>>;
    constexpr std::int64_t highest = Limits::max_exponent - Limits::digits;
    constexpr std::int64_t lowest = Limits::min_exponent + 2 * Limits::digits;
    std::int64_t most = std::numeric_limits<std::int64_t>::min();
    for (std::size_t i = 0; i < n_; ++i) {
      if (const double size = size_of(tried_[i + column * n_]); size > 0.0 && std::isfinite(size)) {
        most = std::max(most, std::ilogb(size) + solver_.exponents()[i]);
      }
    }
    if (most != std::numeric_limits<std::int64_t>::min()) {
      exponents_[column] = std::clamp(most, lowest, highest) - most;
    }
    for (std::size_t i = 0; i < n_; ++i) {
      const std::size_t at = i + column * n_;
      factor_[at] = times_power<T>(tried_[at], solver_.exponents()[i] + exponents_[column]);
    }
  }
  double x_norm(std::size_t column) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < n_; ++i) {
      sum += std::norm(tried_[i + column * n_]);
    }
    return std::sqrt(sum);
  }
  /// Of D A^H r.
  double adjoint_norm(const Values& adjoint, std::size_t column) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < n_; ++i) {
      sum += std::norm(times_power<Wide>(adjoint[i + column * n_], solver_.exponents()[i]));
    }
    return std::sqrt(sum);
  }

  const SmallSolver<Wide>& solver_;
  std::size_t n_;
  std::vector<std::int64_t> of_b_;
  std::vector<double> errors_;
  std::vector<double> residuals_;
  std::vector<bool> settled_;
  Values best_;
  std::vector<T> given_;  // the best, as the caller gets it
  Values change_;
  Values tried_;
  std::vector<T> tried_given_;
  std::vector<T> factor_;
  std::vector<std::int64_t> exponents_;
  bool in_range_ = true;
};

template <Scalar T>
TallSolve<T>::TallSolve(mesh::Rank& rank, MatrixView<const T> a, MatrixView<const T> q,
                        SmallSolver<Wide>* first, std::int64_t columns, int refinements)
    : rank_(rank),
      kernels_(rank.kernels<runtime::QrKernels<T>>()),
      a_(a),
      q_(q),
      first_(first),
      refinements_(refinements),
      sums_(rank, a.columns(), 2 * columns),
      x_(rank.workspace<T>(a.columns(), columns)),
      b_(rank.workspace<T>(a.rows(), columns)),
      r_(rank.workspace<T>(a.rows(), columns)),
      product_(rank.workspace<T>(a.rows(), 2 * columns)),
      sizes_(rank.workspace<double>(a.rows(), columns)) {}

template <Scalar T>
std::int64_t TallSolve<T>::bytes(std::int64_t ranks, std::int64_t rows, std::int64_t unknowns,
                                 std::int64_t columns, Dtype dtype) {
  return columns * (element_size(dtype) * (4 * rows + unknowns) + 8 * rows) +
         Sums<Wide>::bytes(ranks, unknowns, 2 * columns);
}

/// Tells all ranks what the first one wants to know the residual of. False if nothing: it is done,
/// or has left the range.
template <Scalar T>
bool TallSolve<T>::agree(Search* search, std::int64_t columns) {
  std::vector<std::int64_t> words(static_cast<std::size_t>(columns) + 1);
  if (search != nullptr) {
    std::copy(search->exponents().begin(), search->exponents().end(), words.begin());
    words.back() = search->in_range() && !search->is_done() ? 1 : 0;
  }
  words = words_from_first(rank_, std::move(words));
  const bool goes_on = words.back() != 0;
  words.pop_back();
  exponents_ = std::move(words);
  if (goes_on) {
    const MatrixView<T> x = x_.columns_from(0, columns);
    if (search != nullptr) {
      rank_.update().copy(x.data(), search->factor().data(), search->factor().size() * sizeof(T));
      rank_.update().synchronize();  // from here on the search may go
    }
    from_first(rank_, x);
  }
  return goes_on;
}

/// r = b - A x.
template <Scalar T>
void TallSolve<T>::residual(std::int64_t columns) {
  const MatrixView<T> r = r_.columns_from(0, columns);
  const MatrixView<T> product = product_.columns_from(0, 2 * columns);
  const runtime::Kernels<T>& base = rank_.kernels<T>();
  const std::int64_t* const exponents = rank_.upload(rank_.update(), exponents_.data(), columns);
  kernels_.scale_columns(rank_.update(), b_.columns_from(0, columns), exponents, r);
  rank_.kernels<runtime::LuKernels<T>>().multiply(rank_.update(), Op::none, a_,
                                                  x_.columns_from(0, columns), product,
                                                  sizes_.columns_from(0, columns));
  base.add(rank_.update(), T{-1}, product.columns_from(0, columns), r);
  base.add(rank_.update(), T{-1}, product.columns_from(columns, columns), r);
}

template <Scalar T>
Solved<T> TallSolve<T>::run(MatrixView<const T> b, const std::vector<double>& maxima) {
  const std::int64_t k = b.columns();
  const std::int64_t n = a_.columns();
  const MatrixView<T> sides = b_.columns_from(0, k);
  const MatrixView<T> r = r_.columns_from(0, k);
  const std::vector<std::int64_t> of_b = exponents_to_one(maxima);
  rank_.kernels<T>().fill(rank_.update(), T{0}, sides);
  kernels_.scale_columns(rank_.update(), b, rank_.upload(rank_.update(), of_b.data(), k),
                         sides.block(0, 0, b.rows(), k));
  kernels_.adjoint_product(rank_.update(), q_, sides, sums_.share(k));
  sums_.to_first(k);
  std::unique_ptr<Search> search;
  if (first_ != nullptr) {
    search = std::make_unique<Search>(*first_, of_b,
                                      rank_.fetch(rank_.update(), sums_.share(k).data(), n * k));
  }
  for (int step = 0; step <= refinements_ && agree(search.get(), k); ++step) {
    residual(k);
    const std::vector<double> own = column_norms<T>(rank_, r.block(0, 0, b.rows(), k));
    const std::vector<double> norms = column_norms<T>(rank_, r);
    kernels_.adjoint_product(rank_.update(), q_, r, sums_.share(2 * k).columns_from(0, k));
    kernels_.adjoint_product(rank_.update(), a_, r, sums_.share(2 * k).columns_from(k, k));
    sums_.to_first(2 * k);
    if (search) {
      const Values both = rank_.fetch(rank_.update(), sums_.share(2 * k).data(), 2 * n * k);
      search->judge(norms, own, Values(both.begin(), both.begin() + n * k),
                    Values(both.begin() + n * k, both.end()));
      search->go_on();
    }
  }
  // What was found, to all.
  std::vector<double> numbers(static_cast<std::size_t>(k) + 2);
  const MatrixView<T> x = x_.columns_from(0, k);
  if (search) {
    std::copy(search->residuals().begin(), search->residuals().end(), numbers.begin());
    numbers[numbers.size() - 2] = search->largest_error();
    numbers.back() = search->is_answer() ? 1.0 : 0.0;
    rank_.update().copy(x.data(), search->x().data(), search->x().size() * sizeof(T));
    rank_.update().synchronize();  // from here on the search may go
  }
  numbers = numbers_from_first(rank_, numbers);
  from_first(rank_, x);
  Solved<T> solved;
  solved.x = rank_.fetch(rank_.update(), x.data(), n * k);
  solved.in_range = numbers.back() == 1.0;
  solved.backward_error = numbers[numbers.size() - 2];
  numbers.resize(static_cast<std::size_t>(k));
  solved.residuals = std::move(numbers);
  return solved;
}

template class TallSolve<float>;
template class TallSolve<double>;
template class TallSolve<std::complex<float>>;
template class TallSolve<std::complex<double>>;

}  // namespace shardsolve::dense::qr
