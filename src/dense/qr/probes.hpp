/// The certificate of a QR factorisation: products with a few random vectors, made before A is
/// gone.
#pragma once

#include "dense/qr/first_rank.hpp"
#include "mesh/rank.hpp"
#include "runtime/qr_kernels.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/outcome.hpp>

#include <cstdint>
#include <functional>
#include <vector>

namespace shardsolve::dense::qr {

inline constexpr std::int64_t probe_count = 4;

/// With vectors G of random signs: A D G before A is overwritten, then what Q and R make of it.
template <Scalar T>
class Probes {
 public:
  using Wide = runtime::WideOf<T>;

  /// `a`: this rank's rows; `exponents`: of D. Enqueued on the update queue.
  Probes(mesh::Rank& rank, MatrixView<const T> a, const std::vector<std::int64_t>& exponents);

  /// `q`: this rank's rows of Q; `r`: R of A D = Q R, on the first rank. Adds residual and
  /// orthogonality, the same on all ranks.
  void judge(MatrixView<const T> q, MatrixView<const Wide> r, Outcome& outcome);

  /// The same in two steps, for R in parts: `multiply` enqueues on the update queue this rank's
  /// part of R G, which is the sum of all.
  void take_image(const std::function<void(MatrixView<const T> g, MatrixView<T> part)>& multiply);
  /// `norm`: ||R||.
  void judge_image(MatrixView<const T> q, double norm, Outcome& outcome);

  static std::int64_t bytes(std::int64_t ranks, std::int64_t rows, std::int64_t columns,
                            Dtype dtype);

 private:
  /// Signs times D, or as they are.
  void upload(const std::vector<std::int64_t>& exponents, MatrixView<T> target);

  mesh::Rank& rank_;
  std::vector<double> signs_;
  MatrixView<T> g_;
  MatrixView<T> product_;  // A D G
  MatrixView<T> other_;
  Sums<Wide> sums_;  // R G, and later Q^H (Q G)
};

}  // namespace shardsolve::dense::qr
