#include "jax/krylov_calls.hpp"

#include "jax/krylov_failures.hpp"
#include "jax/local_task.hpp"
#include "krylov/local_call.hpp"
#include "krylov/tables.hpp"
#include "runtime/host/krylov_program.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/krylov.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::jax {
namespace krylov_calls_of {
namespace {

using krylov::LocalCall;
using krylov::Method;

constexpr std::int64_t word = sizeof(std::int32_t);

/// Names of a method's rows; vectors are named by their buffers.
struct Names {
  std::string begin;
  std::string stages;
};
const Names& names_of(Method method) {
  static const auto& all = *new std::array<Names, 4>([] {
    std::array<Names, 4> names;
    for (const Method one : krylov_methods) {
      names.at(static_cast<std::size_t>(one)) = {
          fmt::format("krylov_begin_{}", krylov::name(one)),
          fmt::format("krylov_stages_{}", krylov::name(one))};
    }
    return names;
  }());
  return all.at(static_cast<std::size_t>(method));
}

constexpr std::array<std::string_view, krylov::max_shown> shown_names{
    "shown 0", "shown 1", "shown 2", "shown 3", "shown 4", "shown 5"};

// Operands and results that come before the vectors, in each case.
constexpr CallBuffers scan_buffers = {
    .operands = {any("x")}, .results = {any("scans", Element::words), any("work", Element::words)}};
constexpr CallBuffers begin_buffers = {
    .operands = {any("b"), any("x0"), any("scans", Element::words),
                 any("guess scans", Element::words), any("cut", Element::words),
                 any("rank", Element::words)},
    .results = {any("state", Element::words), any("room", Element::words), any("parts"),
                vectors("hidden")}};
constexpr CallBuffers stage_buffers = {
    .operands = {any("state", Element::words), any("room", Element::words), any("parts"),
                 vectors("hidden"), any("diagonal"), any("gathered"), any("cut", Element::words),
                 any("rank", Element::words)},
    .results = {any("state", Element::words), any("room", Element::words), any("parts"),
                vectors("hidden")}};
constexpr CallBuffers end_buffers = {
    .operands = {vectors("hidden"), any("state", Element::words), any("scans", Element::words),
                 any("cut", Element::words), any("rank", Element::words)},
    .results = {any("x"), any("report", Element::words), any("figures", Element::real)}};

CallBuffers with_shown(CallBuffers buffers, std::size_t count, bool as_operands) {
  for (std::size_t at = 0; at < count; ++at) {
    if (as_operands) {
      buffers.operands.add(any(shown_names.at(at)));
    }
    buffers.results.add(any(shown_names.at(at)));
  }
  return buffers;
}

/// Buffer `at` of a method's own operands or results, of which `before` of others come first.
BufferIndex behind(std::size_t before, std::size_t at) { return BufferIndex{before + at}; }

/// What products with A heed of runtime::ProductFlag, beside usual_product: option "products".
enum class Products : std::int64_t {
  usual,    ///< nothing
  bounded,  ///< product_rounding
  twofold,  ///< and twofold_product
};

const ShortList<Option, max_options>& solve_options() {
  static const ShortList<Option, max_options> options{{"method", std::int64_t{0}},
                                                      {"n", std::int64_t{0}},
                                                      {"restart", std::int64_t{0}},
                                                      {"rtol", 0.0},
                                                      {"atol", 0.0},
                                                      {"max_iterations", std::int64_t{1}},
                                                      {"log", false},
                                                      {"products", std::int64_t{0}},
                                                      {"rows", std::int64_t{0}},
                                                      {"ranks", std::int64_t{1}}};
  return options;
}

ShortList<Option, max_options> and_more(std::initializer_list<Option> more) {
  auto options = solve_options();
  for (const Option& option : more) {
    options.add(option);
  }
  return options;
}

std::int64_t element_bytes_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32:
      return 4;
    case Dtype::float64:
    case Dtype::complex64:
      return 8;
    case Dtype::complex128:
      return 16;
  }
  return 0;
}

class CallBuilder {
 public:
  CallBuilder(const LocalTask& task, LocalCall::Step step) : task_(task) {
    call_.step = step;
    call_.dtype = task.dtype;
    call_.batch = task.batch;
    const auto products = static_cast<Products>(task.option<std::int64_t>("products"));
    call_.problem =
        krylov::problem_of({.method = static_cast<Method>(task.option<std::int64_t>("method")),
                            .n = task.option<std::int64_t>("n"),
                            .restart = task.option<std::int64_t>("restart"),
                            .rtol = task.option<double>("rtol"),
                            .atol = task.option<double>("atol"),
                            .max_iterations = task.option<std::int64_t>("max_iterations"),
                            .log = task.option<bool>("log"),
                            .is_twofold = products == Products::twofold,
                            .has_bounds = products != Products::usual},
                           task.dtype);
    call_.rows = task.option<std::int64_t>("rows");
    call_.ranks = task.option<std::int64_t>("ranks");
    lengths_ = krylov::local_lengths(call_.problem, call_.rows, call_.ranks);
  }

