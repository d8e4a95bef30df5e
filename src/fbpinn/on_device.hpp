/// What training does on a GPU: as on CPUs, by kernels.
#pragma once

#include "fbpinn/block_system.hpp"
#include "fbpinn/linear_step.hpp"
#include "fbpinn/networks.hpp"
#include "fbpinn/training_geometry.hpp"
#include "mesh/rank.hpp"
#include "runtime/box_kernels.hpp"
#include "sparse/elimination_tree.hpp"

#include <shardsolve/fbpinn_boxes.hpp>
#include <shardsolve/jet_set.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace shardsolve::fbpinn {

/// Runs `work` on the only rank of the mesh of devices that the workers have.
void on_device(const sparse::Workers& workers, const std::function<void(mesh::Rank&)>& work);

/// What a linear step takes of the memory of the devices that the workers have.
LinearStepMemory device_memory(const TrainingGeometry& geometry, std::int64_t columns_of_box,
                               const sparse::EliminationTree& tree, const sparse::Workers& workers);

/// Jets of the sum of all boxes' networks: jets_of_networks, on the device. Not of the caller's own
/// units.
std::vector<double> jets_on_device(const Boxes& boxes, const Mlp& mlp, const JetSet& set,
                                   int fields, const PointsInBoxes& at,
                                   std::span<const double> hidden_weights,
                                   std::span<const double> last_layer,
                                   const sparse::Workers& workers);

/// A BlockSystem whose blocks lie on a device, for one call. Vectors lie on the host.
class BlocksOnDevice final : public BlockSystem {
 public:
  /// The geometry must outlive it. `most_factor_bytes`: what features leave of the memory.
  BlocksOnDevice(mesh::Rank& rank, const TrainingGeometry& geometry, const Mlp& mlp,
                 double most_factor_bytes);

  /// Features of each box at its points, as rows, made orthonormal. Rows of the caller's own units
  /// are made by the workers and brought to the device.
  void make(std::span<const double> hidden_weights, std::span<const double> derivatives,
            double rank_tolerance, const sparse::Workers& workers);

  std::vector<std::int64_t> ranks() const override;
  std::vector<double> multiply(const std::vector<std::int64_t>& offsets,
                               const std::vector<double>& y,
                               const sparse::Workers& workers) const override;
  std::vector<double> multiply_adjoint(const std::vector<std::int64_t>& offsets,
                                       const std::vector<double>& r,
                                       const sparse::Workers& workers) const override;
  std::vector<double> weights_of(const std::vector<std::int64_t>& offsets,
                                 const std::vector<double>& y) const override;

 protected:
  std::unique_ptr<Gram> make_gram(const sparse::BlockGraph& graph, sparse::EliminationTree tree,
                                  const sparse::Workers& workers) const override;

 private:
  /// Of consecutive boxes, from one on, to the device.
  using MakeRows = std::function<void(std::int64_t first, std::int64_t end, double* rows)>;
  MakeRows by_kernels(std::span<const double> hidden_weights, std::span<const double> derivatives);
  MakeRows by_workers(std::span<const double> derivatives, const sparse::Workers& workers);
  const std::int64_t* on_device(const std::vector<std::int64_t>& offsets) const;

  mesh::Rank& rank_;
  const TrainingGeometry& geometry_;
  const Mlp& mlp_;
  const runtime::BoxKernels& kernels_;
  double most_factor_bytes_;
  runtime::BoxBlocks blocks_{};
  std::vector<std::int32_t> ranks_;
  // Of rows and slots, on the device.
  const std::int64_t* by_row_begin_ = nullptr;
  const std::int32_t* by_row_ = nullptr;
  double* slots_ = nullptr;
  double* of_rows_ = nullptr;
  double* of_columns_ = nullptr;
  mutable std::vector<std::int64_t> last_offsets_;
  std::int64_t* offsets_ = nullptr;
};

}  // namespace shardsolve::fbpinn
