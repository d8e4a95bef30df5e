/// How a Krylov solve ended; a header that GPU code may include.
#pragma once

#include <cstdint>

namespace shardsolve::krylov {

/// The numbers are kept: logs and captures carry them.
enum class Status : std::uint8_t {
  running = 0,                       ///< has not ended; no result has it
  converged_rtol = 1,                ///< ||b - A x|| <= rtol ||b||, recomputed
  converged_atol = 2,                ///< ||b - A x|| <= atol, recomputed
  zero_rhs = 3,                      ///< b = 0, so x = 0
  converged_at_start = 4,            ///< the guess is within tolerance
  happy_breakdown = 5,               ///< the Krylov space holds the solution
  max_iterations = 6,                ///< the limit was reached first
  stagnated = 7,                     ///< restarts brought nothing
  accuracy_limit = 8,                ///< rounding allows no smaller residual
  diverged = 9,                      ///< the residual grew without bound
  breakdown_rho = 10,                ///< <r^, r> = 0 to working precision, three times in a row
  breakdown_sigma = 11,              ///< <r^, A p> = 0 likewise
  breakdown_omega = 12,              ///< <t, s> = 0 likewise
  breakdown_hessenberg = 13,         ///< the Hessenberg matrix is singular likewise
  indefinite_operator = 14,          ///< A is not positive definite
  indefinite_preconditioner = 15,    ///< M is not positive definite
  nonsymmetric_operator = 16,        ///< A is not Hermitian
  nonsymmetric_preconditioner = 17,  ///< M is not Hermitian
  nonfinite_rhs = 18,                ///< b holds a NaN or an infinity
  nonfinite_guess = 19,              ///< x0 does
  nonfinite_operator = 20,           ///< a product with A did
  nonfinite_preconditioner = 21,     ///< a product with M did
  cancelled = 22,                    ///< the caller asked for it
  overflow = 23,                     ///< the solution is above or below the dtype's range; x = 0
  singular_operator = 24,            ///< A is singular, and b outside of its range
};

enum class Method : std::uint8_t {
  cg = 0,        ///< Hermitian positive definite A and M
  minres = 1,    ///< Hermitian A, Hermitian positive definite M
  bicgstab = 2,  ///< any A and M; M from the right
  fgmres = 3,    ///< any A; M from the right, may change from iteration to iteration
};

/// What a record of the log is about beside an iteration.
enum class Event : std::uint8_t {
  none = 0,
  residual_recomputed = 1,  ///< the norm is that of b - A x
  restarted = 2,            ///< likewise, and the method begins anew from there
  shadow_changed = 3,       ///< likewise, with another shadow vector
  ended = 4,                ///< likewise, and the solve has ended
};

}  // namespace shardsolve::krylov
