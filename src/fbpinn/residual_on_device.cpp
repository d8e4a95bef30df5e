#include "fbpinn/residual_on_device.hpp"

#include "fbpinn/chunks.hpp"
#include "fbpinn/device_uploads.hpp"
#include "fbpinn/on_device.hpp"
#include "programs/gather.hpp"
#include "runtime/box_kernels.hpp"

#include <shardsolve/mesh.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace shardsolve::fbpinn {
namespace on_devices {

/// Points of a term that its function is called for, by number in the term.
struct Piece {
  std::size_t term = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// The first point of a term that is a rank's.
std::int64_t begin_of_share(const Segment& segment, std::int64_t rank, std::int64_t ranks) {
  return segment.points * rank / ranks;
}

/// A rank's, all of one size where there are many: the last one begins earlier than it had to, so
/// that no other size is compiled.
std::vector<Piece> pieces_of(const PointGeometry& geometry, std::int64_t chunk, std::int64_t rank,
                             std::int64_t ranks) {
  const std::int64_t size = points_of_device_call(chunk);
  std::vector<Piece> pieces;
  for (std::size_t term = 0; term < geometry.segments.size(); ++term) {
    const std::int64_t begin = begin_of_share(geometry.segments[term], rank, ranks);
    const std::int64_t end = begin_of_share(geometry.segments[term], rank + 1, ranks);
    for (std::int64_t at = begin; at < end; at += size) {
      const std::int64_t first = std::max(begin, std::min(at, end - size));
      pieces.push_back({term, first, std::min(size, end - first)});
    }
  }
  return pieces;
}

bool are_possible(const Problem& problem, const std::vector<Term>& terms,
                  const sparse::Workers& workers) {
  return workers.devices != nullptr && workers.processes == 1 && !problem.constraint() &&
         problem.mlp().own == nullptr && std::all_of(terms.begin(), terms.end(), [](const Term& t) {
           return static_cast<bool>(t.residual.on_device);
         });
}

/// One evaluation of all functions.
class Evaluation {
 public:
  Evaluation(const std::vector<Term>& terms, const PointGeometry& geometry,
             std::span<const double> v, const std::vector<double>& coefficients, bool derivatives,
             const sparse::Workers& workers)
      : terms_(terms),
        geometry_(geometry),
        v_(v),
        coefficients_(coefficients),
        derivatives_(derivatives),
        workers_(workers) {
    PointwiseRows& rows = result_.rows;
    rows.residual.resize(static_cast<std::size_t>(geometry.rows));
    rows.by_coefficients.resize(derivatives ? rows.residual.size() * coefficients.size() : 0);
    result_.nonfinite.assign(terms.size(), -1);
    if (derivatives) {
      there_ = std::make_shared<DerivativesOnDevices>(workers, geometry.derivatives);
      rows.on_devices = there_;
    }
  }

  std::optional<RowsOnDevices> run(std::int64_t chunk) {
    const std::int64_t ranks = workers_.devices->ranks();
    std::vector<std::vector<Piece>> pieces;
    std::size_t turns = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      pieces.push_back(pieces_of(geometry_, chunk, rank, ranks));
      turns = std::max(turns, pieces.back().size());
    }
    for (std::size_t turn = 0; turn < turns; ++turn) {
      std::vector<std::optional<Piece>> now;
      for (const std::vector<Piece>& of_rank : pieces) {
        now.push_back(turn < of_rank.size() ? std::optional(of_rank[turn]) : std::nullopt);
      }
      if (!do_pieces(now)) {
        return std::nullopt;
      }
    }
    if (derivatives_ && ranks > 1) {
      gather();
    }
    return std::move(result_);
  }

 private:
  /// One of each rank. False if a function declines.
  bool do_pieces(const std::vector<std::optional<Piece>>& pieces) {
    std::vector<std::optional<ResidualInDeviceMemory>> given(pieces.size());
    std::atomic<bool> declines = false;
    workers_.each(static_cast<std::int64_t>(pieces.size()), [&](std::int64_t rank) {
      const auto at = static_cast<std::size_t>(rank);
      if (pieces[at]) {
        given[at] = call(rank, *pieces[at]);
        if (!given[at]) {
          declines = true;
        }
      }
    });
    if (declines) {
      return false;
    }
    std::vector<std::int64_t> nonfinite(pieces.size(), -1);
    on_device(workers_, 0.0, [&](mesh::Rank& rank) {
      const auto at = static_cast<std::size_t>(rank.index());
      if (pieces[at]) {
        nonfinite[at] = take(rank, *pieces[at], *given[at]);
      }
    });
    for (std::size_t rank = 0; rank < pieces.size(); ++rank) {
      if (nonfinite[rank] >= 0) {
        std::int64_t& first = result_.nonfinite[pieces[rank]->term];
        first = first < 0 ? nonfinite[rank] : std::min(first, nonfinite[rank]);
      }
    }
    return true;
  }

