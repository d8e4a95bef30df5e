// Eigenvalues and eigenvectors of A, from a file to two.

#include "file_job.hpp"
#include "option_values.hpp"
#include "report_lines.hpp"
#include "shared_options.hpp"
#include "verb.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/eigh.hpp>
#include <shardsolve/plan.hpp>

#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace shardsolve::cli {
namespace {

constexpr const char* accepted_indices =
    "LO:HI is accepted, the numbers of the first and of the last eigenvalue, counted from 0 in "
    "ascending order, LO <= HI: 0:9 for the ten smallest";
constexpr const char* accepted_range =
    "LO,HI is accepted, numbers with LO < HI, for eigenvalues above LO and up to HI: -1.5,2 or "
    "-inf,0";

std::string_view sort_of(bool vectors) { return vectors ? "eigenpair" : "eigenvalue"; }

/// How many eigenvalues there will be; nothing if only the work can tell.
std::optional<std::int64_t> count_of(const EighRequest& request, const Input& a) {
  if (request.values) {
    return std::nullopt;
  }
  if (!request.indices) {
    return a.columns;
  }
  const auto [first, last] = *request.indices;
  if (last > a.columns) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("--indices {}:{} given, and '{}' has {}, numbered from 0: {}", first,
                            last - 1, a.path(), plural(a.columns, "eigenvalue"), accepted_indices));
  }
  return last - first;
}

/// What error of the eigenvalues the certificate leaves, relative to ||A||_1: for each pair (w, z)
/// there is an eigenvalue within ||A z - w z||, and w is rounded once. Nothing without vectors.
std::optional<double> error_of_values(const Outcome& outcome, Dtype dtype) {
  return outcome.residual ? std::optional(*outcome.residual + unit_roundoff_of(dtype))
                          : std::nullopt;
}

struct EighJob {
  static constexpr bool has_right_hand_sides = false;
  static constexpr bool has_tile = false;
  static constexpr std::string_view doing = "finding eigenvalues of";

  static std::vector<Result> results(const Options& options, const Inputs& inputs) {
    const std::optional<std::int64_t> count = count_of(options.eigh, inputs.a);
    std::vector<Result> all = {{.key = "values",
                                .name = "eigenvalues",
                                .path = options.output + ".values.npy",
                                .dtype = real_dtype(inputs.a.dtype())}};
    if (options.eigh.vectors) {
      all.push_back({.key = "vectors",
                     .name = "eigenvectors",
                     .path = options.output + ".vectors.npy",
                     .dtype = inputs.a.dtype(),
                     .fortran_order = true});  // each of them in one piece
    }
    if (count) {
      set_shapes(all, inputs.a.columns, *count);
    }
    return all;
  }

  static std::vector<Plan> plans(const Workplace& workplace, const SlabLayout& layout,
                                 const Inputs& inputs) {
    const Options& options = workplace.options();
    const Dtype dtype = inputs.a.dtype();
    if (!inputs.second) {
      return {plan_eigh(layout, dtype, options.eigh.vectors)};
    }
    const std::int64_t tile = workplace.layout_to_factor(inputs.a.columns, dtype).tile();
    Plan factor = plan_cholesky_factor(SlabLayout(layout.boundaries(), tile), dtype);
    factor.matrix_bytes *= 2;  // A and B
    return {factor, plan_eigh(layout, dtype, options.eigh.vectors, tile)};
  }

  /// Eigenvectors replace A, the factor of B replaces B.
  template <Scalar T>
  static void compute(Workplace& workplace, const Operands<T>& operands, Report& report) {
    const Eigenvalues<T> found =
        operands.second
            ? find_with_second(workplace, operands, report)
            : eigh(workplace.mesh(), operands.a, workplace.options().eigh, workplace.run_options());
    report.outcome = found.outcome;
    report.eigenvalues.emplace(found.values.begin(), found.values.end());
    if (!found.values.empty() && !operands.second) {
      report.error_estimate = error_of_values(report.outcome, report.dtype);
    }
    set_shapes(report.results, report.n, std::ssize(found.values));
  }

  template <Scalar T>
  static double write(Workplace& workplace, const Operands<T>& operands, const Report& report,
                      const ArrayFiles& files) {
    const auto& values = report.eigenvalues.value();
    double seconds = write_numbers(workplace, std::vector<RealOf<T>>(values.begin(), values.end()),
                                   files.front());
    if (files.size() > 1) {
      seconds += write_columns(workplace, operands.a, files[1]);
    }
    return seconds;
  }

  static Words words(const Options& options, const Report& report) {
    const auto& values = report.eigenvalues.value();
    std::string headline = fmt::format(
        "Found {} of {}", plural(std::ssize(values), sort_of(options.eigh.vectors)), report.n);
    if (!values.empty()) {
      headline += fmt::format(", from {:.10g} to {:.10g}", values.front(), values.back());
    }
    headline += fmt::format("\n  A {}\n", matrix_of(options, report));
    const std::string remark =
        report.error_estimate
            ? fmt::format("; eigenvalues within about {:.1e} ||A||_1", *report.error_estimate)
            : "";
    if (!options.second_matrix.empty()) {
      headline += fmt::format("  B '{}'\n", options.second_matrix);
    }
    return {.headline = headline, .remarks = {{&Outcome::residual, remark}}};
  }

