#include "fbpinn/pointwise_rows.hpp"

#include "fbpinn/box_rows.hpp"
#include "fbpinn/chunks.hpp"
#include "fbpinn/residual_on_device.hpp"
#include "fbpinn/training_vectors.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace shardsolve::fbpinn {
namespace pointwise {

[[noreturn]] void refuse_nonfinite(const Term& term, const PointGeometry& geometry,
                                   const Segment& segment, std::int64_t point) {
  const int axes = geometry.set.axes();
  const auto pair = geometry.at.pairs.pairs_of(point).front();
  const std::int64_t local = point - segment.first_point;
  const std::int64_t number =
      term.numbers.empty() ? local : term.numbers[static_cast<std::size_t>(local)];
  throw Error(
      ErrorKind::invalid_argument,
      fmt::format("the residual of term '{}' or a derivative of it is not finite at its point {} "
                  "at ({}), in box {}: look for a division by 0 or a root there, or leave the "
                  "point out",
                  term.name, number,
                  fmt::join(std::span(geometry.points.data() + point * axes,
                                      static_cast<std::size_t>(axes)),
                            ", "),
                  geometry.at.pairs.box[static_cast<std::size_t>(pair)]));
}

/// a_v[left] = sum over the terms of a_u[result] times the jet of du/dv [right]: in place.
void differentiate_constraint(const JetSet& set, const double* slopes, double* a) {
  double result[max_derivatives] = {};
  for (const JetSet::Term& term : set.terms()) {
    result[term.left] += term.weight * a[term.result] * slopes[term.right];
  }
  std::copy_n(result, set.size(), a);
}

/// The points [first, last) of a segment.
class PointwisePiece {
 public:
  PointwisePiece(const Problem& problem, const Term& term, const PointGeometry& geometry,
                 const Segment& segment, std::int64_t first, std::int64_t last)
      : problem_(problem),
        geometry_(geometry),
        term_(term),
        segment_(segment),
        scale_(term_.weight / std::sqrt(static_cast<double>(segment_.points))),
        first_(first),
        count_(last - first),
        jet_numbers_(geometry.jet_numbers()) {}

  /// Returns the first point at which something is not finite; -1 if all is.
  std::int64_t compute(std::span<const double> v, const std::vector<double>& coefficients,
                       bool derivatives, PointwiseRows& rows) const {
    const int equations = segment_.equations;
    const std::int64_t first_point = segment_.first_point + first_;
    PointBatch batch{&geometry_.set,
                     problem_.fields(),
                     count_,
                     geometry_.points.data() + first_point * geometry_.set.axes(),
                     v.data() + first_point * jet_numbers_,
                     coefficients};
    std::vector<double> u;
    std::vector<double> slopes;
    if (problem_.constraint()) {
      u.resize(static_cast<std::size_t>(count_ * jet_numbers_));
      slopes.resize(derivatives ? u.size() : 0);
      problem_.constraint()(batch, u.data(), derivatives ? slopes.data() : nullptr);
      batch.jets = u.data();
    }
    std::vector<double> r(static_cast<std::size_t>(count_ * equations));
    double* const a = derivatives ? rows.derivatives.data() + segment_.first_derivative +
                                        first_ * equations * jet_numbers_
                                  : nullptr;
    const auto numbers = static_cast<std::int64_t>(coefficients.size());
    std::vector<double> b(derivatives ? static_cast<std::size_t>(count_ * equations * numbers) : 0);
    if (derivatives) {
      term_.residual.linearise(batch, r.data(), a, b.data());
    } else {
      term_.residual.evaluate(batch, r.data());
    }
    std::int64_t nonfinite = -1;
    for (std::int64_t p = 0; p < count_; ++p) {
      for (int e = 0; e < equations; ++e) {
        const std::int64_t local = p * equations + e;
        const double target =
            term_.targets.empty()
                ? 0.0
                : term_.targets[static_cast<std::size_t>(first_ * equations + local)];
        const double value = scale_ * (r[static_cast<std::size_t>(local)] - target);
        const std::int64_t row = segment_.first_row + e * segment_.points + first_ + p;
        rows.residual[static_cast<std::size_t>(row)] = value;
        bool is_finite = std::isfinite(value);
        if (derivatives) {
          is_finite = is_finite && finish_derivatives(p, a + local * jet_numbers_, slopes);
          for (std::int64_t k = 0; k < numbers; ++k) {
            const double slope = scale_ * b[static_cast<std::size_t>(local * numbers + k)];
            rows.by_coefficients[static_cast<std::size_t>(k * geometry_.rows + row)] = slope;
            is_finite = is_finite && std::isfinite(slope);
          }
        }
        if (!is_finite && nonfinite < 0) {
          nonfinite = first_point + p;
        }
      }
    }
    return nonfinite;
  }

 private:
  /// By the jets of v, and scaled. Whether all are finite.
  bool finish_derivatives(std::int64_t p, double* a, const std::vector<double>& slopes) const {
    const int size = geometry_.set.size();
    for (int f = 0; f < problem_.fields() && !slopes.empty(); ++f) {
      differentiate_constraint(geometry_.set, slopes.data() + (p * problem_.fields() + f) * size,
                               a + f * size);
    }
    bool is_finite = true;
    for (std::int64_t d = 0; d < jet_numbers_; ++d) {
      a[d] *= scale_;
      is_finite = is_finite && std::isfinite(a[d]);
    }
    return is_finite;
  }

  const Problem& problem_;
  const PointGeometry& geometry_;
  const Term& term_;
  const Segment& segment_;
  double scale_;  // of the rows
  std::int64_t first_;
  std::int64_t count_;
  std::int64_t jet_numbers_;
};

/// Derivatives by the jets on the host, fetched if they are elsewhere.
class OnHost {
 public:
  OnHost(const PointwiseRows& rows, const sparse::Workers& workers)
      : rows_(rows), fetched_(rows.on_devices ? fetch(*rows.on_devices, workers) : Numbers()) {}

  operator const std::vector<double>&() const {  // NOLINT: implicit
    return rows_.on_devices ? fetched_ : rows_.derivatives;
  }

 private:
  using Numbers = std::vector<double>;
  const PointwiseRows& rows_;
  Numbers fetched_;
};

/// Of each term, whether its derivatives by the jets are all 0.
std::vector<char> are_zero(const PointGeometry& geometry, const PointwiseRows& rows,
                           const sparse::Workers& workers) {
  std::vector<DerivativeRange> ranges;
  for (const Segment& segment : geometry.segments) {
    ranges.push_back(
        {segment.first_derivative, segment.points * segment.equations * geometry.jet_numbers()});
  }
  std::vector<char> result;
  if (rows.on_devices) {
    for (const Largest& one : largest_of(*rows.on_devices, nullptr, ranges, workers)) {
      result.push_back(one.size == 0.0 ? 1 : 0);
    }
    return result;
  }
  for (const DerivativeRange& range : ranges) {
    const auto begin = rows.derivatives.begin() + range.first;
    const bool is_zero = std::all_of(begin, begin + range.count, [](double x) { return x == 0.0; });
    result.push_back(is_zero ? 1 : 0);
  }
  return result;
}

}  // namespace pointwise

double PointwiseRows::loss() const {
  double sum = 0.0;
  for (const double r : residual) {
    sum += r * r;
  }
  return sum;
}

PointwiseRows pointwise_rows(const Problem& problem, const std::vector<Term>& terms,
                             const PointGeometry& geometry, std::span<const double> v,
                             const std::vector<double>& coefficients, bool derivatives,
                             bool accept_nonfinite, std::int64_t chunk,
                             const sparse::Workers& workers, DerivativesAt where) {
  workers.enter("residual");
  if (std::optional<RowsOnDevices> made =
          rows_on_devices(problem, terms, geometry, v, coefficients, derivatives, chunk, workers)) {
    for (std::size_t term = 0; term < terms.size() && !accept_nonfinite; ++term) {
      if (made->nonfinite[term] >= 0) {
        pointwise::refuse_nonfinite(terms[term], geometry, geometry.segments[term],
                                    made->nonfinite[term]);
      }
    }
    if (where == DerivativesAt::host && made->rows.on_devices) {
      made->rows.derivatives = fetch(*made->rows.on_devices, workers);
      made->rows.on_devices.reset();
    }
    return std::move(made->rows);
  }
  PointwiseRows rows;
  rows.residual.resize(static_cast<std::size_t>(geometry.rows));
  rows.derivatives.resize(derivatives ? static_cast<std::size_t>(geometry.derivatives) : 0);
  rows.by_coefficients.resize(derivatives ? rows.residual.size() * coefficients.size() : 0);
  for (std::size_t term = 0; term < geometry.segments.size(); ++term) {
    const Segment& segment = geometry.segments[term];
    const std::int64_t jets = geometry.jet_numbers();
    const std::int64_t at_a_time =
        points_of_call(chunk, geometry.set.axes() + 3 * jets + segment.equations * (jets + 1));
    const std::int64_t pieces = (segment.points + at_a_time - 1) / at_a_time;
    std::vector<std::int64_t> nonfinite(static_cast<std::size_t>(pieces), -1);
    const auto range_of_piece = [&](std::int64_t piece) {
      const std::int64_t first = piece * at_a_time;
      return std::pair(first, std::min(segment.points, first + at_a_time));
    };
    workers.share(
        pieces,
        [&](std::int64_t piece) {
          const auto [first, last] = range_of_piece(piece);
          nonfinite[static_cast<std::size_t>(piece)] =
              pointwise::PointwisePiece(problem, terms[term], geometry, segment, first, last)
                  .compute(v, coefficients, derivatives, rows);
        },
        [&](std::int64_t piece, sparse::Packet& packet) {
          const auto [first, last] = range_of_piece(piece);
          packet.value(nonfinite[static_cast<std::size_t>(piece)]);
          for (int e = 0; e < segment.equations; ++e) {
            const std::int64_t row = segment.first_row + e * segment.points + first;
            packet.array(rows.residual.data() + row, last - first);
            for (std::size_t k = 0; derivatives && k < coefficients.size(); ++k) {
              packet.array(rows.by_coefficients.data() + k * rows.residual.size() + row,
                           last - first);
            }
          }
          if (derivatives) {
            const std::int64_t numbers = segment.equations * geometry.jet_numbers();
            packet.array(rows.derivatives.data() + segment.first_derivative + first * numbers,
                         (last - first) * numbers);
          }
        });
    const auto found = std::find_if(nonfinite.begin(), nonfinite.end(),
                                    [](std::int64_t point) { return point >= 0; });
    if (found != nonfinite.end() && !accept_nonfinite) {
      pointwise::refuse_nonfinite(terms[term], geometry, segment, *found);
    }
  }
  return rows;
}

bool have_equal_derivatives(const PointwiseRows& a, const PointwiseRows& b,
                            const sparse::Workers& workers) {
  if (a.on_devices && b.on_devices) {
    const Largest largest =
        largest_of(*a.on_devices, b.on_devices.get(), {{0, a.on_devices->count()}}, workers)[0];
    return training::is_rounding_of(largest.difference, largest.size);
  }
  return training::are_nearly_equal(pointwise::OnHost(a, workers), pointwise::OnHost(b, workers));
}

bool have_finite_derivatives(const PointwiseRows& rows, const sparse::Workers& workers) {
  if (!rows.on_devices) {
    return are_finite(rows.derivatives);
  }
  return std::isfinite(
      largest_of(*rows.on_devices, nullptr, {{0, rows.on_devices->count()}}, workers)[0].size);
}

void subtract_linear_part(const PointGeometry& geometry, const PointwiseRows& rows,
                          std::span<const double> v, const sparse::Workers& workers,
                          std::vector<double>& residual) {
  const pointwise::OnHost on_host(rows, workers);
  const std::vector<double>& derivatives = on_host;
  const auto numbers = static_cast<std::size_t>(geometry.jet_numbers());
  for (const Segment& segment : geometry.segments) {
    const double* a = derivatives.data() + segment.first_derivative;
    for (std::int64_t p = 0; p < segment.points; ++p) {
      const double* const at = v.data() + (segment.first_point + p) * geometry.jet_numbers();
      for (int e = 0; e < segment.equations; ++e, a += numbers) {
        double sum = 0.0;
        for (std::size_t d = 0; d < numbers; ++d) {
          sum += a[d] * at[d];
        }
        residual[static_cast<std::size_t>(segment.first_row + e * segment.points + p)] -= sum;
      }
    }
  }
}

void require_derivatives(const Problem& problem, const PointGeometry& geometry,
                         const PointwiseRows& rows, const sparse::Workers& workers) {
  const auto is_zero = [](double value) { return value == 0.0; };
  const auto numbers = static_cast<std::int64_t>(rows.by_coefficients.size()) / geometry.rows;
  const std::vector<char> is_constant = pointwise::are_zero(geometry, rows, workers);
  for (std::size_t term = 0; term < geometry.segments.size(); ++term) {
    const Segment& segment = geometry.segments[term];
    bool matters_not = is_constant[term] != 0;
    for (std::int64_t k = 0; k < numbers && matters_not; ++k) {
      const auto of_term = rows.by_coefficients.begin() + k * geometry.rows + segment.first_row;
      matters_not = std::all_of(of_term, of_term + segment.points * segment.equations, is_zero);
    }
    if (matters_not) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("the residual of term '{}' has the derivative 0 by u and all its "
                              "derivatives, at every point: networks cannot make it smaller. "
                              "Look for a factor that is 0, in the residual or the constraint",
                              problem.terms()[term].name));
    }
  }
}

void require_coefficients_to_matter(const Problem& problem, const PointGeometry& geometry,
                                    const PointwiseRows& rows, const PointwiseRows& other) {
  for (const Coefficient& one : problem.coefficients()) {
    const auto is_zero = [&](const std::vector<double>& derivatives) {
      const auto begin = derivatives.begin() + one.first * geometry.rows;
      const auto end = begin + static_cast<std::int64_t>(one.start.size()) * geometry.rows;
      return std::all_of(begin, end, [](double value) { return value == 0.0; });
    };
    if (is_zero(rows.by_coefficients) && is_zero(other.by_coefficients)) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("no term depends on the coefficient '{}' at any of its points, where "
                              "u is 0 or of size 1: read it in an equation, leave it out, or scale "
                              "u to that size",
                              one.name));
    }
  }
}

}  // namespace shardsolve::fbpinn
