/// Numbers that carry derivatives, and the functions of them: what the user's functions of a
/// problem (fbpinn.hpp) are called with.
#pragma once

#include <shardsolve/jet_set.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <type_traits>

namespace shardsolve::fbpinn {

/// f, f', f'', ... at x: `count` of them, at most 7.
namespace functions {

struct Exp {
  template <class R>
  void derivatives(R x, int count, R* f) const {
    std::fill_n(f, count, std::exp(x));
  }
};
/// f, g, -f, -g, ... or without the changes of sign.
template <class R>
void cycle(R f0, R f1, bool negates, int count, R* f) {
  for (int k = 0; k < count; ++k) {
    f[k] = ((k & 2) != 0 && negates ? R(-1) : R(1)) * ((k & 1) != 0 ? f1 : f0);
  }
}
struct Sin {
  template <class R>
  void derivatives(R x, int count, R* f) const {
    cycle(std::sin(x), std::cos(x), true, count, f);
  }
};
struct Cos {
  template <class R>
  void derivatives(R x, int count, R* f) const {
    cycle(std::cos(x), -std::sin(x), true, count, f);
  }
};
struct Sinh {
  template <class R>
  void derivatives(R x, int count, R* f) const {
    cycle(std::sinh(x), std::cosh(x), false, count, f);
  }
};
struct Cosh {
  template <class R>
  void derivatives(R x, int count, R* f) const {
    cycle(std::cosh(x), std::sinh(x), false, count, f);
  }
};
struct Log {
  template <class R>
  void derivatives(R x, int count, R* f) const {
    f[0] = std::log(x);
    R next = R(1) / x;
    for (int k = 1; k < count; ++k) {
      f[k] = next;
      next *= R(-k) / x;
    }
  }
};
struct Power {
  double exponent;
  template <class R>
  void derivatives(R x, int count, R* f) const {
    double factor = 1.0;
    for (int k = 0; k < count; ++k) {
      // Beyond a whole exponent all are 0, also where x is.
      f[k] = factor == 0.0 ? R(0) : R(factor) * std::pow(x, R(exponent - k));
      factor *= exponent - k;
    }
  }
};
struct Reciprocal {
  template <class R>
  void derivatives(R x, int count, R* f) const {
    const R inverse = R(1) / x;
    R next = inverse;
    for (int k = 0; k < count; ++k) {
      f[k] = next;
      next *= R(-(k + 1)) * inverse;
    }
  }
};
struct Tanh {
  template <class R>
  void derivatives(R x, int count, R* f) const {
    of_value(std::tanh(x), count, f);
  }
  /// From t = tanh(x).
  template <class R>
  static void of_value(R t, int count, R* f) {
    const R t2 = t * t;
    const R s = R(1) - t2;
    const std::array<R, 7> all{
        t,
        s,
        R(-2) * t * s,
        s * (R(6) * t2 - R(2)),
        s * t * (R(16) - R(24) * t2),
        s * (R(16) - R(120) * t2 + R(120) * t2 * t2),
        s * t * (R(-272) + R(960) * t2 - R(720) * t2 * t2),
    };
    std::copy_n(all.begin(), count, f);
  }
};

}  // namespace functions

/// A value and its derivatives in N directions. T: a real number, or a number that carries
/// derivatives itself.
template <class T, int N = 1>
struct Dual {
  T value{};
  std::array<T, N> slope{};

  Dual() = default;
  /// A constant.
  template <class C>
    requires std::is_arithmetic_v<C>
  Dual(C constant) : value(static_cast<double>(constant)) {}  // NOLINT(google-explicit-constructor)
  explicit Dual(const T& v)
    requires(!std::is_arithmetic_v<T>)
      : value(v) {}

