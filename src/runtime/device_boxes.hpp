/// Networks in boxes as kernels take them.
#pragma once

#include <shardsolve/fbpinn_boxes.hpp>
#include <shardsolve/jet_set.hpp>

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime {

/// A JetSet as kernels take it.
struct JetTable {
  static constexpr int max_axes = fbpinn::max_axes;
  static constexpr int max_order = fbpinn::max_order;
  static constexpr int max_derivatives = fbpinn::max_derivatives;
  /// Pairs of derivatives whose orders add up to at most 4, in four variables.
  static constexpr int max_terms = 495;

  struct Term {
    double weight;
    std::uint8_t result;
    std::uint8_t left;
    std::uint8_t right;
  };
  std::int32_t axes;
  std::int32_t order;
  std::int32_t size;
  std::int32_t terms;
  std::uint8_t index[max_derivatives][max_axes];
  double factorial[max_derivatives];
  Term term[max_terms];
};

/// The networks of all boxes. Pointers are to device memory, here and below.
struct BoxNetworks {
  static constexpr int max_layers = 8;
  const JetTable* jets;
  std::int64_t jet_size;        ///< JetTable::size
  const double* centers;        ///< axes numbers a box
  const double* half_widths;    ///< likewise
  const std::int32_t* levels;   ///< of each box
  const double* weights;        ///< of hidden layers, as fbpinn::Mlp has them
  std::int64_t weights_of_box;  ///< how many
  std::int32_t fields;
  std::int32_t layers;
  std::int32_t hidden[max_layers];  ///< units of each layer
  std::int32_t max_units;
  fbpinn::Activation activation;

  std::int64_t features() const { return hidden[layers - 1] + 1; }
  std::int64_t columns() const { return fields * features(); }
};

/// Points, and pairs of a box and a point in it.
struct BoxPoints {
  const double* points;        ///< axes numbers a point
  const double* inverse_sums;  ///< levels x points x JetTable::size
  std::int64_t count;          ///< of points
  const std::int32_t* point;   ///< of each pair
};

/// Points of one term that lie in one box: pairs one after the other.
struct BoxRun {
  std::int64_t first_pair;
  std::int64_t count;
  std::int64_t first_slot;        ///< equation e at pair i: slot first_slot + e count + i
  std::int64_t first_point;       ///< of the term
  std::int64_t first_derivative;  ///< of the term: points x equations x fields x size from there
  std::int32_t box;
  std::int32_t equations;
};

/// Each box's rows of the least-squares matrix as orthonormal columns: M P = Q R.
struct BoxBlocks {
  const std::int64_t* begin;  ///< of each box's slots; boxes + 1
  const std::int32_t* row;    ///< of each slot, ascending in each box
  std::int64_t boxes;
  std::int64_t slots;     ///< of all
  std::int64_t columns;   ///< before some are left out
  std::int64_t max_rows;  ///< of a box
  double* q;              ///< of box b, rows x rank, column-major, from begin[b] columns on
  double* r;  ///< columns x columns a box, of which rank x rank upper ones are R, row-major
  std::int32_t* kept;  ///< columns a box: which column of M each of R is
  std::int32_t* rank;  ///< of each box
};

/// What the function of a residual gave at some points of a term, and where rows of it are to be.
struct PointwisePart {
  const double* r;        ///< points x equations
  const double* a;        ///< points x equations x jets, by the jets; or null
  const double* b;        ///< points x equations x coefficients, by those; or null
  const double* targets;  ///< points x equations, subtracted from r; or null
  std::int64_t points;
  std::int64_t equations;
  std::int64_t jets;
  std::int64_t coefficients;
  double scale;             ///< all are multiplied by it
  double* residual;         ///< equations x points
  double* derivatives;      ///< as a
  double* by_coefficients;  ///< coefficients x equations x points

  /// Of the largest of the arrays, but not 0.
  std::int64_t numbers() const {
    const std::int64_t by_jets = a == nullptr ? 1 : jets;
    const std::int64_t by_others = b == nullptr ? 1 : coefficients;
    return points * equations * std::max({by_jets, by_others, std::int64_t{1}});
  }
};

/// Kernels that look at many numbers leave what each warp has seen.
struct SeenByWarps {
  static constexpr std::int64_t warps_of_block = 8;
  static constexpr std::int64_t max_blocks = 1024;

  /// That look at so many numbers.
  static std::int64_t blocks(std::int64_t numbers) {
    constexpr std::int64_t of_block = 32 * warps_of_block;
    return std::min((numbers + of_block - 1) / of_block, max_blocks);
  }
  static std::int64_t warps(std::int64_t numbers) { return blocks(numbers) * warps_of_block; }
};

/// Block (i, j) of Q^T Q to be stored.
struct GramBlock {
  double* target;
  std::int64_t stride;
  std::int32_t i;
  std::int32_t j;
};

}  // namespace shardsolve::runtime
