#include "jax/krylov_preconditioner_calls.hpp"

#include "core/each_dtype.hpp"
#include "jax/by_name.hpp"
#include "jax/local_task.hpp"
#include "krylov/local_blocks.hpp"
#include "krylov/local_chebyshev.hpp"
#include "krylov/multigrid.hpp"
#include "krylov/operators.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/krylov.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace shardsolve::jax {
namespace krylov_preconditioner_calls_of {
namespace {

using krylov::BlockKind;
using krylov::FactoredBlock;

constexpr std::size_t word = sizeof(std::int32_t);

// Row pointers and boundaries of blocks are int64, told as two words each.
constexpr CallBuffers factor_buffers = {
    .operands = {any("values"), any("columns", Element::words), any("pointers", Element::words),
                 any("boundaries", Element::words)},
    .results = {any("blocks", Element::words), any("numbers"), any("lists", Element::words)}};
// The memory of `before` becomes y, which stays as it is if `skip` is not 0.
constexpr CallBuffers solve_buffers = {
    .operands = {any("blocks", Element::words), any("numbers"), any("lists", Element::words),
                 any("x"), any("rank", Element::words), any("before"), any("skip", Element::words)},
    .results = {any("y"), any("work")}};

/// A copy of an item of an operand on the host.
template <class T, class Element = T>
std::vector<T> on_host(const LocalTask& task, BufferIndex buffer, std::int64_t item) {
  const std::int64_t bytes = task.at(buffer).length * static_cast<std::int64_t>(sizeof(Element));
  std::vector<T> copy(static_cast<std::size_t>(bytes) / sizeof(T));
  const void* const from = task.item(buffer, item, sizeof(Element));
  if (task.stream) {
    task.stream->copy(copy.data(), from, static_cast<std::size_t>(bytes));
    task.stream->synchronize();
  } else {
    std::memcpy(copy.data(), from, static_cast<std::size_t>(bytes));
  }
  return copy;
}

/// Likewise of a result, behind whose end there are zeros.
template <class T, class Element = T>
void from_host(const LocalTask& task, BufferIndex buffer, std::int64_t item,
               const std::vector<T>& values) {
  const auto bytes = static_cast<std::size_t>(task.at(buffer).length) * sizeof(Element);
  const std::size_t used = values.size() * sizeof(T);
  if (used > bytes) {
    throw Error(ErrorKind::internal,
                fmt::format("internal: {} of {} has {} bytes, and {} are needed",
                            task.row->buffers.at(buffer).name, task.row->name, bytes, used));
  }
  std::vector<std::byte> all(bytes);
  std::memcpy(all.data(), values.data(), used);
  void* const to = task.item(buffer, item, sizeof(Element));
  if (task.stream) {
    task.stream->copy(to, all.data(), bytes);
  } else {
    std::memcpy(to, all.data(), bytes);
  }
}

template <Scalar T>
void factor_item(const LocalTask& task, std::int64_t item) {
  static constexpr const CallBuffers& at = factor_buffers;
  CsrMatrix<T> a;
  a.row_pointers = on_host<std::int64_t, std::int32_t>(task, at["pointers"], item);
  a.rows = a.columns = static_cast<std::int64_t>(a.row_pointers.size()) - 1;
  const auto columns = on_host<std::int32_t>(task, at["columns"], item);
  a.column_indices.assign(columns.begin(), columns.end());
  a.values = on_host<T>(task, at["values"], item);
  const auto boundaries = on_host<std::int64_t, std::int32_t>(task, at["boundaries"], item);
  const auto tables = krylov::factor_blocks(
      static_cast<BlockKind>(task.option<std::int64_t>("kind")), boundaries, a);
  from_host<FactoredBlock, std::int32_t>(task, at["blocks"], item, tables.blocks());
  from_host<T>(task, at["numbers"], item, tables.numbers());
  from_host<std::int32_t>(task, at["lists"], item, tables.lists());
}

void factor(const LocalTask& task) {
  task.require_length(factor_buffers["columns"], task.at(factor_buffers["values"]).length);
  for (std::int64_t item = 0; item < task.batch; ++item) {
    with_dtype(task.dtype, [&]<Scalar T>() { factor_item<T>(task, item); });
  }
}

/// Throws unless a result has the memory of an operand.
void require_shared(const LocalTask& task, BufferIndex operand, BufferIndex result) {
  if (task.at(operand).data != task.at(result).data) {
    throw Error(ErrorKind::internal,
                fmt::format("internal: XLA gave {} of {} memory of its own where it was to change "
                            "another's",
                            task.row->buffers.at(result).name, task.row->name));
  }
}

void solve(const LocalTask& task) {
  static constexpr const CallBuffers& at = solve_buffers;
  task.require_length(at["rank"], 1);
  task.require_length(at["skip"], 1);
  task.require_length(at["before"], task.at(at["y"]).length);
  task.require_length(at["work"], task.at(at["x"]).length);
  require_shared(task, at["before"], at["y"]);
  const std::size_t element = with_dtype(task.dtype, []<Scalar T>() { return sizeof(T); });
  const auto words = [&](BufferIndex buffer, std::int64_t item) {
    return static_cast<const std::int32_t*>(task.item(buffer, item, word));
  };
  task.enqueue_each([&](const runtime::KernelSource& device, runtime::Queue& queue,
                        std::int64_t item) {
    krylov::LocalBlocks call{
        .dtype = task.dtype,
        .is_band =
            static_cast<BlockKind>(task.option<std::int64_t>("kind")) == BlockKind::block_jacobi,
        .count = task.at(at["blocks"]).length * static_cast<std::int64_t>(word) /
                 static_cast<std::int64_t>(sizeof(FactoredBlock)),
        .largest = task.option<std::int64_t>("largest"),
        .widest = task.option<std::int64_t>("widest"),
        .entries = task.at(at["numbers"]).length,
        .blocks = reinterpret_cast<const FactoredBlock*>(words(at["blocks"], item)),
        .numbers = task.item(at["numbers"], item, element),
        .lists = words(at["lists"], item),
        .rows = task.at(at["y"]).length,
        .x = task.item(at["x"], item, element),
        .size = task.at(at["x"]).length,
        .work = task.item(at["work"], item, element),
        .y = task.item(at["y"], item, element),
        .skip = words(at["skip"], item)};
    if (task.stream) {
      call.rank_at = words(at["rank"], item);
    } else {
      call.rank = *words(at["rank"], item);
    }
    krylov::enqueue(device, queue, call);
  });
}

// `diagonal` of no entries is that of I; `scaled` is as long.
constexpr CallBuffers chebyshev_begin_buffers = {
    .operands = {any("x"), any("zero", Element::words), any("diagonal")},
    .results = {any("residual"), any("direction"), any("sum"), any("scaled")}};
// The memory of the vectors becomes that of the results.
constexpr CallBuffers chebyshev_step_buffers = {
    .operands = {any("product"), any("zero", Element::words), any("diagonal"), any("old residual"),
                 any("old direction"), any("old sum")},
    .results = {any("residual"), any("direction"), any("sum"), any("scaled")}};

/// A step, 0 the beginning, whose buffers these are; of `x`, the first operand.
template <const CallBuffers& at>
void chebyshev(const LocalTask& task, BufferIndex x, std::int64_t step) {
  const std::size_t element = with_dtype(task.dtype, []<Scalar T>() { return sizeof(T); });
  const std::int64_t rows = task.at(x).length;
  const bool is_scaled = task.at(at["diagonal"]).length > 0;
  task.require_length(at["zero"], 1);
  for (const BufferIndex vector : {at["residual"], at["direction"], at["sum"]}) {
    task.require_length(vector, rows);
  }
  task.require_length(at["diagonal"], is_scaled ? rows : 0);
  task.require_length(at["scaled"], is_scaled ? rows : 0);
  const auto call_of = [&](std::int64_t item) {
    return krylov::LocalChebyshev{
        .dtype = task.dtype,
        .rows = rows,
        .low = task.option<double>("low"),
        .high = task.option<double>("high"),
        .step = step,
        .product = task.item(x, item, element),
        .residual = task.item(at["residual"], item, element),
        .direction = task.item(at["direction"], item, element),
        .sum = task.item(at["sum"], item, element),
        .diagonal = is_scaled ? task.item(at["diagonal"], item, element) : nullptr,
        .scaled = is_scaled ? task.item(at["scaled"], item, element) : nullptr,
        .zero = static_cast<const std::int32_t*>(task.item(at["zero"], item, word))};
  };
  if (task.stream) {
    task.enqueue_each([&](const runtime::KernelSource& device, runtime::Queue& queue,
                          std::int64_t item) { krylov::enqueue(device, queue, call_of(item)); });
    return;
  }
  for (std::int64_t item = 0; item < task.batch; ++item) {
    krylov::run_on_host(call_of(item), task.spare);
  }
}

void chebyshev_begin(const LocalTask& task) {
  chebyshev<chebyshev_begin_buffers>(task, chebyshev_begin_buffers["x"], 0);
}

void chebyshev_step(const LocalTask& task) {
  static constexpr const CallBuffers& at = chebyshev_step_buffers;
  for (const auto& [from, to] : {std::pair{at["old residual"], at["residual"]},
                                 {at["old direction"], at["direction"]},
                                 {at["old sum"], at["sum"]}}) {
    require_shared(task, from, to);
  }
  chebyshev<chebyshev_step_buffers>(task, at["product"], task.option<std::int64_t>("step"));
}

template <Scalar T>
CsrMatrix<T> matrix_in(const nlohmann::json& asked) {
  const auto pointers = array_in<const std::int64_t>(asked, "pointers");
  const auto columns = array_in<const std::int32_t>(asked, "columns");
  const auto values = array_in<const T>(asked, "values");
  CsrMatrix<T> a;
  a.rows = a.columns = static_cast<std::int64_t>(pointers.size()) - 1;
  a.row_pointers.assign(pointers.begin(), pointers.end());
  a.column_indices.assign(columns.begin(), columns.end());
  // Ones offend nobody where they are not known.
  a.values.assign(values.begin(), values.end());
  a.values.resize(columns.size(), T{1});
  return a;
}

template <Scalar T>
nlohmann::json plan(const nlohmann::json& asked) {
  const CsrMatrix<T> a = matrix_in<T>(asked);
  const auto given = array_in<const std::int64_t>(asked, "blocks");
  const std::vector<std::int64_t> blocks =
      given.empty() ? krylov::blocks_of(a, asked.at("count").get<std::int64_t>())
                    : std::vector<std::int64_t>(given.begin(), given.end());
  const auto kind = static_cast<BlockKind>(asked.at("kind").get<int>());
  const krylov::BlockLengths lengths = krylov::block_lengths(kind, blocks, a);
  return {
      {"boundaries", blocks},       {"words", (blocks.size() - 1) * sizeof(FactoredBlock) / word},
      {"numbers", lengths.numbers}, {"lists", lengths.lists},
      {"largest", lengths.largest}, {"widest", lengths.widest}};
}

}  // namespace
}  // namespace krylov_preconditioner_calls_of

