// shardsolve_bench_fbpinn: networks in boxes, trained by least squares, beside classical methods.
//
// The problems have exact or reference solutions; errors are mean |u - exact| / std(exact) on
// points that training has not seen. Times are those of whole calls, the least of several rounds:
// the machine may be shared.

#include <shardsolve/fbpinn.hpp>
#include <shardsolve/mesh.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <complex>
#include <cstdint>
#include <iostream>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

namespace shardsolve::bench {
namespace {

namespace fb = fbpinn;
using std::numbers::pi;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string problem = "laplace";
  std::int64_t boxes = 16;
  std::int64_t units = 16;
  std::int64_t side = 8;  ///< points along each axis for each box
  std::string backend = "host";
  std::int64_t ranks = 4;
  std::vector<int> gpus{0};
  std::int64_t rounds = 3;
  double frequency = 16;
  std::uint64_t seed = 0;
  double scale = 1.0;
  bool plan = false;
  bool json = false;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Of all threads of this process: what a busy machine does not change much.
double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/// Of memory of this process, at its peak.
double peak_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

/// u = mean over w = 2, 4, ..., of sin(w pi x) sin(w pi y).
struct Multiscale {
  std::vector<double> frequencies;

  explicit Multiscale(double largest) {
    for (double w = 2; w <= largest; w *= 2) {
      frequencies.push_back(w);
    }
  }
  double solution(double x, double y) const {
    double sum = 0;
    for (const double w : frequencies) {
      sum += std::sin(w * pi * x) * std::sin(w * pi * y);
    }
    return sum / static_cast<double>(frequencies.size());
  }
  /// -(u_xx + u_yy)
  double source(double x, double y) const {
    double sum = 0;
    for (const double w : frequencies) {
      sum += w * w * std::sin(w * pi * x) * std::sin(w * pi * y);
    }
    return 2 * pi * pi * sum / static_cast<double>(frequencies.size());
  }
  double x_derivative(double x, double y) const {
    double sum = 0;
    for (const double w : frequencies) {
      sum += w * pi * std::cos(w * pi * x) * std::sin(w * pi * y);
    }
    return sum / static_cast<double>(frequencies.size());
  }
};

/// A problem, and points with the values that u should have there.
struct Case {
  fb::Problem problem;
  std::vector<double> points;
  std::vector<double> reference;
};

Case multiscale(const Options& options, bool nonlinear) {
  const Multiscale exact(options.frequency);
  const std::int64_t m = options.boxes;
  const std::vector<fb::Interval> square{{0, 1}, {0, 1}};
  fb::Problem problem(fb::Boxes::regular(square, {m, m}, 2.9), {.hidden = {options.units}});
  problem.constrain([s = 1 / options.frequency](auto x, auto u) {
    return fb::tanh(x[0] / s) * fb::tanh((1 - x[0]) / s) * fb::tanh(x[1] / s) *
           fb::tanh((1 - x[1]) / s) * u;
  });
  const std::int64_t n = options.side * m;
  if (nonlinear) {
    problem.add("interior", fb::grid(square, {n, n}), [exact](fb::Coordinates x, const auto& u) {
      const double f =
          -exact.source(x[0], x[1]) + exact.solution(x[0], x[1]) * exact.x_derivative(x[0], x[1]);
      return u(0, 0) + u(1, 1) + u() * u(0) - f;
    });
  } else {
    problem.add("interior", fb::grid(square, {n, n}), [exact](fb::Coordinates x, const auto& u) {
      return u(0, 0) + u(1, 1) + exact.source(x[0], x[1]);
    });
  }
  Case result{std::move(problem), fb::grid(square, {6 * m, 6 * m}), {}};
  for (std::size_t p = 0; p < result.points.size(); p += 2) {
    result.reference.push_back(exact.solution(result.points[p], result.points[p + 1]));
  }
  return result;
}

/// u'' + 2 d u' + w0^2 u = 0, u(0) = 1, u'(0) = 0.
Case oscillator(const Options& options) {
  const double d = 2;
  const double w0 = 60;
  const std::int64_t m = options.boxes;
  fb::Problem problem(fb::Boxes::regular({{0, 1}}, {m}, 2.9), {.hidden = {options.units}});
  problem.add(
      "interior", fb::grid({{0, 1}}, {options.side * m}),
      [=](fb::Coordinates, const auto& u) { return u(0, 0) + 2 * d * u(0) + w0 * w0 * u(); });
  problem.add("start", {0.0}, [](fb::Coordinates, const auto& u) { return u() - 1; }, 1e3);
  problem.add("rest", {0.0}, [](fb::Coordinates, const auto& u) { return u(0); }, 10);
  Case result{std::move(problem), fb::grid({{0, 1}}, {50 * m}), {}};
  const double w = std::sqrt(w0 * w0 - d * d);
  const double phi = std::atan(-d / w);
  for (const double t : result.points) {
    result.reference.push_back(std::exp(-d * t) * std::cos(phi + w * t) / std::cos(phi));
  }
  return result;
}

/// u_tt = u_xx + u_yy on [-1, 1]^2 x [0, 1], u = 0 on the walls, u_t(0) = 0, and at first four
/// Gaussians of width 0.2 times what is 0 on the walls.
struct Waves {
  static constexpr double width = 0.2;
  static constexpr double centers[4][2] = {{-0.35, -0.3}, {0.35, -0.2}, {-0.2, 0.35}, {0.3, 0.3}};
  static constexpr double heights[4] = {1.0, -0.8, 0.6, -0.5};

