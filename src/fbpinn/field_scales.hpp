/// Fields in units of their own, brought to like size for a linear step.
#pragma once

#include "fbpinn/derivatives.hpp"
#include "fbpinn/training_geometry.hpp"
#include "sparse/workers.hpp"

#include <span>
#include <vector>

namespace shardsolve::fbpinn {

/// By which power of two the derivatives of each field are to be multiplied, so that columns of one
/// field are not too small to be kept beside those of another: pressure in pascal, a displacement
/// in metres. None where they are about alike, or one of them is not finite.
std::vector<int> field_exponents(const TrainingGeometry& geometry, const Derivatives& derivatives,
                                 const sparse::Workers& workers);

/// A copy.
std::vector<double> scaled_fields(const TrainingGeometry& geometry, std::span<const double> numbers,
                                  const std::vector<int>& exponents);

/// Derivatives on devices are scaled where they are, as long as this is there.
class ScaledOnDevices {
 public:
  ScaledOnDevices(const TrainingGeometry& geometry, const DerivativesOnDevices& derivatives,
                  std::vector<int> exponents, const sparse::Workers& workers);
  ~ScaledOnDevices();
  ScaledOnDevices(const ScaledOnDevices&) = delete;
  ScaledOnDevices& operator=(const ScaledOnDevices&) = delete;

 private:
  void scale(int sign) const;

  const TrainingGeometry& geometry_;
  const DerivativesOnDevices& derivatives_;
  std::vector<int> exponents_;
  const sparse::Workers& workers_;
};

}  // namespace shardsolve::fbpinn
