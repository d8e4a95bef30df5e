/// Sums that keep what rounding takes from them: about as accurate as in twice the precision.
#pragma once

namespace shardsolve::runtime::host {

/// high + low. `Value`: a float or double, or a vector of them, whose lanes are sums of their own.
/// T. Ogita, S. M. Rump, S. Oishi, SIAM J. Sci. Comput. 26 (2005) 1955.
template <class Value>
struct Twofold {
  Value high{};
  Value low{};

  [[gnu::always_inline]] void add(Value term) {
    const Value next = high + term;
    const Value taken = next - high;
    low += (high - (next - taken)) + (term - taken);
    high = next;
  }
  [[gnu::always_inline]] void add(const Twofold& other) {
    add(other.high);
    low += other.low;
  }
};

}  // namespace shardsolve::runtime::host
