#include "tests/support/eigh_zoo.hpp"

#include "core/each_dtype.hpp"
#include "matgen/matrices.hpp"
#include "matgen/philox.hpp"
#include "matgen/spectrum.hpp"
#include "reference/matmul.hpp"
#include "tests/support/matrix_zoo.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <iterator>
#include <type_traits>

namespace shardsolve::testing {
namespace {

using matgen::Kind;
using reference::narrow;
using reference::product;
using reference::Wide;
using reference::widen;
using reference::WideReal;

/// The Hermitian matrix whose entry (i, j), i >= j, is lower(i, j), but for the imaginary part of
/// its diagonal.
template <Scalar T, class Lower>
DenseMatrix<T> hermitian_of(std::int64_t n, Lower lower) {
  DenseMatrix<T> a(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    a(j, j) = std::real(static_cast<T>(lower(j, j)));
    for (std::int64_t i = j + 1; i < n; ++i) {
      a(i, j) = static_cast<T>(lower(i, j));
      a(j, i) = reference::conjugate(a(i, j));
    }
  }
  return a;
}

/// d_i conj(d_j) for d_k = (imaginary unit)^k, which is exact; 1 for real dtypes.
template <Scalar T>
T quarter_turn(std::int64_t i, std::int64_t j) {
  if constexpr (is_complex<T>) {
    constexpr std::array<int, 4> cosine{1, 0, -1, 0};
    const auto turn = static_cast<std::size_t>((i - j) % 4);
    return T(static_cast<RealOf<T>>(cosine[turn]), static_cast<RealOf<T>>(cosine[(turn + 3) % 4]));
  } else {
    return T{1};
  }
}

double uniform(std::uint64_t seed, std::int64_t i) {
  return matgen::uniform_pair(seed, matgen::Stream::point, i, 0)[0];
}

/// Q diag(values) Q^H.
template <Scalar T>
DenseMatrix<T> with_spectrum(const std::vector<long double>& values) {
  using Value = std::conditional_t<is_complex<T>, std::complex<long double>, long double>;
  const matgen::SpectralMatrix<Value> spectral(values, 5);
  return hermitian_of<T>(static_cast<std::int64_t>(values.size()),
                         [&](std::int64_t i, std::int64_t j) { return spectral.lower(i, j); });
}

template <Scalar T>
DenseMatrix<T> three_clusters(std::int64_t n) {
  std::vector<long double> values;
  for (std::int64_t i = 0; i < n; ++i) {
    constexpr std::array<long double, 3> centres{-2, 1, 3};
    const long double width = 1000 * unit_roundoff<T>;
    values.push_back(centres[static_cast<std::size_t>(i % 3)] + width / 2 * uniform(3, i));
  }
  return with_spectrum<T>(values);
}

template <Scalar T>
DenseMatrix<T> rank_three(std::int64_t n) {
  std::vector<long double> values{3, -2, 1};
  values.resize(static_cast<std::size_t>(n));
  return with_spectrum<T>(values);
}

template <Scalar T>
DenseMatrix<T> wishart(std::int64_t n) {
  const DenseMatrix<T> g = right_hand_sides<T>(n, n, 17);
  const DenseMatrix<T> ggh =
      reference::matmul(reference::Op::none, g, reference::Op::conjugate_transpose, g);
  return hermitian_of<T>(
      n, [&](std::int64_t i, std::int64_t j) { return ggh(i, j) / static_cast<RealOf<T>>(n); });
}

template <Scalar T>
DenseMatrix<T> one_value(const DenseMatrix<T>& random) {
  const auto u = static_cast<RealOf<T>>(unit_roundoff<T>);
  return hermitian_of<T>(random.rows(), [&](std::int64_t i, std::int64_t j) {
    return T(i == j ? 1 : 0) + u * random(i, j);
  });
}

template <Scalar T>
DenseMatrix<T> kac_murdock_szego(std::int64_t n) {
  return hermitian_of<T>(n, [](std::int64_t i, std::int64_t j) {
    const double size = std::pow(0.9, static_cast<double>(i - j));
    return static_cast<RealOf<T>>(size) * quarter_turn<T>(i, j);
  });
}

template <Scalar T>
DenseMatrix<T> glued_wilkinson(std::int64_t n) {
  constexpr std::int64_t block = 21;
  const auto glue = static_cast<RealOf<T>>(std::sqrt(unit_roundoff<T>));
  return hermitian_of<T>(n, [&](std::int64_t i, std::int64_t j) {
    if (i == j) {
      return T(static_cast<RealOf<T>>(std::abs(block / 2 - i % block)));
    }
    const RealOf<T> size = i - j > 1 ? RealOf<T>{0} : i % block == 0 ? glue : RealOf<T>{1};
    return size * quarter_turn<T>(i, j);
  });
}

/// min(t_i, t_j) of ascending t: the entries of a column are equal from the diagonal on.
template <Scalar T>
DenseMatrix<T> brownian(std::int64_t n) {
  std::vector<double> t;
  for (std::int64_t i = 0; i < n; ++i) {
    t.push_back(uniform(11, i));
  }
  std::sort(t.begin(), t.end());
  return hermitian_of<T>(n, [&](std::int64_t i, std::int64_t j) {
    return static_cast<RealOf<T>>(t[static_cast<std::size_t>(j)]) * quarter_turn<T>(i, j);
  });
}

/// `a` with its real and imaginary parts multiplied by these.
template <Scalar T>
DenseMatrix<T> unequal_parts(const DenseMatrix<T>& a, RealOf<T> real, RealOf<T> imaginary) {
  return hermitian_of<T>(a.rows(), [&](std::int64_t i, std::int64_t j) {
    return T(real * std::real(a(i, j)), imaginary * std::imag(a(i, j)));
  });
}

/// A = H A H for the reflector H = I - 2 v v^H, both triangles, all in wide arithmetic; `av` is
/// room.
template <class W>
void reflect(std::vector<W>& a, const std::vector<W>& v, std::vector<W>& av) {
  const std::size_t n = v.size();
  // y = 2 (A v - v (v^H A v)), which makes H A H = A - v y^H - y v^H
  std::fill(av.begin(), av.end(), W{});
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = 0; i < n; ++i) {
      av[i] += product(a[i + j * n], v[j]);
    }
  }
  W vav{};
  for (std::size_t i = 0; i < n; ++i) {
    vav += product(reference::conjugate(v[i]), av[i]);
  }
  for (std::size_t i = 0; i < n; ++i) {
    av[i] += av[i] - product(v[i], vav + vav);
  }
  for (std::size_t j = 0; j < n; ++j) {
    const W v_j = reference::conjugate(v[j]);
    const W y_j = reference::conjugate(av[j]);
    for (std::size_t i = 0; i < n; ++i) {
      a[i + j * n] -= product(v[i], y_j) + product(av[i], v_j);
    }
  }
}

}  // namespace

