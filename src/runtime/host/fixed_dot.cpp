#include "runtime/host/fixed_dot.hpp"

#include "runtime/host/dot_tree.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

// Everything below is inlined into the functions at the end, one of which may use instructions that
// the rest of the library cannot count on. The bits are the same: without them fma is a function.

namespace shardsolve::runtime::host {
namespace dot {
namespace {

template <class Real, int width>
SHARDSOLVE_INLINE void store(const DotSum<Real, width>& sum, Real* to) {
  for (int at = 0; at < width; ++at) {
    to[at] = sum.part[at];
  }
}

template <class Real, int width>
SHARDSOLVE_INLINE void dot_of_all(const DotLayout& layout, const Real* x, const Real* y,
                                  Real* result) {
  DotTree<Real, width> tree;
  for (std::int64_t row = 0; row < layout.n; row += dot_leaf) {
    tree.push(dot_leaf_sum<Real, width>(x + width * row, y + width * row,
                                        std::min(dot_leaf, layout.n - row)));
  }
  store(tree.total(), result);
}

template <class Real, int width>
SHARDSOLVE_INLINE void dot_parts(const DotLayout& layout, std::int64_t rank, const Real* x,
                                 const Real* y, Real* parts) {
  std::fill_n(parts, width * layout.length(), Real{0});
  const std::int64_t begin = layout.begin(rank);
  const std::int64_t end = layout.end(rank);
  for (std::int64_t row = begin; row < end;) {
    const std::int64_t leaf = row / dot_leaf;
    const std::int64_t count = std::min(layout.end_of_leaf(leaf), end) - row;
    const Real* own_x = x + width * (row - begin);
    const Real* own_y = y + width * (row - begin);
    if (layout.is_whole(rank, leaf)) {
      store(dot_leaf_sum<Real, width>(own_x, own_y, count),
            parts + width * (leaf - layout.first_whole_leaf(rank)));
    } else {
      const std::int64_t at =
          layout.window(!layout.begins_within(rank, leaf)) + row - leaf * dot_leaf;
      std::copy_n(own_x, width * count, parts + width * at);
      std::copy_n(own_y, width * count, parts + width * (at + dot_leaf));
    }
    row += count;
  }
}

/// A leaf whose rows lie on several devices.
template <class Real, int width>
SHARDSOLVE_INLINE DotSum<Real, width> shared_leaf(const DotLayout& layout, const Real* parts,
                                                  std::int64_t leaf) {
  std::array<Real, static_cast<std::size_t>(width * dot_leaf)> x{};
  std::array<Real, static_cast<std::size_t>(width * dot_leaf)> y{};
  const std::int64_t end = layout.end_of_leaf(leaf);
  for (std::int64_t row = leaf * dot_leaf; row < end;) {
    const std::int64_t rank = layout.owner(row);
    const std::int64_t count = std::min(layout.end(rank), end) - row;
    const std::int64_t slot = row - leaf * dot_leaf;
    const std::int64_t at = layout.window(!layout.begins_within(rank, leaf)) + slot;
    const Real* from = parts + width * (rank * layout.length() + at);
    std::copy_n(from, width * count, x.data() + width * slot);
    std::copy_n(from + width * dot_leaf, width * count, y.data() + width * slot);
    row += count;
  }
  return dot_leaf_sum<Real, width>(x.data(), y.data(), end - leaf * dot_leaf);
}

template <class Real, int width>
SHARDSOLVE_INLINE void dot_of_parts(const DotLayout& layout, const Real* parts, Real* result) {
  DotTree<Real, width> tree;
  for (std::int64_t leaf = 0; leaf < layout.leaves(); ++leaf) {
    const std::int64_t rank = layout.owner(leaf * dot_leaf);
    if (layout.is_whole(rank, leaf)) {
      DotSum<Real, width> sum{};
      const std::int64_t at = rank * layout.length() + leaf - layout.first_whole_leaf(rank);
      for (int part = 0; part < width; ++part) {
        sum.part[part] = parts[width * at + part];
      }
      tree.push(sum);
    } else {
      tree.push(shared_leaf<Real, width>(layout, parts, leaf));
    }
  }
  store(tree.total(), result);
}

template <class Real, int width>
SHARDSOLVE_INLINE void run_dot(const DotCall& call) {
  const auto* x = static_cast<const Real*>(call.x);
  const auto* y = static_cast<const Real*>(call.y);
  auto* result = static_cast<Real*>(call.result);
  const DotLayout& layout = call.layout;
  for (std::int64_t item = 0; item < call.batch; ++item) {
    const std::int64_t from = width * item * layout.rows;
    switch (call.step) {
      case DotStep::all:
        dot_of_all<Real, width>(layout, x + from, y + from, result + width * item);
        break;
      case DotStep::parts:
        dot_parts<Real, width>(layout, call.rank[item], x + from, y + from,
                               result + width * item * layout.length());
        break;
      case DotStep::finish:
        dot_of_parts<Real, width>(layout, x + width * item * call.ranks * layout.length(),
                                  result + width * item);
        break;
    }
  }
}

SHARDSOLVE_INLINE void run_typed_dot(const DotCall& call) {
  if (call.is_double) {
    call.is_complex ? run_dot<double, 2>(call) : run_dot<double, 1>(call);
  } else {
    call.is_complex ? run_dot<float, 2>(call) : run_dot<float, 1>(call);
  }
}

void run_plain(const DotCall& call) { run_typed_dot(call); }
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void run_with_fma(const DotCall& call) { run_typed_dot(call); }
#endif

}  // namespace
}  // namespace dot

void fixed_dot(const DotCall& call) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    dot::run_with_fma(call);
    return;
  }
#endif
  dot::run_plain(call);
}

}  // namespace shardsolve::runtime::host
