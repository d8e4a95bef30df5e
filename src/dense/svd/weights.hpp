/// The weights of dynamically weighted Halley iterations.
#pragma once

#include <vector>

namespace shardsolve::dense::svd {

/// One iteration: a singular value x in [l, 1] becomes x (a + b x^2) / (1 + c x^2), at most 1.
struct Weights {
  double a = 3.0;
  double b = 1.0;
  double c = 3.0;

  /// Whether one Cholesky factor of I + c X^H X is good enough: its condition number is at most
  /// 1 + c then.
  bool is_mild() const { return c <= 100.0; }
  /// The least that values in [least, 1] become.
  double least_after(double least) const;
};

/// The best ones for values in [least, 1], with c at most `largest_c`.
Weights weights_for(double least, double largest_c);

/// Iterations that bring all of [least, 1] to 1 but for `rounding`, with c at most `largest_c`,
/// which takes some more of them: rows of [sqrt(c) X; I] that differ more cost CholeskyQR digits.
/// Y. Nakatsukasa, Z. Bai, F. Gygi, SIAM J. Matrix Anal. Appl. 31 (2010) 2700.
std::vector<Weights> weights_from(double least, double rounding, double largest_c);

}  // namespace shardsolve::dense::svd
