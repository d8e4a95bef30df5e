#include "fbpinn/on_ranks.hpp"

#include "core/floating_point.hpp"
#include "mesh/mesh_state.hpp"
#include "programs/deliver.hpp"
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
using TellOne = std::function<void(const sparse::Delivery&, sparse::Packet&)>;

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

constexpr std::int64_t max_threads = 16;

std::int64_t threads_of_host() {
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

/// By threads of the host that last as long as the pieces. Nobody begins one when it `is_over`.
void do_on_host(std::int64_t count, const Work& work, const std::function<bool()>& is_over) {
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto some = [&] {
    const core::IeeeArithmetic ieee;
    try {
      for (std::int64_t i = next++; i < count && !is_over(); i = next++) {
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
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch)
      // Those that there are do all of it.
    }
    some();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

/// The packets of all ranks, which each fills for itself.
void exchange(mesh::Rank& rank, const sparse::Packet& mine, const Tell& read) {
  const auto sizes = programs::gather_from_all(
      rank, std::vector<std::int64_t>{static_cast<std::int64_t>(mine.bytes().size())});
  std::vector<std::int64_t> begin{0};
  for (const auto& size : sizes) {
    begin.push_back(begin.back() + size[0]);
  }
  // In memory of the device, which is what communicators move.
  std::byte* const table =
      rank.workspace<std::byte>(std::max<std::int64_t>(begin.back(), 1), 1).data();
  rank.update().copy(table + begin[static_cast<std::size_t>(rank.index())], mine.bytes().data(),
                     mine.bytes().size());
  programs::gather_table(rank, table, begin);
  const std::vector<std::byte> all =
      rank.fetch(rank.transfer(), static_cast<const std::byte*>(table), begin.back());
  for (std::int64_t other = 0; other < rank.count(); ++other) {
    if (other != rank.index()) {
      const auto at = static_cast<std::size_t>(other);
      sparse::Packet packet(all.data() + begin[at], static_cast<std::size_t>(sizes[at][0]));
      read(other, packet);
    }
  }
}

/// The rank's pieces: on its queue, or by threads of the host where that is a GPU's.
void do_own(mesh::Rank& rank, Memory memory, const char* name, std::int64_t count,
            const Work& work) {
  if (memory == Memory::host) {
    launch(rank, name, [&] {
      for (std::int64_t i = 0; i < count && !rank.stop_requested(); ++i) {
        rank.beat(name);
        work(i);
      }
    });
    rank.finish(rank.update());
  } else {
    const auto one = [&](std::int64_t i) {
      rank.leave_if_failed();
      rank.beat(name);
      work(i);
    };
    do_on_host(count, one, [&rank] { return rank.stop_requested(); });
  }
  leave_if_asked(rank);
}

/// One rank in this process: it does its pieces, those that `process_of` has in [begin, end) for
/// it, and gets what the others have done.
void do_range(mesh::Rank& rank, Memory memory, const char* name,
              const std::vector<std::int64_t>& process_of, std::int64_t begin, std::int64_t end,
              const Work& work, const Tell& tell) {
  std::vector<std::vector<std::int64_t>> pieces(static_cast<std::size_t>(rank.count()));
  for (std::int64_t i = begin; i < end; ++i) {
    pieces[static_cast<std::size_t>(process_of[static_cast<std::size_t>(i)])].push_back(i);
  }
  const auto tell_all_of = [&](std::int64_t of, sparse::Packet& packet) {
    for (const std::int64_t piece : pieces[static_cast<std::size_t>(of)]) {
      tell(piece, packet);
    }
  };
  const auto& own = pieces[static_cast<std::size_t>(rank.index())];
  do_own(rank, memory, name, static_cast<std::int64_t>(own.size()), [&](std::int64_t i) {
    const std::int64_t piece = own[static_cast<std::size_t>(i)];
    if (memory == Memory::host) {  // one after the other
      rank.report(name, static_cast<double>(piece) / static_cast<double>(process_of.size()));
    }
    work(piece);
  });
  sparse::Packet mine;
  tell_all_of(rank.index(), mine);
  exchange(rank, mine, tell_all_of);
}

/// So many pieces at a time; 0: all.
void share_pieces(Mesh& mesh, const RunOptions& run, const char* name,
                  const std::vector<std::int64_t>& process_of, std::int64_t at_a_time,
                  const Work& work, const Tell& tell) {
  const auto count = static_cast<std::int64_t>(process_of.size());
  for (std::int64_t begin = 0; begin < count;) {
    const std::int64_t end = at_a_time > 0 ? std::min(count, begin + at_a_time) : count;
    mesh.state().run(run, [&](mesh::Rank& rank) {
      rank.report(name, static_cast<double>(begin) / static_cast<double>(count));
      do_range(rank, mesh.memory(), name, process_of, begin, end, work, tell);
    });
    begin = end;
  }
}

void deliver_pieces(Mesh& mesh, const RunOptions& run, const char* name,
                    const std::vector<sparse::Delivery>& deliveries, const TellOne& tell) {
  if (deliveries.empty()) {
    return;
  }
  mesh.state().run(run, [&](mesh::Rank& rank) {
    rank.report(name, 0.0);
    std::vector<sparse::Packet> packets(static_cast<std::size_t>(rank.count()));
    for (const sparse::Delivery& one : deliveries) {
      if (one.from == rank.index()) {
        rank.beat(name);
        tell(one, packets[static_cast<std::size_t>(one.to)]);
      }
    }
    std::vector<std::vector<std::byte>> sent;
    for (sparse::Packet& packet : packets) {
      sent.push_back(packet.take());
    }
    programs::deliver(rank, std::move(sent), [&](std::int64_t from, std::vector<std::byte> bytes) {
      sparse::Packet packet(std::move(bytes));
      for (const sparse::Delivery& one : deliveries) {
        if (one.from == from && one.to == rank.index()) {
          rank.beat(name);
          tell(one, packet);
        }
      }
    });
    leave_if_asked(rank);
  });
}

/// Of each piece the process that does it.
std::vector<std::int64_t> in_turn(std::int64_t pieces, std::int64_t processes) {
  std::vector<std::int64_t> process_of(static_cast<std::size_t>(pieces));
  for (std::int64_t i = 0; i < pieces; ++i) {
    process_of[static_cast<std::size_t>(i)] = i % processes;
  }
  return process_of;
}

/// Processes of a rank each.
void let_processes_share(sparse::Workers& workers, Mesh& mesh, const RunOptions& run) {
  const auto phase = std::make_shared<const char*>("start");
  workers.processes = mesh.ranks();
  while (!mesh.is_here(workers.process)) {
    ++workers.process;
  }
  workers.enter = [phase](const char* now) { *phase = now; };
  workers.share = [&mesh, &run, phase](std::int64_t count, const Work& work, const Tell& tell) {
    // Of each rank: what is told needs memory.
    constexpr std::int64_t at_a_time = 32;
    share_pieces(mesh, run, *phase, in_turn(count, mesh.ranks()), at_a_time * mesh.ranks(), work,
                 tell);
  };
  workers.share_by = [&mesh, &run, phase](const std::vector<std::int64_t>& process_of,
                                          const Work& work, const Tell& tell) {
    share_pieces(mesh, run, *phase, process_of, 0, work, tell);
  };
  workers.deliver = [&mesh, &run, phase](const std::vector<sparse::Delivery>& deliveries,
                                         const TellOne& tell) {
    deliver_pieces(mesh, run, *phase, deliveries, tell);
  };
  workers.once = [share = workers.share](const std::function<void()>& work,
                                         const std::function<void(sparse::Packet&)>& tell) {
    share(
        1, [&](std::int64_t) { work(); },
        [&](std::int64_t, sparse::Packet& packet) { tell(packet); });
  };
  if (mesh.memory() == Memory::host) {
    workers.together = [&mesh, &run, phase](const std::function<void(mesh::Rank&)>& program) {
      mesh.state().run(run, [&](mesh::Rank& rank) {
        rank.report(*phase, 0.0);
        program(rank);
      });
    };
  }
}

bool are_all_here(const Mesh& mesh) {
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    if (!mesh.is_here(rank)) {
      return false;
    }
  }
  return true;
}

/// Of one process: `each` does all.
void share_all_by(sparse::Workers& workers) {
  workers.share = [each = workers.each](std::int64_t count, const Work& work,
                                        const Tell& /*tell*/) { each(count, work); };
  workers.share_by = [each = workers.each](const std::vector<std::int64_t>& process_of,
                                           const Work& work, const Tell& /*tell*/) {
    each(static_cast<std::int64_t>(process_of.size()), work);
  };
}

sparse::Workers on_gpus(Mesh& mesh, const RunOptions& run) {
  sparse::Workers workers;
  workers.devices = &mesh;
  workers.joint_fronts = joint_fronts_of_gpus;
  workers.run = &run;
  if (are_all_here(mesh)) {
    workers.count = threads_of_host();
    workers.each = [&run](std::int64_t count, const Work& work) {
      do_on_host(count, work, [&run] { return run.cancel.stop_requested(); });
      if (run.cancel.stop_requested()) {
        throw Error(ErrorKind::cancelled, "the call was cancelled as asked");
      }
    };
    share_all_by(workers);
    return workers;
  }
  let_processes_share(workers, mesh, run);
  workers.count = max_threads * mesh.ranks();  // hosts may have fewer threads than others
  // Looks at no stop: of one process alone the others would not hear.
  workers.each = [](std::int64_t count, const Work& work) {
    do_on_host(count, work, [] { return false; });
  };
  return workers;
}

sparse::Workers on_cpus(Mesh& mesh, const RunOptions& run) {
  sparse::Workers workers;
  workers.count = mesh.ranks();
  if (!are_all_here(mesh)) {
    let_processes_share(workers, mesh, run);
    return workers;
  }
  const auto phase = std::make_shared<const char*>("start");
  workers.enter = [phase](const char* now) { *phase = now; };
  workers.each = [&mesh, &run, phase](std::int64_t count, const Work& work) {
    do_pieces(mesh, run, *phase, count, work);
  };
  share_all_by(workers);
  return workers;
}

}  // namespace on_mesh

sparse::Workers on_ranks(Mesh& mesh, const RunOptions& run) {
  return mesh.memory() == Memory::host ? on_mesh::on_cpus(mesh, run) : on_mesh::on_gpus(mesh, run);
}

sparse::Workers in_program(const sparse::Workers& workers, mesh::Rank& rank) {
  sparse::Workers inside;
  inside.each = workers.each;
  inside.once = [&rank](const std::function<void()>& work,
                        const std::function<void(sparse::Packet&)>& tell) {
    sparse::Packet of_first;
    if (rank.index() == 0) {
      work();
      tell(of_first);
    }
    on_mesh::exchange(rank, of_first, [&](std::int64_t other, sparse::Packet& packet) {
      if (other == 0) {
        tell(packet);
      }
    });
  };
  return inside;
}

double least_of_processes(const sparse::Workers& workers, double mine) {
  std::vector<double> all(static_cast<std::size_t>(workers.processes), mine);
  if (workers.processes > 1) {
    workers.share(
        workers.processes, [](std::int64_t) {},
        [&](std::int64_t process, sparse::Packet& packet) {
          packet.value(all[static_cast<std::size_t>(process)]);
        });
  }
  return *std::min_element(all.begin(), all.end());
}

}  // namespace shardsolve::fbpinn