  std::optional<ResidualInDeviceMemory> call(std::int64_t rank, const Piece& piece) const {
    const std::int64_t first = geometry_.segments[piece.term].first_point + piece.first;
    const PointBatch batch{&geometry_.set,
                           geometry_.fields,
                           piece.count,
                           geometry_.points.data() + first * geometry_.set.axes(),
                           v_.data() + first * geometry_.jet_numbers(),
                           coefficients_};
    return terms_[piece.term].residual.on_device(rank, batch, derivatives_);
  }

  /// Rows of what a function gave. The first point at which something is not finite, or -1.
  std::int64_t take(mesh::Rank& rank, const Piece& piece, const ResidualInDeviceMemory& given) {
    const Segment& segment = geometry_.segments[piece.term];
    const Term& term = terms_[piece.term];
    const auto others = static_cast<std::int64_t>(coefficients_.size());
    const std::int64_t count = piece.count * segment.equations;
    const bool has_others = derivatives_ && others > 0;
    runtime::PointwisePart part{};
    part.r = given.r;
    part.a = derivatives_ ? given.a : nullptr;
    part.b = has_others ? given.b : nullptr;
    part.points = piece.count;
    part.equations = segment.equations;
    part.jets = geometry_.jet_numbers();
    part.coefficients = others;
    part.scale = term.weight / std::sqrt(static_cast<double>(segment.points));
    part.residual = rank.workspace<double>(count, 1).data();
    if (!term.targets.empty()) {
      part.targets = devices::upload(
          rank, std::span(term.targets)
                    .subspan(static_cast<std::size_t>(piece.first * segment.equations),
                             static_cast<std::size_t>(count)));
    }
    if (derivatives_) {
      part.derivatives = there_->of(rank.index()) + segment.first_derivative +
                         piece.first * segment.equations * part.jets;
    }
    if (has_others) {
      part.by_coefficients = rank.workspace<double>(count * others, 1).data();
    }
    runtime::Queue& queue = rank.update();
    const std::int64_t warps = runtime::SeenByWarps::warps(part.numbers());
    auto* const seen = rank.workspace<std::int64_t>(warps, 1).data();
    rank.kernels<runtime::BoxKernels>().pointwise_rows(queue, part, seen);
    PointwiseRows& rows = result_.rows;
    const auto bytes = static_cast<std::size_t>(piece.count) * sizeof(double);
    for (std::int64_t e = 0; e < segment.equations; ++e) {
      const std::int64_t row = segment.first_row + e * segment.points + piece.first;
      queue.copy(rows.residual.data() + row, part.residual + e * piece.count, bytes);
      for (std::int64_t k = 0; has_others && k < others; ++k) {
        queue.copy(rows.by_coefficients.data() + k * geometry_.rows + row,
                   part.by_coefficients + (k * segment.equations + e) * piece.count, bytes);
      }
    }
    const std::vector<std::int64_t> points =
        rank.fetch(queue, static_cast<const std::int64_t*>(seen), warps);
    const std::int64_t first = *std::min_element(points.begin(), points.end());
    return first < piece.count ? segment.first_point + piece.first + first : -1;
  }

  /// Each rank's derivatives to all.
  void gather() {
    on_device(workers_, 0.0, [&](mesh::Rank& rank) {
      for (const Segment& segment : geometry_.segments) {
        const std::int64_t of_point = segment.equations * geometry_.jet_numbers();
        std::vector<std::int64_t> begin;
        for (std::int64_t r = 0; r <= rank.count(); ++r) {
          begin.push_back(begin_of_share(segment, r, rank.count()) * of_point);
        }
        double* const all = there_->of(rank.index()) + segment.first_derivative;
        double* const table = rank.workspace<double>(begin.back(), 1).data();
        const auto mine = static_cast<std::size_t>(rank.index());
        rank.update().copy(
            table + begin[mine], all + begin[mine],
            static_cast<std::size_t>(begin[mine + 1] - begin[mine]) * sizeof(double));
        programs::gather_table(rank, table, begin);
        rank.update().copy(all, table, static_cast<std::size_t>(begin.back()) * sizeof(double));
      }
      rank.finish(rank.update());
    });
  }

  const std::vector<Term>& terms_;
  const PointGeometry& geometry_;
  std::span<const double> v_;
  const std::vector<double>& coefficients_;
  bool derivatives_;
  const sparse::Workers& workers_;
  std::shared_ptr<DerivativesOnDevices> there_;
  RowsOnDevices result_;
};

}  // namespace on_devices

std::optional<RowsOnDevices> rows_on_devices(const Problem& problem, const std::vector<Term>& terms,
                                             const PointGeometry& geometry,
                                             std::span<const double> v,
                                             const std::vector<double>& coefficients,
                                             bool derivatives, std::int64_t chunk,
                                             const sparse::Workers& workers) {
  if (!on_devices::are_possible(problem, terms, workers)) {
    return std::nullopt;
  }
  return on_devices::Evaluation(terms, geometry, v, coefficients, derivatives, workers).run(chunk);
}

}  // namespace shardsolve::fbpinn
