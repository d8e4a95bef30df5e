// The public calls of svd.hpp: each checks its arguments and goes step by step. What steps leave to
// each other is kept where the ranks compute.

#include "core/each_dtype.hpp"
#include "core/floating_point.hpp"
#include "dense/qr/column_norms.hpp"
#include "dense/qr/factor.hpp"
#include "dense/qr/first_rank.hpp"
#include "dense/qr/powers.hpp"
#include "dense/qr/wide_solve.hpp"
#include "dense/shared/right_hand_sides.hpp"
#include "dense/svd/certificate.hpp"
#include "dense/svd/polar_factor.hpp"
#include "dense/svd/problem.hpp"
#include "dense/svd/relay.hpp"
#include "programs/gather.hpp"
#include "programs/memory_of_call.hpp"
#include "programs/public_call.hpp"
#include "programs/require_reachable.hpp"
#include "runtime/qr_kernels.hpp"

#include <shardsolve/eigh.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/svd.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::dense::svd {
namespace {

template <Scalar T>
void require_shape(const RowBlocks<T>& a) {
  if (a.layout().size() == 0 || a.columns() == 0) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("a matrix of {} x {} was given: rows and columns are needed",
                            a.layout().size(), a.columns()));
  }
}

template <Scalar T>
void require_tall(const char* call, const RowBlocks<T>& a) {
  if (a.layout().size() < a.columns()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} of a matrix of {} x {}: at least as many rows as columns are "
                            "needed; of fewer rows take the adjoint",
                            call, a.layout().size(), a.columns()));
  }
}

/// Throws Error(invalid_argument) unless `given` has these rows and columns, cut as `layout` if
/// there is one.
template <Scalar T>
void require_result(const char* name, const RowBlocks<T>& given, std::int64_t rows,
                    std::int64_t columns, const SlabLayout* layout) {
  if (given.layout().size() != rows || given.columns() != columns) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} is {} x {}: {} x {} is what is written", name,
                            given.layout().size(), given.columns(), rows, columns));
  }
  if (layout != nullptr && given.layout().boundaries() != layout->boundaries()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("A and {} are cut at different rows: use one layout for both", name));
  }
}

/// A block of `held`, w x n and without gaps, as n x w.
template <Scalar T>
MatrixView<T> as_columns(const RowBlocks<T>& held, const mesh::Rank& rank) {
  const MatrixView<T> block = held.block(rank.index());
  return {block.data(), block.columns(), block.rows()};
}

/// `rows` times 2^exponent, in memory of this call.
template <Scalar T>
MatrixView<T> scaled(mesh::Rank& rank, MatrixView<const T> rows, std::int64_t exponent) {
  const MatrixView<T> target = rank.workspace<T>(rows.rows(), rows.columns());
  const std::vector<std::int64_t> exponents(static_cast<std::size_t>(rows.columns()), exponent);
  const std::int64_t* const there =
      rank.upload(rank.update(), exponents.data(), static_cast<std::int64_t>(exponents.size()));
  rank.kernels<runtime::QrKernels<T>>().scale_columns(rank.update(), rows, there, target);
  return target;
}

/// The conjugate transpose, in memory of this call.
template <Scalar T>
MatrixView<T> adjoint_of(mesh::Rank& rank, MatrixView<const T> rows) {
  const MatrixView<T> target = rank.workspace<T>(rows.columns(), rows.rows());
  rank.kernels<T>().conjugate_transpose(rank.update(), rows, target);
  return target;
}

/// Norm over all ranks, Frobenius.
template <Scalar T>
double norm_of(mesh::Rank& rank, MatrixView<const T> rows) {
  double sum = 0.0;
  for (const double norm : qr::column_norms<T>(rank, rows)) {
    sum += norm * norm;
  }
  return std::sqrt(sum);
}

/// What a look at A has found.
struct Looked {
  int exponent = 0;  ///< A times 2^exponent has entries of size 1
};

/// One call, step by step.
template <Scalar T>
class Call {
 public:
  using Real = RealOf<T>;

  /// `gathers`: whether a square matrix is to go to all processes.
  Call(const char* name, Mesh& mesh, const RowBlocks<T>& a, const SlabLayout& of_columns,
       Wanted wanted, const RunOptions& options, bool gathers = false)
      : name_(name),
        mesh_(mesh),
        a_(a),
        options_(options),
        wanted_(wanted),
        problem_(a.layout(), of_columns),
        gathers_(gathers) {}

  /// The polar factor of A, or of A^H if A has fewer rows than columns: X by columns, and H in `h`.
  /// `q` receives Q where QR comes first. False if there is none.
  bool factor(const std::optional<RowBlocks<T>>& q, const std::optional<ShardedMatrix<T>>& h) {
    if (!look()) {
      return false;
    }
    tall_ = problem_.is_adjoint ? adjoint() : a_;
    core_ = problem_.by_qr ? triangle(q) : tall_;
    return start() && iterate_to_end() && make_hermitian(h);
  }

  /// H = V diag(w) V^H: singular values, and how the eigenvectors are to be sorted. V^H takes the
  /// place of H.
  std::vector<Real> find_values() {
    const EighRequest request{.vectors = wanted_ == Wanted::vectors, .adjoint = true};
    const Eigenvalues<T> found = eigh(mesh_, *h_, request, options_);
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
    for (const std::int64_t i : order_) {
      values.push_back(std::ldexp(std::abs(eigenvalue(i)), -exponent()));
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
      std::vector<Real> sizes;
      for (std::size_t i = 0; i < order_.size(); ++i) {
        kernels.copy(rank.update(), given.block(order_[i], 0, 1, given.columns()),
                     vh.block(static_cast<std::int64_t>(i), 0, 1, given.columns()));
        sizes.push_back(std::abs(eigenvalue(order_[i])));
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
      Outcome outcome;
      Certificate<T> certificate(rank);
      const GlobalRange own = problem_.columns.segment(rank.index());
      const MatrixView<T> tall = scaled<T>(rank, tall_->block(rank.index()), exponent());
      const double rest =
          certificate.residual(tall, u.block(rank.index()), sizes, v.block(rank.index()), own);
      outcome.residual = relative(rest, norm_of<T>(rank, tall));
      outcome.orthogonality = std::max(certificate.orthogonality(u.block(rank.index())),
                                       certificate.orthogonality(v.block(rank.index())));
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

  const Problem& problem() const { return problem_; }
  const Outcome& outcome() const { return outcome_; }

 private:
  int exponent() const { return looked_->exponent; }
  Real eigenvalue(std::int64_t i) const { return eigenvalues_[static_cast<std::size_t>(i)]; }
  static double relative(double rest, double norm) { return norm > 0.0 ? rest / norm : rest; }

  std::int64_t bytes_of_last() const {
    return last_bytes(problem_, dtype_of<T>) + (gathers_ ? bytes_to_gather() : 0);
  }
  /// A square matrix, and this rank's columns of it twice.
  std::int64_t bytes_to_gather() const {
    return problem_.size() * (problem_.size() + 2 * problem_.columns.max_width()) *
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

  /// One step. Its outcome takes the place of the one before, but for costs.
  bool run(std::int64_t bytes, std::function<Outcome(mesh::Rank&)> program) {
    Plan plan = plan_of(problem_, dtype_of<T>, wanted_);
    plan.workspace_bytes = bytes;
    const programs::PublicCall call{name_, mesh_, problem_.columns, plan, options_};
    const Outcome before = outcome_;
    outcome_ = call.run(std::move(program));
    programs::add_cost(outcome_, before);
    return outcome_.ok();
  }
  void add(const Outcome& other) { programs::add_cost(outcome_, other); }

  bool look() {
    Plan plan = plan_of(problem_, dtype_of<T>, wanted_);
    if (gathers_) {
      plan.workspace_bytes += bytes_to_gather();
    }
    const std::int64_t available = programs::memory_for(mesh_, plan.workspace_bytes);
    const std::int64_t bytes = 64 * a_.columns() * (a_.layout().ranks() + 4);
    return run(bytes, [looked = looked_, a = a_, plan, available,
                       job = fmt::format("the workspace of {}", name_)](mesh::Rank& rank) {
      static_cast<void>(rank.kernels<runtime::QrKernels<T>>());  // throws where there are none
      if (rank.leads()) {
        plan.require(plan.workspace_bytes, available, job);
      }
      programs::require_reachable(rank, a);
      rank.report("check", 0.0);
      CheckedSides checked = check_right_hand_sides<T>(rank, a.layout(), a.block(rank.index()));
      if (checked.outcome.location) {
        checked.outcome.location->what = Located::matrix_entry;
      }
      if (rank.leads() && checked.outcome.ok()) {
        const double most = *std::max_element(checked.maxima.begin(), checked.maxima.end());
        int exponent = 0;
        static_cast<void>(std::frexp(most, &exponent));
        looked->exponent = -exponent;
      }
      return checked.outcome;
    });
  }

  /// A^H by rows.
  RowBlocks<T> adjoint() {
    const programs::MemoryOfCall<T> memory(mesh_);
    run(adjoint_bytes(problem_, dtype_of<T>),
        [memory, a = a_, layout = problem_.rows, n = problem_.size()](mesh::Rank& rank) {
          const MatrixView<T> rows = memory.make(rank, layout.width(rank.index()), n);
          const MatrixView<T> made =
              qr::adjoint_rows<T>(rank, a.layout(), a.block(rank.index()), layout, std::int64_t{0});
          rank.kernels<T>().copy(rank.update(), made, rows);
          rank.finish(rank.update());
          return Outcome{};
        });
    return memory.rows(problem_.rows);
  }

  /// The rows of R of A 2^exponent = Q R.
  RowBlocks<T> triangle(const std::optional<RowBlocks<T>>& q) {
    const programs::MemoryOfCall<T> memory(mesh_);
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
    const programs::MemoryOfCall<T> memory(mesh_);
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
    // Random columns that are added are far from 0, so the second time is the last.
    constexpr int most_times = 3;
    for (int time = 0; time < most_times; ++time) {
      const std::vector<Weights> all =
          iterations<T>(time == 0 ? least_of_any<T>() : least_when_completed);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const double fraction = static_cast<double>(i) / static_cast<double>(all.size());
        if (!run(core_bytes(problem_, dtype_of<T>),
                 [*this, weights = all[i], fraction](mesh::Rank& rank) {
                   rank.report("polar", fraction);
                   return iterate<T>(rank, problem_.core, weights, as_columns(*x_, rank));
                 })) {
          return false;
        }
      }
      const auto deviation = std::make_shared<double>(0.0);
      run(core_bytes(problem_, dtype_of<T>), [*this, deviation](mesh::Rank& rank) {
        const double left = polish_or_complete<T>(rank, problem_.core, as_columns(*x_, rank));
        if (rank.leads()) {
          *deviation = left;
        }
        return Outcome{};
      });
      if (is_polished<T>(*deviation)) {
        return true;
      }
    }
    outcome_.status = Status::not_converged;
    return false;
  }

  /// H, in the given memory or in that of the call.
  bool make_hermitian(const std::optional<ShardedMatrix<T>>& given) {
    const programs::MemoryOfCall<T> memory(mesh_);
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

  const char* name_;
  Mesh& mesh_;
  RowBlocks<T> a_;
  RunOptions options_;
  Wanted wanted_;
  Problem problem_;
  bool gathers_;
  Outcome outcome_;
  std::shared_ptr<Looked> looked_ = std::make_shared<Looked>();
  std::optional<RowBlocks<T>> tall_;  // what is worked on
  std::optional<RowBlocks<T>> core_;  // that, or R
  std::optional<RowBlocks<T>> x_;     // X^H by columns, in memory of as many numbers
  std::optional<ShardedMatrix<T>> h_;
  std::vector<Real> eigenvalues_;
  std::vector<std::int64_t> order_;  // of eigenvalues, for singular values to descend
};

}  // namespace
}  // namespace shardsolve::dense::svd

namespace shardsolve {

using dense::svd::Wanted;

template <Scalar T>
SingularValues<T> svd(Mesh& mesh, const RowBlocks<T>& a, RowBlocks<T> u, RowBlocks<T> v,
                      const RunOptions& options) {
  dense::svd::require_shape(a);
  const std::int64_t least = std::min(a.layout().size(), a.columns());
  dense::svd::require_result("u", u, a.layout().size(), least, &a.layout());
  dense::svd::require_result<T>("v", v, a.columns(), least, nullptr);
  dense::svd::Call<T> call("svd", mesh, a, v.layout(), Wanted::vectors, options);
  const bool turned = call.problem().is_adjoint;
  const RowBlocks<T>& left = turned ? v : u;
  SingularValues<T> found;
  if (call.factor(left, std::nullopt)) {
    found.values = call.find_values();
    if (!found.values.empty()) {
      call.write_vectors(left, turned ? u : v);
    }
  }
  found.outcome = call.outcome();
  if (!found.outcome.ok()) {
    found.values.clear();
  }
  return found;
}

template <Scalar T>
SingularVectors<T> svd(Mesh& mesh, const RowBlocks<T>& a, RowBlocks<T> u,
                       const RunOptions& options) {
  dense::svd::require_shape(a);
  dense::svd::require_tall("svd with all of V everywhere", a);
  const std::int64_t n = a.columns();
  dense::svd::require_result("u", u, a.layout().size(), n, &a.layout());
  const SlabLayout even = SlabLayout::even(n, a.layout().ranks(), a.layout().tile());
  dense::svd::Call<T> call("svd", mesh, a, even, Wanted::vectors, options, true);
  SingularVectors<T> found;
  const auto vh = std::make_shared<std::vector<T>>();
  if (call.factor(u, std::nullopt)) {
    found.values = call.find_values();
    if (!found.values.empty()) {
      call.write_vectors(u, programs::make_rows_together<T>(mesh, even, n, options), vh);
    }
  }
  found.outcome = call.outcome();
  if (!found.outcome.ok()) {
    found.values.clear();
    return found;
  }
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      const T entry = (*vh)[static_cast<std::size_t>(j + i * n)];
      if constexpr (is_complex<T>) {
        found.v.push_back(std::conj(entry));
      } else {
        found.v.push_back(entry);
      }
    }
  }
  return found;
}

template <Scalar T>
SingularValues<T> svdvals(Mesh& mesh, const RowBlocks<T>& a, const RunOptions& options) {
  dense::svd::require_shape(a);
  const SlabLayout even = SlabLayout::even(a.columns(), a.layout().ranks(), a.layout().tile());
  dense::svd::Call<T> call("svdvals", mesh, a, even, Wanted::values, options);
  SingularValues<T> found;
  if (call.factor(std::nullopt, std::nullopt)) {
    found.values = call.find_values();
  }
  found.outcome = call.outcome();
  return found;
}

template <Scalar T>
Outcome polar(Mesh& mesh, const RowBlocks<T>& a, RowBlocks<T> u, ShardedMatrix<T> h,
              const RunOptions& options) {
  dense::svd::require_shape(a);
  dense::svd::require_tall("polar", a);
  dense::svd::require_result("u", u, a.layout().size(), a.columns(), &a.layout());
  if (h.layout().size() != a.columns()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("h is {0} x {0}: {1} x {1} is what is written", h.layout().size(),
                            a.columns()));
  }
  dense::svd::Call<T> call("polar", mesh, a, h.layout(), Wanted::polar, options);
  if (call.factor(u, h)) {
    call.write_polar(u);
  }
  return call.outcome();
}