std::vector<CallRow> krylov_preconditioner_calls() {
  using namespace krylov_preconditioner_calls_of;
  return {{.name = "krylov_factor_blocks",
           .phrase = "a preconditioner of blocks",
           .buffers = factor_buffers,
           .matrix = factor_buffers["values"],
           .options = {{"kind", std::int64_t{0}}},
           .local = factor},
          {.name = "krylov_solve_blocks",
           .phrase = "a preconditioner of blocks",
           .buffers = solve_buffers,
           .matrix = solve_buffers["numbers"],
           .options = {{"kind", std::int64_t{0}},
                       {"largest", std::int64_t{0}},
                       {"widest", std::int64_t{0}}},
           .local = solve},
          {.name = "krylov_chebyshev_begin",
           .phrase = "a step of Chebyshev's iteration",
           .buffers = chebyshev_begin_buffers,
           .matrix = chebyshev_begin_buffers["x"],
           .options = {{"low", 0.0}, {"high", 0.0}},
           .local = chebyshev_begin},
          {.name = "krylov_chebyshev_step",
           .phrase = "a step of Chebyshev's iteration",
           .buffers = chebyshev_step_buffers,
           .matrix = chebyshev_step_buffers["product"],
           .options = {{"low", 0.0}, {"high", 0.0}, {"step", std::int64_t{0}}},
           .local = chebyshev_step}};
}

