// The inverse of A, from a file to a file.

#include "file_job.hpp"
#include "shared_options.hpp"
#include "verb.hpp"

#include <shardsolve/cholesky.hpp>

#include <utility>

namespace shardsolve::cli {
namespace {

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

struct InverseJob {
  static constexpr bool has_right_hand_sides = false;
  static constexpr bool has_tile = true;
  static constexpr std::string_view doing = "inverting";

  static std::vector<Result> results(const Options& options, const Inputs& inputs) {
    return {only_result("inverse", options, inputs.a)};
  }

  static std::vector<Plan> plans(const Workplace&, const SlabLayout& layout, const Inputs& inputs) {
    const Dtype dtype = inputs.a.dtype();
    return {plan_cholesky_factor(layout, dtype), plan_cholesky_inverse(layout, dtype)};
  }

  /// The inverse replaces A.
  template <Scalar T>
  static void compute(Workplace& workplace, const Operands<T>& operands, Report& report) {
    report.outcome = invert(workplace, operands.a);
    report.error_estimate = bound_of_error(report.outcome, report.dtype);
  }

  template <Scalar T>
  static double write(Workplace& workplace, const Operands<T>& operands, const Report&,
                      const ArrayFiles& files) {
    return write_hermitian(workplace, operands.a, files.front());
  }

  static Words words(const Options& options, const Report& report) {
    return {.headline = fmt::format("Inverted A\n  A {}\n", matrix_of(options, report)),
            .remarks = {{&Outcome::backward_error, ", on a random vector"},
                        {&Outcome::rcond, remark_on_error("the inverse", report.error_estimate)}}};
  }
};

void add_inverse_options(CLI::App& command, TypedOptions& typed, Options& options) {
  add_input(command, "A", options.matrix, "the matrix, an .npy file");
  add_output(command, options, "where the inverse goes");
  add_job_options(command, options, typed);
}

void take_inverse_options(const TypedOptions& typed, Options& options) {
  take_job_options(typed, options, {Assume::positive_definite});
}

constexpr std::string_view inverse_notes =
    R"(A: Hermitian positive definite (--assume pos, the default), shape (n, n), both triangles given.
The full inverse is written in A's dtype and order. To solve systems use 'solve': it is faster
and more accurate.)";

}  // namespace

constinit const Verb inverse_verb =
    complete({.name = "inverse",
              .about = "write the inverse of A",
              .usage = "shardsolve inverse A.npy -o X.npy [options]",
              .notes = inverse_notes,
              .examples = R"(shardsolve inverse A.npy -o X.npy
shardsolve inverse A.npy -o X.npy --force --devices 4)",
              .add_options = &add_inverse_options,
              .take_options = &take_inverse_options,
              .run = &run_file_job<InverseJob>});

}  // namespace shardsolve::cli
