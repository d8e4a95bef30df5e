// For each group of sweeps:
//
//   chase it                                    rank 0, panel queue
//   its header -> all, its reflectors -> owner  transfer queue, while the next group is chased
//
// and then the tridiagonal to all. Groups are few and take long: nothing else is worth overlapping.

#include "dense/eigh/band_to_tridiagonal.hpp"

#include "dense/eigh/wait_sites.hpp"
#include "dense/shared/bytes_of.hpp"
#include "dense/shared/message_ring.hpp"
#include "dense/shared/step_flags.hpp"
#include "runtime/band_kernels.hpp"

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
        flags_(rank),
        headers_(rank, slots, 0),
        chased_(rank.event()) {
    if (chases()) {
      for (MatrixView<T>& outgoing : outgoing_) {
        outgoing = rank.workspace<T>(groups.chase.bandwidth + 1, groups.most_columns());
      }
      scratch_ = rank.workspace<std::byte>(kernels_.scratch(groups.chase.bandwidth), 1);
    }
  }

  void run() {
    headers_.begin(0, chases());
    for (std::int64_t group = 0; group < groups_.count() && flags_.may_enqueue(group); ++group) {
      rank_.set_step(group);
      rank_.report("chase", static_cast<double>(group) / static_cast<double>(groups_.count()));
      if (chases()) {
        chase(group);
      }
      // The slot of the next group becomes free while this one is chased.
      headers_.begin(group + 1, chases());
      send(group);
    }
    flags_.finish(groups_.count());
    flags_.throw_if_cancelled();
    send_tridiagonal();
    rank_.finish(rank_.transfer());
  }

 private:
  /// One on its way, one being made.
  static constexpr std::int64_t slots = 2;
  static constexpr std::int64_t root = 0;

  bool chases() const { return rank_.index() == root; }
  bool keeps(std::int64_t group) const {
    return reflectors_ && groups_.owner(group) == rank_.index();
  }

  void chase(std::int64_t group) {
    headers_.await_free(rank_.panel(), sites::chase_slot_free);
    headers_.stamp(rank_.panel(), group);
    kernels_.chase(rank_.panel(), groups_.chase, groups_.group(group), band_,
                   keeps(group) ? kept(group) : outgoing(group), scratch_.data());
    rank_.panel().record(chased_);
  }
  MatrixView<T> kept(std::int64_t group) const {
    return reflectors_of(groups_, *reflectors_, group);
  }
  MatrixView<T> outgoing(std::int64_t group) const {
    return outgoing_[static_cast<std::size_t>(group % slots)].columns_from(0,
                                                                           groups_.columns(group));
  }

  void send(std::int64_t group) {
    if (chases()) {
      rank_.transfer().wait(chased_, sites::group_chased);
    }
    headers_.publish(group, root, 0);
    flags_.receive(group, headers_.header(group, root));
    const std::int64_t owner = groups_.owner(group);
    if (!reflectors_ || owner == root) {
      return;
    }
    std::vector<comm::Bytes> send(static_cast<std::size_t>(rank_.count()));
    std::vector<comm::Bytes> receive(send.size());
    if (chases()) {
      send[static_cast<std::size_t>(owner)] = bytes_of(outgoing(group));
    } else if (keeps(group)) {
      receive[root] = bytes_of(kept(group));
    }
    rank_.communicator().all_to_all(rank_.transfer(), std::move(send), std::move(receive));
  }

  void send_tridiagonal() {
    if (chases()) {
      const std::int64_t n = tridiagonal_.rows();
      RealOf<T>* const diagonal = tridiagonal_.data();
      rank_.kernels<RealOf<T>>().fill(rank_.panel(), 0, tridiagonal_);
      kernels_.tridiagonal(rank_.panel(), band_, diagonal, diagonal + n);
      rank_.panel().record(chased_);
      rank_.transfer().wait(chased_, sites::tridiagonal_made);
    }
    rank_.communicator().broadcast(rank_.transfer(), bytes_of(tridiagonal_), root);
  }

  mesh::Rank& rank_;
  const SweepGroups& groups_;
  MatrixView<T> band_;
  std::optional<MatrixView<T>> reflectors_;
  MatrixView<RealOf<T>> tridiagonal_;
  const runtime::BandKernels<T>& kernels_;
  StepFlags flags_;
  MessageRing<T> headers_;
  std::array<MatrixView<T>, slots> outgoing_;  // reflectors that another rank keeps
  MatrixView<std::byte> scratch_;
  runtime::Event& chased_;
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
