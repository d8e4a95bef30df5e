// With P A Q^T = L U, A^-1 = Q^T (U^-1 L^-1) P. Row p of U^-1 L^-1 is that of A^-1 whose number is
// eliminated as number p: an exchange of rows in each slab, none on one rank. Column p is that
// whose number came to place p by P: whichever rank has it gives it to the one whose slab it
// belongs to. Some rows of all columns cross at a time, which are packed, sent and stored where
// others of the same rows have been.

#include "dense/lu/order_inverse.hpp"

#include "core/each_dtype.hpp"
#include "dense/lu/wait_sites.hpp"
#include "programs/bytes_of.hpp"
#include "runtime/lu_kernels.hpp"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <numeric>
#include <utility>

namespace shardsolve::dense::lu {
namespace {

/// The rows of a slab are in order of elimination, and shall be in the caller's: swaps in turn, of
/// row j with a later one.
std::vector<std::int64_t> swaps_to_natural_order(const SlabLayout& layout) {
  const auto n = static_cast<std::size_t>(layout.size());
  std::vector<std::int64_t> row_in(n);  // what has come to each place
  std::vector<std::int64_t> place_of(n);
  std::iota(row_in.begin(), row_in.end(), 0);
  std::iota(place_of.begin(), place_of.end(), 0);
  std::vector<std::int64_t> places(n);
  for (std::size_t j = 0; j < n; ++j) {
    const std::int64_t wanted = layout.position(GlobalIndex(static_cast<std::int64_t>(j))).value();
    places[j] = place_of[static_cast<std::size_t>(wanted)];
    const auto other = static_cast<std::size_t>(places[j]);
    std::swap(row_in[j], row_in[other]);
    place_of[static_cast<std::size_t>(row_in[other])] = places[j];
  }
  return places;
}

/// Which columns a rank gives to whom, and where it stores those that it receives.
struct ColumnMoves {
  std::vector<std::vector<std::int64_t>> given;     // to each rank, of one's own slab
  std::vector<std::vector<std::int64_t>> received;  // from each rank, to one's own slab

