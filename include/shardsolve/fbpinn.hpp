/// Partial differential equations solved by small networks in overlapping boxes (FBPINN; Moseley,
/// Markham, Nissen-Meyer, Adv. Comput. Math. 49, 2023), trained by least squares. Boxes are the
/// subdomains of these papers, points the collocation points.
///
///     namespace fb = shardsolve::fbpinn;
///     fb::Problem problem(fb::Boxes::regular({{0, 1}, {0, 1}}, {16, 16}, 2.9), {.hidden = {32}});
///     problem.constrain([](auto x, auto u) { return fb::sin(pi * x[0]) * fb::sin(pi * x[1]) * u;
///     }); problem.add("interior", fb::grid({{0, 1}, {0, 1}}, {192, 192}),
///                 [](fb::Coordinates x, auto u) { return u(0, 0) + u(1, 1) + f(x[0], x[1]); });
///     const fb::Trained trained = fb::least_squares(mesh, problem);
///     const std::vector<double> u = trained.evaluate(mesh, points);
#pragma once

#include <shardsolve/error.hpp>
#include <shardsolve/export.hpp>
#include <shardsolve/fbpinn_boxes.hpp>
#include <shardsolve/fbpinn_coefficients.hpp>
#include <shardsolve/fbpinn_residual.hpp>
#include <shardsolve/jet_scalars.hpp>
#include <shardsolve/jet_set.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/outcome.hpp>
#include <shardsolve/run_options.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::fbpinn {

/// One part of the loss: weight^2 times the mean of r^2 over the term's points, added up over its
/// equations.
struct Term {
  std::string name;
  std::vector<double> points;  ///< axes numbers a point
  Residual residual;
  double weight = 1.0;
  std::vector<double> targets;  ///< subtracted from r; empty, or equations numbers a point
  /// Which of the given ones the points are, as Problem puts many that jump about in an order that
  /// is good for caches; empty: 0, 1, ...
  std::vector<std::int32_t> numbers = {};
  int order = -1;  ///< of the highest derivative that it reads, found by Problem; -1: nothing of u
};

/// counts[a] points along axis a from low to high, ends included (one alone in the middle); the
/// last axis fastest. Throws Error(invalid_argument) unless there are 1 to 4 intervals, as many
/// counts, and these positive.
SHARDSOLVE_EXPORT std::vector<double> grid(const std::vector<Interval>& domain,
                                           const std::vector<std::int64_t>& counts);

/// A partial differential equation with its conditions, and the networks that are to solve it.
class SHARDSOLVE_EXPORT Problem {
 public:
  Problem(Boxes boxes, Mlp mlp, int fields = 1);

  /// u = function(x, v) for the sum v of the networks: what makes u fulfil boundary conditions
  /// whatever the networks are. `function` takes the coordinates (a span) and v, both numbers that
  /// carry derivatives, and with several fields the number of the field as third; it returns such a
  /// number. Differentiated like any other code; use the functions of jet_scalars.hpp.
  template <class F>
  void constrain(F function) {
    set_constraint(detail::make_constraint(std::move(function)));
  }
  /// A number that the equations contain and that is not known: found together with the solution,
  /// from `start` on. To be added before the terms that read it; they take it as c(a) from their
  /// third argument. Throws Error(invalid_argument) unless `start` is finite and the name new.
  ScalarCoefficient add_coefficient(std::string name, double start);
  /// A function of one variable that is not known, by its values at `nodes` places of `domain`.
  /// `start`: one number, or one for each node. Terms read c(speed, x[0]). Throws
  /// Error(invalid_argument) unless the domain is finite and not empty, there are 1 to 4096 nodes,
  /// `start` is finite and has as many numbers, and the name is new.
  GridCoefficient add_coefficient(std::string name, const Interval& domain, std::int64_t nodes,
                                  const std::vector<double>& start,
                                  Interpolation between = Interpolation::linear);
  /// A term of the loss: `function` takes a Coordinates, Jets and, if it likes, Coefficients, and
  /// returns the residual there, a number made of what it reads in the jets or of coefficients
  /// alone (what is known of them beforehand), or a std::array of several. It must not depend on
  /// anything else that changes, and may be called from several threads. `points`: axes numbers for
  /// each. Throws Error(invalid_argument) if there are no points, their number does not fit, the
  /// weight is not positive and finite, or the function reads an axis that is not there or orders
  /// above 4.
  template <class F>
  void add(std::string name, std::vector<double> points, F function, double weight = 1.0) {
    add_term({std::move(name),
              std::move(points),
              detail::make_residual(std::move(function)),
              weight,
              {}});
  }
  /// Measurements: the residual is function(x, u) minus the value at the point.
  template <class F>
  void add_data(std::string name, std::vector<double> points, std::vector<double> values,
                F function, double weight = 1.0) {
    add_term({std::move(name), std::move(points), detail::make_residual(std::move(function)),
              weight, std::move(values)});
  }
  void set_constraint(Constraint constraint) { constraint_ = std::move(constraint); }
  /// Says that the terms' functions apply a hard condition themselves, as those of a front do that
  /// has its own way to differentiate it.
  void set_constrained_by_terms() { is_constrained_by_terms_ = true; }
  void add_term(Term term);

  const Boxes& boxes() const { return boxes_; }
  const Mlp& mlp() const { return mlp_; }
  int fields() const { return fields_; }
  const Constraint& constraint() const { return constraint_; }
  bool is_constrained() const { return is_constrained_by_terms_ || constraint_ != nullptr; }
  const std::vector<Term>& terms() const { return terms_; }
  const std::vector<Coefficient>& coefficients() const { return coefficients_; }
  /// What training begins with: the numbers of all coefficients.
  std::vector<double> coefficients_at_start() const;
  /// The derivatives that the terms read, of all fields together.
  JetSet jet_set() const;

 private:
  std::int64_t add_numbers(std::string name, std::vector<double> start);

  Boxes boxes_;
  Mlp mlp_;
  int fields_;
  Constraint constraint_;
  bool is_constrained_by_terms_ = false;
  std::vector<Term> terms_;
  std::vector<MultiIndex> read_;
  std::vector<Coefficient> coefficients_;
};

/// By what linear problems are solved: a factor of the Gram matrix along nested dissection, or
/// conjugate gradients, whose memory is that of the boxes' columns alone; automatic takes them if
/// the factor does not fit in memory.
enum class LinearMethod : std::uint8_t { automatic, factor, cg };

struct LeastSquaresOptions {
  /// Hidden layers: Mlp::weights() numbers for each box; random ones if there are none.
  std::vector<double> hidden_weights = {};
  /// What Gauss-Newton begins with: boxes x fields x Mlp::features() numbers, or none for 0; and
  /// the numbers of all coefficients, or none for what the problem says. A linear problem has one
  /// solution wherever it begins.
  std::vector<double> last_layer = {};
  std::vector<double> coefficients = {};
  std::uint64_t seed = 0;
  double hidden_scale = 1.0;  ///< of random weights
  /// Columns of a box that are smaller than this beside its largest are left out.
  double rank_tolerance = 1e-12;
  LinearMethod method = LinearMethod::automatic;
  /// Conjugate gradients: they end at this certificate, or after so many steps.
  double cg_tolerance = 1e-10;
  int max_cg_steps = 10000;
  /// Gauss-Newton: most linear problems that are solved.
  int max_iterations = 30;
  /// It ends when a step would change the residual by less than this share of it, or has made the
  /// loss smaller by less than 1e-4 of it.
  double tolerance = 1e-5;
  /// Points of a call of the user's functions; 0: as a table says. Results do not depend on it.
  std::int64_t chunk = 0;
};

/// Of levenberg_marquardt().
struct LevenbergMarquardtOptions {
  /// What a step's equations are of: the parameters, J^T J, block-sparse, or the rows, J J^T,
  /// dense.
  enum class Equations : std::uint8_t { cheaper, of_parameters, of_samples };

  /// How the last layers are found that it begins with.
  LeastSquaresOptions start{.rank_tolerance = 1e-8};
  int max_steps = 200;  ///< that make the loss smaller
  /// It ends when no column of the Jacobian has a larger cosine with the residual, each term's part
  /// of both taken by its own size,
  double gradient_tolerance = 1e-8;
  /// or a step is smaller than this beside the parameters, both scaled by the columns' norms.
  double step_tolerance = 1e-14;
  double first_damping = 1e-6;  ///< of the scaled equations, whose columns have the norm 1
  Equations equations = Equations::cheaper;
};

/// How levenberg_marquardt() went.
struct DampedDescent {
  /// gradient, step: as of the options, or no step makes the loss smaller; limit: neither yet.
  enum class End : std::uint8_t { none, gradient, step, limit };

  int steps = 0;
  End ended = End::none;
  double gradient = 0.0;  ///< the largest cosine at the last Jacobian
  double damping = 0.0;   ///< at the end
  bool in_samples = false;
  std::vector<double> losses;  ///< before and after each step
};

