/// The real symmetric tridiagonal eigenproblem: what both ways to solve it are given and find.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::dense::eigh {

/// Eigenvalues first <= i < last of all, counted from the smallest.
struct IndexRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  std::int64_t size() const { return last - first; }
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

/// Rows begin <= i < end of T.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

inline RowRange common_rows(const RowRange& a, const RowRange& b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

enum class TridiagonalStatus : std::uint8_t {
  ok,
  nonfinite_input,  ///< T holds a NaN or an infinity
  not_converged,    ///< of a part of T eigenvalues were not found
};

/// Never thrown, and the same on every rank.
template <class Real>
struct TridiagonalOutcome {
  TridiagonalStatus status = TridiagonalStatus::ok;
  RowRange failed;           ///< not_converged: the part's rows
  std::vector<Real> values;  ///< ok: the eigenvalues asked for, ascending

  bool ok() const { return status == TridiagonalStatus::ok; }
};

/// T times a power of two, its largest entry from 1 to 2 (0 if T is): no product of its entries
/// leaves the range, and what is lost where they become subnormal is nothing beside ||T||.
template <class Real>
class ScaledTridiagonal {
 public:
  ScaledTridiagonal(const std::vector<Real>& given_diagonal,
                    const std::vector<Real>& given_off_diagonal)
      : diagonal(given_diagonal), off_diagonal(given_off_diagonal) {
    Real largest = 0;
    for (const std::vector<Real>* entries : {&given_diagonal, &given_off_diagonal}) {
      for (const Real entry : *entries) {
        is_finite_ = is_finite_ && std::isfinite(entry);
        largest = std::max(largest, std::abs(entry));
      }
    }
    if (!is_finite_ || largest == Real{0}) {
      return;
    }
    exponent_ = std::ilogb(largest);
    for (std::vector<Real>* entries : {&diagonal, &off_diagonal}) {
      for (Real& entry : *entries) {
        entry = scaled(entry);
      }
    }
  }

  bool is_finite() const { return is_finite_; }
  Real scaled(Real value) const { return std::scalbn(value, -exponent_); }
  Real unscaled(Real value) const { return std::scalbn(value, exponent_); }

  std::vector<Real> diagonal;
  std::vector<Real> off_diagonal;

 private:
  bool is_finite_ = true;
  int exponent_ = 0;
};

}  // namespace shardsolve::dense::eigh