  template <class S>
  static S walls(const S& x, const S& y) {
    return fb::cos(x * (pi / 2)) * fb::cos(y * (pi / 2));
  }
  template <class S>
  static S start(const S& x, const S& y) {
    S sum(0.0);
    for (int i = 0; i < 4; ++i) {
      const S a = (x - centers[i][0]) / width;
      const S b = (y - centers[i][1]) / width;
      sum = sum + heights[i] * fb::exp((a * a + b * b) * -0.5);
    }
    return sum;
  }
};

/// By finite differences of order 8 in space and 4 in time on n^2 cells, odd about the walls.
class WaveReference {
 public:
  explicit WaveReference(std::int64_t n) : n_(n), h_(2.0 / static_cast<double>(n)) {
    u_.resize(static_cast<std::size_t>((n + 1) * (n + 1)));
    for (std::int64_t i = 1; i < n; ++i) {
      for (std::int64_t j = 1; j < n; ++j) {
        u_[at(i, j)] = Waves::walls(place(i), place(j)) * Waves::start(place(i), place(j));
      }
    }
  }
  double place(std::int64_t i) const { return -1 + static_cast<double>(i) * h_; }
  std::size_t at(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(i * (n_ + 1) + j);
  }

  /// Values at t = 1 / times, 2 / times, ..., each after so many steps of the scheme.
  std::vector<std::vector<double>> run(int times, int steps) const {
    const double dt = 1.0 / (times * steps);
    std::vector<double> now = u_;
    std::vector<double> before = u_;  // u_t = 0: u(-dt) = u(dt), half of what a step adds
    const std::vector<double> added = change(u_, dt);
    for (std::size_t k = 0; k < before.size(); ++k) {
      before[k] += 0.5 * added[k];
    }
    std::vector<std::vector<double>> result;
    for (int time = 0; time < times; ++time) {
      for (int step = 0; step < steps; ++step) {
        std::vector<double> next = change(now, dt);
        for (std::size_t k = 0; k < next.size(); ++k) {
          next[k] += 2 * now[k] - before[k];
        }
        before = std::move(now);
        now = std::move(next);
      }
      result.push_back(now);
    }
    return result;
  }

