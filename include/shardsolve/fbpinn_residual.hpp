/// What a term of a problem reads at a point and returns there, and residuals and hard conditions
/// for many points at a time, made of functions for one.
#pragma once

#include <shardsolve/export.hpp>
#include <shardsolve/fbpinn_coefficients.hpp>
#include <shardsolve/jet_scalars.hpp>
#include <shardsolve/jet_set.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardsolve::fbpinn {

/// The coordinates of one point.
using Coordinates = std::span<const double>;

/// Which derivatives of which field a function has read, and which numbers of the coefficients,
/// while that is recorded.
struct JetReads {
  int axes = 1;
  std::vector<std::vector<MultiIndex>> of_field;
  std::vector<std::int64_t> coefficients = {};
};

namespace detail {
/// The place in `set` of the derivative along each of `along`, which is read for the first time if
/// `reads` is given. Throws Error(invalid_argument) for an axis that the problem has not, an order
/// above 4, or a derivative that was not read when it was recorded.
SHARDSOLVE_EXPORT int place_of_derivative(const JetSet& set, std::span<const int> along, int field,
                                          JetReads* reads);
[[noreturn]] SHARDSOLVE_EXPORT void throw_no_field(int field, int fields);
}  // namespace detail

/// The value and derivatives of the fields at one point: u() is the first field's value, u(0) its
/// derivative along axis 0, u(0, 1) its second along axes 0 and 1; u.field(i)(...) that of others.
/// What a function reads at the first point of a term it may read at all.
template <class S>
class Jets {
 public:
  Jets(const JetSet& set, int fields, const S* values, JetReads* reads, int field = 0)
      : set_(&set), fields_(fields), values_(values), reads_(reads), field_(field) {}

  template <class... Axes>
  const S& operator()(Axes... axes) const {
    static_assert((std::is_convertible_v<Axes, int> && ...), "axes are numbers from 0 on");
    const std::array<int, sizeof...(Axes)> along{static_cast<int>(axes)...};
    return values_[field_ * set_->size() +
                   detail::place_of_derivative(*set_, along, field_, reads_)];
  }
  Jets field(int field) const {
    if (field < 0 || field >= fields_) {
      detail::throw_no_field(field, fields_);
    }
    return {*set_, fields_, values_, reads_, field};
  }

 private:
  const JetSet* set_;
  int fields_;
  const S* values_;
  JetReads* reads_;
  int field_;
};

/// Some points, and jets of the fields there: fields x set->size() numbers a point.
struct PointBatch {
  const JetSet* set = nullptr;
  int fields = 1;
  std::int64_t count = 0;
  const double* points = nullptr;  ///< set->axes() numbers a point
  const double* jets = nullptr;
  std::span<const double> coefficients;  ///< the numbers of all unknown coefficients
};

/// Arrays in the memory of a GPU that a residual's function has left there, whole and with nothing
/// between: `r`, `a` and `b` as Residual::linearise has them. The last two may be null where they
/// are not asked for, `b` also where there are no coefficients.
struct ResidualInDeviceMemory {
  const double* r = nullptr;
  const double* a = nullptr;
  const double* b = nullptr;
};

/// A residual, for many points at a time. All may be called from several threads at once.
struct Residual {
  int equations = 1;
  /// Calls the function once and notes what it reads. The point counts, the jets do not.
  std::function<void(const double* point, int fields, std::span<const double> coefficients,
                     JetReads& reads)>
      record;
  /// r: count x equations.
  std::function<void(const PointBatch&, double* r)> evaluate;
  /// r; its derivatives by the jets, a: count x equations x fields x set->size(); and by the
  /// coefficients' numbers, b: count x equations x coefficients, all 0 before the call.
  std::function<void(const PointBatch&, double* r, double* a, double* b)> linearise;
  /// May be empty. The same on a GPU, that of rank `rank` of the mesh that trains: points and jets
  /// lie on the host, what it returns in that GPU's memory, finished, until the next call for this
  /// rank. Called by one thread at a time for each rank. If it returns nothing, `evaluate` and
  /// `linearise` are called in its place.
  std::function<std::optional<ResidualInDeviceMemory>(std::int64_t rank, const PointBatch&,
                                                      bool derivatives)>
      on_device;
};
/// A hard condition: jets of u from those of the networks' sum v, likewise as polynomials about the
/// point; and jets of du/dv, if `slopes` is not null.
using Constraint = std::function<void(const PointBatch& v, double* u, double* slopes)>;

namespace detail {

template <class R>
struct Equations {
  using Number = R;
  static constexpr int count = 1;
  // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): r outlives the call
  static const R& get(const R& r, int /*equation*/) { return r; }
};
template <class S, std::size_t n>
struct Equations<std::array<S, n>> {
  using Number = S;
  static constexpr int count = static_cast<int>(n);
  static const S& get(const std::array<S, n>& r, int equation) {
    return r[static_cast<std::size_t>(equation)];
  }
};

/// function(x, u, c), or function(x, u) if it takes no coefficients.
template <class F, class S>
auto call_residual(const F& function, Coordinates x, const Jets<S>& u, const Coefficients<S>& c) {
  if constexpr (std::is_invocable_v<const F&, Coordinates, const Jets<S>&,
                                    const Coefficients<S>&>) {
    return function(x, u, c);
  } else {
    return function(x, u);
  }
}

template <class F, class S>
using ResultOf = std::remove_cvref_t<decltype(call_residual(
    std::declval<const F&>(), std::declval<Coordinates>(), std::declval<const Jets<S>&>(),
    std::declval<const Coefficients<S>&>()))>;

/// Directions that are differentiated along at a time.
inline constexpr int directions = 6;

/// One point of a batch, and a residual there: r, a and b as in Residual::linearise.
template <class F>
class LinearisedPoint {
 public:
  using Slopes = Dual<double, directions>;
  using Linear = Equations<ResultOf<F, Slopes>>;

  LinearisedPoint(const F& function, const PointBatch& batch)
      : function_(function),
        batch_(batch),
        size_(batch.fields * batch.set->size()),
        jets_(static_cast<std::size_t>(size_)) {}

  void compute(std::int64_t p, double* r, double* a, double* b) {
    const std::int64_t row = p * Linear::count;
    reads_.clear();
    for (int first = 0; first < size_; first += directions) {
      const int last = std::min(first + directions, size_);
      const auto result = call(p, first, last, {});
      for (int e = 0; e < Linear::count; ++e) {
        const Slopes& value = Linear::get(result, e);
        r[row + e] = value.value;
        for (int d = first; d < last; ++d) {
          a[(row + e) * size_ + d] = value.slope[static_cast<std::size_t>(d - first)];
        }
      }
    }
    // By the coefficients that were read here, which are few however many there are.
    const auto all = static_cast<std::int64_t>(batch_.coefficients.size());
    const std::vector<std::int64_t> read = reads_;
    for (std::size_t first = 0; first < read.size(); first += directions) {
      const std::span<const std::int64_t> along =
          std::span(read).subspan(first, std::min<std::size_t>(directions, read.size() - first));
      const auto result = call(p, 0, 0, along);
      for (int e = 0; e < Linear::count; ++e) {
        for (std::size_t i = 0; i < along.size(); ++i) {
          b[(row + e) * all + along[i]] = Linear::get(result, e).slope[i];
        }
      }
    }
  }

 private:
  auto call(std::int64_t p, int first, int last, std::span<const std::int64_t> along) {
    for (int d = 0; d < size_; ++d) {
      Slopes& jet = jets_[static_cast<std::size_t>(d)];
      jet = Slopes(batch_.jets[p * size_ + d]);
      if (d >= first && d < last) {
        jet.slope[static_cast<std::size_t>(d - first)] = 1.0;
      }
    }
    const auto axes = static_cast<std::size_t>(batch_.set->axes());
    return call_residual<F, Slopes>(function_,
                                    Coordinates(batch_.points + p * batch_.set->axes(), axes),
                                    Jets<Slopes>(*batch_.set, batch_.fields, jets_.data(), nullptr),
                                    Coefficients<Slopes>(batch_.coefficients, along, &reads_));
  }

