#include "runtime/host/krylov_kernels.hpp"

#include "runtime/host/block_sweeps.hpp"
#include "runtime/host/dot_tree.hpp"
#include "runtime/host/operands.hpp"
#include "runtime/krylov/step.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <vector>

namespace shardsolve::runtime::host {
namespace krylov_host {
namespace {

using krylov::Dot;
using krylov::Number;
using krylov::Program;
using krylov::State;
using krylov::StateRoom;
using krylov::SumLayout;
using krylov::SumPart;
using krylov::SumTable;
using krylov::Update;
using krylov::UpdateKind;
using krylov::Vectors;

/// A coefficient in the precision of the vectors.
template <class Real>
struct Coefficient {
  Real re;
  Real im;

  explicit Coefficient(Number c) : re(static_cast<Real>(c.re)), im(static_cast<Real>(c.im)) {}
};

/// y = c a + b, of `count` numbers; y may be a or b. Entries do not depend on others, which the
/// compiler cannot know.
template <class Real, int width>
SHARDSOLVE_INLINE void combine(Coefficient<Real> c, const Real* a, const Real* b, Real* y,
                               std::int64_t count) {
  if constexpr (width == 1) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      y[i] = fused_multiply_add(c.re, a[i], b[i]);
    }
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < 2 * count; i += 2) {
      const Real re = fused_multiply_add(-c.im, a[i + 1], fused_multiply_add(c.re, a[i], b[i]));
      const Real im = fused_multiply_add(c.im, a[i], fused_multiply_add(c.re, a[i + 1], b[i + 1]));
      y[i] = re;
      y[i + 1] = im;
    }
  }
}

/// What one program works on.
template <class Real, int width>
struct Work {
  using T = std::conditional_t<width == 1, Real, std::complex<Real>>;
  const Program& program;
  const Vectors<T>& vectors;
  const State& state;
  const StateRoom& room;

  /// Row `row` of the rank.
  SHARDSOLVE_INLINE Real* at(int vector, std::int64_t row) const {
    return reinterpret_cast<Real*>(vectors.at(vector, state)) + width * row;
  }
  SHARDSOLVE_INLINE Real* column(int vector, std::int64_t k, std::int64_t row) const {
    return reinterpret_cast<Real*>(vectors.base[vector] + k * vectors.stride[vector]) + width * row;
  }
  SHARDSOLVE_INLINE bool heeds(std::uint32_t actions) const {
    return (state.actions & actions) != 0;
  }
};

template <class Real, int width>
SHARDSOLVE_INLINE void add_random(const Work<Real, width>& work, std::int64_t stream, Real factor,
                                  bool fresh, Real* y, std::int64_t row, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    for (int part = 0; part < width; ++part) {
      const auto number = static_cast<Real>(
          krylov::random_number(2 * stream + part, work.vectors.first_row + row + i));
      Real& target = y[width * i + part];
      target = fresh ? number : fused_multiply_add(factor, number, target);
    }
  }
}

/// y = a / b, of `count` numbers.
template <class Real, int width>
SHARDSOLVE_INLINE void divide_rows(const Real* a, const Real* b, Real* y, std::int64_t count) {
  if constexpr (width == 1) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      y[i] = a[i] / b[i];
    }
  } else {
    for (std::int64_t i = 0; i < 2 * count; i += 2) {
      const Number quotient = krylov::divided({a[i], a[i + 1]}, {b[i], b[i + 1]});
      y[i] = static_cast<Real>(quotient.re);
      y[i + 1] = static_cast<Real>(quotient.im);
    }
  }
}

/// One update of `count` rows from `row` on.
template <class Real, int width>
SHARDSOLVE_INLINE void update_rows(const Work<Real, width>& work, const Update& update,
                                   std::int64_t row, std::int64_t count) {
  Real* const y = work.at(update.target, row);
  const Real* const a = work.at(update.a, row);
  const Real* const b = work.at(update.b, row);
  const bool is_random = update.kind == UpdateKind::random;
  const Coefficient<Real> c(is_random ? Number{} : work.state.coefficient[update.coefficient]);
  switch (update.kind) {
    case UpdateKind::clear:
      std::fill_n(y, width * count, Real{0});
      break;
    case UpdateKind::copy:
      std::copy_n(a, width * count, y);
      break;
    case UpdateKind::add_scaled:
      combine<Real, width>(c, a, y, y, count);
      break;
    case UpdateKind::scale_add:
      combine<Real, width>(c, y, a, y, count);
      break;
    case UpdateKind::scale:
      // Real in all methods.
#pragma GCC ivdep
      for (std::int64_t i = 0; i < width * count; ++i) {
        y[i] = c.re * a[i];
      }
      break;
    case UpdateKind::subtract:
#pragma GCC ivdep
      for (std::int64_t i = 0; i < width * count; ++i) {
        y[i] = a[i] - b[i];
      }
      break;
    case UpdateKind::divide:
      if (work.vectors.base[update.b] == nullptr) {
        std::copy_n(a, width * count, y);
      } else {
        divide_rows<Real, width>(a, b, y, count);
      }
      break;
    case UpdateKind::random:
      add_random(work, update.coefficient, Real{1}, true, y, row, count);
      break;
    case UpdateKind::add_random:
      add_random(work, work.state.seed, c.re, false, y, row, count);
      break;
    case UpdateKind::add_columns:
    case UpdateKind::subtract_columns:
      for (std::int64_t k = 0; k < work.state.columns; ++k) {
        const Number h = work.room.column_factors[k];
        combine<Real, width>(
            Coefficient<Real>(update.kind == UpdateKind::add_columns ? h : krylov::negated(h)),
            work.column(update.a, k, row), y, y, count);
      }
      break;
  }
}

/// The sums of one slot on this rank, leaf by leaf.
template <class Real, int width>
class SlotWriter {
 public:
  SHARDSOLVE_INLINE void begin(Real* part) { part_ = part; }
  /// Rows from `row` on that are in one leaf.
  SHARDSOLVE_INLINE void take(const SumLayout& layout, const SumPart& shape, const Real* x,
                              const Real* y, std::int64_t row, std::int64_t count) {
    const std::int64_t leaf = row / dot_leaf;
    if (!shape.has_leaf(leaf)) {
      const std::int64_t at = shape.at_row(row);
      std::copy_n(x, width * count, part_ + width * at);
      std::copy_n(y, width * count, part_ + width * (at + shape.loose_rows()));
      return;
    }
    const DotSum<Real, width> sum = dot::dot_leaf_sum<Real, width>(x, y, count);
    const std::int64_t block = leaf / layout.block_leaves;
    if (!shape.has_block(block)) {
      store(sum, shape.at_leaf(leaf, layout.block_leaves));
      return;
    }
    if (leaf % layout.block_leaves == 0) {
      tree_ = {};
    }
    tree_.push(sum);
    if ((leaf + 1) % layout.block_leaves == 0 || leaf + 1 == layout.leaves()) {
      store(tree_.total(), shape.at_block(block));
    }
  }

 private:
  SHARDSOLVE_INLINE void store(const DotSum<Real, width>& sum, std::int64_t at) {
    for (int part = 0; part < width; ++part) {
      part_[width * at + part] = sum.part[part];
    }
  }

  Real* part_ = nullptr;
  dot::DotTree<Real, width> tree_;
};

template <class Real, int width>
SHARDSOLVE_INLINE void run_program(const Work<Real, width>& work,
                                   const SumTable<typename Work<Real, width>::T>& sums) {
  const SumPart shape = sums.layout.part(sums.rank);
  Real* const mine = reinterpret_cast<Real*>(sums.parts + sums.offsets[sums.rank]);
  // Of a sum over columns one writer a column.
  struct Sum {
    const Dot* dot;
    std::int64_t column;
  };
  std::vector<Sum> all;
  for (int d = 0; d < work.program.dots; ++d) {
    const Dot& dot = work.program.dot[d];
    if (work.heeds(dot.actions)) {
      for (std::int64_t k = 0; k < (dot.is_columns != 0 ? work.state.columns : 1); ++k) {
        all.push_back({&dot, k});
      }
    }
  }
  std::array<const Update*, Program::most> updates{};
  int count_of_updates = 0;
  for (int u = 0; u < work.program.updates; ++u) {
    if (krylov::is_asked_for(work.program.update[u], work.state)) {
      updates[count_of_updates++] = &work.program.update[u];
    }
  }
  std::vector<SlotWriter<Real, width>> writers(all.size());
  for (std::size_t s = 0; s < all.size(); ++s) {
    writers[s].begin(mine + width * shape.length() * (all[s].dot->slot + all[s].column));
  }
  const std::int64_t first = work.vectors.first_row;
  // Updates of so many rows, which stay in the cache, before their sums.
  constexpr std::int64_t rows_at_a_time = 8 * dot_leaf;
  for (std::int64_t begin = 0; begin < work.vectors.rows;) {
    const std::int64_t end =
        std::min(begin + rows_at_a_time - (first + begin) % rows_at_a_time, work.vectors.rows);
    for (int u = 0; u < count_of_updates; ++u) {
      update_rows(work, *updates[u], begin, end - begin);
    }
    for (std::size_t s = 0; s < all.size(); ++s) {
      const Dot& dot = *all[s].dot;
      const Real* const x =
          dot.is_columns != 0 ? work.column(dot.x, all[s].column, 0) : work.at(dot.x, 0);
      const Real* const y = work.at(dot.y, 0);
      for (std::int64_t row = begin; row < end;) {
        const std::int64_t count = std::min(dot_leaf - (first + row) % dot_leaf, end - row);
        writers[s].take(sums.layout, shape, x + width * row, y + width * row, first + row, count);
        row += count;
      }
    }
    begin = end;
  }
}

/// The parts of all ranks, by row.
template <class Real, int width>
struct Parts {
  const SumLayout& layout;
  const Real* parts;
  const std::int64_t* offsets;
  int slot;

  SHARDSOLVE_INLINE const Real* of(std::int64_t rank, const SumPart& shape, std::int64_t at) const {
    return parts + width * (offsets[rank] + slot * shape.length() + at);
  }
  SHARDSOLVE_INLINE DotSum<Real, width> load(const Real* from) const {
    DotSum<Real, width> sum{};
    for (int part = 0; part < width; ++part) {
      sum.part[part] = from[part];
    }
    return sum;
  }
};

/// A leaf whose rows lie on several ranks from `rank` on, of which it leaves the last.
template <class Real, int width>
SHARDSOLVE_INLINE DotSum<Real, width> shared_leaf(const Parts<Real, width>& parts,
                                                  std::int64_t leaf, std::int64_t& rank) {
  std::array<Real, static_cast<std::size_t>(width * dot_leaf)> x{};
  std::array<Real, static_cast<std::size_t>(width * dot_leaf)> y{};
  const std::int64_t end = std::min((leaf + 1) * dot_leaf, parts.layout.n);
  for (std::int64_t row = leaf * dot_leaf; row < end;) {
    while (parts.layout.boundaries[rank + 1] <= row) {
      ++rank;
    }
    const SumPart shape = parts.layout.part(rank);
    const std::int64_t count = std::min(shape.end, end) - row;
    const std::int64_t slot = row - leaf * dot_leaf;
    const Real* const from = parts.of(rank, shape, shape.at_row(row));
    std::copy_n(from, width * count, x.data() + width * slot);
    std::copy_n(from + width * shape.loose_rows(), width * count, y.data() + width * slot);
    row += count;
  }
  return dot::dot_leaf_sum<Real, width>(x.data(), y.data(), end - leaf * dot_leaf);
}

template <class Real, int width>
SHARDSOLVE_INLINE Number sum_of_parts(const Parts<Real, width>& parts) {
  const SumLayout& layout = parts.layout;
  dot::DotTree<Real, width> tree;
  std::int64_t rank = 0;
  SumPart shape = layout.part(0);
  const auto advance = [&](std::int64_t row) {
    if (layout.boundaries[rank + 1] <= row || shape.begin == shape.end) {
      while (layout.boundaries[rank + 1] <= row) {
        ++rank;
      }
      shape = layout.part(rank);
    }
  };
  for (std::int64_t block = 0; block < layout.blocks(); ++block) {
    advance(block * layout.block_rows());
    if (shape.has_block(block)) {
      tree.push(parts.load(parts.of(rank, shape, shape.at_block(block))));
      continue;
    }
    dot::DotTree<Real, width> below;
    const std::int64_t end = std::min((block + 1) * layout.block_leaves, layout.leaves());
    for (std::int64_t leaf = block * layout.block_leaves; leaf < end; ++leaf) {
      advance(leaf * dot_leaf);
      if (shape.has_leaf(leaf)) {
        below.push(parts.load(parts.of(rank, shape, shape.at_leaf(leaf, layout.block_leaves))));
      } else {
        below.push(shared_leaf(parts, leaf, rank));
        shape = layout.part(rank);
      }
    }
    tree.push(below.total());
  }
  const DotSum<Real, width> total = tree.total();
  return {static_cast<double>(total.part[0]),
          width == 2 ? static_cast<double>(total.part[1]) : 0.0};
}

template <class Real, int width>
SHARDSOLVE_INLINE void finish_sums(const SumTable<typename Work<Real, width>::T>& table,
                                   std::int64_t used, Number* sums) {
  for (int slot = 0; slot < used; ++slot) {
    const Parts<Real, width> parts{table.layout, reinterpret_cast<const Real*>(table.parts),
                                   table.offsets, slot};
    sums[slot] = sum_of_parts(parts);
  }
}

template <class Real, int width>
void run_plain(const Work<Real, width>& work, const SumTable<typename Work<Real, width>::T>& sums) {
  run_program(work, sums);
}
template <class Real, int width>
void finish_plain(const SumTable<typename Work<Real, width>::T>& table, std::int64_t used,
                  Number* sums) {
  finish_sums<Real, width>(table, used, sums);
}
#if defined(__x86_64__)
template <class Real, int width>
__attribute__((target("avx2,fma"))) void run_with_fma(
    const Work<Real, width>& work, const SumTable<typename Work<Real, width>::T>& sums) {
  run_program(work, sums);
}
template <class Real, int width>
__attribute__((target("avx2,fma"))) void finish_with_fma(
    const SumTable<typename Work<Real, width>::T>& table, std::int64_t used, Number* sums) {
  finish_sums<Real, width>(table, used, sums);
}
#endif

bool has_fma() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

template <class Real, int width>
void run_best(const Work<Real, width>& work, const SumTable<typename Work<Real, width>::T>& sums) {
#if defined(__x86_64__)
  if (has_fma()) {
    run_with_fma(work, sums);
    return;
  }
#endif
  run_plain(work, sums);
}

template <class Real, int width>
void finish_best(const SumTable<typename Work<Real, width>::T>& table, std::int64_t used,
                 Number* sums) {
#if defined(__x86_64__)
  if (has_fma()) {
    finish_with_fma<Real, width>(table, used, sums);
    return;
  }
#endif
  finish_plain<Real, width>(table, used, sums);
}

/// Of `count` reals; see KrylovKernels::combine.
template <class Real>
SHARDSOLVE_INLINE void combine_parts(Real a, const Real* x, Real b, Real* y, std::int64_t count) {
  if (b == 0) {
    for (std::int64_t i = 0; i < count; ++i) {
      y[i] = a * x[i];
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      y[i] = fused_multiply_add(a, x[i], b * y[i]);
    }
  }
}
template <class Real>
void combine_plain(Real a, const Real* x, Real b, Real* y, std::int64_t count) {
  combine_parts(a, x, b, y, count);
}
#if defined(__x86_64__)
template <class Real>
__attribute__((target("avx2,fma"))) void combine_with_fma(Real a, const Real* x, Real b, Real* y,
                                                          std::int64_t count) {
  combine_parts(a, x, b, y, count);
}
#endif
template <class Real>
void combine_best(Real a, const Real* x, Real b, Real* y, std::int64_t count) {
#if defined(__x86_64__)
  if (has_fma()) {
    combine_with_fma(a, x, b, y, count);
    return;
  }
#endif
  combine_plain(a, x, b, y, count);
}

template <Scalar T>
bool stop_asked(const SumTable<T>& table) {
  for (std::int64_t r = 0; r < table.layout.ranks; ++r) {
    if (table.parts[table.offsets[r + 1] - 1] != T{0}) {
      return true;
    }
  }
  return false;
}

}  // namespace
}  // namespace krylov_host

template <Scalar T>
void HostKrylovKernels<T>::do_scan(Queue& queue, const WorkInfo& info, MatrixView<const T> x,
                                   Scan* result) const {
  launch(queue, info, {x}, {Operand(result, 1)}, [=] {
    Scan found{.exponent = Scan::zero};
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      for (const RealOf<T> part : {std::real(x(i, 0)), std::imag(x(i, 0))}) {
        if (!std::isfinite(part)) {
          found.first_nonfinite = found.first_nonfinite < 0 ? i : found.first_nonfinite;
        } else if (part != 0) {
          found.exponent = std::max<std::int64_t>(found.exponent, std::ilogb(part) + 1);
        }
      }
    }
    *result = found;
  });
}

template <Scalar T>
void HostKrylovKernels<T>::do_scale_exactly(Queue& queue, const WorkInfo& info, int exponent,
                                            MatrixView<const T> source,
                                            MatrixView<T> target) const {
  launch(queue, info, {source}, {target}, [=] {
    for (std::int64_t j = 0; j < target.columns(); ++j) {
      for (std::int64_t i = 0; i < target.rows(); ++i) {
        if constexpr (is_complex<T>) {
          target(i, j) = {std::ldexp(source(i, j).real(), exponent),
                          std::ldexp(source(i, j).imag(), exponent)};
        } else {
          target(i, j) = std::ldexp(source(i, j), exponent);
        }
      }
    }
  });
}

template <Scalar T>
void HostKrylovKernels<T>::do_run(Queue& queue, const WorkInfo& info,
                                  const krylov::Program& program, const krylov::Vectors<T>& vectors,
                                  const krylov::State* state, const krylov::StateRoom& room,
                                  const krylov::SumTable<T>& sums) const {
  // Vectors are written by plain code, which ThreadSanitizer sees.
  launch(queue, info, {Operand(state, 1)}, {}, [=] {
    if (state->done == 0) {
      constexpr int width = is_complex<T> ? 2 : 1;
      krylov_host::run_best(krylov_host::Work<RealOf<T>, width>{program, vectors, *state, room},
                            sums);
    }
  });
}

template <Scalar T>
void HostKrylovKernels<T>::do_finish(Queue& queue, const WorkInfo& info,
                                     const krylov::Problem& problem, int reduction,
                                     const krylov::SumTable<T>& sums, krylov::State* state,
                                     const krylov::StateRoom& room) const {
  launch(queue, info, {}, {Operand(state, 1)}, [=] {
    if (state->done == 0) {
      constexpr int width = is_complex<T> ? 2 : 1;
      krylov_host::finish_best<RealOf<T>, width>(
          sums, std::min<std::int64_t>(sums.slots, sums.fixed + state->columns), room.sums);
      krylov::step(problem, *state, room, reduction, krylov_host::stop_asked(sums), room.sums);
    }
  });
}

template <Scalar T>
void HostKrylovKernels<T>::do_divide_rows(Queue& queue, const WorkInfo& info,
                                          MatrixView<const T> diagonal, MatrixView<const T> source,
                                          MatrixView<T> target, const std::int32_t* skip) const {
  launch(queue, info, {diagonal, source, Operand(skip, 1)}, {target}, [=] {
    if (*skip != 0) {
      return;
    }
    for (std::int64_t i = 0; i < target.rows(); ++i) {
      if (diagonal.empty()) {
        target(i, 0) = source(i, 0);
      } else if constexpr (is_complex<T>) {
        const krylov::Number quotient =
            krylov::divided({source(i, 0).real(), source(i, 0).imag()},
                            {diagonal(i, 0).real(), diagonal(i, 0).imag()});
        target(i, 0) = {static_cast<RealOf<T>>(quotient.re), static_cast<RealOf<T>>(quotient.im)};
      } else {
        target(i, 0) = source(i, 0) / diagonal(i, 0);
      }
    }
  });
}

template <Scalar T>
void HostKrylovKernels<T>::do_combine(Queue& queue, const WorkInfo& info, RealOf<T> a,
                                      MatrixView<const T> x, RealOf<T> b, MatrixView<T> y,
                                      const std::int32_t* skip) const {
  launch(queue, info, {x, Operand(skip, 1)}, {y}, [=] {
    if (*skip == 0) {
      constexpr std::int64_t width = is_complex<T> ? 2 : 1;
      krylov_host::combine_best(a, reinterpret_cast<const RealOf<T>*>(x.data()), b,
                                reinterpret_cast<RealOf<T>*>(y.data()), width * x.rows());
    }
  });
}

template <Scalar T>
void HostKrylovKernels<T>::do_solve_blocks(Queue& queue, const WorkInfo& info,
                                           const krylov::BlockFactors<T>& factors,
                                           MatrixView<const T> source, MatrixView<T> work,
                                           std::int64_t first, MatrixView<T> target,
                                           const std::int32_t* skip) const {
  launch(queue, info, {source, Operand(skip, 1)}, {work, target}, [=] {
    if (*skip != 0) {
      return;
    }
    for (std::int64_t b = 0; b < factors.count; ++b) {
      const krylov::FactoredBlock& block = factors.blocks[b];
      T* const rows = work.data() + block.begin;
      std::copy_n(source.data() + block.begin, block.size, rows);
      solve_block(factors, block, rows);
    }
    std::copy_n(work.data() + first, target.rows(), target.data());
  });
}

template class HostKrylovKernels<float>;
template class HostKrylovKernels<double>;
template class HostKrylovKernels<std::complex<float>>;
template class HostKrylovKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::host
