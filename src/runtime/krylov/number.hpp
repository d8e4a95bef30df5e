/// Complex arithmetic in double with every rounding written down, for the CPU and CUDA. A real
/// number has im = 0 and keeps it.
#pragma once

#include "runtime/fixed_dot.hpp"

#include <cmath>

namespace shardsolve::krylov {

using runtime::fused_multiply_add;

struct Number {
  double re = 0.0;
  double im = 0.0;
};

SHARDSOLVE_HOST_DEVICE inline double absolute(double x) { return x < 0.0 ? -x : x; }
SHARDSOLVE_HOST_DEVICE inline double larger(double a, double b) { return a < b ? b : a; }
SHARDSOLVE_HOST_DEVICE inline double smaller(double a, double b) { return b < a ? b : a; }
SHARDSOLVE_HOST_DEVICE inline bool is_finite(double x) { return x - x == 0.0; }
SHARDSOLVE_HOST_DEVICE inline bool is_finite(Number x) {
  return is_finite(x.re) && is_finite(x.im);
}
/// sqrt(x) rounded correctly.
SHARDSOLVE_HOST_DEVICE inline double root(double x) { return sqrt(x); }

SHARDSOLVE_HOST_DEVICE inline Number negated(Number a) { return {-a.re, -a.im}; }
SHARDSOLVE_HOST_DEVICE inline Number conjugated(Number a) { return {a.re, -a.im}; }
SHARDSOLVE_HOST_DEVICE inline Number scaled(double factor, Number a) {
  return {factor * a.re, factor * a.im};
}
SHARDSOLVE_HOST_DEVICE inline Number minus(Number a, Number b) {
  return {a.re - b.re, a.im - b.im};
}
/// a b + c.
SHARDSOLVE_HOST_DEVICE inline Number multiply_add(Number a, Number b, Number c) {
  return {fused_multiply_add(-a.im, b.im, fused_multiply_add(a.re, b.re, c.re)),
          fused_multiply_add(a.im, b.re, fused_multiply_add(a.re, b.im, c.im))};
}
SHARDSOLVE_HOST_DEVICE inline Number times(Number a, Number b) { return multiply_add(a, b, {}); }

/// |a|, without overflow on the way.
SHARDSOLVE_HOST_DEVICE inline double magnitude(Number a) {
  const double re = absolute(a.re);
  const double im = absolute(a.im);
  const double most = larger(re, im);
  if (most == 0.0 || smaller(re, im) == 0.0) {
    return re + im;
  }
  const double ratio = smaller(re, im) / most;
  return most * root(fused_multiply_add(ratio, ratio, 1.0));
}

/// a / b; R. L. Smith, Commun. ACM 5 (1962) 435.
SHARDSOLVE_HOST_DEVICE inline Number divided(Number a, Number b) {
  if (b.im == 0.0) {
    return {a.re / b.re, a.im / b.re};
  }
  if (absolute(b.im) <= absolute(b.re)) {
    const double ratio = b.im / b.re;
    const double below = fused_multiply_add(b.im, ratio, b.re);
    return {fused_multiply_add(a.im, ratio, a.re) / below,
            fused_multiply_add(-a.re, ratio, a.im) / below};
  }
  const double ratio = b.re / b.im;
  const double below = fused_multiply_add(b.re, ratio, b.im);
  return {fused_multiply_add(a.re, ratio, a.im) / below,
          fused_multiply_add(a.im, ratio, -a.re) / below};
}

}  // namespace shardsolve::krylov