 private:
  double value(const std::vector<double>& u, std::int64_t i, std::int64_t j) const {
    double sign = 1;
    for (std::int64_t* const k : {&i, &j}) {
      if (*k < 0 || *k > n_) {
        *k = *k < 0 ? -*k : 2 * n_ - *k;
        sign = -sign;
      }
    }
    return sign * u[at(i, j)];
  }
  std::vector<double> laplacian(const std::vector<double>& u) const {
    constexpr double c[5] = {-205.0 / 72, 8.0 / 5, -1.0 / 5, 8.0 / 315, -1.0 / 560};
    std::vector<double> result(u.size());
    for (std::int64_t i = 1; i < n_; ++i) {
      for (std::int64_t j = 1; j < n_; ++j) {
        double sum = 2 * c[0] * u[at(i, j)];
        for (std::int64_t k = 1; k <= 4; ++k) {
          sum += c[k] * (value(u, i + k, j) + value(u, i - k, j) + value(u, i, j + k) +
                         value(u, i, j - k));
        }
        result[at(i, j)] = sum / (h_ * h_);
      }
    }
    return result;
  }
  /// dt^2 L u + dt^4 / 12 L^2 u.
  std::vector<double> change(const std::vector<double>& u, double dt) const {
    const std::vector<double> once = laplacian(u);
    const std::vector<double> twice = laplacian(once);
    std::vector<double> result(u.size());
    for (std::size_t k = 0; k < u.size(); ++k) {
      result[k] = dt * dt * (once[k] + dt * dt / 12 * twice[k]);
    }
    return result;
  }

