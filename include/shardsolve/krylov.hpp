/// Linear systems A x = b by Krylov methods: A is known by its products, and the verdict is the
/// same on any number of ranks.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/export.hpp>
#include <shardsolve/index.hpp>
#include <shardsolve/krylov_status.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/outcome.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/run_options.hpp>
#include <shardsolve/sharded.hpp>
#include <shardsolve/slab_layout.hpp>
#include <shardsolve/sparse.hpp>

#include <complex>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsolve {

namespace mesh {
class Rank;
}

namespace krylov {

/// "converged_rtol", "max_iterations", ...
SHARDSOLVE_EXPORT std::string_view name(Status status);
/// "cg", "minres", ...
SHARDSOLVE_EXPORT std::string_view name(Method method);
/// Whether x solves the system within the tolerance.
SHARDSOLVE_EXPORT bool is_converged(Status status);
/// The same in the words that all routines share.
SHARDSOLVE_EXPORT shardsolve::Status outcome_status(Status status);

/// Rows of y = A x: writes y_i of the rows given to y[0], y[1], ..., from all n entries of x.
/// Called once a product by each rank, on threads of the mesh and at the same time for different
/// rows; may throw, which ends the call on all ranks with an Error that has its message: of the
/// same kind, or of no Error invalid_argument. For results that do not depend on the ranks, y_i
/// must not depend on which other rows are asked for.
template <Scalar T>
using RowsOfProduct = std::function<void(const T* x, GlobalRange rows, T* y)>;

/// Writes the square block of A with these rows and columns, all of it. Called when a solve begins,
/// by each rank that has one of the rows.
template <Scalar T>
using FillBlock = std::function<void(GlobalRange rows, MatrixView<T> block)>;

/// One level of a multigrid hierarchy, on the host, columns of each row ascending.
template <Scalar T>
struct MultigridLevel {
  CsrMatrix<T> a;             ///< n_l x n_l; in the first level A itself
  CsrMatrix<T> prolongation;  ///< n_l x n_(l+1), from the next coarser level; 0 x 0 in the coarsest
};

struct MultigridOptions {
  std::int64_t degree = 3;  ///< Chebyshev steps before and after the next coarser level
  /// Eigenvalues of D^-1 A from this share of the largest one on are damped.
  double smoothed = 0.1;
};

template <Scalar T>
class LinearOperator;

/// A, or a preconditioner M that is about A^-1: something that maps vectors to vectors. Copies
/// share what they hold.
template <Scalar T>
class SHARDSOLVE_EXPORT Operator {
 public:
  /// A product that the caller computes; on meshes of CPU ranks only.
  static Operator callable(RowsOfProduct<T> rows);
  /// The product with a sparse matrix, on every mesh that it can be made on; it lives as long as
  /// the operator. Products have the same bits on any number of ranks and with any cut. solve()
  /// throws Error(invalid_argument) unless its rows and its columns are cut as b is.
  static Operator sparse(const SparseMatrix<T>& a);
  /// M = D^-1: `diagonal` is the n x 1 diagonal D of A, cut as b is.
  /// Throws Error(invalid_argument) unless it has one column. A zero or a NaN in it is found by the
  /// solve: nonfinite_preconditioner.
  static Operator jacobi(const RightHandSides<T>& diagonal);
  /// Likewise of a square matrix on the host, columns of each row ascending, which every process
  /// gives; the diagonal is copied. Throws Error(invalid_argument), naming the row, if an entry of
  /// the diagonal is missing or 0, or if the matrix is not like that.
  static Operator jacobi(const CsrMatrix<T>& a);

  /// M = (diagonal blocks of A)^-1, exact: block k has the rows blocks[k] to blocks[k + 1], where
  /// blocks begin with 0, rise, and end with n. They belong to the problem and not to the ranks, so
  /// that M is the same on any number of them; one that a slab boundary cuts is solved by each rank
  /// that has rows of it. Factored as bands, by Cholesky if Hermitian and positive definite, else
  /// by LU with partial pivoting; with bandwidths l and u that is n (2 l + u) numbers, and 2 n (2 l
  /// + u) flops a product. On GPU ranks as well, to the same bits: factored on the host when a
  /// solve begins; a multiprocessor has a block, so give as many as a GPU has (an H100: 132) or
  /// more. Throws Error: invalid_argument if `blocks` are not like that, unsupported if one has
  /// 2^31 rows. A singular block is found by the solve: nonfinite_preconditioner.
  static Operator block_jacobi(std::vector<std::int64_t> blocks, FillBlock<T> fill);
  /// Likewise of a square matrix on the host, columns of each row ascending, of which the blocks
  /// are copied. No block is ever there as a dense one. row_slabs(n, k).boundaries() are k blocks
  /// of one size. Throws Error(invalid_argument) if the matrix is not like that or the blocks do
  /// not end with its last row.
  static Operator block_jacobi(std::vector<std::int64_t> blocks, const CsrMatrix<T>& a);

  /// M = (L U)^-1 of each block, with L and U where the block has entries: ILU(0). Blocks as for
  /// block_jacobi; one of all rows is the whole matrix. A square matrix on the host, columns of
  /// each row ascending. 2 flops an entry and product, as many numbers as the blocks have entries.
  /// On GPU ranks rows that need nothing of each other are solved for at the same time. Throws
  /// Error: invalid_argument if blocks or matrix are not like that, or an entry of the diagonal is
  /// missing; unsupported if a block has 2^31 entries. A pivot that is 0 is found by the solve:
  /// nonfinite_preconditioner.
  static Operator incomplete_lu(std::vector<std::int64_t> blocks, const CsrMatrix<T>& a);
  /// M = (L D L^H)^-1 of each block, from its lower triangle: IC(0), Hermitian and positive
  /// definite, so that cg and minres take it. Where a pivot of a block is not positive, that block
  /// is factored anew with A + s diag(A), s = 1e-3, 2e-3, 4e-3, ..., the first that does.
  /// Otherwise like incomplete_lu; throws also if an entry of the diagonal is not positive.
  static Operator incomplete_cholesky(std::vector<std::int64_t> blocks, const CsrMatrix<T>& a);

  /// M = p(A), `degree` steps of the Chebyshev iteration for eigenvalues of A in [low, high], which
  /// are positive: degree - 1 products with A, no sums. Largest eigenvalues matter: none may be far
  /// above `high`. Throws Error(invalid_argument) unless 0 < low < high and degree >= 1.
  static Operator chebyshev(const Operator& a, double low, double high, std::int64_t degree);
  /// M = one V-cycle over a hierarchy that is given, finest level first: Chebyshev steps for
  /// D^-1 A_l, restriction by P_l^H, the next coarser level, P_l, the same steps again; the
  /// coarsest level is solved by its inverse. Hermitian if the A_l are, and positive definite with
  /// them, so that cg takes it; same bits on any number of ranks and with any cut; on every mesh
  /// that sparse matrices can be made on. `layout`: how b is cut. Levels are copied; all processes
  /// give the same.
  ///
  /// 2 degree products with each A_l but the coarsest, and one with each P_l and P_l^H. The
  /// inverse takes n_L^2 numbers. Throws Error: invalid_argument if sizes do not fit each other, a
  /// diagonal has a 0, options make no sense or the coarsest level has more than 2048 rows; what
  /// SparseMatrix throws. A singular coarsest level is found by the solve:
  /// nonfinite_preconditioner.
  static Operator multigrid(Mesh& mesh, const std::vector<MultigridLevel<T>>& levels,
                            const SlabLayout& layout, const MultigridOptions& options = {},
                            const RunOptions& run = {});

  /// Inside shardsolve only: made on each rank when a solve begins.
  using Make = std::function<std::unique_ptr<LinearOperator<T>>(mesh::Rank&, const SlabLayout&)>;
  explicit Operator(Make make);
  const Make& make() const { return make_; }

