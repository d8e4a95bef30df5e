#include "runtime/host/hermitian_kernels.hpp"

#include "runtime/host/hermitian_multiply.hpp"
#include "runtime/host/operands.hpp"
#include "runtime/operand_shapes.hpp"

#include <complex>

namespace shardsolve::runtime::host {

template <Scalar T>
void HostHermitianKernels<T>::do_hermitian_multiply(Queue& queue, const WorkInfo& info,
                                                    const UpperPart<T, Real>& a, const T* x, T* y,
                                                    void* scratch) const {
  const std::int64_t n = a.begin[a.ranks];
  const std::int64_t columns = a.slab.columns();
  const std::int64_t blocks = (columns + a.tile - 1) / a.tile;
  launch(queue, info,
         {a.slab, Operand(a.diagonal, columns), Operand(a.eliminated, blocks * a.ranks),
          Operand(x, n)},
         {Operand(y, 2 * n), Operand(static_cast<double*>(scratch), upper_part_sums(a))},
         [=] { multiply_upper_part(a, x, y, static_cast<double*>(scratch)); });
}

template <Scalar T>
std::int64_t HostHermitianKernels<T>::hermitian_multiply_scratch(
    const UpperPart<T, Real>& a) const {
  return upper_part_sums(a) * static_cast<std::int64_t>(sizeof(double));
}

template <Scalar T>
void HostHermitianKernels<T>::do_add_twofold(Queue& queue, const WorkInfo& info, In source,
                                             Out sums) const {
  launch(queue, info, {source}, {sums}, [=] { add_to_twofold(source, sums); });
}

template class HostHermitianKernels<float>;
template class HostHermitianKernels<double>;
template class HostHermitianKernels<std::complex<float>>;
template class HostHermitianKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::host
