// With A^H = Q R: z = R^-H b on the first rank, x = Q z on all, then up to twice, while the
// backward error is larger than rounding explains:
//
//   r = b - A x        in twice the precision: each rank its rows of x, summed on the first rank
//   x += Q R^-H r      kept where the backward error falls
//
// x stays in the range of A^H, so it is the shortest one. b is scaled to entries of size 1, and x
// with z.

#include "dense/qr/wide_solve.hpp"

#include "core/each_dtype.hpp"
#include "dense/qr/column_norms.hpp"
#include "dense/qr/first_rank.hpp"
#include "dense/qr/powers.hpp"
#include "dense/qr/wait_sites.hpp"
#include "programs/bytes_of.hpp"
#include "runtime/lu_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

namespace shardsolve::dense::qr {
namespace {

using runtime::Op;

/// Every rank's `own` to the first rank, where they come one after the other; of `counts` elements.
template <Scalar T>
std::vector<T> gathered(mesh::Rank& rank, MatrixView<T> own,
                        const std::vector<std::int64_t>& counts, MatrixView<T> table) {
  std::vector<comm::Bytes> pieces;
  std::int64_t first = 0;
  for (std::int64_t r = 0; r < rank.count(); ++r) {
    const std::int64_t count = counts[static_cast<std::size_t>(r)];
    pieces.push_back(rank.index() == 0 ? programs::bytes_of(table.block(first, 0, count, 1))
                                       : comm::Bytes{});
    first += count;
  }
  if (rank.index() == 0) {
    rank.update().copy(pieces[0].data, own.data(), pieces[0].size);
  }
  runtime::Event& ready = rank.event();
  rank.update().record(ready);
  rank.transfer().wait(ready, sites::pieces_ready);
  rank.communicator().gather(rank.transfer(), programs::bytes_of(own), std::move(pieces), 0);
  if (rank.index() != 0) {
    return {};
  }
  return rank.fetch(rank.transfer(), table.data(), first);
}

}  // namespace

template <Scalar T>
MatrixView<T> adjoint_rows(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> a,
                           const SlabLayout& of_adjoint, std::int64_t below) {
  const runtime::Kernels<T>& kernels = rank.kernels<T>();
  const std::int64_t m = layout.size();
  const std::int64_t own = of_adjoint.width(rank.index());
  const MatrixView<T> rows = rank.workspace<T>(own + below, m);
  const MatrixView<T> packed = rank.workspace<T>(a.rows(), a.columns());
  const MatrixView<T> incoming = rank.workspace<T>(m * own, 1);
  kernels.copy(rank.update(), a, packed);
  std::vector<comm::Bytes> send;
  std::vector<comm::Bytes> receive;
  std::vector<MatrixView<T>> blocks;
  for (std::int64_t r = 0; r < rank.count(); ++r) {
    const GlobalRange columns = of_adjoint.segment(r);
    const GlobalRange from = layout.segment(r);
    send.push_back(programs::bytes_of(packed.columns_from(columns.begin.value(), columns.size())));
    blocks.emplace_back(incoming.data() + from.begin.value() * own, from.size(), own);
    receive.push_back(programs::bytes_of(blocks.back()));
  }
  blocks[static_cast<std::size_t>(rank.index())] =
      packed.columns_from(of_adjoint.segment(rank.index()).begin.value(), own);
  runtime::Event& ready = rank.event();
  runtime::Event& here = rank.event();
  rank.update().record(ready);
  rank.transfer().wait(ready, sites::columns_ready);
  rank.communicator().all_to_all(rank.transfer(), std::move(send), std::move(receive));
  rank.transfer().record(here);
  rank.update().wait(here, sites::columns_here);
  for (std::int64_t r = 0; r < rank.count(); ++r) {
    const MatrixView<T> block = blocks[static_cast<std::size_t>(r)];
    kernels.conjugate_transpose(rank.update(), block,
                                rows.block(0, layout.segment(r).begin.value(), own, block.rows()));
  }
  kernels.fill(rank.update(), T{0}, rows.block(own, 0, below, m));
  return rows;
}

/// What the first rank knows of some columns.
template <Scalar T>
class WideSolve<T>::Search {
 public:
  Search(const SmallSolver<Wide>& solver, std::vector<std::int64_t> of_b, Values b)
      : solver_(solver),
        m_(static_cast<std::size_t>(solver.size())),
        of_b_(std::move(of_b)),
        b_(std::move(b)),
        z_(solver.solve_adjoint(b_)),
        errors_(of_b_.size(), std::numeric_limits<double>::infinity()),
        residuals_(of_b_.size()),
        settled_(of_b_.size(), false) {
    std::vector<double> maxima(of_b_.size());
    for (std::size_t at = 0; at < z_.size(); ++at) {
      maxima[at / m_] = programs::largest(maxima[at / m_], size_of(z_[at]));
    }
    in_range_ =
        std::all_of(maxima.begin(), maxima.end(), [](double one) { return std::isfinite(one); });
    of_z_ = in_range_ ? exponents_to_one(maxima) : std::vector<std::int64_t>(of_b_.size());
  }

