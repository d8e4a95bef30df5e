/// The arithmetic of a thread.
#pragma once

#include <cfenv>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace shardsolve::core {

/// Rounding to nearest and gradual underflow, whatever the thread that started this one had set: a
/// new thread inherits, XLA flushes subnormal numbers to zero while it runs, and so do programs
/// built with -ffast-math.
inline void use_ieee_arithmetic() { std::fesetenv(FE_DFL_ENV); }

/// The same for as long as this lives; then what the thread had before.
class IeeeArithmetic {
 public:
#ifdef __SSE2__
  // Of what floats and doubles are computed with, that is one register. To save and set all of the
  // environment takes 0.15 us, as long as the way to a small call.
  IeeeArithmetic() : before_(_mm_getcsr()) { _mm_setcsr(default_register); }
  ~IeeeArithmetic() { _mm_setcsr(before_); }
#else
  IeeeArithmetic() {
    std::fegetenv(&before_);
    use_ieee_arithmetic();
  }
  ~IeeeArithmetic() { std::fesetenv(&before_); }
#endif
  IeeeArithmetic(const IeeeArithmetic&) = delete;
  IeeeArithmetic& operator=(const IeeeArithmetic&) = delete;

 private:
#ifdef __SSE2__
  static constexpr unsigned default_register = 0x1f80;  // no traps, to nearest, no flushing
  unsigned before_;
#else
  std::fenv_t before_{};
#endif
};

}  // namespace shardsolve::core