  Dual& operator+=(const Dual& b) {
    value += b.value;
    for (int i = 0; i < N; ++i)
      slope[i] += b.slope[i];
    return *this;
  }
  Dual& operator-=(const Dual& b) {
    value -= b.value;
    for (int i = 0; i < N; ++i)
      slope[i] -= b.slope[i];
    return *this;
  }
  Dual& operator*=(const Dual& b) {
    for (int i = 0; i < N; ++i)
      slope[i] = slope[i] * b.value + value * b.slope[i];
    value *= b.value;
    return *this;
  }
  Dual& operator/=(const Dual& b);
  Dual& operator*=(double factor) {
    value *= factor;
    for (int i = 0; i < N; ++i)
      slope[i] *= factor;
    return *this;
  }
};

/// A polynomial in the distances from a point, cut where a JetSet ends: the coefficient of a
/// derivative is its value over its factorial(). Without a set it is a constant.
template <class T>
class Taylor {
 public:
  Taylor() { c_[0] = T{}; }
  template <class C>
    requires std::is_arithmetic_v<C>
  Taylor(C constant) {  // NOLINT(google-explicit-constructor)
    c_[0] = T(static_cast<double>(constant));
  }
  /// The constant `value` on a set.
  Taylor(const JetSet& set, const T& value) : set_(&set) {
    c_[0] = value;
    for (int i = 1; i < set.size(); ++i)
      c_[i] = T{};
  }
  /// value + the distance along `axis`.
  static Taylor variable(const JetSet& set, const T& value, int axis) {
    Taylor result(set, value);
    MultiIndex index{};
    index[static_cast<std::size_t>(axis)] = 1;
    if (const int place = set.find(index); place >= 0) {
      result.c_[place] = T(1.0);
    }
    return result;
  }
  Taylor(const Taylor& other) : set_(other.set_) { std::copy_n(other.c_, size(), c_); }
  Taylor& operator=(const Taylor& other) {
    if (this != &other) {
      set_ = other.set_;
      std::copy_n(other.c_, size(), c_);
    }
    return *this;
  }

  const JetSet* set() const { return set_; }
  int size() const { return set_ == nullptr ? 1 : set_->size(); }
  const T& operator[](int i) const { return c_[i]; }
  T& operator[](int i) { return c_[i]; }

  Taylor& operator+=(const Taylor& b) {
    adopt(b);
    for (int i = 0; i < b.size(); ++i)
      c_[i] += b.c_[i];
    return *this;
  }
  Taylor& operator-=(const Taylor& b) {
    adopt(b);
    for (int i = 0; i < b.size(); ++i)
      c_[i] -= b.c_[i];
    return *this;
  }
  Taylor& operator*=(const Taylor& b) {
    if (b.set_ == nullptr) {
      for (int i = 0; i < size(); ++i)
        c_[i] *= b.c_[0];
      return *this;
    }
    if (set_ == nullptr) {
      const T factor = c_[0];
      *this = b;
      for (int i = 0; i < size(); ++i)
        c_[i] *= factor;
      return *this;
    }
    Taylor product(*set_, T{});
    for (const JetSet::Term& term : set_->terms()) {
      product.c_[term.result] += c_[term.left] * b.c_[term.right];
    }
    return *this = product;
  }
  Taylor& operator/=(const Taylor& b);
  Taylor& operator*=(double factor) {
    for (int i = 0; i < size(); ++i)
      c_[i] *= factor;
    return *this;
  }

 private:
  void adopt(const Taylor& b) {
    if (set_ == nullptr && b.set_ != nullptr) {
      const T value = c_[0];
      set_ = b.set_;
      c_[0] = value;
      for (int i = 1; i < size(); ++i)
        c_[i] = T{};
    }
  }

