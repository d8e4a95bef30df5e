#include "mesh/gpu_seats.hpp"

#include "comm/failure.hpp"
#include "comm/tell_all.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <sstream>

namespace shardsolve::mesh {
namespace {

const char* name(GpuCommunicator communicator) {
  switch (communicator) {
    case GpuCommunicator::ipc:
      return "ipc";
    case GpuCommunicator::nccl:
      return "nccl";
    case GpuCommunicator::automatic:
      break;
  }
  return "automatic";
}

/// Messages have one line each.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

int choose_gpu(const std::vector<int>& devices, std::int64_t place, std::int64_t processes,
               std::int64_t visible) {
  if (!devices.empty()) {
    if (place >= static_cast<std::int64_t>(devices.size())) {
      throw Error(
          ErrorKind::invalid_argument,
          fmt::format("{} GPUs listed, and this host has {} processes of the mesh: list one "
                      "for each, or start fewer",
                      devices.size(), processes));
    }
    return devices[static_cast<std::size_t>(place)];
  }
  if (visible == 1) {
    return 0;  // a launcher has chosen
  }
  if (place >= visible) {
    throw Error(
        ErrorKind::device,
        fmt::format("this host has {} processes of the mesh and {} GPUs; each process needs "
                    "one of its own: start fewer (see also CUDA_VISIBLE_DEVICES)",
                    processes, visible));
  }
  return static_cast<int>(place);
}

void GpuSeat::set_failure(const std::exception_ptr& reason) {
  const comm::Failure described =
      comm::describe(reason).value_or(comm::Failure{ErrorKind::internal, "it has failed"});
  error = described.kind;
  failure = described.text();
}

std::string GpuSeat::text() const {
  std::string text = fmt::format("{}\n{}\n{}\n{}\n{}\n", static_cast<int>(error), one_line(failure),
                                 gpu, static_cast<int>(communicator), process);
  for (const std::string& one : visible) {
    text += one + '\n';
  }
  return text;
}

GpuSeat GpuSeat::of_text(const std::string& text) {
  std::istringstream lines(text);
  GpuSeat seat;
  std::string line;
  std::getline(lines, line);
  seat.error = static_cast<ErrorKind>(std::stoi(line));
  std::getline(lines, seat.failure);
  std::getline(lines, seat.gpu);
  std::getline(lines, line);
  seat.communicator = static_cast<GpuCommunicator>(std::stoi(line));
  std::getline(lines, line);
  seat.process = std::stoull(line);
  while (std::getline(lines, line)) {
    seat.visible.push_back(line);
  }
  return seat;
}

std::vector<GpuSeat> tell_seats(comm::Transport& transport, const GpuSeat& own) {
  std::vector<GpuSeat> seats;
  for (const std::string& text : comm::tell_all(transport, own.text())) {
    seats.push_back(GpuSeat::of_text(text));
  }
  return seats;
}

void require_seats(const std::vector<GpuSeat>& seats, bool may_share) {
  for (std::size_t rank = 0; rank < seats.size(); ++rank) {
    if (!seats[rank].failure.empty()) {
      throw Error(seats[rank].error, fmt::format("rank {}: {}", rank, seats[rank].failure));
    }
  }
  for (std::size_t rank = 1; rank < seats.size(); ++rank) {
    if (seats[rank].communicator != seats[0].communicator) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("rank 0 asks for the communicator {}, rank {} for {}: give the same "
                              "in all processes",
                              name(seats[0].communicator), rank, name(seats[rank].communicator)));
    }
  }
  for (std::size_t rank = 0; rank < seats.size(); ++rank) {
    for (std::size_t other = 0; other < rank; ++other) {
      if (seats[rank].process != 0 && seats[other].process == seats[rank].process) {
        throw Error(ErrorKind::unsupported,
                    fmt::format("ranks {} and {} are GPUs of the same process, and others of other "
                                "processes: have one process for each GPU, or one for all of them",
                                other, rank));
      }
      if (!may_share && seats[other].gpu == seats[rank].gpu) {
        throw Error(ErrorKind::device,
                    fmt::format("ranks {} and {} have the same GPU ({}); each process needs one of "
                                "its own: start fewer processes, or let each see another GPU",
                                other, rank, seats[rank].gpu));
      }
    }
  }
}

std::string without_ipc(const std::vector<GpuSeat>& seats, const std::vector<std::int64_t>& hosts,
                        const comm::Topology& topology) {
  if (std::any_of(hosts.begin(), hosts.end(), [&](auto host) { return host != hosts[0]; })) {
    return "the processes are on different hosts";
  }
  for (std::size_t rank = 0; rank < seats.size(); ++rank) {
    const std::vector<std::string>& seen = seats[rank].visible;
    for (std::size_t other = 0; other < seats.size(); ++other) {
      if (std::find(seen.begin(), seen.end(), seats[other].gpu) == seen.end()) {
        return fmt::format(
            "rank {} does not see the GPU of rank {}: let every process see all GPUs of the mesh "
            "(CUDA_VISIBLE_DEVICES; srun --gpu-bind=none)",
            rank, other);
      }
    }
  }
  // Copy engines would have to go through the host.
  for (std::int64_t from = 0; from < topology.ranks(); ++from) {
    for (std::int64_t to = 0; to < topology.ranks(); ++to) {
      if (topology.link(from, to).kind == comm::LinkKind::host) {
        return fmt::format("the GPUs of ranks {} and {} have no peer access", from, to);
      }
    }
  }
  return "";
}

GpuCommunicator choose_communicator(GpuCommunicator asked, const std::string& against) {
  if (asked == GpuCommunicator::ipc && !against.empty()) {
    throw Error(ErrorKind::device,
                fmt::format("CUDA IPC is not to be had: {}. Leave the choice to shardsolve, or use "
                            "NCCL",
                            against));
  }
  return asked == GpuCommunicator::nccl || !against.empty() ? GpuCommunicator::nccl
                                                            : GpuCommunicator::ipc;
}

}  // namespace shardsolve::mesh
