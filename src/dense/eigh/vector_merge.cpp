#include "dense/eigh/vector_merge.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace shardsolve::dense::eigh {

using runtime::Op;

namespace {

std::int64_t chunk_of(std::int64_t rows, const runtime::TridiagonalTuning& tuning) {
  return std::min(rows, tuning.rows);
}
std::int64_t panel_of(std::int64_t n, const runtime::TridiagonalTuning& tuning) {
  return std::min(n, tuning.columns);
}

/// Of ascending places, those in a range: which ones they are.
IndexRange places_in(const IndexRange& range, const std::vector<std::int64_t>& places) {
  const auto index = [&](std::int64_t place) {
    return std::lower_bound(places.begin(), places.end(), place) - places.begin();
  };
  return {index(range.first), index(range.last)};
}

}  // namespace

template <class Real>
struct VectorMerge<Real>::Merge {
  /// Rows, and which of the columns kept are not zero in them.
  struct Half {
    RowRange rows;
    IndexRange kept;
  };

  RowRange part;
  std::array<Half, 2> halves;
  std::int64_t kept = 0;  // columns that belong to poles
  Equation equation;      // with the weights for which the roots are exact
  const Root* roots = nullptr;
  const std::int64_t* poles_of_rows = nullptr;  // of U
  const std::int64_t* columns = nullptr;        // of Z: kept ones, then those set aside
  const std::int64_t* places = nullptr;         // of the roots wanted, then of what else is
  IndexRange wanted_roots;
  IndexRange wanted_aside;
};

template <class Real>
VectorMerge<Real>::VectorMerge(mesh::Rank& rank, const RowRange& rows, MatrixView<Real> z)
    : rank_(rank),
      rows_(rows),
      z_(z),
      kernels_(rank.kernels<runtime::Kernels<Real>>()),
      tridiagonal_(rank.kernels<runtime::TridiagonalKernels<Real>>()),
      chunk_(chunk_of(z.rows(), tridiagonal_.tuning())),
      panel_(panel_of(z.columns(), tridiagonal_.tuning())),
      weights_(rank.workspace<Real>(z.columns(), 1)),
      poles_of_rows_(rank, z.columns()),
      columns_(rank, z.columns()),
      places_(rank, z.columns()),
      rotations_(rank, z.columns()),
      gathered_(rank.workspace<Real>(chunk_, z.columns())),
      product_(rank.workspace<Real>(chunk_, panel_)),
      u_(rank.workspace<Real>(z.columns() * panel_, 1)) {}

// As the constructor takes it.
template <class Real>
std::int64_t VectorMerge<Real>::bytes(std::int64_t n, std::int64_t rows,
                                      const runtime::TridiagonalTuning& tuning) {
  const std::int64_t chunk = chunk_of(rows, tuning);
  const std::int64_t panel = panel_of(n, tuning);
  return static_cast<std::int64_t>(sizeof(Real)) * (n + chunk * (n + panel) + n * panel) +
         n * static_cast<std::int64_t>(3 * sizeof(std::int64_t) +
                                       sizeof(runtime::ColumnRotation<Real>));
}

template <class Real>
void VectorMerge<Real>::run(const Part& part, const Deflation<Real>& found,
                            const Equation& equation, const Root* roots, const MergedPlaces& places,
                            const IndexRange& wanted) {
  const RowRange mine = common_rows(part.rows, rows_);
  if (mine.empty()) {
    return;
  }
  runtime::Queue& queue = rank_.update();
  Merge merge{.part = part.rows, .kept = found.kept(), .equation = equation, .roots = roots};
  merge.wanted_roots = places_in(wanted, places.of_roots);
  merge.wanted_aside = places_in(wanted, places.of_aside);
  std::vector<std::int64_t> targets;
  const auto append = [&](const std::vector<std::int64_t>& list, const IndexRange& some) {
    for (std::int64_t i = some.first; i < some.last; ++i) {
      targets.push_back(list[static_cast<std::size_t>(i)] - wanted.first);
    }
  };
  append(places.of_roots, merge.wanted_roots);
  append(places.of_aside, merge.wanted_aside);
  merge.poles_of_rows = poles_of_rows_.put(queue, found.rows, part.rows.begin);
  merge.columns = columns_.put(queue, found.columns, part.rows.begin);
  merge.places = places_.put(queue, targets, part.rows.begin);

  tridiagonal_.secular_weights(queue, equation, roots, weights_.data());
  merge.equation.weights = weights_.data();
  tridiagonal_.rotate_columns(queue, rotations_.put(queue, found.rotations, part.rows.begin),
                              static_cast<std::int64_t>(found.rotations.size()),
                              z_rows(mine, part.rows));
  merge.halves = {{{part.first_half(), {0, found.kept() - found.below}},
                   {part.second_half(), {found.above, found.kept()}}}};
  for (std::int64_t begin = mine.begin; begin < mine.end; begin += chunk_) {
    update(merge, {begin, std::min(begin + chunk_, mine.end)});
  }
}

template <class Real>
void VectorMerge<Real>::update(const Merge& merge, const RowRange& chunk) {
  runtime::Queue& queue = rank_.update();
  const IndexRange& roots = merge.wanted_roots;
  const IndexRange& aside = merge.wanted_aside;
  const MatrixView<Real> z = z_rows(chunk, merge.part);
  // The columns of Z as deflation has grouped them
  const MatrixView<Real> gathered(gathered_.data(), chunk.size(), merge.part.size());
  tridiagonal_.copy_columns(queue, merge.part.size(), z, merge.columns, gathered, nullptr);
  for (std::int64_t first = roots.first; first < roots.last; first += panel_) {
    const std::int64_t count = std::min(panel_, roots.last - first);
    const MatrixView<Real> u(u_.data(), merge.kept, count);
    const MatrixView<Real> product(product_.data(), chunk.size(), count);
    tridiagonal_.secular_vectors(queue, merge.equation, merge.roots, merge.poles_of_rows, first, u);
    for (const auto& [half, kept] : merge.halves) {
      const RowRange rows = common_rows(half, chunk);
      if (rows.empty()) {
        continue;
      }
      kernels_.gemm(queue, Op::none, Op::none, Real{1},
                    gathered.block(rows.begin - chunk.begin, kept.first, rows.size(), kept.size()),
                    u.block(kept.first, 0, kept.size(), count), Real{0},
                    product.block(rows.begin - chunk.begin, 0, rows.size(), count));
    }
    tridiagonal_.copy_columns(queue, count, product, nullptr, z,
                              merge.places + (first - roots.first));
  }
  tridiagonal_.copy_columns(queue, aside.size(),
                            gathered.columns_from(merge.kept + aside.first, aside.size()), nullptr,
                            z, merge.places + roots.size());
}

template <class Real>
void VectorMerge<Real>::keep(const IndexRange& wanted) {
  if (wanted.first == 0 || z_.rows() == 0) {
    return;
  }
  for (std::int64_t begin = 0; begin < z_.rows(); begin += chunk_) {
    const std::int64_t count = std::min(chunk_, z_.rows() - begin);
    const MatrixView<Real> kept(gathered_.data(), count, wanted.size());
    kernels_.copy(rank_.update(), z_.block(begin, wanted.first, count, wanted.size()), kept);
    kernels_.copy(rank_.update(), kept, z_.block(begin, 0, count, wanted.size()));
  }
}

template class VectorMerge<float>;
template class VectorMerge<double>;

}  // namespace shardsolve::dense::eigh
