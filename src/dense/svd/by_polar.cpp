#include "dense/svd/by_polar.hpp"

#include "core/each_dtype.hpp"
#include "core/floating_point.hpp"
#include "dense/qr/column_norms.hpp"
#include "dense/qr/factor.hpp"
#include "dense/qr/first_rank.hpp"
#include "dense/qr/powers.hpp"
#include "dense/svd/polar_factor.hpp"
#include "dense/svd/relay.hpp"
#include "dense/svd/steps.hpp"
#include "programs/gather.hpp"

#include <shardsolve/eigh.hpp>
#include <shardsolve/plan.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::dense::svd {
namespace {

/// A block of `held`, w x n and without gaps, as n x w.
template <Scalar T>
MatrixView<T> as_columns(const RowBlocks<T>& held, const mesh::Rank& rank) {
  const MatrixView<T> block = held.block(rank.index());
  return {block.data(), block.columns(), block.rows()};
}

/// A call by a polar factor of A and eigenpairs of the other one.
template <Scalar T>
class ByPolar : private Steps<T> {
 public:
  using Real = RealOf<T>;
  using Base = Steps<T>;
  using Base::outcome;
  using Base::problem;

  explicit ByPolar(const Task<T>& task)
      : ByPolar(task, Problem(task.a.layout(), task.of_columns)) {}

  /// The polar factor of A, or of A^H if A has fewer rows than columns: X by columns, and H in `h`.
  /// `q` receives Q where QR comes first. False if there is none.
  bool factor(const std::optional<RowBlocks<T>>& q, const std::optional<ShardedMatrix<T>>& h) {
    if (!look()) {
      return false;
    }
    tall_ = this->tall();
    core_ = problem_.by_qr ? triangle(q) : tall_;
    return start() && iterate_to_end() && make_hermitian(h);
  }

  /// H = V diag(w) V^H: singular values, and how the eigenvectors are to be sorted. V^H takes the
  /// place of H.
  std::vector<Real> find_values() {
    const EighRequest request{.vectors = task_.wanted == Wanted::vectors, .adjoint = true};
    const Eigenvalues<T> found = eigh(task_.mesh, *h_, request, task_.options);
    add(found.outcome);
    if (!found.outcome.ok()) {
      outcome_.status = Status::not_converged;
      return {};
    }
    eigenvalues_ = found.values;
    order_.resize(eigenvalues_.size());
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
    std::stable_sort(order_.begin(), order_.end(), [this](std::int64_t i, std::int64_t j) {
      return std::abs(eigenvalue(i)) > std::abs(eigenvalue(j));
    });
    const core::IeeeArithmetic scope;  // the caller's thread may flush subnormal numbers
    std::vector<Real> values;
    sizes_.clear();
    for (const std::int64_t i : order_) {
      values.push_back(std::ldexp(std::abs(eigenvalue(i)), -exponent()));
      sizes_.push_back(std::ldexp(values.back(), exponent()));
      if (!std::isfinite(values.back())) {
        outcome_.status = Status::overflow;
        return {};
      }
    }
    return values;
  }

  /// U S V^H for the matrix that was worked on. V^H goes to `all`, too, if that is not null.
  void write_vectors(const RowBlocks<T>& u, const RowBlocks<T>& v,
                     const std::shared_ptr<std::vector<T>>& all = nullptr) {
    run(bytes_of_last(), [*this, u, v, all](mesh::Rank& rank) {
      const runtime::Kernels<T>& kernels = rank.kernels<T>();
      const MatrixView<T> given = h_->slab(rank.index());
      const MatrixView<T> vh = rank.workspace<T>(given.rows(), given.columns());
      for (std::size_t i = 0; i < order_.size(); ++i) {
        kernels.copy(rank.update(), given.block(order_[i], 0, 1, given.columns()),
                     vh.block(static_cast<std::int64_t>(i), 0, 1, given.columns()));
      }
      // A column of V that is not of length 1 by some units of rounding is off by them times its
      // eigenvalue in the residual.
      kernels.conjugate_transpose(rank.update(), vh, v.block(rank.index()));
      const std::vector<double> lengths = qr::column_norms<T>(rank, v.block(rank.index()));
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        kernels.scale(rank.update(), static_cast<Real>(1.0 / lengths[i]),
                      vh.block(static_cast<std::int64_t>(i), 0, 1, vh.columns()));
      }
      // U^H = V^H X^H, of eigenvalues that rounding has made negative -V^H X^H
      Relay<T> relay(rank, problem_.core.of_relay());
      const MatrixView<T> x = as_columns(*x_, rank);
      const MatrixView<T> uh = rank.workspace<T>(x.rows(), x.columns());
      relay.times(problem_.columns, vh, x, uh);
      for (std::size_t i = 0; i < order_.size(); ++i) {
        if (eigenvalue(order_[i]) < Real{0}) {
          kernels.scale(rank.update(), Real{-1},
                        uh.block(static_cast<std::int64_t>(i), 0, 1, uh.columns()));
        }
      }
      write_rows(rank, relay, uh, u.block(rank.index()));
      kernels.conjugate_transpose(rank.update(), vh, v.block(rank.index()));
      const Outcome outcome = this->certify(rank, tall_->block(rank.index()), u.block(rank.index()),
                                            sizes_, v.block(rank.index()));
      if (all) {
        gather(rank, problem_.columns, adjoint_of<T>(rank, v.block(rank.index())), *all);
      }
      return outcome;
    });
  }

