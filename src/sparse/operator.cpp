#include "sparse/operator.hpp"

#include "core/each_dtype.hpp"
#include "dense/shared/bytes_of.hpp"
#include "sparse/wait_sites.hpp"

#include <utility>
#include <vector>

namespace shardsolve::sparse {
namespace {

std::int64_t sent_by(const HaloPlan& plan) { return plan.send_begin.back(); }
std::int64_t received_by(const HaloPlan& plan) { return plan.receive_begin.back(); }

/// The numbers of each rank in a buffer.
template <Scalar T>
std::vector<comm::Bytes> pieces(MatrixView<T> buffer, const std::vector<std::int64_t>& begin) {
  std::vector<comm::Bytes> all;
  all.reserve(begin.size() - 1);
  for (std::size_t r = 0; r + 1 < begin.size(); ++r) {
    all.push_back(dense::bytes_of(buffer.block(begin[r], 0, begin[r + 1] - begin[r], 1)));
  }
  return all;
}

}  // namespace

template <Scalar T>
Operator<T>::Operator(mesh::Rank& rank, const SparseMatrix<T>& a)
    : rank_(rank),
      parts_(a.parts()),
      part_(parts_.of(rank.index())),
      kernels_(rank.kernels<runtime::SparseKernels<T>>()) {
  if (parts_.exchanges) {
    packed_ = rank.workspace<T>(sent_by(part_.plan), 1);
    halo_ = rank.workspace<T>(received_by(part_.plan), 1);
    made_ = &rank.event();
    arrived_ = &rank.event();
  }
}

template <Scalar T>
std::int64_t Operator<T>::workspace_bytes(const SparseMatrix<T>& a, std::int64_t rank) {
  const HaloPlan& plan = a.parts().of(rank).plan;
  return (sent_by(plan) + received_by(plan)) * element_size(dtype_of<T>);
}

template <Scalar T>
double Operator<T>::flops() const {
  return runtime::multiply_add<T> * static_cast<double>(part_.slab.row_pointers.back());
}

template <Scalar T>
void Operator<T>::exchange(runtime::Queue& queue, MatrixView<const T> x) {
  runtime::Queue& transfer = rank_.transfer();
  const HaloPlan& plan = part_.plan;
  queue.record(*made_);
  transfer.wait(*made_, sites::vector_made);
  kernels_.pack(transfer, {plan.packed.data(), sent_by(plan), 1}, x, packed_);
  rank_.communicator().all_to_all(transfer, pieces(packed_, plan.send_begin),
                                  pieces(halo_, plan.receive_begin));
  transfer.record(*arrived_);
}

template <Scalar T>
void Operator<T>::multiply(runtime::Queue& queue, const RowSet& rows, MatrixView<const T> x,
                           MatrixView<const T> halo, MatrixView<T> y, const std::int32_t* done) {
  const CsrSlab<T>& slab = part_.slab;
  const runtime::SparseRows<T> a{slab.rows,
                                 slab.own,
                                 static_cast<std::int64_t>(slab.halo.size()),
                                 parts_.lanes,
                                 slab.row_pointers.data(),
                                 slab.columns.data(),
                                 slab.values.data()};
  const runtime::RowChoice chosen{rows.count, rows.entries, rows.first,
                                  rows.list.empty() ? nullptr : rows.list.data()};
  kernels_.multiply(queue, a, chosen, x, halo, y, done);
}

template <Scalar T>
void Operator<T>::apply(runtime::Queue& queue, const T* x, T* y, const std::int32_t* done) {
  const MatrixView<const T> own(x, columns(), 1);
  const MatrixView<T> result(y, rows(), 1);
  // meanwhile halo = x of the neighbours
  if (parts_.exchanges) {
    exchange(queue, own);
  }
  // y_i = sum a_ij x_j, all j on this rank
  multiply(queue, part_.slab.interior, own, {}, result, done);
  // y_i = sum a_ij x_j, some j on others
  if (parts_.exchanges) {
    queue.wait(*arrived_, sites::halo_arrived);
    multiply(queue, part_.slab.boundary, own, halo_, result, done);
  }
}

#define SHARDSOLVE_INSTANTIATE(T) template class Operator<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::sparse
