/// Krylov solves in files: a log of every iteration, and captures that reproduce a failure.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/export.hpp>
#include <shardsolve/krylov.hpp>
#include <shardsolve/sparse.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::krylov {

/// A preconditioner that can be made again wherever A is.
struct Recipe {
  enum class Kind : std::uint8_t {
    none = 0,
    jacobi = 1,
    block_jacobi = 2,
    incomplete_cholesky = 3,
    incomplete_lu = 4,
  };

  Kind kind = Kind::none;
  /// Boundaries of blocks of rows, as Operator takes them; empty for none and jacobi.
  std::vector<std::int64_t> blocks;

  friend bool operator==(const Recipe&, const Recipe&) = default;
};

/// "none", "jacobi", "block-jacobi", "ic0" or "ilu0".
SHARDSOLVE_EXPORT std::string_view name(Recipe::Kind kind);

/// The preconditioner, nothing for Kind::none. `a`: the whole matrix, columns of each row
/// ascending. Throws what Operator's function of that name throws.
template <Scalar T>
SHARDSOLVE_EXPORT std::optional<Operator<T>> make_preconditioner(const Recipe& recipe,
                                                                 const CsrMatrix<T>& a);

/// What a solve was asked for and where it ran.
struct Request {
  Options options;            ///< `log` is not kept
  bool is_automatic = false;  ///< solve_auto(), which begins with options.method
  Recipe preconditioner;
  std::int64_t n = 0;        ///< rows of A
  std::int64_t entries = 0;  ///< of A that are stored
  Dtype dtype = Dtype::float64;
  std::string backend = "cpu";  ///< or "cuda"
  std::int64_t ranks = 1;
};

/// Writes the log of a result, one JSON object a line: first the request, then each record as
/// to_json() has it, then the verdict. Floating-point numbers are hexadecimal texts, those that are
/// not finite null. The file appears complete or not at all; one that exists is refused unless
/// `overwrite`. In a mesh of processes one of them writes it.
/// Throws Error: invalid_argument if the file exists, io if it cannot be written.
SHARDSOLVE_EXPORT void write_log(const std::string& path, const Request& request,
                                 const Result& result, bool overwrite = false);

struct CaptureOptions {
  /// Of the folder; a larger one is not written. What is above 4.2e9 counts as that.
  std::int64_t most_bytes = 1'000'000'000;
  bool overwrite = false;  ///< whether a capture that is there is replaced
};

/// Writes a folder that holds all of a solve: A.npz (scipy.sparse.load_npz reads it), b.npy, x0.npy
/// if there was a guess, log.jsonl, and capture.json with request, verdict, version and checksums.
/// `shardsolve replay` solves it again. It appears complete or not at all.
///
/// `a` and `b` are whole, columns of each row of A ascending; `guess` is x0, or empty. What
/// request.n, entries, dtype and options.use_guess say is not looked at. In a mesh of processes one
/// of them writes it. Preconditioners are kept as recipes: a solve with another one, or with an
/// operator that is no matrix, cannot be captured.
/// Throws Error: invalid_argument if sizes do not fit each other, the folder would be larger than
/// allowed, or `directory` exists (with `overwrite`: and is no capture); io if it cannot be
/// written. Nothing is left then, and what was there stays.
template <Scalar T>
SHARDSOLVE_EXPORT void capture(const std::string& directory, const Request& request,
                               const CsrMatrix<T>& a, const std::vector<T>& b,
                               const std::vector<T>& guess, const Result& result,
                               const CaptureOptions& options = {});

}  // namespace shardsolve::krylov
