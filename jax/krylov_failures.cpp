#include "jax/krylov_failures.hpp"

#include "krylov/statuses.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>

namespace shardsolve::jax {
namespace krylov_failures {
namespace {

/// Failures that nobody has asked for yet.
struct Failures {
  std::mutex mutex;
  std::deque<nlohmann::json> all;
};
Failures& failures() {
  static auto& all = *new Failures;
  return all;
}
constexpr std::size_t max_failures = 256;
constexpr std::array roles{"solve", "tangent", "adjoint"};

}  // namespace
}  // namespace krylov_failures

void note_krylov_failure(const krylov::Report& report, const krylov::Problem& problem,
                         std::int64_t role) {
  using namespace krylov_failures;
  const auto status = static_cast<krylov::Status>(report.status);
  if (krylov::is_converged(status)) {
    return;
  }
  const std::lock_guard lock(failures().mutex);
  failures().all.push_back({{"role", roles.at(static_cast<std::size_t>(role))},
                            {"method", krylov::name(problem.method)},
                            {"status", report.status},
                            {"iterations", report.iterations},
                            {"residual", report.residual},
                            {"tolerance", report.tolerance},
                            {"message", krylov::message(report, krylov::cycle_of(problem))}});
  if (failures().all.size() > max_failures) {
    failures().all.pop_front();
  }
}

std::string take_krylov_failures() {
  using namespace krylov_failures;
  const std::lock_guard lock(failures().mutex);
  const nlohmann::json taken(std::exchange(failures().all, {}));
  return taken.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace shardsolve::jax
