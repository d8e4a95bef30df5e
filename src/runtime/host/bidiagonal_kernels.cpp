// Column k of A, as the reflectors before leave it, is c on all ranks together, r is its row. With
// beta = -sign(c_k) ||c||, v = (c - beta e_k) / (c_k - beta) and tau = (beta - c_k) / beta
//
//   (I - tau v v^H)^H A = A - v y^H        with  y = tau A^H v = r^H - z,  z = A^H c / beta
//
// and z^H is row k of it behind the diagonal. So A^H c, the row and ||c|| are all that is to be
// summed up for both reflectors: the ranks speak once a column. The second reflector takes z to
// its first entry; x = tau A u needs no sum, as rows lie on the ranks. (LAPACK: labrd, which reads
// A as often; J. J. Dongarra, D. C. Sorensen, S. J. Hammarling, J. Comput. Appl. Math. 27 (1989)
// 215.)

#include "runtime/host/bidiagonal_kernels.hpp"

#include "core/each_dtype.hpp"
#include "runtime/host/blas.hpp"
#include "runtime/host/conjugate.hpp"
#include "runtime/host/operands.hpp"
#include "runtime/host/twofold.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <random>
#include <vector>

namespace shardsolve::runtime::host {
namespace bidiagonal {
namespace {

/// Sums of squares below it have lost digits; A has entries of size 1, so that vectors that are so
/// short are rounding, and taken for 0.
constexpr double shortest_squared = 1e-280;

/// A vector's first entry and squared length make its reflector: I - tau v v^H takes the vector to
/// (beta, 0, ..., 0), v = (vector - beta e_1) scale.
template <class W>
struct Reflector {
  Reflector(W first, double squared) {
    if (squared >= shortest_squared) {
      beta = -std::copysign(std::sqrt(squared), std::real(first));
      tau = (beta - first) / beta;
      scale = W{1} / (first - beta);
    }
  }
  bool is_identity() const { return beta == 0.0; }

  double beta = 0.0;
  W tau{0};
  W scale{0};
};

/// The squared length, to the last digits: equal terms would round to one side.
template <class W>
double squared_length(const W* vector, std::int64_t count) {
  Twofold<double> sum;
  constexpr std::int64_t at_once = 32;
  for (std::int64_t begin = 0; begin < count; begin += at_once) {
    double part = 0.0;
    for (std::int64_t i = begin; i < std::min(begin + at_once, count); ++i) {
      part += std::norm(vector[i]);
    }
    sum.add(part);
  }
  return sum.high + sum.low;
}

/// y += alpha op(a) x; nothing where a is empty.
template <class W>
void add_product(Op op, W alpha, MatrixView<const W> a, const W* x, W* y) {
  if (!a.empty()) {
    blas::Blas<W>::gemv(op, alpha, a, x, W{1}, y);
  }
}

/// Row `row` of a, conjugated.
template <class W>
std::vector<W> conjugated_row(MatrixView<const W> a, std::int64_t row) {
  std::vector<W> entries;
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    entries.push_back(conjugate(a(row, j)));
  }
  return entries;
}

/// The parts of what ranks share for a column.
template <class W>
struct Share {
  Share(W* numbers, const BidiagonalPanel<W>& panel)
      : product(numbers),
        row(product + panel.behind()),
        v_product(row + panel.behind()),
        x_product(v_product + panel.done()),
        squared(x_product + panel.done()),
        entry(squared + 1) {}

  W* product;    ///< a^H c, of the columns behind
  W* row;        ///< the column's row there, conjugated
  W* v_product;  ///< v^H c
  W* x_product;  ///< x^H c
  W* squared;    ///< ||c||^2
  W* entry;      ///< c's on the diagonal
};

/// Views of a panel.
template <class W>
struct Parts {
  explicit Parts(const BidiagonalPanel<W>& panel) : p(panel) {}

  /// The rows from `row` on, of the columns behind.
  MatrixView<W> rest(std::int64_t row) const {
    return p.a.block(row, p.next + 1, p.a.rows() - row, p.behind());
  }
  MatrixView<W> v(std::int64_t row, std::int64_t columns) const {
    return p.a.block(row, p.first, p.a.rows() - row, columns);
  }
  MatrixView<W> x(std::int64_t row, std::int64_t columns) const {
    return p.x.block(row, 0, p.x.rows() - row, columns);
  }
  /// The columns behind.
  MatrixView<W> y(std::int64_t columns) const {
    return p.y.block(p.next + 1, 0, p.behind(), columns);
  }
  MatrixView<W> u(std::int64_t columns) const {
    return p.u.block(p.next + 1, 0, p.behind(), columns);
  }
  /// c.
  MatrixView<W> column() const { return p.a.block(p.above, p.next, p.a.rows() - p.above, 1); }

