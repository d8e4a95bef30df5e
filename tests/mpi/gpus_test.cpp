// Ranks that are processes with a GPU each. Left out without GPUs: see support/backend.hpp. Then
// run this suite alone: --gtest_filter='ProcessGpus*'.

#include "mesh/cuda_loader.hpp"
#include "mpi/processes.hpp"
#include "programs/gather.hpp"
#include "runtime/trace_messages.hpp"
#include "support/backend.hpp"
#include "support/dtypes.hpp"
#include "support/matrix_zoo.hpp"
#include "support/rank_program.hpp"
#include "support/thrown.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/eigh.hpp>
#include <shardsolve/trace.hpp>
#include <shardsolve/trace_summary.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

using ::testing::HasSubstr;

Mesh make_gpu_mesh(GpuCommunicator communicator, std::optional<std::uint64_t> delays = {}) {
  auto transport = mesh::make_mpi_transport(test_communicator());
  mesh::CudaProcessOptions options{.devices = {}, .communicator = communicator, .delays = delays};
  const auto ranks = static_cast<std::size_t>(transport->ranks());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    options.devices.push_back(test_gpus()[rank % test_gpus().size()]);
  }
  options.may_share = ranks > test_gpus().size();
  return Mesh(
      mesh::MeshState::start(mesh::make_cuda_process_backend(std::move(transport), options)));
}

/// Copies entries between memory of the host and that of the mesh, in the process of each rank.
template <Scalar T>
void copy_here(Mesh& mesh, const DenseMatrix<T>& source, MatrixView<T> target) {
  run_on(mesh, [&source, target](mesh::Rank& rank) {
    rank.update().copy(target.data(), source.view().data(),
                       static_cast<std::size_t>(target.rows() * target.columns()) * sizeof(T));
    rank.update().synchronize();
  });
}

template <Scalar T>
std::vector<T> fetch_here(Mesh& mesh, MatrixView<T> source) {
  std::vector<T> values(static_cast<std::size_t>(source.rows() * source.columns()));
  run_on(mesh, [&values, source](mesh::Rank& rank) {
    rank.update().copy(values.data(), source.data(), values.size() * sizeof(T));
    rank.update().synchronize();
  });
  return values;
}

/// The bits of values: what is the same has the same.
template <Scalar T>
std::vector<std::int64_t> bits_of(const std::vector<T>& values) {
  std::vector<std::int64_t> bits((values.size() * sizeof(T) + 7) / 8, 0);
  if (!values.empty()) {
    std::memcpy(bits.data(), values.data(), values.size() * sizeof(T));
  }
  return bits;
}

/// One problem.
template <Scalar T>
struct Problem {
  DenseMatrix<T> a;
  DenseMatrix<T> b;
  SlabLayout layout;
};

template <Scalar T>
Problem<T> problem(std::int64_t n, std::int64_t ranks, std::int64_t tile) {
  return {dense<T>({.n = n, .seed = 3}), right_hand_sides<T>(n, 5),
          SlabLayout::even(n, ranks, tile)};
}

/// The entries of `whole` that rank `rank` has of a matrix or of right-hand sides.
template <Scalar T>
DenseMatrix<T> columns_of(const Problem<T>& p, std::int64_t rank) {
  const GlobalRange own = p.layout.segment(rank);
  DenseMatrix<T> part(p.layout.size(), own.size());
  copy_entries<T>(p.a.view().columns_from(own.begin.value(), own.size()), part.view());
  return part;
}

template <Scalar T>
DenseMatrix<T> rows_of(const Problem<T>& p, std::int64_t rank, std::int64_t columns) {
  const GlobalRange own = p.layout.segment(rank);
  DenseMatrix<T> part(own.size(), columns);
  copy_entries<T>(p.b.view().block(own.begin.value(), 0, own.size(), columns), part.view());
  return part;
}

/// What a problem is asked for. `alone`: also for one right-hand side, which has a kernel of its
/// own where GPUs write to each other's memory, and else other bits; condition numbers are found by
/// such solves.
enum class Job { solve, solve_alone, eigenpairs };

