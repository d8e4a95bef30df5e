// Singular values and polar factors beside LAPACK's and the oracle's, on the caller's own A, U, V.

#include "reference/svd.hpp"

#include "dense/svd/by_polar.hpp"
#include "dense/svd/polar_factor.hpp"
#include "dense/svd/weights.hpp"
#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "reference/matmul.hpp"
#include "runtime/host/blas.hpp"
#include "runtime/host/host_device.hpp"
#include "support/bits.hpp"
#include "support/cuts.hpp"
#include "support/dtypes.hpp"
#include "support/lu_zoo.hpp"
#include "support/matrix_zoo.hpp"
#include "support/qr_zoo.hpp"
#include "support/sharded_problem.hpp"
#include "support/singular_values.hpp"
#include "support/thrown.hpp"

#include <shardsolve/svd.hpp>

#include <gtest/gtest.h>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing::singular {
namespace {

using reference::conjugate;
using reference::Op;
using reference::widen;

template <class T>
class SvdFamily : public ::testing::Test {};
TYPED_TEST_SUITE(SvdFamily, Dtypes, DtypeNames);

double limit(double lapack) { return std::max(10.0, 4.0 * lapack); }

template <Scalar T>
DenseMatrix<T> adjoint(const DenseMatrix<T>& a) {
  return reference::matmul(Op::conjugate_transpose, a, Op::none,
                           DenseMatrix<T>::identity(a.rows()));
}

template <Scalar T>
struct Triple {
  DenseMatrix<T> u;
  std::vector<RealOf<T>> s;
  DenseMatrix<T> v;
};

/// ||A - U S V^H|| / (||A||_2 u), Frobenius above.
template <Scalar T>
double residual_ratio(const DenseMatrix<T>& a, const Triple<T>& found, double norm) {
  long double sum = 0;
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      auto rest = widen(a(i, j));
      for (std::size_t k = 0; k < found.s.size(); ++k) {
        const auto column = static_cast<std::int64_t>(k);
        rest -=
            widen(found.u(i, column)) * widen(T{found.s[k]}) * conjugate(widen(found.v(j, column)));
      }
      const long double size = std::abs(rest);
      sum += size * size;
    }
  }
  const double of = norm > 0 ? norm : 1.0;
  return static_cast<double>(std::sqrt(sum) / of) / unit_roundoff<T>;
}

/// LAPACK's, of A with columns or rows of zeros to be square.
template <Scalar T>
Triple<T> lapack_svd(const DenseMatrix<T>& a) {
  const std::int64_t n = std::max(a.rows(), a.columns());
  const std::int64_t least = std::min(a.rows(), a.columns());
  DenseMatrix<T> square(n, n);
  copy_entries<T>(a.view(), square.view().block(0, 0, a.rows(), a.columns()));
  DenseMatrix<T> u(n, n);
  DenseMatrix<T> vh(n, n);
  std::vector<RealOf<T>> s(static_cast<std::size_t>(n));
  EXPECT_EQ(runtime::host::blas::Blas<T>::gesdd(square.view(), s.data(), u.view(), vh.view()), 0);
  s.resize(static_cast<std::size_t>(least));
  Triple<T> found{DenseMatrix<T>(a.rows(), least), s, DenseMatrix<T>(a.columns(), least)};
  copy_entries<T>(u.view().block(0, 0, a.rows(), least), found.u.view());
  const DenseMatrix<T> v = adjoint(vh);
  copy_entries<T>(v.view().block(0, 0, a.columns(), least), found.v.view());
  return found;
}

