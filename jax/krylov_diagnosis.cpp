#include "jax/krylov_diagnosis.hpp"

#include "core/each_dtype.hpp"

#include <shardsolve/diagnose.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/sparse.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <vector>

namespace shardsolve::jax {
namespace {

std::string to_json(const krylov::Diagnosis& found) {
  nlohmann::json trials = nlohmann::json::array();
  for (const krylov::Trial& one : found.trials) {
    trials.push_back({{"name", one.name},
                      {"method", krylov::name(one.method)},
                      {"status", static_cast<int>(one.status)},
                      {"iterations", one.iterations},
                      {"residual", one.residual},
                      {"condition", one.condition},
                      {"predicted_iterations", one.predicted_iterations},
                      {"work", one.work},
                      {"blocks", one.blocks},
                      {"message", one.message}});
  }
  const nlohmann::json all = {{"is_hermitian", found.is_hermitian},
                              {"is_singular", found.is_singular},
                              {"definiteness", krylov::name(found.definiteness)},
                              {"least_eigenvalue", found.least_eigenvalue},
                              {"largest_eigenvalue", found.largest_eigenvalue},
                              {"condition", found.condition},
                              {"attainable", found.attainable},
                              {"method", krylov::name(found.method)},
                              {"trials", trials},
                              {"best", found.best},
                              {"gain", found.gain},
                              {"findings", found.findings},
                              {"answer", found.answer},
                              {"is_about_another", found.is_about_another()},
                              {"text", krylov::to_text(found)}};
  return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string diagnose(const GivenMatrix& matrix, double rtol) {
  return with_dtype(matrix.dtype, [&]<Scalar T>() {
    const std::int64_t entries = matrix.pointers[matrix.n];
    const auto* const values = static_cast<const T*>(matrix.values);
    const CsrMatrix<T> a{matrix.n,
                         matrix.n,
                         {matrix.pointers, matrix.pointers + matrix.n + 1},
                         {matrix.columns, matrix.columns + entries},
                         {values, values + entries}};
    Mesh mesh = Mesh::host(1);
    return to_json(krylov::diagnose<T>(mesh, a, {.rtol = rtol}));
  });
}

std::string diagnose(Dtype dtype, std::int64_t n, GivenProduct product, double rtol) {
  return with_dtype(dtype, [&]<Scalar T>() {
    const auto rows = [product, n](const T* x, GlobalRange range, T* y) {
      std::vector<T> whole(static_cast<std::size_t>(n));
      if (product(x, whole.data()) != 0) {
        throw Error(ErrorKind::invalid_argument, "the product failed");
      }
      std::copy(whole.begin() + range.begin.value(), whole.begin() + range.end.value(), y);
    };
    Mesh mesh = Mesh::host(1);
    return to_json(krylov::diagnose<T>(mesh, krylov::Operator<T>::callable(rows), row_slabs(n, 1),
                                       nullptr, {.rtol = rtol}));
  });
}

}  // namespace shardsolve::jax
