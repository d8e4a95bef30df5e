/// The arithmetic of a thread.
#pragma once

#include <cfenv>

namespace shardsolve::core {

/// Rounding to nearest and gradual underflow, whatever the thread that started this one had set: a
/// new thread inherits, XLA flushes subnormal numbers to zero while it runs, and so do programs
/// built with -ffast-math.
inline void use_ieee_arithmetic() { std::fesetenv(FE_DFL_ENV); }

/// The same for as long as this lives; then what the thread had before.
class IeeeArithmetic {
 public:
  IeeeArithmetic() {
    std::fegetenv(&before_);
    use_ieee_arithmetic();
  }
  ~IeeeArithmetic() { std::fesetenv(&before_); }
  IeeeArithmetic(const IeeeArithmetic&) = delete;
  IeeeArithmetic& operator=(const IeeeArithmetic&) = delete;

 private:
  std::fenv_t before_{};
};

}  // namespace shardsolve::core