/// What LAPACK is off by: also between two unitary matrices, as it does nothing to what is
/// diagonal.
template <Scalar T>
struct Peer {
  explicit Peer(const DenseMatrix<T>& a) {
    const DenseMatrix<T> turned =
        reference::matmul(Op::none, reference::matmul(Op::none, unitary(a.rows()), Op::none, a),
                          Op::none, unitary(a.columns()));
    for (const DenseMatrix<T>& one : {a, turned}) {
      const Triple<T> found = lapack_svd(one);
      residual = std::max(residual, residual_ratio(one, found, double{found.s[0]}));
      orthogonality = std::max({orthogonality, q_ratio(found.v), q_ratio(found.u)});
    }
  }
  static DenseMatrix<T> unitary(std::int64_t n) {
    return lapack_svd(right_hand_sides<T>(n, n, 77)).u;
  }
  double residual = 0.0;
  double orthogonality = 0.0;
};

/// Rows on one rank; ragged; with an empty block. `columns` is cut in another way.
struct SvdCut {
  std::string name;
  SlabLayout rows;
  SlabLayout columns;
};
std::vector<SvdCut> cuts(std::int64_t m, std::int64_t n) {
  return {{"one", SlabLayout::even(m, 1, 8), SlabLayout::even(n, 1, 5)},
          {"ragged", SlabLayout({0, m / 3, m / 3 + 1, m}, 4), SlabLayout({0, n / 2, n, n}, 3)},
          {"one_empty", SlabLayout({0, m / 2, m / 2, m - 1, m}, 5), SlabLayout::even(n, 4, 2)}};
}

/// The calls, and by polar factors where they take LAPACK.
enum class Way : std::uint8_t { called, polar };

/// U, S, V^H and S alone.
template <Scalar T>
std::pair<SingularValues<T>, SingularValues<T>> decompose(Way way, Mesh& mesh,
                                                          const RowBlocks<T>& a,
                                                          const RowBlocks<T>& u,
                                                          const RowBlocks<T>& v) {
  using dense::svd::svd_by_polar;
  using dense::svd::Wanted;
  if (way == Way::called) {
    return {svd(mesh, a, u, v), svdvals(mesh, a)};
  }
  const bool wide = a.layout().size() < a.columns();
  return {svd_by_polar<T>({"svd", mesh, a, v.layout(), Wanted::vectors, {}},
                          {.u = wide ? v : u, .v = wide ? u : v, .vh = nullptr}),
          svd_by_polar<T>({"svdvals", mesh, a, v.layout(), Wanted::values, {}}, {})};
}

template <Scalar T>
void expect_as_good_as_lapack(const DenseMatrix<T>& a, const SvdCut& cut, Way way,
                              const Peer<T>& peer, const reference::Svd<T>& oracle) {
  SCOPED_TRACE(way == Way::called ? "as called" : "by polar factors");
  const std::int64_t least = std::min(a.rows(), a.columns());
  const auto norm = static_cast<double>(oracle.s[0]);
  Mesh mesh = make_mesh(cut.rows.ranks());
  const RowBlocks<T> blocks = shard_rows(a, cut.rows);
  const RowBlocks<T> u = shard_rows(DenseMatrix<T>(a.rows(), least), cut.rows);
  const RowBlocks<T> v = shard_rows(DenseMatrix<T>(a.columns(), least), cut.columns);
  const auto [made, alone] = decompose(way, mesh, blocks, u, v);
  ASSERT_TRUE(made.outcome.ok()) << made.outcome.message();
  ASSERT_TRUE(alone.outcome.ok()) << alone.outcome.message();
  EXPECT_TRUE(same_bits(whole(blocks), a));
  ASSERT_EQ(std::ssize(made.values), least);
  EXPECT_TRUE(std::is_sorted(made.values.rbegin(), made.values.rend()));
  EXPECT_TRUE(made.values.back() >= 0);
  for (const auto& values : {made.values, alone.values}) {
    const double off = off_by<T>(values, oracle.s);
    EXPECT_TRUE(off <= 10.0 + 0.5 * static_cast<double>(least)) << off;
  }
  const Triple<T> found{whole(u), made.values, whole(v)};
  const double residual = residual_ratio(a, found, norm);
  EXPECT_TRUE(residual <= limit(peer.residual)) << residual << ", LAPACK " << peer.residual;
  const double off_u = q_ratio(found.u);
  const double off_v = q_ratio(found.v);
  EXPECT_TRUE(off_u <= limit(peer.orthogonality)) << off_u << ", LAPACK " << peer.orthogonality;
  EXPECT_TRUE(off_v <= limit(peer.orthogonality)) << off_v << ", LAPACK " << peer.orthogonality;
  // the certificate, Frobenius below as well
  const double certified = *made.outcome.residual / unit_roundoff<T>;
  EXPECT_TRUE(certified <= 3 * residual + 10) << certified << " for " << residual;
  const double orthogonal = *made.outcome.orthogonality / unit_roundoff<T>;
  EXPECT_TRUE(orthogonal <= 2 * std::max(off_u, off_v) + 30) << orthogonal;
  if (std::max(off_u, off_v) > 20.0) {
    EXPECT_TRUE(orthogonal >= std::max(off_u, off_v) / (20 * std::sqrt(least))) << orthogonal;
  }
}

template <Scalar T>
void expect_as_good_as_lapack(const DenseMatrix<T>& a, const SvdCut& cut) {
  const Peer<T> peer(a);
  const auto oracle = reference::svd(a.rows() < a.columns() ? adjoint(a) : a);
  for (const Way way : {Way::called, Way::polar}) {
    expect_as_good_as_lapack(a, cut, way, peer, oracle);
  }
}

TYPED_TEST(SvdFamily, OfEverySquareMatrix_IsAsGoodAsLapacks) {
  using T = TypeParam;
  for (const std::int64_t n : {2, 20}) {
    std::size_t next = 0;
    for (const LuCase<T>& one : lu_zoo<T>(n)) {
      const SvdCut cut = cuts(n, n)[next++ % 3];
      SCOPED_TRACE(one.name + " n " + std::to_string(n) + " " + cut.name);
      expect_as_good_as_lapack(one.a, cut);
    }
  }
}

TYPED_TEST(SvdFamily, OfEveryTallOrWideMatrix_IsAsGoodAsLapacks) {
  using T = TypeParam;
  std::size_t next = 0;
  for (const auto& [m, n] : {std::pair{60, 12}, {17, 12}}) {
    for (const QrCase<T>& one : qr_zoo<T>(m, n)) {
      const bool wide = next % 2 != 0;
      const SvdCut cut = cuts(wide ? n : m, wide ? m : n)[(next / 2) % 3];
      SCOPED_TRACE(one.name + (wide ? " wide " : " tall ") + std::to_string(m) + " " + cut.name);
      expect_as_good_as_lapack(wide ? adjoint(one.a) : one.a, cut);
      ++next;
    }
  }
}

// More columns than the bidiagonal form takes at a time, of A itself and of its R.
TYPED_TEST(SvdFamily, OfManyColumns_IsAsGoodAsLapacks) {
  using T = TypeParam;
  std::size_t next = 0;
  for (const auto& [m, n] : {std::pair{70, 70}, {64, 33}, {100, 65}, {140, 70}}) {
    const DenseMatrix<T> random = right_hand_sides<T>(m, n, 5);
    DenseMatrix<T> graded = random;
    DenseMatrix<T> ones(m, n);
    std::fill_n(ones.data(), m * n, T{1});
    for (std::int64_t j = 0; j < n; ++j) {
      const RealOf<T> size = std::ldexp(RealOf<T>{1}, static_cast<int>(-(j * 37) % 91));
      for (std::int64_t i = 0; i < m; ++i) {
        graded(i, j) *= size;
      }
    }
    for (const DenseMatrix<T>& a : {random, graded, ones}) {
      const SvdCut cut = cuts(m, n)[next++ % 3];
      SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " " + cut.name);
      expect_as_good_as_lapack(a, cut, Way::called, Peer<T>(a), reference::svd(a));
    }
  }
}

TYPED_TEST(SvdFamily, PolarFactors_AreThoseOfTheOracle) {
  using T = TypeParam;
  std::size_t next = 0;
  std::vector<std::pair<std::string, DenseMatrix<T>>> all;
  for (const LuCase<T>& one : lu_zoo<T>(12)) {
    all.emplace_back(one.name, one.a);
  }
  for (const QrCase<T>& one : qr_zoo<T>(30, 6)) {
    all.emplace_back(one.name + "_tall", one.a);
  }
  for (const auto& [name, a] : all) {
    const std::int64_t n = a.columns();
    const SvdCut cut = cuts(a.rows(), n)[next++ % 3];
    SCOPED_TRACE(name + " " + cut.name);
    Mesh mesh = make_mesh(cut.rows.ranks());
    const RowBlocks<T> blocks = shard_rows(a, cut.rows);
    const RowBlocks<T> u = shard_rows(DenseMatrix<T>(a.rows(), n), cut.rows);
    const ShardedMatrix<T> h = shard(DenseMatrix<T>(n, n), cut.columns);
    const Outcome outcome = polar(mesh, blocks, u, h);
    ASSERT_TRUE(outcome.ok()) << outcome.message();
    EXPECT_TRUE(same_bits(whole(blocks), a));
    EXPECT_TRUE(*outcome.residual <= 20 * unit_roundoff<T>) << *outcome.residual;
    const double orthogonal = q_ratio(whole(u));
    const double of_lapack = Peer<T>(a).orthogonality;
    EXPECT_TRUE(orthogonal <= limit(of_lapack)) << orthogonal << ", LAPACK " << of_lapack;
    const auto exact = reference::hermitian_polar_factor(a);
    const double norm = static_cast<double>(reference::svd(a).s[0]);
    const DenseMatrix<T> given = whole(h);
    double worst = 0.0;
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(given(i, j), conjugate(given(j, i)));
        worst = std::max(worst, static_cast<double>(std::abs(widen(given(i, j)) - exact(i, j))));
      }
    }
    EXPECT_TRUE(worst <= (10.0 + static_cast<double>(n)) * norm * unit_roundoff<T>)
        << worst / (norm > 0 ? norm : 1.0) / unit_roundoff<T>;
  }
}

#ifdef __SSE2__
TYPED_TEST(SvdFamily, CallerWhoFlushesSubnormalNumbers_GetsThem) {
  using T = TypeParam;
  const SvdCut cut = cuts(6, 6)[1];
  const RealOf<T> tiny = std::numeric_limits<RealOf<T>>::min() / 64;
  DenseMatrix<T> a(6, 6);
  for (std::int64_t j = 0; j < 6; ++j) {
    a(j, j) = T{tiny};
  }
  Mesh mesh = make_mesh(cut.rows.ranks());
  const RowBlocks<T> blocks = shard_rows(a, cut.rows);
  const unsigned before = _mm_getcsr();
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  const SingularValues<T> found = svdvals(mesh, blocks);
  _mm_setcsr(before);
  ASSERT_TRUE(found.outcome.ok()) << found.outcome.message();
  EXPECT_EQ(found.values, std::vector<RealOf<T>>(6, tiny));
}
#endif

TYPED_TEST(SvdFamily, WholeFactorsInEachProcess_AreThoseOfTheMatrix) {
  using T = TypeParam;
  for (const auto& [m, n] : {std::pair{40, 7}, {9, 9}, {12, 1}}) {
    const SvdCut cut = cuts(m, n)[1];
    const DenseMatrix<T> a = right_hand_sides<T>(m, n, 5);
    Mesh mesh = make_mesh(cut.rows.ranks());
    const RowBlocks<T> u = shard_rows(DenseMatrix<T>(m, n), cut.rows);
    const auto expect_factors = [&](const DenseMatrix<T>& v, const std::vector<RealOf<T>>& s) {
      const Triple<T> found{whole(u), s, v};
      const double ratio = residual_ratio(a, found, double{s[0]});
      EXPECT_TRUE(ratio <= 60) << ratio;
      EXPECT_TRUE(q_ratio(v) <= 60 && q_ratio(found.u) <= 60);
    };
    const SingularVectors<T> made = svd(mesh, shard_rows(a, cut.rows), u);
    ASSERT_TRUE(made.outcome.ok()) << made.outcome.message();
    ASSERT_EQ(std::ssize(made.v), n * n);
    DenseMatrix<T> v(n, n);
    std::copy(made.v.begin(), made.v.end(), &v(0, 0));
    expect_factors(v, made.values);
    const auto all = std::make_shared<std::vector<T>>();
    const SingularValues<T> polar_way = dense::svd::svd_by_polar<T>(
        {"svd", mesh, shard_rows(a, cut.rows), cut.columns, dense::svd::Wanted::vectors, {}, true},
        {.u = u, .v = std::nullopt, .vh = all});
    ASSERT_TRUE(polar_way.outcome.ok()) << polar_way.outcome.message();
    ASSERT_EQ(std::ssize(*all), n * n);
    std::copy(all->begin(), all->end(), &v(0, 0));
    expect_factors(adjoint(v), polar_way.values);
    const PolarFactor<T> polar_factor = polar(mesh, shard_rows(a, cut.rows), u);
    ASSERT_TRUE(polar_factor.outcome.ok()) << polar_factor.outcome.message();
    const auto exact = reference::hermitian_polar_factor(a);
    double worst = 0.0;
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < n; ++i) {
        const T entry = polar_factor.h[static_cast<std::size_t>(i + j * n)];
        worst = std::max(worst, static_cast<double>(std::abs(widen(entry) - exact(i, j))));
      }
    }
    EXPECT_TRUE(worst <= 20 * double{made.values[0]} * unit_roundoff<T>)
        << worst / double{made.values[0]} / unit_roundoff<T>;
  }
}

/// A small singular value that none of the random vectors sees. The bound that they find is none,
/// and what they miss is found out at the end.
TEST(Svd, PolarFactorOfAValueThatRandomVectorsDoNotSee_IsRight) {
  constexpr std::int64_t n = 40;
  constexpr double small = 1e-7;
  DenseMatrix<double> seen(n, dense::svd::look_vectors + 1);
  for (std::int64_t j = 0; j < seen.columns(); ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      seen(i, j) = dense::svd::random_at(i, j, n);
    }
  }
  // Gram and Schmidt, twice: the last column is the right singular vector of `small`.
  for (int time = 0; time < 2; ++time) {
    for (std::int64_t j = 0; j < seen.columns(); ++j) {
      for (std::int64_t k = 0; k <= j; ++k) {
        double product = 0.0;
        for (std::int64_t i = 0; i < n; ++i) {
          product += seen(i, k) * seen(i, j);
        }
        for (std::int64_t i = 0; i < n; ++i) {
          seen(i, j) = k < j ? seen(i, j) - product * seen(i, k) : seen(i, j) / std::sqrt(product);
        }
      }
    }
  }
  // A = D (I - 2 w w^T / w^T w) over rows of zeros: row n is that vector times `small`
  std::vector<double> w(n);
  double square = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double one = (i == n - 1 ? 1.0 : 0.0) - seen(i, seen.columns() - 1);
    w[static_cast<std::size_t>(i)] = one;
    square += one * one;
  }
  constexpr std::int64_t m = n + 8;
  DenseMatrix<double> a(m, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double size = i == 0 ? 222.0 : i == n - 1 ? small : 1.0;
      const double turned = 2.0 * w[static_cast<std::size_t>(i)] * w[static_cast<std::size_t>(j)];
      a(i, j) = size * ((i == j ? 1.0 : 0.0) - turned / square);
    }
  }
  const SvdCut cut = cuts(m, n)[1];
  Mesh mesh = make_mesh(cut.rows.ranks());
  const RowBlocks<double> u = shard_rows(DenseMatrix<double>(m, n), cut.rows);
  const PolarFactor<double> found = polar(mesh, shard_rows(a, cut.rows), u);
  ASSERT_TRUE(found.outcome.ok()) << found.outcome.message();
  EXPECT_TRUE(q_ratio(whole(u)) <= 20);
  EXPECT_LT(*found.outcome.residual, 20 * unit_roundoff<double>);
}

TEST(Svd, Iterations_BringAllOfTheirRangeToOne) {
  for (const double least : {1.0, 0.1, 1e-4, 1e-9, 1e-16, 0x1p-60}) {
    const auto all = dense::svd::weights_from(least, 1e-15, 1e6);
    EXPECT_LE(all.size(), 9U);
    for (double x = least; x <= 1.0; x = x < 1.0 ? std::min(1.0, 3.7 * x) : 2.0) {
      double value = x;
      for (const dense::svd::Weights& w : all) {
        EXPECT_LE(w.c, 1.0001e6);
        value *= (w.a + w.b * value * value) / (1.0 + w.c * value * value);
      }
      EXPECT_NEAR(value, 1.0, 1e-14) << x << " of " << least;
    }
  }
}

TEST(Svd, CpuRanks_GoByABidiagonalFormUntilItsVectorsAreLong) {
  using dense::svd::is_by_bidiagonal;
  EXPECT_TRUE(is_by_bidiagonal(8192, Memory::host));
  EXPECT_FALSE(is_by_bidiagonal(8193, Memory::host));
  EXPECT_FALSE(is_by_bidiagonal(2, Memory::device));
}

TEST(Svd, BadInput_IsRefusedWithItsPlace) {
  const SlabLayout rows({0, 4, 9}, 3);
  const SlabLayout columns({0, 3, 3}, 2);
  Mesh mesh = make_mesh(2);
  DenseMatrix<double> a = right_hand_sides<double>(9, 3, 5);
  const RowBlocks<double> u = shard_rows(DenseMatrix<double>(9, 3), rows);
  const RowBlocks<double> v = shard_rows(DenseMatrix<double>(3, 3), columns);
  const ShardedMatrix<double> h = shard(DenseMatrix<double>(3, 3), columns);
  a(7, 2) = std::numeric_limits<double>::quiet_NaN();
  const SingularValues<double> made = svd(mesh, shard_rows(a, rows), u, v);
  EXPECT_EQ(made.outcome.status, Status::nonfinite_input);
  EXPECT_TRUE(made.values.empty());
  EXPECT_EQ(made.outcome.location->what, Located::matrix_entry);
  EXPECT_EQ(made.outcome.location->row.value(), 7);
  EXPECT_EQ(made.outcome.location->column.value(), 2);
  EXPECT_EQ(svdvals(mesh, shard_rows(a, rows)).outcome.status, Status::nonfinite_input);
  EXPECT_EQ(polar(mesh, shard_rows(a, rows), u, h).status, Status::nonfinite_input);
  a(7, 2) = 1.0;
  const RowBlocks<double> good = shard_rows(a, rows);
  const auto refused = [&](auto call, const std::vector<std::string>& words) {
    expect_error(call, ErrorKind::invalid_argument, words);
  };
  refused([&] { svd(mesh, good, v, v); }, {"u is 3 x 3", "9 x 3"});
  refused([&] { svd(mesh, good, u, u); }, {"v is 9 x 3", "3 x 3"});
  refused(
      [&] { svd(mesh, good, shard_rows(DenseMatrix<double>(9, 3), SlabLayout({0, 5, 9}, 3)), v); },
      {"cut at different rows", "u"});
  refused([&] { svdvals(mesh, shard_rows(DenseMatrix<double>(9, 0), rows)); }, {"9 x 0"});
  refused([&] { polar(mesh, shard_rows(right_hand_sides<double>(9, 12), rows), u, h); },
          {"9 x 12", "adjoint"});
  refused([&] { polar(mesh, shard_rows(right_hand_sides<double>(9, 12), rows), u); },
          {"9 x 12", "adjoint"});
  refused([&] { svd(mesh, shard_rows(right_hand_sides<double>(9, 12), rows), u); },
          {"9 x 12", "adjoint"});
  refused([&] { svd(mesh, good, v); }, {"u is 3 x 3", "9 x 3"});
  refused([&] { polar(mesh, good, u, shard(DenseMatrix<double>(4, 4), SlabLayout({0, 2, 4}, 2))); },
          {"h is 4 x 4", "3 x 3"});
}