  /// U, and H times what A was scaled by, which goes to `all`, too, if that is not null.
  void write_polar(const RowBlocks<T>& u, const std::shared_ptr<std::vector<T>>& all = nullptr) {
    run(bytes_of_last(), [*this, u, all](mesh::Rank& rank) {
      Relay<T> relay(rank, problem_.core.of_relay());
      write_rows(rank, relay, as_columns(*x_, rank), u.block(rank.index()));
      Outcome outcome;
      Certificate<T> certificate(rank);
      const MatrixView<T> h = h_->slab(rank.index());
      const GlobalRange own = problem_.columns.segment(rank.index());
      const MatrixView<T> tall = scaled<T>(rank, tall_->block(rank.index()), exponent());
      outcome.residual = relative(certificate.residual(tall, u.block(rank.index()), h, own),
                                  norm_of<T>(rank, tall));
      outcome.orthogonality = certificate.orthogonality(u.block(rank.index()));
      rank.kernels<T>().copy(rank.update(), scaled<T>(rank, h, -exponent()), h);
      const MatrixView<double> maxima = rank.workspace<double>(h.columns(), 1);
      rank.kernels<T>().column_max(rank.update(), h, maxima.data());
      double most = 0.0;
      for (const double one : rank.fetch(rank.update(), maxima.data(), h.columns())) {
        most = programs::largest(most, one);
      }
      if (!std::isfinite(programs::largest_of_all(rank, most))) {
        outcome.status = Status::overflow;
      }
      if (all) {
        gather(rank, problem_.columns, h, *all);
      }
      return outcome;
    });
  }

 private:
  using Base::add;
  using Base::exponent;
  using Base::look;
  using Base::outcome_;
  using Base::problem_;
  using Base::relative;
  using Base::run;
  using Base::task_;

  ByPolar(const Task<T>& task, const Problem& problem) : Base(task, problem, plan(task, problem)) {}

  static Plan plan(const Task<T>& task, const Problem& problem) {
    Plan plan = plan_of(problem, dtype_of<T>, task.wanted);
    if (task.gathers) {
      plan.workspace_bytes += bytes_to_gather(problem);
    }
    return plan;
  }
  Real eigenvalue(std::int64_t i) const { return eigenvalues_[static_cast<std::size_t>(i)]; }

  std::int64_t bytes_of_last() const {
    return last_bytes(problem_, dtype_of<T>) + (task_.gathers ? bytes_to_gather(problem_) : 0);
  }
  /// A square matrix, and this rank's columns of it twice.
  static std::int64_t bytes_to_gather(const Problem& problem) {
    return problem.size() * (problem.size() + 2 * problem.columns.max_width()) *
           static_cast<std::int64_t>(sizeof(T));
  }
  /// All columns of a square matrix to `all`, in the memory of this process.
  static void gather(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> own,
                     std::vector<T>& all) {
    std::vector<T> gathered = programs::gather_columns<T>(rank, layout, own);
    if (rank.leads()) {
      all = std::move(gathered);
    }
  }