  bool in_range() const { return in_range_; }
  bool is_answer() const { return std::isfinite(largest_error()); }
  bool is_done() const {
    return std::all_of(settled_.begin(), settled_.end(), [](bool one) { return one; });
  }
  /// Of x, times powers of two, beside the x of the caller.
  std::vector<std::int64_t> exponents() const {
    std::vector<std::int64_t> all;
    for (std::size_t j = 0; j < of_b_.size(); ++j) {
      all.push_back(of_b_[j] + of_z_[j]);
    }
    return all;
  }
  /// What x changes by, Q times this, scaled like it.
  std::vector<T> factor() const {
    std::vector<T> scaled;
    scaled.reserve(z_.size());
    for (std::size_t at = 0; at < z_.size(); ++at) {
      scaled.push_back(settled_[at / m_] ? T{0} : times_power<T>(z_[at], of_z_[at / m_]));
    }
    return scaled;
  }
  /// `shares`: those of all ranks of A x, twofold, for the x that was tried; `x_norms`: of the
  /// caller's rows of that x, which is scaled. `below`: its other rows, which `damping` times is no
  /// part of A x for him. Whether each column is better now.
  std::vector<std::int64_t> judge(const std::vector<T>& shares, const std::vector<double>& x_norms,
                                  double damping, const std::vector<T>& below) {
    Values r = residual(shares);
    Values own = r;  // b - A x of the caller's
    for (std::size_t at = 0; at < r.size(); ++at) {
      const std::int64_t back = -of_z_[at / m_];
      r[at] = times_power<Wide>(r[at], back);
      own[at] = r[at];
      if (!below.empty()) {
        own[at] += times_power<Wide>(static_cast<Wide>(below[at]) * damping, back);
      }
    }
    std::vector<std::int64_t> better;
    for (std::size_t j = 0; j < of_b_.size(); ++j) {
      const double error = error_of(r, own, j, std::ldexp(x_norms[j], -static_cast<int>(of_z_[j])));
      const bool helps = !settled_[j] && (std::isinf(errors_[j]) || error < errors_[j]);
      settled_[j] = !helps || !(error > refined_from * unit_roundoff<T>);
      better.push_back(helps ? 1 : 0);
      if (helps) {
        errors_[j] = error;
        residuals_[j] = std::ldexp(norm_of(own, j, false), -static_cast<int>(of_b_[j]));
      }
    }
    z_ = solver_.solve_adjoint(std::move(r));
    return better;
  }
  const std::vector<double>& residuals() const { return residuals_; }
  double largest_error() const {
    double most = 0.0;
    for (const double error : errors_) {
      most = programs::largest(most, error);
    }
    return most;
  }

 private:
  /// b - A x, scaled as x, in twice the precision.
  Values residual(const std::vector<T>& shares) const {
    Values r(b_.size());
    for (std::size_t at = 0; at < r.size(); ++at) {
      const Wide b = times_power<Wide>(b_[at], of_z_[at / m_]);
      const auto sum = [&](auto part) {
        double high = part(b);
        double low = 0.0;
        for (std::size_t term = at; term < shares.size(); term += r.size()) {
          const double value = -part(static_cast<Wide>(shares[term]));
          const double next = high + value;
          const double taken = next - high;
          low += (high - (next - taken)) + (value - taken);
          high = next;
        }
        return high + low;
      };
      const double re = sum([](Wide value) { return std::real(value); });
      if constexpr (is_complex<T>) {
        r[at] = {re, sum([](Wide value) { return std::imag(value); })};
      } else {
        r[at] = re;
      }
    }
    return r;
  }
  /// Of a column; `scaled`: with rows of A at equal size.
  double norm_of(const Values& values, std::size_t column, bool scaled) const {
    double norm = 0.0;
    for (std::size_t i = 0; i < m_; ++i) {
      const Wide value = values[i + column * m_];
      norm = std::hypot(
          norm, std::abs(scaled ? times_power<Wide>(value, solver_.exponents()[i]) : value));
    }
    return norm;
  }
  double error_of(const Values& r, const Values& own, std::size_t column, double x_norm) const {
    const auto first = r.begin() + static_cast<std::ptrdiff_t>(column * m_);
    Values one(first, first + static_cast<std::ptrdiff_t>(m_));
    if (solver_.is_truncated()) {
      const double norm = solver_.image_norm();
      return backward_error(norm, std::ldexp(x_norm, static_cast<int>(-solver_.common())),
                            norm_of(r, column, false), solver_.kept_norms_adjoint(one).front(),
                            solver_.image_norms(one).front());
    }
    // With damping also one of the least squares problem whose residual is `own`.
    const double size = norm_of(r, column, true);
    if (size == 0.0) {
      return 0.0;
    }
    const double error = size / std::hypot(solver_.norm() * x_norm, norm_of(own, column, true));
    return std::isfinite(error) ? error : std::numeric_limits<double>::quiet_NaN();
  }

  const SmallSolver<Wide>& solver_;
  std::size_t m_;
  std::vector<std::int64_t> of_b_;
  Values b_;
  Values z_;
  std::vector<std::int64_t> of_z_;
  std::vector<double> errors_;
  std::vector<double> residuals_;
  std::vector<bool> settled_;
  bool in_range_ = true;
};

template <Scalar T>
WideSolve<T>::WideSolve(mesh::Rank& rank, const SlabLayout& layout, const SlabLayout& of_adjoint,
                        MatrixView<const T> adjoint, MatrixView<const T> q, double damping,
                        SmallSolver<Wide>* first, std::int64_t columns, int refinements)
    : rank_(rank),
      kernels_(rank.kernels<runtime::QrKernels<T>>()),
      layout_(layout),
      of_adjoint_(of_adjoint),
      adjoint_(adjoint),
      q_(q),
      damping_(damping),
      first_(first),
      refinements_(refinements),
      z_(rank.workspace<T>(layout.size(), columns)),
      tried_(rank.workspace<T>(adjoint.rows(), columns)),
      best_(rank.workspace<T>(adjoint.rows(), columns)),
      given_(rank.workspace<T>(adjoint.rows(), columns)),
      share_(rank.workspace<T>(layout.size(), 2 * columns)),
      sizes_(rank.workspace<double>(layout.size(), columns)),
      table_(rank.workspace<T>(
          columns * std::max(2 * layout.size() * rank.count(), of_adjoint.size()), 1)) {}

template <Scalar T>
std::int64_t WideSolve<T>::bytes(const SlabLayout& layout, const SlabLayout& of_adjoint,
                                 std::int64_t columns, Dtype dtype) {
  const std::int64_t m = layout.size();
  const std::int64_t rows = of_adjoint.max_width() + m;
  return columns * (element_size(dtype) *
                        (5 * m + 4 * rows + std::max(2 * m * layout.ranks(), of_adjoint.size())) +
                    8 * m);
}

/// B on the first rank, column by column.
template <Scalar T>
std::vector<T> WideSolve<T>::collected(MatrixView<const T> b) {
  const MatrixView<T> own(share_.data(), b.rows(), b.columns());
  rank_.kernels<T>().copy(rank_.update(), b, own);
  std::vector<std::int64_t> counts;
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    counts.push_back(layout_.width(r) * b.columns());
  }
  const std::vector<T> pieces = gathered(rank_, own, counts, table_);
  std::vector<T> all(pieces.size());
  std::size_t at = 0;
  for (std::int64_t r = 0; !pieces.empty() && r < rank_.count(); ++r) {
    const GlobalRange rows = layout_.segment(r);
    for (std::int64_t j = 0; j < b.columns(); ++j) {
      for (std::int64_t i = rows.begin.value(); i < rows.end.value(); ++i) {
        all[static_cast<std::size_t>(i + j * layout_.size())] = pieces[at++];
      }
    }
  }
  return all;
}

/// x is changed by Q z: tried_ as it is after rounding to what the caller would get.
template <Scalar T>
void WideSolve<T>::step(Search* search, std::int64_t columns, bool is_first) {
  const runtime::Kernels<T>& kernels = rank_.kernels<T>();
  const MatrixView<T> z = z_.columns_from(0, columns);
  const MatrixView<T> tried = tried_.columns_from(0, columns);
  const MatrixView<T> given = given_.columns_from(0, columns);
  if (search != nullptr) {
    const std::vector<T> factor = search->factor();
    rank_.update().copy(z.data(), factor.data(), factor.size() * sizeof(T));
    rank_.update().synchronize();  // from here on `factor` may go
  }
  from_first(rank_, z);
  std::vector<std::int64_t> back(exponents_.size());
  std::transform(exponents_.begin(), exponents_.end(), back.begin(), std::negate<>());
  const std::int64_t* const there = rank_.upload(rank_.update(), exponents_.data(), columns);
  const std::int64_t* const here = rank_.upload(rank_.update(), back.data(), columns);
  if (!is_first) {
    kernels_.scale_columns(rank_.update(), best_.columns_from(0, columns), there, tried);
  }
  kernels.gemm(rank_.update(), Op::none, Op::none, T{1}, q_, z, is_first ? T{0} : T{1}, tried);
  kernels_.scale_columns(rank_.update(), tried, here, given);
  kernels_.scale_columns(rank_.update(), given, there, tried);
}

/// The shares of all ranks of A x, for what is tried, on the first rank: of each rank sums, then
/// what rounding has taken from them.
template <Scalar T>
std::vector<T> WideSolve<T>::shares_of(std::int64_t columns) {
  const std::int64_t m = layout_.size();
  const MatrixView<T> share(share_.data(), m, 2 * columns);
  rank_.kernels<runtime::LuKernels<T>>().multiply(rank_.update(), Op::conjugate_transpose, adjoint_,
                                                  tried_.columns_from(0, columns), share,
                                                  sizes_.columns_from(0, columns));
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(rank_.count()), 2 * m * columns);
  return gathered(rank_, share, counts, table_);
}

/// Of what is tried, those rows of x that are not the caller's, which the first rank has; none
/// without damping.
template <Scalar T>
std::vector<T> WideSolve<T>::rows_below(std::int64_t columns) {
  const std::int64_t below = adjoint_.rows() - of_adjoint_.width(rank_.index());
  const MatrixView<T> packed(share_.data(), below, columns);
  rank_.kernels<T>().copy(rank_.update(), tried_.block(tried_.rows() - below, 0, below, columns),
                          packed);
  return rank_.fetch(rank_.update(), packed.data(), below * columns);
}

