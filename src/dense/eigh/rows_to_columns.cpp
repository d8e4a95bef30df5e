#include "dense/eigh/rows_to_columns.hpp"

#include "dense/eigh/call_sizes.hpp"
#include "programs/bytes_of.hpp"

#include <complex>
#include <utility>
#include <vector>

namespace shardsolve::dense::eigh {

template <Scalar T>
MatrixView<T> rows_to_columns(mesh::Rank& rank, const SlabLayout& layout,
                              MatrixView<RealOf<T>> rows, std::int64_t count) {
  using Real = RealOf<T>;
  const std::int64_t self = rank.index();
  const std::int64_t columns = vectors_on(layout, self, count);
  const MatrixView<Real> incoming = rank.workspace<Real>(layout.size() * columns, 1);
  std::vector<comm::Bytes> send;
  std::vector<comm::Bytes> receive;
  std::vector<MatrixView<Real>> parts;
  for (std::int64_t r = 0; r < rank.count(); ++r) {
    const std::int64_t first = std::min(layout.segment(r).begin.value(), count);
    send.push_back(programs::bytes_of(rows.columns_from(first, vectors_on(layout, r, count))));
    const std::int64_t before = layout.segment(r).begin.value() * columns;
    parts.emplace_back(incoming.data() + before, layout.width(r), columns);
    receive.push_back(programs::bytes_of(parts.back()));
  }
  rank.finish(rank.update());  // which makes the rows
  rank.communicator().all_to_all(rank.transfer(), std::move(send), std::move(receive));
  rank.finish(rank.transfer());

  const MatrixView<T> z = rank.workspace<T>(layout.size(), columns);
  for (std::int64_t r = 0; r < rank.count(); ++r) {
    const GlobalRange segment = layout.segment(r);
    const std::int64_t first = std::min(segment.begin.value(), count);
    rank.kernels<T>().from_real(
        rank.update(),
        r == self ? rows.columns_from(first, columns) : parts[static_cast<std::size_t>(r)],
        z.block(segment.begin.value(), 0, segment.size(), columns));
  }
  return z;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                                  \
  template MatrixView<T> rows_to_columns<T>(mesh::Rank&, const SlabLayout&, MatrixView<RealOf<T>>, \
                                            std::int64_t);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(std::complex<float>)
SHARDSOLVE_INSTANTIATE(std::complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::eigh
