// Many calls of all sizes, dtypes and endings in one process leave nothing behind: threads, file
// descriptors, memory. SHARDSOLVE_SOAK_SOLVES in the environment says how many.

#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "support/faulty_backend.hpp"
#include "support/fuzz.hpp"
#include "support/jobs.hpp"
#include "support/process_meshes.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/run_options.hpp>
#include <shardsolve/trace.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <malloc.h>

#include <atomic>
#include <chrono>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace shardsolve::testing {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true;  // their allocators keep what is freed for a while
#else
constexpr bool sanitized = false;
#endif

std::int64_t entries(const char* directory) {
  using Iterator = std::filesystem::directory_iterator;
  return std::distance(Iterator(directory), Iterator());
}

/// Kilobytes of anonymous memory that the process has, but for what its allocator keeps for later.
std::int64_t anonymous_memory() {
  ::malloc_trim(0);
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "RssAnon:") {
      std::int64_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes;
    }
  }
  return 0;
}

/// What the process has of the system.
struct Possessions {
  std::int64_t threads = entries("/proc/self/task");
  std::int64_t descriptors = entries("/proc/self/fd");
  std::int64_t kilobytes = anonymous_memory();
  std::int64_t allocated = static_cast<std::int64_t>(mallinfo2().uordblks + mallinfo2().hblkhd);
};