/// What factoring the Gram matrix takes in three ways, in flops and bytes.
struct FactorCosts {
  struct Cost {
    double flops = 0.0;
    double bytes = 0.0;        ///< at peak
    std::int64_t largest = 0;  ///< columns of the largest front, or of the band
  };
  Cost dense;
  Cost band;
  Cost nested_dissection;
};

/// What training needs, known from geometry alone.
struct SHARDSOLVE_EXPORT TrainingPlan {
  std::int64_t boxes = 0;
  std::int64_t points = 0;
  std::int64_t pairs = 0;         ///< of a point and a box around it
  std::int64_t rows = 0;          ///< of the least-squares problem
  std::int64_t columns = 0;       ///< of all boxes together
  std::int64_t coefficients = 0;  ///< their numbers
  double feature_bytes = 0;       ///< of all boxes' columns
  double other_bytes = 0;         ///< pairs, jets and right-hand sides
  FactorCosts costs;
  /// How many processes on CPUs (Mesh::mpi), and the bytes that the one of them takes at most that
  /// takes most: the columns that it needs, its fronts, and of all else everything.
  std::vector<std::pair<int, double>> process_bytes;
  /// How many GPUs, and the bytes that the one of them needs at least that needs most.
  std::vector<std::pair<int, double>> gpu_bytes;
  bool is_by_cg = false;  ///< the factor does not fit in memory and is not made

  double bytes() const {
    return feature_bytes + other_bytes + (is_by_cg ? 0.0 : costs.nested_dissection.bytes);
  }
  /// For people, one figure a line.
  std::string text() const;
};
SHARDSOLVE_EXPORT TrainingPlan plan_least_squares(const Problem& problem);

/// Seconds that the parts of training took.
struct TrainingTimes {
  double geometry = 0.0;  ///< pairs, windows, order of elimination
  double residual = 0.0;  ///< the user's functions
  double rows = 0.0;      ///< jets, and the factorisation of each box
  double factor = 0.0;    ///< Gram matrix and its factor
  double solve = 0.0;     ///< solves and refinement
  /// The loss between the points of the training. GPUs: what of it is not done meanwhile.
  double held_out = 0.0;
};

/// One term's part of the loss.
struct TermLoss {
  std::string name;
  double loss = 0.0;  ///< at its points, at the end
  /// The same at points between these; `loss` again if there are none: of measurements, of single
  /// points, and of points of a curve or surface that lie on no lattice.
  double held_out = 0.0;
  std::int64_t held_out_points = 0;
};

/// Networks that solve a problem as well as they can.
struct SHARDSOLVE_EXPORT Trained {
  Problem problem;
  std::vector<double> hidden_weights;  ///< Mlp::weights() numbers for each box
  std::vector<double> last_layer;      ///< boxes x fields x Mlp::features()
  std::vector<double> coefficients;    ///< the numbers of all unknown coefficients

  /// ok: the loss is least, at least near where it is, and all numbers are finite. That says
  /// nothing of the error of u, of which held_out_loss, loss_left() and the warnings say more.
  /// not_converged if Gauss-Newton did not come to an end, conjugate gradients came to their limit
  /// or to rounding before, or no step of Levenberg-Marquardt makes the loss smaller though its
  /// gradient is not small; not_positive_definite if the Gram matrix could not be factored;
  /// overflow if u or the loss is not finite.
  Outcome outcome;
  double loss = 0.0;           ///< at the end, of these networks
  std::vector<double> losses;  ///< before each step and at the end
  double zero_loss = 0.0;      ///< of networks that are 0, and coefficients as they start
  /// The loss at points between those of the training, among them all strips without a point in
  /// which boxes take over from each other (TermLoss::held_out of all terms). Far above `loss`, u
  /// fulfils the equations at the points only.
  double held_out_loss = 0.0;
  std::vector<TermLoss> terms;  ///< in their order
  /// The residual is linear in networks and coefficients: one solve, as a rule, is all there is to
  /// do.
  bool is_linear = false;
  std::int64_t rows = 0;
  std::int64_t columns = 0;        ///< before the small ones were left out
  std::vector<std::int32_t> rank;  ///< columns kept of each box, in the last solve
  /// ||A^T r|| / (||A|| ||r||) of the last linear problem, each box's columns made orthonormal.
  double certificate = 0.0;
  /// Of those columns, a lower bound of the condition number that is near it as a rule.
  double condition = 0.0;
  int refinements = 0;    ///< of the last solve
  int cg_steps = 0;       ///< of conjugate gradients in the last solve
  bool is_by_cg = false;  ///< there was no factor, and no estimate of the condition
  double shift = 0.0;     ///< that was added to the Gram matrix's diagonal
  FactorCosts costs;
  TrainingTimes times;
  std::vector<std::string> warnings;  ///< with figures

