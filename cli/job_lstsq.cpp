// min ||b - A x|| for A of any shape, from two files to one.

#include "file_job.hpp"
#include "report_lines.hpp"
#include "shared_options.hpp"
#include "verb.hpp"

#include <shardsolve/qr.hpp>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

namespace shardsolve::cli {
namespace {

struct Files {
  Input a;
  Input b;
};

/// A of shape (m, n), b of (m,) or (m, k). Throws Error(invalid_argument) for others.
Files open_files(Workplace& workplace) {
  const Files files = workplace.everywhere([&options = workplace.options()] {
    auto matrix = std::make_shared<const io::NpyReader>(options.matrix);
    const auto [rows, columns] = io::require_matrix(matrix->header(), options.matrix);
    auto sides = std::make_shared<const io::NpyReader>(options.right_hand_sides);
    const std::int64_t count =
        io::require_right_hand_sides(sides->header(), rows, options.right_hand_sides);
    Files both{{std::move(matrix), columns}, {std::move(sides), count}};
    require_same_dtype(both.a, both.b, "b");
    return both;
  });
  require_same_files(workplace, {files.a, files.b});
  return files;
}

Result result_of(const Options& options, const Files& files) {
  Result x{.key = "output",
           .name = "x",
           .path = options.output,
           .dtype = files.a.dtype(),
           .shape = files.b.shape(),
           .fortran_order = files.b.fortran_order()};
  x.shape->front() = files.a.columns;
  return x;
}

/// Rank 0 writes all of x. Returns the seconds.
template <Scalar T>
double write_x(Workplace& workplace, std::vector<T> x, std::int64_t rows,
               std::shared_ptr<ArrayFile> to) {
  return workplace.run([x = std::move(x), rows, to = std::move(to)](mesh::Rank& rank) {
    if (rank.index() == 0) {
      const auto columns = std::ssize(x) / rows;
      to->writer().write_rows<T>({GlobalIndex(0), GlobalIndex(rows)},
                                 MatrixView<const T>(x.data(), rows, columns));
    }
  });
}

template <Scalar T>
void run_on(Workplace& workplace, const Files& files, const SlabLayout& layout, Report& report) {
  const ArrayFiles outputs = open_results(workplace, report.results);
  const auto trace = open_trace(workplace);
  const auto a = load_right_hand_sides<T>(workplace, files.a, layout);
  const auto b = load_right_hand_sides<T>(workplace, files.b, layout);
  report.read_seconds = a.seconds + b.seconds;
  LeastSquares<T> found = lstsq(workplace.mesh(), a.data, b.data,
                                workplace.options().singular_value_limit, workplace.run_options());
  report.outcome = found.outcome;
  report.rank = found.rank;
  if (found.rank < std::min(report.n, report.rows.value_or(report.n))) {
    report.outcome.rcond.reset();  // of R with all columns, it says nothing of what was kept
  }
  if (!has_answer(report.outcome)) {
    return;
  }
  begin_results(workplace, outputs, report.results);
  const double written = write_x<T>(workplace, std::move(found.x), report.n, outputs.front());
  report.write_seconds = written + commit(workplace, outputs, trace);
}

/// What the text report says where there is an answer.
Words words_of(const Options& options, const Report& report) {
  return {.headline = fmt::format(
              "Found the {}x with the least ||b - A x|| for {}\n  A {}, of rank {}\n  b '{}'\n",
              report.rank.value() < report.n ? "shortest " : "",
              plural(report.right_hand_sides.value_or(0), "right-hand side"),
              matrix_of(options, report), rank_of(report), options.right_hand_sides),
          .remarks = {{&Outcome::rcond, ", columns at equal size"}}};
}

int run_lstsq(Workplace& workplace, ProgressDisplay& progress) {
  const Options& options = workplace.options();
  const Files files = open_files(workplace);
  const std::int64_t rows = files.a.shape().front();
  Report report{.n = files.a.columns, .dtype = files.a.dtype()};
  report.rows = rows;
  report.right_hand_sides = files.b.columns;
  report.results = {result_of(options, files)};
  require_distinct_files(workplace, report.results);
  const SlabLayout layout = workplace.layout(rows, std::nullopt);
  workplace.require_memory({plan_least_squares(layout, report.dtype, report.n, files.b.columns,
                                               workplace.mesh().memory())},
                           fmt::format("least squares with '{}'", files.a.path()));
  with_dtype(report.dtype, [&]<class T>() { run_on<T>(workplace, files, layout, report); });
  if (has_answer(report.outcome)) {
    report.words = words_of(options, report);
  }
  return conclude(workplace, progress, report);
}

void add_lstsq_options(CLI::App& command, TypedOptions& typed, Options& options) {
  add_input(command, "A", options.matrix, "the matrix, an .npy file of any shape (m, n)");
  add_input(command, "b", options.right_hand_sides, "the right-hand sides, an .npy file");
  add_output(command, options, "where x goes");
  constexpr const char* accepted = "a number between 0 and 1 is accepted";
  command
      .add_option("--rank-rcond", options.singular_value_limit,
                  "singular values up to this times the largest are 0 (max(m, n) eps)")
      ->type_name("RCOND")
      ->check(CLI::Validator(
          [accepted](const std::string& text) -> std::string {
            double value = 0.0;
            const bool is_number = CLI::detail::lexical_cast(text, value);
            return is_number && value > 0.0 && value < 1.0
                       ? ""
                       : fmt::format("'{}' given; {}", text, accepted);
          },
          "", "rank_rcond"));
  add_run_options(command, options, typed);
}

void take_lstsq_options(const TypedOptions& typed, Options& options) {
  take_devices(typed.devices, options);
}

constexpr std::string_view lstsq_notes =
    R"(A: shape (m, n), of any rank. b: shape (m,) or (m, k), of A's dtype. x, of shape (n,) or
(n, k), makes ||b - A x|| least in the 2-norm, each column by itself; where many do, as with fewer
rows than columns or columns that depend on each other, it is the shortest.

From Python to Python:
  numpy.save("A.npy", A); numpy.save("b.npy", b)
  $ shardsolve lstsq A.npy b.npy -o x.npy
  x = numpy.load("x.npy")

The certificate: the backward error says how little A has to change for x to be exact, in units
of rounding. rcond, where the rank is full, is that of the triangle R of A = Q R with its columns
at equal size, so units of unknowns do not change it; where sizes of columns differ, an x that is
not small where columns are large has more digits wrong than it says. With a rank that is not full
the backward error speaks of what was kept, and the rank depends on what counts as 0: --rank-rcond.)";

}  // namespace

constinit const Verb lstsq_verb =
    complete({.name = "lstsq",
              .about = "the x with the least ||b - A x||, for A of any shape",
              .usage = "shardsolve lstsq A.npy b.npy -o x.npy [options]",
              .notes = lstsq_notes,
              .examples = R"(shardsolve lstsq A.npy b.npy -o x.npy
shardsolve lstsq A.npy b.npy -o x.npy --devices 4 --rank-rcond 1e-8
mpirun -np 4 shardsolve lstsq A.npy b.npy -o x.npy)",
              .add_options = &add_lstsq_options,
              .take_options = &take_lstsq_options,
              .run = &run_lstsq});

}  // namespace shardsolve::cli
