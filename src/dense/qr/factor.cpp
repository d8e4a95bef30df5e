// CholeskyQR in passes, on slabs of rows:
//
//   G = Q^H Q          own rows, then summed over the ranks: the only thing that crosses them
//   G = r^H r          on the first rank
//   Q = Q r^-1, R = r R
//
// The pass whose incoming G, of columns at length 1, was within 1/2 of I is the last: rounding of
// that one alone is left. So no estimate of the condition number chooses the method; the Gram
// matrix does, which is needed anyway. Random matrices with many more rows need no other pass. A G
// that is not definite, or nearly so, is shifted (T. Fukaya, R. Kannan, Y. Nakatsukasa,
// Y. Yamamoto, Y. Yanagisawa, SIAM J. Sci. Comput. 42 (2020) A477): the next one is better by a
// factor of the shift. Where rounding fills the null space that ends for any matrix. It does not
// for columns of ones: then reflections of what there is, slab by slab (TSQR; J. Demmel,
// L. Grigori, M. Hoemmen, J. Langou, SIAM J. Sci. Comput. 34 (2012) A206). For a column of zeros
// the passes would be in vain, so there are none.

#include "dense/qr/factor.hpp"

#include "core/each_dtype.hpp"
#include "dense/qr/first_rank.hpp"
#include "dense/qr/powers.hpp"
#include "dense/qr/reflections.hpp"
#include "dense/qr/solution.hpp"
#include "dense/shared/multiply_adjoint.hpp"

#include <shardsolve/error.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace shardsolve::dense::qr {
namespace {

using runtime::GramVerdict;
using runtime::Op;

constexpr int max_passes = 6;

/// What is added to a Gram matrix that rounding has made indefinite, relative to its trace.
double shift_of(std::int64_t rows, std::int64_t columns) {
  const auto m = static_cast<double>(rows);
  const auto n = static_cast<double>(columns);
  return 11.0 * (m * n + n * (n + 1.0)) * unit_roundoff<double>;
}

/// The loop and what it keeps.
template <Scalar T>
class Passes {
 public:
  using Wide = WideOf<T>;

  Passes(mesh::Rank& rank, std::int64_t rows, MatrixView<T> q)
      : rank_(rank),
        kernels_(rank.kernels<runtime::QrKernels<T>>()),
        shift_(shift_of(rows, q.columns())),
        q_(q),
        gram_(rank, q.columns(), q.columns()),
        r_(rank.workspace<Wide>(q.columns(), q.columns())),
        product_(rank.workspace<Wide>(q.columns(), q.columns())),
        verdict_(rank.workspace<std::int64_t>(1, 1)) {
    wide().identity(rank.update(), r_);
  }

  /// One pass; `twofold`: with sums in twice the precision.
  GramVerdict run(bool twofold = false) {
    const MatrixView<Wide> g = gram_.share(q_.columns());
    if (twofold) {
      twofold_gram(g);
    } else {
      kernels_.gram(rank_.update(), q_, g);
    }
    gram_.to_first(q_.columns());
    if (rank_.index() == 0) {
      kernels_.gram_factor(rank_.update(), shift_, g, verdict_.data());
    }
    const GramVerdict verdict = agreed_verdict();
    if (verdict != GramVerdict::broken) {
      apply(g, verdict == GramVerdict::near);
    }
    return verdict;
  }
  /// What passes have left, by reflections.
  void reflect() {
    const MatrixView<Wide> r = reflect_slabs<T>(rank_, q_);
    // q = Q r = (Q S^-1) (S r), where S makes the diagonal of r real and positive.
    const MatrixView<Wide> turns = gram_.share(q_.columns());
    if (rank_.index() == 0) {
      turn_to_positive(r, turns);
    }
    from_first(rank_, turns);
    kernels_.divide(rank_.update(), turns, q_);
    if (rank_.index() == 0) {
      multiply(r);
      multiply(turns);
    }
  }
  MatrixView<Wide> r() const { return r_; }

 private:
  const runtime::Kernels<Wide>& wide() const { return rank_.kernels<Wide>(); }