template <Scalar T>
PolarFactor<T> polar(Mesh& mesh, const RowBlocks<T>& a, RowBlocks<T> u, const RunOptions& options) {
  dense::svd::require_shape(a);
  dense::svd::require_tall("polar", a);
  dense::svd::require_result("u", u, a.layout().size(), a.columns(), &a.layout());
  const SlabLayout even = SlabLayout::even(a.columns(), a.layout().ranks(), a.layout().tile());
  dense::svd::Call<T> call("polar", mesh, a, even, Wanted::polar, options, true);
  const auto h = std::make_shared<std::vector<T>>();
  if (call.factor(u, std::nullopt)) {
    call.write_polar(u, h);
  }
  if (!call.outcome().ok()) {
    return {{}, call.outcome()};
  }
  return {std::move(*h), call.outcome()};
}

#define SHARDSOLVE_INSTANTIATE(T)                                                               \
  template SingularVectors<T> svd(Mesh&, const RowBlocks<T>&, RowBlocks<T>, const RunOptions&); \
  template PolarFactor<T> polar(Mesh&, const RowBlocks<T>&, RowBlocks<T>, const RunOptions&);   \
  template SingularValues<T> svd(Mesh&, const RowBlocks<T>&, RowBlocks<T>, RowBlocks<T>,        \
                                 const RunOptions&);                                            \
  template SingularValues<T> svdvals(Mesh&, const RowBlocks<T>&, const RunOptions&);            \
  template Outcome polar(Mesh&, const RowBlocks<T>&, RowBlocks<T>, ShardedMatrix<T>,            \
                         const RunOptions&);

SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve
