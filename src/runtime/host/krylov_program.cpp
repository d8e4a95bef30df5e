#include "runtime/host/krylov_program.hpp"

#include "runtime/host/krylov_sums.hpp"
#include "runtime/krylov/step.hpp"

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <type_traits>
#include <vector>

namespace shardsolve::runtime::host {
namespace krylov_program {
namespace {

using krylov::Dot;
using krylov::Number;
using krylov::Program;
using krylov::State;
using krylov::StateRoom;
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
    case UpdateKind::ones:
      for (std::int64_t i = 0; i < width * count; ++i) {
        y[i] = i % width == 0 ? Real{1} : Real{0};
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
    case UpdateKind::add_weak_columns:
      for (std::int64_t k = 0; k < work.state.columns; ++k) {
        const Number h = factor_of(update.kind, work.room, k);
        combine<Real, width>(
            Coefficient<Real>(update.kind == UpdateKind::subtract_columns ? krylov::negated(h) : h),
            work.column(update.a, k, row), y, y, count);
      }
      break;
  }
}

template <class Real, int width>
struct Sum {
  const Real* x;
  const Real* y;
  krylov_sums::SlotWriter<Real, width> writer;
};

/// Those that a program makes now, the columns of a basis one by one, the same one once.
template <class Real, int width>
SHARDSOLVE_INLINE std::vector<Sum<Real, width>> asked_sums(
    const Work<Real, width>& work, const SumTable<typename Work<Real, width>::T>& sums) {
  const SumPart shape = sums.layout.part(sums.rank);
  Real* const mine = reinterpret_cast<Real*>(sums.parts + sums.offsets[sums.rank]);
  std::vector<Sum<Real, width>> all;
  const auto add = [&](const Real* x, const Real* y, std::int64_t slot) {
    Real* const part = mine + width * shape.length() * slot;
    for (Sum<Real, width>& known : all) {
      if (known.x == x && known.y == y && known.writer.add_slot(part)) {
        return;
      }
    }
    all.push_back({x, y, {sums.layout, shape, part}});
  };
  for (int d = 0; d < work.program.dots; ++d) {
    const Dot& dot = work.program.dot[d];
    if (!work.heeds(dot.actions)) {
      continue;
    }
    if (dot.is_columns == 0) {
      add(work.at(dot.x, 0), work.at(dot.y, 0), dot.slot);
      continue;
    }
    for (std::int64_t k = 0; k < work.state.columns; ++k) {
      add(work.column(dot.x, k, 0), work.at(dot.y, 0), dot.slot + k);
    }
  }
  return all;
}

template <class Real, int width>
SHARDSOLVE_INLINE void run_rows(const Work<Real, width>& work,
                                const SumTable<typename Work<Real, width>::T>& sums,
                                std::int64_t first_of_piece, std::int64_t end_of_piece) {
  std::array<const Update*, Program::most> updates{};
  int count_of_updates = 0;
  for (int u = 0; u < work.program.updates; ++u) {
    const Update& update = work.program.update[u];
    if (krylov::is_asked_for(update, work.state)) {
      updates[count_of_updates++] = &update;
    }
  }
  auto all = asked_sums(work, sums);
  const std::int64_t first = work.vectors.first_row;
  // Updates of a few rows, which stay in the cache, come before their sums.
  for (std::int64_t begin = first_of_piece; begin < end_of_piece;) {
    const std::int64_t end =
        std::min(begin + krylov_sums::stretch_rows - (first + begin) % krylov_sums::stretch_rows,
                 end_of_piece);
    for (int u = 0; u < count_of_updates; ++u) {
      update_rows(work, *updates[u], begin, end - begin);
    }
    for (Sum<Real, width>& sum : all) {
      sum.writer.take(sum.x + width * begin, sum.y + width * begin, first + begin, first + end);
    }
    begin = end;
  }
}

/// A function for each set of instructions, into which everything above is inlined.
template <class Real, int width>
struct Plain {
  using T = typename Work<Real, width>::T;
  static void run(const Work<Real, width>& work, const SumTable<T>& sums, std::int64_t begin,
                  std::int64_t end) {
    run_rows(work, sums, begin, end);
  }
  static void finish(const SumTable<T>& table, std::int64_t used, Number* sums) {
    krylov_sums::finish_sums<Real, width>(table, used, sums);
  }
};
#if defined(__x86_64__)
template <class Real, int width>
struct WithFma {
  using T = typename Work<Real, width>::T;
  __attribute__((target("avx2,fma"))) static void run(const Work<Real, width>& work,
                                                      const SumTable<T>& sums, std::int64_t begin,
                                                      std::int64_t end) {
    run_rows(work, sums, begin, end);
  }
  __attribute__((target("avx2,fma"))) static void finish(const SumTable<T>& table,
                                                         std::int64_t used, Number* sums) {
    krylov_sums::finish_sums<Real, width>(table, used, sums);
  }
};
#else
template <class Real, int width>
using WithFma = Plain<Real, width>;
#endif

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
}  // namespace krylov_program

RowPieces::RowPieces(const krylov::SumLayout& layout, std::int64_t first_row, std::int64_t rows)
    : first_row_(first_row),
      rows_(rows),
      size_(std::max(layout.block_rows(), least_rows)),
      count_(rows == 0 ? 0 : (first_row + rows - 1) / size_ - first_row / size_ + 1) {}

std::int64_t RowPieces::begin(std::int64_t piece) const {
  return std::clamp((first_row_ / size_ + piece) * size_ - first_row_, std::int64_t{0}, rows_);
}

template <Scalar T>
void run_program(const krylov::Program& program, const krylov::Vectors<T>& vectors,
                 const krylov::State& state, const krylov::StateRoom& room,
                 const krylov::SumTable<T>& sums, std::int64_t begin, std::int64_t end) {
  if (state.done != 0) {
    return;
  }
  using Real = RealOf<T>;
  constexpr int width = is_complex<T> ? 2 : 1;
  const krylov_program::Work<Real, width> work{program, vectors, state, room};
  has_fma() ? krylov_program::WithFma<Real, width>::run(work, sums, begin, end)
            : krylov_program::Plain<Real, width>::run(work, sums, begin, end);
}

template <Scalar T>
void finish_reduction(const krylov::Problem& problem, int reduction,
                      const krylov::SumTable<T>& sums, krylov::State& state,
                      const krylov::StateRoom& room) {
  if (state.done != 0) {
    return;
  }
  using Real = RealOf<T>;
  constexpr int width = is_complex<T> ? 2 : 1;
  const std::int64_t used = std::min<std::int64_t>(sums.slots, sums.fixed + state.columns);
  has_fma() ? krylov_program::WithFma<Real, width>::finish(sums, used, room.sums)
            : krylov_program::Plain<Real, width>::finish(sums, used, room.sums);
  krylov::step(problem, state, room, reduction, krylov_program::stop_asked(sums), room.sums);
}

template void run_program(const krylov::Program&, const krylov::Vectors<float>&,
                          const krylov::State&, const krylov::StateRoom&,
                          const krylov::SumTable<float>&, std::int64_t, std::int64_t);
template void finish_reduction(const krylov::Problem&, int, const krylov::SumTable<float>&,
                               krylov::State&, const krylov::StateRoom&);
template void run_program(const krylov::Program&, const krylov::Vectors<double>&,
                          const krylov::State&, const krylov::StateRoom&,
                          const krylov::SumTable<double>&, std::int64_t, std::int64_t);
template void finish_reduction(const krylov::Problem&, int, const krylov::SumTable<double>&,
                               krylov::State&, const krylov::StateRoom&);
template void run_program(const krylov::Program&, const krylov::Vectors<std::complex<float>>&,
                          const krylov::State&, const krylov::StateRoom&,
                          const krylov::SumTable<std::complex<float>>&, std::int64_t, std::int64_t);
template void finish_reduction(const krylov::Problem&, int,
                               const krylov::SumTable<std::complex<float>>&, krylov::State&,
                               const krylov::StateRoom&);
template void run_program(const krylov::Program&, const krylov::Vectors<std::complex<double>>&,
                          const krylov::State&, const krylov::StateRoom&,
                          const krylov::SumTable<std::complex<double>>&, std::int64_t,
                          std::int64_t);
template void finish_reduction(const krylov::Problem&, int,
                               const krylov::SumTable<std::complex<double>>&, krylov::State&,
                               const krylov::StateRoom&);

}  // namespace shardsolve::runtime::host
