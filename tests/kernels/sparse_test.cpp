// The GPU's products with sparse matrices have the bits of the CPU's.

#include "kernels/emulated_kernels.hpp"
#include "kernels/orders.hpp"
#include "matgen/sparse_matrices.hpp"
#include "runtime/cuda/sparse_device_kernels.hpp"
#include "runtime/host/host_queue.hpp"
#include "runtime/host/sparse_kernels.hpp"
#include "support/bits.hpp"
#include "support/dtypes.hpp"
#include "support/host_rank.hpp"
#include "support/sparse_problem.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve::testing::emulated_sparse {
namespace {

using runtime::RowChoice;
using runtime::SparseRows;

template <class T>
class EmulatedSparse : public ::testing::Test {};
TYPED_TEST_SUITE(EmulatedSparse, Dtypes, DtypeNames);

/// Products of all kinds of the rows chosen; `own` of the columns are this rank's.
template <Scalar T>
void expect_same_product(const CsrMatrix<T>& a, std::int64_t lanes, std::int64_t own,
                         const RowChoice& chosen) {
  SCOPED_TRACE(std::to_string(lanes) + " lanes, " + std::to_string(own) + " columns of its own");
  const std::vector<std::int32_t> columns(a.column_indices.begin(), a.column_indices.end());
  const SparseRows<T> rows{
      a.rows, own, a.columns - own, lanes, a.row_pointers.data(), columns.data(), a.values.data()};
  const std::vector<T> x = sparse_problem::random_vector<T>(a.columns);
  const DenseMatrix<T> untouched = unwritten<T>(a.rows, 1);
  DenseMatrix<T> expected = untouched;
  HostRank rank;
  runtime::host::HostQueue queue("test", rank.pulse());
  const runtime::host::HostSparseKernels<T> host;
  const MatrixView<const T> halo = own < a.columns
                                       ? MatrixView<const T>(x.data() + own, a.columns - own, 1)
                                       : MatrixView<const T>();
  host.multiply(queue, rows, chosen, {x.data(), own, 1}, halo, expected.view(), nullptr);
  DenseMatrix<T> expected_twofold = untouched;
  const std::int32_t twofold = runtime::twofold_product;
  host.multiply(queue, rows, chosen, {x.data(), own, 1}, halo, expected_twofold.view(), &twofold);
  DenseMatrix<T> expected_bound = untouched;
  const std::int32_t bound = runtime::product_rounding;
  host.multiply(queue, rows, chosen, {x.data(), own, 1}, halo, expected_bound.view(), &bound);
  queue.synchronize();
  const auto product = [&](const std::int32_t* done) {
    DenseMatrix<T> y = untouched;
    using E = Element<T>;
    runtime::cuda::SparseDeviceKernels<E>::multiply(
        no_stream, runtime::cuda::elements(rows), chosen, reinterpret_cast<const E*>(x.data()),
        halo.empty() ? nullptr : reinterpret_cast<const E*>(halo.data()), elements(y.view()).data(),
        done);
    return y;
  };
  const std::int32_t no = 0;
  const std::int32_t yes = 1;
  EXPECT_TRUE(same_bits(product(nullptr), expected));
  EXPECT_TRUE(same_bits(product(&no), expected));
  EXPECT_TRUE(same_bits(product(&yes), untouched));
  EXPECT_TRUE(same_bits(product(&twofold), expected_twofold));
  EXPECT_TRUE(same_bits(product(&bound), expected_bound));
}

TYPED_TEST(EmulatedSparse, Products_HaveTheBitsOfTheCpu) {
  using T = TypeParam;
  for (const CsrMatrix<T>& a :
       {matgen::laplacian_3d<T>(9), matgen::random_sparse<T>(60, 60, 3, 1),
        matgen::random_sparse<T>(300, 900, 150, 2), matgen::random_sparse<T>(1, 1, 2, 4)}) {
    std::vector<std::int32_t> list;
    for (std::int64_t row = 0; row < a.rows; row += 1 + row % 3) {
      list.push_back(static_cast<std::int32_t>(row));
    }
    for (const std::int64_t lanes : {1, 2, 4, 8, 16, 32}) {
      for (const std::int64_t own : {a.columns, a.columns / 3}) {
        expect_same_product<T>(a, lanes, own, {.count = a.rows});
        expect_same_product<T>(a, lanes, own, {.count = a.rows / 2, .first = a.rows / 4});
        expect_same_product<T>(
            a, lanes, own, {.count = static_cast<std::int64_t>(list.size()), .list = list.data()});
      }
    }
  }
}

TYPED_TEST(EmulatedSparse, AnyTurns_GiveTheSameBits) {
  using T = TypeParam;
  const auto a = matgen::laplacian_3d<T>(7);
  in_each_order([&] {
    for (const std::int64_t lanes : {1, 2, 32}) {
      expect_same_product<T>(a, lanes, a.columns, {.count = a.rows});
    }
  });
}

TYPED_TEST(EmulatedSparse, RowsOfARankThatIsInMemory_HaveTheBitsOfAll) {
  using T = TypeParam;
  using E = Element<T>;
  const auto a = matgen::laplacian_3d<T>(5);
  const std::vector<T> x = sparse_problem::random_vector<T>(a.columns);
  const std::vector<std::int32_t> columns(a.column_indices.begin(), a.column_indices.end());
  for (const std::int64_t lanes : {2, 16}) {
    const SparseRows<E> rows{a.rows,
                             a.columns,
                             0,
                             lanes,
                             a.row_pointers.data(),
                             columns.data(),
                             reinterpret_cast<const E*>(a.values.data())};
    const auto product = [&](std::int64_t count, const std::int32_t* rank) {
      std::vector<T> y(static_cast<std::size_t>(count), T{7});
      runtime::cuda::SparseDeviceKernels<E>::multiply(
          no_stream, rows, {.count = count}, reinterpret_cast<const E*>(x.data()), nullptr,
          reinterpret_cast<E*>(y.data()), nullptr, rank);
      return y;
    };
    const std::vector<T> all = product(a.rows, nullptr);
    // 125 rows: the last rank has fewer, or none.
    for (const std::int64_t count : {40, 63}) {
      for (std::int32_t rank = 0; rank < 4; ++rank) {
        const std::vector<T> part = product(count, &rank);
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t row = rank * count + i;
          ASSERT_EQ(part[static_cast<std::size_t>(i)],
                    row < a.rows ? all[static_cast<std::size_t>(row)] : T{7});
        }
      }
    }
  }
}

TYPED_TEST(EmulatedSparse, PackedEntries_AreThoseOfTheirPlaces) {
  using T = TypeParam;
  using E = Element<T>;
  const std::vector<T> x = sparse_problem::random_vector<T>(500);
  std::vector<std::int32_t> places;
  for (std::int32_t i = 0; i < 400; ++i) {
    places.push_back(i * 37 % 500);
  }
  std::vector<T> packed(places.size());
  runtime::cuda::SparseDeviceKernels<E>::pack(no_stream, places.data(), 400,
                                              reinterpret_cast<const E*>(x.data()),
                                              reinterpret_cast<E*>(packed.data()));
  for (std::size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(packed[i], x[static_cast<std::size_t>(places[i])]);
  }
}

}  // namespace
}  // namespace shardsolve::testing::emulated_sparse
