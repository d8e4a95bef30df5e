#include "input.hpp"

#include "core/each_dtype.hpp"

#include <shardsolve/device_memory.hpp>
#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <sys/stat.h>

#include <cerrno>
#include <complex>
#include <string_view>
#include <utility>

namespace shardsolve::cli {
namespace {

bool is_complex_dtype(Dtype dtype) {
  return dtype == Dtype::complex64 || dtype == Dtype::complex128;
}

bool is_double_dtype(Dtype dtype) { return dtype == Dtype::float64 || dtype == Dtype::complex128; }

/// The narrowest dtype that loses nothing of either.
Dtype common_dtype(Dtype a, Dtype b) {
  const bool is_double = is_double_dtype(a) || is_double_dtype(b);
  if (is_complex_dtype(a) || is_complex_dtype(b)) {
    return is_double ? Dtype::complex128 : Dtype::complex64;
  }
  return is_double ? Dtype::float64 : Dtype::float32;
}

/// What tells the file from others, a line: what it holds, its size and when it was last written.
/// Copies and archives keep that time, and file systems may have coarse ones: also some contents.
std::string identity(const Input& input) {
  struct stat status{};
  if (::stat(input.path().c_str(), &status) != 0) {
    io::throw_system_error("read", input.path(), errno);
  }
  return fmt::format("{} (order {}, {} bytes, written at {}.{:09} s, checksum {:08x})\n",
                     io::describe(input.reader->header(), input.path()),
                     input.fortran_order() ? "F" : "C", status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec, input.reader->sample_checksum());
}

}  // namespace

void require_same_dtype(const Input& a, const Input& b, std::string_view name_of_b) {
  if (b.dtype() != a.dtype()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} and {}; both need the same dtype: save {}",
                            io::describe(a.reader->header(), a.path()),
                            io::describe(b.reader->header(), b.path()),
                            cast_advice(a.dtype(), b.dtype(), name_of_b)));
  }
}

std::string cast_advice(Dtype a, Dtype b, std::string_view name_of_b) {
  const Dtype common = common_dtype(a, b);
  const auto cast = [&](std::string_view array) {
    return fmt::format("{}.astype(numpy.{})", array, name(common));
  };
  if (a == common) {
    return cast(name_of_b);
  }
  return b == common ? cast("A") : cast("A") + " and " + cast(name_of_b);
}

Input open_matrix(const std::string& path) {
  auto reader = std::make_shared<const io::NpyReader>(path);
  const std::int64_t n = io::require_square_matrix(reader->header(), path);
  return {std::move(reader), n};
}

void require_same_files(Workplace& workplace, const std::vector<Input>& inputs) {
  workplace.require_same(workplace.everywhere([inputs] {
    std::string text;
    for (const Input& input : inputs) {
      text += identity(input);
    }
    return text;
  }));
}

Input open_right_hand_sides(const std::string& path, const Input& a) {
  auto reader = std::make_shared<const io::NpyReader>(path);
  const std::int64_t columns = io::require_right_hand_sides(reader->header(), a.columns, path);
  Input b{std::move(reader), columns};
  require_same_dtype(a, b, "b");
  return b;
}

Input open_second_matrix(const std::string& path, const Input& a) {
  Input b = open_matrix(path);
  if (b.columns != a.columns) {
    throw Error(ErrorKind::invalid_argument, fmt::format("{} and {}; both need the same shape",
                                                         io::describe(a.reader->header(), a.path()),
                                                         io::describe(b.reader->header(), path)));
  }
  require_same_dtype(a, b, "B");
  return b;
}

template <Scalar T>
Loaded<ShardedMatrix<T>> load_matrix(Workplace& workplace, const Input& a,
                                     const SlabLayout& layout) {
  const ShardedMatrix<T> matrix = make_matrix<T>(workplace.mesh(), layout);
  const double seconds = workplace.run([matrix, file = a.reader](mesh::Rank& rank) {
    const MatrixView<T> slab = matrix.slab(rank.index());
    const GlobalIndex begin = matrix.layout().segment(rank.index()).begin;
    const std::int64_t column_bytes = slab.rows() * std::int64_t{sizeof(T)};
    Staging<T> staging;
    in_pieces(rank, "read", slab.columns(), column_bytes,
              [&](std::int64_t first, std::int64_t count) {
                const MatrixView<T> piece = slab.columns_from(first, count);
                const MatrixView<T> room = staging.room(piece, matrix.memory());
                file->read_hermitian_columns<T>({begin + first, begin + first + count}, room);
                Staging<T>::move(rank, room, piece);
              });
    file->require_unchanged();
  });
  return {matrix, seconds};
}

template <Scalar T>
Loaded<RightHandSides<T>> load_right_hand_sides(Workplace& workplace, const Input& b,
                                                const SlabLayout& layout) {
  RightHandSides<T> sides = workplace.mesh().memory() == Memory::device
                                ? RightHandSides<T>(layout, b.columns)
                                : make_right_hand_sides<T>(workplace.mesh(), layout, b.columns);
  const double seconds = workplace.run([sides, file = b.reader](mesh::Rank& rank) {
    const MatrixView<T> block = sides.block(rank.index());
    const GlobalIndex begin = sides.layout().segment(rank.index()).begin;
    const std::int64_t row_bytes = block.columns() * std::int64_t{sizeof(T)};
    in_pieces(rank, "read", block.rows(), row_bytes, [&](std::int64_t first, std::int64_t count) {
      file->read_rows<T>({begin + first, begin + first + count},
                         block.block(first, 0, count, block.columns()));
    });
    file->require_unchanged();
  });
  if (workplace.mesh().memory() == Memory::device) {
    const auto there = make_right_hand_sides<T>(workplace.mesh(), layout, b.columns);
    copy(workplace.mesh(), sides, there);
    sides = there;
  }
  return {sides, seconds};
}

std::optional<Location> location_in_file(const Outcome& outcome, const Input& a) {
  const std::optional<Location>& location = outcome.location;
  if (!location || location->what != Located::matrix_entry || !a.is_adjoint()) {
    return location;
  }
  return Location::in_matrix(location->column, location->row);
}

#define SHARDSOLVE_INSTANTIATE(T)                                                             \
  template Loaded<ShardedMatrix<T>> load_matrix(Workplace&, const Input&, const SlabLayout&); \
  template Loaded<RightHandSides<T>> load_right_hand_sides(Workplace&, const Input&,          \
                                                           const SlabLayout&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::cli
