// The public call: checks its arguments, scales b, runs the rounds, and reads the verdict.

#include "core/each_dtype.hpp"
#include "dense/shared/gather.hpp"
#include "krylov/linear_operator.hpp"
#include "krylov/methods.hpp"
#include "krylov/operators.hpp"
#include "krylov/rounds.hpp"
#include "krylov/statuses.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/require_part.hpp"
#include "mesh/require_ranks.hpp"
#include "runtime/krylov_kernels.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/krylov.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

namespace shardsolve::krylov {
namespace {

constexpr std::int64_t most_records = std::int64_t{1} << 16;

template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Error(ErrorKind::invalid_argument,
              fmt::format(text, std::forward<Arguments>(arguments)...));
}

void require_valid(const Options& options) {
  const auto is_tolerance = [](double value) { return value >= 0.0 && std::isfinite(value); };
  if (!is_tolerance(options.rtol) || !is_tolerance(options.atol)) {
    refuse("rtol = {} and atol = {} given; finite numbers from 0 on are accepted", options.rtol,
           options.atol);
  }
  if (options.rtol == 0.0 && options.atol == 0.0) {
    refuse("rtol = 0 and atol = 0 given: no residual is that small; give one of them");
  }
  if (options.method > Method::fgmres) {
    refuse("method number {} given; cg, minres, bicgstab and fgmres are accepted",
           static_cast<int>(options.method));
  }
  if (options.max_iterations < 1) {
    refuse("max_iterations = {} given; at least 1 is accepted", options.max_iterations);
  }
  constexpr std::int64_t most_restart = 1000;
  if (options.method == Method::fgmres && (options.restart < 1 || options.restart > most_restart)) {
    refuse("restart = {} given; 1 to {} is accepted, usually 20 to 100", options.restart,
           most_restart);
  }
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
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const auto* const b_begin = b.block(rank).data();
    const auto* const x_begin = x.block(rank).data();
    const std::int64_t rows = b.block(rank).rows();
    if (rows > 0 && std::less<>{}(b_begin, x_begin + rows) &&
        std::less<>{}(x_begin, b_begin + rows)) {
      refuse("b and x share memory on rank {}; give x memory of its own", rank);
    }
  }
}

/// What a scan of a vector finds on all ranks.
struct WholeScan {
  std::int64_t nonfinite_row = -1;  ///< of the whole vector
  std::int64_t exponent = runtime::Scan::zero;

  bool is_zero() const { return exponent == runtime::Scan::zero; }
};

