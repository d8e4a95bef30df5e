/// What a problem's functions say at given jets.
#pragma once

#include "fbpinn/derivatives.hpp"
#include "fbpinn/training_geometry.hpp"

#include <shardsolve/fbpinn.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace shardsolve::fbpinn {

/// Residuals and their derivatives by the jets of the networks' sum, both multiplied by their
/// term's weight / sqrt(points).
struct PointwiseRows {
  std::vector<double> residual;     ///< by row
  std::vector<double> derivatives;  ///< by segment, point, equation, field, derivative
  /// The same in place of them, where functions were called on devices.
  std::shared_ptr<const DerivativesOnDevices> on_devices;
  /// By the coefficients: a matrix of as many rows as there are residuals, column-major.
  std::vector<double> by_coefficients;

  double loss() const;
  Derivatives by_jets() const {
    return on_devices ? Derivatives(*on_devices) : Derivatives(derivatives);
  }
};

/// Where derivatives by the jets are to be.
enum class DerivativesAt : std::uint8_t { anywhere, host };

/// `terms`: what is to vanish at the geometry's points. `v`: jets of the sum there. `coefficients`:
/// the numbers of all. Derivatives are left out unless asked for. `chunk`: points of a call of the
/// user's functions, or 0 (chunks.hpp). Throws Error(invalid_argument) if a residual or derivative
/// is not finite, unless `accept_nonfinite`.
PointwiseRows pointwise_rows(const Problem& problem, const std::vector<Term>& terms,
                             const PointGeometry& geometry, std::span<const double> v,
                             const std::vector<double>& coefficients, bool derivatives,
                             bool accept_nonfinite, std::int64_t chunk,
                             const sparse::Workers& workers,
                             DerivativesAt where = DerivativesAt::anywhere);

/// Whether their derivatives by the jets differ by no more than rounding of the largest of `a`.
bool have_equal_derivatives(const PointwiseRows& a, const PointwiseRows& b,
                            const sparse::Workers& workers);
/// Whether derivatives by the jets are all finite.
bool have_finite_derivatives(const PointwiseRows& rows, const sparse::Workers& workers);

/// residual -= the derivatives of `rows` by v, times v.
void subtract_linear_part(const PointGeometry& geometry, const PointwiseRows& rows,
                          std::span<const double> v, const sparse::Workers& workers,
                          std::vector<double>& residual);

/// Throws Error(invalid_argument) if a term's derivatives by the jets are all 0, and those by the
/// coefficients too.
void require_derivatives(const Problem& problem, const PointGeometry& geometry,
                         const PointwiseRows& rows, const sparse::Workers& workers);

/// Throws Error(invalid_argument) if the rows have the derivative 0 by a coefficient, `rows` and
/// `other` at other jets and coefficients.
void require_coefficients_to_matter(const Problem& problem, const PointGeometry& geometry,
                                    const PointwiseRows& rows, const PointwiseRows& other);

}  // namespace shardsolve::fbpinn
