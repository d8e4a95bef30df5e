#include "dense/qr/first_rank.hpp"

#include "dense/qr/wait_sites.hpp"
#include "programs/bytes_of.hpp"

#include <algorithm>
#include <bit>
#include <complex>
#include <utility>

namespace shardsolve::dense::qr {
namespace {

/// The columns whose sum a rank makes.
std::int64_t first_column(std::int64_t rank, std::int64_t ranks, std::int64_t columns) {
  return rank * columns / ranks;
}

std::int64_t most_columns(std::int64_t ranks, std::int64_t columns) {
  return (columns + ranks - 1) / ranks;
}

}  // namespace

template <Scalar W>
Sums<W>::Sums(mesh::Rank& rank, std::int64_t rows, std::int64_t columns)
    : rank_(rank),
      memory_(rank.workspace<W>(rows, columns)),
      ready_(rank.event()),
      arrived_(rank.event()) {
  if (rank.count() > 1) {
    shares_ = rank.workspace<W>(rows * most_columns(rank.count(), columns), rank.count());
  }
}

template <Scalar W>
std::int64_t Sums<W>::bytes(std::int64_t ranks, std::int64_t rows, std::int64_t columns) {
  const std::int64_t shares = ranks > 1 ? most_columns(ranks, columns) * ranks : 0;
  return static_cast<std::int64_t>(sizeof(W)) * rows * (columns + shares);
}

template <Scalar W>
void Sums<W>::to_first(std::int64_t columns) {
  const std::int64_t ranks = rank_.count();
  if (ranks == 1) {
    return;
  }
  const auto part = [&](std::int64_t r) {
    const std::int64_t first = first_column(r, ranks, columns);
    return memory_.columns_from(first, first_column(r + 1, ranks, columns) - first);
  };
  const MatrixView<W> own = part(rank_.index());
  const auto share_of = [&](std::int64_t r) {
    return MatrixView<W>(shares_.columns_from(r, 1).data(), own.rows(), own.columns());
  };
  std::vector<comm::Bytes> send;
  std::vector<comm::Bytes> receive;
  std::vector<comm::Bytes> pieces;
  for (std::int64_t r = 0; r < ranks; ++r) {
    send.push_back(programs::bytes_of(part(r)));
    receive.push_back(programs::bytes_of(share_of(r)));
    pieces.push_back(rank_.index() == 0 ? programs::bytes_of(part(r)) : comm::Bytes{});
  }
  // Whose columns they are adds the shares of all ranks, ...
  const runtime::Kernels<W>& kernels = rank_.kernels<W>();
  kernels.copy(rank_.update(), own, share_of(rank_.index()));
  rank_.update().record(ready_);
  rank_.transfer().wait(ready_, sites::shares_ready);
  rank_.communicator().all_to_all(rank_.transfer(), std::move(send), std::move(receive));
  rank_.transfer().record(arrived_);
  rank_.update().wait(arrived_, sites::shares_arrived);
  kernels.copy(rank_.update(), share_of(0), own);
  for (std::int64_t r = 1; r < ranks; ++r) {
    kernels.add(rank_.update(), W{1}, share_of(r), own);
  }
  // ... and the first rank collects the sums.
  rank_.update().record(ready_);
  rank_.transfer().wait(ready_, sites::sums_ready);
  rank_.communicator().gather(rank_.transfer(), programs::bytes_of(own), std::move(pieces), 0);
  rank_.transfer().record(arrived_);
  rank_.update().wait(arrived_, sites::sums_here);
}

template <class V>
MatrixView<V> adjoint_on_first(mesh::Rank& rank, const SlabLayout& layout,
                               MatrixView<const V> rows) {
  const MatrixView<V> all =
      rank.workspace<V>(rows.columns(), rank.index() == 0 ? layout.size() : rows.rows());
  const MatrixView<V> own = all.columns_from(0, rows.rows());
  rank.kernels<V>().conjugate_transpose(rank.update(), rows, own);
  rank.finish(rank.update());
  if (rank.count() > 1) {
    std::vector<comm::Bytes> pieces;
    for (std::int64_t r = 0; r < rank.count(); ++r) {
      const GlobalRange columns = layout.segment(r);
      pieces.push_back(rank.index() == 0 ? programs::bytes_of(all.columns_from(
                                               columns.begin.value(), columns.size()))
                                         : comm::Bytes{});
    }
    rank.communicator().gather(rank.transfer(), programs::bytes_of(own), std::move(pieces), 0);
    rank.finish(rank.transfer());
  }
  return all;
}

template <class V>
void from_first(mesh::Rank& rank, MatrixView<V> data) {
  if (rank.count() == 1) {
    rank.finish(rank.update());
    return;
  }
  if (rank.index() == 0) {
    runtime::Event& there = rank.event();
    rank.update().record(there);
    rank.transfer().wait(there, sites::decided);
  }
  rank.communicator().broadcast(rank.transfer(), programs::bytes_of(data), 0);
  rank.finish(rank.transfer());
}

std::vector<std::int64_t> words_from_first(mesh::Rank& rank, std::vector<std::int64_t> words) {
  if (rank.count() == 1) {
    return words;
  }
  const auto count = static_cast<std::int64_t>(words.size());
  const MatrixView<std::int64_t> there = rank.workspace<std::int64_t>(count, 1);
  std::int64_t* const here = rank.host_workspace<std::int64_t>(count);
  if (rank.index() == 0) {
    std::copy(words.begin(), words.end(), here);
    rank.transfer().copy(there.data(), here, words.size() * sizeof(std::int64_t));
  }
  rank.communicator().broadcast(rank.transfer(), programs::bytes_of(there), 0);
  return rank.fetch(rank.transfer(), there.data(), count);
}

std::vector<double> numbers_from_first(mesh::Rank& rank, const std::vector<double>& numbers) {
  std::vector<std::int64_t> words;
  words.reserve(numbers.size());
  for (const double number : numbers) {
    words.push_back(std::bit_cast<std::int64_t>(number));
  }
  std::vector<double> sent;
  sent.reserve(numbers.size());
  for (const std::int64_t word : words_from_first(rank, std::move(words))) {
    sent.push_back(std::bit_cast<double>(word));
  }
  return sent;
}

template class Sums<double>;
template class Sums<std::complex<double>>;
template void from_first(mesh::Rank&, MatrixView<float>);
template MatrixView<float> adjoint_on_first(mesh::Rank&, const SlabLayout&,
                                            MatrixView<const float>);
template void from_first(mesh::Rank&, MatrixView<double>);
template MatrixView<double> adjoint_on_first(mesh::Rank&, const SlabLayout&,
                                             MatrixView<const double>);
template void from_first(mesh::Rank&, MatrixView<std::complex<float>>);
template MatrixView<std::complex<float>> adjoint_on_first(mesh::Rank&, const SlabLayout&,
                                                          MatrixView<const std::complex<float>>);
template void from_first(mesh::Rank&, MatrixView<std::complex<double>>);
template MatrixView<std::complex<double>> adjoint_on_first(mesh::Rank&, const SlabLayout&,
                                                           MatrixView<const std::complex<double>>);

}  // namespace shardsolve::dense::qr
