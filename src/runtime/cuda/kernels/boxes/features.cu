/// Jets of window times network, a thread for each point of a box: derivatives of a unit are those
/// of its activation times powers of its weights; through several layers Taylor coefficients go by
/// Horner's scheme, in scratch memory.
#include "runtime/cuda/box_device_kernels.hpp"
#include "runtime/cuda/kernels/boxes/activation.cuh"
#include "runtime/cuda/kernels/launch.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numbers>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = 128;
constexpr int max_size = JetTable::max_derivatives;
constexpr int max_axes = JetTable::max_axes;
/// What jets of several layers may take of scratch memory, which says how many threads there are.
constexpr std::size_t layer_bytes = std::size_t{256} << 20U;

using Jet = double[max_size];

/// One call; scratch is 0 for networks with one hidden layer.
struct NetworkCall {
  BoxNetworks networks;
  BoxPoints points;
  const BoxRun* runs;
  std::int64_t items;   ///< runs times pieces
  std::int64_t pieces;  ///< of a run
  std::int64_t blocks;  ///< that share the items
  double* scratch;      ///< of all threads
};

/// A point in a box.
struct Place {
  const double* weights;
  double xi[max_axes];     ///< (x - center) / half width
  double rates[max_axes];  ///< 1 / half width
  double* scratch;         ///< of this thread, whose numbers lie `apart`
  std::int64_t apart;
};

/// ((1 + cos t) / 2)^2 for t = pi (x - center) / half_width, and its derivatives by x.
__device__ void window_along_axis(double from_center, double half_width, Derivatives& f) {
  const double rate = std::numbers::pi / (2.0 * half_width);
  const double c = cos(rate * from_center);
  const double s = sin(rate * from_center);
  const double c2 = c * c;
  const double s2 = s * s;
  f[0] = c2 * c2;
  f[1] = -4.0 * c2 * c * s * rate;
  f[2] = c2 * (12.0 * s2 - 4.0 * c2) * (rate * rate);
  f[3] = c * s * (40.0 * c2 - 24.0 * s2) * (rate * rate * rate);
  f[4] = (24.0 * s2 * s2 - 192.0 * c2 * s2 + 40.0 * c2 * c2) * (rate * rate * rate * rate);
}

/// The jet of a box's window over the sum of all; and the place.
__device__ void begin_point(const NetworkCall& call, std::int32_t box, std::int64_t point,
                            Place& place, Jet& psi) {
  const BoxNetworks& networks = call.networks;
  const JetTable& jets = *networks.jets;
  Derivatives along[max_axes];
  for (int axis = 0; axis < jets.axes; ++axis) {
    const double half_width = networks.half_widths[box * jets.axes + axis];
    const double from_center =
        call.points.points[point * jets.axes + axis] - networks.centers[box * jets.axes + axis];
    place.rates[axis] = 1.0 / half_width;
    place.xi[axis] = from_center * place.rates[axis];
    window_along_axis(from_center, half_width, along[axis]);
  }
  Jet window;
  for (int d = 0; d < jets.size; ++d) {
    double product = 1.0;
    for (int axis = 0; axis < jets.axes; ++axis) {
      product *= along[axis][jets.index[d][axis]];
    }
    window[d] = product;
    psi[d] = 0.0;
  }
  const double* const inverse =
      call.points.inverse_sums + (networks.levels[box] * call.points.count + point) * jets.size;
  for (int t = 0; t < jets.terms; ++t) {
    const JetTable::Term& term = jets.term[t];
    psi[term.result] += term.weight * window[term.left] * inverse[term.right];
  }
  place.weights = networks.weights + box * networks.weights_of_box;
}

__device__ int order_of(const JetTable& jets, int d) {
  int order = 0;
  for (int axis = 0; axis < jets.axes; ++axis) {
    order += jets.index[d][axis];
  }
  return order;
}

/// Derivatives of unit `unit` of the only hidden layer.
__device__ void jet_of_unit(const BoxNetworks& networks, const Place& place, std::int64_t unit,
                            Jet& jet) {
  const JetTable& jets = *networks.jets;
  const double* const w = place.weights + unit * jets.axes;
  double z = place.weights[std::int64_t{networks.hidden[0]} * jets.axes + unit];
  double rates[max_axes];
  for (int axis = 0; axis < jets.axes; ++axis) {
    z += w[axis] * place.xi[axis];
    rates[axis] = w[axis] * place.rates[axis];
  }
  Derivatives f;
  activation_derivatives(networks.activation, z, f);
  for (int d = 0; d < jets.size; ++d) {
    double power = f[order_of(jets, d)];
    for (int axis = 0; axis < jets.axes; ++axis) {
      for (int k = 0; k < jets.index[d][axis]; ++k) {
        power *= rates[axis];
      }
    }
    jet[d] = power;
  }
}

/// Where Taylor coefficient d of a unit lies; layers take turns with two places.
__device__ double& coefficient(const NetworkCall& call, const Place& place, int layer,
                               std::int64_t unit, int d) {
  const BoxNetworks& networks = call.networks;
  const std::int64_t number = (layer % 2 * networks.max_units + unit) * networks.jets->size + d;
  return place.scratch[number * place.apart];
}

/// f(z) for Taylor coefficients z, by Horner's scheme in z - z_0.
__device__ void compose(const BoxNetworks& networks, const Jet& z, Jet& result) {
  const JetTable& jets = *networks.jets;
  constexpr double inverse_factorials[] = {1.0, 1.0, 0.5, 1.0 / 6.0, 1.0 / 24.0};
  Derivatives f;
  activation_derivatives(networks.activation, z[0], f);
  Jet product;
  for (int d = 0; d < jets.size; ++d) {
    result[d] = 0.0;
  }
  for (int m = jets.order; m >= 0; --m) {
    if (m < jets.order) {
      for (int d = 0; d < jets.size; ++d) {
        product[d] = 0.0;
      }
      for (int t = 0; t < jets.terms; ++t) {
        const JetTable::Term& term = jets.term[t];
        if (term.right > 0) {
          product[term.result] += result[term.left] * z[term.right];
        }
      }
      for (int d = 0; d < jets.size; ++d) {
        result[d] = product[d];
      }
    }
    result[0] += inverse_factorials[m] * f[m];
  }
}

/// Taylor coefficients of all units of all hidden layers.
__device__ void propagate(const NetworkCall& call, const Place& place) {
  const BoxNetworks& networks = call.networks;
  const JetTable& jets = *networks.jets;
  const double* weights = place.weights;
  std::int64_t inputs = jets.axes;
  for (int layer = 0; layer < networks.layers; ++layer) {
    const std::int64_t units = networks.hidden[layer];
    for (std::int64_t unit = 0; unit < units; ++unit) {
      Jet z;
      for (int d = 0; d < jets.size; ++d) {
        z[d] = 0.0;
      }
      z[0] = weights[units * inputs + unit];
      for (std::int64_t input = 0; input < inputs; ++input) {
        const double w = weights[unit * inputs + input];
        if (layer > 0) {
          for (int d = 0; d < jets.size; ++d) {
            z[d] += w * coefficient(call, place, layer - 1, input, d);
          }
          continue;
        }
        z[0] += w * place.xi[input];
        for (int d = 1; d <= jets.axes && d < jets.size; ++d) {
          if (order_of(jets, d) == 1 && jets.index[d][input] == 1) {
            z[d] = w * place.rates[input];
          }
        }
      }
      Jet result;
      compose(networks, z, result);
      for (int d = 0; d < jets.size; ++d) {
        coefficient(call, place, layer, unit, d) = result[d];
      }
    }
    weights += units * (inputs + 1);
    inputs = units;
  }
}

/// Derivatives of a unit of the last hidden layer.
template <bool several_layers>
__device__ void last_jet(const NetworkCall& call, const Place& place, std::int64_t unit, Jet& jet) {
  if constexpr (several_layers) {
    const JetTable& jets = *call.networks.jets;
    for (int d = 0; d < jets.size; ++d) {
      jet[d] = jets.factorial[d] * coefficient(call, place, call.networks.layers - 1, unit, d);
    }
  } else {
    jet_of_unit(call.networks, place, unit, jet);
  }
}

/// Calls use(run, i, place, psi) for each point i of each run, its networks' jets made.
template <bool several_layers, class Use>
__device__ void each_point(const NetworkCall& call, Use use) {
  Place place;
  place.apart = call.blocks * threads;
  place.scratch = call.scratch + std::int64_t{blockIdx.x} * threads + threadIdx.x;
  Jet psi;
  for (std::int64_t item = blockIdx.x; item < call.items; item += call.blocks) {
    const BoxRun& run = call.runs[item / call.pieces];
    const std::int64_t i = item % call.pieces * threads + threadIdx.x;
    if (i < run.count) {
      begin_point(call, run.box, call.points.point[run.first_pair + i], place, psi);
      if constexpr (several_layers) {
        propagate(call, place);
      }
      use(run, i, place, psi);
    }
  }
}

struct RowsCall {
  const double* derivatives;
  const std::int64_t* begin;  ///< of boxes' slots
  std::int64_t first_slot;
  double* rows;
};

template <bool several_layers>
__global__ void __launch_bounds__(threads)
    make_rows(const __grid_constant__ NetworkCall call, const __grid_constant__ RowsCall to) {
  const BoxNetworks& networks = call.networks;
  const JetTable& jets = *networks.jets;
  const std::int64_t units = networks.hidden[networks.layers - 1];
  const std::int64_t columns = networks.fields * (units + 1);
  each_point<several_layers>(call, [&](const BoxRun& run, std::int64_t i, const Place& place,
                                       const Jet& psi) {
    const std::int64_t point = call.points.point[run.first_pair + i] - run.first_point;
    const std::int64_t begin = to.begin[run.box];
    const std::int64_t height = to.begin[run.box + 1] - begin;
    double* const block = to.rows + (begin - to.first_slot) * columns - begin;
    for (int e = 0; e < run.equations; ++e) {
      for (int field = 0; field < networks.fields; ++field) {
        const double* const a = to.derivatives + run.first_derivative +
                                ((point * run.equations + e) * networks.fields + field) * jets.size;
        // c_left = sum over the terms of a_result psi_right: the adjoint of Leibniz's rule.
        Jet c;
        for (int d = 0; d < jets.size; ++d) {
          c[d] = 0.0;
        }
        for (int t = 0; t < jets.terms; ++t) {
          const JetTable::Term& term = jets.term[t];
          c[term.left] += term.weight * a[term.result] * psi[term.right];
        }
        double* const row =
            block + run.first_slot + e * run.count + i + field * (units + 1) * height;
        for (std::int64_t unit = 0; unit < units; ++unit) {
          Jet jet;
          last_jet<several_layers>(call, place, unit, jet);
          double sum = 0.0;
          for (int d = 0; d < jets.size; ++d) {
            sum += c[d] * jet[d];
          }
          row[unit * height] = sum;
        }
        row[units * height] = c[0];
      }
    }
  });
}

template <bool several_layers>
__global__ void __launch_bounds__(threads)
    make_jets(const __grid_constant__ NetworkCall call, const double* last_layer, double* result) {
  const BoxNetworks& networks = call.networks;
  const JetTable& jets = *networks.jets;
  const std::int64_t units = networks.hidden[networks.layers - 1];
  each_point<several_layers>(call, [&](const BoxRun& run, std::int64_t i, const Place& place,
                                       const Jet& psi) {
    for (int field = 0; field < networks.fields; ++field) {
      const double* const layer = last_layer + (run.box * networks.fields + field) * (units + 1);
      Jet sum;
      for (int d = 0; d < jets.size; ++d) {
        sum[d] = 0.0;
      }
      sum[0] = layer[units];
      for (std::int64_t unit = 0; unit < units; ++unit) {
        Jet jet;
        last_jet<several_layers>(call, place, unit, jet);
        for (int d = 0; d < jets.size; ++d) {
          sum[d] += layer[unit] * jet[d];
        }
      }
      Jet total;
      for (int d = 0; d < jets.size; ++d) {
        total[d] = 0.0;
      }
      for (int t = 0; t < jets.terms; ++t) {
        const JetTable::Term& term = jets.term[t];
        total[term.result] += term.weight * psi[term.left] * sum[term.right];
      }
      double* const to = result + ((run.first_pair + i) * networks.fields + field) * jets.size;
      for (int d = 0; d < jets.size; ++d) {
        to[d] = total[d];
      }
    }
  });
}

std::size_t bytes_of_block(const BoxNetworks& networks) {
  return sizeof(double) * 2 * threads *
         static_cast<std::size_t>(networks.max_units * networks.jet_size);
}

NetworkCall call_of(const BoxNetworks& networks, const BoxPoints& points, const BoxRun* runs,
                    std::int64_t count, std::int64_t max_points, double* scratch) {
  const std::int64_t pieces = divide_up(max_points, threads);
  NetworkCall call{networks, points, runs, count * pieces, pieces, count * pieces, scratch};
  if (networks.layers > 1) {
    const std::size_t block_bytes = bytes_of_block(networks);
    const auto fit = static_cast<std::int64_t>(std::max(layer_bytes, block_bytes) / block_bytes);
    call.blocks = std::min(call.blocks, fit);
  }
  return call;
}

}  // namespace

std::size_t BoxDeviceKernels::layer_scratch(const BoxNetworks& networks) {
  return networks.layers > 1 ? std::max(layer_bytes, bytes_of_block(networks)) : 0;
}

void BoxDeviceKernels::feature_rows(cudaStream_t stream, const BoxNetworks& networks,
                                    const BoxPoints& points, const BoxRun* runs, std::int64_t count,
                                    std::int64_t max_points, const double* derivatives,
                                    const BoxBlocks& blocks, std::int64_t first_slot, double* rows,
                                    double* scratch) {
  const NetworkCall call = call_of(networks, points, runs, count, max_points, scratch);
  launch(stream, networks.layers > 1 ? &make_rows<true> : &make_rows<false>, call.blocks,
         {dim3(threads)}, call, RowsCall{derivatives, blocks.begin, first_slot, rows});
}

void BoxDeviceKernels::network_jets(cudaStream_t stream, const BoxNetworks& networks,
                                    const BoxPoints& points, const BoxRun* runs, std::int64_t count,
                                    std::int64_t max_points, const double* last_layer, double* jets,
                                    double* scratch) {
  const NetworkCall call = call_of(networks, points, runs, count, max_points, scratch);
  launch(stream, networks.layers > 1 ? &make_jets<true> : &make_jets<false>, call.blocks,
         {dim3(threads)}, call, last_layer, jets);
}

}  // namespace shardsolve::runtime::cuda
