/// Sums of many numbers.
#pragma once

#include <cmath>

namespace shardsolve::core {

/// A sum with what its additions have lost: about as accurate as one in twice the precision.
/// A. Neumaier, ZAMM 54 (1974) 39.
class CompensatedSum {
 public:
  void add(double term) {
    const double next = sum_ + term;
    lost_ += std::abs(sum_) >= std::abs(term) ? (sum_ - next) + term : (term - next) + sum_;
    sum_ = next;
  }
  void add(const CompensatedSum& other) {
    add(other.sum_);
    add(other.lost_);
  }
  double value() const { return sum_ + lost_; }

 private:
  double sum_ = 0.0;
  double lost_ = 0.0;
};

}  // namespace shardsolve::core
