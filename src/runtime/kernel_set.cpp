#include "runtime/kernel_set.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <string_view>

namespace shardsolve::runtime {
namespace {

std::string_view what_for(KernelSet set) {
  switch (set) {
    case KernelSet::base:
      return "products of matrices";
    case KernelSet::hermitian:
      return "products with Hermitian matrices";
    case KernelSet::cholesky:
      return "Cholesky factorisations";
    case KernelSet::band:
      return "reductions to a band and to a tridiagonal";
    case KernelSet::tridiagonal:
      return "tridiagonal eigenproblems";
    case KernelSet::sparse:
      return "products with sparse matrices";
    case KernelSet::krylov:
      return "Krylov solves";
    case KernelSet::fronts:
      return "Cholesky factorisations of fronts";
    case KernelSet::boxes:
      return "networks in boxes";
    case KernelSet::lu:
      return "LU factorisations";
    case KernelSet::qr:
      return "QR factorisations and least squares";
    case KernelSet::bidiagonal:
      return "bidiagonal forms";
    case KernelSet::local:
      return "dot products and small systems";
  }
  return "this algorithm";
}

}  // namespace

void throw_no_kernels(KernelSet set, Dtype dtype) {
  throw Error(ErrorKind::unsupported,
              fmt::format("these devices have no kernels for {} in {}: use devices of another kind",
                          what_for(set), name(dtype)));
}

}  // namespace shardsolve::runtime