template <Scalar T>
std::vector<EighCase<T>> eigh_zoo(std::int64_t n) {
  const auto recipe = [n](Kind kind) { return matgen::Recipe{.kind = kind, .n = n, .seed = 1}; };
  auto scaled = recipe(Kind::hermitian);
  const DenseMatrix<T> hermitian = dense<T>(scaled);
  const bool is_single = std::is_same_v<RealOf<T>, float>;
  std::vector<EighCase<T>> zoo{{"hermitian", hermitian}};
  scaled.scale_exponent = is_single ? -100 : -532;  // 1e-30, 1e-160
  zoo.push_back({"hermitian_tiny", dense<T>(scaled)});
  scaled.scale_exponent = is_single ? 124 : 1020;  // 2e37, 1e307
  zoo.push_back({"hermitian_huge", dense<T>(scaled)});
  zoo.push_back({"wishart", wishart<T>(n)});
  auto geometric = recipe(Kind::spectrum_geometric);
  geometric.condition = 1e16;
  zoo.push_back({"geometric", dense<T>(geometric)});
  zoo.push_back({"three_clusters", three_clusters<T>(n)});
  zoo.push_back({"one_value", one_value(hermitian)});
  zoo.push_back({"rank_three", rank_three<T>(n)});
  auto kernel = recipe(Kind::gaussian_line);
  kernel.jitter = 0.0;
  zoo.push_back({"gaussian_kernel", dense<T>(kernel)});
  zoo.push_back({"kac_murdock_szego", kac_murdock_szego<T>(n)});
  zoo.push_back({"glued_wilkinson", glued_wilkinson<T>(n)});
  zoo.push_back({"glued_wilkinson_rotated", randomly_rotated(glued_wilkinson<T>(n))});
  // Where all terms of a sum are equal, every addition rounds to the same side.
  zoo.push_back({"equal_entries", hermitian_of<T>(n, [](std::int64_t i, std::int64_t j) {
                   return quarter_turn<T>(i, j);
                 })});
  zoo.push_back({"equal_blocks", hermitian_of<T>(n, [n](std::int64_t i, std::int64_t j) {
                   const std::int64_t block = (n + 3) / 4;
                   return static_cast<RealOf<T>>(3 + i / block + 2 * (j / block)) *
                          quarter_turn<T>(i, j);
                 })});
  zoo.push_back({"brownian", brownian<T>(n)});
  zoo.push_back({"diagonal", hermitian_of<T>(n, [](std::int64_t i, std::int64_t j) {
                   return T(i == j ? static_cast<RealOf<T>>(uniform(7, i)) : RealOf<T>{0});
                 })});
  zoo.push_back({"identity", DenseMatrix<T>::identity(n)});
  zoo.push_back({"zero", DenseMatrix<T>(n, n)});
  if constexpr (is_complex<T>) {
    constexpr RealOf<T> small = 1e-8F;
    zoo.push_back({"small_imaginary", unequal_parts(hermitian, RealOf<T>{1}, small)});
    zoo.push_back({"small_real", unequal_parts(hermitian, small, RealOf<T>{1})});
  }
  return zoo;
}

template <Scalar T>
DenseMatrix<T> randomly_rotated(const DenseMatrix<T>& a) {
  const std::int64_t n = a.rows();
  std::vector<Wide<T>> rotated;
  std::transform(a.data(), a.data() + n * n, std::back_inserter(rotated), widen<T>);
  std::vector<Wide<T>> v(static_cast<std::size_t>(n));
  std::vector<Wide<T>> room(v);
  constexpr std::int64_t reflectors = 8;
  for (std::int64_t k = 0; k < reflectors; ++k) {
    WideReal<T> squares = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      Wide<T>& entry = v[static_cast<std::size_t>(i)];
      entry = widen(matgen::rhs<T>(19, GlobalIndex(i), k));
      squares += std::norm(entry);
    }
    for (Wide<T>& entry : v) {
      entry /= std::sqrt(squares);
    }
    reflect(rotated, v, room);
  }
  return hermitian_of<T>(n, [&](std::int64_t i, std::int64_t j) {
    return narrow<T>(rotated[static_cast<std::size_t>(i + j * n)]);
  });
}

#define SHARDSOLVE_INSTANTIATE(T)                                \
  template std::vector<EighCase<T>> eigh_zoo<T>(std::int64_t n); \
  template DenseMatrix<T> randomly_rotated<T>(const DenseMatrix<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::testing