  LocalCall& call() { return call_; }
  const krylov::LocalLengths& lengths() const { return lengths_; }
  const krylov::LocalVectors& vectors() const {
    return krylov::local_vectors(call_.problem.method);
  }
  std::int64_t hidden_length() const {
    return vectors().hidden_rows(call_.problem.cycle) * call_.rows;
  }
  static constexpr std::int64_t state_words = sizeof(krylov::SolveState) / word;
  static constexpr std::int64_t scan_words = sizeof(runtime::Scan) / word;

  /// The memory of a buffer of this length.
  LocalCall::Memory memory(BufferIndex buffer, std::int64_t length) const {
    task_.require_length(buffer, length);
    const Element element = task_.row->buffers.at(buffer).element;
    const std::int64_t bytes = element == Element::words ? word
                               : element == Element::real
                                   ? element_bytes_of(task_.dtype) / (is_complex_dtype() ? 2 : 1)
                                   : element_bytes_of(task_.dtype);
    // Of an operand that is one for all of the batch: Python gives no others.
    return {task_.at(buffer).data, task_.at(buffer).items.empty() ? length * bytes : 0};
  }
  /// Of a result whose memory is the operand's too.
  LocalCall::Memory shared(BufferIndex operand, BufferIndex result, std::int64_t length) const {
    const LocalCall::Memory from = memory(operand, length);
    const LocalCall::Memory to = memory(result, length);
    if (from.data != to.data) {
      throw Error(ErrorKind::internal,
                  "internal: XLA gave a result of its own to an operand that "
                  "a Krylov solve changes");
    }
    return to;
  }
  void set_place(BufferIndex cut, BufferIndex rank) {
    const std::size_t rows = 2 + krylov::table_of(call_.problem.method).reductions.size();
    // Each of the batch has the same.
    task_.require_length(cut, static_cast<std::int64_t>(rows) * (call_.ranks + 1) *
                                  static_cast<std::int64_t>(sizeof(std::int64_t)) / word);
    task_.require_length(rank, 1);
    call_.cut = static_cast<const std::int64_t*>(task_.at(cut).data);
    const auto* const rank_at = static_cast<const std::int32_t*>(task_.at(rank).data);
    if (call_.ranks == 1) {
      call_.rank = 0;
    } else if (task_.stream) {
      call_.rank_at = rank_at;
    } else {
      call_.rank = *rank_at;
    }
  }

 private:
  bool is_complex_dtype() const {
    return task_.dtype == Dtype::complex64 || task_.dtype == Dtype::complex128;
  }

  const LocalTask& task_;
  LocalCall call_;
  krylov::LocalLengths lengths_;
};

void run(const LocalTask& task, const LocalCall& call, const mesh::CudaScratch& scratch = {}) {
  // Small ones of a batch several to a thread.
  const std::int64_t together = std::max<std::int64_t>(
      runtime::host::RowPieces::least_rows / std::max<std::int64_t>(call.rows, 1), 1);
  task.enqueue(
      together,
      [&](const runtime::KernelSource& device, runtime::Queue& queue, std::int64_t begin,
          std::int64_t end) { krylov::enqueue(device, queue, call, begin, end); },
      scratch);
}

void scan(const LocalTask& task) {
  static constexpr const CallBuffers& at = scan_buffers;
  task.require_length(at["scans"], CallBuilder::scan_words);
  task.require_length(at["work"], krylov::scan_work / word);
  LocalCall call;
  call.step = LocalCall::Step::scan;
  call.dtype = task.dtype;
  call.batch = task.batch;
  call.rows = task.at(at["x"]).length;
  call.problem.n = call.rows;
  call.x = {task.at(at["x"]).data, call.rows * element_bytes_of(task.dtype)};
  call.scans = {task.at(at["scans"]).data, sizeof(runtime::Scan)};
  run(task, call, {task.at(at["work"]).data, krylov::scan_work});
}

void begin(const LocalTask& task) {
  static constexpr const CallBuffers& at = begin_buffers;
  CallBuilder builder(task, LocalCall::Step::begin);
  LocalCall& call = builder.call();
  builder.set_place(at["cut"], at["rank"]);
  call.b = builder.memory(at["b"], call.rows);
  call.scans = builder.memory(at["scans"], call.ranks * CallBuilder::scan_words);
  if (task.at(at["x0"]).length > 0) {
    call.x = builder.memory(at["x0"], call.rows);
    call.guess_scans = builder.memory(at["guess scans"], call.ranks * CallBuilder::scan_words);
  }
  const std::size_t shown = builder.vectors().shown.size();
  const std::size_t results = at.operands.size();
  call.state = builder.memory(behind(results, 0), CallBuilder::state_words);
  call.room = builder.memory(behind(results, 1), builder.lengths().room_words);
  call.parts = builder.memory(behind(results, 2), builder.lengths().parts);
  call.hidden = builder.memory(behind(results, 3), builder.hidden_length());
  for (std::size_t v = 0; v < shown; ++v) {
    call.shown[v] = builder.memory(behind(results + 4, v), call.rows);
  }
  run(task, call);
}