  const BidiagonalPanel<W>& p;
};

template <class W>
void open_column(const BidiagonalPanel<W>& panel, W* numbers) {
  const Parts<W> parts(panel);
  const std::int64_t done = panel.done();
  const MatrixView<W> c = parts.column();
  const MatrixView<const W> v = parts.v(panel.above, done);
  const MatrixView<const W> x = parts.x(panel.above, done);
  add_product<W>(Op::none, W{-1}, v,
                 conjugated_row<W>(panel.y.columns_from(0, done), panel.next).data(), c.data());
  add_product<W>(Op::none, W{-1}, x,
                 conjugated_row<W>(panel.u.columns_from(0, done), panel.next).data(), c.data());
  std::fill_n(numbers, panel.shared(), W{0});
  const Share<W> share(numbers, panel);
  const MatrixView<const W> rest = parts.rest(panel.above);
  add_product<W>(Op::conjugate_transpose, W{1}, rest, c.data(), share.product);
  add_product<W>(Op::conjugate_transpose, W{1}, v, c.data(), share.v_product);
  add_product<W>(Op::conjugate_transpose, W{1}, x, c.data(), share.x_product);
  *share.squared = squared_length(c.data(), c.rows());
  if (panel.has_row) {
    *share.entry = c(0, 0);
    for (std::int64_t j = 0; j < panel.behind(); ++j) {
      share.row[j] = conjugate(rest(0, j));
    }
    add_product<W>(Op::none, W{-1}, parts.y(done), conjugated_row<W>(v, 0).data(), share.row);
    add_product<W>(Op::none, W{-1}, parts.u(done), conjugated_row<W>(x, 0).data(), share.row);
  }
}

/// The column of v from c, and that of y; what becomes the row, conjugated, stays in `product`.
template <class W>
void reflect_column(const BidiagonalPanel<W>& panel, const Share<W>& sums) {
  const Parts<W> parts(panel);
  const std::int64_t done = panel.done();
  const std::int64_t behind = panel.behind();
  const Reflector<W> reflector(*sums.entry, std::real(*sums.squared));
  panel.diagonal[panel.next] = reflector.beta;
  panel.tau_left[panel.next] = reflector.tau;
  const MatrixView<W> c = parts.column();
  for (std::int64_t i = 0; i < c.rows(); ++i) {
    c(i, 0) *= reflector.scale;
  }
  if (panel.has_row && !reflector.is_identity()) {
    c(0, 0) = W{1};
  }
  std::fill_n(panel.a.data() + panel.next * panel.a.stride(), panel.above, W{0});
  W* const y = panel.y.data() + panel.next + 1 + done * panel.y.stride();
  if (reflector.is_identity()) {
    std::copy_n(sums.row, behind, sums.product);
    std::fill_n(y, behind, W{0});
    return;
  }
  add_product<W>(Op::none, W{-1}, parts.y(done), sums.v_product, sums.product);
  add_product<W>(Op::none, W{-1}, parts.u(done), sums.x_product, sums.product);
  for (std::int64_t j = 0; j < behind; ++j) {
    sums.product[j] /= reflector.beta;
    y[j] = sums.row[j] - sums.product[j];
  }
}

/// The columns of u and x, for the row that is `z`, conjugated.
template <class W>
void reflect_row(const BidiagonalPanel<W>& panel, const W* z) {
  const Parts<W> parts(panel);
  const std::int64_t done = panel.done();
  const std::int64_t behind = panel.behind();
  const Reflector<W> reflector =
      behind > 0 ? Reflector<W>(z[0], squared_length(z, behind)) : Reflector<W>(W{0}, 0.0);
  panel.off_diagonal[panel.next] = reflector.beta;
  panel.tau_right[panel.next] = reflector.tau;
  W* const u = panel.u.data() + panel.next + 1 + done * panel.u.stride();
  for (std::int64_t j = 0; j < behind; ++j) {
    u[j] = z[j] * reflector.scale;
  }
  if (!reflector.is_identity()) {
    u[0] = W{1};
  }
  for (std::int64_t i = 0; i < panel.right.rows(); ++i) {
    const std::int64_t column = panel.own_columns[i] - panel.next - 1;
    panel.right(i, panel.next) = column < 0 ? W{0} : u[column];
  }
  W* const x = panel.x.data() + done * panel.x.stride();
  std::fill_n(x, panel.x.rows(), W{0});
  if (reflector.is_identity()) {
    return;
  }
  const std::int64_t below = panel.above + (panel.has_row ? 1 : 0);
  std::vector<W> of_y(static_cast<std::size_t>(done + 1));
  std::vector<W> of_u(static_cast<std::size_t>(done));
  add_product<W>(Op::conjugate_transpose, W{-1}, parts.y(done + 1), u, of_y.data());
  add_product<W>(Op::conjugate_transpose, W{-1}, parts.u(done), u, of_u.data());
  add_product<W>(Op::none, W{1}, parts.rest(below), u, x + below);
  add_product<W>(Op::none, W{1}, parts.v(below, done + 1), of_y.data(), x + below);
  add_product<W>(Op::none, W{1}, parts.x(below, done), of_u.data(), x + below);
  for (std::int64_t i = below; i < panel.x.rows(); ++i) {
    x[i] *= reflector.tau;
  }
}

template <class W>
void close_column(const BidiagonalPanel<W>& panel, MatrixView<const W> shares) {
  std::vector<W> sums(shares.data(), shares.data() + shares.rows());
  for (std::int64_t r = 1; r < shares.columns(); ++r) {
    for (std::int64_t i = 0; i < shares.rows(); ++i) {
      sums[static_cast<std::size_t>(i)] += shares(i, r);
    }
  }
  const Share<W> share(sums.data(), panel);
  reflect_column(panel, share);
  reflect_row(panel, share.product);
}

/// target = v^H v, by sums of few terms that are added in twice the precision.
template <class W>
void make_gram(MatrixView<const W> v, MatrixView<W> target) {
  constexpr std::int64_t at_once = 16;
  const std::int64_t width = v.columns();
  std::vector<W> memory(static_cast<std::size_t>(width * width));
  const MatrixView<W> part(memory.data(), width, width);
  std::vector<Twofold<double>> sums(memory.size() * (is_complex<W> ? 2 : 1));
  for (std::int64_t begin = 0; begin < v.rows(); begin += at_once) {
    const MatrixView<const W> rows = v.block(begin, 0, std::min(at_once, v.rows() - begin), width);
    blas::Blas<W>::gemm(Op::conjugate_transpose, Op::none, W{1}, rows, rows, W{0}, part);
    const double* const parts = reinterpret_cast<const double*>(memory.data());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i].add(parts[i]);
    }
  }
  double* const parts = reinterpret_cast<double*>(memory.data());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    parts[i] = sums[i].high + sums[i].low;
  }
  for (std::int64_t j = 0; j < width; ++j) {
    std::copy_n(part.data() + j * width, width, target.data() + j * target.stride());
  }
}

