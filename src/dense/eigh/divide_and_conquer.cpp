// T is torn at all cuts at once: with e what stands beside the diagonal at a cut,
//
//   T = diag(T1, T2) + |e| v v^T,   v = (0, ..., 0, 1; sign(e), 0, ..., 0),
//
// where |e| is taken from the last entry of T1's diagonal and the first one of T2's. Leaves are
// solved as they are. Then, upwards, each two neighbours T1 = Z1 D1 Z1^T and T2 = Z2 D2 Z2^T:
//
//   z   = (last row of Z1, sign(e) first row of Z2) / sqrt(2),  rho = 2 |e|
//   T   = Z (D + rho z z^T) Z^T,   D = diag(D1, D2),  Z = diag(Z1, Z2)
//         columns of Z whose part in z is nothing, or is nothing after a rotation, are done
//         (deflation.hpp); the others belong to poles d_i of a secular equation
//   x_j   its roots, each as a pole and the distance from it
//   w     the weights for which these roots are exact
//   U     u_ij = w_i / (d_i - x_j), columns with norm 1
//   Z U   in the columns where the roots belong.
//
// Each rank has some rows of Z, and so makes those rows of Z U by itself. What is needed of Z for z
// are two rows, which their owners send to all; the roots are found by all ranks, each some, and
// gathered. Everything else is made on each rank from these numbers, by the same operations.
// Merges of rows of one rank are made by it alone, all of a level at once: the host waits for the
// device as often as there are levels, not merges. Their lists are where their rows are.

#include "dense/eigh/divide_and_conquer.hpp"

#include "dense/eigh/deflation.hpp"
#include "dense/eigh/merge_tree.hpp"
#include "dense/eigh/part_message.hpp"
#include "dense/eigh/uploaded_list.hpp"
#include "dense/eigh/vector_merge.hpp"
#include "dense/eigh/wait_sites.hpp"
#include "programs/bytes_of.hpp"
#include "runtime/kernels.hpp"
#include "runtime/tridiagonal_kernels.hpp"

#include <shardsolve/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

namespace shardsolve::dense::eigh {
namespace {

template <class Real>
class DivideAndConquer {
 public:
  DivideAndConquer(mesh::Rank& rank, const DivideAndConquerProblem<Real>& problem,
                   MatrixView<Real> z)
      : rank_(rank),
        problem_(problem),
        z_(z),
        kernels_(rank.kernels<runtime::Kernels<Real>>()),
        tridiagonal_(rank.kernels<runtime::TridiagonalKernels<Real>>()),
        t_(problem.diagonal, problem.off_diagonal),
        parts_(merge_tree(problem.bounds, tridiagonal_.max_small)),
        own_rows_{problem.bounds[static_cast<std::size_t>(rank.index())],
                  problem.bounds[static_cast<std::size_t>(rank.index()) + 1]},
        n_(problem.bounds.back()),
        values_(rank.host_workspace<Real>(n_)),
        diagonal_(rank, n_),
        off_diagonal_(rank, n_),
        leaf_bounds_(rank, 2 * own_rows_.size()),
        leaf_values_(rank.workspace<Real>(n_, 1)),
        leaf_infos_(rank.workspace<std::int64_t>(n_, 1)),
        host_infos_(rank.host_workspace<std::int64_t>(n_)),
        leaf_(rank.workspace<Real>(max_small, max_small + 1)),
        messages_{PartMessage<Real>(rank, n_), PartMessage<Real>(rank, n_)},
        poles_(rank, n_),
        weights_(rank, n_),
        roots_(rank.workspace<Root>(n_, 1)),
        host_roots_(rank.host_workspace<Root>(n_)),
        vectors_(rank, own_rows_, z),
        computed_(rank.event()),
        arrived_(rank.event()) {
    runtime::require(z.rows() == own_rows_.size() && z.columns() == n_ &&
                         problem.wanted.first >= 0 && problem.wanted.size() >= 0 &&
                         problem.wanted.last <= n_,
                     "divide and conquer");
  }

