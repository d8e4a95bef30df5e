#include "comm/mpi/mpi_transport.hpp"

#include "core/plugin_version.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <mutex>
#include <string>

namespace shardsolve::comm::mpi {
namespace {

/// Held during every call of MPI, by all meshes of the process.
std::mutex& turn() {
  static auto& mutex = *new std::mutex;  // used until the very end of the process
  return mutex;
}

std::atomic<bool> any_abandoned{false};

void check(int status, const char* doing) {
  if (status != MPI_SUCCESS) {
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(status, text.data(), &length);
    throw Error(ErrorKind::communication,
                fmt::format("MPI failed while {}: {}", doing,
                            std::string(text.data(), static_cast<std::size_t>(length))));
  }
}

/// So many bytes as MPI counts them: in an int, or as one element of a type of its own.
class ByteCount {
 public:
  explicit ByteCount(std::size_t bytes) {
    if (bytes <= INT_MAX) {
      count_ = static_cast<int>(bytes);
      return;
    }
    constexpr std::size_t block = std::size_t{1} << 24U;
    const std::size_t blocks = bytes / block;
    if (blocks > INT_MAX) {
      throw Error(ErrorKind::unsupported,
                  fmt::format("a message of {} bytes; MPI takes 2^55 at most", bytes));
    }
    MPI_Datatype block_type = MPI_DATATYPE_NULL;
    check(MPI_Type_contiguous(static_cast<int>(block), MPI_BYTE, &block_type), "making a type");
    const std::array lengths = {static_cast<int>(blocks), static_cast<int>(bytes % block)};
    const std::array<MPI_Aint, 2> places = {0, static_cast<MPI_Aint>(blocks * block)};
    const std::array types = {block_type, MPI_BYTE};
    check(MPI_Type_create_struct(2, lengths.data(), places.data(), types.data(), &type_),
          "making a type");
    MPI_Type_free(&block_type);
    check(MPI_Type_commit(&type_), "making a type");
    count_ = 1;
  }
  ByteCount(const ByteCount&) = delete;
  ByteCount& operator=(const ByteCount&) = delete;
  ~ByteCount() {
    if (type_ != MPI_BYTE) {
      MPI_Type_free(&type_);  // lives on in the messages that use it
    }
  }

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_ = 0;
  MPI_Datatype type_ = MPI_BYTE;
};

std::size_t bytes_of(const MPI_Status& status) {
  MPI_Count bytes = 0;
  check(MPI_Get_elements_x(&status, MPI_BYTE, &bytes), "asking for a size");
  return static_cast<std::size_t>(bytes);
}

class MpiMessage final : public Message {
 public:
  explicit MpiMessage(std::size_t room) : room_(room) {}

  MPI_Request* request() { return &request_; }

  bool test() override {
    if (complete_) {
      return true;
    }
    const std::lock_guard lock(turn());
    int done = 0;
    MPI_Status status;
    const int result = MPI_Test(&request_, &done, &status);
    int error_class = MPI_SUCCESS;
    MPI_Error_class(result, &error_class);
    if (error_class == MPI_ERR_TRUNCATE) {
      received_ = room_ + 1;
      complete_ = true;
      return true;
    }
    check(result, "waiting for a message");
    if (done != 0) {
      complete_ = true;
      int cancelled = 0;
      check(MPI_Test_cancelled(&status, &cancelled), "giving up a message");
      given_up_ = cancelled != 0;
      received_ = given_up_ ? 0 : bytes_of(status);
    }
    return complete_;
  }
  void give_up() override {
    const std::lock_guard lock(turn());
    if (!complete_) {
      check(MPI_Cancel(&request_), "giving up a message");
    }
  }
  bool given_up() const override { return given_up_; }
  std::size_t received() const override { return received_; }

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::size_t room_;
  bool complete_ = false;
  bool given_up_ = false;
  std::size_t received_ = 0;
};

/// A duplicate whose errors come back to us.
MPI_Comm duplicate(MPI_Comm communicator) {
  MPI_Comm copy = MPI_COMM_NULL;
  check(MPI_Comm_dup(communicator, &copy), "making a communicator");
  check(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "making a communicator");
  return copy;
}

/// The host of each process: the number of the first process there.
std::vector<std::int64_t> find_hosts(MPI_Comm communicator) {
  constexpr const char* doing = "looking for processes on the same host";
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host), doing);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(communicator, &rank);
  MPI_Comm_size(communicator, &ranks);
  const std::int64_t own = rank;
  std::int64_t first = 0;
  check(MPI_Allreduce(&own, &first, 1, MPI_INT64_T, MPI_MIN, host), doing);
  MPI_Comm_free(&host);
  std::vector<std::int64_t> hosts(static_cast<std::size_t>(ranks));
  check(MPI_Allgather(&first, 1, MPI_INT64_T, hosts.data(), 1, MPI_INT64_T, communicator), doing);
  return hosts;
}