std::string plan_krylov_blocks(const nlohmann::json& asked) {
  const auto dtype = static_cast<Dtype>(asked.at("dtype").get<int>());
  return with_dtype(
      dtype, [&]<Scalar T>() { return krylov_preconditioner_calls_of::plan<T>(asked).dump(); });
}

std::string krylov_largest_eigenvalue(const nlohmann::json& asked) {
  return with_dtype(static_cast<Dtype>(asked.at("dtype").get<int>()), [&]<Scalar T>() {
    const CsrMatrix<T> a = krylov_preconditioner_calls_of::matrix_in<T>(asked);
    const auto diagonal = krylov::diagonal_to_divide_by(a, "multigrid");
    return nlohmann::json{{"largest", krylov::largest_eigenvalue(a, diagonal)}}.dump();
  });
}

std::string krylov_inverse(const nlohmann::json& asked) {
  return with_dtype(static_cast<Dtype>(asked.at("dtype").get<int>()), [&]<Scalar T>() {
    const CsrMatrix<T> inverse =
        krylov::inverse_of(krylov_preconditioner_calls_of::matrix_in<T>(asked));
    const auto entries = array_in<T>(asked, "inverse");
    if (entries.size() != inverse.values.size()) {
      throw Error(ErrorKind::internal, "internal: the inverse has another size");
    }
    std::copy(inverse.values.begin(), inverse.values.end(), entries.begin());
    return nlohmann::json::object().dump();
  });
}

std::string krylov_chebyshev_bounds(const nlohmann::json& asked) {
  return with_dtype(static_cast<Dtype>(asked.at("dtype").get<int>()), [&]<Scalar T>() {
    const krylov::EigenvalueBounds bounds =
        krylov::chebyshev_bounds(krylov_preconditioner_calls_of::matrix_in<T>(asked));
    return nlohmann::json{{"low", bounds.low}, {"high", bounds.high}}.dump();
  });
}

}  // namespace shardsolve::jax