void stages(const LocalTask& task) {
  static constexpr const CallBuffers& at = stage_buffers;
  CallBuilder builder(task, LocalCall::Step::stages);
  LocalCall& call = builder.call();
  builder.set_place(at["cut"], at["rank"]);
  call.first = static_cast<int>(task.option<std::int64_t>("first"));
  call.count = static_cast<int>(task.option<std::int64_t>("count"));
  call.inner = static_cast<krylov::InnerPreconditioner>(task.option<std::int64_t>("inner"));
  const std::size_t shown = builder.vectors().shown.size();
  const std::size_t operands = at.operands.size();
  const std::size_t results = operands + shown;
  call.state = builder.shared(behind(0, 0), behind(results, 0), CallBuilder::state_words);
  call.room = builder.shared(behind(0, 1), behind(results, 1), builder.lengths().room_words);
  call.parts = builder.shared(behind(0, 2), behind(results, 2), builder.lengths().parts);
  call.hidden = builder.shared(behind(0, 3), behind(results, 3), builder.hidden_length());
  for (std::size_t v = 0; v < shown; ++v) {
    call.shown[v] = builder.shared(behind(operands, v), behind(results + 4, v), call.rows);
  }
  if (call.inner == krylov::InnerPreconditioner::jacobi) {
    call.diagonal = builder.memory(at["diagonal"], call.rows);
  }
  if (const std::int64_t length = task.at(at["gathered"]).length; length > 0) {
    call.gathered = builder.memory(at["gathered"], length);
  }
  run(task, call);
}

/// By the first rank. On a GPU the host waits for the reports: once a solve, not in its iterations.
void note_failures(const LocalTask& task, const LocalCall& call) {
  std::vector<krylov::Report> reports(static_cast<std::size_t>(call.batch));
  const std::size_t bytes = reports.size() * sizeof(krylov::Report);
  auto rank = static_cast<std::int32_t>(call.rank);
  if (task.stream) {
    task.stream->copy(reports.data(), call.report.data, bytes);
    if (call.rank_at != nullptr) {
      task.stream->copy(&rank, call.rank_at, sizeof(rank));
    }
    task.stream->synchronize();
  } else {
    std::memcpy(reports.data(), call.report.data, bytes);
  }
  for (std::size_t item = 0; rank == 0 && item < reports.size(); ++item) {
    note_krylov_failure(reports[item], call.problem, task.option<std::int64_t>("role"));
  }
}

void end(const LocalTask& task) {
  static constexpr const CallBuffers& at = end_buffers;
  CallBuilder builder(task, LocalCall::Step::end);
  LocalCall& call = builder.call();
  builder.set_place(at["cut"], at["rank"]);
  call.hidden = builder.memory(at["hidden"], builder.hidden_length());
  call.state = builder.memory(at["state"], CallBuilder::state_words);
  call.scans = builder.memory(at["scans"], call.ranks * CallBuilder::scan_words);
  call.x = builder.memory(at["x"], call.rows);
  call.report = builder.memory(at["report"], sizeof(krylov::Report) / word);
  call.figures = builder.memory(at["figures"], krylov::report_figures);
  run(task, call);
  note_failures(task, call);
}

}  // namespace
}  // namespace krylov_calls_of

std::vector<CallRow> krylov_calls() {
  using namespace krylov_calls_of;
  std::vector<CallRow> rows{{.name = "krylov_scan",
                             .phrase = "a scan",
                             .buffers = scan_buffers,
                             .matrix = scan_buffers["x"],
                             .local = scan},
                            {.name = "krylov_end",
                             .phrase = "the end of a Krylov solve",
                             .buffers = end_buffers,
                             .matrix = end_buffers["hidden"],
                             .options = and_more({{"role", std::int64_t{0}}}),
                             .local = end}};
  for (const Method method : krylov_methods) {
    const std::size_t shown = krylov::local_vectors(method).shown.size();
    rows.push_back({.name = names_of(method).begin,
                    .phrase = "the beginning of a Krylov solve",
                    .buffers = with_shown(begin_buffers, shown, false),
                    .matrix = begin_buffers["b"],
                    .options = solve_options(),
                    .local = begin});
    rows.push_back(
        {.name = names_of(method).stages,
         .phrase = "a stage of a Krylov solve",
         .buffers = with_shown(stage_buffers, shown, true),
         .matrix = stage_buffers["hidden"],
         .options = and_more(
             {{"first", std::int64_t{0}}, {"count", std::int64_t{0}}, {"inner", std::int64_t{0}}}),
         .local = stages});
  }
  return rows;
}

}  // namespace shardsolve::jax
