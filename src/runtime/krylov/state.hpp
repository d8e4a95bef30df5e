/// What a Krylov solve knows between two reductions: a small POD in device memory, the same bits on
/// every rank. For the CPU and CUDA.
#pragma once

#include "runtime/krylov/number.hpp"
#include "runtime/product_flag.hpp"

#include <shardsolve/krylov_status.hpp>

#include <cstdint>

namespace shardsolve::krylov {

enum class Phase : std::int32_t {
  start,    ///< probes of symmetry, then the residual of the guess
  iterate,  ///< steps of the method
  verify,   ///< b - A x is recomputed, the method may go on
  restart,  ///< likewise, from the best iterate; the method begins anew
  done,
};

/// Why b - A x is recomputed.
enum class Check : std::int32_t {
  start,      ///< of the guess
  candidate,  ///< the recurrence says converged
  drift,      ///< now and then: does the recurrence still tell the truth?
  recovery,   ///< a breakdown
  last,       ///< the solve ends without convergence: how good is the best iterate?
  constants,  ///< then: does A map the vector of ones to 0?
  rounding,   ///< by how much may the residual that was just recomputed be wrong?
};

/// State::guess_exponent of a guess that the solve has found to be worse than 0.
constexpr std::int32_t guess_is_left_out = -1;

/// What the step of one reduction leaves to the step of the next.
enum class Plan : std::int32_t { go_on, check, resume, begin_anew };

/// What vector kernels do next, a bit each; which kernel heeds which bit is the method's (programs
/// in src/krylov).
enum Action : std::uint32_t {
  act_always = 1U << 0,         ///< set unless the solve is done
  act_restore_best = 1U << 1,   ///< x = best
  act_save_best = 1U << 2,      ///< best = x
  act_load_x = 1U << 3,         ///< the operator's input = x
  act_residual = 1U << 4,       ///< b - (output of the operator)
  act_measure_b = 1U << 5,      ///< ||b||
  act_take_residual = 1U << 6,  ///< r = b - A x
  act_probe_first = 1U << 7,    ///< inputs u of A and v of M
  act_probe_second = 1U << 8,   ///< inputs v of A and u of M
  act_new_direction = 1U << 9,  ///< the method's first step
  act_next_direction = 1U << 10,
  act_keep_direction = 1U << 11,  ///< puts it aside while x takes its place
  act_iterate = 1U << 12,         ///< what belongs to a step of the method only
  act_advance = 1U << 13,         ///< x and r
  act_half_step = 1U << 14,
  act_new_shadow = 1U << 15,     ///< r^ = r
  act_random_shadow = 1U << 16,  ///< r^ = r + ||r|| (random vector of norm about 1)
  act_collect = 1U << 17,        ///< x += what the last round found: alpha p, Z y
  act_take_kept = 1U << 18,      ///< the direction that was put aside
  act_scale_a = 1U << 19,        ///< products with A, by a power of two
  act_scale_m = 1U << 20,        ///< likewise with M
  act_scale_x = 1U << 21,
  act_load_ones = 1U << 22,  ///< the operator's input = ones, and its product with b
  act_round_x = 1U << 23,    ///< the operator's input loses what x loses when it is given back
};

/// One iteration, or one event.
struct Record {
  std::int64_t iteration = 0;
  std::int32_t event = 0;   ///< Event
  std::int32_t status = 0;  ///< Status, where the solve has ended or the method restarts
  double residual = 0.0;    ///< ||r|| / ||b||
  Number rho;
  Number alpha;
  Number omega;
};

/// What a solve is given: the same all the time.
struct Problem {
  Method method = Method::cg;
  std::int64_t n = 0;
  std::int64_t cycle = 0;  ///< fgmres: columns of a basis
  double roundoff = 0.0;   ///< u of the vectors
  double breakdown = 0.0;  ///< tau: |<a, b>| <= tau ||a|| ||b|| is zero
  double asymmetry = 0.0;  ///< relative; more than that is no rounding
  double growth = 0.0;     ///< of ||r|| over the best; more than that is divergence
  double rtol = 0.0;
  double atol = 0.0;  ///< for b as it is given
  std::int64_t max_iterations = 0;
  std::int64_t drift_every = 0;  ///< iterations between two checks of the recurrence
  std::int64_t records = 0;      ///< room of the log; the newest stay
  std::int32_t is_complex = 0;
  std::int32_t probes = 0;      ///< whether A and M have to be Hermitian
  std::int32_t is_twofold = 0;  ///< whether A heeds ProductFlag::twofold_product
  /// Whether A heeds ProductFlag::product_rounding: y then with ||fl(A x) - A x|| <= u ||y||,
  /// beside the last rounding of each row if A is twofold.
  std::int32_t has_bounds = 0;
  // See scaling.hpp.
  std::int32_t usual_exponents = 0;  ///< e: ||B v|| / ||v|| in 2^-e to 2^e is left; 0: all is
  std::int32_t guessed_exponent = 0;
  std::int32_t max_exponent = 0;
  std::int32_t guess_exponent = 0;  ///< of the state that the solve begins with
  std::int32_t guess_size = 0;      ///< likewise

  SHARDSOLVE_HOST_DEVICE bool is_hermitian_method() const {
    return method == Method::cg || method == Method::minres;
  }
};

/// What minres knows of the tridiagonal matrix and its rotations; see minres.hpp.
struct Lanczos {
  double gamma = 0.0;
  double gamma_before = 0.0;
  double delta = 0.0;
  double eta = 0.0;
  double cosine = 0.0;
  double cosine_before = 0.0;
  double sine = 0.0;
  double sine_before = 0.0;
  double product_norm = 0.0;  ///< ||A z||
  std::int32_t has_no_m = 0;  ///< all M v so far were v
  double first_root = -1.0;   ///< ||A r|| / ||r|| of the first residual, in the norm of M
};

/// A power of two that products with A or M are multiplied by.
struct Scaling {
  std::int32_t exponent = 0;
  std::int32_t tries = 0;
  std::int32_t is_settled = 0;
};

/// How many coefficients of vector updates there are at a time; the last ones are not the methods'.
constexpr int coefficients = 12;
enum ScalingCoefficient : int { of_scale_a = 7, of_scale_m, of_scale_x, of_round_x, of_rounded_x };

struct State {
  Phase phase = Phase::start;
  Status status = Status::running;
  Check check = Check::start;
  Plan plan = Plan::go_on;

  // For kernels.
  std::uint32_t actions = 0;
  std::int32_t done = 0;           ///< kernels, operators and preconditioners do nothing if not 0
  std::int32_t skip_operator = 0;  ///< a runtime::ProductFlag
  std::int32_t skip_preconditioner = 0;
  std::int32_t skip_second_operator = 0;        ///< bicgstab
  std::int32_t skip_second_preconditioner = 0;  ///< bicgstab
  std::int64_t column = 0;                      ///< fgmres: of the basis, under way
  std::int64_t columns = 0;                     ///< fgmres: that sums and updates run over
  std::int64_t seed = 0;                        ///< of the random shadow vector
  Number coefficient[coefficients];

  // Counts.
  std::int64_t iteration = 0;
  std::int64_t matvecs = 0;
  std::int64_t restarts = 0;
  std::int64_t rounds = 0;
  std::int64_t records = 0;  ///< written to the log
  std::int64_t last_drift_check = 0;
  std::int64_t base_iteration = 0;      ///< when the method last began anew
  std::int64_t checks_in_vain = 0;      ///< in a row: residual recomputed without gain
  std::int32_t is_fresh = 1;            ///< the next step is a first one
  std::int32_t keep_best = 0;           ///< best = x when the time has come
  std::int32_t is_exhausted = 0;        ///< the Krylov space does not grow
  std::int32_t best_is_recomputed = 0;  ///< or best_norm is the recurrence's
  std::int32_t ends_with_zero = 0;      ///< x = 0 is nearer than what was kept
  Scaling scaling_a;
  Scaling scaling_m;
  std::int32_t exponent_of_b = 0;  ///< b is worked on times 2^exponent
  std::int32_t exponent_of_x = 0;  ///< x belongs to 2^exponent A
  /// Of the guess 2^exponent is missing, see scale_guess(); or it is left out.
  std::int32_t guess_exponent = 0;
  std::int32_t guess_size = 0;  ///< its parts, as they are, are less than 2^that