  /// Standard deviations of the coefficients' numbers, from the last linear problem and what is
  /// left of its residual, as if that were noise; infinite of a number that nothing says, or only
  /// together with others.
  std::vector<double> coefficient_deviations;
  /// Of the coefficients' numbers, those that equations and data determine: whose standard
  /// deviation is less than half of the largest number of the same coefficient, now or at the
  /// start; the start does not count where the equations hold with coefficients that are 0, and
  /// these may be.
  std::int64_t coefficients_determined = 0;

  DampedDescent descent;  ///< of levenberg_marquardt()

  std::int64_t kept() const;
  /// What share of the loss of networks that are 0 is left: 1 if training gained nothing. 0 if
  /// there was none.
  double loss_left() const { return zero_loss > 0.0 ? loss / zero_loss : 0.0; }
  /// The numbers of one coefficient: 1, or those at its nodes. Throws Error(invalid_argument) if
  /// the problem has none of this name.
  std::vector<double> coefficient(const std::string& name) const;
  /// Values of the fields: points x fields numbers, `chunk` points at a time. Throws
  /// Error(invalid_argument) for points outside of every box.
  std::vector<double> evaluate(Mesh& mesh, std::span<const double> points,
                               std::int64_t chunk = 25000) const;
  /// Jets of the fields, which derivatives `set` says: points x fields x set.size() numbers.
  std::vector<double> evaluate_jets(Mesh& mesh, const JetSet& set, std::span<const double> points,
                                    std::int64_t chunk = 25000) const;
};

/// mean |u - reference| / standard deviation of the reference. Throws Error(invalid_argument)
/// unless both are as long as each other and not empty.
SHARDSOLVE_EXPORT double relative_error(std::span<const double> u,
                                        std::span<const double> reference);

/// Finds the last layers that make the loss least, hidden layers fixed: by one linear least-squares
/// problem if the residual is linear in u, by Gauss-Newton with a line search if not. Unknown
/// coefficients are found at the same time: their columns are a border of the block-sparse matrix,
/// made orthogonal to it by solves with its factor, and directions that they are not determined in
/// are left out.
///
/// Each box's columns are made orthonormal (QR with a rank), the Gram matrix of all of them is
/// factored along nested dissection, and the solution refined with the residual of the
/// least-squares problem. The same bits for the same problem and mesh, on any number of ranks of
/// one process; of processes the number changes rounding where fronts are large. float64.
/// The mesh is one of CPU devices or of GPUs; its processes all give the same problem and get the
/// same networks. With GPUs the user's functions are called by threads of the host, and the
/// networks differ from those of CPU devices, and with the number of GPUs, by rounding; not with
/// that of the processes which have them.
/// Throws Error: invalid_argument if there are no terms, or none that is a condition or data beside
/// differential equations, no more of them than fields, and no constraint either, a point lies in
/// no box, a box has no point, a residual or a unit is not finite, or a residual depends neither on
/// u nor on a coefficient; unsupported if GPUs round differently; out_of_memory, cancelled,
/// communication.
SHARDSOLVE_EXPORT Trained least_squares(Mesh& mesh, const Problem& problem,
                                        const LeastSquaresOptions& options = {},
                                        const RunOptions& run = {});

/// Makes the loss smaller by all weights, hidden ones too, and by the coefficients: Levenberg and
/// Marquardt's method from what least_squares() finds, with dense Jacobians of the boxes; then the
/// last layers once more if the residual is linear. For small problems: a step takes as much as
/// factoring a Gram matrix with all weights of a box as its columns, or one of all rows.
///
/// Status ok: ended by gradient or step, near a local minimum of the loss; not_converged: by the
/// limit of steps. The same bits on any number of ranks. Throws Error as least_squares() does, and
/// invalid_argument for units of the caller's own without parameters.
SHARDSOLVE_EXPORT Trained levenberg_marquardt(Mesh& mesh, const Problem& problem,
                                              const LevenbergMarquardtOptions& options = {},
                                              const RunOptions& run = {});

}  // namespace shardsolve::fbpinn
