#include "jax/factor_files.hpp"

#include "core/each_dtype.hpp"
#include "jax/calls.hpp"
#include "jax/records.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/factor_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace shardsolve::jax {
namespace {

template <Scalar T>
void save_typed(const WholeFactor& whole, const std::string& path, bool overwrite) {
  const auto record = read<FactorRecord>(whole.record);
  const auto* diagonal = static_cast<const RealOf<T>*>(whole.diagonal);
  Outcome outcome;
  outcome.status = static_cast<Status>(record.verdict.status);
  const CholeskyFactor<T> factor{
      {rows_layout(whole.n, record.ranks, record.tile),
       MatrixView<T>(static_cast<T*>(whole.slab), whole.n, whole.n)},
      std::make_shared<std::vector<RealOf<T>>>(diagonal, diagonal + whole.n),
      record.norm(),
      outcome};
  save_factor(factor, path, overwrite);
}

template <Scalar T>
void load_typed(const std::string& path, const WholeFactor& whole) {
  const CholeskyFactor<T> factor = load_factor<T>(path);
  const SlabLayout& layout = factor.layout();
  auto* slab = static_cast<T*>(whole.slab);
  for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
    const MatrixView<T> from = factor.slabs.slab(rank);
    for (std::int64_t j = 0; j < from.columns(); ++j) {
      slab = std::copy_n(from.data() + j * from.stride(), from.rows(), slab);
    }
  }
  std::copy(factor.diagonal->begin(), factor.diagonal->end(),
            static_cast<RealOf<T>*>(whole.diagonal));
  *static_cast<RealOf<T>*>(whole.log_determinant) = static_cast<RealOf<T>>(log_determinant(factor));
  FactorRecord record;
  record.n = static_cast<std::int32_t>(layout.size());
  record.devices = static_cast<std::int32_t>(layout.ranks());
  record.ranks = record.devices;
  record.tile = static_cast<std::int32_t>(layout.tile());
  record.set_norm(factor.norm);
  write(record, whole.record);
}

}  // namespace

void save(const WholeFactor& factor, const std::string& path, bool overwrite) {
  with_dtype(factor.dtype, [&]<class T>() { save_typed<T>(factor, path, overwrite); });
}

FactorShape shape_in(const std::string& path) {
  const FactorFileInfo info = read_factor_info(path);
  const SlabLayout& layout = info.layout;
  if (rows_layout(layout.size(), layout.ranks(), layout.tile()) != layout) {
    throw Error(ErrorKind::unsupported,
                fmt::format("the factor in {} is cut into {} parts of {} rows in another way than "
                            "JAX cuts arrays, equal parts but for the last: factor again",
                            path, layout.ranks(), layout.size()));
  }
  return {static_cast<std::int32_t>(info.dtype), static_cast<std::int32_t>(layout.ranks()),
          layout.size()};
}

void load(const std::string& path, const WholeFactor& factor) {
  with_dtype(factor.dtype, [&]<class T>() { load_typed<T>(path, factor); });
}

}  // namespace shardsolve::jax