  // Norms, of the scaled problem.
  double norm_b = 0.0;
  double norm_x = 0.0;        ///< when it was last recomputed
  double norm_a = 0.0;        ///< the largest ||A p|| / ||p|| seen
  double norm_inverse = 0.0;  ///< ||A^-1||, from below, likewise
  double norm_m = 0.0;        ///< as norm_a, of M; cg and minres
  double atol = 0.0;
  double tolerance = 0.0;  ///< on ||b - A x||
  double norm_r = 0.0;     ///< of the recurrence
  double true_norm = 0.0;  ///< recomputed last
  double base_norm = 0.0;  ///< recomputed when the method last began anew
  double best_norm = 0.0;  ///< of what `best` holds
  /// True norm when the method last began anew from `best`, at first from the guess.
  double restored_norm = 0.0;
  /// True norm when rounding was last found to make the recurrence wrong: what it says below that
  /// is not believed.
  double recurrence_floor = 0.0;
  std::int64_t best_iteration = 0;

  // Scalars of the methods.
  Number rho;
  Number alpha;
  Number omega;
  double norm_shadow = 0.0;
  double product_norm = 0.0;    ///< fgmres: ||A z||
  double weak_product = 0.0;    ///< fgmres: ||A Z y|| of the factors `weak` in the room
  std::int32_t collects = 0;    ///< cg, fgmres: the next round begins with act_collect
  Lanczos lanczos;              ///< minres
  double direction_norm = 0.0;  ///< cg: ||p||^2 in the norm of M^-1
  double norm_ma = 0.0;         ///< cg, minres: of M A, from below

  // Is A singular?
  double least_squares_norm = 0.0;  ///< minres: of a residual that A maps to 0; 0 if none
  std::int64_t least_squares_iteration = 0;
  std::int32_t least_squares_in_2_norm = 0;  ///< and not in that of M
  std::int32_t least_squares_are_sure = 0;   ///< A is not only nearly singular
  std::int32_t has_null_constants = 0;       ///< A maps the vector of ones to 0
  std::int32_t is_of_constants = 0;          ///< singular_operator is said of the vector of ones
  std::int32_t has_least_residual = 0;       ///< x has the least one that there is

  // By how much may a residual be wrong?
  double rounding = -1.0;           ///< ||y|| of product_rounding with x; -1: not known
  Check checked = Check::start;     ///< what asked for it and is made again
  std::int32_t keeps_rounding = 0;  ///< the next check is that, of the same x

  // Probes.
  Number probe_a;
  Number probe_m;
  double probe_norms[6] = {};

  // Why it ends.
  Status pending = Status::running;
  std::int64_t pending_iteration = 0;
  double pending_value = 0.0;
};

/// Where a state keeps what is too large for it, in device memory.
struct StateRoom {
  Number* sums = nullptr;              ///< of the reduction under way
  Record* records = nullptr;           ///< the log, a ring
  Number* column_factors = nullptr;    ///< fgmres: of the sums over columns, `cycle` + 1
  Number* weak_factors = nullptr;      ///< fgmres: of a vector that A makes small, likewise
  Number* hessenberg = nullptr;        ///< fgmres: see fgmres.hpp
  std::uint32_t* turnstile = nullptr;  ///< GPUs: counts blocks of a kernel, 0 between kernels
};

}  // namespace shardsolve::krylov