  const F& function_;
  const PointBatch& batch_;
  int size_;
  std::vector<Slopes> jets_;
  std::vector<std::int64_t> reads_;
};

template <class F>
Residual make_residual(F function) {
  using Slopes = Dual<double, directions>;
  using Result = Equations<ResultOf<F, double>>;
  using Linear = Equations<ResultOf<F, Slopes>>;
  static_assert(
      std::is_same_v<typename Result::Number, double>,
      "a residual returns a number of the kind that the jets are made of, or a std::array "
      "of them");
  static_assert(std::is_same_v<typename Linear::Number, Slopes>,
                "a residual depends on the jets or on coefficients; return what it computes from "
                "them");
  Residual residual;
  residual.equations = Result::count;
  residual.record = [function](const double* point, int fields,
                               std::span<const double> coefficients, JetReads& reads) {
    const JetSet all = JetSet::full(reads.axes, max_order);
    const std::vector<double> zeros(static_cast<std::size_t>(fields * all.size()), 0.0);
    call_residual<F, double>(function, Coordinates(point, static_cast<std::size_t>(reads.axes)),
                             Jets<double>(all, fields, zeros.data(), &reads),
                             Coefficients<double>(coefficients, {}, &reads.coefficients));
  };
  residual.evaluate = [function](const PointBatch& batch, double* r) {
    const auto axes = static_cast<std::size_t>(batch.set->axes());
    const std::int64_t size = batch.fields * batch.set->size();
    for (std::int64_t p = 0; p < batch.count; ++p) {
      const auto result = call_residual<F, double>(
          function, Coordinates(batch.points + p * batch.set->axes(), axes),
          Jets<double>(*batch.set, batch.fields, batch.jets + p * size, nullptr),
          Coefficients<double>(batch.coefficients));
      for (int e = 0; e < Result::count; ++e) {
        r[p * Result::count + e] = Result::get(result, e);
      }
    }
  };
  residual.linearise = [function](const PointBatch& batch, double* r, double* a, double* b) {
    LinearisedPoint<F> at(function, batch);
    for (std::int64_t p = 0; p < batch.count; ++p) {
      at.compute(p, r, a, b);
    }
  };
  return residual;
}

template <class F, class S>
S call_constraint(const F& function, std::span<const S> x, const S& v, int field) {
  if constexpr (std::is_invocable_v<const F&, std::span<const S>, const S&, int>) {
    return function(x, v, field);
  } else {
    return function(x, v);
  }
}

template <class F>
Constraint make_constraint(F function) {
  return [function](const PointBatch& batch, double* u, double* slopes) {
    using Series = Taylor<double>;
    using Number = Dual<Series, 1>;
    const JetSet& set = *batch.set;
    const int size = set.size();
    std::vector<Number> x(static_cast<std::size_t>(set.axes()));
    for (std::int64_t p = 0; p < batch.count; ++p) {
      for (int axis = 0; axis < set.axes(); ++axis) {
        x[static_cast<std::size_t>(axis)] =
            Number(Series::variable(set, batch.points[p * set.axes() + axis], axis));
      }
      for (int field = 0; field < batch.fields; ++field) {
        const std::int64_t at = (p * batch.fields + field) * size;
        Number v(Series(set, 0.0));
        v.slope[0] = Series(set, 1.0);
        for (int d = 0; d < size; ++d) {
          v.value[d] = batch.jets[at + d] / set.factorial(d);
        }
        const Number result =
            call_constraint<F, Number>(function, std::span<const Number>(x), v, field);
        for (int d = 0; d < size; ++d) {
          u[at + d] = d < result.value.size() ? result.value[d] * set.factorial(d) : 0.0;
          if (slopes != nullptr) {
            slopes[at + d] =
                d < result.slope[0].size() ? result.slope[0][d] * set.factorial(d) : 0.0;
          }
        }
      }
    }
  };
}

}  // namespace detail

}  // namespace shardsolve::fbpinn
