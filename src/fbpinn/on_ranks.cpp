#include "fbpinn/on_ranks.hpp"

#include "core/floating_point.hpp"
#include "mesh/mesh_state.hpp"
#include "programs/gather.hpp"
#include "runtime/host/host_queue.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace shardsolve::fbpinn {
namespace on_mesh {

using Work = std::function<void(std::int64_t)>;
using Tell = std::function<void(std::int64_t, sparse::Packet&)>;

void launch(mesh::Rank& rank, const char* name, std::function<void()> work) {
  static_cast<runtime::host::HostQueue&>(rank.update()).launch({name}, std::move(work));
}

void leave_if_asked(const mesh::Rank& rank) {
  if (rank.stop_requested()) {
    throw Error(ErrorKind::cancelled, "the call was cancelled as asked");
  }
}

/// All ranks in this process: whoever is free takes the next piece.
void do_pieces(Mesh& mesh, const RunOptions& run, const char* name, std::int64_t count,
               const Work& work) {
  std::atomic<std::int64_t> next = 0;
  mesh.state().run(run, [&](mesh::Rank& rank) {
    rank.report(name, 0.0);
    launch(rank, name, [&] {
      for (std::int64_t i = next++; i < count && !run.cancel.stop_requested(); i = next++) {
        rank.beat(name);
        rank.report(name, static_cast<double>(i) / static_cast<double>(count));
        try {
          work(i);
        } catch (...) {
          next = count;  // nobody begins another piece
          throw;
        }
      }
    });
    rank.finish(rank.update());
    leave_if_asked(rank);
  });
}

/// The packets of all ranks, which each fills for itself.
void exchange(mesh::Rank& rank, const sparse::Packet& mine,
              const std::function<void(std::int64_t, sparse::Packet&)>& read) {
  const auto sizes = programs::gather_from_all(
      rank, std::vector<std::int64_t>{static_cast<std::int64_t>(mine.bytes().size())});
  std::int64_t total = 0;
  for (const auto& size : sizes) {
    total += size[0];
  }
  const MatrixView<std::byte> all = rank.workspace<std::byte>(total, 1);
  std::vector<comm::Bytes> pieces;
  std::byte* at = all.data();
  for (const auto& size : sizes) {
    pieces.push_back({at, static_cast<std::size_t>(size[0])});
    at += size[0];
  }
  const std::vector<comm::Bytes> kept = pieces;
  std::copy(mine.bytes().begin(), mine.bytes().end(),
            static_cast<std::byte*>(pieces[static_cast<std::size_t>(rank.index())].data));
  rank.communicator().all_gather(rank.transfer(), std::move(pieces));
  rank.finish(rank.transfer());
  for (std::int64_t other = 0; other < rank.count(); ++other) {
    if (other != rank.index()) {
      const comm::Bytes& piece = kept[static_cast<std::size_t>(other)];
      sparse::Packet packet(static_cast<const std::byte*>(piece.data), piece.size);
      read(other, packet);
    }
  }
}

/// One rank in this process: it does every so-many-th piece, and gets what the others have done.
void share_pieces(Mesh& mesh, const RunOptions& run, const char* name, std::int64_t count,
                  const Work& work, const Tell& tell) {
  // So many of each rank at a time: what is told needs memory.
  constexpr std::int64_t at_a_time = 32;
  const std::int64_t ranks = mesh.ranks();
  for (std::int64_t begin = 0; begin < count; begin += at_a_time * ranks) {
    const std::int64_t end = std::min(count, begin + at_a_time * ranks);
    mesh.state().run(run, [&](mesh::Rank& rank) {
      const auto each_of = [&](std::int64_t of, const Work& act) {
        for (std::int64_t i = begin + of; i < end; i += ranks) {
          act(i);
        }
      };
      launch(rank, name, [&] {
        each_of(rank.index(), [&](std::int64_t i) {
          rank.beat(name);
          rank.report(name, static_cast<double>(i) / static_cast<double>(count));
          work(i);
        });
      });
      rank.finish(rank.update());
      leave_if_asked(rank);
      sparse::Packet mine;
      each_of(rank.index(), [&](std::int64_t i) { tell(i, mine); });
      exchange(rank, mine, [&](std::int64_t other, sparse::Packet& packet) {
        each_of(other, [&](std::int64_t i) { tell(i, packet); });
      });
    });
  }
}

std::int64_t threads_of_host() {
  constexpr std::int64_t max_threads = 16;
  return std::clamp<std::int64_t>(std::thread::hardware_concurrency(), 1, max_threads);
}

struct JoinedThreads {
  std::vector<std::thread> threads;