/// Bits of all eigenpairs, of one rank.
template <Scalar T, class Put, class Get>
std::vector<std::int64_t> find_eigenpairs(Mesh& mesh, const Problem<T>& p, Put put, Get get) {
  const ShardedMatrix<T> a = make_matrix<T>(mesh, p.layout);
  put(a);
  const Eigenvalues<T> found = eigh(mesh, a);
  EXPECT_TRUE(found.outcome.ok()) << found.outcome.message();
  const double limit = 16.0 * std::sqrt(static_cast<double>(p.layout.size())) * unit_roundoff<T>;
  EXPECT_LE(found.outcome.residual.value_or(1), limit);
  EXPECT_LE(found.outcome.orthogonality.value_or(1), limit);
  std::vector<std::int64_t> all = get(a);
  for (const std::vector<std::int64_t>& more :
       {bits_of(found.values),
        bits_of(std::vector<double>{found.outcome.residual.value_or(-1),
                                    found.outcome.orthogonality.value_or(-1)})}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

/// Bits of all that a problem gives, of one rank, by what `put` and `get` do with its memory.
template <Scalar T, class Put, class Get>
std::vector<std::int64_t> solve_all(Mesh& mesh, const Problem<T>& p, Job job, Put put, Get get) {
  if (job == Job::eigenpairs) {
    return find_eigenpairs(mesh, p, put, get);
  }
  const bool alone = job == Job::solve_alone;
  std::vector<std::int64_t> all;
  const auto add = [&all](const std::vector<std::int64_t>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  const ShardedMatrix<T> a = make_matrix<T>(mesh, p.layout);
  put(a);
  CholeskyFactor<T> factor = cholesky_factor(mesh, a);
  EXPECT_TRUE(factor.outcome.ok()) << factor.outcome.message();
  std::vector<double> numbers = {log_determinant(factor), factor.norm.value()};
  if (alone) {
    numbers.push_back(condition_estimate(mesh, factor));
  }
  for (const std::int64_t columns : {alone ? 1 : 2, 5}) {
    const RightHandSides<T> b = make_right_hand_sides<T>(mesh, p.layout, columns);
    put(b);
    const Outcome solved = cholesky_solve(mesh, factor, b);
    EXPECT_TRUE(solved.ok()) << solved.message();
    numbers.push_back(solved.backward_error.value_or(-1));
    add(get(b));
  }
  const Outcome inverted = cholesky_inverse(mesh, std::move(factor));
  numbers.push_back(inverted.backward_error.value_or(-1));
  add(get(a));
  add(bits_of(numbers));
  return all;
}

template <Scalar T>
std::vector<std::int64_t> in_processes(Mesh& mesh, const Problem<T>& p,
                                       Job job = Job::solve_alone) {
  struct Put {
    Mesh& mesh;
    const Problem<T>& p;
    std::int64_t rank;
    void operator()(const ShardedMatrix<T>& a) const {
      copy_here(mesh, columns_of(p, rank), a.slab(rank));
    }
    void operator()(const RightHandSides<T>& b) const {
      copy_here(mesh, rows_of(p, rank, b.columns()), b.block(rank));
    }
  };
  struct Get {
    Mesh& mesh;
    std::int64_t rank;
    auto operator()(const ShardedMatrix<T>& a) const {
      return bits_of(fetch_here(mesh, a.slab(rank)));
    }
    auto operator()(const RightHandSides<T>& b) const {
      return bits_of(fetch_here(mesh, b.block(rank)));
    }
  };
  const std::int64_t rank = own_rank(mesh);
  return solve_all(mesh, p, job, Put{mesh, p, rank}, Get{mesh, rank});
}

/// What rank `rank` has of the same, all ranks in this process.
template <Scalar T>
std::vector<std::int64_t> in_one_process(Mesh& mesh, const Problem<T>& p, Job job,
                                         std::int64_t rank) {
  struct Put {
    Mesh& mesh;
    const Problem<T>& p;
    void operator()(const ShardedMatrix<T>& a) const { copy(mesh, shard(p.a, p.layout), a); }
    void operator()(const RightHandSides<T>& b) const {
      DenseMatrix<T> whole(p.layout.size(), b.columns());
      copy_entries<T>(p.b.view().columns_from(0, b.columns()), whole.view());
      copy(mesh, shard_rows(whole, p.layout), b);
    }
  };
  struct Get {
    std::int64_t rank;
    auto operator()(const ShardedMatrix<T>& a) const { return bits(to_host(a).slab(rank)); }
    auto operator()(const RightHandSides<T>& b) const { return bits(to_host(b).block(rank)); }
    static std::vector<std::int64_t> bits(MatrixView<T> view) {
      const DenseMatrix<T> dense = copy_of(view);
      const T* data = dense.view().data();
      return bits_of(std::vector<T>(data, data + view.rows() * view.columns()));
    }
  };
  return solve_all(mesh, p, job, Put{mesh, p}, Get{rank});
}

class ProcessGpus : public ::testing::TestWithParam<GpuCommunicator> {
 protected:
  void SetUp() override {
    if (test_gpus().empty()) {
      GTEST_SKIP() << "no GPU: set SHARDSOLVE_TEST_GPUS";
    }
    const std::int64_t ranks = make_process_mesh().ranks();
    if (GetParam() == GpuCommunicator::nccl && ranks > std::ssize(test_gpus())) {
      GTEST_SKIP() << "NCCL wants a GPU for each process";
    }
  }

  /// Rank 0 says for each rank in turn what one process gives, and all compare.
  template <Scalar T>
  void compare(Mesh& mesh, const Problem<T>& p) {
    compare(mesh, p, GetParam() == GpuCommunicator::ipc ? Job::solve_alone : Job::solve);
  }
  template <Scalar T>
  void compare(Mesh& mesh, const Problem<T>& p, Job job) {
    const std::vector<std::int64_t> ours = in_processes(mesh, p, job);
    for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      std::vector<std::int64_t> theirs;
      if (mesh.is_here(0)) {
        theirs = in_one_process(transfer_mesh(mesh.ranks()), p, job, rank);
      }
      std::vector<std::int64_t> differ = {-1};
      run_on(mesh, [&](mesh::Rank& here) {
        const auto sizes =
            programs::gather_from_all(here, std::vector<std::int64_t>{std::ssize(theirs)});
        theirs.resize(static_cast<std::size_t>(sizes.front().front()));
        const auto expected = programs::gather_from_all(here, theirs);
        if (here.index() == rank) {
          differ = {std::int64_t{expected.front() != ours}};
        }
      });
      if (mesh.is_here(rank)) {
        EXPECT_EQ(differ.front(), 0) << "rank " << rank;
      }
    }
  }
};

TEST_P(ProcessGpus, GiveTheBitsOfOneProcess) {
  Mesh mesh = make_gpu_mesh(GetParam());
  compare(mesh, problem<double>(700, mesh.ranks(), 64));
  compare(mesh, problem<double>(3000, mesh.ranks(), 512));
  compare(mesh, problem<float>(530, mesh.ranks(), 32));
  compare(mesh, problem<std::complex<double>>(300, mesh.ranks(), 32));
}

TEST_P(ProcessGpus, WithDelays_GiveTheSameBits) {
  Mesh mesh = make_gpu_mesh(GetParam(), 7);
  for (int run = 0; run < 2; ++run) {
    compare(mesh, problem<double>(1500, mesh.ranks(), 128));
  }
}

TEST_P(ProcessGpus, GiveTheEigenpairsOfOneProcess) {
  Mesh mesh = make_gpu_mesh(GetParam());
  compare(mesh, problem<double>(700, mesh.ranks(), 64), Job::eigenpairs);
  compare(mesh, problem<double>(3000, mesh.ranks(), 64), Job::eigenpairs);
  compare(mesh, problem<float>(530, mesh.ranks(), 64), Job::eigenpairs);
  compare(mesh, problem<std::complex<double>>(300, mesh.ranks(), 64), Job::eigenpairs);
  compare(mesh, problem<std::complex<float>>(1100, mesh.ranks(), 64), Job::eigenpairs);
}

TEST_P(ProcessGpus, WithDelays_GiveTheSameEigenpairs) {
  Mesh mesh = make_gpu_mesh(GetParam(), 7);
  compare(mesh, problem<double>(1300, mesh.ranks(), 64), Job::eigenpairs);
}

TEST_P(ProcessGpus, FailureOfOneRank_IsThatOfAllAndTheNextSolveWorks) {
  Mesh mesh = make_gpu_mesh(GetParam());
  const Problem<double> p = problem<double>(300, mesh.ranks(), 32);
  const std::vector<std::int64_t> before = in_processes(mesh, p);
  for (std::int64_t culprit = 0; culprit < mesh.ranks(); ++culprit) {
    const auto error = thrown_by([&] {
      run_on(mesh, [culprit](mesh::Rank& rank) {
        broadcast_value(rank, 0, 1);
        if (rank.index() == culprit) {
          throw Error(ErrorKind::io, "planted");
        }
        for (std::int64_t root = 0; root < rank.count(); ++root) {
          broadcast_value(rank, root, 1);
        }
      });
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(std::string(error->what()), "planted");
    EXPECT_TRUE(in_processes(mesh, p) == before);
  }
}

/// With CUDA IPC the workspace is made anew where it grows, while the others have it open; also
/// after a call that has failed.
TEST_P(ProcessGpus, CallsThatGrowAndShrink_GiveTheBitsOfOneProcess) {
  Mesh mesh = make_gpu_mesh(GetParam());
  std::int64_t culprit = 0;
  for (const std::int64_t n : {300, 2500, 700, 4000, 300}) {
    SCOPED_TRACE(n);
    compare(mesh, problem<double>(n, mesh.ranks(), n < 1000 ? 32 : 256));
    const auto error = thrown_by([&] {
      run_on(mesh, [culprit](mesh::Rank& rank) {
        if (rank.index() == culprit) {
          throw Error(ErrorKind::io, "planted");
        }
        rank.expect_workspace(std::int64_t{256} << 20);
        broadcast_value(rank, 0, 1);
        rank.fetch(rank.transfer(), rank.workspace<double>(1, 1).data(), 1);
      });
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(std::string(error->what()), "planted");
    culprit = (culprit + 1) % mesh.ranks();
  }
}

TEST_P(ProcessGpus, DestroyedMeshes_GiveTheirMemoryBack) {
  if (GetParam() == GpuCommunicator::nccl) {
    GTEST_SKIP() << "NCCL keeps what it likes";
  }
  const auto available_after = [](const std::vector<std::int64_t>& sizes) {
    Mesh mesh = make_gpu_mesh(GetParam());
    for (const std::int64_t n : sizes) {
      in_processes(mesh, problem<double>(n, mesh.ranks(), 256));
    }
    return mesh.available_memory();
  };
  const std::vector<std::int64_t> sizes = {500, 2000, 4500};
  available_after(sizes);  // kernels that were loaded stay
  const std::int64_t before = available_after({260});
  for (int round = 0; round < 3; ++round) {
    available_after(sizes);
  }
  EXPECT_GE(available_after({260}), before - (std::int64_t{64} << 20));
}

/// Others have its memory open when it goes. Two meshes of the same processes.
TEST_P(ProcessGpus, MeshDestroyedEarlyInOneProcess_LeavesTheOthersWhole) {
  if (GetParam() == GpuCommunicator::nccl) {
    GTEST_SKIP() << "NCCL frees what it has of others by itself";
  }
  std::optional<Mesh> first = make_gpu_mesh(GetParam());
  Mesh second = make_gpu_mesh(GetParam());
  const Problem<double> p = problem<double>(700, second.ranks(), 64);
  const std::vector<std::int64_t> expected = in_processes(*first, p);
  if (second.is_here(0)) {
    first.reset();
  }
  EXPECT_TRUE(in_processes(second, p) == expected);
  first.reset();
  EXPECT_TRUE(in_processes(second, p) == expected);
  Mesh third = make_gpu_mesh(GetParam());
  EXPECT_TRUE(in_processes(third, p) == expected);
}

std::int64_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::distance(begin(files), end(files));
}

TEST_P(ProcessGpus, ManyCalls_LeaveNothingBehind) {
  Mesh mesh = make_gpu_mesh(GetParam());
  const Problem<double> p = problem<double>(260, mesh.ranks(), 32);
  const std::vector<std::int64_t> first = in_processes(mesh, p);
  const std::int64_t files = open_files();
  const std::int64_t memory = mesh.available_memory();
  for (int call = 0; call < 30; ++call) {  // each some ten calls
    ASSERT_TRUE(in_processes(mesh, p) == first) << call;
  }
  EXPECT_LE(open_files(), files + 2);
  EXPECT_GE(mesh.available_memory(), memory - (std::int64_t{64} << 20));
}

/// Of a factorisation, large enough for the ring, and a solve. Rank 0 has all of it.
Trace traced(Mesh& mesh) {
  const Problem<double> p = problem<double>(3000, mesh.ranks(), 512);
  const ShardedMatrix<double> a = make_matrix<double>(mesh, p.layout);
  const RightHandSides<double> b = make_right_hand_sides<double>(mesh, p.layout, 2);
  copy_here(mesh, columns_of(p, own_rank(mesh)), a.slab(own_rank(mesh)));
  copy_here(mesh, rows_of(p, own_rank(mesh), 2), b.block(own_rank(mesh)));
  Trace trace;
  EXPECT_TRUE(solve(mesh, a, b, {.trace = &trace}).ok());
  return trace;
}

TEST_P(ProcessGpus, Trace_SaysWhichLinkCopiesTook) {
  Mesh mesh = make_gpu_mesh(GetParam());
  if (mesh.ranks() == 1) {
    GTEST_SKIP() << "no link";
  }
  const Trace trace = traced(mesh);
  std::set<std::int64_t> ranks;
  for (const Trace::Lane& lane : trace.lanes()) {
    for (const TraceSpan& span : lane.spans) {
      if (span.bytes > 0) {
        EXPECT_FALSE(span.link.empty()) << span.name;
        ranks.insert(lane.rank);
      }
    }
  }
  EXPECT_EQ(ranks.size(), mesh.is_here(0) ? static_cast<std::size_t>(mesh.ranks()) : 1U);
}

TEST_P(ProcessGpus, Trace_HasBothEndsOfWhatIsReceived) {
  Mesh mesh = make_gpu_mesh(GetParam());
  const Trace trace = traced(mesh);
  if (!mesh.is_here(0)) {
    return;
  }
  std::size_t received = 0;
  for (const Trace::Lane& lane : trace.lanes()) {
    for (const TraceSpan& span : lane.spans) {
      received += static_cast<std::size_t>(
          std::count_if(span.messages.begin(), span.messages.end(),
                        [&lane](const TraceMessage& one) { return one.to == lane.rank; }));
    }
  }
  const auto flows = runtime::find_flows(trace);
  EXPECT_EQ(flows.size(), received);
  if (mesh.ranks() > 1) {
    EXPECT_GT(received, 20U);
  }
  constexpr double gpu_clocks = 5e-4;  // what times of theirs may be off
  for (const auto& flow : flows) {
    const auto& [message, sender, receiver] = flow;
    double error = gpu_clocks;
    for (const TraceClock& clock : trace.clocks()) {
      error += clock.rank == message.from || clock.rank == message.to ? clock.uncertainty : 0.0;
    }
    const std::chrono::duration<double> length = receiver.span->end - sender.span->begin;
    EXPECT_GE(length.count(), -error) << sender.span->name << " to " << receiver.span->name;
  }
  const TraceSummary summary = summarize(trace);
  double bytes = 0.0;
  for (const TraceSummary::Link& link : summary.links) {
    EXPECT_NE(link.from, link.to);
    bytes += link.bytes;
  }
  // Every panel reaches every other rank: half of the matrix but for the diagonal, and more.
  const double panels = 0.3 * 3000 * 3000 * sizeof(double);
  EXPECT_GE(bytes, panels * static_cast<double>(mesh.ranks() - 1));
}

TEST_P(ProcessGpus, OfTooShortAList_AreRefusedByAll) {
  const std::int64_t ranks = make_process_mesh().ranks();
  if (ranks == 1) {
    GTEST_SKIP() << "one is enough";
  }
  const auto error = thrown_by([&] {
    Mesh::mpi_cuda({.communicator = test_communicator(),
                    .devices = {test_gpus().front()},
                    .path = GetParam()});
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid_argument);
  EXPECT_THAT(error->what(), HasSubstr("rank 1: 1 GPUs listed"));
}

TEST_P(ProcessGpus, GpuThatOneProcessLacks_IsMissedByAll) {
  const auto error = thrown_by([&] {
    Mesh::mpi_cuda({.communicator = test_communicator(),
                    .devices = std::vector<int>(64, 99),
                    .path = GetParam()});
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::device);
  EXPECT_THAT(error->what(), HasSubstr("rank 0: GPU 99 asked for"));
}

INSTANTIATE_TEST_SUITE_P(By, ProcessGpus,
                         ::testing::Values(GpuCommunicator::ipc, GpuCommunicator::nccl),
                         [](const auto& tested) {
                           return tested.param == GpuCommunicator::ipc ? "Ipc" : "Nccl";
                         });

}  // namespace
}  // namespace shardsolve::testing
