#include "jax/krylov_description.hpp"

#include "jax/krylov_calls.hpp"
#include "jax/records.hpp"
#include "krylov/local_blocks.hpp"
#include "krylov/local_call.hpp"
#include "krylov/statuses.hpp"
#include "krylov/tables.hpp"

#include <shardsolve/krylov.hpp>
#include <shardsolve/outcome.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace shardsolve::jax {
namespace krylov_description {
namespace {

using krylov::Method;

constexpr std::int64_t word = sizeof(std::int32_t);

nlohmann::json describe(Method method) {
  const krylov::MethodTable& table = krylov::table_of(method);
  const krylov::LocalVectors& vectors = krylov::local_vectors(method);
  const auto shown = [&](int number) {
    return std::find(vectors.shown.begin(), vectors.shown.end(), number) - vectors.shown.begin();
  };
  nlohmann::json stages = nlohmann::json::array();
  const krylov::SolveState state;
  for (const krylov::Stage& stage : table.stages) {
    constexpr std::array kinds{"run", "multiply", "precondition", "reduce"};
    nlohmann::json one = {{"kind", kinds.at(static_cast<std::size_t>(stage.kind))},
                          {"reduction", stage.reduction}};
    if (stage.is_product()) {
      const auto* const flag = reinterpret_cast<const char*>(&(state.state.*stage.skip));
      one["input"] = shown(stage.input);
      one["output"] = shown(stage.output);
      one["skip"] = (flag - reinterpret_cast<const char*>(&state)) / word;
    }
    stages.push_back(one);
  }
  return {{"number", static_cast<int>(method)},
          {"shown", vectors.shown.size()},
          {"hidden", vectors.hidden.size()},
          {"matrices", vectors.matrices.size()},
          {"x", std::find(vectors.hidden.begin(), vectors.hidden.end(), krylov::vector_x) -
                    vectors.hidden.begin()},
          {"reductions", table.reductions.size()},
          {"stages", stages}};
}

}  // namespace
}  // namespace krylov_description

nlohmann::json describe_krylov() {
  using namespace krylov_description;
  nlohmann::json all;
  for (const Method method : krylov_methods) {
    all["methods"][std::string(krylov::name(method))] = describe(method);
  }
  for (std::int32_t number = 0; krylov::name(static_cast<krylov::Status>(number)) != "unknown";
       ++number) {
    const auto status = static_cast<krylov::Status>(number);
    all["statuses"][std::string(krylov::name(status))] = {
        {"number", number},
        {"common", static_cast<int>(krylov::outcome_status(status))},
        {"converged", krylov::is_converged(status)}};
  }
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128}) {
    all["default_rtol"][std::string(name(dtype))] = krylov::default_rtol(dtype);
  }
  for (const krylov::BlockKind kind : krylov::block_kinds) {
    all["block_kinds"][std::string(krylov::name(kind))] = static_cast<int>(kind);
  }
  const krylov::SolveState state;
  all["done_word"] =
      (reinterpret_cast<const char*>(&state.state.done) - reinterpret_cast<const char*>(&state)) /
      word;
  all["records_word"] = (reinterpret_cast<const char*>(&state.state.records) -
                         reinterpret_cast<const char*>(&state)) /
                        word;
  all["state_words"] = sizeof(krylov::SolveState) / word;
  all["scan_words"] = sizeof(runtime::Scan) / word;
  all["scan_work_words"] = krylov::scan_work / word;
  all["report_words"] = sizeof(krylov::Report) / word;
  all["report_figures"] = krylov::report_figures;
  all["record_words"] = sizeof(krylov::Record) / word;
  return all;
}

void krylov_lengths(std::int64_t method, std::int64_t n, std::int64_t restart,
                    std::int64_t max_iterations, bool log, std::int64_t rows, std::int64_t ranks,
                    std::int64_t* lengths) {
  const krylov::Problem problem = krylov::problem_of({.method = static_cast<krylov::Method>(method),
                                                      .n = n,
                                                      .restart = restart,
                                                      .max_iterations = max_iterations,
                                                      .log = log},
                                                     Dtype::float64);
  const krylov::LocalLengths found = krylov::local_lengths(problem, rows, ranks);
  *lengths++ = found.room_words;
  *lengths++ = found.record_words;
  *lengths++ = found.parts;
  for (std::size_t at = 0; at < found.begin.size(); ++at) {
    *lengths++ = found.begin[at];
    *lengths++ = found.length[at];
  }
}

std::string krylov_message(const std::int32_t* report) {
  using krylov_description::word;
  return krylov::message(read<krylov::Report>(report), report[sizeof(krylov::Report) / word]);
}

}  // namespace shardsolve::jax
