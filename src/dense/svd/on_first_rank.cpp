#include "dense/svd/on_first_rank.hpp"

#include "core/each_dtype.hpp"
#include "dense/qr/factor.hpp"
#include "dense/qr/first_rank.hpp"
#include "dense/qr/powers.hpp"
#include "dense/qr/small_solver.hpp"
#include "dense/svd/steps.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace shardsolve::dense::svd {
namespace {

using runtime::WideOf;

/// What the first rank finds of a square matrix, in its memory.
template <class W>
struct Found {
  bool has_converged = false;
  std::vector<double> values;
  std::vector<W> u;   // column by column
  std::vector<W> vh;  // likewise, of V^H
};

/// Both vectors of a singular value by one phase: the largest entry of V's becomes real and
/// positive, the first one of equals.
template <class W>
void turn_vectors(Found<W>& found) {
  const std::size_t n = found.values.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t at = 0;
    for (std::size_t i = 1; i < n; ++i) {
      at = std::norm(found.vh[k + i * n]) > std::norm(found.vh[k + at * n]) ? i : at;
    }
    const W largest = found.vh[k + at * n];
    const double size = std::abs(largest);
    const W phase = largest / size;  // of v^H, conjugated of v
    for (std::size_t i = 0; i < n; ++i) {
      found.vh[k + i * n] *= qr::conjugate(phase);
      found.u[i + k * n] *= phase;
    }
    found.vh[k + at * n] = size;
  }
}

/// Of `a`, which is overwritten.
template <class W>
Found<W> find(mesh::Rank& rank, MatrixView<W> a, bool with_vectors) {
  const std::int64_t n = a.rows();
  const std::int64_t vectors = with_vectors ? n : 0;
  const MatrixView<W> u = rank.workspace<W>(vectors, vectors);
  const MatrixView<W> vh = rank.workspace<W>(vectors, vectors);
  const MatrixView<double> s = rank.workspace<double>(n, 1);
  const MatrixView<std::int64_t> info = rank.workspace<std::int64_t>(1, 1);
  rank.kernels<runtime::QrKernels<W>>().singular_values(rank.update(), a, s.data(), u, vh,
                                                        info.data());
  Found<W> found;
  found.has_converged = rank.fetch(rank.update(), info.data(), 1).front() == 0;
  found.values = rank.fetch(rank.update(), s.data(), n);
  if (with_vectors && found.has_converged) {
    found.u = rank.fetch(rank.update(), u.data(), n * n);
    found.vh = rank.fetch(rank.update(), vh.data(), n * n);
    turn_vectors(found);
  }
  return found;
}

/// What the first rank has, rounded to the dtype, on all ranks.
template <Scalar T, class W>
MatrixView<T> to_all(mesh::Rank& rank, const std::vector<W>& values, std::int64_t n) {
  const MatrixView<T> there = rank.workspace<T>(n, n);
  if (rank.index() == 0) {
    std::vector<T> rounded;
    rounded.reserve(values.size());
    for (const W value : values) {
      rounded.push_back(qr::times_power<T>(value, 0));
    }
    rank.update().copy(there.data(), rounded.data(), rounded.size() * sizeof(T));
    rank.update().synchronize();  // from here on `rounded` may go
  }
  qr::from_first(rank, there);
  return there;
}

/// One call; see Steps.
template <Scalar T>
class OnFirstRank : private Steps<T> {
 public:
  using Base = Steps<T>;
  using Real = RealOf<T>;
  using Wide = WideOf<T>;
  using Base::outcome;

  explicit OnFirstRank(const Task<T>& task)
      : OnFirstRank(task, Problem(task.a.layout(), task.of_columns)) {}