template <Scalar T>
WholeScan scan(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> x) {
  const MatrixView<runtime::Scan> found = rank.workspace<runtime::Scan>(1, 1);
  rank.kernels<runtime::KrylovKernels<T>>().scan(rank.update(), x, found.data());
  runtime::Scan mine = rank.fetch(rank.update(), found.data(), 1).front();
  if (mine.first_nonfinite >= 0) {
    mine.first_nonfinite += layout.segment(rank.index()).begin.value();
  }
  WholeScan whole;
  for (const auto& one : dense::gather_from_all(rank, std::vector<runtime::Scan>{mine})) {
    if (whole.nonfinite_row < 0) {
      whole.nonfinite_row = one[0].first_nonfinite;
    }
    whole.exponent = std::max(whole.exponent, one[0].exponent);
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
    const WholeScan in_b = scan<T>(rank_, layout_, b_);
    const WholeScan in_x = options_.use_guess ? scan<T>(rank_, layout_, x_) : WholeScan{};
    found.status = in_b.nonfinite_row >= 0   ? Status::nonfinite_rhs
                   : in_x.nonfinite_row >= 0 ? Status::nonfinite_guess
                   : in_b.is_zero()          ? Status::zero_rhs
                                             : Status::running;
    found.row = in_b.nonfinite_row >= 0 ? in_b.nonfinite_row : in_x.nonfinite_row;
    if (found.status != Status::running) {
      clear_x();
      return found;
    }
    exponent_ = exponent_of(in_b, in_x);
    const auto make_a = a.make()(rank_, layout_);
    const auto make_m = preconditioner == nullptr ? make_identity<T>(b_.rows())
                                                  : preconditioner->make()(rank_, layout_);
    const Problem problem = this->problem();
    Rounds<T> rounds(rank_, layout_, problem, *make_a, *make_m, reductions_of(problem));
    const MatrixView<T> x = add_vectors(rounds);
    const auto method = make_method<T>(problem, rounds);
    while (rounds.may_go_on()) {
      method->enqueue(rounds);
      rounds.end_round();
    }
    found.state = rounds.state();
    found.records = rounds.records(found.state);
    found.status = found.state.status;
    give_back(x, found);
    return found;
  }

 private:
  /// b and x times 2^exponent are what is worked on: the largest part of b is then in [1/2, 1). A
  /// guess that is much larger than b decides otherwise.
  int exponent_of(const WholeScan& in_b, const WholeScan& in_x) const {
    constexpr std::int64_t largest_guess = std::numeric_limits<Real>::max_exponent / 4;
    std::int64_t exponent = -in_b.exponent;
    if (!in_x.is_zero()) {
      exponent = std::min(exponent, largest_guess - in_x.exponent);
    }
    return static_cast<int>(exponent);
  }

  Problem problem() const {
    const double u = unit_roundoff<T>;
    const auto n = static_cast<double>(layout_.size());
    Problem problem;
    problem.method = options_.method;
    problem.n = layout_.size();
    problem.cycle = options_.method == Method::fgmres ? options_.restart : 0;
    problem.roundoff = u;
    // A window of several decades is safe, a narrower one in float32; docs/design/krylov.md.
    const double most = std::is_same_v<Real, float> ? 5e3 : 9e5;
    problem.breakdown = std::clamp(16.0 * std::sqrt(n) * u, 90.0 * u, most * u);
    problem.asymmetry = 1e4 * u;
    problem.growth = options_.method == Method::bicgstab ? 1e4 : 1e8;
    problem.rtol = options_.rtol;
    problem.atol = std::ldexp(options_.atol, exponent_);
    problem.max_iterations = options_.max_iterations;
    problem.drift_every = std::max<std::int64_t>(
        50, std::llround(std::ceil(std::sqrt(static_cast<double>(options_.max_iterations)))));
    problem.records =
        options_.log ? std::min<std::int64_t>(most_records, 2 * options_.max_iterations + 16) : 0;
    problem.is_complex = is_complex<T> ? 1 : 0;
    problem.probes = problem.is_hermitian_method() ? 1 : 0;
    return problem;
  }

  MatrixView<T> add_vectors(Rounds<T>& rounds) {
    const auto& kernels = rank_.kernels<runtime::KrylovKernels<T>>();
    kernels.scale_exactly(rank_.update(), exponent_, b_, rounds.add_vector(vector_b));
    const MatrixView<T> x = rounds.add_vector(vector_x);
    if (options_.use_guess) {
      kernels.scale_exactly(rank_.update(), exponent_, x_, x);
    }
    rounds.add_vector(vector_best);
    rounds.add_vector(vector_r);
    return x;
  }

  void clear_x() {
    rank_.kernels<T>().fill(rank_.update(), T{0}, x_);
    rank_.finish(rank_.update());
  }

  /// x of the scaled system to the caller's.
  void give_back(MatrixView<T> x, Found& found) {
    const WholeScan in_x = scan<T>(rank_, layout_, x);
    if (!in_x.is_zero() && in_x.exponent - exponent_ > std::numeric_limits<Real>::max_exponent) {
      found.status = Status::overflow;
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
};

std::complex<double> to_complex(const Number& x) { return {x.re, x.im}; }

/// See Result::margin.
double margin_of(const Found& found, const Options& options, double roundoff) {
  const State& state = found.state;
  if (!is_converged(found.status)) {
    return state.tolerance > 0 ? state.true_norm / state.tolerance : 0.0;
  }
  const double attainable = roundoff * (state.norm_a * state.norm_x + state.norm_b);
  return std::min(
      static_cast<double>(options.max_iterations) /
          static_cast<double>(std::max<std::int64_t>(state.iteration, 1)),
      attainable > 0 ? state.tolerance / attainable : std::numeric_limits<double>::infinity());
}

Result result_of(const Found& found, const Options& options, double roundoff) {
  const State& state = found.state;
  const double scale = state.norm_b > 0 ? state.norm_b : 1.0;
  Result result;
  result.status = found.status;
  result.outcome.status = outcome_status(found.status);
  if (found.row >= 0) {
    result.outcome.location = Location::in_right_hand_sides(GlobalIndex(found.row), GlobalIndex(0));
  }
  result.iterations = state.iteration;
  result.matvecs = state.matvecs;
  result.restarts = state.restarts;
  result.residual = found.status == Status::zero_rhs   ? 0.0
                    : found.status == Status::overflow ? 1.0  // x = 0
                                                       : state.true_norm / scale;
  result.tolerance = state.norm_b > 0 ? state.tolerance / scale : options.rtol;
  const bool has_begun = state.norm_b > 0;
  result.margin =
      has_begun ? margin_of(found, options, roundoff) : std::numeric_limits<double>::infinity();
  result.is_marginal = result.margin < 2.0;
  double value = state.pending_value;
  if (found.status == Status::accuracy_limit) {
    value /= scale;
  }
  result.message = message(found.status, {.iterations = state.iteration,
                                          .at_iteration = state.pending_iteration,
                                          .value = value,
                                          .residual = result.residual,
                                          .tolerance = result.tolerance,
                                          .row = found.row});
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
                  const RightHandSides<T>& b, const RightHandSides<T>& x, const Options& options,
                  const RunOptions& run) {
  require_valid(options);
  require_vectors(mesh, b, x);
  const auto m =
      preconditioner == nullptr ? nullptr : std::make_shared<const Operator<T>>(*preconditioner);
  // Shared with the ranks: one that never comes back may still write to it.
  const auto found = std::make_shared<Found>();
  const mesh::CallCost cost = mesh.state().run(run, [a, m, b, x, options, found](mesh::Rank& rank) {
    mesh::require_part(rank, b, "b");
    mesh::require_part(rank, x, "x");
    const MatrixView<T> own_b = b.block(rank.index());
    const MatrixView<T> own_x = x.block(rank.index());
    if (!own_b.empty()) {
      rank.require_device_memory(own_b.data(), b.memory(), "b");
      rank.require_device_memory(own_x.data(), x.memory(), "x");
    }
    Solve<T> solve(rank, b.layout(), own_b, own_x, options);
    Found mine = solve.run(a, m.get());
    if (rank.leads()) {
      *found = std::move(mine);
    }
  });
  Result result = result_of(*found, options, unit_roundoff<T>);
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
