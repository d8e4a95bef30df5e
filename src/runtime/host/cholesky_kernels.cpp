#include "runtime/host/cholesky_kernels.hpp"

#include "runtime/host/blas.hpp"
#include "runtime/host/operands.hpp"
#include "runtime/operand_shapes.hpp"

#include <cmath>
#include <complex>

namespace shardsolve::runtime::host {

template <Scalar T>
void HostCholeskyKernels<T>::do_potrf(Queue& queue, const WorkInfo& work, Out a,
                                      Out /*tile_scratch*/, std::int64_t* info) const {
  launch(queue, work, {}, {Operand(a, Operand::Part::lower), Operand(info, 1)}, [=] {
    std::int64_t failed = blas::Blas<T>::potrf(Triangle::lower, a);
    // Some LAPACKs let a pivot that is not a number pass.
    for (std::int64_t j = 0; j < a.columns() && (failed == 0 || j < failed); ++j) {
      if (!std::isfinite(std::real(a(j, j)))) {
        failed = -(j + 1);
        break;
      }
    }
    *info = failed;
  });
}

template <Scalar T>
void HostCholeskyKernels<T>::do_panel(Queue& queue, const WorkInfo& /*info*/, In l11,
                                      In /*tile_scratch*/, Out a21, Out packed) const {
  this->base().trsm(queue, Side::right, Triangle::lower, Op::conjugate_transpose, l11, a21);
  this->base().conjugate_transpose(queue, a21, packed);
}

template <Scalar T>
void HostCholeskyKernels<T>::do_inverse_panel(Queue& queue, In l11, In /*m11*/, Out s21,
                                              Out packed) const {
  this->base().trsm(queue, Side::right, Triangle::lower, Op::none, l11, s21);
  this->base().conjugate_transpose(queue, s21, packed);
}

template class HostCholeskyKernels<float>;
template class HostCholeskyKernels<double>;
template class HostCholeskyKernels<std::complex<float>>;
template class HostCholeskyKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::host
