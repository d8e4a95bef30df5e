/// What BandKernels of any backend are judged by, in all dtypes, on views with gaps. Reflectors are
/// multiplied out in wider arithmetic.
#pragma once

#include "reference/matmul.hpp"
#include "runtime/band_kernels.hpp"
#include "tests/support/bits.hpp"
#include "tests/support/dtypes.hpp"
#include "tests/support/embedded.hpp"
#include "tests/support/gates.hpp"
#include "tests/support/host_rank.hpp"
#include "tests/support/matrix_zoo.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace shardsolve::testing {

using reference::DenseMatrix;
using reference::matmul;
using ReferenceOp = reference::Op;
using runtime::Chase;
using runtime::ChaseTask;
using runtime::SweepGroup;
using runtime::WaveRange;

template <Scalar T>
DenseMatrix<T> sum(const DenseMatrix<T>& a, T beta, const DenseMatrix<T>& b) {
  DenseMatrix<T> c = a;
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      c(i, j) += beta * b(i, j);
    }
  }
  return c;
}

/// I - v t v^H.
template <Scalar T>
DenseMatrix<T> multiplied_out(const DenseMatrix<T>& v, const DenseMatrix<T>& t) {
  return sum(DenseMatrix<T>::identity(v.rows()), T{-1},
             matmul(ReferenceOp::none, matmul(v, t), ReferenceOp::conjugate_transpose, v));
}

template <Scalar T>
double departure_from_unitary(const DenseMatrix<T>& q) {
  const auto qq = matmul(ReferenceOp::conjugate_transpose, q, ReferenceOp::none, q);
  return static_cast<double>(
             reference::one_norm(sum(qq, T{-1}, DenseMatrix<T>::identity(q.columns())))) /
         unit_roundoff<T>;
}

template <Scalar T>
DenseMatrix<T> scaled(DenseMatrix<T> a, RealOf<T> factor) {
  std::for_each(a.data(), a.data() + a.rows() * a.columns(), [&](T& entry) { entry *= factor; });
  return a;
}

/// A random Hermitian band matrix, as columns of 2 b + 1 rows.
template <Scalar T>
DenseMatrix<T> random_band(const Chase& chase, std::uint64_t seed = 1) {
  DenseMatrix<T> band(2 * chase.bandwidth + 1, chase.size);
  const DenseMatrix<T> entries = right_hand_sides<T>(2 * chase.bandwidth, chase.size, seed);
  for (std::int64_t j = 0; j < chase.size; ++j) {
    for (std::int64_t i = 0; i <= chase.bandwidth && i + j < chase.size; ++i) {
      band(i, j) = i == 0 ? T{std::real(entries(i, j))} : entries(i, j);
    }
  }
  return band;
}

template <Scalar T>
DenseMatrix<T> whole(const DenseMatrix<T>& band) {
  DenseMatrix<T> a(band.columns(), band.columns());
  for (std::int64_t j = 0; j < band.columns(); ++j) {
    for (std::int64_t i = j; i < std::min(band.columns(), j + band.rows() - 1); ++i) {
      a(i, j) = band(i - j, j);
      a(j, i) = reference::conjugate(band(i - j, j));
    }
  }
  return a;
}

/// Reflectors of all sweeps, in groups of so many.
template <Scalar T>
struct Chased {
  DenseMatrix<T> band;
  std::vector<SweepGroup> groups;
  std::vector<DenseMatrix<T>> reflectors;
};

inline std::vector<SweepGroup> groups_of(const Chase& chase, std::int64_t count) {
  std::vector<SweepGroup> all;
  for (std::int64_t first = 0; first < chase.sweeps(); first += count) {
    all.push_back({first, std::min(count, chase.sweeps() - first)});
  }
  return all;
}

/// What kernels are to be judged by is enqueued on a queue of the host.
template <class T>
class BandChecks : public ::testing::Test {
 protected:
  using Real = RealOf<T>;

  explicit BandChecks(std::unique_ptr<const runtime::BandKernels<T>> kernels)
      : owned_(std::move(kernels)), kernels_(*owned_) {}

  void finish() {
    queue_.synchronize();
    rank_.rethrow();
  }
  std::vector<std::byte> scratch(std::int64_t bandwidth) const {
    return std::vector<std::byte>(static_cast<std::size_t>(kernels_.scratch(bandwidth)));
  }