  /// The rows of R of A 2^exponent = Q R.
  RowBlocks<T> triangle(const std::optional<RowBlocks<T>>& q) {
    const programs::MemoryOfCall<T> memory(task_.mesh);
    run(qr_bytes(problem_, dtype_of<T>), [*this, memory, q](mesh::Rank& rank) {
      const std::int64_t n = problem_.size();
      const MatrixView<T> r = memory.make(rank, problem_.columns.width(rank.index()), n);
      const MatrixView<T> a = scaled<T>(rank, tall_->block(rank.index()), exponent());
      const MatrixView<T> own_q =
          q ? q->block(rank.index()) : rank.workspace<T>(a.rows(), a.columns());
      const auto factored =
          qr::factor<T>(rank, problem_.rows.size(), a, column_maxima<T>(rank, a), own_q);
      qr::from_first(rank, factored.r);
      const auto all = rank.fetch(rank.update(), factored.r.data(), n * n);
      const GlobalRange own = problem_.columns.segment(rank.index());
      std::vector<T> rows;
      for (std::int64_t j = 0; j < n; ++j) {
        const std::int64_t back = -factored.exponents[static_cast<std::size_t>(j)];
        for (std::int64_t i = own.begin.value(); i < own.end.value(); ++i) {
          rows.push_back(qr::times_power<T>(all[static_cast<std::size_t>(i + j * n)], back));
        }
      }
      rank.update().copy(r.data(), rows.data(), rows.size() * sizeof(T));
      rank.finish(rank.update());
      return Outcome{};
    });
    return memory.rows(problem_.columns);
  }
  /// What the rows of core_ are to be multiplied by.
  int exponent_of_core() const { return problem_.by_qr ? 0 : exponent(); }

  /// X = A / ||A||, Frobenius.
  bool start() {
    const programs::MemoryOfCall<T> memory(task_.mesh);
    const bool started = run(core_bytes(problem_, dtype_of<T>), [*this, memory](mesh::Rank& rank) {
      const MatrixView<T> rows = scaled<T>(rank, core_->block(rank.index()), exponent_of_core());
      const double norm = norm_of<T>(rank, rows);
      // X^H by columns, in memory of as many numbers
      const MatrixView<T> held = memory.make(rank, rows.rows(), rows.columns());
      const MatrixView<T> x(held.data(), held.columns(), held.rows());
      rank.kernels<T>().conjugate_transpose(rank.update(), rows, x);
      rank.kernels<T>().scale(rank.update(), static_cast<Real>(norm > 0.0 ? 1.0 / norm : 1.0), x);
      rank.finish(rank.update());
      return Outcome{};
    });
    x_ = memory.rows(problem_.core.rows);
    return started;
  }

  bool iterate_to_end() {
    // Half of a singular value that is seen may be more than the smallest, if hardly: then some are
    // left, which are seen the next time. Random columns that are added are far from 0.
    constexpr int most_times = 6;
    double least = least_of_any<T>();
    for (int time = 0; time < most_times; ++time) {
      const bool looks = time < 2 && least < least_when_completed;
      const std::optional<bool> found = iterate(least, looks);
      if (!found) {
        return false;
      }
      const auto deviation = std::make_shared<double>(0.0);
      run(core_bytes(problem_, dtype_of<T>),
          [*this, deviation, completes = !*found](mesh::Rank& rank) {
            const double left =
                polish_or_complete<T>(rank, problem_.core, completes, as_columns(*x_, rank));
            if (rank.leads()) {
              *deviation = left;
            }
            return Outcome{};
          });
      if (is_polished<T>(*deviation)) {
        return true;
      }
      least = *found ? least : least_when_completed;
    }
    outcome_.status = Status::not_converged;
    return false;
  }
  /// Until singular values of at least `least` are 1. Where one `looks`, a larger bound may be
  /// found on the way: whether it was; nothing if an iteration has failed.
  std::optional<bool> iterate(double least, bool looks) {
    bool found = false;
    // Without a bound that was found X may have to be completed.
    const auto count = [&] { return found ? problem_.size() : std::int64_t{0}; };
    for (std::int64_t done = 0; !is_at_end<T>(least, count()); ++done) {
      const Weights weights = weights_at<T>(least);
      const double fraction = static_cast<double>(done) /
                              static_cast<double>(done + iterations_from<T>(least, count()));
      const auto seen = looks && !found ? std::make_shared<double>(0.0) : nullptr;
      if (!run(core_bytes(problem_, dtype_of<T>),
               [*this, weights, fraction, seen](mesh::Rank& rank) {
                 rank.report("polar", fraction);
                 double own = 0.0;
                 const Outcome outcome =
                     svd::iterate<T>(rank, problem_.core, weights, as_columns(*x_, rank),
                                     seen != nullptr ? &own : nullptr);
                 if (seen != nullptr && rank.leads()) {
                   *seen = own;
                 }
                 return outcome;
               })) {
        return std::nullopt;
      }
      if (seen != nullptr && *seen > least) {
        found = true;
        least = *seen;
      }
      least = weights.least_after(least);
    }
    return found;
  }

