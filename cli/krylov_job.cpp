#include "krylov_job.hpp"

#include "core/each_dtype.hpp"
#include "file_job.hpp"
#include "krylov_files/capture_index.hpp"
#include "krylov_files/log_file.hpp"
#include "krylov_files/new_directory.hpp"
#include "krylov_options.hpp"
#include "krylov_report.hpp"
#include "output.hpp"

#include <shardsolve/device_memory.hpp>
#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::cli {
namespace {

/// Each rank's rows of columns that this process has all of.
template <Scalar T>
RightHandSides<T> on_ranks(Workplace& workplace, const SlabLayout& layout, std::int64_t columns,
                           const std::vector<T>& whole) {
  const auto there = make_right_hand_sides<T>(workplace.mesh(), layout, columns);
  const bool is_device = workplace.mesh().memory() == Memory::device;
  const auto here = is_device ? RightHandSides<T>(layout, columns) : there;
  for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
    const MatrixView<T> block = here.block(rank);
    for (std::int64_t column = 0; column < block.columns(); ++column) {
      const std::int64_t first = column * layout.size() + layout.segment(rank).begin.value();
      std::copy_n(whole.begin() + first, block.rows(),
                  block.block(0, column, block.rows(), 1).data());
    }
  }
  if (is_device) {
    copy(workplace.mesh(), here, there);
  }
  return there;
}

/// One column of them, in their memory.
template <Scalar T>
RightHandSides<T> column_of(const RightHandSides<T>& all, std::int64_t column) {
  std::vector<MatrixView<T>> blocks;
  for (std::int64_t rank = 0; rank < all.layout().ranks(); ++rank) {
    const MatrixView<T> block = all.block(rank);
    blocks.push_back(block.columns() == 0 ? block : block.block(0, column, block.rows(), 1));
  }
  return {all.layout(), blocks, all.memory(), std::make_shared<RightHandSides<T>>(all)};
}

/// The verdict on a matrix that nothing can be computed with.
krylov::Result nonfinite_matrix(const EntryPlace& place, const krylov::Request& request) {
  krylov::Result result;
  result.status = krylov::Status::nonfinite_operator;
  result.outcome.status = krylov::outcome_status(result.status);
  result.outcome.location = Location::in_matrix(GlobalIndex(place.row), GlobalIndex(place.column));
  result.residual = 1.0;  // x = 0
  result.tolerance = request.options.rtol.value();
  result.message = fmt::format(
      "{}: A holds a NaN or an infinity at row {}, column {} (0-based): find out where it was "
      "made, there is no answer to compute from it.",
      krylov::name(result.status), place.row, place.column);
  return result;
}

/// The levels of a system with A in the first one; only if there are some.
template <Scalar T>
std::vector<krylov::MultigridLevel<T>> levels_with_a(const SparseSystem<T>& system) {
  std::vector<krylov::MultigridLevel<T>> levels = system.levels;
  if (!levels.empty()) {
    levels.front().a = system.a;
  }
  return levels;
}

template <Scalar T>
krylov::Operator<T> multigrid_of(Workplace& workplace, const SparseSystem<T>& system,
                                 const SlabLayout& layout) {
  if (system.levels.empty()) {
    throw Error(ErrorKind::invalid_argument,
                "--preconditioner multigrid given without its levels: give the folder that has "
                "them, --levels DIR");
  }
  return krylov::Operator<T>::multigrid(workplace.mesh(), levels_with_a(system), layout, {},
                                        workplace.run_options());
}

/// Throws Error, naming the file of A.
template <Scalar T>
std::optional<krylov::Operator<T>> preconditioner_of(const std::string& path,
                                                     const SparseSystem<T>& system,
                                                     const krylov::Operator<T>& product,
                                                     const krylov::Recipe& recipe) {
  if (system.recorded_m && recipe.kind == krylov::Recipe::Kind::recorded) {
    return krylov::replay_products<T>(*system.recorded_m);
  }
  try {
    return krylov::make_preconditioner<T>(recipe, system.a, &product);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("'{}': {}", path, error.what()));
  }
}

/// The files of a solve, claimed before it.
struct SparseOutputs {
  ArrayFiles x;
  ArrayFiles best;                      ///< the best iterate of a failed solve; one or none
  std::shared_ptr<io::OutputFile> log;  ///< in the process of rank 0
  std::shared_ptr<io::OutputFile> trace;
};

SparseOutputs open_outputs(Workplace& workplace, const Report& report) {
  const KrylovOptions& options = workplace.options().krylov;
  SparseOutputs outputs;
  outputs.x = open_results(workplace, report.results);
  if (!options.best.empty()) {
    Result best = report.results.front();
    best.path = options.best;
    outputs.best = open_results(workplace, {best});
  }
  outputs.log = open_text_file(workplace, options.log);
  outputs.trace = open_trace(workplace);
  if (!options.capture.empty()) {
    workplace.on_rank_0([path = options.capture, force = workplace.options().force] {
      // Refuses what could not be written later, and is gone at once.
      const krylov::files::NewDirectory trial(path, {force, "--force"}, krylov::files::index_name,
                                              krylov::files::is_name_of_capture);
      return true;
    });
  }
  return outputs;
}

/// The text of the log, before any file gets its name.
void write_log_text(Workplace& workplace, const SparseOutputs& outputs,
                    const KrylovReport& verdict) {
  workplace.on_rank_0([log = outputs.log, request = verdict.request, result = verdict.result] {
    if (log != nullptr) {
      const std::string text = krylov::files::log_text(request, result);
      log->pwrite_all(text.data(), static_cast<std::int64_t>(text.size()), 0);
    }
    return true;
  });
}

template <Scalar T>
void keep_answer(Workplace& workplace, const SparseOutputs& outputs, const RightHandSides<T>& x,
                 Report& report) {
  KrylovReport& verdict = report.krylov.value();
  write_log_text(workplace, outputs, verdict);
  const double written = outputs.x.empty() ? 0.0 : write_solution(workplace, x, outputs.x.front());
  report.write_seconds = written + commit(workplace, outputs.x, outputs.trace, outputs.log);
  verdict.log = workplace.options().krylov.log;
  verdict.trace = workplace.options().trace;
}

/// Whatever becomes of these files, the verdict is told.
void try_to_keep(KrylovReport& verdict, const std::string& path, std::string& kept,
                 const std::function<void()>& keep) {
  if (path.empty()) {
    return;
  }
  try {
    keep();
    kept = path;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled || error.kind() == ErrorKind::communication) {
      throw;
    }
    verdict.lost.emplace_back(error.what());
  }
}

template <Scalar T>
void write_capture(Workplace& workplace, const SharedSystem<T>& system,
                   const KrylovReport& verdict) {
  const Options& options = workplace.options();
  krylov::CaptureOptions how;
  how.overwrite = options.force;
  if (options.krylov.capture_limit) {
    how.max_bytes = *options.krylov.capture_limit * 1'000'000;
  }
  workplace.on_rank_0(
      [how, system, path = options.krylov.capture, request = verdict.request,
       result = verdict.result, column = verdict.worst] {
        const std::vector<T> b = system->column_of(system->b, column);
        const std::vector<T> guess = system->column_of(system->guess, column);
        if (request.preconditioner.kind == krylov::Recipe::Kind::multigrid) {
          krylov::capture(path, request, levels_with_a(*system), b, guess, result, how);
        } else {
          krylov::capture(path, request, system->a, b, guess, result, how);
        }
        return true;
      },
      "capture");
}

template <Scalar T>
void keep_failure(Workplace& workplace, const SparseOutputs& outputs, const SharedSystem<T>& system,
                  const RightHandSides<T>& x, Report& report) {
  const KrylovOptions& options = workplace.options().krylov;
  KrylovReport& verdict = report.krylov.value();
  try_to_keep(verdict, options.best, verdict.best, [&] {
    write_solution(workplace, x, outputs.best.front());
    commit(workplace, outputs.best, nullptr);
  });
  try_to_keep(verdict, options.log, verdict.log, [&] {
    write_log_text(workplace, outputs, verdict);
    commit(workplace, {}, nullptr, outputs.log);
  });
  try_to_keep(verdict, workplace.options().trace, verdict.trace,
              [&] { commit(workplace, {}, outputs.trace); });
  try_to_keep(verdict, options.capture, verdict.capture,
              [&] { write_capture(workplace, system, verdict); });
}

/// Whether a verdict is worse than another: it failed, or its residual is nearer to what it had to
/// be.
bool is_worse(const krylov::Result& a, const krylov::Result& b) {
  if (a.outcome.ok() != b.outcome.ok()) {
    return !a.outcome.ok();
  }
  return a.residual * b.tolerance > b.residual * a.tolerance;
}

/// The verdict on all columns of b: the worst one's, with seconds and flops of all.
template <Scalar T>
KrylovReport verdict_on(const SparseSystem<T>& system, const krylov::Request& request,
                        std::vector<krylov::Result> results) {
  KrylovReport report{.request = request};
  double seconds = 0.0;
  double flops = 0.0;
  for (std::size_t column = 0; column < results.size(); ++column) {
    if (is_worse(results[column], results[static_cast<std::size_t>(report.worst)])) {
      report.worst = static_cast<std::int64_t>(column);
    }
    seconds += results[column].outcome.seconds;
    flops += results[column].outcome.flops;
  }
  report.result = results[static_cast<std::size_t>(report.worst)];
  report.result.outcome.seconds = seconds;
  report.result.outcome.flops = flops;
  for (krylov::Result& one : results) {
    one.log.clear();
  }
  report.columns = std::move(results);
  if (request.options.log) {
    report.request.checksums =
        krylov::checksums_of(system.a, system.column_of(system.b, report.worst),
                             system.column_of(system.guess, report.worst), system.levels);
    if (system.recorded_a) {
      report.request.checksums.a.reset();
    }
  }
  return report;
}

}  // namespace

template <Scalar T>
krylov::Request request_for(const Workplace& workplace, const SparseSystem<T>& system) {
  krylov::Request request;
  request.options.rtol = krylov::default_rtol(dtype_of<T>);
  request.options.use_guess = !system.guess.empty();
  request.n = system.n;
  request.entries = system.a.entries();
  request.dtype = dtype_of<T>;
  request.backend = workplace.options().backend == Backend::cuda ? "cuda" : "cpu";
  request.ranks = workplace.options().devices;
  return request;
}

template <Scalar T>
SparseSolution<T> solve_sparse(Workplace& workplace, const SparseSystem<T>& system,
                               const krylov::Request& request) {
  Mesh& mesh = workplace.mesh();
  const RunOptions& run = workplace.run_options();
  const SlabLayout layout = row_slabs(request.n, mesh.ranks());
  const std::vector<T> zeros(system.b.size());
  SparseSolution<T> solution{
      on_ranks(workplace, layout, system.columns, system.guess.empty() ? zeros : system.guess), {}};
  if (const auto place = first_nonfinite(system.a)) {
    solution.x = on_ranks(workplace, layout, system.columns, zeros);
    solution.results = {nonfinite_matrix(*place, request)};
    return solution;
  }
  const auto b = on_ranks(workplace, layout, system.columns, system.b);
  const auto a = system.recorded_a
                     ? krylov::replay_products<T>(*system.recorded_a)
                     : krylov::Operator<T>::sparse(SparseMatrix<T>(mesh, system.a, layout, run));
  const auto m =
      request.preconditioner.kind == krylov::Recipe::Kind::multigrid
          ? std::optional(multigrid_of(workplace, system, layout))
          : preconditioner_of(workplace.options().matrix, system, a, request.preconditioner);
  for (std::int64_t column = 0; column < system.columns; ++column) {
    const auto solve = [&](auto solver, const auto&... operators) {
      return solver(mesh, operators..., column_of(b, column), column_of(solution.x, column),
                    request.options, run);
    };
    const auto once = [](auto&&... arguments) { return krylov::solve<T>(arguments...); };
    const auto in_turn = [](auto&&... arguments) { return krylov::solve_auto<T>(arguments...); };
    solution.results.push_back(request.is_automatic
                                   ? (m ? solve(in_turn, a, *m) : solve(in_turn, a))
                                   : (m ? solve(once, a, *m) : solve(once, a)));
    krylov::Result& result = solution.results.back();
    if (result.status == krylov::Status::cancelled) {
      throw Error(ErrorKind::cancelled, "interrupted");
    }
    if (result.outcome.location) {
      result.outcome.location->column = GlobalIndex(column);
    }
  }
  return solution;
}

Report report_for(const Options& options, const SparseInput& input,
                  const krylov::Request& request) {
  Report report;
  report.n = request.n;
  report.dtype = request.dtype;
  report.right_hand_sides =
      std::visit([](const auto& system) { return system.columns; }, input.system);
  report.read_seconds = input.seconds;
  if (!options.output.empty()) {
    report.results = {{.key = "output",
                       .name = "x",
                       .path = options.output,
                       .dtype = request.dtype,
                       .shape = input.shape,
                       .fortran_order = input.fortran_order}};
  }
  return report;
}

template <Scalar T>
void solve_and_keep(Workplace& workplace, const SharedSystem<T>& system,
                    const krylov::Request& request, Report& report) {
  require_distinct_files(workplace, report.results);
  const SparseOutputs outputs = open_outputs(workplace, report);
  SparseSolution<T> solution = solve_sparse(workplace, *system, request);
  report.krylov = verdict_on(*system, request, std::move(solution.results));
  report.outcome = report.krylov->result.outcome;
  if (report.outcome.ok()) {
    keep_answer(workplace, outputs, solution.x, report);
  } else {
    keep_failure(workplace, outputs, system, solution.x, report);
  }
}

int run_sparse_solve(Workplace& workplace, ProgressDisplay& progress) {
  const Options& options = workplace.options();
  refuse_dense_options(options);
  // Ranks that write a part of it share it.
  const auto input = std::make_shared<const SparseInput>(
      read_sparse_system(workplace, {.a = options.matrix,
                                     .b = options.right_hand_sides,
                                     .guess = options.krylov.guess,
                                     .levels = options.krylov.levels}));
  Report report;
  std::visit(
      [&]<Scalar T>(const SparseSystem<T>& system) {
        krylov::Request request = request_for(workplace, system);
        take_request(options, cut_of(system), request);
        report = report_for(options, *input, request);
        solve_and_keep(workplace, SharedSystem<T>(input, &system), request, report);
      },
      input->system);
  if (report.outcome.ok()) {
    report.words.headline = krylov_headline(options, report.krylov.value());
  }
  return conclude(workplace, progress, report);
}

#define SHARDSOLVE_INSTANTIATE(T)                                                 \
  template krylov::Request request_for(const Workplace&, const SparseSystem<T>&); \
  template SparseSolution<T> solve_sparse(Workplace&, const SparseSystem<T>&,     \
                                          const krylov::Request&);                \
  template void solve_and_keep(Workplace&, const SharedSystem<T>&, const krylov::Request&, Report&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::cli
