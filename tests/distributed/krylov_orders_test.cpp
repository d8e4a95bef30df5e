// Products whose sums have another order each time: bits differ, verdicts do not.

#include "support/krylov_sparse.hpp"

#include <shardsolve/krylov.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

namespace shardsolve::testing::krylov_problems {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Status;

enum class Order : std::uint8_t { sequential, tree, random };

/// The sum of `terms`: from the left, as a tree, or in an order that is another one every time.
double sum_in(Order order, std::vector<double>& terms, std::int64_t call, std::int64_t row) {
  switch (order) {
    case Order::sequential:
      return std::accumulate(terms.begin(), terms.end(), 0.0);
    case Order::tree:
      for (std::size_t width = 1; width < terms.size(); width *= 2) {
        for (std::size_t i = 0; i + width < terms.size(); i += 2 * width) {
          terms[i] += terms[i + width];
        }
      }
      return terms.empty() ? 0.0 : terms.front();
    case Order::random:
      for (std::size_t i = terms.size(); i > 1; --i) {
        const double uniform =
            0.5 * (1.0 + random_number(5000 + call, row * 4096 + static_cast<std::int64_t>(i)));
        std::swap(terms[i - 1], terms[static_cast<std::size_t>(uniform * static_cast<double>(i))]);
      }
      return std::accumulate(terms.begin(), terms.end(), 0.0);
  }
  return 0.0;
}

/// For one rank.
Operator<double> ordered(const System<double>& system, Order order) {
  const auto shared = std::make_shared<const System<double>>(system);
  const auto calls = std::make_shared<std::int64_t>(0);
  return Operator<double>::callable([=](const double* x, GlobalRange rows, double* y) {
    ++*calls;
    std::vector<double> terms;
    for (std::int64_t i = rows.begin.value(); i < rows.end.value(); ++i) {
      terms.clear();
      for (std::int64_t j = 0; j < shared->n; ++j) {
        terms.push_back(shared->entry(i, j) * x[j]);
      }
      *y++ = sum_in(order, terms, *calls, i);
    }
  });
}

/// a + b exactly, as the nearest number and the rest; likewise a b.
struct Twofold {
  double high = 0.0;
  double low = 0.0;
};
Twofold exact_sum(double a, double b) {
  const double sum = a + b;
  const double from_b = sum - a;
  return {sum, (a - (sum - from_b)) + (b - from_b)};
}
Twofold exact_product(double a, double b) { return {a * b, std::fma(a, b, -(a * b))}; }
Twofold plus(Twofold a, Twofold b) {
  const Twofold sum = exact_sum(a.high, b.high);
  const Twofold rest = exact_sum(sum.high, sum.low + a.low + b.low);
  return rest;
}

/// ||b - A x|| / ||b||, b - A x with twice the digits.
double twofold_residual(const System<double>& system, const std::vector<double>& x) {
  double above = 0.0;
  double below = 0.0;
  for (std::int64_t i = 0; i < system.n; ++i) {
    const double b = system.b[static_cast<std::size_t>(i)];
    Twofold r{b, 0.0};
    for (std::int64_t j = 0; j < system.n; ++j) {
      r = plus(r, exact_product(-system.entry(i, j), x[static_cast<std::size_t>(j)]));
    }
    above = std::hypot(above, r.high + r.low);
    below = std::hypot(below, b);
  }
  return above / below;
}

/// Q1 diag(d) Q2^T, each Q three random reflections; symmetric if Q1 = Q2.
System<double> system_with(const std::vector<double>& d, std::int64_t seed, bool symmetric) {
  const auto n = static_cast<std::int64_t>(d.size());
  System<double> system = diagonal_system<double>("random", d);
  const auto reflect = [&](std::int64_t stream, bool rows) {
    std::vector<double> v;
    double square = 0.0;
    for (std::int64_t i = 0; i < n; ++i) {
      v.push_back(random_number(stream, i));
      square += v.back() * v.back();
    }
    for (std::int64_t other = 0; other < n; ++other) {
      const auto at = [&](std::int64_t i) -> double& {
        return system.a[static_cast<std::size_t>(rows ? i * n + other : other * n + i)];
      };
      double product = 0.0;
      for (std::int64_t i = 0; i < n; ++i) {
        product += v[static_cast<std::size_t>(i)] * at(i);
      }
      for (std::int64_t i = 0; i < n; ++i) {
        at(i) -= 2.0 / square * product * v[static_cast<std::size_t>(i)];
      }
    }
  };
  for (std::int64_t k = 0; k < 3; ++k) {
    reflect(10 * seed + k, true);
    reflect(symmetric ? 10 * seed + k : 10 * seed + 5 + k, false);
  }
  if (symmetric) {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < i; ++j) {
        system.a[static_cast<std::size_t>(i * n + j)] =
            system.a[static_cast<std::size_t>(j * n + i)];
      }
    }
  }
  for (std::int64_t i = 0; i < n; ++i) {
    system.b[static_cast<std::size_t>(i)] = random_number(10 * seed + 9, i);
  }
  return system;
}

