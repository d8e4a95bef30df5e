#include "runtime/cuda/box_kernels.hpp"

#include "runtime/cuda/box_device_kernels.hpp"
#include "runtime/cuda/cuda_queue.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

namespace shardsolve::runtime::cuda {
namespace {

double* layer_scratch(CudaQueue& queue, const BoxNetworks& networks) {
  const std::size_t bytes = BoxDeviceKernels::layer_scratch(networks);
  return bytes == 0 ? nullptr : static_cast<double*>(queue.scratch(bytes));
}

}  // namespace

void CudaBoxKernels::do_feature_rows(Queue& queue, const WorkInfo& info,
                                     const BoxNetworks& networks, const BoxPoints& points,
                                     const BoxRun* runs, std::int64_t count,
                                     std::int64_t max_points, const double* derivatives,
                                     const BoxBlocks& blocks, std::int64_t first_slot,
                                     double* rows) const {
  CudaQueue& cuda = as_cuda(queue);
  double* const scratch = layer_scratch(cuda, networks);
  cuda.launch(info, [&] {
    BoxDeviceKernels::feature_rows(cuda.stream(), networks, points, runs, count, max_points,
                                   derivatives, blocks, first_slot, rows, scratch);
  });
}

void CudaBoxKernels::do_orthonormalise(Queue& queue, const WorkInfo& info, const BoxBlocks& blocks,
                                       std::int64_t first, std::int64_t count, double tolerance,
                                       double* rows) const {
  if (const std::int64_t most = BoxDeviceKernels::max_columns(); blocks.columns > most) {
    throw Error(ErrorKind::unsupported,
                fmt::format("boxes of {} columns (fields times units and a constant) given; this "
                            "GPU takes up to {}: use smaller networks or CPU devices",
                            blocks.columns, most));
  }
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    BoxDeviceKernels::orthonormalise(cuda.stream(), blocks, first, count, tolerance, rows);
  });
}

void CudaBoxKernels::do_gram(Queue& queue, const WorkInfo& info, const BoxBlocks& blocks,
                             const GramBlock* wanted, std::int64_t count, double shift) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { BoxDeviceKernels::gram(cuda.stream(), blocks, wanted, count, shift); });
}

void CudaBoxKernels::do_multiply(Queue& queue, const WorkInfo& info, const BoxBlocks& blocks,
                                 const std::int64_t* offsets, const double* y,
                                 double* slots) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { BoxDeviceKernels::multiply(cuda.stream(), blocks, offsets, y, slots); });
}

void CudaBoxKernels::do_multiply_adjoint(Queue& queue, const WorkInfo& info,
                                         const BoxBlocks& blocks, const std::int64_t* offsets,
                                         const double* r, double* slots, double* g) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    BoxDeviceKernels::multiply_adjoint(cuda.stream(), blocks, offsets, r, slots, g);
  });
}

void CudaBoxKernels::do_weights_of(Queue& queue, const WorkInfo& info, const BoxBlocks& blocks,
                                   const std::int64_t* offsets, const double* y, double* z) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { BoxDeviceKernels::weights_of(cuda.stream(), blocks, offsets, y, z); });
}

void CudaBoxKernels::do_network_jets(Queue& queue, const WorkInfo& info,
                                     const BoxNetworks& networks, const BoxPoints& points,
                                     const BoxRun* runs, std::int64_t count,
                                     std::int64_t max_points, const double* last_layer,
                                     double* jets) const {
  CudaQueue& cuda = as_cuda(queue);
  double* const scratch = layer_scratch(cuda, networks);
  cuda.launch(info, [&] {
    BoxDeviceKernels::network_jets(cuda.stream(), networks, points, runs, count, max_points,
                                   last_layer, jets, scratch);
  });
}

void CudaBoxKernels::do_add_listed(Queue& queue, const WorkInfo& info, std::int64_t count,
                                   std::int64_t width, const std::int64_t* begin,
                                   const std::int32_t* which, const double* values,
                                   double* sums) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    BoxDeviceKernels::add_listed(cuda.stream(), count, width, begin, which, values, sums);
  });
}

void CudaBoxKernels::do_pointwise_rows(Queue& queue, const WorkInfo& info,
                                       const PointwisePart& part, std::int64_t* nonfinite) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { BoxDeviceKernels::pointwise_rows(cuda.stream(), part, nonfinite); });
}

void CudaBoxKernels::do_largest(Queue& queue, const WorkInfo& info, const double* a,
                                const double* b, std::int64_t count, double* largest) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { BoxDeviceKernels::largest(cuda.stream(), a, b, count, largest); });
}

}  // namespace shardsolve::runtime::cuda
