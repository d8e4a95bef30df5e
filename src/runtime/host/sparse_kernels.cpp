#include "runtime/host/sparse_kernels.hpp"

#include "core/each_dtype.hpp"
#include "runtime/host/operands.hpp"
#include "runtime/host/spare_threads.hpp"

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <utility>

// As in fixed_dot.cpp: all of it is inlined into functions of which one may use instructions that
// the rest of the library cannot count on. The bits are the same: without them fma is a function.
#define SHARDSOLVE_INLINE inline __attribute__((always_inline))

namespace shardsolve::runtime::host {
namespace sparse_products {
namespace {

/// One call, all numbers as reals.
template <class Real>
struct Product {
  const std::int64_t* row_pointers;
  const std::int32_t* columns;
  const Real* values;
  const Real* x;
  const Real* halo;  ///< null if no row has an entry there
  std::int64_t own;
  Real* y;
  RowChoice chosen;
};

/// Where x of a column lies.
template <bool has_halo, class Real, int width>
SHARDSOLVE_INLINE const Real* entry_of(const Product<Real>& product, std::int32_t column) {
  const std::int64_t at = column;
  if constexpr (has_halo) {
    return at < product.own ? product.x + width * at : product.halo + width * (at - product.own);
  } else {
    return product.x + width * at;
  }
}

/// How far ahead of a row its values are asked for. Rows are too short for the processor to go on
/// computing while it waits: without this a product takes twice as long.
constexpr std::int64_t prefetched_bytes = 8192;

/// Lanes that are summed at a time: as many as registers hold.
template <std::size_t lanes, int width>
constexpr std::size_t group_size = std::min<std::size_t>(lanes, width == 1 ? 8 : 4);

template <class Real, int width, std::size_t size>
using Group = std::array<RowLane<Real, width>, size>;

/// One entry of a row.
template <bool has_halo, class Real, int width>
SHARDSOLVE_INLINE bool take(const Product<Real>& product, std::int64_t k,
                            RowLane<Real, width>& lane) {
  lane.multiply_add(product.values + width * k,
                    entry_of<has_halo, Real, width>(product, product.columns[k]));
  return true;
}

/// The lanes of a group that begins with entry k of a row, each of whose entries lies `lanes`
/// behind the one before. Lanes are named by constants, so that none has to be in memory.
template <std::size_t lanes, bool has_halo, class Real, int width, std::size_t... j>
SHARDSOLVE_INLINE auto sum_group(const Product<Real>& product, std::int64_t k, std::int64_t end,
                                 std::index_sequence<j...> /*of the group*/) {
  Group<Real, width, sizeof...(j)> sum{};
  constexpr auto size = static_cast<std::int64_t>(sizeof...(j));
  for (; k + size <= end; k += static_cast<std::int64_t>(lanes)) {
    (take<has_halo>(product, k + static_cast<std::int64_t>(j), sum[j]), ...);
  }
  // The first of them, as far as there are entries.
  static_cast<void>(((k + static_cast<std::int64_t>(j) < end &&
                      take<has_halo>(product, k + static_cast<std::int64_t>(j), sum[j])) &&
                     ...));
  return sum;
}

/// The sum of the groups g, g + step, g + 2 step, ...: those whose numbers differ most come first.
template <std::size_t lanes, std::size_t g, std::size_t step, bool has_halo, class Real, int width>
SHARDSOLVE_INLINE auto sum_groups(const Product<Real>& product, std::int64_t begin,
                                  std::int64_t end) {
  constexpr std::size_t size = group_size<lanes, width>;
  if constexpr (step == lanes / size) {
    return sum_group<lanes, has_halo, Real, width>(product,
                                                   begin + static_cast<std::int64_t>(g * size), end,
                                                   std::make_index_sequence<size>());
  } else {
    auto sum = sum_groups<lanes, g, 2 * step, has_halo, Real, width>(product, begin, end);
    const auto other =
        sum_groups<lanes, g + step, 2 * step, has_halo, Real, width>(product, begin, end);
    for (std::size_t j = 0; j < size; ++j) {
      sum[j].add(other[j]);
    }
    return sum;
  }
}

template <std::size_t lanes, bool has_halo, class Real, int width>
SHARDSOLVE_INLINE void multiply_row(const Product<Real>& product, std::int64_t row) {
  constexpr std::int64_t ahead = prefetched_bytes / static_cast<std::int64_t>(width * sizeof(Real));
  __builtin_prefetch(product.values + width * (product.row_pointers[row] + ahead));
  __builtin_prefetch(product.columns + product.row_pointers[row] + ahead);
  auto lane = sum_groups<lanes, 0, 1, has_halo, Real, width>(product, product.row_pointers[row],
                                                             product.row_pointers[row + 1]);
  for (std::size_t distance = lane.size() / 2; distance > 0; distance /= 2) {
    for (std::size_t j = 0; j < distance; ++j) {
      lane[j].add(lane[j + distance]);
    }
  }
  for (int at = 0; at < width; ++at) {
    product.y[width * row + at] = lane[0].part[at];
  }
}

template <std::size_t lanes, bool has_halo, class Real, int width>
SHARDSOLVE_INLINE void multiply_rows(const Product<Real>& given) {
  const Product<Real> product = given;  // in registers: nothing that is written can be part of it
  const RowChoice& chosen = product.chosen;
  if (chosen.list == nullptr) {
    for (std::int64_t row = chosen.first; row < chosen.first + chosen.count; ++row) {
      multiply_row<lanes, has_halo, Real, width>(product, row);
    }
  } else {
    for (std::int64_t i = 0; i < chosen.count; ++i) {
      multiply_row<lanes, has_halo, Real, width>(product, chosen.list[i]);
    }
  }
}

template <std::size_t lanes, class Real, int width>
SHARDSOLVE_INLINE void multiply_with(const Product<Real>& product) {
  if (product.halo == nullptr) {
    multiply_rows<lanes, false, Real, width>(product);
  } else {
    multiply_rows<lanes, true, Real, width>(product);
  }
}

template <std::size_t lanes, class Real, int width>
void multiply_plain(const Product<Real>& product) {
  multiply_with<lanes, Real, width>(product);
}
#if defined(__x86_64__)
template <std::size_t lanes, class Real, int width>
__attribute__((target("avx2,fma"))) void multiply_by_fma(const Product<Real>& product) {
  multiply_with<lanes, Real, width>(product);
}
#endif

template <std::size_t lanes, class Real, int width>
void multiply(const Product<Real>& product) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    multiply_by_fma<lanes, Real, width>(product);
    return;
  }
#endif
  multiply_plain<lanes, Real, width>(product);
}

/// By lanes of another kind: a few products of a solve, so lanes may lie in memory.
template <class Lane, class Real, int width>
SHARDSOLVE_INLINE void multiply_rarely(const Product<Real>& product, std::int64_t lanes) {
  std::array<Lane, max_row_lanes> lane;
  const RowChoice& chosen = product.chosen;
  for (std::int64_t i = 0; i < chosen.count; ++i) {
    const std::int64_t row = chosen.list == nullptr ? chosen.first + i : chosen.list[i];
    const std::int64_t begin = product.row_pointers[row];
    const std::int64_t end = product.row_pointers[row + 1];
    std::fill_n(lane.begin(), lanes, Lane{});
    for (std::int64_t k = begin; k < end; ++k) {
      lane[static_cast<std::size_t>((k - begin) & (lanes - 1))].multiply_add(
          product.values + width * k, entry_of<true, Real, width>(product, product.columns[k]));
    }
    for (auto distance = static_cast<std::size_t>(lanes) / 2; distance > 0; distance /= 2) {
      for (std::size_t j = 0; j < distance; ++j) {
        lane[j].add(lane[j + distance]);
      }
    }
    const RowLane<Real, width> sum = lane[0].result(end - begin);
    std::copy_n(sum.part, width, product.y + width * row);
  }
}
template <class Lane, class Real, int width>
void multiply_rarely_plain(const Product<Real>& product, std::int64_t lanes) {
  multiply_rarely<Lane, Real, width>(product, lanes);
}
#if defined(__x86_64__)
template <class Lane, class Real, int width>
__attribute__((target("avx2,fma"))) void multiply_rarely_by_fma(const Product<Real>& product,
                                                                std::int64_t lanes) {
  multiply_rarely<Lane, Real, width>(product, lanes);
}
#endif
template <class Lane, class Real, int width>
void multiply_by(const Product<Real>& product, std::int64_t lanes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    multiply_rarely_by_fma<Lane, Real, width>(product, lanes);
    return;
  }
#endif
  multiply_rarely_plain<Lane, Real, width>(product, lanes);
}

