// Many calls of all sizes, dtypes and endings in one process leave nothing behind: threads, file
// descriptors, memory. SHARDSOLVE_SOAK_SOLVES in the environment says how many.

#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "support/faulty_backend.hpp"
#include "support/fuzz.hpp"
#include "support/jobs.hpp"
#include "support/process_meshes.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <malloc.h>

#include <chrono>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
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

/// Kilobytes of anonymous memory that the process has.
std::int64_t anonymous_memory() {
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
enum class Ending : std::uint8_t { good, indefinite, nonfinite, failed_call, failed_allocation };

/// One call on `mesh`. With a fault planted either it or the answer comes out: a call that comes to
/// its end before the fault is fine.
template <Scalar T>
void one_call(Mesh& mesh, std::int64_t n, Ending ending, std::int64_t choice) {
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
  try {
    if (choice % 3 == 0 && !indefinite) {
      CholeskyFactor<T> factor = cholesky_factor(mesh, system.matrix(recipe));
      EXPECT_TRUE(cholesky_inverse(mesh, std::move(factor)).ok());
    } else {
      const Outcome outcome = solve(mesh, system.matrix(recipe), x);
      EXPECT_EQ(outcome.status == Status::not_positive_definite, indefinite) << outcome.message();
    }
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).rfind("planted", 0) == 0) << error.what();
  }
}

void one_call(Mesh& mesh, Dtype dtype, std::int64_t n, Ending ending, std::int64_t choice) {
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
    const auto ending =
        random.one_of(std::vector{Ending::good, Ending::good, Ending::indefinite, Ending::nonfinite,
                                  Ending::failed_call, Ending::failed_allocation});
    const std::int64_t choice = random.below(100);
    const std::int64_t culprit = random.below(ranks);
    if (random.one_in(3)) {
      plant(processes_->faults(culprit), ending, culprit, choice);
      processes_->together(
          [&](Mesh& mesh, std::int64_t) { one_call(mesh, dtype, n, ending, choice); });
      processes_->clear_faults();
    } else {
      plant(*faults_, ending, culprit, choice);
      one_call(*mesh_, dtype, n, ending, choice);
      faults_->clear();
    }
  }
  void renew() {
    mesh_ = std::make_unique<Mesh>(mesh::MeshState::start(
        std::make_unique<FaultyBackend>(std::make_unique<mesh::HostBackend>(ranks), faults_)));
    processes_ = std::make_unique<ProcessMeshes>(ranks);
  }

 private:
  std::shared_ptr<Faults> faults_ = std::make_shared<Faults>(ranks);
  std::unique_ptr<Mesh> mesh_;
  std::unique_ptr<ProcessMeshes> processes_;
};

TEST(Soak, ManyCallsOfAllKinds_LeaveNothingBehind) {
  const char* given = std::getenv("SHARDSOLVE_SOAK_SOLVES");
  const std::int64_t calls = given != nullptr ? std::atoll(given) : sanitized ? 100 : 300;
  constexpr std::int64_t before = 100;  // by then the allocator has seen every size
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
  EXPECT_EQ(last.threads, first.threads);
  EXPECT_EQ(last.descriptors, first.descriptors);
  if (!sanitized) {
    EXPECT_LE(last.allocated, first.allocated + 256 * 1024);
    EXPECT_LE(last.kilobytes, first.kilobytes + 8 * 1024);
  }
  fmt::print("{} calls: {} bytes more allocated, {} kB more in use\n", calls,
             last.allocated - first.allocated, last.kilobytes - first.kilobytes);
}

}  // namespace
}  // namespace shardsolve::testing