/// The best, column by column, on all ranks.
template <Scalar T>
std::vector<T> WideSolve<T>::x_of_all(std::int64_t columns) {
  const std::int64_t n = of_adjoint_.size();
  std::vector<comm::Bytes> pieces;
  std::vector<MatrixView<T>> blocks;
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    const GlobalRange rows = of_adjoint_.segment(r);
    blocks.emplace_back(table_.data() + rows.begin.value() * columns, rows.size(), columns);
    pieces.push_back(programs::bytes_of(blocks.back()));
  }
  const MatrixView<T> own = blocks[static_cast<std::size_t>(rank_.index())];
  rank_.kernels<T>().copy(rank_.update(), best_.block(0, 0, own.rows(), columns), own);
  runtime::Event& ready = rank_.event();
  rank_.update().record(ready);
  rank_.transfer().wait(ready, sites::x_ready);
  rank_.communicator().all_gather(rank_.transfer(), std::move(pieces));
  const std::vector<T> packed = rank_.fetch(rank_.transfer(), table_.data(), n * columns);
  std::vector<T> x(packed.size());
  std::size_t at = 0;
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    const GlobalRange rows = of_adjoint_.segment(r);
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t i = rows.begin.value(); i < rows.end.value(); ++i) {
        x[static_cast<std::size_t>(i + j * n)] = packed[at++];
      }
    }
  }
  return x;
}

template <Scalar T>
Solved<T> WideSolve<T>::run(MatrixView<const T> b, const std::vector<double>& maxima) {
  const std::int64_t k = b.columns();
  const std::vector<std::int64_t> of_b = exponents_to_one(maxima);
  const std::vector<T> all = collected(b);
  std::unique_ptr<Search> search;
  if (first_ != nullptr) {
    Values scaled;
    scaled.reserve(all.size());
    for (std::size_t at = 0; at < all.size(); ++at) {
      scaled.push_back(
          times_power<Wide>(all[at], of_b[at / static_cast<std::size_t>(layout_.size())]));
    }
    search = std::make_unique<Search>(*first_, of_b, std::move(scaled));
  }
  for (int number = 0; number <= refinements_; ++number) {
    std::vector<std::int64_t> words(static_cast<std::size_t>(k) + 1);
    if (search) {
      words = search->exponents();
      words.push_back(search->in_range() && !search->is_done() ? 1 : 0);
    }
    words = words_from_first(rank_, std::move(words));
    const bool goes_on = words.back() != 0;
    words.pop_back();
    exponents_ = std::move(words);
    if (!goes_on) {
      break;
    }
    step(search.get(), k, number == 0);
    const std::vector<double> x_norms =
        column_norms<T>(rank_, tried_.block(0, 0, of_adjoint_.width(rank_.index()), k));
    const std::vector<T> shares = shares_of(k);
    const std::vector<T> below = rows_below(k);
    std::vector<std::int64_t> better(static_cast<std::size_t>(k));
    if (search) {
      better = search->judge(shares, x_norms, damping_, below);
    }
    better = words_from_first(rank_, std::move(better));
    for (std::int64_t j = 0; j < k; ++j) {
      if (better[static_cast<std::size_t>(j)] != 0) {
        rank_.kernels<T>().copy(rank_.update(), given_.columns_from(j, 1),
                                best_.columns_from(j, 1));
      }
    }
  }
  std::vector<double> numbers(static_cast<std::size_t>(k) + 2);
  if (search) {
    std::copy(search->residuals().begin(), search->residuals().end(), numbers.begin());
    numbers[numbers.size() - 2] = search->largest_error();
    numbers.back() = search->is_answer() ? 1.0 : 0.0;
  }
  numbers = numbers_from_first(rank_, numbers);
  Solved<T> solved;
  solved.in_range = numbers.back() == 1.0;
  solved.backward_error = numbers[numbers.size() - 2];
  numbers.resize(static_cast<std::size_t>(k));
  solved.residuals = std::move(numbers);
  if (solved.in_range) {
    solved.x = x_of_all(k);
    solved.in_range = std::all_of(solved.x.begin(), solved.x.end(), is_finite<T>);
  }
  return solved;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                          \
  template MatrixView<T> adjoint_rows(mesh::Rank&, const SlabLayout&, MatrixView<const T>, \
                                      const SlabLayout&, std::int64_t);                    \
  template class WideSolve<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::qr