  Chased<T> chased(const Chase& chase, std::int64_t count, const DenseMatrix<T>& band,
                   std::int64_t waves_of_a_kernel = 5) {
    Chased<T> result{band, groups_of(chase, count), {}};
    std::vector<std::byte> memory = scratch(chase.bandwidth);
    for (const SweepGroup& group : result.groups) {
      DenseMatrix<T>& reflectors = result.reflectors.emplace_back(
          right_hand_sides<T>(chase.bandwidth + 1, group.columns(chase)));
      const WaveRange all = group.waves(chase);
      for (std::int64_t begin = all.begin; begin < all.end; begin += waves_of_a_kernel) {
        kernels_.chase(queue_, chase, group, {begin, begin + waves_of_a_kernel}, result.band.view(),
                       reflectors.view(), memory.data());
      }
      finish();
    }
    return result;
  }

  /// Q of Q^H B Q = T: windows of all groups, the last group standing rightmost.
  DenseMatrix<T> product_of_windows(const Chase& chase, const Chased<T>& result) {
    Embedded<T> q(DenseMatrix<T>::identity(chase.size));
    for (std::size_t g = result.groups.size(); g-- > 0;) {
      const SweepGroup& group = result.groups[g];
      const DenseMatrix<T>& reflectors = result.reflectors[g];
      const std::int64_t rows = chase.bandwidth + group.count - 1;
      Embedded<T> v(right_hand_sides<T>(rows, reflectors.columns()));
      Embedded<T> vt(right_hand_sides<T>(rows, reflectors.columns()));
      kernels_.windows(queue_, chase, group, reflectors.view(), v.view(), vt.view());
      const runtime::SweepWindows<T> windows{group, v.view(), vt.view()};
      kernels_.apply_windows(queue_, chase, std::span(&windows, 1), q.view());
      finish();
      EXPECT_TRUE(v.frame_intact() && vt.frame_intact() && q.frame_intact());
    }
    return q.value();
  }

  /// Windows without gaps, which a backend may apply in a way of its own, do what others do.
  /// So many groups are applied at a time.
  void expect_windows_without_gaps_to_do_the_same(std::int64_t n, std::int64_t b,
                                                  std::int64_t count, std::size_t at_once = 1) {
    SCOPED_TRACE(::testing::Message() << "n " << n << ", b " << b << ", groups of " << count << ", "
                                      << at_once << " at a time");
    const Chase chase{n, b, is_complex<T>};
    const Chased<T> result = chased(chase, count, random_band<T>(chase), 1000);
    const DenseMatrix<T> expected = product_of_windows(chase, result);
    Embedded<T> q(DenseMatrix<T>::identity(n));
    std::deque<DenseMatrix<T>> memory;  // whose members stay where they are
    const auto made = [&](std::int64_t rows, std::int64_t columns) {
      memory.push_back(right_hand_sides<T>(rows, columns));
      return memory.back().view();
    };
    std::vector<runtime::SweepWindows<T>> waiting;
    for (std::size_t g = result.groups.size(); g-- > 0;) {
      const SweepGroup& group = result.groups[g];
      const MatrixView<T> v = made(b + group.count - 1, group.columns(chase));
      const MatrixView<T> vt = made(v.rows(), v.columns());
      kernels_.windows(queue_, chase, group, result.reflectors[g].view(), v, vt);
      waiting.push_back({group, v, vt});
      if (waiting.size() == at_once || g == 0) {
        kernels_.apply_windows(queue_, chase, waiting, q.view());
        waiting.clear();
      }
    }
    finish();
    EXPECT_TRUE(q.frame_intact());
    const auto error = reference::one_norm(sum(q.value(), T{-1}, expected));
    EXPECT_LE(error, 20.0 * std::sqrt(static_cast<double>(n)) * unit_roundoff<T>);
  }