/// Threads that were joined are gone from the list a moment later.
void await_threads(std::int64_t count) {
  for (int look = 0; look < 200 && entries("/proc/self/task") > count; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// How a call ends.
enum class Ending : std::uint8_t {
  good,
  traced,
  indefinite,
  nonfinite,
  cancelled,
  failed_call,
  failed_allocation
};

/// One call on `mesh`; whether it has thrown. With a fault planted either that or the answer comes
/// out: a call that comes to its end before the fault, or before it sees that it is cancelled, is
/// fine.
template <Scalar T>
bool one_call(Mesh& mesh, std::int64_t n, Ending ending, std::int64_t choice) {
  const SmallSystem<T> system(mesh, n, 5);
  const bool indefinite = ending == Ending::indefinite && n > 0;
  const matgen::Recipe recipe{.kind = indefinite ? matgen::Kind::indefinite : matgen::Kind::random,
                              .n = n,
                              .seed = 3,
                              .row = GlobalIndex(n / 2)};
  const RightHandSides<T> x = system.sides(1 + choice % 7);
  if (ending == Ending::nonfinite && mesh.is_here(0) && !x.block(0).empty()) {
    x.block(0)(0, 0) = std::numeric_limits<RealOf<T>>::quiet_NaN();
  }
  Trace trace;
  std::stop_source stop;
  RunOptions options;
  options.cancel = stop.get_token();
  if (ending == Ending::traced) {
    options.trace = &trace;
  } else if (ending == Ending::cancelled) {
    stop.request_stop();
  }
  try {
    if (choice % 3 == 0 && !indefinite) {
      CholeskyFactor<T> factor = cholesky_factor(mesh, system.matrix(recipe), options);
      EXPECT_TRUE(cholesky_inverse(mesh, std::move(factor), options).ok());
    } else {
      const Outcome outcome = solve(mesh, system.matrix(recipe), x, options);
      EXPECT_EQ(outcome.status == Status::not_positive_definite, indefinite) << outcome.message();
    }
  } catch (const Error& error) {
    EXPECT_TRUE(ending == Ending::cancelled ? error.kind() == ErrorKind::cancelled
                                            : std::string(error.what()).rfind("planted", 0) == 0)
        << error.what();
    return true;
  }
  return false;
}

bool one_call(Mesh& mesh, Dtype dtype, std::int64_t n, Ending ending, std::int64_t choice) {
  switch (dtype) {
    case Dtype::float32:
      return one_call<float>(mesh, n, ending, choice);
    case Dtype::float64:
      return one_call<double>(mesh, n, ending, choice);
    case Dtype::complex64:
      return one_call<std::complex<float>>(mesh, n, ending, choice);
    case Dtype::complex128:
      return one_call<std::complex<double>>(mesh, n, ending, choice);
  }
  return false;
}

/// Plants what `ending` asks for on a rank.
void plant(Faults& faults, Ending ending, std::int64_t rank, std::int64_t number) {
  faults.clear();
  if (ending == Ending::failed_call) {
    faults.strike_call(rank, number, Fault::failed);
  } else if (ending == Ending::failed_allocation) {
    faults.strike_allocation(rank, number % 20);
  }
}

/// A mesh in this process, and one of several; now and then new ones.
class Meshes {
 public:
  static constexpr std::int64_t ranks = 3;

  void call(Random& random) {
    if (random.one_in(20)) {
      renew();
    }
    const Dtype dtype = random.one_of(
        std::vector{Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128});
    const auto n = random.one_of(std::vector<std::int64_t>{0, 1, 7, 22, 40, 90});
    const auto ending = random.one_of(std::vector{Ending::good, Ending::traced, Ending::indefinite,
                                                  Ending::nonfinite, Ending::cancelled,
                                                  Ending::failed_call, Ending::failed_allocation});
    const std::int64_t choice = random.below(100);
    const std::int64_t culprit = random.below(ranks);
    if (random.one_in(3)) {
      plant(processes_->faults(culprit), ending, culprit, choice);
      std::atomic<bool> thrown = false;
      processes_->together([&](Mesh& mesh, std::int64_t) {
        if (one_call(mesh, dtype, n, ending, choice)) {
          thrown = true;
        }
      });
      thrown_ += thrown ? 1 : 0;
      processes_->clear_faults();
    } else {
      plant(*faults_, ending, culprit, choice);
      thrown_ += one_call(*mesh_, dtype, n, ending, choice) ? 1 : 0;
      faults_->clear();
    }
  }
  /// Calls that ended by an exception.
  std::int64_t thrown() const { return thrown_; }
  void renew() {
    mesh_ = std::make_unique<Mesh>(mesh::MeshState::start(
        std::make_unique<FaultyBackend>(std::make_unique<mesh::HostBackend>(ranks), faults_)));
    processes_ = std::make_unique<ProcessMeshes>(ranks);
  }

 private:
  std::shared_ptr<Faults> faults_ = std::make_shared<Faults>(ranks);
  std::unique_ptr<Mesh> mesh_;
  std::unique_ptr<ProcessMeshes> processes_;
  std::int64_t thrown_ = 0;
};

TEST(Soak, ManyCallsOfAllKinds_LeaveNothingBehind) {
  const char* given = std::getenv("SHARDSOLVE_SOAK_SOLVES");
  const std::int64_t calls = given != nullptr ? std::atoll(given) : sanitized ? 100 : 500;
  constexpr std::int64_t before = 500;  // by then the allocator has seen every size on every thread
  ::mallopt(M_ARENA_MAX, 1);            // mallinfo2 counts one
  Meshes meshes;
  meshes.renew();
  Random random(1);
  for (std::int64_t call = 0; call < before; ++call) {
    meshes.call(random);
  }
  meshes.renew();
  std::this_thread::sleep_for(std::chrono::seconds(1));  // joined threads leave the list
  const Possessions first;
  for (std::int64_t call = 0; call < calls; ++call) {
    SCOPED_TRACE(fmt::format("call {}", call));
    meshes.call(random);
    ASSERT_FALSE(HasFailure());
  }
  meshes.renew();
  await_threads(first.threads);
  const Possessions last;
  EXPECT_GE(meshes.thrown(), calls / 10);
  EXPECT_EQ(last.threads, first.threads);
  EXPECT_EQ(last.descriptors, first.descriptors);
  if (!sanitized) {
    EXPECT_LE(last.allocated, first.allocated + 128 * 1024);
    EXPECT_LE(last.kilobytes, first.kilobytes + 4 * 1024);
  }
  fmt::print("{} calls, {} thrown: {} bytes more allocated, {} kB more in use\n", calls,
             meshes.thrown(), last.allocated - first.allocated, last.kilobytes - first.kilobytes);
}

}  // namespace
}  // namespace shardsolve::testing