/// The product of the reflectors is I - v t v^H, where t^-1 has v^H v above its diagonal, and 1 /
/// tau on it, whose real part is half of ||v||^2. (C. Puglisi, SIAM J. Sci. Stat. Comput. 13 (1992)
/// 723.)
template <class W>
void apply_reflectors(MatrixView<const W> v, const W* tau, MatrixView<const W> shares,
                      MatrixView<W> c) {
  const std::int64_t width = v.columns();
  const std::int64_t columns = c.columns() + width;
  std::vector<W> sums(shares.data(), shares.data() + width * columns);
  for (std::int64_t r = 1; r < shares.columns() / columns; ++r) {
    const W* const share = shares.data() + r * columns * shares.stride();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] += share[i];
    }
  }
  const MatrixView<W> products(sums.data(), width, c.columns());
  const MatrixView<W> inverse(sums.data() + width * c.columns(), width, width);
  for (std::int64_t j = 0; j < width; ++j) {
    W& entry = inverse(j, j);
    entry = entry / 2.0;
    if (tau[j] == W{0}) {
      entry = W{1};  // v is 0 there
    } else if constexpr (is_complex<W>) {
      entry = {std::real(entry), std::imag(W{1} / tau[j])};
    }
  }
  if (!c.empty()) {
    blas::Blas<W>::trsm(Side::left, Triangle::upper, Op::none, inverse, products);
    blas::Blas<W>::gemm(Op::none, Op::none, W{-1}, v, products, W{1}, c);
  }
}