  /// The values of A; empty if the outcome is not ok.
  std::vector<Real> run(const Places<T>& places) {
    if (!Base::look()) {
      return {};
    }
    const auto values = std::make_shared<std::vector<Real>>();
    const RowBlocks<T> tall = Base::tall();
    const std::int64_t bytes = bytes_on_first_rank(Base::problem_, dtype_of<T>, Base::task_.wanted);
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
  OnFirstRank(const Task<T>& task, const Problem& problem)
      : Base(task, problem, plan_on_first_rank(problem, dtype_of<T>, task.wanted)) {}

  bool with_vectors() const { return Base::task_.wanted == Wanted::vectors; }
  bool has_triangle() const { return Base::problem_.rows.size() > Base::problem_.size(); }

  Outcome find_and_write(mesh::Rank& rank, MatrixView<const T> given, const Places<T>& places,
                         std::vector<Real>& values) const {
    const std::int64_t n = Base::problem_.size();
    const MatrixView<T> a = scaled<T>(rank, given, Base::exponent());
    MatrixView<T> u;
    if (places.u) {
      u = places.u->block(rank.index());
    } else if (has_triangle()) {
      u = rank.workspace<T>(a.rows(), n);  // Q, of which there is no use
    }
    std::int64_t exponent = Base::exponent();
    const MatrixView<Wide> core =
        has_triangle() ? triangle(rank, a, u, exponent) : whole_of_square(rank, a);
    rank.report("singular values", 0.0);
    Found<Wide> found;
    if (rank.index() == 0) {
      found = find<Wide>(rank, core, with_vectors());
    }
    if (qr::words_from_first(rank, {found.has_converged ? 1 : 0}).front() == 0) {
      return {.status = Status::not_converged};
    }
    found.values.resize(static_cast<std::size_t>(n));
    std::vector<Real> sizes;  // of what was scaled
    for (const double value : qr::numbers_from_first(rank, found.values)) {
      sizes.push_back(
          static_cast<Real>(std::ldexp(value, static_cast<int>(Base::exponent() - exponent))));
      values.push_back(qr::times_power<Real>(value, -exponent));
    }
    if (!std::all_of(values.begin(), values.end(), qr::is_finite<Real>)) {
      return {.status = Status::overflow};
    }
    return with_vectors() ? write(rank, given, found, sizes, places) : Outcome{};
  }

  /// R on the first rank, where A 2^exponent = Q R, and Q in `q`.
  MatrixView<Wide> triangle(mesh::Rank& rank, MatrixView<const T> a, MatrixView<T> q,
                            std::int64_t& exponent) const {
    const std::int64_t n = a.columns();
    const auto factored =
        qr::factor<T>(rank, Base::problem_.rows.size(), a, column_maxima<T>(rank, a), q);
    exponent += qr::common_exponent(factored.exponents);
    if (rank.index() != 0) {
      return {};
    }
    const MatrixView<Wide> r = rank.workspace<Wide>(n, n);
    qr::undo_scales<Wide>(rank, factored.r, factored.exponents, r);
    return r;
  }

  /// A square matrix on the first rank.
  MatrixView<Wide> whole_of_square(mesh::Rank& rank, MatrixView<const T> rows) const {
    const std::int64_t n = rows.columns();
    const MatrixView<T> adjoint = qr::adjoint_on_first<T>(rank, Base::problem_.rows, rows);
    if (rank.index() != 0) {
      return {};
    }
    const MatrixView<T> all = adjoint_of<T>(rank, adjoint);
    if constexpr (std::is_same_v<T, Wide>) {
      return all;
    } else {
      const std::vector<T> narrow = rank.fetch(rank.update(), all.data(), n * n);
      const std::vector<Wide> values(narrow.begin(), narrow.end());
      const MatrixView<Wide> wide = rank.workspace<Wide>(n, n);
      rank.update().copy(wide.data(), values.data(), values.size() * sizeof(Wide));
      rank.update().synchronize();  // from here on `values` may go
      return wide;
    }
  }

  Outcome write(mesh::Rank& rank, MatrixView<const T> a, const Found<Wide>& found,
                const std::vector<Real>& sizes, const Places<T>& places) const {
    const std::int64_t n = Base::problem_.size();
    const runtime::Kernels<T>& kernels = rank.kernels<T>();
    const MatrixView<T> small_u = to_all<T>(rank, found.u, n);
    const MatrixView<T> vh = to_all<T>(rank, found.vh, n);
    const MatrixView<T> u = places.u->block(rank.index());
    if (has_triangle()) {
      const MatrixView<T> q = rank.workspace<T>(u.rows(), n);
      kernels.copy(rank.update(), u, q);
      kernels.gemm(rank.update(), runtime::Op::none, runtime::Op::none, T{1}, q, small_u, T{0}, u);
    } else {
      const GlobalRange own = Base::problem_.rows.segment(rank.index());
      kernels.copy(rank.update(), small_u.block(own.begin.value(), 0, own.size(), n), u);
    }
    const GlobalRange own = Base::problem_.columns.segment(rank.index());
    const MatrixView<T> v =
        places.v ? places.v->block(rank.index()) : rank.workspace<T>(own.size(), n);
    kernels.conjugate_transpose(rank.update(), vh.columns_from(own.begin.value(), own.size()), v);
    if (places.vh) {
      std::vector<T> all = rank.fetch(rank.update(), vh.data(), n * n);
      if (rank.leads()) {
        *places.vh = std::move(all);
      }
    }
    return Base::certify(rank, a, u, sizes, v);
  }
};

}  // namespace

template <Scalar T>
SingularValues<T> svd_on_first_rank(const Task<T>& task, const Places<T>& places) {
  OnFirstRank<T> call(task);
  SingularValues<T> found;
  found.values = call.run(places);
  found.outcome = call.outcome();
  return found;
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template SingularValues<T> svd_on_first_rank(const Task<T>&, const Places<T>&);

SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::svd
