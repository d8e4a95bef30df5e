#include "krylov/probe_products.hpp"

#include "core/each_dtype.hpp"
#include "krylov/linear_operator.hpp"
#include "krylov/operators.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/rank.hpp"
#include "mesh/require_ranks.hpp"
#include "programs/gather.hpp"
#include "runtime/krylov/program.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

namespace shardsolve::krylov {
namespace probing {
namespace {

template <Scalar T>
std::vector<T> random_rows(GlobalRange rows, std::int64_t stream) {
  std::vector<T> x;
  for (std::int64_t row = rows.begin.value(); row < rows.end.value(); ++row) {
    const auto real = static_cast<RealOf<T>>(random_number(stream, row));
    if constexpr (is_complex<T>) {
      x.emplace_back(real, static_cast<RealOf<T>>(random_number(stream + 1, row)));
    } else {
      x.push_back(real);
    }
  }
  return x;
}

/// What a rank knows of its rows.
struct Part {
  double most = 0.0;        ///< of |A u| + |A v|, the largest row
  double difference = 0.0;  ///< of A (u + v) - A u - A v
  double constants = 0.0;   ///< of A 1
  std::int32_t is_repeatable = 1;
  std::int32_t is_finite = 1;
};

/// One rank's rows of products.
template <Scalar T>
class Products {
 public:
  Products(mesh::Rank& rank, const SlabLayout& layout, const Operator<T>& a)
      : rank_(rank), rows_(layout.width(rank.index())), operator_(a.make()(rank, layout)) {
    const std::int32_t go_on = 0;
    skip_ = rank.upload(rank.update(), &go_on, 1);
    output_ = rank.workspace<T>(rows_, 1);
  }

  std::vector<T> of(const std::vector<T>& x) {
    const T* const input = rank_.upload(rank_.update(), x.data(), rows_);
    operator_->apply(rank_, rank_.update(), input, output_.data(), skip_);
    return rank_.fetch(rank_.update(), output_.data(), rows_);
  }

 private:
  mesh::Rank& rank_;
  std::int64_t rows_;
  std::unique_ptr<LinearOperator<T>> operator_;
  const std::int32_t* skip_;
  MatrixView<T> output_;
};

template <Scalar T>
Part look_at(Products<T>& products, GlobalRange rows) {
  const std::vector<T> u = random_rows<T>(rows, 10);
  const std::vector<T> v = random_rows<T>(rows, 12);
  std::vector<T> both;
  for (std::size_t i = 0; i < u.size(); ++i) {
    both.push_back(u[i] + v[i]);
  }
  const std::vector<T> a_u = products.of(u);
  const std::vector<T> again = products.of(u);
  const std::vector<T> a_v = products.of(v);
  const std::vector<T> a_both = products.of(both);
  const std::vector<T> a_ones = products.of(std::vector<T>(u.size(), T{1}));
  Part part;
  part.is_repeatable =
      a_u.empty() || std::memcmp(a_u.data(), again.data(), a_u.size() * sizeof(T)) == 0 ? 1 : 0;
  for (std::size_t i = 0; i < a_u.size(); ++i) {
    const double size = static_cast<double>(std::abs(a_u[i]) + std::abs(a_v[i]));
    const double difference = static_cast<double>(std::abs(a_both[i] - a_u[i] - a_v[i]));
    part.is_finite =
        part.is_finite != 0 && std::isfinite(size) && std::isfinite(difference) ? 1 : 0;
    part.most = std::max(part.most, size);
    part.difference = std::max(part.difference, difference);
    part.constants = std::max(part.constants, static_cast<double>(std::abs(a_ones[i])));
  }
  return part;
}

}  // namespace
}  // namespace probing

template <Scalar T>
ProductFigures probe_products(Mesh& mesh, const Operator<T>& a, const SlabLayout& layout,
                              const RunOptions& run) {
  mesh::require_ranks(mesh, layout);
  // Shared with the ranks: one that never comes back may still write to it.
  const auto figures = std::make_shared<ProductFigures>();
  mesh.state().run(run, [a, layout, figures](mesh::Rank& rank) {
    probing::Products<T> products(rank, layout, a);
    const probing::Part mine = probing::look_at(products, layout.segment(rank.index()));
    probing::Part all;
    for (const auto& one : programs::gather_from_all(rank, std::vector<probing::Part>{mine})) {
      all.most = std::max(all.most, one[0].most);
      all.difference = std::max(all.difference, one[0].difference);
      all.constants = std::max(all.constants, one[0].constants);
      all.is_repeatable = std::min(all.is_repeatable, one[0].is_repeatable);
      all.is_finite = std::min(all.is_finite, one[0].is_finite);
    }
    if (rank.leads()) {
      figures->is_finite = all.is_finite != 0;
      figures->is_repeatable = all.is_repeatable != 0;
      figures->nonlinearity =
          all.most > 0.0 && figures->is_finite ? all.difference / all.most : 0.0;
      if (figures->is_finite && std::isfinite(all.constants)) {
        figures->constants = all.most > 0.0 ? all.constants / all.most : 0.0;
      }
    }
  });
  return *figures;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                      \
  template ProductFigures probe_products(Mesh&, const Operator<T>&, const SlabLayout&, \
                                         const RunOptions&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