template <class Real, int width>
void multiply_in_lanes(const Product<Real>& product, std::int64_t lanes) {
  switch (lanes) {
    case 1:
      return multiply<1, Real, width>(product);
    case 2:
      return multiply<2, Real, width>(product);
    case 4:
      return multiply<4, Real, width>(product);
    case 8:
      return multiply<8, Real, width>(product);
    case 16:
      return multiply<16, Real, width>(product);
    default:
      return multiply<32, Real, width>(product);
  }
}

/// Entries that a piece has about: what it costs to hand one to a thread is little beside them.
constexpr std::int64_t entries_of_piece = 65536;

/// multiply(some of the rows), all in all those that are chosen; with threads to spare, of rows
/// that follow each other.
template <class Real, class Multiply>
void in_pieces_of(SpareThreads* spare, const Product<Real>& product, const Multiply& multiply) {
  const RowChoice& chosen = product.chosen;
  const std::int64_t entries =
      spare == nullptr || chosen.list != nullptr
          ? 0
          : product.row_pointers[chosen.first + chosen.count] - product.row_pointers[chosen.first];
  const std::int64_t pieces = std::min(entries / entries_of_piece, chosen.count);
  if (pieces < 2) {
    multiply(product);
    return;
  }
  in_pieces(spare, pieces, [&](std::int64_t piece) {
    Product<Real> some = product;
    const std::int64_t begin = piece * chosen.count / pieces;
    some.chosen.first += begin;
    some.chosen.count = (piece + 1) * chosen.count / pieces - begin;
    multiply(some);
  });
}

}  // namespace
}  // namespace sparse_products

template <Scalar T>
void HostSparseKernels<T>::do_pack(Queue& queue, const WorkInfo& info,
                                   MatrixView<const std::int32_t> places, MatrixView<const T> x,
                                   MatrixView<T> packed) const {
  launch(queue, info, {places, x}, {packed}, [places, x, packed] {
    for (std::int64_t i = 0; i < places.rows(); ++i) {
      packed.data()[i] = x.data()[places.data()[i]];
    }
  });
}

template <Scalar T>
void HostSparseKernels<T>::do_multiply(Queue& queue, const WorkInfo& info, const SparseRows<T>& a,
                                       const RowChoice& chosen, MatrixView<const T> x,
                                       MatrixView<const T> halo, MatrixView<T> y,
                                       const std::int32_t* done, const std::int32_t* rank) const {
  require(rank == nullptr, "sparse product");
  using Real = RealOf<T>;
  const auto reals = [](const T* numbers) { return reinterpret_cast<const Real*>(numbers); };
  const sparse_products::Product<Real> product{a.row_pointers,
                                               a.columns,
                                               reals(a.values),
                                               reals(x.data()),
                                               halo.empty() ? nullptr : reals(halo.data()),
                                               a.own,
                                               reinterpret_cast<Real*>(y.data()),
                                               chosen};
  const MatrixView<T> written =
      chosen.list == nullptr ? y.block(chosen.first, 0, chosen.count, 1) : y;
  SpareThreads* const spare = static_cast<HostQueue&>(queue).spare();
  launch(queue, info, {x, halo, Operand(done, done == nullptr ? 0 : 1)}, {written},
         [product, lanes = a.lanes, done, spare] {
           constexpr int width = is_complex<T> ? 2 : 1;
           sparse_products::in_pieces_of(spare, product, [=](const auto& some) {
             if (done == nullptr || *done == usual_product) {
               sparse_products::multiply_in_lanes<Real, width>(some, lanes);
             } else if (*done == twofold_product) {
               sparse_products::multiply_by<TwofoldRowLane<Real, width>, Real, width>(some, lanes);
             } else if (*done == product_rounding) {
               sparse_products::multiply_by<ModulusRowLane<Real, width>, Real, width>(some, lanes);
             }
           });
         });
}

#define SHARDSOLVE_INSTANTIATE(T) template class HostSparseKernels<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::host
