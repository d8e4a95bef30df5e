#include "tests/support/lu_zoo.hpp"

#include "core/each_dtype.hpp"
#include "matgen/matrices.hpp"
#include "reference/matmul.hpp"
#include "reference/wide.hpp"
#include "tests/support/lapack.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <numbers>
#include <type_traits>
#include <utility>

namespace shardsolve::testing {
namespace lu {
namespace {

using reference::Wide;
using reference::widen;
using reference::WideReal;

template <Scalar T, class Entry>
DenseMatrix<T> filled(std::int64_t n, Entry entry) {
  DenseMatrix<T> a(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      a(i, j) = static_cast<T>(entry(i, j));
    }
  }
  return a;
}

template <Scalar T>
T number(double re, double im = 0.0) {
  if constexpr (is_complex<T>) {
    return {static_cast<RealOf<T>>(re), static_cast<RealOf<T>>(im)};
  } else {
    return static_cast<T>(re);
  }
}

template <Scalar T>
T times(T value, double factor) {
  return number<T>(double{std::real(value)} * factor, double{std::imag(value)} * factor);
}

template <Scalar T>
DenseMatrix<T> random(std::int64_t n, std::uint64_t seed) {
  return filled<T>(
      n, [&](std::int64_t i, std::int64_t j) { return matgen::rhs<T>(seed, GlobalIndex(i), j); });
}

template <Scalar T>
DenseMatrix<T> wilkinson(std::int64_t n) {
  return filled<T>(n, [&](std::int64_t i, std::int64_t j) {
    return number<T>(j == n - 1 || i == j ? 1.0 : i > j ? -1.0 : 0.0);
  });
}

/// L. V. Foster, SIAM J. Matrix Anal. Appl. 15 (1994) 1354.
template <Scalar T>
DenseMatrix<T> foster(std::int64_t n) {
  const double kh = 1.3;
  return filled<T>(n, [&](std::int64_t i, std::int64_t j) {
    if (i == j) {
      return number<T>(i == 0 || i == n - 1 ? 1.0 : 1.0 - kh / 2);
    }
    if (j == n - 1) {
      return number<T>(-1.0);
    }
    return number<T>(i < j ? 0.0 : j == 0 ? -kh / 2 : -kh);
  });
}

/// 10^-most to 10^most in equal ratios.
double graded(std::int64_t i, std::int64_t n, double most) {
  return std::pow(10.0, most * (2.0 * static_cast<double>(i) / static_cast<double>(n - 1) - 1.0));
}

template <Scalar T>
DenseMatrix<T> scaled(std::int64_t n, bool rows, bool columns) {
  const double most = std::is_same_v<RealOf<T>, double> ? 150.0 : 15.0;
  DenseMatrix<T> a = random<T>(n, 5);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      // Downwards and upwards in turn, so that both together stay in range.
      const double row = rows ? graded(i, n, most) : 1.0;
      const double column = columns ? graded(n - 1 - j, n, rows ? most / 2 : most) : 1.0;
      a(i, j) = times(a(i, j), row * column);
    }
  }
  return a;
}

template <Scalar T>
DenseMatrix<T> fourier(std::int64_t n) {
  const double length = std::sqrt(static_cast<double>(n));
  return filled<T>(n, [&](std::int64_t i, std::int64_t j) {
    const double angle =
        2.0 * std::numbers::pi * static_cast<double>(i * j) / static_cast<double>(n);
    return is_complex<T> ? number<T>(std::cos(angle) / length, std::sin(angle) / length)
                         : number<T>((std::cos(angle) + std::sin(angle)) / length);
  });
}

template <Scalar T>
DenseMatrix<T> kernel(std::int64_t n) {
  return filled<T>(n, [&](std::int64_t i, std::int64_t j) {
    const double x = static_cast<double>(i - j) / static_cast<double>(n - 1) / 0.2;
    return number<T>(std::exp(-x * x / 2));
  });
}

template <Scalar T>
DenseMatrix<T> with_zero_column(std::int64_t n) {
  DenseMatrix<T> a = random<T>(n, 7);
  for (std::int64_t i = 0; i < n; ++i) {
    a(i, n / 2) = T{0};
  }
  return a;
}

template <Scalar T>
DenseMatrix<T> with_equal_rows(std::int64_t n) {
  DenseMatrix<T> a = random<T>(n, 8);
  for (std::int64_t j = 0; j < n; ++j) {
    a(n - 1, j) = a(0, j);
  }
  return a;
}

template <Scalar T>
RealOf<T> size_of(T value) {
  return std::abs(std::real(value)) + std::abs(std::imag(value));
}

}  // namespace
}  // namespace lu

template <Scalar T>
std::vector<LuCase<T>> lu_zoo(std::int64_t n) {
  using enum LuVerdict;
  const auto transposed = [](const DenseMatrix<T>& a) { return reference::transpose(a); };
  std::vector<LuCase<T>> all;
  all.push_back({"random", lu::random<T>(n, 3)});
  all.push_back({"wilkinson", lu::wilkinson<T>(n), any});
  all.push_back({"wilkinson_t", transposed(lu::wilkinson<T>(n)), any});
  all.push_back({"foster", lu::foster<T>(n), any});
  all.push_back({"foster_t", transposed(lu::foster<T>(n)), any});
  all.push_back({"hilbert",
                 lu::filled<T>(n,
                               [](std::int64_t i, std::int64_t j) {
                                 return lu::number<T>(1.0 / static_cast<double>(i + j + 1));
                               }),
                 any});
  all.push_back({"kernel", lu::kernel<T>(n), any});
  all.push_back({"rows", lu::scaled<T>(n, true, false)});
  all.push_back({"columns", lu::scaled<T>(n, false, true)});
  all.push_back({"both", lu::scaled<T>(n, true, true)});
  all.push_back({"zero_column", lu::with_zero_column<T>(n), singular});
  all.push_back({"zero", DenseMatrix<T>(n, n), singular});
  all.push_back({"equal_rows", lu::with_equal_rows<T>(n), any});
  all.push_back({"vandermonde",
                 lu::filled<T>(n,
                               [&](std::int64_t i, std::int64_t j) {
                                 return lu::number<T>(
                                     std::pow(static_cast<double>(i) / static_cast<double>(n - 1),
                                              static_cast<double>(j)));
                               }),
                 any});
  all.push_back({"antidiagonal", lu::filled<T>(n, [&](std::int64_t i, std::int64_t j) {
                   return lu::number<T>(i + j == n - 1 ? static_cast<double>(j + 1) : 0.0);
                 })});
  all.push_back({"fourier", lu::fourier<T>(n)});
  const double least = std::is_same_v<RealOf<T>, double> ? 1e-300 : 1e-34;
  DenseMatrix<T> tiny = lu::random<T>(n, 9);
  for (std::int64_t i = 0; i < n * n; ++i) {
    tiny.data()[i] = lu::times(tiny.data()[i], least);
  }
  all.push_back({"tiny", std::move(tiny)});
  all.push_back({"signs",
                 lu::filled<T>(n,
                               [](std::int64_t i, std::int64_t j) {
                                 const double value =
                                     std::real(matgen::rhs<double>(11, GlobalIndex(i), j));
                                 return lu::number<T>(value < 0 ? -1.0 : 1.0);
                               }),
                 any});
  return all;
}

template <Scalar T>
DenseMatrix<T> in_pivot_order(const DenseMatrix<T>& a, const std::vector<std::int64_t>& rows,
                              const SlabLayout& layout) {
  DenseMatrix<T> paq(a.rows(), a.columns());
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      paq(i, j) = a(rows[static_cast<std::size_t>(i)], layout.row_at(Position(j)).value());
    }
  }
  return paq;
}

template <Scalar T>
DenseMatrix<T> columns_in_order(const DenseMatrix<T>& lu, const SlabLayout& layout) {
  DenseMatrix<T> ordered(lu.rows(), lu.columns());
  for (std::int64_t j = 0; j < lu.columns(); ++j) {
    for (std::int64_t i = 0; i < lu.rows(); ++i) {
      ordered(i, j) = lu(i, layout.row_at(Position(j)).value());
    }
  }
  return ordered;
}

template <Scalar T>
double lu_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& lu) {
  using lu::Wide;
  using lu::WideReal;
  const std::int64_t n = a.rows();
  WideReal<T> difference = 0;
  WideReal<T> original = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    WideReal<T> column = 0;
    WideReal<T> of_a = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      Wide<T> sum = reference::widen(a(i, j));
      for (std::int64_t k = 0; k <= std::min(i, j); ++k) {
        const Wide<T> l = k == i ? Wide<T>(1) : reference::widen(lu(i, k));
        sum -= reference::product(l, reference::widen(lu(k, j)));
      }
      column += std::abs(sum);
      of_a += std::abs(reference::widen(a(i, j)));
    }
    difference = reference::larger(difference, column);
    original = reference::larger(original, of_a);
  }
  if (difference == 0) {
    return 0.0;
  }
  return static_cast<double>(difference / original / WideReal<T>{unit_roundoff<T>});
}

template <Scalar T>
::testing::AssertionResult factors_general(const DenseMatrix<T>& paq, const DenseMatrix<T>& lu) {
  const LapackLu<T> peer = lapack_lu(paq);
  DenseMatrix<T> peers_order = paq;
  for (std::int64_t i = 0; i < paq.rows(); ++i) {
    for (std::int64_t j = 0; j < paq.columns(); ++j) {
      std::swap(peers_order(i, j), peers_order(peer.swaps[static_cast<std::size_t>(i)] - 1, j));
    }
  }
  const double ours = lu_ratio(paq, lu);
  const double limit = std::max(10.0, 4.0 * lu_ratio(peers_order, peer.lu));
  if (!(ours <= limit)) {
    return ::testing::AssertionFailure() << "P A Q^T - L U is " << ours << " u; limit " << limit;
  }
  // Of complex numbers |re| + |im| decides, which may be sqrt(2) times the modulus, or the modulus.
  const RealOf<T> most =
      (is_complex<T> ? RealOf<T>(2) : RealOf<T>(1)) + 4 * static_cast<RealOf<T>>(unit_roundoff<T>);
  for (std::int64_t j = 0; j < lu.columns(); ++j) {
    for (std::int64_t i = j + 1; i < lu.rows() && lu(j, j) != T{0}; ++i) {
      if (!(lu::size_of(lu(i, j)) <= most)) {
        return ::testing::AssertionFailure() << "l(" << i << ", " << j << ") is " << lu(i, j);
      }
    }
  }
  return ::testing::AssertionSuccess() << ours << " u";
}

#define SHARDSOLVE_INSTANTIATE(T)                                                                 \
  template std::vector<LuCase<T>> lu_zoo<T>(std::int64_t);                                        \
  template DenseMatrix<T> in_pivot_order<T>(const DenseMatrix<T>&,                                \
                                            const std::vector<std::int64_t>&, const SlabLayout&); \
  template DenseMatrix<T> columns_in_order<T>(const DenseMatrix<T>&, const SlabLayout&);          \
  template double lu_ratio<T>(const DenseMatrix<T>&, const DenseMatrix<T>&);                      \
  template ::testing::AssertionResult factors_general<T>(const DenseMatrix<T>&,                   \
                                                         const DenseMatrix<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::testing
