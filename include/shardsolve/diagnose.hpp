/// What is to be known of a linear system before it is solved by a Krylov method: figures, and
/// whether to look for a better preconditioner.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/export.hpp>
#include <shardsolve/krylov.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>
#include <shardsolve/slab_layout.hpp>
#include <shardsolve/sparse.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::krylov {

struct DiagnoseOptions {
  /// Of the trials, and that iterations are predicted for; without it default_rtol() of the dtype.
  std::optional<double> rtol = std::nullopt;
  std::int64_t lanczos_steps = 80;      ///< for eigenvalues of A
  std::int64_t trial_iterations = 500;  ///< of each preconditioner that is tried, at most
  /// Of the plain one that the best one is compared with, at most.
  std::int64_t max_iterations = 10000;
  bool incomplete_factors = true;  ///< whether they are tried, too
};

/// Rows or columns that have something.
struct Places {
  std::int64_t count = 0;
  std::int64_t first = -1;  ///< from 0; -1 if there is none
};

/// Figures of the entries of A. An entry that is stored and 0 counts as none.
struct MatrixFigures {
  std::int64_t entries = 0;
  std::optional<EntryPlace> nonfinite;  ///< the first NaN or infinity
  Places empty_rows;
  Places empty_columns;
  Places zero_diagonal;         ///< rows whose diagonal entry is 0 or missing
  Places negative_diagonal;     ///< rows whose diagonal entry has a negative real part
  double least_diagonal = 0.0;  ///< modulus, of those that are not 0
  double largest_diagonal = 0.0;
  double least_row = 0.0;  ///< 2-norm, of rows that are not empty
  double largest_row = 0.0;
  std::int64_t bandwidth = 0;          ///< the largest |i - j|
  std::int64_t unmatched_entries = 0;  ///< a_ij that are not 0 where a_ji is
  double asymmetry = 0.0;              ///< ||A - A^H||_F / ||A||_F
  /// Rows that are those of the identity, while their column has further entries: as Dirichlet
  /// conditions leave them if rows alone are eliminated.
  Places identity_rows;
  double asymmetry_without_identity_rows = 0.0;  ///< when those entries are 0 as well
  /// Parts of A that no entry joins and all of whose rows have the sum 0, to rounding: a vector
  /// that is 1 on such a part and else 0 is in the null space. `first` is the first row of the
  /// first one.
  Places null_parts;
};

/// What products of an operator tell, with vectors u and v of random numbers.
struct ProductFigures {
  bool is_finite = true;      ///< A u, A v and A (u + v) are
  bool is_repeatable = true;  ///< A u has the same bits the second time
  double nonlinearity = 0.0;  ///< largest |A (u + v) - A u - A v| over largest |A u| + |A v|
  double constants = 1.0;     ///< largest |A 1| likewise, of the vector of ones
};

enum class Definiteness : std::uint8_t {
  unknown,                ///< not Hermitian, or not looked at
  positive,               ///< no eigenvalue was seen that is not positive
  negative,               ///< none that is not negative
  indefinite,             ///< there are eigenvalues of both signs
  positive_semidefinite,  ///< singular, and no eigenvalue was seen that is negative
  negative_semidefinite,  ///< singular, and none that is positive
};

/// A short solve.
struct Trial {
  std::string name;  ///< of the preconditioner: "jacobi", "block_jacobi, 4 blocks", ...
  Method method = Method::cg;
  Status status = Status::running;
  std::int64_t iterations = 0;
  double residual = 0.0;  ///< ||b - A x|| / ||b||
  /// Of M A, as the coefficients of cg tell; a lower bound. 0 if the method is not cg.
  double condition = 0.0;
  /// sqrt(condition) / 2 ln(2 / rtol): not less than cg needs, if the condition is right.
  std::int64_t predicted_iterations = 0;
  /// Multiplications of an iteration's product with A and M.
  double work = 0.0;
  std::string message;  ///< of the solve; or why there was none, with status running
  /// Boundaries of the preconditioner's blocks of rows, as Operator takes them; empty if it has
  /// none.
  std::vector<std::int64_t> blocks = {};

  bool is_converged() const { return krylov::is_converged(status); }
};

struct Diagnosis {
  std::int64_t rows = 0;
  double rtol = 0.0;
  std::optional<MatrixFigures> figures;    ///< none of an operator that is known by its products
  std::optional<ProductFigures> products;  ///< of an operator that is known by its products
  /// Whether A is Hermitian to rounding, the columns of identity_rows aside.
  bool is_hermitian = false;
  Definiteness definiteness = Definiteness::unknown;
  /// Empty rows aside: figures->null_parts or products->constants say so, or a trial ended as
  /// singular_operator. Trials have a b in the range of A then.
  bool is_singular = false;
  /// Of A without the columns of identity_rows, if that is Hermitian: what Lanczos steps and, of
  /// the least one, solves have found. The true ones lie outside.
  double least_eigenvalue = 0.0;
  double largest_eigenvalue = 0.0;
  double condition = 0.0;      ///< of A; a lower bound; 0 if not known
  double attainable = 0.0;     ///< relative residual that rounding may keep up: u condition
  Method method = Method::cg;  ///< that suits A: of the best trial, or of most of them
  std::vector<Trial> trials;   ///< the plain one first
  std::int64_t best = -1;      ///< trial that converged with the least work; -1 if none did
  /// Iterations of the plain trial over those of the best one. A lower bound if the plain one did
  /// not converge.
  double gain = 0.0;
  std::vector<std::string> findings;  ///< a sentence each: what is wrong or of note, what to do
  std::string answer;                 ///< whether to look for a better preconditioner

  /// Whether the trials are about A with further columns cleared; see is_hermitian.
  bool is_about_another() const {
    return figures && is_hermitian && figures->asymmetry > figures->asymmetry_without_identity_rows;
  }
};

/// Looks at a square matrix on the host, columns of each row ascending, which every process gives,
/// and tries preconditioners on the mesh: jacobi, block_jacobi with 4 and 16 blocks of
/// blocks_of(), incomplete factors in 4 blocks; and exact factors, one block of all rows, by fgmres
/// where the diagonal has a zero or none of the others converges. The right-hand side is of random
/// numbers, the same every time. Bits as of solve(): the same diagnosis on any number of ranks.
///
/// Costs O(entries) for the figures, lanczos_steps products, and at most trial_iterations
/// iterations of each trial and max_iterations of the plain one; blocks whose factors would take
/// more than 2^27 numbers or 2^35 multiplications are not tried.
/// Throws Error: invalid_argument if A is not square or in order or an option makes no sense;
/// out_of_memory, communication.
template <Scalar T>
SHARDSOLVE_EXPORT Diagnosis diagnose(Mesh& mesh, const CsrMatrix<T>& a,
                                     const DiagnoseOptions& options = {},
                                     const RunOptions& run = {});
/// Likewise what an operator's products tell, with vectors of `layout`: whether they are the same
/// every time and linear, whether A is Hermitian and positive definite, its condition by cg, and
/// trials without and, if it is given, with a preconditioner. Nothing is tried of an operator that
/// is not linear.
template <Scalar T>
SHARDSOLVE_EXPORT Diagnosis diagnose(Mesh& mesh, const Operator<T>& a, const SlabLayout& layout,
                                     const Operator<T>* preconditioner = nullptr,
                                     const DiagnoseOptions& options = {},
                                     const RunOptions& run = {});

/// "positive definite", ...
SHARDSOLVE_EXPORT std::string_view name(Definiteness definiteness);
/// All of it as lines of text, the answer last.
SHARDSOLVE_EXPORT std::string to_text(const Diagnosis& diagnosis);

}  // namespace shardsolve::krylov
