/// Krylov solves in files: a log of every iteration, and captures that reproduce a failure.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/export.hpp>
#include <shardsolve/krylov.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/sparse.hpp>

#include <cstdint>
#include <iterator>
#include <memory>
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
    recorded = 5,  ///< known by the products of one solve alone; see ProductRecorder
    chebyshev = 6,
    multigrid = 7,  ///< over levels that are given
  };

  Kind kind = Kind::none;
  /// Boundaries of blocks of rows, as Operator takes them; empty for kinds that have none.
  std::vector<std::int64_t> blocks;
  std::int64_t degree = 6;  ///< of chebyshev; its bounds are those of chebyshev_bounds()

  friend bool operator==(const Recipe&, const Recipe&) = default;
};

/// "none", "jacobi", "block-jacobi", "ic0", "ilu0", "recorded", "chebyshev" or "multigrid".
SHARDSOLVE_EXPORT std::string_view name(Recipe::Kind kind);

/// The preconditioner, nothing for Kind::none. `a`: the whole matrix, columns of each row
/// ascending. `product`: the operator of it, which Kind::chebyshev needs. Throws what Operator's
/// function of that name throws, and chebyshev_bounds(); Error(invalid_argument) for Kind::recorded
/// and Kind::multigrid, which need more, and without a product that is needed.
template <Scalar T>
SHARDSOLVE_EXPORT std::optional<Operator<T>> make_preconditioner(
    const Recipe& recipe, const CsrMatrix<T>& a, const Operator<T>* product = nullptr);

/// CRC-32 of the numbers of a system, by which logs tell one from another; nothing for what is not
/// known.
struct Checksums {
  std::optional<std::uint32_t> a;  ///< row pointers, columns and values
  std::optional<std::uint32_t> b;
  std::optional<std::uint32_t> guess;   ///< x0
  std::optional<std::uint32_t> levels;  ///< of multigrid: all matrices but A

  friend bool operator==(const Checksums&, const Checksums&) = default;
};

/// Those of a system whose parts are whole; `guess` and `levels` may be empty.
template <Scalar T>
SHARDSOLVE_EXPORT Checksums checksums_of(const CsrMatrix<T>& a, const std::vector<T>& b,
                                         const std::vector<T>& guess = {},
                                         const std::vector<MultigridLevel<T>>& levels = {});

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
  Checksums checksums = {};  ///< of the system, if they were computed
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
  std::int64_t max_bytes = 1'000'000'000;
  bool overwrite = false;  ///< whether a capture that is there is replaced
};

/// Products that a solve asked an operator for, in that order.
template <Scalar T>
struct RecordedProducts {
  std::int64_t n = 0;
  std::vector<T> x;  ///< n numbers a product, one product after the other
  std::vector<T> y;  ///< A x, likewise

  std::int64_t count() const { return n > 0 ? std::ssize(x) / n : 0; }
};

/// Keeps the products of an operator or preconditioner that is no matrix, so that a solve with it
/// can be captured. One recorder for each operator and each solve:
///
///     ProductRecorder<double> recorder;
///     const Result result = solve(mesh, recorder.record(a), b, x, options);
///     if (!result.outcome.ok()) {
///       capture("failure", request, recorder.products(mesh), {}, all_of_b, {}, result);
///     }
///
/// Copies share what they hold.
template <Scalar T>
class SHARDSOLVE_EXPORT ProductRecorder {
 public:
  /// `max_bytes`: of all ranks together; once the products take more, none is kept any longer.
  explicit ProductRecorder(std::int64_t max_bytes = 1'000'000'000);

  /// The same operator with the same bits, each of whose products is kept: 2 n numbers. On meshes
  /// of CPU ranks only.
  Operator<T> record(const Operator<T>& a) const;
  /// All of them, whole, in every process: a call of the mesh that the solve was on.
  /// Throws Error(invalid_argument) if they took more than `max_bytes`.
  RecordedProducts<T> products(Mesh& mesh) const;

  /// Inside shardsolve only.
  struct Kept;

 private:
  std::shared_ptr<Kept> kept_;
};

/// An operator that gives recorded products again, one after the other: what a solve with the same
/// options needs of A to take the same way, on any number of CPU ranks. A solve that asks for
/// another product than the next one, as every other solve does, ends with
/// Error(invalid_argument).
template <Scalar T>
SHARDSOLVE_EXPORT Operator<T> replay_products(RecordedProducts<T> products);

/// Writes a folder that holds all of a solve: A.npz (scipy.sparse.load_npz reads it), b.npy, x0.npy
/// if there was a guess, log.jsonl, and capture.json with request, verdict, version and checksums.
/// `shardsolve replay` solves it again. It appears complete or not at all.
///
/// `a` and `b` are whole, columns of each row of A ascending; `guess` is x0, or empty. What
/// request.n, entries, dtype, options.use_guess and checksums say is not looked at. In a mesh of
/// processes one of them writes it. The preconditioner is kept as the recipe of the request. Throws
/// Error: invalid_argument if sizes do not fit each other, the recipe is Kind::recorded, the folder
/// would be larger than allowed, or `directory` exists (with `overwrite`: and is no capture); io if
/// it cannot be written. Nothing is left then, and what was there stays.
template <Scalar T>
SHARDSOLVE_EXPORT void capture(const std::string& directory, const Request& request,
                               const CsrMatrix<T>& a, const std::vector<T>& b,
                               const std::vector<T>& guess, const Result& result,
                               const CaptureOptions& options = {});
/// Likewise with Operator::multigrid: P0.npz, A1.npz, P1.npz, ... beside A.npz, which is that of
/// the first level. The request's recipe becomes Kind::multigrid.
template <Scalar T>
SHARDSOLVE_EXPORT void capture(const std::string& directory, const Request& request,
                               const std::vector<MultigridLevel<T>>& levels,
                               const std::vector<T>& b, const std::vector<T>& guess,
                               const Result& result, const CaptureOptions& options = {});
/// Likewise with a preconditioner that was recorded: M_x.npy and M_y.npy of shape (products, n)
/// beside A.npz. The request's recipe becomes Kind::recorded.
template <Scalar T>
SHARDSOLVE_EXPORT void capture(const std::string& directory, const Request& request,
                               const CsrMatrix<T>& a, const RecordedProducts<T>& m,
                               const std::vector<T>& b, const std::vector<T>& guess,
                               const Result& result, const CaptureOptions& options = {});
/// Likewise with an operator that was recorded: A_x.npy and A_y.npy instead of A.npz. `m` is empty
/// if there was no preconditioner. Such a capture can be replayed as it was, on any number of CPU
/// ranks, and not in another way: another solve asks for other products.
template <Scalar T>
SHARDSOLVE_EXPORT void capture(const std::string& directory, const Request& request,
                               const RecordedProducts<T>& a, const RecordedProducts<T>& m,
                               const std::vector<T>& b, const std::vector<T>& guess,
                               const Result& result, const CaptureOptions& options = {});

}  // namespace shardsolve::krylov
