#include "jax/factor_files.hpp"

#include "core/each_dtype.hpp"
#include "jax/by_name.hpp"
#include "jax/calls.hpp"
#include "jax/records.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/factor_file.hpp>
#include <shardsolve/lu.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <vector>

namespace shardsolve::jax {
namespace {

using nlohmann::json;

/// The array of that name, which holds so many numbers.
template <class V>
V* part(const json& whole, const char* name, std::int64_t numbers) {
  const auto array = array_in<V>(whole, name);
  if (static_cast<std::int64_t>(array.size()) != numbers) {
    throw Error(ErrorKind::internal,
                fmt::format("{} has {} numbers, {} are wanted", name, array.size(), numbers));
  }
  return array.data();
}

template <class Record>
std::int32_t* record_in(const json& whole) {
  return part<std::int32_t>(whole, "record", words<Record>);
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
void save_cholesky(const json& whole, std::int64_t n, const std::string& path, bool overwrite) {
  const auto record = read<FactorRecord>(record_in<FactorRecord>(whole));
  const auto* diagonal = part<const RealOf<T>>(whole, "diagonal", n);
  const CholeskyFactor<T> factor{
      slabs_of(rows_layout(n, record.ranks, record.tile), part<T>(whole, "slab", n * n)),
      std::make_shared<std::vector<RealOf<T>>>(diagonal, diagonal + n), record.norm(),
      outcome_of(record)};
  save_factor(factor, path, overwrite);
}

/// Rows of A are columns of A^T, which is what was factored.
template <Scalar T>
void save_lu(const json& whole, std::int64_t n, const std::string& path, bool overwrite) {
  const auto record = read<LuRecord>(record_in<LuRecord>(whole));
  const SlabLayout layout = rows_layout(n, record.factor.ranks, record.factor.tile);
  const auto* rows = part<const std::int32_t>(whole, "rows", n);
  LuFactor<T> factor{slabs_of(layout, part<T>(whole, "slab", n * n)),
                     slabs_of(layout, part<T>(whole, "matrix", n * n)),
                     std::make_shared<std::vector<std::int64_t>>(rows, rows + n),
                     record.factor.norm(),
                     record.inf_norm.value(),
                     outcome_of(record.factor),
                     *part<const T>(whole, "sign", 1),
                     double{*part<const RealOf<T>>(whole, "log_modulus", 1)}};
  factor.outcome.growth = record.growth.value().value();
  save_factor(factor, path, overwrite, Transpose::transpose);
}

template <Scalar T>
void load_cholesky(const std::string& path, std::int64_t n, const json& whole) {
  auto* const slab = part<T>(whole, "slab", n * n);
  auto* const diagonal = part<RealOf<T>>(whole, "diagonal", n);
  const CholeskyFactor<T> factor = load_factor<T>(path);
  copy_slabs(factor.slabs, slab);
  std::copy(factor.diagonal->begin(), factor.diagonal->end(), diagonal);
  *part<RealOf<T>>(whole, "log_determinant", 1) = static_cast<RealOf<T>>(log_determinant(factor));
  write(record_of(factor.layout(), factor.norm), record_in<FactorRecord>(whole));
}

template <Scalar T>
void load_lu(const std::string& path, std::int64_t n, const json& whole) {
  auto* const slab = part<T>(whole, "slab", n * n);
  auto* const matrix = part<T>(whole, "matrix", n * n);
  auto* const rows = part<std::int32_t>(whole, "rows", n);
  const LuFactor<T> factor = load_lu_factor<T>(path);
  copy_slabs(factor.slabs, slab);
  copy_slabs(factor.matrix, matrix);
  std::copy(factor.rows->begin(), factor.rows->end(), rows);
  *part<T>(whole, "sign", 1) = factor.sign;
  *part<RealOf<T>>(whole, "log_modulus", 1) = static_cast<RealOf<T>>(factor.log_modulus);
  write(LuRecord{.factor = record_of(factor.layout(), factor.one_norm),
                 .inf_norm = ScaledWords::of(factor.inf_norm),
                 .growth = ScaledWords::of({factor.outcome.growth.value_or(1.0), 0})},
        record_in<LuRecord>(whole));
}

bool is_lu(const json& whole) { return whole.at("kind") == "lu"; }

}  // namespace

void save(const json& factor, const std::string& path, bool overwrite) {
  with_dtype(static_cast<Dtype>(factor.at("dtype").get<int>()), [&]<class T>() {
    const std::int64_t n = factor.at("n");
    is_lu(factor) ? save_lu<T>(factor, n, path, overwrite)
                  : save_cholesky<T>(factor, n, path, overwrite);
  });
}

std::string shape_in(const std::string& path) {
  const FactorFileInfo info = read_factor_info(path);
  const SlabLayout& layout = info.layout;
  if (info.kind == "lu" && info.of != Transpose::transpose) {
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
  return json{{"kind", info.kind},
              {"dtype", name(info.dtype)},
              {"ranks", layout.ranks()},
              {"n", layout.size()}}
      .dump();
}

void load(const std::string& path, const json& factor) {
  with_dtype(static_cast<Dtype>(factor.at("dtype").get<int>()), [&]<class T>() {
    const std::int64_t n = factor.at("n");
    is_lu(factor) ? load_lu<T>(path, n, factor) : load_cholesky<T>(path, n, factor);
  });
}

}  // namespace shardsolve::jax