  TridiagonalOutcome<Real> run() {
    if (!t_.is_finite()) {
      return {.status = TridiagonalStatus::nonfinite_input};
    }
    tear();
    for (const Part& part : parts_) {
      to_merge_ += part.is_shared() || is_mine(part) ? cost_of(part) : 0.0;
    }
    kernels_.fill(update(), Real{0}, z_);
    solve_own_leaves();
    for (const std::vector<Part>& level : own_merges(parts_, rank_.index())) {
      if (!level.empty() && own_failed_.empty()) {
        merge_own(level);
      }
    }
    for (const Part& part : parts_) {
      if (part.is_shared()) {
        part.is_leaf ? solve_shared_leaf(part) : merge_with_all(part);
        if (!failed_.empty()) {
          return failure();
        }
      }
    }
    if (!parts_.empty() && !parts_.back().is_shared()) {
      send_values(parts_.back());
    }
    if (!failed_.empty()) {
      return failure();
    }
    if (!parts_.empty() && parts_.back().is_leaf) {
      vectors_.keep(problem_.wanted);
    }
    TridiagonalOutcome<Real> outcome;
    for (std::int64_t i = 0; i < n_; ++i) {
      outcome.values.push_back(t_.unscaled(values_[i]));
    }
    return outcome;
  }

 private:
  using Root = runtime::SecularRoot<Real>;
  using Equation = runtime::SecularEquation<Real>;
  /// A merge whose roots are being found.
  struct Merge {
    Part part;
    Deflation<Real> found;
    Equation equation;
  };
  static constexpr std::int64_t max_small = runtime::TridiagonalKernels<Real>::max_small;

  runtime::Queue& update() const { return rank_.update(); }
  runtime::Queue& transfer() const { return rank_.transfer(); }
  bool is_mine(const Part& part) const { return part.owner == rank_.index(); }
  bool is_whole(const Part& part) const { return part.rows.size() == n_; }
  std::int64_t owner_of(std::int64_t row) const { return eigh::owner_of(problem_.bounds, row); }
  /// All ranks know at once, or those without rows of the part when it goes into a merge with them.
  void fail(const Part& part) { (part.is_shared() ? failed_ : own_failed_) = part.rows; }
  TridiagonalOutcome<Real> failure() const {
    return {.status = TridiagonalStatus::not_converged, .failed = failed_};
  }

  /// Some of this rank's rows of Z.
  MatrixView<Real> z_rows(const RowRange& rows, const RowRange& columns) const {
    return z_.block(rows.begin - own_rows_.begin, columns.begin, rows.size(), columns.size());
  }
  Real beside_cut(const Part& part) const {
    return t_.off_diagonal[static_cast<std::size_t>(part.middle - 1)];
  }

  /// The host goes on when the queue has done what is enqueued.
  void await(runtime::Queue& queue, runtime::Event& event, const runtime::WaitSite& site) const {
    queue.record(event);
    event.synchronize(site);
    rank_.leave_if_failed();
  }
  /// What the transfer queue does from now on comes behind what the update queue has to do now.
  void send_when_computed(const runtime::WaitSite& site) const {
    update().record(computed_);
    transfer().wait(computed_, site);
  }

  void tear() {
    for (const Part& part : parts_) {
      if (!part.is_leaf) {
        const auto cut = static_cast<std::size_t>(part.middle);
        const Real e = std::abs(beside_cut(part));
        t_.diagonal[cut - 1] -= e;
        t_.diagonal[cut] -= e;
      }
    }
    device_t_ = {diagonal_.put(update(), t_.diagonal), off_diagonal_.put(update(), t_.off_diagonal),
                 n_};
  }

  runtime::Tridiagonal<Real> torn(const RowRange& rows) const {
    return {device_t_.diagonal + rows.begin, device_t_.off_diagonal + rows.begin, rows.size()};
  }

