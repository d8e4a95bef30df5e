// For each group of sweeps:
//
//   chase it                                    rank 0, a few queues in turn
//   its header -> all, its reflectors -> owner  transfer queue, while the next groups are chased
//
// and then the tridiagonal to all. A group is chased some waves at a time, each time after the
// group before has gone through these waves (runtime/chase.hpp); so groups follow each other down
// the band. The other ranks wait meanwhile: there is a CPU for as many queues as there are ranks. A
// GPU has room for all of them.

#include "dense/eigh/band_to_tridiagonal.hpp"

#include "dense/eigh/wait_sites.hpp"
#include "programs/bytes_of.hpp"
#include "programs/message_ring.hpp"
#include "programs/step_flags.hpp"
#include "runtime/band_kernels.hpp"

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <utility>
#include <vector>

namespace shardsolve::dense::eigh {
namespace {

template <Scalar T>
class BandToTridiagonal {
 public:
  BandToTridiagonal(mesh::Rank& rank, const SweepGroups& groups, MatrixView<T> band,
                    std::optional<MatrixView<T>> reflectors, MatrixView<RealOf<T>> tridiagonal)
      : rank_(rank),
        groups_(groups),
        band_(band),
        reflectors_(reflectors),
        tridiagonal_(tridiagonal),
        kernels_(rank.kernels<runtime::BandKernels<T>>()),
        tuning_(kernels_.tuning(groups.chase)),
        flags_(rank),
        headers_(rank, 1, 0) {
    if (!chases()) {
      return;
    }
    const std::array<runtime::Queue*, 3> all{&rank.panel(), &rank.panel_rest(), &rank.update()};
    const std::int64_t queues = std::min({tuning_.queues, tuning_.queues_a_rank * rank.count(),
                                          static_cast<std::int64_t>(all.size())});
    const std::int64_t scratch = kernels_.scratch(groups.chase.bandwidth);
    for (std::int64_t i = 0; i < queues; ++i) {
      chasers_.push_back({*all[static_cast<std::size_t>(i)],
                          rank.workspace<std::byte>(scratch, 1),
                          {},
                          rank.event()});
      for (std::int64_t piece = 0; piece < max_pieces(); ++piece) {
        chasers_.back().passed.push_back(&rank.event());
      }
    }
    for (std::int64_t slot = 0; slot <= queues; ++slot) {
      outgoing_.push_back(
          {rank.workspace<T>(groups.chase.bandwidth + 1, groups.max_columns()), rank.event()});
    }
  }

  void run() {
    for (std::int64_t group = 0; group < groups_.count() && flags_.may_enqueue(group); ++group) {
      rank_.set_step(group);
      rank_.report("chase", static_cast<double>(group) / static_cast<double>(groups_.count()));
      if (chases()) {
        chase(group);
      }
      send(group);
    }
    flags_.finish(groups_.count());
    flags_.throw_if_cancelled();
    send_tridiagonal();
    rank_.finish(rank_.transfer());
  }

 private:
  static constexpr std::int64_t root = 0;

  /// A queue of the root.
  struct Chaser {
    runtime::Queue& queue;
    MatrixView<std::byte> scratch;
    std::vector<runtime::Event*> passed;  // its group, by piece
    runtime::Event& chased;               // its group, all of it
  };
  /// Reflectors that another rank keeps: one more than groups are chased at a time.
  struct Outgoing {
    MatrixView<T> reflectors;
    runtime::Event& sent;
  };

  bool chases() const { return rank_.index() == root; }
  bool keeps(std::int64_t group) const {
    return reflectors_ && groups_.owner(group) == rank_.index();
  }
  Chaser& chaser(std::int64_t group) {
    return chasers_[static_cast<std::size_t>(group) % chasers_.size()];
  }
  Outgoing& outgoing(std::int64_t group) {
    return outgoing_[static_cast<std::size_t>(group) % outgoing_.size()];
  }

  // A piece is so many waves that one kernel goes through, the same for all groups.
  std::int64_t first_piece(std::int64_t group) const {
    return groups_.group(group).waves(groups_.chase).begin / tuning_.waves;
  }
  std::int64_t last_piece(std::int64_t group) const {
    return (groups_.group(group).waves(groups_.chase).end - 1) / tuning_.waves;
  }
  std::int64_t max_pieces() const {
    std::int64_t most = 0;
    for (std::int64_t group = 0; group < groups_.count(); ++group) {
      most = std::max(most, last_piece(group) + 1 - first_piece(group));
    }
    return most;
  }
  /// Complete when a group has gone through a piece.
  runtime::Event& passed(std::int64_t group, std::int64_t piece) {
    return *chaser(group).passed[static_cast<std::size_t>(piece - first_piece(group))];
  }

  void chase(std::int64_t group) {
    const auto& [queue, scratch, events, chased] = chaser(group);
    MatrixView<T> reflectors;
    if (keeps(group)) {
      reflectors = kept(group);
    } else {
      queue.wait(outgoing(group).sent, sites::chase_slot_free);
      reflectors = outgoing(group).reflectors.columns_from(0, groups_.columns(group));
    }
    for (std::int64_t piece = first_piece(group); piece <= last_piece(group); ++piece) {
      follow(queue, group, piece);
      kernels_.chase(queue, groups_.chase, groups_.group(group),
                     {piece * tuning_.waves, (piece + 1) * tuning_.waves}, band_, reflectors,
                     scratch.data());
      queue.record(passed(group, piece));
    }
    queue.record(chased);
  }
  /// Waits until the group before has gone through a piece, or to its end if it has no such piece.
  void follow(runtime::Queue& queue, std::int64_t group, std::int64_t piece) {
    if (group == 0 || chasers_.size() == 1) {
      return;
    }
    const std::int64_t end = last_piece(group - 1);
    if (piece <= end || piece == first_piece(group)) {
      queue.wait(passed(group - 1, std::min(piece, end)), sites::chase_passed);
    }
  }
  MatrixView<T> kept(std::int64_t group) const {
    return reflectors_of(groups_, *reflectors_, group);
  }

  void send(std::int64_t group) {
    headers_.begin(group, chases());
    if (chases()) {
      rank_.transfer().wait(chaser(group).chased, sites::group_chased);
      headers_.stamp(rank_.transfer(), group);
    }
    headers_.publish(group, root, 0);
    flags_.receive(group, headers_.header(group, root));
    send_reflectors(group);
  }
  void send_reflectors(std::int64_t group) {
    const std::int64_t owner = groups_.owner(group);
    if (!reflectors_ || owner == root) {
      return;
    }
    std::vector<comm::Bytes> send(static_cast<std::size_t>(rank_.count()));
    std::vector<comm::Bytes> receive(send.size());
    if (chases()) {
      send[static_cast<std::size_t>(owner)] =
          programs::bytes_of(outgoing(group).reflectors.columns_from(0, groups_.columns(group)));
    } else if (keeps(group)) {
      receive[root] = programs::bytes_of(kept(group));
    }
    rank_.communicator().all_to_all(rank_.transfer(), std::move(send), std::move(receive));
    if (chases()) {
      rank_.transfer().record(outgoing(group).sent);
    }
  }

  void send_tridiagonal() {
    if (chases()) {
      Chaser& last = chaser(std::max<std::int64_t>(groups_.count() - 1, 0));
      const std::int64_t n = tridiagonal_.rows();
      RealOf<T>* const diagonal = tridiagonal_.data();
      rank_.kernels<RealOf<T>>().fill(last.queue, 0, tridiagonal_);
      kernels_.tridiagonal(last.queue, band_, diagonal, diagonal + n);
      last.queue.record(last.chased);
      rank_.transfer().wait(last.chased, sites::tridiagonal_made);
    }
    rank_.communicator().broadcast(rank_.transfer(), programs::bytes_of(tridiagonal_), root);
  }

  mesh::Rank& rank_;
  const SweepGroups& groups_;
  MatrixView<T> band_;
  std::optional<MatrixView<T>> reflectors_;
  MatrixView<RealOf<T>> tridiagonal_;
  const runtime::BandKernels<T>& kernels_;
  const runtime::BandTuning tuning_;
  programs::StepFlags flags_;
  programs::MessageRing<T> headers_;
  std::vector<Chaser> chasers_;
  std::vector<Outgoing> outgoing_;
};

}  // namespace

template <Scalar T>
MatrixView<T> make_reflectors(mesh::Rank& rank, const SweepGroups& groups) {
  return rank.workspace<T>(groups.chase.bandwidth + 1, groups.columns_of(rank.index()));
}

template <Scalar T>
void band_to_tridiagonal(mesh::Rank& rank, const SweepGroups& groups, MatrixView<T> band,
                         std::optional<MatrixView<T>> reflectors,
                         MatrixView<RealOf<T>> tridiagonal) {
  BandToTridiagonal<T>(rank, groups, band, reflectors, tridiagonal).run();
}

#define SHARDSOLVE_INSTANTIATE(T)                                                   \
  template MatrixView<T> make_reflectors(mesh::Rank&, const SweepGroups&);          \
  template void band_to_tridiagonal(mesh::Rank&, const SweepGroups&, MatrixView<T>, \
                                    std::optional<MatrixView<T>>, MatrixView<RealOf<T>>);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(std::complex<float>)
SHARDSOLVE_INSTANTIATE(std::complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::eigh