  /// H, in the given memory or in that of the call.
  bool make_hermitian(const std::optional<ShardedMatrix<T>>& given) {
    const programs::MemoryOfCall<T> memory(task_.mesh);
    const bool made = run(core_bytes(problem_, dtype_of<T>), [*this, given,
                                                              memory](mesh::Rank& rank) {
      const MatrixView<T> h =
          given ? given->slab(rank.index())
                : memory.make(rank, problem_.size(), problem_.columns.width(rank.index()));
      const MatrixView<T> rows = scaled<T>(rank, core_->block(rank.index()), exponent_of_core());
      hermitian_factor<T>(rank, problem_.core, as_columns(*x_, rank), adjoint_of<T>(rank, rows), h);
      return Outcome{};
    });
    h_ = given ? *given : memory.matrix(problem_.columns);
    return made;
  }

  /// The rows of U, or of Q U where QR came first and `target` has Q; `uh` has U^H by columns.
  void write_rows(mesh::Rank& rank, Relay<T>& relay, MatrixView<const T> uh,
                  MatrixView<T> target) const {
    if (!problem_.by_qr) {
      rank.kernels<T>().conjugate_transpose(rank.update(), uh, target);
      return;
    }
    const MatrixView<T> qh = adjoint_of<T>(rank, target);
    const MatrixView<T> product = rank.workspace<T>(qh.rows(), qh.columns());
    relay.times(problem_.columns, uh, qh, product);
    rank.kernels<T>().conjugate_transpose(rank.update(), product, target);
  }

  std::optional<RowBlocks<T>> tall_;  // what is worked on
  std::optional<RowBlocks<T>> core_;  // that, or R
  std::optional<RowBlocks<T>> x_;     // X^H by columns, in memory of as many numbers
  std::optional<ShardedMatrix<T>> h_;
  std::vector<Real> eigenvalues_;
  std::vector<std::int64_t> order_;  // of eigenvalues, for singular values to descend
  std::vector<Real> sizes_;          // singular values of what was scaled, as they are returned
};

}  // namespace

template <Scalar T>
SingularValues<T> svd_by_polar(const Task<T>& task, const Places<T>& places) {
  ByPolar<T> call(task);
  SingularValues<T> found;
  if (call.factor(places.u, std::nullopt)) {
    found.values = call.find_values();
    if (!found.values.empty() && task.wanted == Wanted::vectors) {
      const std::int64_t n = call.problem().size();
      call.write_vectors(
          *places.u,
          places.v ? *places.v
                   : programs::make_rows_together<T>(task.mesh, task.of_columns, n, task.options),
          places.vh);
    }
  }
  found.outcome = call.outcome();
  if (!found.outcome.ok()) {
    found.values.clear();
  }
  return found;
}

template <Scalar T>
Outcome polar_by_products(const Task<T>& task, const RowBlocks<T>& u,
                          const std::optional<ShardedMatrix<T>>& h,
                          const std::shared_ptr<std::vector<T>>& all) {
  ByPolar<T> call(task);
  if (call.factor(u, h)) {
    call.write_polar(u, all);
  }
  return call.outcome();
}

#define SHARDSOLVE_INSTANTIATE(T)                                            \
  template SingularValues<T> svd_by_polar(const Task<T>&, const Places<T>&); \
  template Outcome polar_by_products(const Task<T>&, const RowBlocks<T>&,    \
                                     const std::optional<ShardedMatrix<T>>&, \
                                     const std::shared_ptr<std::vector<T>>&);

SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::svd