  void twofold_gram(MatrixView<Wide> g) {
    if constexpr (std::is_same_v<T, Wide>) {
      const std::int64_t n = q_.columns();
      const std::int64_t rows_at_once = std::max<std::int64_t>(q_.rows() / 16, 8);
      const MatrixView<T> sums = rank_.workspace<T>(n, 2 * n);
      multiply_adjoint<T>(wide(), rank_.kernels<runtime::HermitianKernels<T>>(), rank_.update(),
                          rows_at_once, q_, q_, g, sums);
      wide().copy(rank_.update(), sums.columns_from(0, n), g);
      wide().add(rank_.update(), T{1}, sums.columns_from(n, n), g);
    } else {
      kernels_.gram(rank_.update(), q_, g);  // in double precision: that is enough
    }
  }

  /// Q = Q r^-1 and R = r R, for the r that the first rank has.
  void apply(MatrixView<Wide> r, bool is_near) {
    from_first(rank_, r);
    kernels_.divide(rank_.update(), r, q_, is_near);
    if (rank_.index() == 0) {
      multiply(r);
    }
  }

  /// R = r R.
  void multiply(MatrixView<const Wide> r) {
    wide().gemm(rank_.update(), Op::none, Op::none, Wide{1}, r, r_, Wide{0}, product_);
    std::swap(r_, product_);
  }
  /// The diagonal matrix of numbers of modulus 1 that make that of r real and not negative.
  void turn_to_positive(MatrixView<const Wide> r, MatrixView<Wide> turns) {
    const std::int64_t n = r.rows();
    const std::vector<Wide> entries = rank_.fetch(rank_.update(), r.data(), n * n);
    std::vector<Wide> diagonal(entries.size());
    for (std::int64_t j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>(j + j * n);
      const double size = std::abs(entries[at]);
      diagonal[at] = size > 0.0 ? conjugate(entries[at]) / size : Wide{1};
    }
    rank_.update().copy(turns.data(), diagonal.data(), diagonal.size() * sizeof(Wide));
    rank_.update().synchronize();  // from here on `diagonal` may go
  }

  /// That of the first rank. Throws if it was asked to stop.
  GramVerdict agreed_verdict() {
    std::vector<std::int64_t> words(2);
    if (rank_.index() == 0) {
      words = {rank_.fetch(rank_.update(), verdict_.data(), 1).front(),
               rank_.stop_requested() ? 1 : 0};
    }
    words = words_from_first(rank_, std::move(words));
    if (words[1] != 0) {
      throw Error(ErrorKind::cancelled, "the call was cancelled as asked");
    }
    return static_cast<GramVerdict>(words[0]);
  }

  mesh::Rank& rank_;
  const runtime::QrKernels<T>& kernels_;
  double shift_;
  MatrixView<T> q_;
  Sums<Wide> gram_;
  MatrixView<Wide> r_;
  MatrixView<Wide> product_;
  MatrixView<std::int64_t> verdict_;
};

}  // namespace

template <Scalar T>
Factored<T> factor(mesh::Rank& rank, std::int64_t rows, MatrixView<const T> a,
                   const std::vector<double>& maxima, MatrixView<T> q) {
  Factored<T> factored;
  factored.exponents = exponents_to_one(maxima);
  const std::int64_t* const exponents =
      rank.upload(rank.update(), factored.exponents.data(), a.columns());
  rank.kernels<runtime::QrKernels<T>>().scale_columns(rank.update(), a, exponents, q);
  Passes<T> passes(rank, rows, q);
  const bool has_zeros = std::ranges::count(maxima, 0.0) != 0;
  GramVerdict verdict = has_zeros ? GramVerdict::broken : GramVerdict::far;
  while (verdict == GramVerdict::far && factored.passes < max_passes) {
    rank.report("factor", static_cast<double>(factored.passes) / max_passes);
    rank.set_step(factored.passes);
    verdict = passes.run();
    ++factored.passes;
  }
  if (verdict != GramVerdict::near) {
    factored.by_reflections = true;
    passes.reflect();
    // Sums of equal terms and reflectors of equal entries round to one side, which adds up.
    passes.run(true);
  }
  factored.r = passes.r();
  return factored;
}

std::int64_t factor_bytes(std::int64_t ranks, std::int64_t columns, Dtype dtype) {
  const std::int64_t wide = dtype == Dtype::complex64 || dtype == Dtype::complex128 ? 16 : 8;
  return wide / 8 * Sums<double>::bytes(ranks, columns, columns) + 4 * wide * columns * columns +
         16 * columns + reflections_bytes(ranks, columns, dtype);
}

#define SHARDSOLVE_INSTANTIATE(T)                                             \
  template Factored<T> factor(mesh::Rank&, std::int64_t, MatrixView<const T>, \
                              const std::vector<double>&, MatrixView<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::qr