 private:
  Make make_;
};

/// Boundaries of `count` blocks for block_jacobi and incomplete factors: of about one size, each
/// cut where the fewest entries that are not 0 join the rows before and behind it, at most a
/// quarter of a block away from the even cut. A square matrix on the host, columns of each row
/// ascending. O(entries + rows). Throws Error(invalid_argument) if it is not like that, or unless 1
/// <= count <= rows.
template <Scalar T>
SHARDSOLVE_EXPORT std::vector<std::int64_t> blocks_of(const CsrMatrix<T>& a, std::int64_t count);

/// An interval for Operator::chebyshev.
struct EigenvalueBounds {
  double low = 0.0;
  double high = 0.0;
};

/// Bounds of the eigenvalues of a matrix on the host, columns of each row ascending, Hermitian and
/// positive definite, for Operator::chebyshev: the least one that `steps` Lanczos steps from fixed
/// random numbers see, and a tenth above the largest one, or the largest sum of a row's moduli if
/// that is less. Costs so many products. Throws Error(invalid_argument) if the matrix is not like
/// that, as far as the entries and the steps tell, or unless steps >= 1.
template <Scalar T>
SHARDSOLVE_EXPORT EigenvalueBounds chebyshev_bounds(const CsrMatrix<T>& a, std::int64_t steps = 60);

/// About the square root of the unit roundoff: 1e-8 in double precision, 1e-4 in single, which
/// rounding lets ordinary systems reach.
constexpr double default_rtol(Dtype dtype) {
  return dtype == Dtype::float32 || dtype == Dtype::complex64 ? 1e-4 : 1e-8;
}

struct Options {
  Method method = Method::cg;
  /// Converged is ||b - A x||_2 <= max(rtol ||b||_2, atol), with b - A x recomputed: of a sparse
  /// matrix by products with twice the digits, else with room for 2 u (||A|| ||x|| + ||b||).
  /// Without rtol that is default_rtol() of the dtype.
  std::optional<double> rtol = std::nullopt;
  double atol = 0.0;
  std::int64_t max_iterations = 10000;  ///< of bicgstab with two products each
  std::int64_t restart = 30;            ///< fgmres: vectors of a basis
  /// Whether `x` holds x0; else x0 = 0, as it is if b is less than rounding beside b - A x0.
  bool use_guess = false;
  bool log = false;  ///< whether the result has one
};

/// One iteration, or an event beside one. Scalars that a method has not are 0.
struct LogRecord {
  std::int64_t iteration = 0;
  Event event = Event::none;
  Status status = Status::running;  ///< why the method was restarted, or how the solve ended
  double residual = 0.0;            ///< ||r|| / ||b||: of the recurrence, or recomputed (see event)
  std::complex<double> rho;
  std::complex<double> alpha;
  std::complex<double> omega;
  /// Of solve_auto(): which of Result::attempts it is about, counted from 1. 0 of solve().
  std::int64_t attempt = 0;

  friend bool operator==(const LogRecord&, const LogRecord&) = default;
};

/// A record as one line of JSON, its floating-point numbers as hexadecimal strings; without the
/// attempt.
SHARDSOLVE_EXPORT std::string to_json(const LogRecord& record);

/// What one method came to that solve_auto() tried; see Result.
struct Attempt {
  Method method = Method::cg;
  Status status = Status::running;
  std::int64_t iterations = 0;
  std::int64_t matvecs = 0;
  std::int64_t restarts = 0;
  double residual = 0.0;
  std::string message;
};

/// The verdict of a solve; the same in every process.
struct Result {
  Status status = Status::running;
  /// Its status is outcome_status(status).
  Outcome outcome;
  std::int64_t iterations = 0;
  std::int64_t matvecs = 0;   ///< products with A
  std::int64_t restarts = 0;  ///< the method began anew from a recomputed residual
  /// ||b - A x||_2 / ||b||_2, recomputed unless a product was not finite. 0 if b = 0, 1 if x = 0, as
  /// it is where A or M was refused before anybody looked at the guess; infinite if b is not finite.
  double residual = 0.0;
  /// What `residual` had to be, max(rtol, atol / ||b||).
  double tolerance = 0.0;
  /// By which factor the verdict was away from another one. Converged: the limit over the
  /// iterations used, or the tolerance over what rounding can attain, if that is less. Otherwise
  /// the residual over the tolerance.
  double margin = 0.0;
  bool is_marginal = false;  ///< margin < 2: elsewhere, with other rounding, it may be another
  /// Of A in the 2-norm, from below, as the products of cg and minres tell; 0 if it is not known.
  double condition = 0.0;
  /// An estimate of ||x - A^-1 b||_2 / ||x||_2: `residual` may be small and this be near 1, where A
  /// is ill-conditioned. It is ||A^-1|| ||b - A x|| / ||x||, with ||A^-1|| from below, of what the
  /// solve has seen; costs nothing. No bound: where the solve has met the small eigenvalues,
  /// usually within a factor of 10 of the error with cg, bicgstab and a good preconditioner, and up
  /// to some hundred times too small with minres, and with fgmres without one; of eigenvalues that
  /// the residual asked for leaves out it knows nothing. Infinity if it is not known.
  double error_estimate = std::numeric_limits<double>::infinity();
  /// One sentence: numbers, the iteration, what to do. Of a solve that converged: how.
  std::string message;
  /// If it was asked for: the newest records, at most 2^16; of solve_auto() so many of each
  /// attempt.
  std::vector<LogRecord> log;
  /// Of solve_auto() the methods in turn, the last of which this result is about; else empty.
  std::vector<Attempt> attempts;
};

/// Solves A x = b; see Method for what A and M have to be. x is finite whatever happens, and the
/// best iterate that was kept: no other one had a residual of less than a tenth of its. That of
/// minres is known by its recurrence alone where A is nearly singular, and may be wrong. If the
/// residual of x is more than 1 % larger than that of 0, x becomes 0.
///
/// b, x: n x 1, cut alike, on as many slabs as `mesh` has ranks; they may not share memory. A and M
/// map vectors cut like them. b is not changed. n = 0 is solved.
///
/// An iteration costs one product with A and one with M (bicgstab two of each), and sums that the
/// ranks exchange two or three times. Vectors of n numbers in workspace: 7 for cg, 12 for minres,
/// 10 for bicgstab, 2 restart + 7 for fgmres. The host never waits for the iteration under way.
///
/// Same bits of x, log and verdict on any number of ranks and any cut, if products with A and M
/// have them; and b, A and M may be multiplied by powers of two (M of minres by powers of four), x
/// is then x times such a power. Throws Error: invalid_argument if shapes, layouts or options make
/// no sense; unsupported on devices without kernels for it, or if a callable is not on a mesh of
/// CPUs; out_of_memory, before any work if plan_krylov_solve() says so; communication; what a
/// callable throws.
template <Scalar T>
SHARDSOLVE_EXPORT Result solve(Mesh& mesh, const Operator<T>& a, const RightHandSides<T>& b,
                               const RightHandSides<T>& x, const Options& options = {},
                               const RunOptions& run = {});
/// With a preconditioner.
template <Scalar T>
SHARDSOLVE_EXPORT Result solve(Mesh& mesh, const Operator<T>& a, const Operator<T>& preconditioner,
                               const RightHandSides<T>& b, const RightHandSides<T>& x,
                               const Options& options = {}, const RunOptions& run = {});

/// Likewise by several methods in turn, from options.method on in the order cg, minres, bicgstab,
/// fgmres: the next one begins where the last one ended, if that one's status names a reason that
/// it may not share. Those are stagnated, diverged, breakdown_..., indefinite_..., nonsymmetric_...
/// and singular_operator; of the kinds indefinite_... and nonsymmetric_... those that say that
/// minres would end likewise skip it. minres with singular_operator has the x of the least
/// residual, without a preconditioner, and ends the chain. Other statuses end it, as max_iterations
/// and accuracy_limit do: each method has options.max_iterations of its own. cg and minres probe
/// whether A and M are Hermitian before they begin, at the price of two products with each.
///
/// The result is the last method's, its outcome with seconds and flops of all; `attempts` and `log`
/// have every one. Bits as of solve(). Throws what solve() throws.
template <Scalar T>
SHARDSOLVE_EXPORT Result solve_auto(Mesh& mesh, const Operator<T>& a, const RightHandSides<T>& b,
                                    const RightHandSides<T>& x, const Options& options = {},
                                    const RunOptions& run = {});
/// With a preconditioner.
template <Scalar T>
SHARDSOLVE_EXPORT Result solve_auto(Mesh& mesh, const Operator<T>& a,
                                    const Operator<T>& preconditioner, const RightHandSides<T>& b,
                                    const RightHandSides<T>& x, const Options& options = {},
                                    const RunOptions& run = {});

}  // namespace krylov

/// krylov::solve with these options, b and x cut as the layout says; its tile does not matter. The
/// workspace is that of the method: vectors, sums, the log. What products with A and M take beside
/// it is not in it: what ranks send each other of a sparse matrix (SparseMatrix::halo), n numbers
/// for a callable, 4 or 5 vectors for a polynomial and for each level of a multigrid hierarchy. How
/// many iterations there will be is not known: flops and bytes moved are 0. A solve refuses before
/// any work if its workspace is not there. Throws Error(invalid_argument) if options make no sense.
SHARDSOLVE_EXPORT Plan plan_krylov_solve(const SlabLayout& layout, Dtype dtype,
                                         const krylov::Options& options = {});

}  // namespace shardsolve
