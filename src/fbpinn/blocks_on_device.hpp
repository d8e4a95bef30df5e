/// The least-squares problem of all boxes on GPUs.
#pragma once

#include "fbpinn/block_system.hpp"
#include "fbpinn/derivatives.hpp"
#include "fbpinn/device_placement.hpp"
#include "fbpinn/training_geometry.hpp"
#include "mesh/rank.hpp"
#include "runtime/box_kernels.hpp"
#include "sparse/elimination_tree.hpp"
#include "sparse/workers.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace shardsolve::fbpinn {

/// A BlockSystem whose blocks lie on devices, for one call. Each rank makes one and does with it
/// what all do; vectors lie on the host and are the same on all.
class BlocksOnDevice final : public BlockSystem {
 public:
  /// The arguments must outlive it. `max_factor_bytes`: what features leave of the memory.
  BlocksOnDevice(mesh::Rank& rank, const TrainingGeometry& geometry, const Mlp& mlp,
                 const DevicePlacement& placement, const DeviceSlots& slots,
                 double max_factor_bytes);

  /// Features of each box at its points, as rows, made orthonormal. Rows of the caller's own units
  /// are made by the workers and brought to the device.
  void make(std::span<const double> hidden_weights, const Derivatives& derivatives,
            double rank_tolerance, const sparse::Workers& workers);

  std::vector<std::int64_t> ranks() const override { return ranks_; }
  std::vector<double> multiply(const std::vector<std::int64_t>& offsets,
                               const std::vector<double>& y,
                               const sparse::Workers& workers) const override;
  std::vector<double> multiply_adjoint(const std::vector<std::int64_t>& offsets,
                                       const std::vector<double>& r,
                                       const sparse::Workers& workers) const override;
  std::vector<double> weights_of(const std::vector<std::int64_t>& offsets,
                                 const std::vector<double>& y,
                                 const sparse::Workers& workers) const override;

 protected:
  std::unique_ptr<Gram> make_gram(const sparse::BlockGraph& graph, sparse::EliminationTree tree,
                                  const sparse::Workers& workers) const override;

 private:
  /// Of consecutive boxes of those that the rank has, from one on, to the device.
  using MakeRows = std::function<void(std::int64_t first, std::int64_t end, double* rows)>;
  MakeRows by_kernels(std::span<const double> hidden_weights, const Derivatives& derivatives);
  MakeRows by_workers(std::span<const double> hidden_weights, std::span<const double> derivatives,
                      const sparse::Workers& workers);
  void agree_on_ranks();
  std::vector<double> own_part(const std::vector<std::int64_t>& offsets,
                               const std::vector<double>& y) const;
  const std::vector<std::int32_t>& own_boxes() const {
    return placement_.boxes.owned[static_cast<std::size_t>(rank_.index())];
  }
  std::int64_t begin_of(const std::vector<std::int64_t>& begin) const {
    return begin[static_cast<std::size_t>(rank_.index())];
  }

  mesh::Rank& rank_;
  const TrainingGeometry& geometry_;
  const Mlp& mlp_;
  const DevicePlacement& placement_;
  const std::vector<std::int32_t>& held_;
  const runtime::BoxKernels& kernels_;
  double max_factor_bytes_;
  std::vector<std::int64_t> begin_;  ///< slots of the boxes that the rank has
  runtime::BoxBlocks blocks_{};
  runtime::BoxBlocks own_{};     ///< the first of them: the rank's own boxes
  std::vector<char> is_finite_;  ///< of the boxes that the rank has, whose rows the host makes
  std::vector<std::int64_t> ranks_;
  // Tables have the numbers of rank after rank, of each its own boxes'.
  const std::vector<std::int64_t>& slots_begin_;
  std::vector<std::int64_t> columns_begin_;
  // Of rows and slots, on the device.
  const std::int64_t* by_row_begin_ = nullptr;
  const std::int32_t* by_row_ = nullptr;
  double* slots_ = nullptr;
  double* of_rows_ = nullptr;
  double* of_columns_ = nullptr;
  const std::int64_t* offsets_ = nullptr;  ///< of the rank's own boxes in a table of columns
};

}  // namespace shardsolve::fbpinn
