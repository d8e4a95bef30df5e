#include "core/host_memory.hpp"
#include "core/right_hand_sides.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/sharded.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsolve {
namespace {

/// One piece of memory a rank, kept together.
class Pieces {
 public:
  /// Not initialised.
  template <Scalar T>
  MatrixView<T> add(std::int64_t rows, std::int64_t columns) {
    pieces_->push_back(
        core::allocate_host_memory(static_cast<std::size_t>(rows * columns) * sizeof(T)));
    if (!pieces_->back()) {
      throw Error(ErrorKind::out_of_memory, fmt::format("could not allocate {} elements of {}",
                                                        rows * columns, name(dtype_of<T>)));
    }
    return {static_cast<T*>(pieces_->back().get()), rows, columns};
  }
  std::shared_ptr<void> owner() const { return pieces_; }

 private:
  std::shared_ptr<std::vector<std::shared_ptr<void>>> pieces_ =
      std::make_shared<std::vector<std::shared_ptr<void>>>();
};

/// A view in place of what lies in another process.
template <Scalar T>
bool is_elsewhere(const MatrixView<T>& view) {
  return view.data() == nullptr && view.rows() == 0 && view.columns() == 0;
}

template <Scalar T>
void require_memory(const MatrixView<T>& view, const char* what) {
  if (view.data() == nullptr && !view.empty()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} of {} x {} given without memory: the pointer is null", what,
                            view.rows(), view.columns()));
  }
}

/// Columns of the right-hand sides of which these are the blocks.
template <Scalar T>
std::int64_t columns_of(const std::vector<MatrixView<T>>& blocks) {
  const auto here = std::find_if_not(blocks.begin(), blocks.end(), is_elsewhere<T>);
  return here == blocks.end() ? 0 : here->columns();
}

/// Throws unless there is one view a rank, each with the shape that `shape(rank)` gives or
/// elsewhere. What is empty is everywhere: it gets its shape, which those who compute rely on.
template <Scalar T, class Shape>
void fit_shapes(std::vector<MatrixView<T>>& views, const SlabLayout& layout, const char* what,
                Shape shape) {
  if (static_cast<std::int64_t>(views.size()) != layout.ranks()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} {} given for a layout of {} ranks; one a rank is needed",
                            views.size(), what, layout.ranks()));
  }
  for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
    MatrixView<T>& view = views[static_cast<std::size_t>(rank)];
    const auto [rows, columns] = shape(rank);
    if (is_elsewhere(view)) {
      view = rows == 0 || columns == 0 ? MatrixView<T>(nullptr, rows, columns) : view;
    } else if (view.rows() != rows || view.columns() != columns) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("{} of rank {} is {} x {}; the layout needs {} x {}", what, rank,
                              view.rows(), view.columns(), rows, columns));
    } else {
      require_memory(view, what);
    }
  }
}

}  // namespace

void core::require_columns(std::int64_t columns) {
  if (columns < 0 || columns > SlabLayout::largest_size) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} right-hand sides given; 0 to {} are accepted", columns,
                            SlabLayout::largest_size));
  }
}

template <Scalar T>
ShardedMatrix<T>::ShardedMatrix(SlabLayout layout) : layout_(std::move(layout)) {
  Pieces pieces;
  for (std::int64_t rank = 0; rank < layout_.ranks(); ++rank) {
    slabs_.push_back(pieces.add<T>(layout_.size(), layout_.width(rank)));
  }
  owner_ = pieces.owner();
}

template <Scalar T>
ShardedMatrix<T>::ShardedMatrix(SlabLayout layout, std::vector<MatrixView<T>> slabs, Memory memory,
                                std::shared_ptr<void> owner)
    : layout_(std::move(layout)),
      memory_(memory),
      owner_(std::move(owner)),
      slabs_(std::move(slabs)) {
  fit_shapes(slabs_, layout_, "slabs",
             [&](std::int64_t rank) { return std::pair(layout_.size(), layout_.width(rank)); });
}

template <Scalar T>
ShardedMatrix<T>::ShardedMatrix(SlabLayout layout, MatrixView<T> whole)
    : layout_(std::move(layout)) {
  if (whole.rows() != layout_.size() || whole.columns() != layout_.size()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("a matrix of {} x {} given for a layout of {} x {}", whole.rows(),
                            whole.columns(), layout_.size(), layout_.size()));
  }
  require_memory(whole, "a matrix");
  for (std::int64_t rank = 0; rank < layout_.ranks(); ++rank) {
    slabs_.push_back(whole.columns_from(layout_.segment(rank).begin.value(), layout_.width(rank)));
  }
}

template <Scalar T>
RightHandSides<T>::RightHandSides(const SlabLayout& layout, std::int64_t columns)
    : layout_(layout), columns_(columns) {
  core::require_columns(columns);
  Pieces pieces;
  for (std::int64_t rank = 0; rank < layout_.ranks(); ++rank) {
    blocks_.push_back(pieces.add<T>(layout_.width(rank), columns));
  }
  owner_ = pieces.owner();
}

template <Scalar T>
RightHandSides<T>::RightHandSides(const SlabLayout& layout, std::vector<MatrixView<T>> blocks,
                                  Memory memory, std::shared_ptr<void> owner)
    : layout_(layout),
      columns_(columns_of(blocks)),
      memory_(memory),
      owner_(std::move(owner)),
      blocks_(std::move(blocks)) {
  fit_shapes(blocks_, layout_, "blocks of right-hand sides",
             [&](std::int64_t rank) { return std::pair(layout_.width(rank), columns_); });
}

template <Scalar T>
RightHandSides<T>::RightHandSides(const SlabLayout& layout, MatrixView<T> whole)
    : layout_(layout), columns_(whole.columns()) {
  if (whole.rows() != layout_.size()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("right-hand sides of {} rows given; the matrix has {}", whole.rows(),
                            layout_.size()));
  }
  require_memory(whole, "right-hand sides");
  for (std::int64_t rank = 0; rank < layout_.ranks(); ++rank) {
    blocks_.push_back(
        whole.block(layout_.segment(rank).begin.value(), 0, layout_.width(rank), columns_));
  }
}

template class ShardedMatrix<float>;
template class ShardedMatrix<double>;
template class ShardedMatrix<std::complex<float>>;
template class ShardedMatrix<std::complex<double>>;
template class RightHandSides<float>;
template class RightHandSides<double>;
template class RightHandSides<std::complex<float>>;
template class RightHandSides<std::complex<double>>;

}  // namespace shardsolve