/// ||q^T q - I|| of a square matrix in the Frobenius norm, within some tenths of it: from what q^T
/// q makes of random signs.
double distance_from_orthogonal(MatrixView<const double> q) {
  constexpr std::int64_t probes = 4;
  const std::int64_t n = q.rows();
  std::mt19937_64 random(1);
  std::vector<double> signs(static_cast<std::size_t>(n * probes));
  for (double& sign : signs) {
    sign = (random() & 1) != 0 ? 1.0 : -1.0;
  }
  std::vector<double> images(signs.size());
  const MatrixView<double> left(signs.data(), n, probes);
  const MatrixView<double> image(images.data(), n, probes);
  blas::Blas<double>::gemm(Op::none, Op::none, 1.0, q, left, 0.0, image);
  blas::Blas<double>::gemm(Op::transpose, Op::none, 1.0, q, image, -1.0, left);
  return std::sqrt(squared_length(signs.data(), n * probes) / probes);
}

/// What is off by e becomes orthogonal but for 3/8 e^2, by a step of Newton and Schulz: q (3 I -
/// q^T q) / 2. LAPACK's divide and conquer leaves up to n u for random matrices, and now and then
/// ten times as much in the vectors of values that are all but 0. Nothing is done to what is less.
void make_orthogonal(MatrixView<double> q) {
  const std::int64_t n = q.rows();
  const double allowed = (200.0 + 1.5 * static_cast<double>(n)) * 0x1p-53;
  if (n == 0 || distance_from_orthogonal(q) <= allowed) {
    return;
  }
  std::vector<double> memory(static_cast<std::size_t>(2 * n * n));
  const MatrixView<double> gram(memory.data(), n, n);
  const MatrixView<double> before(memory.data() + n * n, n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    std::copy_n(q.data() + j * q.stride(), n, before.data() + j * n);
  }
  blas::Blas<double>::gemm(Op::transpose, Op::none, 1.0, before, before, 0.0, gram);
  for (std::int64_t j = 0; j < n; ++j) {
    gram(j, j) -= 1.0;
  }
  blas::Blas<double>::gemm(Op::none, Op::none, -0.5, before, gram, 1.0, q);
}

}  // namespace
}  // namespace bidiagonal

template <Scalar T>
void HostBidiagonalKernels<T>::do_take_columns(Queue& queue, const WorkInfo& info, In source,
                                               const std::int64_t* columns, OutWide target) const {
  launch(queue, info, {source, Operand(columns, source.columns())}, {target}, [=] {
    for (std::int64_t j = 0; j < target.columns(); ++j) {
      for (std::int64_t i = 0; i < target.rows(); ++i) {
        target(i, j) = static_cast<Wide>(source(i, columns[j]));
      }
    }
  });
}

template <Scalar T>
void HostBidiagonalKernels<T>::do_take_rows(Queue& queue, const WorkInfo& info,
                                            MatrixView<const double> source, bool transposed,
                                            const std::int64_t* rows,
                                            MatrixView<double> target) const {
  constexpr std::int64_t at_once = 16;  // columns, whose lines of memory stay in the cache
  launch(queue, info, {source, Operand(rows, target.rows())}, {target}, [=] {
    for (std::int64_t first = 0; first < target.columns(); first += at_once) {
      const std::int64_t end = std::min(first + at_once, target.columns());
      for (std::int64_t i = 0; i < target.rows(); ++i) {
        const bool is_there = rows[i] < source.rows();
        for (std::int64_t j = first; j < end; ++j) {
          target(i, j) = !is_there ? 0.0 : transposed ? source(j, rows[i]) : source(rows[i], j);
        }
      }
    }
  });
}

template <Scalar T>
void HostBidiagonalKernels<T>::do_open_column(Queue& queue, const WorkInfo& info,
                                              const Panel& panel, Wide* share) const {
  launch(queue, info,
         {panel.a, panel.x, panel.y.columns_from(0, panel.done()),
          panel.u.columns_from(0, panel.done())},
         {panel.a.columns_from(panel.next, 1), Operand(share, panel.shared())},
         [=] { bidiagonal::open_column(panel, share); });
}

