#include "jax/factor_files.hpp"

#include "core/each_dtype.hpp"
#include "jax/calls.hpp"
#include "jax/records.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/factor_file.hpp>
#include <shardsolve/lu.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace shardsolve::jax {
namespace {

template <class V>
V* part(const WholeFactor& whole, std::size_t place) {
  return static_cast<V*>(whole.parts.at(place));
}

/// What all records say of the factor that was made.
Outcome outcome_of(const FactorRecord& record) {
  Outcome outcome;
  outcome.status = static_cast<Status>(record.verdict.status);
  return outcome;
}

FactorRecord record_of(const SlabLayout& layout, Scaled norm) {
  FactorRecord record;
  record.n = static_cast<std::int32_t>(layout.size());
  record.devices = static_cast<std::int32_t>(layout.ranks());
  record.ranks = record.devices;
  record.tile = static_cast<std::int32_t>(layout.tile());
  record.set_norm(norm);
  return record;
}

/// Slabs of rows of an array that is in one piece.
template <Scalar T>
ShardedMatrix<T> slabs_of(const SlabLayout& layout, T* whole) {
  return {layout, MatrixView<T>(whole, layout.size(), layout.size())};
}

template <Scalar T>
void copy_slabs(const ShardedMatrix<T>& from, T* to) {
  for (std::int64_t rank = 0; rank < from.layout().ranks(); ++rank) {
    const MatrixView<T> slab = from.slab(rank);
    for (std::int64_t j = 0; j < slab.columns(); ++j) {
      to = std::copy_n(slab.data() + j * slab.stride(), slab.rows(), to);
    }
  }
}

template <Scalar T>
void save_cholesky(const WholeFactor& whole, const std::string& path, bool overwrite) {
  const auto record = read<FactorRecord>(whole.parts[3]);
  const auto* diagonal = part<const RealOf<T>>(whole, 1);
  const CholeskyFactor<T> factor{
      slabs_of(rows_layout(whole.n, record.ranks, record.tile), part<T>(whole, 0)),
      std::make_shared<std::vector<RealOf<T>>>(diagonal, diagonal + whole.n), record.norm(),
      outcome_of(record)};
  save_factor(factor, path, overwrite);
}

/// Rows of A are columns of A^T, which is what was factored.
template <Scalar T>
void save_lu(const WholeFactor& whole, const std::string& path, bool overwrite) {
  const auto record = read<LuRecord>(whole.parts[5]);
  const SlabLayout layout = rows_layout(whole.n, record.factor.ranks, record.factor.tile);
  const auto* rows = part<const std::int32_t>(whole, 2);
  LuFactor<T> factor{slabs_of(layout, part<T>(whole, 0)),
                     slabs_of(layout, part<T>(whole, 1)),
                     std::make_shared<std::vector<std::int64_t>>(rows, rows + whole.n),
                     record.factor.norm(),
                     record.inf_norm.value(),
                     outcome_of(record.factor),
                     *part<const T>(whole, 3),
                     double{*part<const RealOf<T>>(whole, 4)}};
  factor.outcome.growth = record.growth.value().value();
  save_factor(factor, path, overwrite, Transpose::transpose);
}

template <Scalar T>
void load_cholesky(const std::string& path, const WholeFactor& whole) {
  const CholeskyFactor<T> factor = load_factor<T>(path);
  copy_slabs(factor.slabs, part<T>(whole, 0));
  std::copy(factor.diagonal->begin(), factor.diagonal->end(), part<RealOf<T>>(whole, 1));
  *part<RealOf<T>>(whole, 2) = static_cast<RealOf<T>>(log_determinant(factor));
  write(record_of(factor.layout(), factor.norm), whole.parts[3]);
}

template <Scalar T>
void load_lu(const std::string& path, const WholeFactor& whole) {
  const LuFactor<T> factor = load_lu_factor<T>(path);
  copy_slabs(factor.slabs, part<T>(whole, 0));
  copy_slabs(factor.matrix, part<T>(whole, 1));
  std::copy(factor.rows->begin(), factor.rows->end(), part<std::int32_t>(whole, 2));
  *part<T>(whole, 3) = factor.sign;
  *part<RealOf<T>>(whole, 4) = static_cast<RealOf<T>>(factor.log_modulus);
  write(LuRecord{.factor = record_of(factor.layout(), factor.one_norm),
                 .inf_norm = ScaledWords::of(factor.inf_norm),
                 .growth = ScaledWords::of({factor.outcome.growth.value_or(1.0), 0})},
        whole.parts[5]);
}

}  // namespace

void save(const WholeFactor& factor, const std::string& path, bool overwrite) {
  with_dtype(factor.dtype, [&]<class T>() {
    factor.kind == FactorKind::lu ? save_lu<T>(factor, path, overwrite)
                                  : save_cholesky<T>(factor, path, overwrite);
  });
}

FactorShape shape_in(const std::string& path) {
  const FactorFileInfo info = read_factor_info(path);
  const SlabLayout& layout = info.layout;
  const bool is_lu = info.kind == "lu";
  if (is_lu && info.of != Transpose::transpose) {
    throw Error(ErrorKind::unsupported,
                fmt::format("the factor in {} is that of a matrix cut by columns, and JAX's are of "
                            "matrices cut by rows: factor again from JAX",
                            path));
  }
  if (rows_layout(layout.size(), layout.ranks(), layout.tile()) != layout) {
    throw Error(ErrorKind::unsupported,
                fmt::format("the factor in {} is cut into {} parts of {} rows in another way than "
                            "JAX cuts arrays, equal parts but for the last: factor again",
                            path, layout.ranks(), layout.size()));
  }
  return {static_cast<std::int32_t>(is_lu ? FactorKind::lu : FactorKind::cholesky),
          static_cast<std::int32_t>(info.dtype), layout.ranks(), layout.size()};
}

void load(const std::string& path, const WholeFactor& factor) {
  with_dtype(factor.dtype, [&]<class T>() {
    factor.kind == FactorKind::lu ? load_lu<T>(path, factor) : load_cholesky<T>(path, factor);
  });
}

}  // namespace shardsolve::jax
