// A = U S V^H where A has less than twice as many rows as columns; else A = Q R, R = U_R S V^H and
// U = Q U_R.

#include "dense/svd/by_bidiagonal.hpp"

#include "core/each_dtype.hpp"
#include "dense/qr/factor.hpp"
#include "dense/qr/first_rank.hpp"
#include "dense/qr/powers.hpp"
#include "dense/qr/small_solver.hpp"
#include "dense/svd/bidiagonal_form.hpp"
#include "dense/svd/steps.hpp"
#include "programs/gather.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::dense::svd {
namespace {

using runtime::Op;
using runtime::WideOf;

/// What turns both vectors of each singular value by one phase, so that the largest entry of V's is
/// real and positive: the first one of equals.
template <class W>
struct Turns {
  const W* factors;
  const std::int64_t* real_rows;  ///< of this rank's V; -1 where another rank has that entry
};

template <class W>
Turns<W> turns_of(mesh::Rank& rank, MatrixView<const W> v) {
  const std::int64_t n = v.columns();
  const MatrixView<std::int64_t> rows = rank.workspace<std::int64_t>(n, 1);
  const MatrixView<W> entries = rank.workspace<W>(n, 1);
  rank.kernels<runtime::BidiagonalKernels<W>>().largest_entries(rank.update(), v, rows.data(),
                                                                entries.data());
  std::vector<std::int64_t> real_rows = rank.fetch(rank.update(), rows.data(), n);
  const auto of_all = programs::gather_from_all(rank, rank.fetch(rank.update(), entries.data(), n));
  std::vector<W> factors;
  for (std::size_t k = 0; k < real_rows.size(); ++k) {
    std::size_t owner = 0;
    for (std::size_t r = 1; r < of_all.size(); ++r) {
      owner = std::norm(of_all[r][k]) > std::norm(of_all[owner][k]) ? r : owner;
    }
    const W largest = of_all[owner][k];
    factors.push_back(qr::conjugate(largest) / std::abs(largest));
    if (static_cast<std::int64_t>(owner) != rank.index()) {
      real_rows[k] = -1;
    }
  }
  return {rank.upload(rank.update(), factors.data(), n),
          rank.upload(rank.update(), real_rows.data(), n)};
}

/// One call; see Steps.
template <Scalar T>
class ByBidiagonal : private Steps<T> {
 public:
  using Base = Steps<T>;
  using Real = RealOf<T>;
  using Wide = WideOf<T>;
  using Base::outcome;

  explicit ByBidiagonal(const Task<T>& task)
      : ByBidiagonal(task, Problem(task.a.layout(), task.of_columns)) {}

  /// The values of A; empty if the outcome is not ok.
  std::vector<Real> run(const Places<T>& places) {
    if (!Base::look()) {
      return {};
    }
    const auto values = std::make_shared<std::vector<Real>>();
    const RowBlocks<T> tall = Base::tall();
    const std::int64_t bytes = bytes_by_bidiagonal(Base::problem_, dtype_of<T>, Base::task_.wanted);
    Base::run(bytes, [*this, places, tall, values](mesh::Rank& rank) {
      std::vector<Real> of_all;
      Outcome outcome = find_and_write(rank, tall.block(rank.index()), places, of_all);
      if (rank.leads() && outcome.ok()) {
        *values = std::move(of_all);
      }
      return outcome;
    });
    return Base::outcome_.ok() ? *values : std::vector<Real>{};
  }

 private:
  ByBidiagonal(const Task<T>& task, const Problem& problem)
      : Base(task, problem, plan_by_bidiagonal(problem, dtype_of<T>, task.wanted)) {}

  bool with_vectors() const { return Base::task_.wanted == Wanted::vectors; }

  Outcome find_and_write(mesh::Rank& rank, MatrixView<const T> given, const Places<T>& places,
                         std::vector<Real>& values) const {
    const MatrixView<T> a = scaled<T>(rank, given, Base::exponent());
    rank.finish(rank.update());  // what follows is on another queue
    if (!has_triangle(Base::problem_)) {
      BidiagonalForm<T> form(rank, Base::problem_.rows, Base::problem_.columns, with_vectors());
      form.reduce(a);
      return finish(rank, form, Base::exponent(), given, places, values);
    }
    const MatrixView<T> q =
        places.u ? places.u->block(rank.index()) : rank.workspace<T>(a.rows(), a.columns());
    std::int64_t exponent = Base::exponent();
    const MatrixView<const Wide> r = rows_of_triangle(rank, a, q, exponent);
    BidiagonalForm<Wide> form(rank, Base::problem_.columns, Base::problem_.columns, with_vectors());
    form.reduce(r);
    return finish(rank, form, exponent, given, places, values);
  }

  /// This rank's rows of R, where A 2^exponent = Q R, and of Q in `q`.
  MatrixView<const Wide> rows_of_triangle(mesh::Rank& rank, MatrixView<const T> a, MatrixView<T> q,
                                          std::int64_t& exponent) const {
    const std::int64_t n = a.columns();
    const auto factored =
        qr::factor<T>(rank, Base::problem_.rows.size(), a, column_maxima<T>(rank, a), q);
    exponent += qr::common_exponent(factored.exponents);
    const MatrixView<Wide> r = rank.workspace<Wide>(n, n);
    if (rank.index() == 0) {
      qr::undo_scales<Wide>(rank, factored.r, factored.exponents, r);
    }
    qr::from_first(rank, r);
    const GlobalRange own = Base::problem_.columns.segment(rank.index());
    return r.block(own.begin.value(), 0, own.size(), n);
  }

  /// `form`: of A times 2^exponent, or of its R.
  template <class Form>
  Outcome finish(mesh::Rank& rank, Form& form, std::int64_t exponent, MatrixView<const T> a,
                 const Places<T>& places, std::vector<Real>& values) const {
    const std::optional<std::vector<double>> found = form.find();
    if (!found) {
      return {.status = Status::not_converged};
    }
    std::vector<Real> sizes;  // of what was scaled, as they are returned
    for (const double value : *found) {
      values.push_back(qr::times_power<Real>(value, -exponent));
      sizes.push_back(qr::times_power<Real>(values.back(), Base::exponent()));
    }
    if (!std::all_of(values.begin(), values.end(), qr::is_finite<Real>)) {
      return {.status = Status::overflow};
    }
    return with_vectors() ? write(rank, form, a, sizes, places) : Outcome{};
  }

  template <class Form>
  Outcome write(mesh::Rank& rank, Form& form, MatrixView<const T> a, const std::vector<Real>& sizes,
                const Places<T>& places) const {
    const auto& kernels = rank.kernels<runtime::BidiagonalKernels<T>>();
    const SlabLayout& columns = Base::problem_.columns;
    const MatrixView<const Wide> wide_v = form.v();
    const Turns<Wide> turns = turns_of<Wide>(rank, wide_v);
    const MatrixView<T> v = places.v ? places.v->block(rank.index())
                                     : rank.workspace<T>(wide_v.rows(), wide_v.columns());
    kernels.turn_columns(rank.update(), wide_v, turns.factors, turns.real_rows, v);
    if (places.vh) {
      std::vector<T> all = programs::gather_columns<T>(rank, columns, adjoint_of<T>(rank, v));
      if (rank.leads()) {
        *places.vh = std::move(all);
      }
    }
    const MatrixView<const Wide> wide_u = form.u();
    const MatrixView<T> u = places.u->block(rank.index());
    const std::vector<std::int64_t> none(sizes.size(), -1);
    const std::int64_t* const real_rows =
        rank.upload(rank.update(), none.data(), static_cast<std::int64_t>(none.size()));
    if (!has_triangle(Base::problem_)) {
      kernels.turn_columns(rank.update(), wide_u, turns.factors, real_rows, u);
    } else {
      const MatrixView<T> small = rank.workspace<T>(wide_u.rows(), wide_u.columns());
      kernels.turn_columns(rank.update(), wide_u, turns.factors, real_rows, small);
      const MatrixView<const T> all =
          programs::all_columns<T>(rank, columns, adjoint_of<T>(rank, small));
      const MatrixView<T> q = rank.workspace<T>(u.rows(), u.columns());
      rank.kernels<T>().copy(rank.update(), u, q);
      rank.kernels<T>().gemm(rank.update(), Op::none, Op::conjugate_transpose, T{1}, q, all, T{0},
                             u);
    }
    return Base::certify(rank, a, u, sizes, v);
  }
};

}  // namespace

template <Scalar T>
SingularValues<T> svd_by_bidiagonal(const Task<T>& task, const Places<T>& places) {
  ByBidiagonal<T> call(task);
  SingularValues<T> found;
  found.values = call.run(places);
  found.outcome = call.outcome();
  return found;
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template SingularValues<T> svd_by_bidiagonal(const Task<T>&, const Places<T>&);

SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::svd
