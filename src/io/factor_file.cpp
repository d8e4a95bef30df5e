// Saving and loading of a Cholesky factor: factor files (factor_file_header.cpp) of the kind
// "cholesky" (cholesky_factor_header.cpp).

#include "core/compensated_sum.hpp"
#include "core/each_dtype.hpp"
#include "io/checksum.hpp"
#include "io/cholesky_factor_header.hpp"
#include "io/factor_file_header.hpp"
#include "io/output_file.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/factor_file.hpp>
#include <shardsolve/plan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace shardsolve {
namespace {

static_assert(std::endian::native == std::endian::little,
              "factor files pass little-endian numbers through unchanged");

/// Filled up to this with zeros, at most.
constexpr std::array<char, 64> zeros{};

/// Calls body(data, bytes) for pieces that cover the view in the order of the file. They are small
/// enough to be in the cache still when the second of checksum and file gets them.
template <class T, class Body>
void for_each_piece(MatrixView<T> a, Body body) {
  constexpr std::int64_t size = sizeof(T);
  constexpr std::int64_t piece = (std::int64_t{1} << 20) / size;
  const bool gapless = a.stride() == a.rows();
  const std::int64_t runs = gapless ? 1 : a.columns();
  const std::int64_t length = gapless ? a.rows() * a.columns() : a.rows();
  for (std::int64_t run = 0; run < runs; ++run) {
    T* const begin = a.data() + run * a.stride();
    for (std::int64_t at = 0; at < length; at += piece) {
      body(begin + at, std::min(piece, length - at) * size);
    }
  }
}

/// Writes a section where it belongs behind the `data_offset` bytes of the header, and sets its
/// checksum.
template <class T>
void write_section(io::OutputFile& file, std::int64_t data_offset, io::FactorSection& section,
                   MatrixView<const T> from) {
  io::Crc32 checksum;
  std::int64_t offset = data_offset + section.offset;
  const auto write = [&](const void* data, std::int64_t bytes) {
    checksum.update(data, bytes);
    file.pwrite_all(data, bytes, offset);
    offset += bytes;
  };
  for_each_piece(from, write);
  write(zeros.data(), section.padding());
  section.checksum = checksum.value();
}

/// A factor file whose header has been read.
struct Source {
  const io::FileDescriptor& file;
  const std::string& path;
  io::FactorFileFront front;
};

/// Throws Error(invalid_argument) if the checksum of what was read is wrong. The section is there.
template <class T>
void read_section(const Source& source, std::string_view name, MatrixView<T> to) {
  const io::FactorSection& section = *source.front.header.find(name);
  io::Crc32 checksum;
  std::int64_t offset = source.front.data_offset + section.offset;
  const auto read = [&](void* data, std::int64_t bytes) {
    io::read_exactly(source.file, data, bytes, offset, source.path);
    checksum.update(data, bytes);
    offset += bytes;
  };
  for_each_piece(to, read);
  std::array<char, zeros.size()> padding{};
  read(padding.data(), section.padding());
  if (checksum.value() != section.checksum) {
    io::reject_damaged(source.path,
                       fmt::format("the checksum of its section \"{}\" is wrong", name));
  }
}

/// Calls body(rank) for every rank, on as many threads as there are cores for. If some throw, what
/// one of them threw comes out when all have ended.
template <class Body>
void for_each_rank(std::int64_t ranks, Body body) {
  const auto cores = std::max<std::int64_t>(std::thread::hardware_concurrency(), 1);
  const std::int64_t workers = std::min(ranks, cores);
  std::vector<std::future<void>> tasks;
  tasks.reserve(static_cast<std::size_t>(workers));
  for (std::int64_t worker = 0; worker < workers; ++worker) {
    tasks.push_back(std::async([&body, worker, workers, ranks] {
      for (std::int64_t rank = worker; rank < ranks; rank += workers) {
        body(rank);
      }
    }));
  }
  for (std::future<void>& task : tasks) {
    task.get();
  }
}

template <class Real>
MatrixView<Real> as_column(Real* data, std::int64_t n) {
  return {data, n, 1};
}

template <Scalar T>
void require_complete(const CholeskyFactor<T>& factor) {
  if (factor.slabs.memory() != Memory::host) {
    throw Error(ErrorKind::invalid_argument,
                "the factor lies in GPU memory, and files are written from the host: replace its "
                "slabs by a copy there (copy of device_memory.hpp)");
  }
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
  for (std::int64_t rank = 0; rank < factor.layout().ranks(); ++rank) {
    if (factor.slabs.slab(rank).columns() != factor.layout().width(rank)) {
      throw Error(ErrorKind::unsupported,
                  "the factor is spread over several processes, and a file is written by one: save "
                  "a factor that was made on a mesh inside one process");
    }
  }
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

template <Scalar T>
io::FactorHeader header_of(const CholeskyFactor<T>& factor) {
  const SlabLayout& layout = factor.layout();
  return io::to_factor_header({.dtype = dtype_of<T>,
                               .boundaries = layout.boundaries(),
                               .tile = layout.tile(),
                               .norm = factor.norm});
}

void require_dtype(const io::CholeskyFactorHeader& header, Dtype wanted, const std::string& path) {
  if (header.dtype != wanted) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("the factor file '{}' holds {} but {} was asked for: load it with the "
                            "dtype that read_factor_info reports",
                            path, name(header.dtype), name(wanted)));
  }
}

/// Before the memory is taken: a system that runs out of it later ends the process.
void require_memory(const io::CholeskyFactorHeader& header, const std::string& path) {
  const std::int64_t needed = io::to_factor_header(header).section_bytes();
  const std::int64_t available = available_host_memory();
  if (needed > available) {
    constexpr double gigabyte = 1e9;
    throw Error(
        ErrorKind::out_of_memory,
        fmt::format("the factor in '{}' takes {:.2f} GB of memory; {:.2f} GB are free: load "
                    "it on a larger machine, or end other programs",
                    path, static_cast<double>(needed) / gigabyte,
                    static_cast<double>(available) / gigabyte));
  }
}

}  // namespace

template <Scalar T>
void save_factor(const CholeskyFactor<T>& factor, const std::string& path, bool overwrite) {
  require_complete(factor);
  io::FactorHeader header = header_of(factor);
  const std::int64_t data_offset = std::ssize(io::format_factor_header(header));
  io::OutputFile file(path, overwrite);
  file.reserve(data_offset + header.section_bytes());

  // in the order of to_factor_header: A's diagonal, then the slabs
  write_section<RealOf<T>>(file, data_offset, header.sections.front(),
                           as_column(factor.diagonal->data(), factor.layout().size()));
  for_each_rank(factor.layout().ranks(), [&](std::int64_t rank) {
    write_section<T>(file, data_offset, header.sections[static_cast<std::size_t>(rank) + 1],
                     factor.slabs.slab(rank));
  });
  file.pwrite_all(io::format_factor_header(header).data(), data_offset, 0);
  file.commit();
}

template <Scalar T>
CholeskyFactor<T> load_factor(const std::string& path) {
  const io::FileDescriptor file = io::open_for_reading(path);
  const Source source{file, path, io::read_factor_front(file, path)};
  const io::CholeskyFactorHeader header = io::to_cholesky_header(source.front.header, path);
  require_dtype(header, dtype_of<T>, path);
  require_memory(header, path);

  CholeskyFactor<T> factor{ShardedMatrix<T>(SlabLayout(header.boundaries, header.tile)),
                           std::make_shared<std::vector<RealOf<T>>>(header.size()),
                           header.norm,
                           {}};
  read_section(source, io::diagonal_name, as_column(factor.diagonal->data(), header.size()));
  for_each_rank(header.ranks(), [&](std::int64_t rank) {
    read_section(source, io::slab_name(rank), factor.slabs.slab(rank));
  });
  factor.log_determinant = sum_of_logs(factor.slabs);
  return factor;
}

FactorFileInfo read_factor_info(const std::string& path) {
  const io::FileDescriptor file = io::open_for_reading(path);
  io::FactorHeader header = io::read_factor_front(file, path).header;
  io::CholeskyFactorHeader cholesky = io::to_cholesky_header(header, path);
  return {.kind = std::move(header.kind),
          .dtype = cholesky.dtype,
          .layout = SlabLayout(std::move(cholesky.boundaries), cholesky.tile),
          .version = std::move(header.version)};
}

#define SHARDSOLVE_INSTANTIATE(T)                                                   \
  template void save_factor<T>(const CholeskyFactor<T>&, const std::string&, bool); \
  template CholeskyFactor<T> load_factor<T>(const std::string&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve
