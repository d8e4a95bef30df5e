/// What the BLAS reads and writes: operands that begin or end where readable memory does.
#include "runtime/host/blas.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace shardsolve::runtime::host::blas {
namespace {

enum class Edge { begin, end };

/// Operands that begin or end at a page which no one may read; one that does ends the process.
class Edges {
 public:
  explicit Edges(Edge edge) : edge_(edge) {}
  Edges(const Edges&) = delete;
  Edges& operator=(const Edges&) = delete;
  ~Edges() {
    for (const Pages& pages : all_) {
      ::munmap(pages.start, pages.bytes);
    }
  }

  template <class T>
  T* numbers(std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t open = (bytes + page - 1) / page * page;
    const std::size_t size = open + 2 * page;
    void* const start = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) {
      throw std::bad_alloc();
    }
    all_.push_back({start, size});
    std::byte* const first = static_cast<std::byte*>(start) + page;
    ::mprotect(first, open, PROT_READ | PROT_WRITE);
    T* const numbers = reinterpret_cast<T*>(edge_ == Edge::begin ? first : first + open - bytes);
    for (std::int64_t i = 0; i < count; ++i) {
      numbers[i] = T(1) / T(static_cast<RealOf<T>>(i % 7 + 2));
    }
    return numbers;
  }

  /// The last column has no more than its rows.
  template <class T>
  MatrixView<T> matrix(std::int64_t rows, std::int64_t columns, std::int64_t stride) {
    return {numbers<T>(columns == 0 ? 0 : (columns - 1) * stride + rows), rows, columns, stride};
  }

 private:
  struct Pages {
    void* start;
    std::size_t bytes;
  };
  Edge edge_;
  std::vector<Pages> all_;
};

/// Symmetric positive definite, real.
template <class T>
void make_definite(MatrixView<T> a) {
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    std::fill_n(&a(0, j), a.rows(), T(RealOf<T>(0.01)));
    a(j, j) = T(2);
  }
}

/// Calls `use(edges, m, n, stride)`.
template <class Use>
void with_all_sizes(const Use& use) {
  constexpr std::array<std::int64_t, 13> sizes{1, 2, 3, 4, 5, 6, 7, 9, 14, 16, 19, 34, 70};
  for (const Edge edge : {Edge::begin, Edge::end}) {
    for (const std::int64_t m : sizes) {
      for (const std::int64_t n : sizes) {
        for (const std::int64_t more : {0, 3}) {
          Edges edges(edge);
          use(edges, m, n, m + more);
        }
      }
    }
  }
}

template <class T>
class BlasEdges : public ::testing::Test {};
using AllDtypes = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(BlasEdges, AllDtypes);

constexpr std::array ops{Op::none, Op::transpose, Op::conjugate_transpose};
constexpr std::array triangles{Triangle::lower, Triangle::upper};

TYPED_TEST(BlasEdges, ProductsWithVectors_ReadTheirOperandsAlone) {
  using T = TypeParam;
  with_all_sizes([](Edges& edges, std::int64_t m, std::int64_t n, std::int64_t stride) {
    const auto a = edges.matrix<T>(m, n, stride);
    T* const rows = edges.numbers<T>(m);
    T* const columns = edges.numbers<T>(n);
    Blas<T>::gemv(Op::none, T(1), a, columns, T(1), rows);
    Blas<T>::gemv(Op::transpose, T(1), a, rows, T(1), columns);
    Blas<T>::gemv(Op::conjugate_transpose, T(1), a, rows, T(0), columns);
    Blas<T>::gerc(T(1), rows, columns, a);
    if (m == n) {
      T* const more = edges.numbers<T>(m);
      for (const Triangle triangle : triangles) {
        Blas<T>::hemv(triangle, T(1), a, columns, T(0), more);
        Blas<T>::her2(triangle, T(1), rows, columns, a);
      }
    }
  });
}

TYPED_TEST(BlasEdges, ProductsOfMatrices_ReadTheirOperandsAlone) {
  using T = TypeParam;
  with_all_sizes([](Edges& edges, std::int64_t m, std::int64_t n, std::int64_t stride) {
    for (const std::int64_t k : {1, 2, 6, 19, 70}) {
      const auto c = edges.matrix<T>(m, n, stride);
      for (const Op op_a : ops) {
        const bool as_is = op_a == Op::none;
        const auto a = as_is ? edges.matrix<T>(m, k, stride) : edges.matrix<T>(k, m, k + 1);
        Blas<T>::gemm(op_a, Op::none, T(1), a, edges.matrix<T>(k, n, k), T(0), c);
        Blas<T>::gemm(op_a, Op::conjugate_transpose, T(1), a, edges.matrix<T>(n, k, n), T(1), c);
      }
      if (m == n) {
        for (const Triangle triangle : triangles) {
          Blas<T>::herk(triangle, Op::none, 1, edges.matrix<T>(n, k, n), 0, c);
          Blas<T>::herk(triangle, Op::conjugate_transpose, 1, edges.matrix<T>(k, n, k), 1, c);
        }
      }
    }
  });
}

TYPED_TEST(BlasEdges, SolvesAndCholesky_ReadTheirOperandsAlone) {
  using T = TypeParam;
  with_all_sizes([](Edges& edges, std::int64_t m, std::int64_t n, std::int64_t stride) {
    const auto a = edges.matrix<T>(m, m, stride);
    make_definite(a);
    const auto left = edges.matrix<T>(m, n, stride);
    const auto right = edges.matrix<T>(n, m, n);
    for (const Op op : {Op::none, Op::conjugate_transpose}) {
      Blas<T>::trsm_unit_lower(op, a, left);
      for (const Triangle triangle : triangles) {
        Blas<T>::trsm(Side::left, triangle, op, a, left);
        Blas<T>::trsm(Side::right, triangle, op, a, right);
      }
    }
    for (const Triangle triangle : triangles) {
      make_definite(a);
      EXPECT_EQ(Blas<T>::potrf(triangle, a), 0);
    }
  });
}

TYPED_TEST(BlasEdges, QrAndReflections_ReadTheirOperandsAlone) {
  using T = TypeParam;
  with_all_sizes([](Edges& edges, std::int64_t m, std::int64_t n, std::int64_t stride) {
    const std::int64_t least = std::min(m, n);
    const auto a = edges.matrix<T>(m, n, stride);
    T* const tau = edges.numbers<T>(least);
    Blas<T>::geqrf(a, tau);
    if (m >= n) {
      Blas<T>::larft(a, tau, edges.matrix<T>(n, n, n));
      Blas<T>::form_q(a, tau);
    }
    Blas<T>::geqrt(edges.matrix<T>(m, n, stride), edges.matrix<T>(least, least, least),
                   edges.numbers<T>(least * n));
    Blas<T>::larfg(m, edges.numbers<T>(m));
  });
}

TYPED_TEST(BlasEdges, SvdAndTridiagonal_ReadTheirOperandsAlone) {
  using T = TypeParam;
  using Real = RealOf<T>;
  with_all_sizes([](Edges& edges, std::int64_t m, std::int64_t n, std::int64_t stride) {
    if (m == n) {
      const auto a = edges.matrix<T>(n, n, stride);
      EXPECT_EQ(Blas<T>::gesdd(a, edges.numbers<Real>(n), edges.matrix<T>(n, n, stride),
                               edges.matrix<T>(n, n, stride)),
                0);
      EXPECT_EQ(steqr(edges.numbers<Real>(n), edges.numbers<Real>(n - 1),
                      edges.matrix<Real>(n, n, stride)),
                0);
    }
  });
}

}  // namespace
}  // namespace shardsolve::runtime::host::blas