  JoinedThreads() = default;
  ~JoinedThreads() {
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  JoinedThreads(const JoinedThreads&) = delete;
  JoinedThreads& operator=(const JoinedThreads&) = delete;
};

/// Pieces of the host's share of a call whose ranks are GPUs, by threads that last as long.
void do_on_host(const RunOptions& run, std::int64_t count, const Work& work) {
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto some = [&] {
    const core::IeeeArithmetic ieee;
    try {
      for (std::int64_t i = next++; i < count && !run.cancel.stop_requested(); i = next++) {
        work(i);
      }
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      failure = failure ? failure : std::current_exception();
    }
  };
  {
    const std::int64_t wanted = std::min(count, threads_of_host());
    JoinedThreads others;
    try {
      while (static_cast<std::int64_t>(others.threads.size()) + 1 < wanted) {
        others.threads.emplace_back(some);
      }
    } catch (const std::system_error&) {
      // Those that there are do all of it.
    }
    some();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
  if (run.cancel.stop_requested()) {
    throw Error(ErrorKind::cancelled, "the call was cancelled as asked");
  }
}

sparse::Workers on_gpu(Mesh& mesh, const RunOptions& run) {
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    if (!mesh.is_here(rank)) {
      throw Error(ErrorKind::unsupported,
                  fmt::format("networks in boxes are trained by GPUs of one process; a mesh of {} "
                              "GPUs in several processes given: make one of the GPUs of a single "
                              "process, as Mesh::cuda({{0, 1}})",
                              mesh.ranks()));
    }
  }
  sparse::Workers workers;
  workers.devices = &mesh;
  workers.joint_fronts = joint_fronts_of_gpus;
  workers.count = threads_of_host();
  workers.run = &run;
  workers.each = [&run](std::int64_t count, const Work& work) { do_on_host(run, count, work); };
  workers.share = [each = workers.each](std::int64_t count, const Work& work,
                                        const Tell& /*tell*/) { each(count, work); };
  return workers;
}

}  // namespace on_mesh

sparse::Workers on_ranks(Mesh& mesh, const RunOptions& run) {
  if (mesh.memory() != Memory::host) {
    return on_mesh::on_gpu(mesh, run);
  }
  std::int64_t here = 0;
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    here += mesh.is_here(rank) ? 1 : 0;
  }
  sparse::Workers workers;
  workers.count = mesh.ranks();
  const auto phase = std::make_shared<const char*>("start");
  workers.enter = [phase](const char* now) { *phase = now; };
  if (here == mesh.ranks()) {
    workers.each = [&mesh, &run, phase](std::int64_t count, const on_mesh::Work& work) {
      on_mesh::do_pieces(mesh, run, *phase, count, work);
    };
    workers.share = [each = workers.each](std::int64_t count, const on_mesh::Work& work,
                                          const on_mesh::Tell& /*tell*/) { each(count, work); };
    return workers;
  }
  workers.share = [&mesh, &run, phase](std::int64_t count, const on_mesh::Work& work,
                                       const on_mesh::Tell& tell) {
    on_mesh::share_pieces(mesh, run, *phase, count, work, tell);
  };
  workers.once = [share = workers.share](const std::function<void()>& work,
                                         const std::function<void(sparse::Packet&)>& tell) {
    share(
        1, [&](std::int64_t) { work(); },
        [&](std::int64_t, sparse::Packet& packet) { tell(packet); });
  };
  workers.together = [&mesh, &run, phase](const std::function<void(mesh::Rank&)>& program) {
    mesh.state().run(run, [&](mesh::Rank& rank) {
      rank.report(*phase, 0.0);
      program(rank);
    });
  };
  return workers;
}

}  // namespace shardsolve::fbpinn