  const JetSet* set_ = nullptr;
  T c_[max_derivatives];  // the first size() of them mean something
};

template <class S>
inline constexpr bool carries_derivatives = false;
template <class T, int N>
inline constexpr bool carries_derivatives<Dual<T, N>> = true;
template <class T>
inline constexpr bool carries_derivatives<Taylor<T>> = true;

/// The number itself, without its derivatives.
template <std::floating_point R>
R value_of(R x) {
  return x;
}
template <class T, int N>
auto value_of(const Dual<T, N>& x) {
  return value_of(x.value);
}
template <class T>
auto value_of(const Taylor<T>& x) {
  return value_of(x[0]);
}

/// The k-th derivative of a function at x, with the derivatives that x carries.
template <class F, std::floating_point R>
R compose(const F& f, R x, int k = 0) {
  std::array<R, 7> values;
  f.derivatives(x, k + 1, values.data());
  return values[static_cast<std::size_t>(k)];
}
template <class F, class T, int N>
Dual<T, N> compose(const F& f, const Dual<T, N>& x, int k = 0);
template <class F, class T>
Taylor<T> compose(const F& f, const Taylor<T>& x, int k = 0) {
  const int order = x.set() == nullptr ? 0 : x.set()->order();
  std::array<T, 7> values;
  if constexpr (std::is_floating_point_v<T>) {
    f.derivatives(x[0], k + order + 1, values.data());
  } else {
    for (int m = 0; m <= order; ++m) {
      values[static_cast<std::size_t>(k + m)] = compose(f, x[0], k + m);
    }
  }
  // Horner's scheme in what x has beside its value.
  Taylor<T> rest = x;
  rest[0] = T{};
  Taylor<T> result = x;
  constexpr std::array<double, 5> factorials{1, 1, 2, 6, 24};
  for (int i = 0; i < result.size(); ++i)
    result[i] = T{};
  for (int m = order; m >= 0; --m) {
    if (m < order) result *= rest;
    result[0] +=
        values[static_cast<std::size_t>(k + m)] * T(1.0 / factorials[static_cast<std::size_t>(m)]);
  }
  return result;
}
template <class F, class T, int N>
Dual<T, N> compose(const F& f, const Dual<T, N>& x, int k) {
  Dual<T, N> result;
  T factor;
  if constexpr (std::is_floating_point_v<T>) {
    std::array<T, 7> values;
    f.derivatives(x.value, k + 2, values.data());
    result.value = values[static_cast<std::size_t>(k)];
    factor = values[static_cast<std::size_t>(k) + 1];
  } else {
    result.value = compose(f, x.value, k);
    factor = compose(f, x.value, k + 1);
  }
  for (int i = 0; i < N; ++i)
    result.slope[i] = factor * x.slope[i];
  return result;
}

template <class T, int N>
Dual<T, N>& Dual<T, N>::operator/=(const Dual& b) {
  return *this *= compose(functions::Reciprocal{}, b);
}
template <class T>
Taylor<T>& Taylor<T>::operator/=(const Taylor& b) {
  return *this *= compose(functions::Reciprocal{}, b);
}

template <class S>
concept CarriesDerivatives = carries_derivatives<S>;
template <class C>
concept PlainNumber = std::is_arithmetic_v<C>;

// The operators, with plain numbers on either side.
template <CarriesDerivatives S>
S operator+(S a, const S& b) {
  return a += b;
}
template <CarriesDerivatives S>
S operator-(S a, const S& b) {
  return a -= b;
}
template <CarriesDerivatives S>
S operator*(S a, const S& b) {
  return a *= b;
}
template <CarriesDerivatives S>
S operator/(S a, const S& b) {
  return a /= b;
}
template <CarriesDerivatives S, PlainNumber C>
S operator+(S a, C b) {
  return a += S(b);
}
template <CarriesDerivatives S, PlainNumber C>
S operator-(S a, C b) {
  return a -= S(b);
}
template <CarriesDerivatives S, PlainNumber C>
S operator*(S a, C b) {
  return a *= static_cast<double>(b);
}
template <CarriesDerivatives S, PlainNumber C>
S operator/(S a, C b) {
  return a *= 1.0 / static_cast<double>(b);
}
template <CarriesDerivatives S, PlainNumber C>
S operator+(C a, S b) {
  return b += S(a);
}
template <CarriesDerivatives S, PlainNumber C>
S operator*(C a, S b) {
  return b *= static_cast<double>(a);
}
template <CarriesDerivatives S, PlainNumber C>
S operator-(C a, S b) {
  b *= -1.0;
  return b += S(a);
}
template <CarriesDerivatives S, PlainNumber C>
S operator/(C a, const S& b) {
  return compose(functions::Reciprocal{}, b) *= static_cast<double>(a);
}
template <CarriesDerivatives S>
S operator-(S a) {
  return a *= -1.0;
}

template <class S>
concept RealNumber = std::floating_point<S> || carries_derivatives<S>;

// Functions of plain numbers and of numbers that carry derivatives, by one name.
#define SHARDSOLVE_JET_FUNCTION(name, Function)  \
  template <RealNumber S>                        \
  S name(const S& x) {                           \
    if constexpr (std::is_floating_point_v<S>) { \
      return std::name(x);                       \
    } else {                                     \
      return compose(functions::Function{}, x);  \
    }                                            \
  }
SHARDSOLVE_JET_FUNCTION(exp, Exp)
SHARDSOLVE_JET_FUNCTION(log, Log)
SHARDSOLVE_JET_FUNCTION(sin, Sin)
SHARDSOLVE_JET_FUNCTION(cos, Cos)
SHARDSOLVE_JET_FUNCTION(sinh, Sinh)
SHARDSOLVE_JET_FUNCTION(cosh, Cosh)
SHARDSOLVE_JET_FUNCTION(tanh, Tanh)
#undef SHARDSOLVE_JET_FUNCTION

template <RealNumber S>
S pow(const S& x, double exponent) {
  if constexpr (std::is_floating_point_v<S>) {
    return std::pow(x, S(exponent));
  } else {
    return compose(functions::Power{exponent}, x);
  }
}
template <RealNumber S>
S sqrt(const S& x) {
  return pow(x, 0.5);
}

}  // namespace shardsolve::fbpinn