  /// Windows without gaps give a column the same bits, however many are beside it.
  void expect_windows_to_give_the_same_bits_to_fewer_columns(
      std::int64_t n, std::int64_t columns, const std::vector<std::int64_t>& fewer) {
    const Chase chase{n, 64, is_complex<T>};
    constexpr std::int64_t count = 64;
    const SweepGroup group{0, count};
    DenseMatrix<T> reflectors = right_hand_sides<T>(chase.bandwidth + 1, group.columns(chase));
    for (std::int64_t j = 0; j < reflectors.columns(); ++j) {
      for (std::int64_t i = 0; i < reflectors.rows(); ++i) {
        reflectors(i, j) *= RealOf<T>{0.1};  // so that none makes z much larger
      }
    }
    DenseMatrix<T> v(chase.bandwidth + count - 1, group.columns(chase));
    DenseMatrix<T> vt = v;
    kernels_.windows(queue_, chase, group, reflectors.view(), v.view(), vt.view());
    const runtime::SweepWindows<T> windows{group, v.view(), vt.view()};
    const DenseMatrix<T> z = right_hand_sides<T>(n, columns);
    const auto applied = [&](std::int64_t of) {
      Embedded<T> some(DenseMatrix<T>(z.view().columns_from(0, of)));
      kernels_.apply_windows(queue_, chase, std::span(&windows, 1), some.view());
      finish();
      EXPECT_TRUE(some.frame_intact());
      return some.value();
    };
    const DenseMatrix<T> expected = applied(columns);
    EXPECT_FALSE(same_bits(expected, z));
    EXPECT_LT(reference::one_norm(expected), 1e4 * static_cast<double>(n));
    for (const std::int64_t of : fewer) {
      EXPECT_TRUE(same_bits(applied(of), DenseMatrix<T>(expected.view().columns_from(0, of))))
          << of << " of " << columns << " columns, n " << n;
    }
  }

  void expect_qr(const DenseMatrix<T>& a) {
    SCOPED_TRACE(::testing::Message() << a.rows() << " x " << a.columns());
    const std::int64_t k = std::min(a.rows(), a.columns());
    Embedded<T> panel(a);
    Embedded<T> r(right_hand_sides<T>(k, a.columns()));
    Embedded<T> t(right_hand_sides<T>(k, k));
    std::vector<std::byte> memory = scratch(a.columns());
    kernels_.panel_qr(queue_, panel.view(), r.view(), t.view(), memory.data());
    finish();
    EXPECT_TRUE(panel.frame_intact() && r.frame_intact() && t.frame_intact());
    const DenseMatrix<T> v(panel.value().view().columns_from(0, k));
    for (std::int64_t j = 0; j < a.columns(); ++j) {
      for (std::int64_t i = 0; i < k; ++i) {
        if (i > j) {
          EXPECT_EQ(r.value()(i, j), T{0});
        }
        if (i > j && j < k) {
          EXPECT_EQ(t.value()(i, j), T{0});
        }
        if (i < j && j < k) {
          EXPECT_EQ(v(i, j), T{0});
        }
      }
      if (j < k) {
        EXPECT_EQ(v(j, j), T{1});
        EXPECT_EQ(std::imag(r.value()(j, j)), Real{0});
      }
    }
    const DenseMatrix<T> q = multiplied_out(v, t.value());
    const double limit = 8.0 * std::sqrt(static_cast<double>(a.rows())) *
                         static_cast<double>(std::max<std::int64_t>(k, 1));
    EXPECT_LE(departure_from_unitary(q), limit);
    DenseMatrix<T> padded(a.rows(), a.columns());
    DenseMatrix<T> r_value = r.value();
    for (std::int64_t j = 0; j < a.columns(); ++j) {
      for (std::int64_t i = 0; i < k; ++i) {
        padded(i, j) = r_value(i, j);
      }
    }
    const auto error = reference::one_norm(sum(matmul(q, padded), T{-1}, a));
    EXPECT_LE(error, limit * unit_roundoff<T> * reference::one_norm(a));
  }

  /// Likewise of many rows: entries of Q R - A, and of Q^H Q for the first columns Q of I - V t
  /// V^H.
  void expect_tall_qr(const DenseMatrix<T>& a) {
    SCOPED_TRACE(::testing::Message() << a.rows() << " x " << a.columns());
    const std::int64_t k = a.columns();
    DenseMatrix<T> v = a;
    DenseMatrix<T> r(k, k);
    DenseMatrix<T> t(k, k);
    std::vector<std::byte> memory = scratch(k);
    kernels_.panel_qr(queue_, v.view(), r.view(), t.view(), memory.data());
    finish();
    // Q = [I; 0] - V (t V1^H), V1 the first rows of V
    const DenseMatrix<T> t_v1 = matmul(ReferenceOp::none, t, ReferenceOp::conjugate_transpose,
                                       DenseMatrix<T>(v.view().block(0, 0, k, k)));
    DenseMatrix<T> q = matmul(v, t_v1);
    for (std::int64_t j = 0; j < k; ++j) {
      for (std::int64_t i = 0; i < a.rows(); ++i) {
        q(i, j) = (i == j ? T{1} : T{0}) - q(i, j);
      }
    }
    const double limit = 8.0 * std::sqrt(static_cast<double>(a.rows())) * static_cast<double>(k);
    EXPECT_LE(departure_from_unitary(q), limit);
    const auto error = reference::one_norm(sum(matmul(q, r), T{-1}, a));
    EXPECT_LE(error, limit * unit_roundoff<T> * reference::one_norm(a));
  }

