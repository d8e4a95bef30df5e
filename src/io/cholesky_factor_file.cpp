// Saving and loading of a Cholesky factor: factor files (factor_file_header.cpp) of the kind
// "cholesky" (cholesky_factor_header.cpp).

#include "core/compensated_sum.hpp"
#include "core/each_dtype.hpp"
#include "io/cholesky_factor_header.hpp"
#include "io/factor_sections.hpp"

#include <shardsolve/factor_file.hpp>

#include <cmath>
#include <complex>
#include <memory>
#include <vector>

namespace shardsolve {
namespace {

template <Scalar T>
void require_complete(const CholeskyFactor<T>& factor) {
  if (!factor.outcome.ok()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("there is no factor to save: {}", factor.outcome.message()));
  }
  // The layout of a factor that was moved from is not to be asked.
  if (factor.diagonal == nullptr) {
    throw Error(ErrorKind::invalid_argument,
                "there is no factor to save: it was consumed, by cholesky_inverse or a move; save "
                "it before");
  }
  io::require_slabs_here(factor.slabs);
  if (std::ssize(*factor.diagonal) != factor.layout().size() ||
      !std::isfinite(factor.norm.fraction) || std::signbit(factor.norm.fraction)) {
    throw Error(ErrorKind::invalid_argument,
                "the diagonal or the norm of the factor is not what cholesky_factor has put there; "
                "save it as it was returned");
  }
}

/// 2 sum log(L_ii), added as cholesky_factor adds it.
template <Scalar T>
double sum_of_logs(const ShardedMatrix<T>& l) {
  core::CompensatedSum sum;
  for (std::int64_t rank = 0; rank < l.layout().ranks(); ++rank) {
    const MatrixView<T> slab = l.slab(rank);
    const std::int64_t first = l.layout().segment(rank).begin.value();
    core::CompensatedSum share;
    for (std::int64_t j = 0; j < slab.columns(); ++j) {
      share.add(std::log(double{std::real(slab(first + j, j))}));
    }
    sum.add(share);
  }
  return 2.0 * sum.value();
}

}  // namespace

template <Scalar T>
void save_factor(const CholeskyFactor<T>& factor, const std::string& path, bool overwrite) {
  require_complete(factor);
  const SlabLayout& layout = factor.layout();
  io::FactorHeader header = io::to_factor_header(
      {.cut = {dtype_of<T>, layout.boundaries(), layout.tile()}, .norm = factor.norm});
  const std::int64_t data_offset = std::ssize(io::format_factor_header(header));
  io::OutputFile file(path, overwrite);
  file.reserve(data_offset + header.section_bytes());

  // in the order of to_factor_header: A's diagonal, then the slabs
  io::write_section<RealOf<T>>(
      file, data_offset, header.sections.front(),
      io::as_column<const RealOf<T>>(factor.diagonal->data(), layout.size()));
  io::for_each_rank(layout.ranks(), [&](std::int64_t rank) {
    io::write_section<T>(file, data_offset, header.sections[static_cast<std::size_t>(rank) + 1],
                         factor.slabs.slab(rank));
  });
  file.pwrite_all(io::format_factor_header(header).data(), data_offset, 0);
  file.commit();
}

template <Scalar T>
CholeskyFactor<T> load_factor(const std::string& path) {
  const io::FileDescriptor file = io::open_for_reading(path);
  const io::FactorSource source{file, path, io::read_factor_front(file, path)};
  const io::CholeskyFactorHeader header = io::to_cholesky_header(source.front.header, path);
  const io::FactorCut& cut = header.cut;
  io::require_dtype(cut, dtype_of<T>, path);
  io::require_memory(source.front.header, path);

  CholeskyFactor<T> factor{ShardedMatrix<T>(SlabLayout(cut.boundaries, cut.tile)),
                           std::make_shared<std::vector<RealOf<T>>>(cut.size()),
                           header.norm,
                           {}};
  io::read_section(source, io::diagonal_name, io::as_column(factor.diagonal->data(), cut.size()));
  io::for_each_rank(cut.ranks(), [&](std::int64_t rank) {
    io::read_section(source, io::slab_name(rank), factor.slabs.slab(rank));
  });
  factor.log_determinant = sum_of_logs(factor.slabs);
  return factor;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                   \
  template void save_factor<T>(const CholeskyFactor<T>&, const std::string&, bool); \
  template CholeskyFactor<T> load_factor<T>(const std::string&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve
