// The sweeps of a group, eight at a time or fewer, are parts. Of each window of a part V and V t
// are kept row after row. Columns of z are taken as many at a time as there are in three vectors,
// and lie in a tile row after row, so that a vector is a piece of a row:
//
//   s  = V^T z           a sum is a vector for each reflector and piece of a row
//   z -= (V t) s
//
// Parts of later sweeps come first. As their window k + 1 begins below the window k of earlier
// sweeps, all parts may go through their windows k before any of them goes on: so of z no more than
// the rows of all these windows are in use, and the tile follows them down.

#include "runtime/host/sliding_windows.hpp"

#include "runtime/host/avx512.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <ranges>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardsolve::runtime::host {

#ifndef SHARDSOLVE_AVX512

template <class Real>
void make_sliding_windows(const Chase&, const SweepGroup&, MatrixView<const Real>, MatrixView<Real>,
                          MatrixView<Real>) {}
template <class Real>
void slide_windows(const Chase&, std::span<const SweepWindows<Real>>, MatrixView<Real>) {}

#else

namespace avx512 {
namespace {

constexpr std::int64_t vectors = 3;    // of a row of a tile
constexpr std::int64_t max_width = 8;  // sweeps of a part: with them there are registers for sums
template <class Real>
constexpr std::int64_t tile_columns = vectors * lanes<Real>;

/// V and V t of a window.
template <class Real>
struct Window {
  const Real* v;
  const Real* vt;
};

/// z -= (V t) (V^T z) for a window of so many rows and `width` reflectors; z in a tile. The window
/// after it is brought to the cache meanwhile.
template <class Real, std::int64_t width>
[[SHARDSOLVE_AVX512]] void apply_window(std::int64_t rows, const Window<Real>& window,
                                        const Window<Real>& next, Real* z) {
  constexpr std::int64_t columns = tile_columns<Real>;
  Vector<Real> sums[width][vectors] = {};
  for (std::int64_t i = 0; i < rows; ++i) {
    Vector<Real> row[vectors];
#pragma GCC unroll 3
    for (std::int64_t c = 0; c < vectors; ++c) {
      row[c] = load(z + i * columns + c * lanes<Real>);
    }
    __builtin_prefetch(next.v + i * width);
#pragma GCC unroll 8
    for (std::int64_t j = 0; j < width; ++j) {
      const Vector<Real> factor = all(window.v[i * width + j]);
#pragma GCC unroll 3
      for (std::int64_t c = 0; c < vectors; ++c) {
        sums[j][c] = add_product(factor, row[c], sums[j][c]);
      }
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    Vector<Real> row[vectors];
#pragma GCC unroll 3
    for (std::int64_t c = 0; c < vectors; ++c) {
      row[c] = load(z + i * columns + c * lanes<Real>);
    }
    __builtin_prefetch(next.vt + i * width);
#pragma GCC unroll 8
    for (std::int64_t j = 0; j < width; ++j) {
      const Vector<Real> factor = all(window.vt[i * width + j]);
#pragma GCC unroll 3
      for (std::int64_t c = 0; c < vectors; ++c) {
        row[c] = take_product(factor, sums[j][c], row[c]);
      }
    }
#pragma GCC unroll 3
    for (std::int64_t c = 0; c < vectors; ++c) {
      store(row[c], z + i * columns + c * lanes<Real>);
    }
  }
}

/// Exchanges the squares of `half` numbers beside the diagonals of squares of twice as many.
template <class V, std::size_t half, std::size_t... lane>
[[SHARDSOLVE_AVX512, gnu::always_inline]] inline void exchange(V& upper, V& lower,
                                                               std::index_sequence<lane...>) {
  constexpr std::size_t count = sizeof...(lane);
  const V first = upper;
  const V second = lower;
  upper = __builtin_shufflevector(
      first, second, static_cast<int>((lane & half) == 0 ? lane : count + lane - half)...);
  lower = __builtin_shufflevector(
      first, second, static_cast<int>((lane & half) == 0 ? lane + half : count + lane)...);
}
template <class Real, std::size_t half>
[[SHARDSOLVE_AVX512, gnu::always_inline]] inline void transpose_step(Vector<Real>* rows) {
  constexpr std::size_t count = lanes<Real>;
#pragma GCC unroll 16
  for (std::size_t i = 0; i < count; ++i) {
    if ((i & half) == 0) {
      exchange<Vector<Real>, half>(rows[i], rows[i + half], std::make_index_sequence<count>());
    }
  }
}
/// A square, from columns to rows or back; strides count numbers.
template <class Real>
[[SHARDSOLVE_AVX512]] void transpose(const Real* from, std::int64_t from_stride, Real* to,
                                     std::int64_t to_stride) {
  Vector<Real> rows[lanes<Real>];
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < lanes<Real>; ++i) {
    rows[i] = load(from + i * from_stride);
  }
  transpose_step<Real, 1>(rows);
  transpose_step<Real, 2>(rows);
  transpose_step<Real, 4>(rows);
  if constexpr (lanes<Real> == 16) {
    transpose_step<Real, 8>(rows);
  }
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < lanes<Real>; ++i) {
    store(rows[i], to + i * to_stride);
  }
}

/// Some columns of z, of which some rows lie in the tile, one after the other.
template <class Real>
class Tile {
 public:
  Tile(MatrixView<Real> z, std::int64_t capacity)
      : z_(z),
        capacity_(capacity),
        numbers_(static_cast<Real*>(::operator new(bytes(), alignment)), Delete{}) {
    std::memset(numbers_.get(), 0, bytes());  // what is in no column of z must be a number
  }

  /// Where a row is that the tile has.
  Real* row(std::int64_t row) const {
    return numbers_.get() + (row - first_ + offset_) * tile_columns<Real>;
  }
  /// Has rows [first, last) from now on; both only grow. Others go back to z.
  void move(std::int64_t first, std::int64_t last) {
    put_back(first_, std::min(first, last_));
    const std::int64_t kept = std::max<std::int64_t>(last_ - first, 0);
    offset_ += std::min(first, last_) - first_;
    if (offset_ + last - first > capacity_) {
      std::memmove(numbers_.get(), numbers_.get() + offset_ * tile_columns<Real>,
                   static_cast<std::size_t>(kept * tile_columns<Real>) * sizeof(Real));
      offset_ = 0;
    }
    first_ = first;
    take(first + kept, last);
    last_ = last;
  }
  void finish() { put_back(first_, last_); }

 private:
  struct Delete {
    void operator()(Real* numbers) const { ::operator delete(numbers, alignment); }
  };
  static constexpr std::align_val_t alignment{64};

  std::size_t bytes() const {
    return static_cast<std::size_t>(capacity_ * tile_columns<Real>) * sizeof(Real);
  }

  void take(std::int64_t begin, std::int64_t end) const {
    const std::int64_t whole = begin + (end - begin) / lanes<Real> * lanes<Real>;
    std::int64_t column = 0;
    for (; column + lanes<Real> <= z_.columns(); column += lanes<Real>) {
      for (std::int64_t i = begin; i < whole; i += lanes<Real>) {
        transpose(&z_(i, column), z_.stride(), row(i) + column, tile_columns<Real>);
      }
    }
    for (std::int64_t j = 0; j < z_.columns(); ++j) {
      for (std::int64_t i = j < column ? whole : begin; i < end; ++i) {
        row(i)[j] = z_(i, j);
      }
    }
  }
  void put_back(std::int64_t begin, std::int64_t end) const {
    const std::int64_t whole = begin + (end - begin) / lanes<Real> * lanes<Real>;
    std::int64_t column = 0;
    for (; column + lanes<Real> <= z_.columns(); column += lanes<Real>) {
      for (std::int64_t i = begin; i < whole; i += lanes<Real>) {
        transpose(row(i) + column, tile_columns<Real>, &z_(i, column), z_.stride());
      }
    }
    for (std::int64_t j = 0; j < z_.columns(); ++j) {
      for (std::int64_t i = j < column ? whole : begin; i < end; ++i) {
        z_(i, j) = row(i)[j];
      }
    }
  }

  MatrixView<Real> z_;  // no more columns than a tile has
  std::int64_t capacity_;
  std::int64_t first_ = 0;   // of z's rows
  std::int64_t last_ = 0;    // behind them
  std::int64_t offset_ = 0;  // of the first one in the tile
  std::unique_ptr<Real, Delete> numbers_;
};

/// Some sweeps of a group, and where its windows begin in what that has for V and for V t.
struct Part {
  std::int64_t first = 0;
  std::int64_t width = 0;
  std::int64_t windows = 0;
  std::int64_t place = 0;

