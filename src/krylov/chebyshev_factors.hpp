/// What the steps of Chebyshev's iteration multiply by; Y. Saad, Iterative Methods for Sparse
/// Linear Systems (2003), algorithm 12.1.
#pragma once

namespace shardsolve::krylov {

/// From z = 0: d = first() r, z = d; then in each step, with r of before less A d,
/// d = next().direction d + next().residual r, z += d.
class ChebyshevFactors {
 public:
  /// Eigenvalues in [low, high].
  ChebyshevFactors(double low, double high)
      : middle_(0.5 * (high + low)),
        half_width_(0.5 * (high - low)),
        sigma_(middle_ / half_width_),
        rho_(1.0 / sigma_) {}

  double first() const { return 1.0 / middle_; }
  struct Step {
    double residual;
    double direction;
  };
  Step next() {
    const double next = 1.0 / (2.0 * sigma_ - rho_);
    const Step step{2.0 * next / half_width_, next * rho_};
    rho_ = next;
    return step;
  }

 private:
  double middle_;
  double half_width_;
  double sigma_;
  double rho_;
};

}  // namespace shardsolve::krylov
