#include "dense/cholesky/mirror.hpp"

#include "dense/cholesky/wait_sites.hpp"
#include "programs/bytes_of.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace shardsolve::dense::cholesky {
namespace {

/// In round i every rank gives what stands above the diagonal in its block i to the ranks whose
/// rows those are; there it is what stands below, in the rows of the giver's block.
template <Scalar T>
class Mirror {
 public:
  Mirror(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab)
      : rank_(rank),
        layout_(layout),
        slab_(slab),
        kernels_(rank.kernels<T>()),
        tile_(layout.tile()),
        outgoing_(rank.workspace<T>(layout.size() * tile_, 1)),
        incoming_(rank.workspace<T>(slab.columns() * tile_, rank.count())),
        diagonal_(rank.workspace<RealOf<T>>(tile_, 1)),
        packed_(rank.event()),
        arrived_(rank.event()) {}

  void run() {
    const std::int64_t rounds = (layout_.max_width() + layout_.tile() - 1) / layout_.tile();
    for (std::int64_t round = 0; round < rounds; ++round) {
      find_steps(round);
      pack();
      exchange();
      unpack();
    }
  }

 private:
  /// The step of each rank's block of this round; none for a rank that has run out.
  void find_steps(std::int64_t round) {
    steps_.assign(static_cast<std::size_t>(rank_.count()), std::nullopt);
    for (Step step(0); step.value() < layout_.steps(); ++step) {
      if (layout_.columns(step).begin.value() == round * layout_.tile()) {
        steps_[static_cast<std::size_t>(layout_.owner(step))] = step;
      }
    }
  }
  const std::optional<Step>& step_of(std::int64_t rank) const {
    return steps_[static_cast<std::size_t>(rank)];
  }

  /// What `from` gives to `to`, as the columns of `to` see it; without gaps in `memory`.
  MatrixView<T> piece(MatrixView<T> memory, std::int64_t offset, std::int64_t column,
                      std::int64_t from, std::int64_t to) const {
    const auto& step = step_of(from);
    const std::int64_t rows = step ? layout_.columns(*step).size() : 0;
    const std::int64_t columns = step ? layout_.eliminated(to, *step).value() : 0;
    return {memory.block(offset, column, rows * columns, 1).data(), rows, columns};
  }
  MatrixView<T> outgoing(std::int64_t to) const {
    return piece(outgoing_, layout_.segment(to).begin.value() * tile_, 0, rank_.index(), to);
  }
  MatrixView<T> incoming(std::int64_t from) const {
    return piece(incoming_, 0, from, from, rank_.index());
  }

  void pack() {
    const auto& step = step_of(rank_.index());
    if (!step) {
      return;
    }
    const LocalRange columns = layout_.columns(*step);
    for (std::int64_t to = 0; to < rank_.count(); ++to) {
      const MatrixView<T> target = outgoing(to);
      const MatrixView<T> above =
          slab_.block(layout_.segment(to).begin.value(), columns.begin.value(), target.columns(),
                      columns.size());
      kernels_.conjugate_transpose(rank_.update(), above, target);
    }
    const MatrixView<T> diagonal_tile = slab_.block(
        layout_.rows(*step).begin.value(), columns.begin.value(), columns.size(), columns.size());
    kernels_.diagonal(rank_.update(), diagonal_tile, diagonal_.data());
    kernels_.hermitian_tile(rank_.update(), diagonal_tile, diagonal_.data(), diagonal_tile);
  }

  void exchange() {
    std::vector<comm::Bytes> send;
    std::vector<comm::Bytes> receive;
    for (std::int64_t r = 0; r < rank_.count(); ++r) {
      send.push_back(programs::bytes_of(outgoing(r)));
      receive.push_back(programs::bytes_of(incoming(r)));
    }
    rank_.update().record(packed_);
    rank_.transfer().wait(packed_, sites::mirror_packed);
    rank_.communicator().all_to_all(rank_.transfer(), std::move(send), std::move(receive));
    rank_.transfer().record(arrived_);
  }

  void unpack() {
    rank_.update().wait(arrived_, sites::mirror_arrived);
    for (std::int64_t from = 0; from < rank_.count(); ++from) {
      const auto& step = step_of(from);
      if (!step) {
        continue;
      }
      const MatrixView<T> source = from == rank_.index() ? outgoing(from) : incoming(from);
      kernels_.copy(
          rank_.update(), source,
          slab_.block(layout_.rows(*step).begin.value(), 0, source.rows(), source.columns()));
    }
  }

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<T> slab_;
  const runtime::Kernels<T>& kernels_;
  std::int64_t tile_;
  MatrixView<T> outgoing_;
  MatrixView<T> incoming_;  // one column a rank
  MatrixView<RealOf<T>> diagonal_;
  runtime::Event& packed_;
  runtime::Event& arrived_;
  std::vector<std::optional<Step>> steps_;
};

}  // namespace

template <Scalar T>
void mirror(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab) {
  Mirror<T>(rank, layout, slab).run();
}

template void mirror(mesh::Rank&, const SlabLayout&, MatrixView<float>);
template void mirror(mesh::Rank&, const SlabLayout&, MatrixView<double>);
template void mirror(mesh::Rank&, const SlabLayout&, MatrixView<std::complex<float>>);
template void mirror(mesh::Rank&, const SlabLayout&, MatrixView<std::complex<double>>);

}  // namespace shardsolve::dense::cholesky
