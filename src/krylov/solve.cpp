// The public call: checks its arguments, scales b, runs the rounds, and reads the verdict.

#include "core/each_dtype.hpp"
#include "krylov/agreement.hpp"
#include "krylov/linear_operator.hpp"
#include "krylov/operators.hpp"
#include "krylov/plan.hpp"
#include "krylov/problem.hpp"
#include "krylov/rounds.hpp"
#include "krylov/spelling.hpp"
#include "krylov/statuses.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/require_part.hpp"
#include "mesh/require_ranks.hpp"
#include "programs/apart.hpp"
#include "programs/gather.hpp"
#include "programs/public_call.hpp"
#include "runtime/krylov/ends.hpp"
#include "runtime/krylov_kernels.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/krylov.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <vector>

namespace shardsolve::krylov {
namespace {

template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Error(ErrorKind::invalid_argument,
              fmt::format(text, std::forward<Arguments>(arguments)...));
}

/// With the tolerance of a dtype where none was asked for.
Options with_tolerance(Options options, Dtype dtype) {
  options.rtol = options.rtol.value_or(default_rtol(dtype));
  return options;
}

/// What problem_of() is given.
Asked asked_of(const Options& options, std::int64_t n) {
  return {.method = options.method,
          .n = n,
          .restart = options.restart,
          .rtol = options.rtol.value(),
          .atol = options.atol,
          .max_iterations = options.max_iterations,
          .log = options.log};
}

template <Scalar T>
void require_vectors(const Mesh& mesh, const RightHandSides<T>& b, const RightHandSides<T>& x) {
  mesh::require_ranks(mesh, b.layout());
  if (b.columns() != 1 || x.columns() != 1) {
    refuse("b has {} columns and x {}; each must have 1 (solve for several one by one)",
           b.columns(), x.columns());
  }
  if (b.layout().boundaries() != x.layout().boundaries()) {
    refuse("x is cut at other rows than b; cut both alike");
  }
}

/// Whether some of the ranks lie in other processes.
bool is_in_processes(const Mesh& mesh) {
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    if (!mesh.state().is_here(rank)) {
      return true;
    }
  }
  return false;
}

template <Scalar T>
Scan scan(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> x) {
  const MatrixView<Scan> found = rank.workspace<Scan>(1, 1);
  rank.kernels<runtime::KrylovKernels<T>>().scan(rank.update(), x, found.data());
  const Scan mine = rank.fetch(rank.update(), found.data(), 1).front();
  Scan whole{.exponent = Scan::zero};
  std::int64_t r = 0;
  for (const auto& one : programs::gather_from_all(rank, std::vector<Scan>{mine})) {
    merge(whole, one[0], layout.segment(r++).begin.value());
  }
  return whole;
}

/// What the ranks find out, written by the first rank of a process.
struct Found {
  Status status = Status::running;
  State state;
  std::vector<Record> records;
  std::int64_t row = -1;
};

/// One rank's share of a solve.
template <Scalar T>
class Solve {
 public:
  using Real = RealOf<T>;

  Solve(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> b, MatrixView<T> x,
        const Options& options)
      : rank_(rank), layout_(layout), b_(b), x_(x), options_(options) {}

  Found run(const Operator<T>& a, const Operator<T>* preconditioner) {
    Found found;
    const Scan in_b = scan<T>(rank_, layout_, b_);
    const Scan in_x =
        options_.use_guess ? scan<T>(rank_, layout_, x_) : Scan{.exponent = Scan::zero};
    found.status = status_of(in_b, in_x);
    found.row = in_b.first_nonfinite >= 0 ? in_b.first_nonfinite : in_x.first_nonfinite;
    if (found.status != Status::running) {
      clear_x();
      return found;
    }
    exponent_ = static_cast<int>(exponent_of(in_b));
    guess_exponent_ =
        static_cast<int>(too_much_for(in_x, exponent_, std::numeric_limits<Real>::max_exponent));
    guess_size_ = static_cast<int>(size_of_guess(in_x, exponent_ - guess_exponent_));
    const auto make_a = a.make()(rank_, layout_);
    const auto make_m = preconditioner == nullptr ? make_identity<T>(b_.rows())
                                                  : preconditioner->make()(rank_, layout_);
    const Problem problem = this->problem(make_a->is_twofold());
    Rounds<T> rounds(rank_, layout_, problem, exponent_, *make_a, *make_m);
    scale_into(rounds);
    while (rounds.may_go_on()) {
      rounds.take_turn();
    }
    found.state = rounds.state();
    found.records = rounds.records(found.state);
    found.status = found.state.status;
    give_back(problem, rounds.vector(vector_x), found);
    return found;
  }

 private:
  Problem problem(bool is_twofold) const {
    Asked asked = asked_of(options_, layout_.size());
    asked.is_twofold = is_twofold;
    asked.has_bounds = is_twofold;
    Problem problem = problem_of(asked, dtype_of<T>);
    problem.guess_exponent = guess_exponent_;
    problem.guess_size = guess_size_;
    return problem;
  }

  void scale_into(Rounds<T>& rounds) {
    const auto& kernels = rank_.kernels<runtime::KrylovKernels<T>>();
    kernels.scale_exactly(rank_.update(), exponent_, b_, rounds.vector(vector_b));
    if (options_.use_guess) {
      kernels.scale_exactly(rank_.update(), exponent_ - guess_exponent_, x_,
                            rounds.vector(vector_x));
    }
  }