  void expect_zeros_to_have_reflectors_that_do_nothing() {
    DenseMatrix<T> a(9, 3);
    DenseMatrix<T> r(3, 3);
    DenseMatrix<T> t = right_hand_sides<T>(3, 3);
    std::vector<std::byte> memory = scratch(3);
    kernels_.panel_qr(queue_, a.view(), r.view(), t.view(), memory.data());
    finish();
    EXPECT_EQ(t, DenseMatrix<T>(3, 3));
  }

  void expect_band_to_take_what_is_below_the_diagonal() {
    const DenseMatrix<T> top = right_hand_sides<T>(4, 3, 1);
    const DenseMatrix<T> r = right_hand_sides<T>(2, 3, 2);  // what is below its diagonal is ignored
    Embedded<T> band(right_hand_sides<T>(7, 3, 3));
    kernels_.store_band(queue_, top.view(), r.view(), band.view());
    finish();
    EXPECT_TRUE(band.frame_intact());
    DenseMatrix<T> expected(7, 3);
    for (std::int64_t j = 0; j < 3; ++j) {
      for (std::int64_t row = j; row < 6; ++row) {
        const bool in_r = row - 4 <= j;
        expected(row - j, j) = row < 4 ? top(row, j) : in_r ? r(row - 4, j) : T{0};
      }
      expected(0, j) = std::real(top(j, j));
    }
    EXPECT_TRUE(same_bits(band.value(), expected));
  }

  /// A similar real tridiagonal, in groups of `count` sweeps.
  void expect_chase(std::int64_t n, std::int64_t b, std::int64_t count) {
    SCOPED_TRACE(::testing::Message() << "n " << n << ", b " << b << ", groups of " << count);
    const Chase chase{n, b, is_complex<T>};
    const DenseMatrix<T> band = random_band<T>(chase);
    const Chased<T> result = chased(chase, count, band);
    std::vector<RealOf<T>> d(static_cast<std::size_t>(n));
    std::vector<RealOf<T>> e(static_cast<std::size_t>(n));
    kernels_.tridiagonal(queue_, result.band.view(), d.data(), e.data());
    finish();
    DenseMatrix<T> tridiagonal(n, n);
    for (std::int64_t j = 0; j < n; ++j) {
      tridiagonal(j, j) = d[static_cast<std::size_t>(j)];
      if (j + 1 < n) {
        tridiagonal(j + 1, j) = e[static_cast<std::size_t>(j)];
        tridiagonal(j, j + 1) = tridiagonal(j + 1, j);
      }
      // Nothing else has stayed, and what has is real.
      for (std::int64_t i = 0; i < 2 * b && i + j < n; ++i) {
        const T entry = result.band(i, j);
        EXPECT_EQ(entry, i < 2 ? T{std::real(entry)} : T{0});
      }
    }
    const DenseMatrix<T> q = product_of_windows(chase, result);
    const double limit = 20.0 * std::sqrt(static_cast<double>(n));
    // A norm of sums of n entries: of many rows it grows as n does.
    EXPECT_LE(departure_from_unitary(q), std::max(limit, 4.0 * static_cast<double>(n)));
    const DenseMatrix<T> a = whole(band);
    const auto error = reference::one_norm(sum(matmul(a, q), T{-1}, matmul(q, tridiagonal)));
    EXPECT_LE(error, limit * unit_roundoff<T> * reference::one_norm(a));
  }

  void expect_groups_to_give_the_same_bits() {
    const Chase chase{30, 4, is_complex<T>};
    const DenseMatrix<T> band = random_band<T>(chase);
    const Chased<T> at_once = chased(chase, chase.sweeps(), band);
    EXPECT_TRUE(same_bits(chased(chase, 3, band).band, at_once.band));
  }

  void expect_diagonal_not_to_drift(std::int64_t n) {
    const Chase chase{n, 4, is_complex<T>};
    DenseMatrix<T> band = scaled(random_band<T>(chase), static_cast<RealOf<T>>(unit_roundoff<T>));
    for (std::int64_t j = 0; j < chase.size; ++j) {
      band(0, j) += RealOf<T>{1};
    }
    const Chased<T> result = chased(chase, 16, band);
    for (std::int64_t j = 0; j < chase.size; ++j) {
      const double off = std::abs(result.band(0, j) - RealOf<T>{1}) / unit_roundoff<T>;
      EXPECT_LE(off, 20.0) << "entry " << j;
    }
  }

  void expect_unitary_reflectors_of_tiny_numbers() {
    using Limits = std::numeric_limits<RealOf<T>>;
    const Chase chase{25, 4, is_complex<T>};
    DenseMatrix<T> band =
        scaled(random_band<T>(chase), Limits::min() / Limits::epsilon() / Limits::epsilon());
    const Chased<T> result = chased(chase, 6, band);
    EXPECT_LE(departure_from_unitary(product_of_windows(chase, result)), 100.0);
  }

  void expect_nothing_to_do() {
    const Chase chase{12, 3, is_complex<T>};
    DenseMatrix<T> band(7, 12);
    for (std::int64_t j = 0; j < 12; ++j) {
      band(0, j) = T{static_cast<RealOf<T>>(j)};
    }
    EXPECT_EQ(chased(chase, 4, band).band, band);
  }

  void expect_mirrored(std::int64_t rows, std::int64_t columns, std::int64_t tile,
                       std::int64_t ahead) {
    SCOPED_TRACE(fmt::format("{} x {}, tile {}, {} ahead", rows, columns, tile, ahead));
    const DenseMatrix<T> below = right_hand_sides<T>(columns, rows, 1);
    DenseMatrix<T> expected = right_hand_sides<T>(rows, columns, 2);
    Embedded<T> above(expected);
    kernels_.mirror(queue_, below.view(), above.view(), tile, ahead);
    finish();
    EXPECT_TRUE(above.frame_intact());
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t i = 0; i < rows; ++i) {
        if (j / tile + ahead > i / tile) {
          expected(i, j) = reference::conjugate(below(j, i));
        }
      }
    }
    EXPECT_EQ(above.value(), expected);
  }

  /// By a stride that has no divisor in common with the number of rows.
  /// So many rows of a matrix of twice as many.
  void expect_permuted(std::int64_t rows, std::int64_t columns) {
    const DenseMatrix<T> source = right_hand_sides<T>(2 * rows, columns, 1);
    std::vector<std::int64_t> order;
    for (std::int64_t i = 0; i < rows; ++i) {
      order.push_back(i * 17 % (2 * rows));
    }
    Embedded<T> target(DenseMatrix<T>(rows, columns));
    kernels_.permute_rows(queue_, order.data(), source.view(), target.view());
    finish();
    EXPECT_TRUE(target.frame_intact());
    const DenseMatrix<T> found = target.value();
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t i = 0; i < rows; ++i) {
        EXPECT_EQ(found(i, j), source(order[static_cast<std::size_t>(i)], j));
      }
    }
  }

  /// Of random columns, of which one has equals, and one is zero.
  void expect_fixed_phases(std::int64_t rows, std::int64_t columns) {
    DenseMatrix<T> z = right_hand_sides<T>(rows, columns, 3);
    const std::int64_t equal = columns / 2;
    for (std::int64_t i = 0; i < rows; ++i) {
      z(i, equal) = i % 2 == 0 ? T{-1} : T{1};
      z(i, columns - 1) = T{0};
    }
    Embedded<T> fixed(z);
    kernels_.fix_phases(queue_, fixed.view());
    finish();
    EXPECT_TRUE(fixed.frame_intact());
    const DenseMatrix<T> found = fixed.value();
    for (std::int64_t j = 0; j < columns; ++j) {
      std::int64_t largest = 0;
      for (std::int64_t i = 0; i < rows; ++i) {
        largest = std::norm(z(i, j)) > std::norm(z(largest, j)) ? i : largest;
      }
      const Real size = std::abs(z(largest, j));
      EXPECT_EQ(found(largest, j), T{std::real(found(largest, j))});
      const T turn = size > 0 ? reference::conjugate(z(largest, j)) / size : T{1};
      for (std::int64_t i = 0; i < rows; ++i) {
        // Each side: 2 u of the turn, sqrt(5) u of a complex product, of numbers up to sqrt(2).
        EXPECT_LE(std::abs(found(i, j) - z(i, j) * turn), 12 * unit_roundoff<T>) << i << ", " << j;
      }
    }
  }

  HostRank rank_;
  runtime::host::HostQueue queue_{"test", rank_.pulse()};
  std::unique_ptr<const runtime::BandKernels<T>> owned_;
  const runtime::BandKernels<T>& kernels_;
};

}  // namespace shardsolve::testing
