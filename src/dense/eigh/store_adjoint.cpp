#include "dense/eigh/store_adjoint.hpp"

#include "core/each_dtype.hpp"
#include "dense/eigh/call_sizes.hpp"
#include "programs/bytes_of.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace shardsolve::dense::eigh {
namespace {

/// Columns of Z on their way at a time.
constexpr std::int64_t at_a_time = 128;

}  // namespace

template <Scalar T>
void store_adjoint(mesh::Rank& rank, const SlabLayout& layout, std::int64_t count,
                   MatrixView<const T> z, MatrixView<T> target) {
  const runtime::Kernels<T>& kernels = rank.kernels<T>();
  const std::int64_t self = rank.index();
  const MatrixView<T> outgoing = rank.workspace<T>(layout.size() * at_a_time, 1);
  const MatrixView<T> incoming = rank.workspace<T>(layout.width(self) * at_a_time, rank.count());
  for (std::int64_t first = 0; first < layout.max_width(); first += at_a_time) {
    // How many columns of Z a rank gives now.
    const auto given = [&](std::int64_t r) {
      return std::clamp<std::int64_t>(vectors_on(layout, r, count) - first, 0, at_a_time);
    };
    std::vector<MatrixView<T>> pieces;
    std::vector<comm::Bytes> send(static_cast<std::size_t>(rank.count()));
    std::vector<comm::Bytes> receive(send.size());
    for (std::int64_t r = 0; r < rank.count(); ++r) {
      const std::int64_t row = layout.segment(r).begin.value();
      const MatrixView<T> packed(outgoing.data() + row * given(self), given(self), layout.width(r));
      if (given(self) > 0) {
        kernels.conjugate_transpose(rank.update(),
                                    z.block(row, first, layout.width(r), given(self)), packed);
      }
      const MatrixView<T> arrived(incoming.columns_from(r, 1).data(), given(r), layout.width(self));
      pieces.push_back(r == self ? packed : arrived);
      if (r != self) {
        send[static_cast<std::size_t>(r)] = programs::bytes_of(packed);
        receive[static_cast<std::size_t>(r)] = programs::bytes_of(arrived);
      }
    }
    rank.finish(rank.update());  // which packs, and has stored what came before
    rank.communicator().all_to_all(rank.transfer(), std::move(send), std::move(receive));
    rank.finish(rank.transfer());
    for (std::int64_t r = 0; r < rank.count(); ++r) {
      if (given(r) > 0) {
        const std::int64_t row = layout.segment(r).begin.value() + first;
        kernels.copy(rank.update(), pieces[static_cast<std::size_t>(r)],
                     target.block(row, 0, given(r), layout.width(self)));
      }
    }
  }
  rank.finish(rank.update());
}

std::int64_t store_adjoint_elements(const SlabLayout& layout) {
  return at_a_time * (layout.size() + layout.ranks() * layout.max_width());
}

#define SHARDSOLVE_INSTANTIATE(T)                                                                \
  template void store_adjoint(mesh::Rank&, const SlabLayout&, std::int64_t, MatrixView<const T>, \
                              MatrixView<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::eigh
