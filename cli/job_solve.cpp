// A x = b, from two files to one.

#include "dense/lu/solve.hpp"
#include "file_job.hpp"
#include "krylov_job.hpp"
#include "krylov_options.hpp"
#include "report_lines.hpp"
#include "shared_options.hpp"
#include "verb.hpp"

#include <shardsolve/cholesky.hpp>

namespace shardsolve::cli {
namespace {

// There is a b: has_right_hand_sides.
// NOLINTBEGIN(bugprone-unchecked-optional-access)
struct SolveJob {
  static constexpr bool has_right_hand_sides = true;
  static constexpr bool has_tile = true;
  static constexpr std::string_view doing = "solving with";

  static std::vector<Result> results(const Options& options, const Inputs& inputs) {
    return {only_result("x", options, *inputs.b)};
  }

  static std::vector<Plan> plans(const Workplace& workplace, const SlabLayout& layout,
                                 const Inputs& inputs) {
    const Dtype dtype = inputs.a.dtype();
    if (workplace.options().assume == Assume::general) {
      const bool in_place = workplace.options().in_place;
      const Plan factor =
          in_place ? plan_lu_factor_in_place(layout, dtype) : plan_lu_factor(layout, dtype);
      Plan solve = plan_lu_solve(layout, dtype, inputs.b->columns);
      solve.matrix_bytes = factor.matrix_bytes;
      return {factor, solve};
    }
    return {plan_cholesky_factor(layout, dtype),
            plan_cholesky_solve(layout, dtype, inputs.b->columns)};
  }

  /// x replaces b; the factor replaces A if it is positive definite.
  template <Scalar T>
  static void compute(Workplace& workplace, const Operands<T>& operands, Report& report) {
    const Rcond rcond = workplace.options().rcond ? Rcond::estimated : Rcond::left_out;
    const RunOptions& options = workplace.run_options();
    if (workplace.options().assume == Assume::general) {
      report.outcome = dense::lu::solve(
          workplace.mesh(), operands.a, *operands.b, options, rcond,
          operands.is_adjoint ? Transpose::adjoint : Transpose::none,
          workplace.options().in_place ? dense::lu::Leaves::factor : dense::lu::Leaves::matrix);
    } else {
      report.outcome = solve(workplace.mesh(), operands.a, *operands.b, options, rcond,
                             workplace.options().assume);
    }
    report.error_estimate = bound_of_error(report.outcome, report.dtype);
  }

  template <Scalar T>
  static double write(Workplace& workplace, const Operands<T>& operands, const Report&,
                      const ArrayFiles& files) {
    return write_solution(workplace, *operands.b, files.front());
  }

  static Words words(const Options& options, const Report& report) {
    return {.headline = fmt::format("Solved A x = b for {}\n  A {}\n  b '{}'\n",
                                    plural(report.right_hand_sides.value_or(0), "right-hand side"),
                                    matrix_of(options, report), options.right_hand_sides),
            .remarks = {{report.outcome.forward_error ? &Outcome::forward_error : &Outcome::rcond,
                         remark_on_error("x", report.error_estimate)}}};
  }
};
// NOLINTEND(bugprone-unchecked-optional-access)

void add_solve_options(CLI::App& command, TypedOptions& typed, Options& options) {
  add_input(command, "A", options.matrix, "the matrix, an .npy file; sparse, an .npz or .mtx file");
  add_input(command, "b", options.right_hand_sides,
            "the right-hand sides, an .npy file; of a sparse A also an .mtx file");
  add_output(command, options, "where x goes");
  command.add_flag_callback(
      "--no-rcond", [&options] { options.rcond = false; },
      "leave out rcond, which takes about as long as five solves");
  command.add_flag_callback(
      "--in-place", [&options] { options.in_place = true; },
      "with --assume gen: half the memory, and x is not refined");
  add_job_options(command, options, typed);
  add_krylov_options(command, options);
  add_krylov_files(command, options);
}

int run_solve(Workplace& workplace, ProgressDisplay& progress) {
  if (is_sparse(workplace, workplace.options().matrix)) {
    return run_sparse_solve(workplace, progress);
  }
  refuse_krylov_options(workplace.options());
  require_general_in_place(workplace.options());
  return run_file_job<SolveJob>(workplace, progress);
}

void take_solve_options(const TypedOptions& typed, Options& options) {
  take_job_options(typed, options, {Assume::positive_definite, Assume::general});
}

constexpr std::string_view solve_notes =
    R"(A: Hermitian positive definite (--assume pos, the default), shape (n, n), both triangles given;
or, with --assume gen, any square matrix, solved by LU with row exchanges.
b: shape (n,) or (n, k), of A's dtype. x gets the shape, dtype and order of b. A matrix that is
not what is assumed has no answer: the message says where.

From Python to Python:
  numpy.save("A.npy", A); numpy.save("b.npy", b)
  $ shardsolve solve A.npy b.npy -o x.npy
  x = numpy.load("x.npy")

The certificate: the backward error says how well x solves the system, in units of rounding;
rcond says how much A amplifies errors. The first over the second is about the relative error
of x. With --no-rcond the backward error is all. A general matrix that is singular to working
precision has an answer and a warning; one that has none says at which pivot, or that elimination
lost too many digits. With --in-place the factor overwrites A in memory (not the file): half of
it is needed, x is not refined, and the backward error, ||A x - b|| / (||A||_F ||x|| + ||b||),
is estimated by a sketch of A.

A sparse A (.npz of scipy.sparse.save_npz, csr, csc or coo; Matrix Market .mtx) is square and not
factored: --method iterates until ||b - A x|| <= max(rtol ||b||, atol), with b - A x recomputed.
b may be Matrix Market, too; its columns are solved one by one. x is written if that holds for
all of them, and else there is the reason: cg needs a Hermitian positive definite A, minres a
Hermitian one, bicgstab and fgmres take any. The verdict and all bits are the same on any number
of devices. Method, preconditioner and the other options below 'Sparse A' are for that alone;
--no-rcond, --in-place, --assume and --tile for a dense one.)";

}  // namespace

constinit const Verb solve_verb =
    complete({.name = "solve",
              .about = "solve A x = b",
              .usage = "shardsolve solve A.npy b.npy -o x.npy [options]",
              .notes = solve_notes,
              .examples = R"(shardsolve solve A.npy b.npy -o x.npy
shardsolve solve A.npy b.npy -o x.npy --assume gen
shardsolve solve A.npy b.npy -o x.npy --assume gen --in-place
shardsolve solve A.npy b.npy -o x.npy --devices 4 --trace trace.json
shardsolve solve A.npz b.npy -o x.npy --method cg --preconditioner jacobi --rtol 1e-10
mpirun -np 4 shardsolve solve A.npy b.npy -o x.npy --backend cuda)",
              .add_options = &add_solve_options,
              .take_options = &take_solve_options,
              .run = &run_solve});

}  // namespace shardsolve::cli