  void clear_x() {
    rank_.kernels<T>().fill(rank_.update(), T{0}, x_);
    rank_.finish(rank_.update());
  }

  /// x of the scaled system to the caller's.
  void give_back(const Problem& problem, MatrixView<T> x, Found& found) {
    exponent_ -= found.state.scaling_a.exponent;
    const Scan in_x = scan<T>(rank_, layout_, x);
    if (leaves_range<Real>(problem, found.state, in_x, exponent_)) {
      found.status = Status::overflow;
    }
    if (ends_as_zero(found.state, found.status)) {
      clear_x();
      return;
    }
    rank_.kernels<runtime::KrylovKernels<T>>().scale_exactly(rank_.update(), -exponent_, x, x_);
    rank_.finish(rank_.update());
  }

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<const T> b_;
  MatrixView<T> x_;
  const Options& options_;
  int exponent_ = 0;
  int guess_exponent_ = 0;
  int guess_size_ = 0;
};

std::complex<double> to_complex(const Number& x) { return {x.re, x.im}; }

Result result_of(const Found& found, const Problem& problem) {
  const Report report = report_of(problem, found.state, found.status, found.row);
  Result result;
  result.status = found.status;
  result.outcome.status = outcome_status(found.status);
  if (found.row >= 0) {
    result.outcome.location = Location::in_right_hand_sides(GlobalIndex(found.row), GlobalIndex(0));
  }
  result.iterations = report.iterations;
  result.matvecs = report.matvecs;
  result.restarts = report.restarts;
  result.residual = report.residual;
  result.tolerance = report.tolerance;
  result.margin = report.margin;
  result.is_marginal = report.is_marginal != 0;
  result.condition = report.condition;
  result.error_estimate = report.error_estimate;
  result.message = message(report, cycle_of(problem));
  for (const Record& record : found.records) {
    result.log.push_back({.iteration = record.iteration,
                          .event = static_cast<Event>(record.event),
                          .status = static_cast<Status>(record.status),
                          .residual = record.residual,
                          .rho = to_complex(record.rho),
                          .alpha = to_complex(record.alpha),
                          .omega = to_complex(record.omega)});
  }
  return result;
}

template <Scalar T>
Result solve_with(Mesh& mesh, const Operator<T>& a, const Operator<T>* preconditioner,
                  const RightHandSides<T>& b, const RightHandSides<T>& x, const Options& given,
                  const RunOptions& run) {
  require_options(given);
  const Options options = with_tolerance(given, dtype_of<T>);
  require_vectors(mesh, b, x);
  const auto m =
      preconditioner == nullptr ? nullptr : std::make_shared<const Operator<T>>(*preconditioner);
  // Shared with the ranks: one that never comes back may still write to it.
  const auto found = std::make_shared<Found>();
  const bool has_processes = is_in_processes(mesh);
  const std::int64_t wanted = plan_krylov_solve(b.layout(), dtype_of<T>, options).workspace_bytes;
  const std::int64_t available = programs::memory_for(mesh, wanted);
  const mesh::CallCost cost = mesh.state().run(
      run, [a, m, b, x, options, found, has_processes, wanted, available](mesh::Rank& rank) {
        if (rank.leads()) {  // each process has memory of its own
          require_workspace(options, wanted, available, rank.count());
        }
        mesh::require_part(rank, b, "b");
        mesh::require_part(rank, x, "x");
        if (has_processes) {
          require_same_solve(rank, b.layout(), options, m != nullptr);
        }
        const MatrixView<T> own_b = b.block(rank.index());
        const MatrixView<T> own_x = x.block(rank.index());
        if (!own_b.empty()) {
          rank.require_device_memory(own_b.data(), b.memory(), "b");
          rank.require_device_memory(own_x.data(), x.memory(), "x");
        }
        programs::Apart().reads("b", b).writes("x", x).require(rank);
        Solve<T> solve(rank, b.layout(), own_b, own_x, options);
        Found mine = solve.run(a, m.get());
        if (rank.leads()) {
          *found = std::move(mine);
        }
      });
  Result result = result_of(*found, problem_of(asked_of(options, b.layout().size()), dtype_of<T>));
  result.outcome.seconds = cost.seconds;
  result.outcome.flops = std::accumulate(cost.flops.begin(), cost.flops.end(), 0.0);
  return result;
}

}  // namespace

template <Scalar T>
Result solve(Mesh& mesh, const Operator<T>& a, const RightHandSides<T>& b,
             const RightHandSides<T>& x, const Options& options, const RunOptions& run) {
  return solve_with<T>(mesh, a, nullptr, b, x, options, run);
}

template <Scalar T>
Result solve(Mesh& mesh, const Operator<T>& a, const Operator<T>& preconditioner,
             const RightHandSides<T>& b, const RightHandSides<T>& x, const Options& options,
             const RunOptions& run) {
  return solve_with<T>(mesh, a, &preconditioner, b, x, options, run);
}

#define SHARDSOLVE_INSTANTIATE(T)                                                                \
  template Result solve(Mesh&, const Operator<T>&, const RightHandSides<T>&,                     \
                        const RightHandSides<T>&, const Options&, const RunOptions&);            \
  template Result solve(Mesh&, const Operator<T>&, const Operator<T>&, const RightHandSides<T>&, \
                        const RightHandSides<T>&, const Options&, const RunOptions&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