TEST(Svd, ValuesBeyondTheRange_AreOverflows) {
  const SlabLayout layout = SlabLayout::even(6, 2, 1);
  Mesh mesh = make_mesh(2);
  DenseMatrix<float> a(6, 2);
  std::fill_n(a.data(), 12, 3e38F);
  for (const SingularValues<float>& found :
       {svdvals(mesh, shard_rows(a, layout)),
        dense::svd::svd_by_polar<float>({"svdvals",
                                         mesh,
                                         shard_rows(a, layout),
                                         SlabLayout::even(2, 2, 1),
                                         dense::svd::Wanted::values,
                                         {}},
                                        {})}) {
    EXPECT_EQ(found.outcome.status, Status::overflow);
    EXPECT_TRUE(found.values.empty());
  }
  const RowBlocks<float> u = shard_rows(DenseMatrix<float>(6, 2), layout);
  const ShardedMatrix<float> h = shard(DenseMatrix<float>(2, 2), SlabLayout::even(2, 2, 1));
  EXPECT_EQ(polar(mesh, shard_rows(a, layout), u, h).status, Status::overflow);
}

/// CPU devices that lack what GPUs lack.
class DeviceWithoutQrKernels final : public runtime::host::HostDevice {
 public:
  using HostDevice::HostDevice;
  const void* find_kernels(runtime::KernelSet set, Dtype dtype) const override {
    return set == runtime::KernelSet::qr ? nullptr : HostDevice::find_kernels(set, dtype);
  }
};
class BackendWithoutQrKernels final : public mesh::HostBackend {
 public:
  using HostBackend::HostBackend;
  std::unique_ptr<runtime::Device> make_device(std::int64_t, runtime::Pulse& pulse) override {
    return std::make_unique<DeviceWithoutQrKernels>(pulse);
  }
};

TEST(Svd, DevicesWithoutItsKernels_RefuseBeforeAnyWork) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "of CPU devices";
  }
  const SlabLayout layout = SlabLayout::even(20, 3, 4);
  Mesh mesh{mesh::MeshState::start(std::make_unique<BackendWithoutQrKernels>(3))};
  const RowBlocks<double> a = shard_rows(right_hand_sides<double>(20, 5), layout);
  expect_error([&] { svdvals(mesh, a); }, ErrorKind::unsupported,
               {"no kernels for QR factorisations and least squares in float64"});
}

TYPED_TEST(SvdFamily, TwoRuns_GiveTheSameBits) {
  using T = TypeParam;
  const std::int64_t n = 40;
  const SlabLayout layout({0, 10, 10, 27, n}, 7);
  const DenseMatrix<T> a = right_hand_sides<T>(n, n, 5);
  const DenseMatrix<T> none(n, n);
  for (const Way way : {Way::called, Way::polar}) {
    std::vector<DenseMatrix<T>> first;
    for (int i = 0; i < 3; ++i) {
      Mesh mesh = make_mesh(layout.ranks());
      const RowBlocks<T> u = shard_rows(none, layout);
      const RowBlocks<T> v = shard_rows(none, layout);
      const auto found = decompose(way, mesh, shard_rows(a, layout), u, v);
      ASSERT_TRUE(found.first.outcome.ok());
      if (first.empty()) {
        first = {whole(u), whole(v)};
      }
      EXPECT_TRUE(same_bits(whole(u), first[0]));
      EXPECT_TRUE(same_bits(whole(v), first[1]));
    }
  }
}

}  // namespace
}  // namespace shardsolve::testing::singular
