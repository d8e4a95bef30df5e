#include "tests/support/matrix_zoo.hpp"

#include "core/each_dtype.hpp"

#include <complex>
#include <ostream>

namespace shardsolve::testing {
namespace {

using matgen::Kind;
using matgen::Recipe;
using reference::DenseMatrix;

/// What differs between float32 and float64 arithmetic.
struct Precision {
  double roundoff;
  int scale_exponent;  ///< entries of 2^+-scale_exponent keep all their digits in every product
};

Precision precision_of(Dtype dtype) {
  const bool single = dtype == Dtype::float32 || dtype == Dtype::complex64;
  return single ? Precision{unit_roundoff<float>, 90} : Precision{unit_roundoff<double>, 900};
}

void add_kernels(std::vector<ZooCase>& zoo, std::int64_t n, Precision precision) {
  struct Jitter {
    const char* name;
    double value;
  };
  constexpr Jitter jitters[] = {{"jitter_1em4", 1e-4},
                                {"jitter_1em8", 1e-8},
                                {"jitter_1em12", 1e-12},
                                {"without_jitter", 0.0}};
  struct Points {
    Kind kind;
    double length;
  };
  // Lengths at which the leading tiles are as ill-conditioned as the jitter lets them be: there
  // panels formed with an explicit inverse are caught.
  for (const Points& points :
       {Points{Kind::gaussian_line, 0.2}, Points{Kind::gaussian_plane, 0.5}}) {
    for (const Jitter& jitter : jitters) {
      // The norm is at most n; a backward stable factor is off by a few roundoffs of it.
      const bool clear = jitter.value > 8.0 * static_cast<double>(n) * precision.roundoff;
      zoo.push_back({std::string(name(points.kind)) + "_" + jitter.name,
                     {.kind = points.kind,
                      .n = n,
                      .seed = 3,
                      .jitter = jitter.value,
                      .length = points.length},
                     clear ? Expect::ok : Expect::edge});
    }
  }
}

void add_spectra(std::vector<ZooCase>& zoo, std::int64_t n, Precision precision) {
  struct Condition {
    const char* name;
    double times_eps;
    Expect expect;
  };
  constexpr Condition conditions[] = {{"condition_1em3_by_eps", 1e-3, Expect::ok},
                                      {"condition_1em1_by_eps", 1e-1, Expect::edge},
                                      {"condition_1e2_by_eps", 1e2, Expect::edge}};
  for (const Kind kind :
       {Kind::spectrum_arithmetic, Kind::spectrum_geometric, Kind::spectrum_clustered}) {
    for (const Condition& condition : conditions) {
      zoo.push_back({std::string(name(kind)) + "_" + condition.name,
                     {.kind = kind,
                      .n = n,
                      .seed = 5,
                      .condition = condition.times_eps / (2.0 * precision.roundoff)},
                     condition.expect});
    }
  }
}

void add_scaled(std::vector<ZooCase>& zoo, std::int64_t n, Precision precision) {
  for (const Kind kind : {Kind::random, Kind::gaussian_line}) {
    const Recipe recipe{.kind = kind, .n = n, .seed = 7, .jitter = 1e-2};
    zoo.push_back({std::string(name(kind)) + "_tiny", recipe});
    zoo.back().recipe.scale_exponent = -precision.scale_exponent;
    zoo.push_back({std::string(name(kind)) + "_huge", recipe});
    zoo.back().recipe.scale_exponent = precision.scale_exponent;
  }
}

void add_failing(std::vector<ZooCase>& zoo, std::int64_t n) {
  struct Failing {
    const char* name;
    Kind kind;
    std::int64_t row;
  };
  const Failing failing[] = {{"zero_row_first", Kind::zero_row, 0},
                             {"zero_row_middle", Kind::zero_row, n / 2},
                             {"indefinite_first", Kind::indefinite, 0},
                             {"indefinite_middle", Kind::indefinite, n / 2},
                             {"indefinite_last", Kind::indefinite, n - 1}};
  for (const Failing& f : failing) {
    zoo.push_back({f.name,
                   {.kind = f.kind, .n = n, .seed = 9, .row = GlobalIndex(f.row)},
                   Expect::not_positive_definite});
  }
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const ZooCase& zoo_case) {
  return out << zoo_case.name;
}

std::vector<ZooCase> matrix_zoo(Dtype dtype, std::int64_t n) {
  const Precision precision = precision_of(dtype);
  std::vector<ZooCase> zoo = {{"random", {.kind = Kind::random, .n = n, .seed = 1}},
                              {"minimum", {.kind = Kind::minimum, .n = n}},
                              {"laplacian_2d", {.kind = Kind::laplacian_2d, .n = n}},
                              {"diagonal", {.kind = Kind::diagonal, .n = n}}};
  add_kernels(zoo, n, precision);
  add_spectra(zoo, n, precision);
  add_scaled(zoo, n, precision);
  if (n >= 1) {
    add_failing(zoo, n);
  }
  if (n >= 2) {
    zoo.push_back({"equal_rows",
                   {.kind = Kind::equal_rows, .n = n, .seed = 11, .row = GlobalIndex(n / 2)},
                   Expect::edge});
  }
  return zoo;
}

template <Scalar T>
DenseMatrix<T> dense(const Recipe& recipe) {
  DenseMatrix<T> a(recipe.n, recipe.n);
  matgen::fill_columns<T>(recipe, {GlobalIndex(0), GlobalIndex(recipe.n)}, a.view());
  return a;
}

template <Scalar T>
DenseMatrix<T> right_hand_sides(std::int64_t n, std::int64_t count, std::uint64_t seed) {
  DenseMatrix<T> b(n, count);
  for (std::int64_t j = 0; j < count; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      b(i, j) = matgen::rhs<T>(seed, GlobalIndex(i), j);
    }
  }
  return b;
}

#define SHARDSOLVE_INSTANTIATE(T)                  \
  template DenseMatrix<T> dense<T>(const Recipe&); \
  template DenseMatrix<T> right_hand_sides<T>(std::int64_t, std::int64_t, std::uint64_t);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::testing