struct RandomCase {
  System<double> system;
  Method method;
};

/// Condition from 1 to 1e7 for Hermitian methods and to 1e3 for others, and some that are wrong for
/// their method.
RandomCase random_case(std::int64_t seed) {
  constexpr Method methods[] = {Method::cg, Method::minres, Method::bicgstab, Method::fgmres};
  const Method method = methods[seed % 4];
  const bool is_hermitian = method == Method::cg || method == Method::minres;
  const std::int64_t n = 10 + 3 * (seed % 17);
  const double decades = (is_hermitian ? 7.0 : 3.0) * 0.5 * (1.0 + random_number(seed, 0));
  const bool has_negative = method == Method::minres || (method == Method::cg && seed % 5 == 0);
  std::vector<double> d;
  for (std::int64_t i = 0; i < n; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(n - 1);
    d.push_back(std::pow(10.0, -decades * share) * (has_negative && i % 3 == 1 ? -1.0 : 1.0));
  }
  const bool is_symmetric = is_hermitian && seed % 28 != 8;
  System<double> system = system_with(d, seed, is_symmetric);
  if (!is_hermitian) {
    // Eigenvalues on one side of 0.
    for (std::int64_t i = 0; i < n; ++i) {
      system.a[static_cast<std::size_t>(i * n + i)] += 1.2;
    }
  }
  return {std::move(system), method};
}

TEST(KrylovOrders, OfTheSumsOfProducts_ChangeNoVerdictThatIsNotMarginal) {
  constexpr std::int64_t systems = 200;
  std::int64_t marginal = 0;
  std::int64_t converged = 0;
  for (std::int64_t seed = 0; seed < systems; ++seed) {
    const RandomCase one = random_case(seed);
    const Options options{
        .method = one.method, .rtol = 1e-8, .max_iterations = 4000, .restart = 60};
    std::vector<krylov::Result> results;
    bool is_marginal = false;
    for (const Order order : {Order::sequential, Order::tree, Order::random}) {
      const auto answer = solve_on(cpu_rank(), row_slabs(one.system.n, 1), one.system,
                                   ordered(one.system, order), nullptr, options);
      ASSERT_TRUE(all_finite(answer.x));
      if (krylov::is_converged(answer.result.status)) {
        EXPECT_LE(twofold_residual(one.system, answer.x), 1.01e-8) << answer.result.message;
      }
      is_marginal = is_marginal || answer.result.is_marginal;
      results.push_back(answer.result);
    }
    marginal += is_marginal ? 1 : 0;
    converged += krylov::is_converged(results.front().status) ? 1 : 0;
    for (const krylov::Result& other : results) {
      EXPECT_TRUE(is_marginal || other.status == results.front().status)
          << seed << ": " << results.front().message << " against " << other.message;
    }
  }
  EXPECT_LE(marginal, systems / 20);
  EXPECT_GE(converged, 3 * systems / 4);
  EXPECT_LT(converged, systems);
}

}  // namespace
}  // namespace shardsolve::testing::krylov_problems