  std::int64_t rows(const Chase& chase) const { return chase.bandwidth + width - 1; }
  std::int64_t window(const Chase& chase, std::int64_t k) const {
    return place + k * rows(chase) * width;
  }
};
/// In the order of sweeps. Together they take no more room than V.
std::vector<Part> parts_of(const Chase& chase, const SweepGroup& sweeps) {
  std::vector<Part> parts;
  std::int64_t place = 0;
  std::int64_t width = max_width;
  for (std::int64_t begin = 0; begin < sweeps.count; begin += width) {
    while (width > sweeps.count - begin) {
      width /= 2;
    }
    parts.push_back({sweeps.first + begin, width, chase.tasks(sweeps.first), place});
    place += parts.back().windows * parts.back().rows(chase) * width;
  }
  return parts;
}

/// Calls call(std::integral_constant) with a width as a constant.
template <class Call>
void with_width(std::int64_t width, Call call) {
  switch (width) {
    case 8:
      return call(std::integral_constant<std::int64_t, 8>{});
    case 4:
      return call(std::integral_constant<std::int64_t, 4>{});
    case 2:
      return call(std::integral_constant<std::int64_t, 2>{});
    default:
      return call(std::integral_constant<std::int64_t, 1>{});
  }
}

/// V and V t of a window from its reflectors, which come at a distance of one another.
template <class Real, std::int64_t width>
[[SHARDSOLVE_AVX512]] void make_window(std::int64_t bandwidth, const Real* reflectors,
                                       std::int64_t distance, Real* v, Real* vt) {
  const std::int64_t rows = bandwidth + width - 1;
  std::fill_n(v, rows * width, Real{0});
  for (std::int64_t j = 0; j < width; ++j) {
    for (std::int64_t i = 0; i < bandwidth; ++i) {
      v[(j + i) * width + j] = reflectors[j * distance + 1 + i];
    }
  }
  // V^T V
  using Row [[gnu::vector_size(width * sizeof(Real))]] = Real;
  Row products[width] = {};
  for (std::int64_t i = 0; i < rows; ++i) {
    Row row;
    std::memcpy(&row, v + i * width, sizeof row);
#pragma GCC unroll 8
    for (std::int64_t j = 0; j < width; ++j) {
      products[j] += row[j] * row;
    }
  }
  // t of all reflectors up to j: beside that of those before stands -t (V^T v_j) tau_j
  Row t[width] = {};
  for (std::int64_t j = 0; j < width; ++j) {
    const Real tau = reflectors[j * distance];
    t[j][j] = tau;
    for (std::int64_t i = 0; i < j; ++i) {
      Real sum{0};
      for (std::int64_t l = i; l < j; ++l) {
        sum += t[i][l] * products[l][j];
      }
      t[i][j] = -tau * sum;
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    Row row{};
#pragma GCC unroll 8
    for (std::int64_t j = 0; j < width; ++j) {
      row += v[i * width + j] * t[j];
    }
    std::memcpy(vt + i * width, &row, sizeof row);
  }
}

}  // namespace
}  // namespace avx512

template <class Real>
void make_sliding_windows(const Chase& chase, const SweepGroup& sweeps,
                          MatrixView<const Real> reflectors, MatrixView<Real> v,
                          MatrixView<Real> vt) {
  using namespace avx512;
  for (const Part& part : parts_of(chase, sweeps)) {
    with_width(part.width, [&](auto width) {
      for (std::int64_t k = 0; k < part.windows; ++k) {
        make_window<Real, width()>(chase.bandwidth,
                                   &reflectors(0, k * sweeps.count + part.first - sweeps.first),
                                   reflectors.stride(), v.data() + part.window(chase, k),
                                   vt.data() + part.window(chase, k));
      }
    });
  }
}

template <class Real>
void slide_windows(const Chase& chase, std::span<const SweepWindows<Real>> groups,
                   MatrixView<Real> z) {
  using namespace avx512;
  struct PartOfGroup {
    Part part;
    Window<Real> windows;

    Window<Real> window(const Chase& chase, std::int64_t k) const {
      return {windows.v + part.window(chase, k), windows.vt + part.window(chase, k)};
    }
  };
  std::vector<PartOfGroup> parts;
  std::int64_t windows = 0;
  for (const SweepWindows<Real>& group : groups) {
    const std::vector<Part> of_group = parts_of(chase, group.sweeps);
    for (const Part& part : of_group | std::views::reverse) {
      parts.push_back({part, {group.v.data(), group.vt.data()}});
    }
    windows = std::max(windows, chase.tasks(group.sweeps.first));
  }
  const std::int64_t first = groups.back().sweeps.first + 1;
  const SweepGroup& last = groups.front().sweeps;
  const std::int64_t rows = chase.bandwidth + last.first + last.count - first;
  const auto row = [&](std::int64_t number) { return std::min(number, chase.size); };
  for (std::int64_t column = 0; column < z.columns(); column += tile_columns<Real>) {
    Tile<Real> tile(z.columns_from(column, std::min(tile_columns<Real>, z.columns() - column)),
                    4 * rows);
    for (std::int64_t k = 0; k < windows; ++k) {
      const std::int64_t begin = first + k * chase.bandwidth;
      tile.move(row(begin), row(begin + rows));
      for (std::size_t p = 0; p < parts.size(); ++p) {
        const Part& part = parts[p].part;
        const std::int64_t top = part.first + 1 + k * chase.bandwidth;
        const std::int64_t height = std::min(part.rows(chase), chase.size - top);
        if (k >= part.windows || height <= 0) {
          continue;
        }
        const bool is_last = p + 1 == parts.size();
        const PartOfGroup& next = is_last ? parts.front() : parts[p + 1];
        with_width(part.width, [&](auto width) {
          apply_window<Real, width()>(height, parts[p].window(chase, k),
                                      next.window(chase, is_last ? k + 1 : k), tile.row(top));
        });
      }
    }
    tile.finish();
  }
}

#endif

template void make_sliding_windows(const Chase&, const SweepGroup&, MatrixView<const float>,
                                   MatrixView<float>, MatrixView<float>);
template void make_sliding_windows(const Chase&, const SweepGroup&, MatrixView<const double>,
                                   MatrixView<double>, MatrixView<double>);
template void slide_windows(const Chase&, std::span<const SweepWindows<float>>, MatrixView<float>);
template void slide_windows(const Chase&, std::span<const SweepWindows<double>>,
                            MatrixView<double>);

}  // namespace shardsolve::runtime::host
