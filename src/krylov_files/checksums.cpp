// What tells one system from another.

#include "core/each_dtype.hpp"
#include "io/checksum.hpp"

#include <shardsolve/krylov_files.hpp>

#include <complex>
#include <cstdint>
#include <vector>

namespace shardsolve::krylov {
namespace checksums {
namespace {

template <class Element>
void add(io::Crc32& sum, const std::vector<Element>& elements) {
  sum.update(elements.data(), static_cast<std::int64_t>(elements.size() * sizeof(Element)));
}

template <Scalar T>
void add(io::Crc32& sum, const CsrMatrix<T>& a) {
  add(sum, a.row_pointers);
  add(sum, a.column_indices);
  add(sum, a.values);
}

template <class Value>
std::uint32_t sum_of(const Value& value) {
  io::Crc32 sum;
  add(sum, value);
  return sum.value();
}

}  // namespace
}  // namespace checksums

template <Scalar T>
Checksums checksums_of(const CsrMatrix<T>& a, const std::vector<T>& b, const std::vector<T>& guess,
                       const std::vector<MultigridLevel<T>>& levels) {
  Checksums all{.a = checksums::sum_of(a), .b = checksums::sum_of(b)};
  if (!guess.empty()) {
    all.guess = checksums::sum_of(guess);
  }
  if (!levels.empty()) {
    io::Crc32 sum;
    for (std::size_t level = 0; level < levels.size(); ++level) {
      if (level > 0) {
        checksums::add(sum, levels[level].a);
      }
      checksums::add(sum, levels[level].prolongation);
    }
    all.levels = sum.value();
  }
  return all;
}

#define SHARDSOLVE_INSTANTIATE(T)                                             \
  template Checksums checksums_of(const CsrMatrix<T>&, const std::vector<T>&, \
                                  const std::vector<T>&, const std::vector<MultigridLevel<T>>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