template <Scalar T>
void HostBidiagonalKernels<T>::do_close_column(Queue& queue, const WorkInfo& info,
                                               const Panel& panel, InWide shares) const {
  const std::int64_t done = panel.done();
  launch(
      queue, info,
      {panel.a, panel.x, panel.y, panel.u, shares, Operand(panel.own_columns, panel.right.rows())},
      {panel.a.columns_from(panel.next, 1), panel.x.columns_from(done, 1),
       panel.y.columns_from(done, 1), panel.u.columns_from(done, 1),
       Operand(panel.diagonal + panel.next, 1), Operand(panel.off_diagonal + panel.next, 1),
       Operand(panel.tau_left + panel.next, 1), Operand(panel.tau_right + panel.next, 1)},
      [=] { bidiagonal::close_column(panel, shares); });
}

template <Scalar T>
void HostBidiagonalKernels<T>::do_bidiagonal_values(Queue& queue, const WorkInfo& info,
                                                    MatrixView<double> diagonal,
                                                    double* off_diagonal, MatrixView<double> u,
                                                    MatrixView<double> vt,
                                                    std::int64_t* verdict) const {
  launch(queue, info, {},
         {diagonal, Operand(off_diagonal, diagonal.rows()), u, vt, Operand(verdict, 1)}, [=] {
           *verdict = blas::bdsdc(diagonal.rows(), diagonal.data(), off_diagonal, u, vt);
           bidiagonal::make_orthogonal(u);
           bidiagonal::make_orthogonal(vt);
         });
}

template <Scalar T>
void HostBidiagonalKernels<T>::do_multiply_reflectors(Queue& queue, const WorkInfo& info, InWide v,
                                                      InWide c, OutWide share) const {
  launch(queue, info, {v, c}, {share}, [=] {
    const MatrixView<Wide> products = share.columns_from(0, c.columns());
    if (c.empty()) {
      for (std::int64_t j = 0; j < products.columns(); ++j) {
        std::fill_n(products.data() + j * products.stride(), products.rows(), Wide{0});
      }
    } else {
      blas::Blas<Wide>::gemm(Op::conjugate_transpose, Op::none, Wide{1}, v, c, Wide{0}, products);
    }
    bidiagonal::make_gram<Wide>(v, share.columns_from(c.columns(), v.columns()));
  });
}

template <Scalar T>
void HostBidiagonalKernels<T>::do_apply_reflectors(Queue& queue, const WorkInfo& info, InWide v,
                                                   const Wide* tau, InWide shares,
                                                   OutWide c) const {
  launch(queue, info, {v, Operand(tau, v.columns()), shares}, {c},
         [=] { bidiagonal::apply_reflectors<Wide>(v, tau, shares, c); });
}

template <Scalar T>
void HostBidiagonalKernels<T>::do_largest_entries(Queue& queue, const WorkInfo& info, InWide c,
                                                  std::int64_t* rows, Wide* entries) const {
  launch(queue, info, {c}, {Operand(rows, c.columns()), Operand(entries, c.columns())}, [=] {
    for (std::int64_t j = 0; j < c.columns(); ++j) {
      rows[j] = 0;
      for (std::int64_t i = 1; i < c.rows(); ++i) {
        rows[j] = std::norm(c(i, j)) > std::norm(c(rows[j], j)) ? i : rows[j];
      }
      entries[j] = c.rows() > 0 ? c(rows[j], j) : Wide{0};
    }
  });
}

template <Scalar T>
void HostBidiagonalKernels<T>::do_turn_columns(Queue& queue, const WorkInfo& info, InWide c,
                                               const Wide* factors, const std::int64_t* real_rows,
                                               Out target) const {
  launch(queue, info, {c, Operand(factors, c.columns()), Operand(real_rows, c.columns())}, {target},
         [=] {
           for (std::int64_t j = 0; j < c.columns(); ++j) {
             for (std::int64_t i = 0; i < c.rows(); ++i) {
               target(i, j) = static_cast<T>(c(i, j) * factors[j]);
             }
             if (real_rows[j] >= 0) {
               target(real_rows[j], j) = static_cast<T>(std::real(target(real_rows[j], j)));
             }
           }
         });
}

#define SHARDSOLVE_INSTANTIATE(T) template class HostBidiagonalKernels<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::host