  std::int64_t n_;
  double h_;
  std::vector<double> u_;
};

Case wave(const Options& options) {
  const std::int64_t m = options.boxes;
  const std::vector<fb::Interval> domain{{-1, 1}, {-1, 1}, {0, 1}};
  fb::Problem problem(fb::Boxes::regular(domain, {m, m, m}, 2.9), {.hidden = {options.units}});
  problem.constrain([](auto x, auto v) {
    const auto growth = fb::tanh(4 * x[2]);
    return Waves::walls(x[0], x[1]) * (Waves::start(x[0], x[1]) + growth * growth * v);
  });
  const std::int64_t n = options.side * m;
  problem.add("interior", fb::grid(domain, {n, n, n}),
              [](fb::Coordinates, const auto& u) { return u(2, 2) - u(0, 0) - u(1, 1); });
  Case result{std::move(problem), {}, {}};
  constexpr std::int64_t cells = 300;
  constexpr int times = 5;
  const WaveReference reference(cells);
  const auto values = reference.run(times, 60);
  for (int t = 0; t < times; ++t) {
    for (std::int64_t i = 0; i <= cells; i += 2) {
      for (std::int64_t j = 0; j <= cells; j += 2) {
        result.points.insert(result.points.end(),
                             {reference.place(i), reference.place(j), (t + 1.0) / times});
        result.reference.push_back(values[static_cast<std::size_t>(t)][reference.at(i, j)]);
      }
    }
  }
  return result;
}

Case case_of(const Options& options) {
  if (options.problem == "oscillator") {
    return oscillator(options);
  }
  if (options.problem == "wave") {
    return wave(options);
  }
  return multiscale(options, options.problem == "nonlinear");
}

void print(const Options& options, const fb::Trained& trained, double error, double cpu,
           double evaluation) {
  const fb::TrainingTimes& t = trained.times;
  fmt::print(
      "{}: {} boxes, K={}, {} rows, kept {} of {} columns ({:.1f} rows each)\n"
      "  {}, error {:.2e}, certificate {:.1e}, condition {:.1e}, shift {:.0e}, {} refinements, "
      "losses {::.2e}\n"
      "  {:.3f} s ({:.3f} s of CPU time): geometry {:.3f}, residual {:.3f}, rows {:.3f}, factor "
      "{:.3f}, solve {:.3f}; "
      "evaluation {:.3f}\n"
      "  flops: nested dissection {:.2e} (largest front {}), band {:.2e}, dense {:.2e}\n",
      options.problem, trained.problem.boxes().count(), options.units, trained.rows, trained.kept(),
      trained.columns, static_cast<double>(trained.rows) / static_cast<double>(trained.columns),
      name(trained.outcome.status), error, trained.certificate, trained.condition, trained.shift,
      trained.refinements, trained.losses, trained.outcome.seconds, cpu, t.geometry, t.residual,
      t.rows, t.factor, t.solve, evaluation, trained.costs.nested_dissection.flops,
      trained.costs.nested_dissection.largest, trained.costs.band.flops, trained.costs.dense.flops);
  for (const std::string& warning : trained.warnings) {
    fmt::print("  warning: {}\n", warning);
  }
  std::fflush(stdout);
}

Mesh mesh_of(const Options& options) {
  if (options.backend == "cuda") {
    return Mesh::cuda(options.gpus);
  }
  if (options.backend == "mpi") {
    return Mesh::mpi();
  }
  return options.ranks == 0 ? Mesh::serial() : Mesh::host(options.ranks);
}

/// The rank of this process: 0 if it has all.
std::int64_t rank_here(const Mesh& mesh) {
  std::int64_t rank = 0;
  while (!mesh.is_here(rank)) {
    ++rank;
  }
  return rank;
}

void measure(const Options& options) {
  Mesh mesh = mesh_of(options);
  const std::int64_t rank = rank_here(mesh);
  const Case made = case_of(options);
  if (options.plan && !options.json && rank == 0) {
    std::cout << fb::plan_least_squares(made.problem).text();
  }
  fb::LeastSquaresOptions training;
  training.seed = options.seed;
  training.hidden_scale = options.scale;
  double least = std::numeric_limits<double>::infinity();
  double least_cpu = least;
  nlohmann::json best;
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    const double before = cpu_seconds();
    const fb::Trained trained = fb::least_squares(mesh, made.problem, training);
    const double cpu = cpu_seconds() - before;
    least_cpu = std::min(least_cpu, cpu);
    const auto start = Clock::now();
    const double error = fb::relative_error(trained.evaluate(mesh, made.points), made.reference);
    const double evaluation = seconds_since(start);
    if (trained.outcome.seconds < least) {
      least = trained.outcome.seconds;
      best = {{"seconds", least},
              {"error", error},
              {"rows", trained.rows},
              {"columns", trained.columns},
              {"kept", trained.kept()},
              {"status", name(trained.outcome.status)},
              {"solves", trained.losses.size() - 1},
              {"certificate", trained.certificate}};
      if (!options.json && rank == 0) {
        print(options, trained, error, cpu, evaluation);
      }
    }
  }
  if (options.json) {
    best["cpu_seconds"] = least_cpu;
    best["rank"] = rank;
    best["peak_bytes"] = peak_bytes();
    std::cout << best.dump() + '\n';
  } else {
    std::cout << fmt::format("  rank {}: {:.3f} GB of memory at its peak\n", rank,
                             1e-9 * peak_bytes());
  }
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app{"Networks in boxes, trained by least squares"};
  app.add_option("--problem", options.problem)
      ->check(CLI::IsMember({"laplace", "nonlinear", "oscillator", "wave"}));
  app.add_option("--boxes", options.boxes, "along each axis");
  app.add_option("--units", options.units, "K, of the hidden layer");
  app.add_option("--side", options.side, "points along each axis for each box");
  app.add_option("--backend", options.backend,
                 "cuda: GPUs, mpi: a process a rank, started by mpirun; whatever --ranks says")
      ->check(CLI::IsMember({"host", "cuda", "mpi"}));
  app.add_option("--ranks", options.ranks, "0: the calling thread");
  app.add_option("--gpus", options.gpus, "their numbers")->delimiter(',');
  app.add_option("--rounds", options.rounds);
  app.add_option("--frequency", options.frequency, "the largest");
  app.add_option("--seed", options.seed);
  app.add_option("--scale", options.scale, "of the random hidden weights");
  app.add_flag("--plan", options.plan, "tell first what it will take");
  app.add_flag("--json", options.json,
               "the best round as one line of JSON (of each process), and nothing else");
  CLI11_PARSE(app, argc, argv);
  measure(options);
  return 0;
}

}  // namespace
}  // namespace shardsolve::bench

int main(int argc, char** argv) {
  try {
    return shardsolve::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
