// lstsq() where R's singular values would take the first rank most of the time: all ranks find
// them, by svd(), in programs between two of QR's own.
//
//   A = Q R                    Q and R stay; each rank has some rows of R
//   R = U S V^H                S alone, and with U and V again if not all of S counts; with them at
//                              once where R's diagonal says so
//   x = V S^-1 U^H Q^H b       or R^-1 Q^H b, and refinement: as of any other lstsq()

#include "dense/qr/lstsq_in_steps.hpp"

#include "core/each_dtype.hpp"
#include "dense/qr/plan.hpp"
#include "dense/qr/powers.hpp"
#include "dense/qr/small_solver.hpp"
#include "programs/memory_of_call.hpp"
#include "programs/public_call.hpp"
#include "programs/require_reachable.hpp"

#include <shardsolve/plan.hpp>
#include <shardsolve/svd.hpp>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::dense::qr {
namespace {

template <Scalar T>
class InSteps {
 public:
  using Wide = WideOf<T>;

  InSteps(Mesh& mesh, const RowBlocks<T>& a, const RowBlocks<T>& b, const Request& request,
          const RunOptions& options)
      : mesh_(mesh),
        a_(a),
        b_(b),
        request_(request),
        options_(options),
        n_(std::min(a.layout().size(), a.columns())),
        square_(SlabLayout::even(n_, mesh.ranks(), mesh.default_tile(n_, dtype_of<Wide>))),
        bytes_(bytes_in_steps(a.layout(), dtype_of<T>, a.columns(), b.columns(), square_,
                              mesh.memory())) {}

  LeastSquares<T> run() {
    LeastSquares<T> found;
    if (prepare() && find_values()) {
      const auto solved = std::make_shared<LeastSquares<T>>();
      run(bytes_.solve,
          [a = a_, b = b_, request = request_, prepared = prepared_, solved](mesh::Rank& rank) {
            auto mine = solve_rows<T>(rank, a.layout(), a.block(rank.index()),
                                      b.block(rank.index()), request, prepared.get());
            const Outcome of_all = mine.outcome;
            if (rank.leads()) {
              *solved = std::move(mine);
            }
            return of_all;
          });
      found = std::move(*solved);
    }
    found.outcome = outcome_;
    return found;
  }

 private:
  /// One step. Its outcome takes the place of the one before, but for costs.
  bool run(std::int64_t bytes, std::function<Outcome(mesh::Rank&)> program) {
    Plan plan = plan_at_once(a_.layout(), dtype_of<T>, a_.columns(), b_.columns());
    plan.workspace_bytes = bytes;
    const programs::PublicCall call{"lstsq",
                                    mesh_,
                                    a_.layout(),
                                    plan,
                                    options_,
                                    /*has_tiles=*/false};
    return take(call.run(std::move(program)));
  }
  bool take(Outcome next) {
    programs::add_cost(next, outcome_);
    outcome_ = next;
    return outcome_.ok();
  }

  bool prepare() {
    const SlabLayout tall =
        n_ == a_.columns() ? a_.layout() : SlabLayout::even(a_.columns(), mesh_.ranks(), 1);
    const programs::MemoryOfCall<T> of_q(mesh_);
    const programs::MemoryOfCall<Wide> of_r(mesh_);
    const programs::MemoryOfCall<Wide> of_rows(mesh_);
    const Plan plan = plan_at_once(a_.layout(), dtype_of<T>, a_.columns(), b_.columns());
    const std::int64_t needed = bytes_.all();
    const std::int64_t available = programs::memory_for(mesh_, needed);
    const auto misses_rank = std::make_shared<bool>(false);
    const bool prepared =
        run(bytes_.factor, [=, a = a_, b = b_, n = n_, square = square_, request = request_,
                            prepared = prepared_](mesh::Rank& rank) {
          static_cast<void>(rank.kernels<runtime::QrKernels<T>>());  // throws where there are none
          if (rank.leads()) {
            plan.require(needed, available, "the workspace of lstsq");
          }
          programs::require_reachable(rank, a);
          programs::require_reachable(rank, b);
          const std::int64_t own = rank.index();
          const Places<T> places{.q = of_q.make(rank, tall.width(own), n),
                                 .r = of_r.make(rank, own == 0 ? n : 0, n),
                                 .rows_of_r = of_rows.make(rank, square.width(own), n),
                                 .square = square};
          Preparation said;
          const Outcome outcome =
              prepare_rows<T>(rank, a.layout(), a.block(own), b.block(own), request, places, said);
          if (rank.leads()) {
            prepared->exponents = std::move(said.exponents);
            *misses_rank = said.misses_rank;
          }
          return outcome;
        });
    if (prepared) {
      std::vector<std::int64_t> all_first(static_cast<std::size_t>(mesh_.ranks()) + 1, n_);
      all_first.front() = 0;
      prepared_->q = of_q.rows(tall);
      prepared_->r = of_r.rows(SlabLayout(all_first, n_));
      rows_of_r_ = of_rows.rows(square_);
      misses_rank_ = *misses_rank;
    }
    return prepared;
  }

  /// Of R, and with vectors if some do not count: only these solve without R.
  bool find_values() {
    if (!misses_rank_ && !take(svdvals(mesh_, *rows_of_r_, options_))) {
      return false;
    }
    if (misses_rank_ || rank_of(prepared_->values, request_.rcond) < n_) {
      prepared_->u = programs::make_rows_together<Wide>(mesh_, square_, n_, options_);
      prepared_->v = programs::make_rows_together<Wide>(mesh_, square_, n_, options_);
      return take(svd(mesh_, *rows_of_r_, *prepared_->u, *prepared_->v, options_));
    }
    return true;
  }
  bool take(SingularValues<Wide> found) {
    if (!take(std::move(found.outcome))) {
      outcome_.status = Status::not_converged;
      return false;
    }
    prepared_->values = std::move(found.values);
    return true;
  }

  Mesh& mesh_;
  RowBlocks<T> a_;
  RowBlocks<T> b_;
  Request request_;
  RunOptions options_;
  std::int64_t n_;
  SlabLayout square_;  // of R's rows, U and V
  StepBytes bytes_;
  Outcome outcome_;
  std::shared_ptr<Prepared<T>> prepared_ = std::make_shared<Prepared<T>>();
  std::optional<RowBlocks<Wide>> rows_of_r_;
  bool misses_rank_ = false;
};

}  // namespace

template <Scalar T>
LeastSquares<T> lstsq_in_steps(Mesh& mesh, const RowBlocks<T>& a, const RowBlocks<T>& b,
                               const Request& request, const RunOptions& options) {
  return InSteps<T>(mesh, a, b, request, options).run();
}

#define SHARDSOLVE_INSTANTIATE(T)                                                          \
  template LeastSquares<T> lstsq_in_steps(Mesh&, const RowBlocks<T>&, const RowBlocks<T>&, \
                                          const Request&, const RunOptions&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::qr
