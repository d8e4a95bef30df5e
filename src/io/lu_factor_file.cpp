// Saving and loading of an LU factor: factor files (factor_file_header.cpp) of the kind "lu"
// (lu_factor_header.cpp).

#include "core/each_dtype.hpp"
#include "io/factor_sections.hpp"
#include "io/lu_factor_header.hpp"

#include <shardsolve/factor_file.hpp>

#include <cmath>
#include <complex>
#include <memory>
#include <vector>

namespace shardsolve {
namespace {

bool is_norm(const Scaled& norm) {
  return std::isfinite(norm.fraction) && !std::signbit(norm.fraction);
}

/// Whether each of 0 ... n - 1 is there once.
bool is_permutation(const std::vector<std::int64_t>& rows) {
  std::vector<bool> seen(rows.size(), false);
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= std::ssize(rows) || seen[static_cast<std::size_t>(row)]) {
      return false;
    }
    seen[static_cast<std::size_t>(row)] = true;
  }
  return true;
}

template <Scalar T>
bool overwrites_its_matrix(const LuFactor<T>& factor) {
  for (std::int64_t rank = 0; rank < factor.layout().ranks(); ++rank) {
    const MatrixView<T> slab = factor.slabs.slab(rank);
    if (!slab.empty() && slab.data() == factor.matrix.slab(rank).data()) {
      return true;
    }
  }
  return false;
}

template <Scalar T>
void require_complete(const LuFactor<T>& factor) {
  if (!factor.outcome.ok()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("there is no factor to save: {}", factor.outcome.message()));
  }
  // The layout of a factor that was moved from is not to be asked.
  if (factor.rows == nullptr) {
    throw Error(ErrorKind::invalid_argument,
                "there is no factor to save: it was moved from, or lu_factor has not made it");
  }
  io::require_slabs_here(factor.slabs);
  io::require_slabs_here(factor.matrix);
  if (factor.matrix.layout() != factor.layout() ||
      std::ssize(*factor.rows) != factor.layout().size() || !is_permutation(*factor.rows) ||
      !is_norm(factor.one_norm) || !is_norm(factor.inf_norm)) {
    throw Error(ErrorKind::invalid_argument,
                "the rows, the norms or the layout of the factor are not what lu_factor has put "
                "there; save it as it was returned");
  }
  if (overwrites_its_matrix(factor)) {
    throw Error(ErrorKind::invalid_argument,
                "the factor has overwritten its matrix, and solves would have nothing to certify "
                "them with: factor into memory of its own to save it");
  }
}

template <Scalar T>
T to_scalar(std::complex<double> number) {
  if constexpr (is_complex<T>) {
    return static_cast<T>(number);
  } else {
    return static_cast<T>(number.real());
  }
}

template <Scalar T>
std::complex<double> to_wide(T number) {
  return {double{std::real(number)}, double{std::imag(number)}};
}

/// Sections in the order of to_factor_header: rows, then the matrix, then the slabs.
template <Scalar T, class Body>
void for_each_slab(const LuFactor<T>& factor, Body body) {
  io::for_each_rank(factor.layout().ranks(), [&](std::int64_t rank) {
    body(1 + rank, io::matrix_name(rank), factor.matrix.slab(rank));
    body(1 + factor.layout().ranks() + rank, io::slab_name(rank), factor.slabs.slab(rank));
  });
}

}  // namespace

template <Scalar T>
void save_factor(const LuFactor<T>& factor, const std::string& path, bool overwrite, Transpose of) {
  if (of == Transpose::adjoint) {
    throw Error(ErrorKind::invalid_argument,
                "a file is of the factor of A or of A^T; Transpose::adjoint was given");
  }
  require_complete(factor);
  const SlabLayout& layout = factor.layout();
  io::FactorHeader header =
      io::to_factor_header({.cut = {dtype_of<T>, layout.boundaries(), layout.tile()},
                            .of_transpose = of == Transpose::transpose,
                            .one_norm = factor.one_norm,
                            .inf_norm = factor.inf_norm,
                            .growth = factor.outcome.growth.value_or(1.0),
                            .sign = to_wide(factor.sign),
                            .log_modulus = factor.log_modulus});
  const std::int64_t data_offset = std::ssize(io::format_factor_header(header));
  io::OutputFile file(path, overwrite);
  file.reserve(data_offset + header.section_bytes());

  io::write_section<std::int64_t>(
      file, data_offset, header.sections.front(),
      io::as_column<const std::int64_t>(factor.rows->data(), layout.size()));
  for_each_slab(factor, [&](std::int64_t place, const std::string& /*name*/, MatrixView<T> slab) {
    io::write_section<T>(file, data_offset, header.sections[static_cast<std::size_t>(place)], slab);
  });
  file.pwrite_all(io::format_factor_header(header).data(), data_offset, 0);
  file.commit();
}

template <Scalar T>
LuFactor<T> load_lu_factor(const std::string& path) {
  const io::FileDescriptor file = io::open_for_reading(path);
  const io::FactorSource source{file, path, io::read_factor_front(file, path)};
  const io::LuFactorHeader header = io::to_lu_header(source.front.header, path);
  const io::FactorCut& cut = header.cut;
  io::require_dtype(cut, dtype_of<T>, path);
  io::require_memory(source.front.header, path);

  const SlabLayout layout(cut.boundaries, cut.tile);
  LuFactor<T> factor{ShardedMatrix<T>(layout),
                     ShardedMatrix<T>(layout),
                     std::make_shared<std::vector<std::int64_t>>(cut.size()),
                     header.one_norm,
                     header.inf_norm,
                     {},
                     to_scalar<T>(header.sign),
                     header.log_modulus};
  factor.outcome.growth = header.growth;
  io::read_section(source, io::rows_name, io::as_column(factor.rows->data(), cut.size()));
  if (!is_permutation(*factor.rows)) {
    io::reject_damaged(path, "its section \"rows\" does not have each row once");
  }
  for_each_slab(factor, [&](std::int64_t /*place*/, const std::string& name, MatrixView<T> slab) {
    io::read_section(source, name, slab);
  });
  return factor;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                        \
  template void save_factor<T>(const LuFactor<T>&, const std::string&, bool, Transpose); \
  template LuFactor<T> load_lu_factor<T>(const std::string&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve
