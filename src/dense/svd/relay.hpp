/// Products of matrices whose columns lie on the ranks: the columns of one factor travel, a tile at
/// a time, and every rank makes its own columns of the product. Nothing is summed over ranks.
#pragma once

#include "mesh/rank.hpp"
#include "programs/message_ring.hpp"
#include "runtime/kernels.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::svd {

/// What travels lies on all ranks as one layout has it, whose tile is a message; all matrices of a
/// rank have its columns alone. Each product waits for its end. Throws Error(cancelled).
template <Scalar T>
class Relay {
 public:
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;

  /// For messages of up to `elements` numbers: of a product, rows of what travels times the tile.
  Relay(mesh::Rank& rank, std::int64_t elements);

  /// g = alpha Y Y^H + beta g, where Y has the columns of `layout`, and g those with the numbers of
  /// the rows `own` of Y. Y travels.
  void gram(const SlabLayout& layout, T alpha, In y, GlobalRange own, T beta, Out g);
  /// Likewise alpha Y Z^H + beta g: both travel.
  void outer(const SlabLayout& layout, T alpha, In y, In z, GlobalRange own, T beta, Out g);
  /// x' = alpha Y^H x + beta x', row i of it made with column i of Y, which travels.
  void adjoint_times(const SlabLayout& layout, T alpha, In y, In x, T beta, Out target);
  /// x' = Y x, the sum over columns of Y, which travel.
  void times(const SlabLayout& layout, In y, In x, Out target);

  /// Bytes of workspace.
  static std::int64_t bytes(std::int64_t elements);

 private:
  /// g = alpha Y Z^H + beta g for Y and Z, or Y alone, as `parts`.
  void add_products(const SlabLayout& layout, T alpha, const std::vector<In>& parts,
                    GlobalRange own, T beta, Out g);
  /// Calls use(rows of the layout, what travels of each of `parts`) for each tile in turn.
  template <class Use>
  void run(const SlabLayout& layout, const std::vector<In>& parts, Use use);

  mesh::Rank& rank_;
  const runtime::Kernels<T>& kernels_;
  programs::MessageRing<T> messages_;
  std::int64_t turn_ = 0;
};

}  // namespace shardsolve::dense::svd
