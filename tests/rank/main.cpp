// One process of a mesh: started by distributed/process_death_test.cpp and
// process_networks_test.cpp, several at a time (support/rank_processes.hpp).
//
//   shardsolve_test_rank <rank> <kind> <gpus> <victim> <signal> <socket>...
//
// <kind>: what the processes do when the victim sends the signal to itself. On CPUs: messages;
// workspace, join or window, where they agree on the end of shared memory, make a window in it, or
// read there. On GPUs: ipc or nccl. Or, on CPUs, cpu_<job>: that job of jobs.hpp again and
// again, in which the signal comes somewhere; on GPUs ipc_<job> or nccl_<job>. <gpus>: of all
// ranks, with commas, or - ; <socket>: a descriptor for each other rank, in their order. The others
// are to be told of it and to go on by themselves: exit code 0.
//
// answers_cpu, answers_ipc, answers_nccl: no signal. Says what the jobs of network_jobs.hpp give,
// what comes of a failure of the last rank alone, and what the first job gives after that.

#include "comm/tcp/tcp_transport.hpp"
#include "mesh/cuda_loader.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/process_backend.hpp"
#include "support/backend.hpp"
#include "support/jobs.hpp"
#include "support/network_jobs.hpp"
#include "support/rank_program.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

constexpr std::chrono::duration<double> silence_limit(3.0);

struct Arguments {
  std::int64_t rank = 0;
  std::string kind;
  std::vector<int> gpus;
  std::int64_t victim = 0;
  int signal = 0;
  std::vector<int> sockets;
};

Arguments parse(const std::vector<std::string>& words) {
  Arguments arguments{.rank = std::stoll(words.at(1)),
                      .kind = words.at(2),
                      .victim = std::stoll(words.at(4)),
                      .signal = std::stoi(words.at(5))};
  std::istringstream gpus(words.at(3) == "-" ? "" : words.at(3));
  for (std::string gpu; std::getline(gpus, gpu, ',');) {
    arguments.gpus.push_back(std::stoi(gpu));
  }
  for (std::size_t word = 6; word < words.size(); ++word) {
    arguments.sockets.push_back(std::stoi(words[word]));
  }
  return arguments;
}

Mesh make_process_mesh(const Arguments& arguments) {
  const std::size_t ranks = arguments.sockets.size() + 1;
  std::vector<comm::tcp::Peer> peers(ranks);
  for (std::size_t rank = 0, socket = 0; rank < ranks; ++rank) {
    if (static_cast<std::int64_t>(rank) != arguments.rank) {
      peers[rank] = {comm::tcp::Socket(arguments.sockets[socket++]), fmt::format("rank {}", rank)};
    }
  }
  auto transport = std::make_unique<comm::tcp::TcpTransport>(arguments.rank, std::move(peers),
                                                             std::vector<std::int64_t>(ranks, 0));
  if (arguments.gpus.empty()) {
    return Mesh(
        mesh::MeshState::start(std::make_unique<mesh::ProcessBackend>(std::move(transport))));
  }
  return Mesh(mesh::MeshState::start(mesh::make_cuda_process_backend(
      std::move(transport),
      {.devices = arguments.gpus,
       .communicator = arguments.kind.find("ipc") != std::string::npos ? GpuCommunicator::ipc
                                                                       : GpuCommunicator::nccl,
       .may_share = true,
       .delays = {}})));
}

/// Ends or stops this process when the others have been sent for what its GPU has yet to reach:
/// their streams wait for it.
void strike(mesh::Rank& rank, const Arguments& arguments) {
  constexpr std::int64_t numbers = std::int64_t{1} << 26U;
  constexpr int pieces = 1500;  // more than a stream takes without waiting
  const bool on_gpu = !arguments.gpus.empty();
  const MatrixView<double> room = rank.workspace<double>(on_gpu ? numbers : 1, 1);
  for (int piece = 0; on_gpu && piece < pieces; ++piece) {
    rank.kernels<double>().fill(rank.transfer(), piece, room);
  }
  rank.communicator().broadcast(rank.transfer(), {room.data(), sizeof(double)}, rank.index());
  std::raise(arguments.signal);
}

/// By windows in shared memory, more of it than share(): nothing of the victim's is on its way.
void publish(mesh::Rank& rank, const Arguments& arguments) {
  const auto strike_at = [&](std::string_view kind) {
    if (arguments.kind == kind && rank.index() == arguments.victim) {
      std::raise(arguments.signal);
    }
  };
  strike_at("workspace");
  rank.expect_workspace(std::int64_t{1} << 20U);
  strike_at("join");
  comm::Window& window = rank.window(1024);
  if (window.base(0) == window.base(1)) {
    throw Error(ErrorKind::internal, "the window is copied");
  }
  for (int turn = 0; turn < 1000; ++turn) {
    for (std::int64_t root = 0; root < rank.count(); ++root) {
      if (turn == 5 && root == arguments.victim && root == rank.index()) {
        std::raise(arguments.signal);
      }
      window.publish(rank.transfer(), {root, 0, sizeof(double)});
      window.release(rank.transfer());
      window.reclaim(rank.transfer());
      rank.transfer().synchronize();
    }
  }
}

/// Where memory is shared, all have that of all others open after it.
void share(mesh::Rank& rank) {
  rank.expect_workspace(1024);
  rank.window(1024);
  broadcast_value(rank, 0, 1);
}

void communicate(mesh::Rank& rank, const Arguments& arguments) {
  if (arguments.gpus.empty() && arguments.kind != "messages") {
    return publish(rank, arguments);
  }
  for (int turn = 0; turn < 1000; ++turn) {
    for (std::int64_t root = 0; root < rank.count(); ++root) {
      if (turn == 5 && root == arguments.victim && root == rank.index()) {
        strike(rank, arguments);
      }
      broadcast_value(rank, root, turn);
    }
  }
}

/// What the job ends with that is done until a process is lost.
std::string outcome_of_job(Mesh& mesh, const Arguments& arguments, const Job& job) {
  job.run(mesh, {});
  std::jthread striker;
  if (arguments.rank == arguments.victim) {
    striker = std::jthread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      ::kill(::getpid(), arguments.signal);
    });
  }
  const auto end = std::chrono::steady_clock::now() + 20 * silence_limit;
  try {
    while (std::chrono::steady_clock::now() < end) {
      job.run(mesh, {.silence_limit = silence_limit});
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// The job that a kind names.
std::optional<Job> job_of(const std::string& kind) {
  for (const Job& job : jobs()) {
    for (const char* const devices : {"cpu_", "ipc_", "nccl_"}) {
      if (kind == devices + job.name) {
        return job;
      }
    }
  }
  return std::nullopt;
}

/// What a call of the program ends with.
std::string outcome_of(Mesh& mesh, const mesh::RankProgram& program) {
  try {
    run_on(mesh, program, {.silence_limit = silence_limit});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Says what the mesh gives for each job.
void answer(const Arguments& arguments) {
  Mesh mesh = make_process_mesh(arguments);
  const auto say = [&](const NetworkJob& job) {
    fmt::print("{}\n", answer_of(mesh, job));
    std::fflush(stdout);
  };
  for (const NetworkJob& job : network_jobs()) {
    say(job);
  }
  const auto last = static_cast<std::int64_t>(arguments.sockets.size());
  say({"failure", [&](Mesh& on, const RunOptions& options) {
         return train_failing_networks(on, options, arguments.rank == last);
       }});
  say(network_jobs().front());
}

/// Says what has become of a call that the victim does not return from, of the next one, and of a
/// solve on the own device alone.
void run(const Arguments& arguments) {
  Mesh mesh = make_process_mesh(arguments);
  run_on(mesh, share);
  const auto begin = std::chrono::steady_clock::now();
  const std::optional<Job> job = job_of(arguments.kind);
  fmt::print("call: {}\n",
             job ? outcome_of_job(mesh, arguments, *job)
                 : outcome_of(mesh, [&](mesh::Rank& rank) { communicate(rank, arguments); }));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  fmt::print("{}: {:.1f} s\n",
             taken < 2 * silence_limit + std::chrono::seconds(2) ? "in time" : "late",
             taken.count());
  fmt::print("next: {}\n", outcome_of(mesh, share));
  Mesh alone = make_mesh(1);
  const ::testing::AssertionResult solved = still_solves(alone);
  fmt::print("alone: {}\n", solved ? "solved" : solved.message());
}

}  // namespace
}  // namespace shardsolve::testing

int main(int argc, char** argv) {
  using namespace shardsolve::testing;
  const Arguments arguments = parse({argv, argv + argc});
  ::unsetenv("SHARDSOLVE_TEST_GPUS");  // those of this process are its own to say
  if (!arguments.gpus.empty()) {
    const int own = arguments.gpus.at(static_cast<std::size_t>(arguments.rank));
    ::setenv("SHARDSOLVE_TEST_GPUS", std::to_string(own).c_str(), 1);
  }
  try {
    arguments.kind.starts_with("answers") ? answer(arguments) : run(arguments);
    return 0;
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}
