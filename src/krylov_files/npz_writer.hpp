/// .npz files: a zip archive of .npy arrays, stored as they are.
#pragma once

#include "io/output_file.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/sparse.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::krylov::files {

/// Writes members into a file one after the other, and at the end the list of them. Format: APPNOTE
/// 6.3.10 of PKWARE, without zip64: what is written has less than 2^32 bytes. The caller commits
/// the file.
class ZipWriter {
 public:
  explicit ZipWriter(io::OutputFile& file) : file_(file) {}

  /// A member whose bytes are `head`, then `data`.
  void add(std::string_view name, std::string_view head, std::string_view data);
  /// To be called once, after the last member.
  void finish();
  /// So far.
  std::int64_t bytes() const { return offset_; }

 private:
  struct Member {
    std::string name;
    std::uint32_t checksum;
    std::uint32_t bytes;
    std::uint32_t offset;
  };

  void write(std::string_view bytes);

  io::OutputFile& file_;
  std::int64_t offset_ = 0;
  std::vector<Member> members_;
};

/// Bytes that write_npz() writes at most.
template <Scalar T>
std::int64_t npz_bytes(const CsrMatrix<T>& matrix);

/// Writes a matrix, columns of each row ascending, as scipy.sparse.save_npz(compressed=False) does:
/// format csr, indices of 32 bits where the numbers allow. The caller commits the file.
template <Scalar T>
void write_npz(io::OutputFile& file, const CsrMatrix<T>& matrix);

}  // namespace shardsolve::krylov::files
