#include "matgen/matrices.hpp"

#include "core/each_dtype.hpp"
#include "matgen/philox.hpp"
#include "matgen/spectrum.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace shardsolve::matgen {
namespace {

[[noreturn]] void reject(const std::string& message) {
  throw Error(ErrorKind::invalid_argument, message);
}

bool has_spectrum(Kind kind) {
  return kind == Kind::spectrum_arithmetic || kind == Kind::spectrum_geometric ||
         kind == Kind::spectrum_clustered;
}

bool singles_out_a_row(Kind kind) {
  return kind == Kind::equal_rows || kind == Kind::zero_row || kind == Kind::indefinite;
}

void check(const Recipe& recipe) {
  if (recipe.n < 0) {
    reject(fmt::format("matrix size {} given; sizes are at least 0", recipe.n));
  }
  // Written so that NaN is refused.
  if (!(recipe.condition >= 1.0) || !std::isfinite(recipe.condition)) {
    reject(fmt::format("condition number {} given; it is finite and at least 1", recipe.condition));
  }
  if (!(recipe.jitter >= 0.0) || !(recipe.length > 0.0)) {
    reject(
        fmt::format("jitter {} and length {} given; the jitter is at least 0, the length is "
                    "above 0",
                    recipe.jitter, recipe.length));
  }
  const std::int64_t row = recipe.row.value();
  if (singles_out_a_row(recipe.kind) && recipe.n > 0 && (row < 0 || row >= recipe.n)) {
    reject(fmt::format("row {} of a matrix of size {} given; rows are 0 to {}", row, recipe.n,
                       recipe.n - 1));
  }
  if (recipe.kind == Kind::equal_rows && recipe.n == 1) {
    reject("equal_rows of size 1 given; it needs two rows");
  }
}

std::vector<long double> eigenvalues(const Recipe& recipe) {
  const long double smallest = 1.0L / recipe.condition;
  const auto last = static_cast<long double>(std::max<std::int64_t>(1, recipe.n - 1));
  std::vector<long double> values(static_cast<std::size_t>(recipe.n));
  for (std::int64_t i = 0; i < recipe.n; ++i) {
    const long double fraction = static_cast<long double>(i) / last;
    long double value = 2 * i < recipe.n ? 1.0L : smallest;
    if (recipe.kind == Kind::spectrum_arithmetic) {
      value = 1.0L - fraction * (1.0L - smallest);
    } else if (recipe.kind == Kind::spectrum_geometric) {
      value = std::pow(smallest, fraction);
    }
    values[static_cast<std::size_t>(i)] = value;
  }
  return values;
}

/// The entries of one recipe in double precision, not yet scaled. Value is double or
/// std::complex<double>.
template <class Value>
class Entries {
 public:
  explicit Entries(const Recipe& recipe) : recipe_(recipe) {
    if (has_spectrum(recipe.kind)) {
      spectral_ = SpectralMatrix<Wide>(eigenvalues(recipe), recipe.seed);
    }
  }

  /// Computed in the lower triangle only: the two triangles would round differently.
  Value operator()(std::int64_t i, std::int64_t j) const {
    if (recipe_.kind == Kind::equal_rows) {
      i = representative(i);
      j = representative(j);
    }
    if (recipe_.kind == Kind::general) {
      return modulus_below_one(i, j);
    }
    if (i == j) {
      return std::real(lower(i, i));
    }
    return i > j ? lower(i, j) : conjugate(lower(j, i));
  }

 private:
  static constexpr bool complex = !std::is_same_v<Value, double>;
  using Wide = std::conditional_t<complex, std::complex<long double>, long double>;

  static Value conjugate(Value a) {
    if constexpr (complex) {
      return std::conj(a);
    } else {
      return a;
    }
  }

  std::int64_t representative(std::int64_t i) const {
    const std::int64_t row = recipe_.row.value();
    const std::int64_t twin = row == 0 ? recipe_.n - 1 : 0;
    return i == row ? twin : i;
  }

  Value lower(std::int64_t i, std::int64_t j) const {
    switch (recipe_.kind) {
      case Kind::random:
      case Kind::equal_rows:
        return random(i, j);
      case Kind::general:
        return modulus_below_one(i, j);
      case Kind::hermitian:
        return i == j ? uniform_pair(recipe_.seed, Stream::matrix, i, i)[0] : random(i, j);
      case Kind::gaussian_line:
      case Kind::gaussian_plane:
        return kernel(i, j) * relative_phase(i, j);
      case Kind::minimum:
        return static_cast<double>(j + 1) * quarter_turns(i - j);
      case Kind::laplacian_2d:
        return laplacian(i, j) * quarter_turns(i - j);
      case Kind::diagonal:
        return i == j ? static_cast<double>(i + 1) : 0.0;
      case Kind::spectrum_arithmetic:
      case Kind::spectrum_geometric:
      case Kind::spectrum_clustered:
        return static_cast<Value>(spectral_.lower(i, j));
      case Kind::zero_row:
        return i == recipe_.row.value() || j == recipe_.row.value() ? Value{} : random(i, j);
      case Kind::indefinite:
        return i == j && i == recipe_.row.value() ? -random(i, j) : random(i, j);
    }
    return std::numeric_limits<double>::quiet_NaN();
  }

  Value random(std::int64_t i, std::int64_t j) const {
    if (i == j) {
      // The spectral norm of the rest is near 1.2 sqrt(n).
      return 2.0 * std::sqrt(static_cast<double>(recipe_.n)) +
             std::abs(uniform_pair(recipe_.seed, Stream::matrix, i, i)[0]);
    }
    return modulus_below_one(i, j);
  }

  Value modulus_below_one(std::int64_t i, std::int64_t j) const {
    const auto [first, second] = uniform_pair(recipe_.seed, Stream::matrix, i, j);
    if constexpr (complex) {
      return {first * std::sqrt(0.5), second * std::sqrt(0.5)};
    } else {
      return first;
    }
  }

  double kernel(std::int64_t i, std::int64_t j) const {
    if (i == j) {
      return 1.0 + recipe_.jitter;
    }
    double squared_distance = 0.0;
    if (recipe_.kind == Kind::gaussian_line) {
      const double distance = static_cast<double>(i - j) / static_cast<double>(recipe_.n - 1);
      squared_distance = distance * distance;
    } else {
      const auto a = uniform_pair(recipe_.seed, Stream::point, i, 0);
      const auto b = uniform_pair(recipe_.seed, Stream::point, j, 0);
      // The numbers are from [-1, 1): half of a difference is one of the unit square.
      const double x = 0.5 * (a[0] - b[0]);
      const double y = 0.5 * (a[1] - b[1]);
      squared_distance = x * x + y * y;
    }
    return std::exp(-squared_distance / (2.0 * recipe_.length * recipe_.length));
  }

  /// d_i conj(d_j) for random numbers d of modulus 1.
  Value relative_phase(std::int64_t i, std::int64_t j) const {
    if constexpr (complex) {
      // (1 + it)^2 / |1 + it|^2: without sine and cosine, which differ from machine to machine.
      const auto phase = [&](std::int64_t k) {
        const double t = uniform_pair(recipe_.seed, Stream::phase, k, 0)[0];
        return Value((1.0 - t * t) / (1.0 + t * t), 2.0 * t / (1.0 + t * t));
      };
      return i == j ? Value(1.0) : phase(i) * std::conj(phase(j));
    } else {
      return 1.0;
    }
  }

  /// d_i conj(d_j) for d_k = (imaginary unit)^k, which keeps integers exact.
  static Value quarter_turns(std::int64_t count) {
    if constexpr (complex) {
      constexpr std::array<double, 4> cosine{1.0, 0.0, -1.0, 0.0};
      const auto turn = static_cast<std::size_t>(count % 4);
      return {cosine[turn], cosine[(turn + 3) % 4]};
    } else {
      return 1.0;
    }
  }

  double laplacian(std::int64_t i, std::int64_t j) const {
    const auto grid =
        static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(recipe_.n))));
    if (i == j) {
      return 4.0;
    }
    const bool next_in_grid_row = i - j == 1 && i % grid != 0;
    return next_in_grid_row || i - j == grid ? -1.0 : 0.0;
  }

  Recipe recipe_;
  SpectralMatrix<Wide> spectral_;
};

template <Scalar T>
using ValueOf = std::conditional_t<is_complex<T>, std::complex<double>, double>;

/// value * 2^exponent, rounded to T.
template <Scalar T>
T scale(ValueOf<T> value, int exponent) {
  using Real = RealOf<T>;
  if constexpr (is_complex<T>) {
    return {static_cast<Real>(std::ldexp(value.real(), exponent)),
            static_cast<Real>(std::ldexp(value.imag(), exponent))};
  } else {
    return static_cast<Real>(std::ldexp(value, exponent));
  }
}

}  // namespace

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::random:
      return "random";
    case Kind::hermitian:
      return "hermitian";
    case Kind::general:
      return "general";
    case Kind::gaussian_line:
      return "gaussian_line";
    case Kind::gaussian_plane:
      return "gaussian_plane";
    case Kind::minimum:
      return "minimum";
    case Kind::laplacian_2d:
      return "laplacian_2d";
    case Kind::diagonal:
      return "diagonal";
    case Kind::spectrum_arithmetic:
      return "spectrum_arithmetic";
    case Kind::spectrum_geometric:
      return "spectrum_geometric";
    case Kind::spectrum_clustered:
      return "spectrum_clustered";
    case Kind::equal_rows:
      return "equal_rows";
    case Kind::zero_row:
      return "zero_row";
    case Kind::indefinite:
      return "indefinite";
  }
  return "unknown";
}

template <Scalar T>
T entry(const Recipe& recipe, GlobalIndex i, GlobalIndex j) {
  check(recipe);
  const auto inside = [&](GlobalIndex k) { return k.value() >= 0 && k.value() < recipe.n; };
  if (!inside(i) || !inside(j)) {
    reject(
        fmt::format("entry ({}, {}) of a matrix of size {} given; both indices are at least 0 "
                    "and below the size",
                    i.value(), j.value(), recipe.n));
  }
  return scale<T>(Entries<ValueOf<T>>(recipe)(i.value(), j.value()), recipe.scale_exponent);
}

template <Scalar T>
void fill_columns(const Recipe& recipe, GlobalRange columns, MatrixView<T> out) {
  check(recipe);
  if (columns.begin.value() < 0 || columns.end < columns.begin || columns.end.value() > recipe.n) {
    reject(fmt::format("columns [{}, {}) of a matrix of size {} given; ranges lie inside [0, {})",
                       columns.begin.value(), columns.end.value(), recipe.n, recipe.n));
  }
  if (out.rows() != recipe.n || out.columns() != columns.size()) {
    reject(
        fmt::format("a view of {} x {} elements given for {} columns of a matrix of size {}; it "
                    "has to be {} x {}",
                    out.rows(), out.columns(), columns.size(), recipe.n, recipe.n, columns.size()));
  }
  const Entries<ValueOf<T>> entries(recipe);
  for (std::int64_t column = 0; column < columns.size(); ++column) {
    for (std::int64_t row = 0; row < recipe.n; ++row) {
      out(row, column) =
          scale<T>(entries(row, columns.begin.value() + column), recipe.scale_exponent);
    }
  }
}

template <Scalar T>
T rhs(std::uint64_t seed, GlobalIndex i, std::int64_t j) {
  const auto [first, second] = uniform_pair(seed, Stream::right_hand_side, i.value(), j);
  if constexpr (is_complex<T>) {
    return scale<T>({first, second}, 0);
  } else {
    return scale<T>(first, 0);
  }
}

#define SHARDSOLVE_INSTANTIATE(T)                                           \
  template T entry<T>(const Recipe&, GlobalIndex, GlobalIndex);             \
  template void fill_columns<T>(const Recipe&, GlobalRange, MatrixView<T>); \
  template T rhs<T>(std::uint64_t, GlobalIndex, std::int64_t);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::matgen
