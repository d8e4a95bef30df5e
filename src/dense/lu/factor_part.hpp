/// What a rank holds of an LU factor.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/scaled.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::lu {

/// P A Q^T = L U, Q being the order of elimination of the layout.
template <Scalar T>
struct FactorPart {
  const SlabLayout& layout;
  MatrixView<const T> slab;               ///< L and U, rows in the order of P
  MatrixView<const T> matrix;             ///< A, or L and U, too
  const std::vector<std::int64_t>& rows;  ///< the row of A that came to each place
  Scaled one_norm;                        ///< ||A||_1
  Scaled inf_norm;                        ///< ||A||_inf
  double growth = 1.0;                    ///< max |u| / max |a|
  MatrixView<const T> sketch = {};        ///< of A, where L and U have overwritten it; or empty
  Scaled frobenius_norm = {};             ///< ||A||_F, of the sketch
};

}  // namespace shardsolve::dense::lu
