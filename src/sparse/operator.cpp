#include "sparse/operator.hpp"

#include "core/each_dtype.hpp"
#include "programs/bytes_of.hpp"
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
    all.push_back(programs::bytes_of(buffer.block(begin[r], 0, begin[r + 1] - begin[r], 1)));
  }
  return all;
}

/// `list` lies where the kernels read it.
runtime::RowChoice choice(const RowSet& rows, const std::int32_t* list) {
  return {rows.count, rows.entries, rows.first, rows.list.empty() ? nullptr : list};
}

template <Scalar T>
runtime::SparseRows<T> slab_of(const Part<T>& part, std::int64_t lanes) {
  const CsrSlab<T>& slab = part.slab;
  return {slab.rows,
          slab.own,
          static_cast<std::int64_t>(slab.halo.size()),
          lanes,
          part.on_gpu ? part.on_gpu->row_pointers : slab.row_pointers.data(),
          part.on_gpu ? part.on_gpu->columns : slab.columns.data(),
          part.on_gpu ? part.on_gpu->values : slab.values.data()};
}

}  // namespace

template <Scalar T>
Operator<T>::Operator(mesh::Rank& rank, const SparseMatrix<T>& a)
    : rank_(rank),
      parts_(a.parts()),
      part_(parts_.of(rank.index())),
      kernels_(rank.kernels<runtime::SparseKernels<T>>()),
      slab_(slab_of(part_, parts_.lanes)),
      interior_(choice(part_.slab.interior,
                       part_.on_gpu ? part_.on_gpu->interior : part_.slab.interior.list.data())),
      boundary_(choice(part_.slab.boundary,
                       part_.on_gpu ? part_.on_gpu->boundary : part_.slab.boundary.list.data())),
      places_(part_.on_gpu ? part_.on_gpu->packed : part_.plan.packed.data(), sent_by(part_.plan),
              1) {
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
  kernels_.pack(transfer, places_, x, packed_);
  rank_.communicator().all_to_all(transfer, pieces(packed_, plan.send_begin),
                                  pieces(halo_, plan.receive_begin));
  transfer.record(*arrived_);
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
  kernels_.multiply(queue, slab_, interior_, own, {}, result, done);
  // y_i = sum a_ij x_j, some j on others
  if (parts_.exchanges) {
    queue.wait(*arrived_, sites::halo_arrived);
    kernels_.multiply(queue, slab_, boundary_, own, halo_, result, done);
  }
}

#define SHARDSOLVE_INSTANTIATE(T) template class Operator<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::sparse