bool has_ended() {
  int ended = 0;
  MPI_Finalized(&ended);
  return ended != 0;
}

/// At the end of a process for which we have started MPI. Where a process was lost the others would
/// wait for it: whoever has started the processes then finds out that they end without.
void end_mpi() {
  if (!any_abandoned && !has_ended()) {
    const std::lock_guard lock(turn());
    MPI_Finalize();
  }
}

}  // namespace

void start_mpi() {
  const std::lock_guard lock(turn());
  if (has_ended()) {
    throw Error(ErrorKind::unsupported,
                "the program has ended MPI (MPI_Finalize) and it cannot be started again: make the "
                "mesh before");
  }
  int running = 0;
  MPI_Initialized(&running);
  int level = MPI_THREAD_SINGLE;
  if (running != 0) {
    MPI_Query_thread(&level);
  } else {
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "starting");
    std::atexit(end_mpi);
  }
  if (level < MPI_THREAD_SERIALIZED) {
    throw Error(
        ErrorKind::unsupported,
        running != 0
            ? "MPI was started without support for threads that take turns: call "
              "MPI_Init_thread with MPI_THREAD_SERIALIZED (or MULTIPLE) in place of MPI_Init"
            : "this MPI has no support for threads that take turns (MPI_THREAD_SERIALIZED): "
              "use one that has");
  }
}

MpiTransport::MpiTransport(MPI_Comm communicator) {
  const std::lock_guard lock(turn());
  data_ = duplicate(communicator);
  control_ = duplicate(communicator);
  MPI_Comm_size(data_, &ranks_);
  MPI_Comm_rank(data_, &rank_);
  hosts_ = find_hosts(data_);
}

MpiTransport::~MpiTransport() {
  if (!abandoned_ && !has_ended()) {
    const std::lock_guard lock(turn());
    MPI_Comm_free(&data_);
    MPI_Comm_free(&control_);
  }
}

std::unique_ptr<Message> MpiTransport::send(std::int64_t to, Channel channel, int tag, Bytes data) {
  const std::lock_guard lock(turn());
  auto message = std::make_unique<MpiMessage>(data.size);
  const ByteCount bytes(data.size);
  check(MPI_Isend(data.data, bytes.count(), bytes.type(), static_cast<int>(to), tag,
                  communicator(channel), message->request()),
        "sending a message");
  return message;
}

std::unique_ptr<Message> MpiTransport::receive(std::int64_t from, Channel channel, int tag,
                                               Bytes room) {
  const std::lock_guard lock(turn());
  auto message = std::make_unique<MpiMessage>(room.size);
  const ByteCount bytes(room.size);
  check(MPI_Irecv(room.data, bytes.count(), bytes.type(), static_cast<int>(from), tag,
                  communicator(channel), message->request()),
        "receiving a message");
  return message;
}

std::int64_t MpiTransport::arrived(std::int64_t from, int tag) {
  const std::lock_guard lock(turn());
  int there = 0;
  MPI_Status status;
  check(MPI_Iprobe(static_cast<int>(from), tag, data_, &there, &status), "looking for a message");
  return there != 0 ? static_cast<std::int64_t>(bytes_of(status)) : -1;
}

void MpiTransport::abandon() {
  abandoned_ = true;
  any_abandoned = true;
}

}  // namespace shardsolve::comm::mpi

/// What libshardsolve looks up by name after loading this library. `communicator`: the Fortran
/// handle of one; null for MPI_COMM_WORLD.
extern "C" __attribute__((visibility("default"))) shardsolve::comm::Transport*
shardsolve_make_mpi_transport(const int* communicator) {
  shardsolve::comm::mpi::start_mpi();
  return new shardsolve::comm::mpi::MpiTransport(
      communicator == nullptr ? MPI_COMM_WORLD : MPI_Comm_f2c(*communicator));
}

extern "C" __attribute__((visibility("default"))) const char* shardsolve_mpi_version() {
  return shardsolve::core::plugin_version;
}
