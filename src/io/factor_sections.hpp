/// Sections of factor files, in and out.
#pragma once

#include "io/checksum.hpp"
#include "io/factor_file_header.hpp"
#include "io/factor_header_parts.hpp"
#include "io/output_file.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/sharded.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace shardsolve::io {

static_assert(std::endian::native == std::endian::little,
              "factor files pass little-endian numbers through unchanged");

/// Filled up to this with zeros, at most.
inline constexpr std::array<char, 64> zeros{};

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
void write_section(OutputFile& file, std::int64_t data_offset, FactorSection& section,
                   MatrixView<const T> from) {
  Crc32 checksum;
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
struct FactorSource {
  const FileDescriptor& file;
  const std::string& path;
  FactorFileFront front;
};

/// Throws Error(invalid_argument) if the checksum of what was read is wrong. The section is there.
template <class T>
void read_section(const FactorSource& source, std::string_view name, MatrixView<T> to) {
  const FactorSection& section = *source.front.header.find(name);
  Crc32 checksum;
  std::int64_t offset = source.front.data_offset + section.offset;
  const auto read = [&](void* data, std::int64_t bytes) {
    read_exactly(source.file, data, bytes, offset, source.path);
    checksum.update(data, bytes);
    offset += bytes;
  };
  for_each_piece(to, read);
  std::array<char, zeros.size()> padding{};
  read(padding.data(), section.padding());
  if (checksum.value() != section.checksum) {
    reject_damaged(source.path, fmt::format("the checksum of its section \"{}\" is wrong", name));
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

/// n numbers as a matrix of one column.
template <class V>
MatrixView<V> as_column(V* data, std::int64_t n) {
  return {data, n, 1};
}

/// Throws Error unless the slabs of all ranks are here, in memory of the host.
template <Scalar T>
void require_slabs_here(const ShardedMatrix<T>& slabs) {
  if (slabs.memory() != Memory::host) {
    throw Error(ErrorKind::invalid_argument,
                "the factor lies in GPU memory, and files are written from the host: replace its "
                "slabs by a copy there (copy of device_memory.hpp)");
  }
  for (std::int64_t rank = 0; rank < slabs.layout().ranks(); ++rank) {
    if (slabs.slab(rank).columns() != slabs.layout().width(rank)) {
      throw Error(ErrorKind::unsupported,
                  "the factor is spread over several processes, and a file is written by one: save "
                  "a factor that was made on a mesh inside one process");
    }
  }
}

/// Throws Error(invalid_argument) unless the file's factor is of the wanted dtype.
void require_dtype(const FactorCut& cut, Dtype wanted, const std::string& path);
/// Throws Error(out_of_memory) unless all sections fit into memory, before any is taken: a system
/// that runs out of it later ends the process.
void require_memory(const FactorHeader& header, const std::string& path);

}  // namespace shardsolve::io
