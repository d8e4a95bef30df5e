// The inverse of A, from a file to a file.

#include "dense/lu/solve.hpp"
#include "file_job.hpp"
#include "shared_options.hpp"
#include "verb.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/lu.hpp>

#include <utility>

namespace shardsolve::cli {
namespace {

/// Of a positive definite matrix, in its place.
template <Scalar T>
Outcome invert(Workplace& workplace, const ShardedMatrix<T>& a) {
  CholeskyFactor<T> factor = cholesky_factor(workplace.mesh(), a, workplace.run_options());
  if (!factor.outcome.ok()) {
    return factor.outcome;
  }
  const Outcome factored = factor.outcome;
  Outcome outcome = cholesky_inverse(workplace.mesh(), std::move(factor), workplace.run_options());
  outcome.seconds += factored.seconds;
  outcome.flops += factored.flops;
  return outcome;
}

/// Of a general matrix: in its place, or in memory of the factor, from where it goes to A's.
template <Scalar T>
Outcome invert_general(Workplace& workplace, const Operands<T>& operands) {
  const ShardedMatrix<T>& a = operands.a;
  const RunOptions& options = workplace.run_options();
  LuFactor<T> factor = workplace.options().in_place ? lu_factor(workplace.mesh(), a, a, options)
                                                    : lu_factor(workplace.mesh(), a, options);
  if (!factor.outcome.ok()) {
    return factor.outcome;
  }
  const Outcome factored = factor.outcome;
  const ShardedMatrix<T> x = factor.slabs;
  // Of a file in C order these are A^H and its inverse.
  Outcome outcome = dense::lu::inverse(workplace.mesh(), std::move(factor), options,
                                       operands.is_adjoint ? Transpose::adjoint : Transpose::none);
  if (outcome.ok() && !workplace.options().in_place) {
    outcome.seconds += workplace.run([x, a](mesh::Rank& rank) {
      rank.kernels<T>().copy(rank.update(), x.slab(rank.index()), a.slab(rank.index()));
      rank.finish(rank.update());
    });
  }
  outcome.seconds += factored.seconds;
  outcome.flops += factored.flops;
  return outcome;
}

struct InverseJob {
  static constexpr bool has_right_hand_sides = false;
  static constexpr bool has_tile = true;
  static constexpr std::string_view doing = "inverting";

  static std::vector<Result> results(const Options& options, const Inputs& inputs) {
    return {only_result("inverse", options, inputs.a)};
  }

  static std::vector<Plan> plans(const Workplace& workplace, const SlabLayout& layout,
                                 const Inputs& inputs) {
    const Dtype dtype = inputs.a.dtype();
    if (workplace.options().assume == Assume::general) {
      return workplace.options().in_place
                 ? std::vector{plan_lu_factor_in_place(layout, dtype),
                               plan_lu_inverse_in_place(layout, dtype)}
                 : std::vector{plan_lu_factor(layout, dtype), plan_lu_inverse(layout, dtype)};
    }
    return {plan_cholesky_factor(layout, dtype), plan_cholesky_inverse(layout, dtype)};
  }

  /// The inverse replaces A.
  template <Scalar T>
  static void compute(Workplace& workplace, const Operands<T>& operands, Report& report) {
    report.outcome = workplace.options().assume == Assume::general
                         ? invert_general(workplace, operands)
                         : invert(workplace, operands.a);
    if (report.outcome.ok() && report.outcome.rcond < 2.0 * unit_roundoff<T>) {
      report.outcome.status = Status::nearly_singular;
    }
    report.error_estimate = bound_of_error(report.outcome, report.dtype);
  }

  template <Scalar T>
  static double write(Workplace& workplace, const Operands<T>& operands, const Report&,
                      const ArrayFiles& files) {
    // Columns of an array in Fortran order, conjugated rows of one in C order.
    return write_hermitian(workplace, operands.a, files.front());
  }

  static Words words(const Options& options, const Report& report) {
    return {.headline = fmt::format("Inverted A\n  A {}\n", matrix_of(options, report)),
            .remarks = {{&Outcome::backward_error, options.assume == Assume::general
                                                       ? ", on random vectors"
                                                       : ", on a random vector"},
                        {&Outcome::rcond, remark_on_error("the inverse", report.error_estimate)}}};
  }
};

void add_inverse_options(CLI::App& command, TypedOptions& typed, Options& options) {
  add_input(command, "A", options.matrix, "the matrix, an .npy file");
  add_output(command, options, "where the inverse goes");
  command.add_flag_callback(
      "--in-place", [&options] { options.in_place = true; },
      "with --assume gen: half the memory, and X as elimination leaves it");
  add_job_options(command, options, typed);
}

void take_inverse_options(const TypedOptions& typed, Options& options) {
  take_job_options(typed, options, {Assume::positive_definite, Assume::general});
}

int run_inverse(Workplace& workplace, ProgressDisplay& progress) {
  require_general_in_place(workplace.options());
  return run_file_job<InverseJob>(workplace, progress);
}

constexpr std::string_view inverse_notes =
    R"(A: Hermitian positive definite (--assume pos, the default), shape (n, n), both triangles given;
or, with --assume gen, any square matrix, by LU with row exchanges.
The full inverse is written in A's dtype and order. To solve systems use 'solve': it is faster
and more accurate.

The certificate: the backward error is ||A X - I|| / (||A|| ||X||), found with random vectors; of a
general matrix in a file in C order it is that of X A. rcond is exact. Where elimination loses
digits on a general matrix, X is solved for, in some six times the time. With --in-place, where X
takes the memory of A (not the file) and half of it is needed, there is then no X.)";

}  // namespace

constinit const Verb inverse_verb =
    complete({.name = "inverse",
              .about = "write the inverse of A",
              .usage = "shardsolve inverse A.npy -o X.npy [options]",
              .notes = inverse_notes,
              .examples = R"(shardsolve inverse A.npy -o X.npy
shardsolve inverse A.npy -o X.npy --assume gen
shardsolve inverse A.npy -o X.npy --assume gen --in-place
shardsolve inverse A.npy -o X.npy --force --devices 4)",
              .add_options = &add_inverse_options,
              .take_options = &take_inverse_options,
              .run = &run_inverse});

}  // namespace shardsolve::cli