  /// All leaves of this rank alone, at once.
  void solve_own_leaves() {
    std::vector<RowRange> leaves;
    std::vector<std::int64_t> bounds;
    double cubes = 0;
    for (const Part& part : parts_) {
      if (part.is_leaf && is_mine(part)) {
        leaves.push_back(part.rows);
        bounds.push_back(part.rows.begin - own_rows_.begin);
        bounds.push_back(part.rows.end - own_rows_.begin);
        cubes += std::pow(static_cast<double>(part.rows.size()), 3);
      }
    }
    if (leaves.empty()) {
      return;
    }
    const auto count = static_cast<std::int64_t>(leaves.size());
    const std::int64_t first = leaves.front().begin;
    const std::int64_t last = leaves.back().end;
    std::fill_n(host_infos_, count, -1);  // nobody takes what has not come for a success
    tridiagonal_.solve_small(
        update(), torn(own_rows_), {leaf_bounds_.put(update(), bounds), count, cubes},
        leaf_values_.data() + own_rows_.begin, z_rows(own_rows_, own_rows_), leaf_infos_.data());
    update().copy(values_ + first, leaf_values_.data() + first,
                  static_cast<std::size_t>(last - first) * sizeof(Real));
    update().copy(host_infos_, leaf_infos_.data(), leaves.size() * sizeof(std::int64_t));
    await(update(), computed_, sites::leaves_solved);
    const auto* const failed =
        std::find_if(host_infos_, host_infos_ + count, [](std::int64_t info) { return info != 0; });
    if (failed != host_infos_ + count) {
      own_failed_ = leaves[static_cast<std::size_t>(failed - host_infos_)];
    }
  }

  /// A leaf of rows of several ranks: the first of them solves it for all.
  void solve_shared_leaf(const Part& part) {
    const std::int64_t root = owner_of(part.rows.begin);
    const std::int64_t order = part.rows.size();
    const MatrixView<Real> solution(leaf_.data(), order, order + 1);
    const MatrixView<Real> vectors = solution.columns_from(0, order);
    Real* const values = solution.columns_from(order, 1).data();
    if (root == rank_.index()) {
      tridiagonal_.solve_small(update(), torn(part.rows), {}, values, vectors, leaf_infos_.data());
    }
    // On every rank: the leaf before has been read.
    send_when_computed(sites::leaf_ready);
    rank_.communicator().broadcast(transfer(), programs::bytes_of(solution), root);
    rank_.communicator().broadcast(transfer(), {leaf_infos_.data(), sizeof(std::int64_t)}, root);
    transfer().copy(values_ + part.rows.begin, values,
                    static_cast<std::size_t>(order) * sizeof(Real));
    transfer().copy(host_infos_, leaf_infos_.data(), sizeof(std::int64_t));
    await(transfer(), arrived_, sites::leaf_arrived);
    if (host_infos_[0] != 0) {
      fail(part);
      return;
    }
    const RowRange mine = common_rows(part.rows, own_rows_);
    if (!mine.empty()) {
      kernels_.copy(update(), vectors.block(mine.begin - part.rows.begin, 0, mine.size(), order),
                    z_rows(mine, part.rows));
    }
  }

  /// Of a merge, up to a factor.
  static double cost_of(const Part& part) {
    const auto rows = static_cast<double>(part.rows.size());
    return part.is_leaf ? 0.0 : rows * rows * rows;
  }

  /// Before a merge.
  void report(const Part& part) {
    rank_.report("divide and conquer", merged_ / to_merge_);
    merged_ += cost_of(part);
  }

  void merge_with_all(const Part& part) {
    report(part);
    fetch_from_all(part);
    if (!failed_.empty()) {
      return;
    }
    const std::int64_t first = part.first_half().size();
    const std::optional<Merge> merge = begin_merge(part, messages_[0].host_row(first),
                                                   messages_[1].host_row(part.rows.size() - first));
    if (merge) {
      find_roots_with_all(*merge);
      end_merge(*merge);
    }
  }

  /// All parts of a level of own_merges().
  void merge_own(const std::vector<Part>& level) {
    if (rank_.count() == 1 && rank_.stop_requested()) {
      throw_cancelled();
    }
    const RowRange all{level.front().rows.begin, level.back().rows.end};
    fetch_own(level, all);
    std::vector<Merge> merges;
    for (const Part& part : level) {
      report(part);
      const Real* const rows = messages_[0].host_row(n_) + part.rows.begin;
      std::optional<Merge> merge = begin_merge(part, rows, rows + part.first_half().size());
      if (!merge) {
        return;
      }
      tridiagonal_.secular_roots(update(), merge->equation, 0, merge->equation.count,
                                 roots_of(*merge).data());
      merges.push_back(std::move(*merge));
    }
    update().copy(host_roots_ + all.begin, roots_.data() + all.begin,
                  static_cast<std::size_t>(all.size()) * sizeof(Root));
    await(update(), computed_, sites::roots_found);
    for (const Merge& merge : merges) {
      end_merge(merge);
    }
  }

  /// The equation of what deflation leaves, on the device; none if there is what is no number.
  /// `first`, `second`: the halves' rows of Z at the cut.
  std::optional<Merge> begin_merge(const Part& part, const Real* first, const Real* second) {
    std::vector<Real> z = weights_of(part, first, second);
    if (!is_finite(part, z)) {
      fail(part);
      return std::nullopt;
    }
    Merge merge{.part = part,
                .found = deflate<Real>({values_ + part.rows.begin, values_ + part.rows.end},
                                       part.first_half().size(), std::move(z),
                                       2 * std::abs(beside_cut(part))),
                .equation = {}};
    merge.equation = {poles_.put(update(), merge.found.poles, part.rows.begin),
                      weights_.put(update(), merge.found.weights, part.rows.begin),
                      merge.found.kept(), merge.found.rho};
    return merge;
  }

  /// When the host has the roots.
  void end_merge(const Merge& merge) {
    const Part& part = merge.part;
    if (!all_found(merge)) {
      fail(part);
      return;
    }
    vectors_.run(part, merge.found, merge.equation, roots_of(merge).data(), take_roots(merge),
                 is_whole(part) ? problem_.wanted : IndexRange{0, part.rows.size()});
  }

  /// Both halves' rows at the cut, to all ranks, and what those do not know of them yet.
  void fetch_from_all(const Part& part) {
    const std::array halves{part.first_half(), part.second_half()};
    const std::array at_cut{part.middle - 1, part.middle};
    for (std::size_t half = 0; half < 2; ++half) {
      const PartMessage<Real>& message = messages_[half];
      if (owner_of(at_cut[half]) == rank_.index()) {
        write_header(message);
        update().copy(message.values(), values_ + halves[half].begin,
                      static_cast<std::size_t>(halves[half].size()) * sizeof(Real));
        copy_row(at_cut[half], halves[half], message.row(halves[half].size()));
        send_when_computed(sites::part_ready);
      }
      message.send(rank_, halves[half].size(), owner_of(at_cut[half]));
    }
    await(transfer(), arrived_, sites::part_arrived);
    for (std::size_t half = 0; half < 2; ++half) {
      read_header(messages_[half]);
      std::copy_n(messages_[half].host_values(), halves[half].size(), values_ + halves[half].begin);
    }
  }

  /// Likewise of all parts of a level, where their rows are in a row of n numbers.
  void fetch_own(const std::vector<Part>& level, const RowRange& all) {
    const MatrixView<Real> rows = messages_[0].row(n_);
    for (const Part& part : level) {
      const RowRange first = part.first_half();
      const RowRange second = part.second_half();
      copy_row(part.middle - 1, first, rows.columns_from(first.begin, first.size()));
      copy_row(part.middle, second, rows.columns_from(second.begin, second.size()));
    }
    messages_[0].fetch_row(update(), n_, all);
    await(update(), computed_, sites::rows_copied);
  }

  void copy_row(std::int64_t row, const RowRange& columns, MatrixView<Real> target) {
    kernels_.copy(update(), z_rows({row, row + 1}, columns), target);
  }

  void write_header(const PartMessage<Real>& message) const {
    using Header = typename PartMessage<Real>::Header;
    constexpr auto words = static_cast<std::int64_t>(sizeof(Header) / sizeof(std::int64_t));
    update().store(message.header(), 0, words);
    update().store(message.header(), own_failed_.begin, 1);
    update().store(message.header() + 1, own_failed_.end, 1);
    if (rank_.stop_requested()) {
      update().store(message.header() + 2, 1, 1);
    }
  }
  void read_header(const PartMessage<Real>& message) {
    const auto& header = message.host_header();
    if (header.stop != 0) {
      throw_cancelled();
    }
    if (header.failed_begin < header.failed_end) {
      failed_ = {header.failed_begin, header.failed_end};
    }
  }
  [[noreturn]] static void throw_cancelled() {
    throw Error(ErrorKind::cancelled, "the call was cancelled as asked");
  }

  /// The whole of T is one rank's part: its eigenvalues to all.
  void send_values(const Part& whole) {
    if (rank_.count() == 1) {
      failed_ = own_failed_;
      return;
    }
    const PartMessage<Real>& message = messages_[0];
    if (is_mine(whole)) {
      write_header(message);
      update().copy(message.values(), values_, static_cast<std::size_t>(n_) * sizeof(Real));
      send_when_computed(sites::part_ready);
    }
    message.send(rank_, n_, whole.owner);
    await(transfer(), arrived_, sites::part_arrived);
    read_header(message);
    std::copy_n(message.host_values(), n_, values_);
  }

  /// z.
  std::vector<Real> weights_of(const Part& part, const Real* first_row,
                               const Real* second_row) const {
    const std::int64_t count = part.rows.size();
    const std::int64_t first = part.first_half().size();
    std::vector<Real> z(first_row, first_row + first);
    z.insert(z.end(), second_row, second_row + (count - first));
    const Real root_of_half = Real(0.70710678118654752440);
    for (std::int64_t i = 0; i < count; ++i) {
      const bool other_sign = i >= first && beside_cut(part) < 0;
      z[static_cast<std::size_t>(i)] *= other_sign ? -root_of_half : root_of_half;
    }
    return z;
  }
  bool is_finite(const Part& part, const std::vector<Real>& z) const {
    const auto finite = [](Real value) { return std::isfinite(value); };
    return std::all_of(z.begin(), z.end(), finite) &&
           std::all_of(values_ + part.rows.begin, values_ + part.rows.end, finite);
  }

  /// Of a merge, on the device and on the host.
  MatrixView<Root> roots_of(const Merge& merge) const {
    return roots_.block(merge.part.rows.begin, 0, merge.equation.count, 1);
  }
  Root* host_roots_of(const Merge& merge) const { return host_roots_ + merge.part.rows.begin; }

  /// Each rank some of the roots, then all to all.
  void find_roots_with_all(const Merge& merge) {
    const std::int64_t count = merge.equation.count;
    const auto begin = [&](std::int64_t r) { return count * r / rank_.count(); };
    const MatrixView<Root> roots = roots_of(merge);
    const std::int64_t first = begin(rank_.index());
    tridiagonal_.secular_roots(update(), merge.equation, first, begin(rank_.index() + 1) - first,
                               roots.data());
    std::vector<comm::Bytes> pieces;
    for (std::int64_t r = 0; r < rank_.count(); ++r) {
      pieces.push_back(programs::bytes_of(roots.block(begin(r), 0, begin(r + 1) - begin(r), 1)));
    }
    // On every rank: the roots of the merge before have been used.
    send_when_computed(sites::roots_ready);
    rank_.communicator().all_gather(transfer(), std::move(pieces));
    transfer().copy(host_roots_of(merge), roots.data(),
                    static_cast<std::size_t>(count) * sizeof(Root));
    await(transfer(), arrived_, sites::roots_arrived);
  }

  bool all_found(const Merge& merge) const {
    const Root* const roots = host_roots_of(merge);
    return std::none_of(roots, roots + merge.equation.count,
                        [](const Root& root) { return root.origin == Root::not_found; });
  }

  /// The part's eigenvalues, in order.
  MergedPlaces take_roots(const Merge& merge) {
    const Part& part = merge.part;
    const Deflation<Real>& found = merge.found;
    std::vector<Real> roots;
    for (std::int64_t i = 0; i < found.kept(); ++i) {
      const Root& root = host_roots_of(merge)[i];
      roots.push_back(found.poles[static_cast<std::size_t>(root.origin)] + root.offset);
    }
    MergedPlaces places;
    std::size_t root = 0;
    std::size_t aside = 0;
    for (std::int64_t place = 0; place < part.rows.size(); ++place) {
      const bool is_root = aside == found.values.size() ||
                           (root < roots.size() && roots[root] <= found.values[aside]);
      values_[part.rows.begin + place] = is_root ? roots[root++] : found.values[aside++];
      (is_root ? places.of_roots : places.of_aside).push_back(place);
    }
    return places;
  }

  mesh::Rank& rank_;
  const DivideAndConquerProblem<Real>& problem_;
  MatrixView<Real> z_;
  const runtime::Kernels<Real>& kernels_;
  const runtime::TridiagonalKernels<Real>& tridiagonal_;
  ScaledTridiagonal<Real> t_;  // torn after tear()
  std::vector<Part> parts_;
  RowRange own_rows_;
  std::int64_t n_;
  Real* values_;  // on the host: of each part that this rank knows, ascending, where its rows are
  double to_merge_ = 0.0;  // cost_of() all that this rank has a share in
  double merged_ = 0.0;
  RowRange failed_;      // what did not converge, if all ranks know it
  RowRange own_failed_;  // of parts of this rank alone

  UploadedList<Real> diagonal_;  // of T, torn
  UploadedList<Real> off_diagonal_;
  UploadedList<std::int64_t> leaf_bounds_;  // of this rank alone, counted from its first row
  runtime::Tridiagonal<Real> device_t_;
  MatrixView<Real> leaf_values_;
  MatrixView<std::int64_t> leaf_infos_;
  std::int64_t* host_infos_;
  MatrixView<Real> leaf_;  // of several ranks: eigenvectors, then eigenvalues

  std::array<PartMessage<Real>, 2> messages_;  // of the two halves
  UploadedList<Real> poles_;
  UploadedList<Real> weights_;
  MatrixView<Root> roots_;
  Root* host_roots_;
  VectorMerge<Real> vectors_;
  runtime::Event& computed_;  // on the update queue
  runtime::Event& arrived_;   // on the transfer queue
};

}  // namespace

template <class Real>
TridiagonalOutcome<Real> divide_and_conquer(mesh::Rank& rank,
                                            const DivideAndConquerProblem<Real>& problem,
                                            MatrixView<Real> z) {
  return DivideAndConquer<Real>(rank, problem, z).run();
}

// As DivideAndConquer takes it.
template <class Real>
std::int64_t divide_and_conquer_bytes(std::int64_t n, std::int64_t rows,
                                      const runtime::TridiagonalTuning& tuning) {
  constexpr auto max_small = runtime::TridiagonalKernels<Real>::max_small;
  constexpr auto real = static_cast<std::int64_t>(sizeof(Real));
  const std::int64_t an_eigenvalue = 5 * real + static_cast<std::int64_t>(sizeof(std::int64_t)) +
                                     static_cast<std::int64_t>(sizeof(runtime::SecularRoot<Real>));
  const std::int64_t leaf_bounds = 2 * rows * static_cast<std::int64_t>(sizeof(std::int64_t));
  return n * an_eigenvalue + leaf_bounds + real * max_small * (max_small + 1) +
         2 * PartMessage<Real>::bytes(n) + VectorMerge<Real>::bytes(n, rows, tuning);
}

#define SHARDSOLVE_INSTANTIATE(Real)                                                       \
  template std::int64_t divide_and_conquer_bytes<Real>(std::int64_t, std::int64_t,         \
                                                       const runtime::TridiagonalTuning&); \
  template TridiagonalOutcome<Real> divide_and_conquer(                                    \
      mesh::Rank&, const DivideAndConquerProblem<Real>&, MatrixView<Real>);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::eigh
