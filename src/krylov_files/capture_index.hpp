/// capture.json: what a captured solve was asked for, what became of it, and which files there are.
#pragma once

#include <shardsolve/krylov_files.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::krylov::files {

inline constexpr const char* index_name = "capture.json";
inline constexpr const char* matrix_name = "A.npz";
inline constexpr const char* rhs_name = "b.npy";
inline constexpr const char* guess_name = "x0.npy";
inline constexpr const char* log_name = "log.jsonl";

/// Two files of recorded products.
struct ProductNames {
  const char* x;
  const char* y;
};
inline constexpr ProductNames operator_products{"A_x.npy", "A_y.npy"};        ///< instead of A.npz
inline constexpr ProductNames preconditioner_products{"M_x.npy", "M_y.npy"};  ///< if M was recorded

/// Files of a multigrid hierarchy, in a folder: the matrix of a level, from 1 on, and the
/// prolongation to a level, from 0 on, from the one behind.
std::string level_matrix_name(std::size_t level);
std::string prolongation_name(std::size_t level);

/// Whether a capture, or a folder of levels, may have a file of that name.
bool is_name_of_capture(std::string_view name);

/// A file of a capture.
struct CapturedFile {
  std::string name;
  std::int64_t bytes = 0;
  std::uint32_t checksum = 0;  ///< as zlib.crc32
};

struct CaptureIndex {
  std::string version;  ///< of shardsolve that wrote it
  Request request;
  Result result;  ///< without records
  std::vector<CapturedFile> files;

  bool has(std::string_view name) const;
  /// Whether A is known by its products alone.
  bool is_of_products() const { return has(operator_products.x); }
};

std::string index_text(const CaptureIndex& index);

/// Reads the index of a capture and checks that its files are whole. Throws Error: io if it cannot
/// be read; invalid_argument, naming the file, if it is no capture or damaged; unsupported if
/// another version has written it in another format.
CaptureIndex read_capture_index(const std::string& directory);

/// A file whose bytes have been written, as they lie there.
CapturedFile captured_file(const std::string& path, std::string name);

}  // namespace shardsolve::krylov::files