  ColumnMoves(const SlabLayout& layout, std::int64_t self, const std::vector<std::int64_t>& rows)
      : given(static_cast<std::size_t>(layout.ranks())),
        received(static_cast<std::size_t>(layout.ranks())) {
    std::vector<std::int64_t> place_of(rows.size());
    for (std::size_t place = 0; place < rows.size(); ++place) {
      place_of[static_cast<std::size_t>(rows[place])] = static_cast<std::int64_t>(place);
    }
    // Both sides go through the columns in the order that they are to have.
    for (GlobalIndex column(0); column.value() < layout.size(); column = column + 1) {
      const Position place(place_of[static_cast<std::size_t>(column.value())]);
      const GlobalIndex source = layout.row_at(place);
      const std::int64_t from = layout.owner(source);
      const std::int64_t to = layout.owner(column);
      if (from == self) {
        given[static_cast<std::size_t>(to)].push_back(source - layout.segment(from).begin);
      }
      if (to == self) {
        received[static_cast<std::size_t>(from)].push_back(column - layout.segment(to).begin);
      }
    }
  }
};

std::vector<std::int64_t> joined(const std::vector<std::vector<std::int64_t>>& lists) {
  std::vector<std::int64_t> all;
  for (const std::vector<std::int64_t>& list : lists) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

template <Scalar T>
class ColumnExchange {
 public:
  ColumnExchange(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab,
                 const std::vector<std::int64_t>& rows)
      : rank_(rank),
        slab_(slab),
        rows_(rows_at_once(layout)),
        moves_(layout, rank.index(), rows),
        outgoing_(rank.workspace<T>(rows_ * slab.columns(), 1)),
        incoming_(rank.workspace<T>(rows_ * slab.columns(), 1)),
        packed_(rank.event()),
        arrived_(rank.event()) {
    const std::vector<std::int64_t> given = joined(moves_.given);
    const std::vector<std::int64_t> received = joined(moves_.received);
    std::vector<std::int64_t> place_of(received.size());  // in what arrives
    for (std::size_t i = 0; i < received.size(); ++i) {
      place_of[static_cast<std::size_t>(received[i])] = static_cast<std::int64_t>(i);
    }
    given_ = rank.upload(rank.update(), given.data(), slab.columns());
    places_ = rank.upload(rank.update(), place_of.data(), slab.columns());
  }

  void run() {
    const runtime::LuKernels<T>& kernels = rank_.kernels<runtime::LuKernels<T>>();
    for (std::int64_t first = 0; first < slab_.rows(); first += rows_) {
      rank_.report("order", static_cast<double>(first) / static_cast<double>(slab_.rows()));
      const std::int64_t rows = std::min(rows_, slab_.rows() - first);
      const MatrixView<T> piece = slab_.block(first, 0, rows, slab_.columns());
      const MatrixView<T> outgoing(outgoing_.data(), rows, slab_.columns());
      const MatrixView<T> incoming(incoming_.data(), rows, slab_.columns());
      kernels.order_columns(rank_.update(), piece, given_, outgoing);
      if (rank_.count() == 1) {  // they are packed in the order that they are to have
        rank_.kernels<T>().copy(rank_.update(), outgoing, piece);
      } else {
        exchange(outgoing, incoming);
        kernels.order_columns(rank_.update(), incoming, places_, piece);
      }
    }
  }

 private:
  /// Pieces of a buffer, one a rank.
  static std::vector<comm::Bytes> pieces(MatrixView<T> buffer,
                                         const std::vector<std::vector<std::int64_t>>& columns) {
    std::vector<comm::Bytes> all;
    std::int64_t first = 0;
    for (const std::vector<std::int64_t>& list : columns) {
      const auto count = static_cast<std::int64_t>(list.size());
      all.push_back(programs::bytes_of(buffer.columns_from(first, count)));
      first += count;
    }
    return all;
  }

  void exchange(MatrixView<T> outgoing, MatrixView<T> incoming) {
    std::vector<comm::Bytes> send = pieces(outgoing, moves_.given);
    std::vector<comm::Bytes> receive = pieces(incoming, moves_.received);
    const auto self = static_cast<std::size_t>(rank_.index());
    rank_.update().record(packed_);
    rank_.transfer().wait(packed_, sites::inverse_columns_packed);
    rank_.transfer().copy(receive[self].data, send[self].data, send[self].size);
    rank_.communicator().all_to_all(rank_.transfer(), std::move(send), std::move(receive));
    rank_.transfer().record(arrived_);
    rank_.update().wait(arrived_, sites::inverse_columns_arrived);
  }

  mesh::Rank& rank_;
  MatrixView<T> slab_;
  std::int64_t rows_;
  ColumnMoves moves_;
  MatrixView<T> outgoing_;
  MatrixView<T> incoming_;
  const std::int64_t* given_ = nullptr;   // on the device
  const std::int64_t* places_ = nullptr;  // likewise
  runtime::Event& packed_;
  runtime::Event& arrived_;
};

}  // namespace

std::int64_t rows_at_once(const SlabLayout& layout) {
  const std::int64_t width = std::max<std::int64_t>(layout.max_width(), 1);
  return std::clamp<std::int64_t>((layout.size() * layout.tile() + width - 1) / width, 1,
                                  std::max<std::int64_t>(layout.size(), 1));
}

template <Scalar T>
void order_inverse(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab,
                   const std::vector<std::int64_t>& rows) {
  if (rank.count() > 1) {
    const std::vector<std::int64_t> places = swaps_to_natural_order(layout);
    const std::int64_t* const there = rank.upload(rank.update(), places.data(), layout.size());
    rank.kernels<runtime::LuKernels<T>>().swap_rows(rank.update(), 0, there, layout.size(), slab);
  }
  ColumnExchange<T>(rank, layout, slab, rows).run();
}

#define SHARDSOLVE_INSTANTIATE(T)                                            \
  template void order_inverse(mesh::Rank&, const SlabLayout&, MatrixView<T>, \
                              const std::vector<std::int64_t>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::lu