 private:
  template <Scalar T>
  static Eigenvalues<T> find_with_second(Workplace& workplace, const Operands<T>& operands,
                                         Report& report) {
    const CholeskyFactor<T> b =
        cholesky_factor(workplace.mesh(), operands.second.value(), workplace.run_options());
    if (!b.outcome.ok()) {
      report.is_about_second_matrix = true;
      return {.outcome = b.outcome};
    }
    Eigenvalues<T> found =
        eigh(workplace.mesh(), operands.a, b, workplace.options().eigh, workplace.run_options());
    found.outcome.seconds += b.outcome.seconds;
    found.outcome.flops += b.outcome.flops;
    return found;
  }

  static void set_shapes(std::vector<Result>& results, std::int64_t n, std::int64_t count) {
    results.front().shape = {count};
    if (results.size() > 1) {
      results[1].shape = {n, count};
    }
  }
};

EighRequest::Indices indices_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon != std::string::npos) {
    const auto first = to_whole_number(text.substr(0, colon), 0, SlabLayout::largest_size);
    const auto last = to_whole_number(text.substr(colon + 1), 0, SlabLayout::largest_size);
    if (first && last && *first <= *last) {
      return {*first, *last + 1};
    }
  }
  reject("--indices", text, accepted_indices);
}

std::optional<double> to_number(const std::string& text) {
  double value = 0.0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stopped == end && !std::isnan(value) ? std::optional(value)
                                                                      : std::nullopt;
}

EighRequest::Values range_of(const std::string& text) {
  const std::vector<std::string> parts = parts_of(text);
  if (parts.size() == 2) {
    const auto low = to_number(parts.front());
    const auto high = to_number(parts.back());
    if (low && high && *low < *high) {
      return {*low, *high};
    }
  }
  reject("--range", text, accepted_range);
}

void add_eigh_options(CLI::App& command, TypedOptions& typed, Options& options) {
  add_input(command, "A", options.matrix, "the matrix, an .npy file");
  add_output(command, options, "PREFIX.values.npy and PREFIX.vectors.npy are written", "PREFIX");
  command.add_flag_callback(
      "--values-only", [&options] { options.eigh.vectors = false; },
      "no eigenvectors; takes less time and memory, and there is no certificate");
  command
      .add_option("--indices", typed.indices,
                  "these alone, both included: 0:9 are the ten smallest (default: all)")
      ->type_name("LO:HI")
      ->check(not_empty(accepted_indices));
  command.add_option("--range", typed.range, "those above LO and up to HI alone (default: all)")
      ->type_name("LO,HI")
      ->check(not_empty(accepted_range));
  command
      .add_option("--b", options.second_matrix,
                  "A z = w B z with this Hermitian positive definite matrix, an .npy file")
      ->type_name("FILE")
      ->check(file_name());
  add_run_options(command, options, typed);
}

void take_eigh_options(const TypedOptions& typed, Options& options) {
  if (!typed.indices.empty() && !typed.range.empty()) {
    throw CLI::ValidationError(
        "--range", fmt::format("'{}' given beside --indices '{}': one of them is accepted",
                               typed.range, typed.indices));
  }
  if (!typed.indices.empty()) {
    options.eigh.indices = indices_of(typed.indices);
  }
  if (!typed.range.empty()) {
    options.eigh.values = range_of(typed.range);
  }
  take_devices(typed.devices, options);
}

constexpr std::string_view eigh_notes =
    R"(A: Hermitian, shape (n, n), both triangles given. A z = w z for all eigenvalues w, or for some:

  PREFIX.values.npy    shape (k,): the w, real, ascending
  PREFIX.vectors.npy   shape (n, k), of A's dtype: column j is the z of values[j], of norm 1

From Python to Python:
  numpy.save("H.npy", H)
  $ shardsolve eigh H.npy -o H
  w, z = numpy.load("H.values.npy"), numpy.load("H.vectors.npy")

With --b B.npy, positive definite, of A's shape and dtype: A z = w B z, with Z^H B Z = I.

Either both files are written or none. With --range nobody knows before how many there will be,
so that a full disk is found after the work; without it, before.

The certificate: the residual says how well A z = w z holds, the orthogonality how well
Z^H Z = I. Each w is as far from an eigenvalue of A as the residual says; a z is known the
better the farther the next eigenvalue is. With --b the residual is relative to
||A|| + |w| ||B||, and the error of w may be larger by the condition number of B.)";

}  // namespace

constinit const Verb eigh_verb = complete({.name = "eigh",
                                           .about = "eigenvalues and eigenvectors of A",
                                           .usage = "shardsolve eigh A.npy -o PREFIX [options]",
                                           .notes = eigh_notes,
                                           .examples = R"(shardsolve eigh H.npy -o H
shardsolve eigh H.npy -o lowest --indices 0:9 --devices 4
shardsolve eigh H.npy -o H --values-only --range -1.5,2 --force
mpirun -np 4 shardsolve eigh H.npy -o H)",
                                           .add_options = &add_eigh_options,
                                           .take_options = &take_eigh_options,
                                           .run = &run_file_job<EighJob>});

}  // namespace shardsolve::cli
