/// Who does pieces of work: threads that share memory, or processes that tell each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardsolve {
class Mesh;
struct RunOptions;
namespace mesh {
class Rank;
}
}  // namespace shardsolve

namespace shardsolve::sparse {

/// What one process tells the others of its pieces: the same function writes and reads it.
class Packet {
 public:
  /// To be written.
  Packet() = default;
  /// To be read.
  Packet(const std::byte* bytes, std::size_t size) : bytes_(bytes, bytes + size), reads_(true) {}
  explicit Packet(std::vector<std::byte> bytes) : bytes_(std::move(bytes)), reads_(true) {}

  bool reads() const { return reads_; }
  /// What has been written; nothing is left.
  std::vector<std::byte> take() { return std::exchange(bytes_, {}); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

  template <class T>
  void array(T* values, std::int64_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::size_t size = static_cast<std::size_t>(count) * sizeof(T);
    if (size == 0) {
      return;
    }
    if (reads_) {
      std::memcpy(values, bytes_.data() + at_, size);
      at_ += size;
    } else {
      bytes_.resize(at_ + size);
      std::memcpy(bytes_.data() + at_, values, size);
      at_ += size;
    }
  }
  template <class T>
  void value(T& one) {
    array(&one, 1);
  }
  template <class T>
  void vector(std::vector<T>& values) {
    auto count = static_cast<std::int64_t>(values.size());
    value(count);
    values.resize(static_cast<std::size_t>(count));
    array(values.data(), count);
  }

 private:
  std::vector<std::byte> bytes_;
  std::size_t at_ = 0;
  bool reads_ = false;
};

/// Calls work(i) for 0 <= i < count. What is computed does not depend on who does what.
using ForEach = std::function<void(std::int64_t count, const std::function<void(std::int64_t)>&)>;
/// Likewise; then tell(i, packet) brings what work(i) has made to where it was not done.
using Share = std::function<void(std::int64_t count, const std::function<void(std::int64_t)>& work,
                                 const std::function<void(std::int64_t, Packet&)>& tell)>;
/// Likewise, piece i by process `process_of[i]`; processes on CPUs do theirs in their order.
using ShareBy = std::function<void(const std::vector<std::int64_t>& process_of,
                                   const std::function<void(std::int64_t)>& work,
                                   const std::function<void(std::int64_t, Packet&)>& tell)>;

/// A piece that one process has and another one needs.
struct Delivery {
  std::int64_t piece = 0;
  std::int64_t from = 0;
  std::int64_t to = 0;
};
/// tell(delivery, packet) writes in process `from` and reads in process `to`. All processes give
/// the same list; all of it is on its way at a time.
using Deliver = std::function<void(const std::vector<Delivery>& deliveries,
                                   const std::function<void(const Delivery&, Packet&)>& tell)>;

/// One after the other, in the calling thread.
inline void one_by_one(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  for (std::int64_t i = 0; i < count; ++i) {
    work(i);
  }
}

/// Which fronts above the subtrees all ranks factor together, and in tiles of how many columns:
/// from a front of that many flops on all on the way to its root. To bring one to all takes a few
/// milliseconds.
struct JointFronts {
  double least_flops = 2e9;
  std::int64_t tile = 256;
  std::int64_t round = 1;  ///< tiles are multiples of it
};

struct Workers {
  /// Devices whose kernels do what there are kernels for, and the options of the call; or none.
  Mesh* devices = nullptr;
  const RunOptions* run = nullptr;
  /// Of processes, or of several devices.
  JointFronts joint_fronts;
  /// Processes that do pieces and tell each other.
  std::int64_t processes = 1;
  std::int64_t process = 0;  ///< this one
  /// What the pieces are from now on: a string literal, for traces and progress.
  std::function<void(const char* phase)> enter = [](const char* /*phase*/) {};
  /// How many pieces of work are done at a time; the same in all processes.
  std::int64_t count = 1;
  /// Pieces that every process does all of, or threads that share memory each some of.
  ForEach each = one_by_one;
  /// Work that is done once, by the calling thread or by the first process; it may use `each`.
  std::function<void(const std::function<void()>& work, const std::function<void(Packet&)>& tell)>
      once = [](const std::function<void()>& work, const std::function<void(Packet&)>& /*tell*/) {
        work();
      };
  /// Pieces that are done once: of several processes, piece i by process i modulo their number.
  Share share = [](std::int64_t pieces, const std::function<void(std::int64_t)>& work,
                   const std::function<void(std::int64_t, Packet&)>& /*tell*/) {
    one_by_one(pieces, work);
  };
  /// Pieces that are done where there is what they need; what is told is little.
  ShareBy share_by = [](const std::vector<std::int64_t>& process_of,
                        const std::function<void(std::int64_t)>& work,
                        const std::function<void(std::int64_t, Packet&)>& /*tell*/) {
    one_by_one(static_cast<std::int64_t>(process_of.size()), work);
  };
  /// What is too much to be told to all.
  Deliver deliver = [](const std::vector<Delivery>& /*deliveries*/,
                       const std::function<void(const Delivery&, Packet&)>& /*tell*/) {};
  /// Runs a rank program in all processes at once, rank i in process i; null where workers share
  /// memory.
  std::function<void(const std::function<void(mesh::Rank&)>& program)> together;
};

}  // namespace shardsolve::sparse
