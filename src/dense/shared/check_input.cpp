#include "dense/shared/check_input.hpp"

#include "core/each_dtype.hpp"
#include "dense/shared/wait_sites.hpp"
#include "programs/bytes_of.hpp"
#include "programs/gather.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <limits>
#include <optional>

namespace shardsolve::dense {
namespace {

/// What one rank found, as it travels to the others.
struct Findings {
  double norm = 0.0;             // largest finite column sum of |scale * a_ij|
  bool odd = false;              // a column sum is not finite
  double asymmetry = 0.0;        // largest violation of the probe, in units of its limit
  std::int64_t asymmetric = -1;  // the global row where that is
};

/// Entries of smaller magnitude may be missing from a column sum, as their squares underflow.
constexpr double lost = 0x1p-530;

/// `found`: by a look at the entries as they are. Exponent of the power of two to multiply them by,
/// so that their sums, squares and products with the probe stay in range; 0 if they do.
int safe_exponent(const Findings& found) {
  constexpr int step = 600;
  constexpr double low = 0x1p-400;
  constexpr double high = 0x1p+1000;
  if (found.odd || found.norm > high) {
    return -step;
  }
  return found.norm < low ? step : 0;
}

/// A place in the matrix that one rank proposes; larger weights win, then lower ranks.
struct Candidate {
  double weight = 0.0;
  std::int64_t row = -1;
  std::int64_t column = -1;
};

Candidate heaviest(const std::vector<std::vector<Candidate>>& candidates) {
  Candidate best;
  for (const auto& candidate : candidates) {
    if (candidate[0].weight > best.weight) {
      best = candidate[0];
    }
  }
  return best;
}

/// splitmix64 (Steele, Lea and Flood 2014): well mixed bits for each row.
std::uint64_t random_bits(std::size_t row) {
  std::uint64_t bits = (row + 1) * 0x9e3779b97f4a7c15ULL;
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebULL;
  return bits ^ (bits >> 31U);
}

double magnitude(const std::array<double, 1>& real) { return std::abs(real[0]); }
double magnitude(const std::array<double, 2>& complex) {
  return std::hypot(complex[0], complex[1]);
}

template <Scalar T>
class InputPass {
 public:
  static constexpr std::int64_t parts = is_complex<T> ? 2 : 1;

  InputPass(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab)
      : rank_(rank),
        layout_(layout),
        slab_(slab),
        first_(layout.segment(rank.index()).begin.value()),
        width_(slab.columns()),
        weights_(rank.host_workspace<double>(layout.size())),
        looked_at_(rank.event()) {
    write_probe_weights(weights_, layout.size());
  }

  /// One pass with all entries multiplied by `scale`; the findings of all ranks combined.
  Findings look(double scale);
  /// An entry that is NaN or Inf, if there is one: sums may have overflowed all the same.
  std::optional<Location> nonfinite_entry();
  /// The entry of this row, or of the column of the same number, that differs most from its mirror.
  Location worst_mirror(std::int64_t row);

 private:
  Findings sum_up(const runtime::Inspection& result);
  Findings combine(const Findings& mine);

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<const T> slab_;
  std::int64_t first_;
  std::int64_t width_;
  double* weights_;  // on the host
  runtime::Event& looked_at_;
  std::vector<std::int64_t> odd_columns_;  // local columns whose sum is not finite
};

template <Scalar T>
Findings InputPass<T>::look(double scale) {
  const std::int64_t n = layout_.size();
  const MatrixView<double> weights = rank_.workspace<double>(n, 1);
  rank_.update().copy(weights.data(), weights_, static_cast<std::size_t>(n) * sizeof(double));
  const runtime::Inspection result{rank_.workspace<double>(width_, 1).data(),
                                   rank_.workspace<double>(parts * width_, 1).data(),
                                   rank_.workspace<double>(parts * n, 1).data()};
  rank_.kernels<T>().inspect(rank_.update(), slab_, first_, weights.data(), scale, result);
  rank_.update().record(looked_at_);
  return combine(sum_up(result));
}

template <Scalar T>
Findings InputPass<T>::sum_up(const runtime::Inspection& result) {
  // (A v)_i for this rank's rows: the shares of all ranks, added in rank order
  const MatrixView<double> shares = rank_.workspace<double>(parts * width_, rank_.count());
  std::vector<comm::Bytes> send;
  std::vector<comm::Bytes> receive;
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    const GlobalRange rows = layout_.segment(r);
    send.push_back({result.partial_product + parts * rows.begin.value(),
                    static_cast<std::size_t>(parts * rows.size()) * sizeof(double)});
    receive.push_back(programs::bytes_of(shares.columns_from(r, 1)));
  }
  rank_.transfer().wait(looked_at_, sites::input_looked_at);
  const double* const sums = rank_.fetch_later(rank_.transfer(), result.column_sums, width_);
  const double* const probe = rank_.fetch_later(rank_.transfer(), result.probe, parts * width_);
  const comm::Bytes own = send[static_cast<std::size_t>(rank_.index())];
  rank_.transfer().copy(receive[static_cast<std::size_t>(rank_.index())].data, own.data, own.size);
  rank_.communicator().all_to_all(rank_.transfer(), std::move(send), std::move(receive));
  const double* const all =
      rank_.fetch_later(rank_.transfer(), shares.data(), parts * width_ * rank_.count());
  rank_.finish(rank_.transfer());

  const double limit = asymmetry_limit<T>(layout_.size());
  const double tiny = static_cast<double>(layout_.size()) * lost;
  Findings found;
  for (std::int64_t j = 0; j < width_; ++j) {
    const auto at = static_cast<std::size_t>(j);
    if (!std::isfinite(sums[at])) {
      found.odd = true;
      odd_columns_.push_back(j);
      continue;
    }
    found.norm = std::max(found.norm, sums[at]);
    std::array<double, parts> difference{};
    for (std::size_t part = 0; part < parts; ++part) {
      double product = 0.0;
      for (std::int64_t r = 0; r < rank_.count(); ++r) {
        product += all[static_cast<std::size_t>(r * parts * width_) + parts * at + part];
      }
      difference[part] = probe[parts * at + part] - product;
    }
    const double excess = magnitude(difference) - tiny;
    const double violation = excess <= 0.0 ? 0.0 : excess / (limit * sums[at]);
    if (!(violation <= std::max(1.0, found.asymmetry))) {
      found.asymmetry = std::isnan(violation) ? std::numeric_limits<double>::infinity() : violation;
      found.asymmetric = first_ + j;
    }
  }
  return found;
}

template <Scalar T>
Findings InputPass<T>::combine(const Findings& mine) {
  Findings all;
  for (const auto& one : programs::gather_from_all(rank_, std::vector<Findings>{mine})) {
    const Findings& found = one[0];
    all.norm = std::max(all.norm, found.norm);
    all.odd = all.odd || found.odd;
    if (found.asymmetry > all.asymmetry) {
      all.asymmetry = found.asymmetry;
      all.asymmetric = found.asymmetric;
    }
  }
  return all;
}

template <Scalar T>
std::optional<Location> InputPass<T>::nonfinite_entry() {
  Candidate found;
  for (const std::int64_t j : odd_columns_) {
    const std::vector<T> column =
        rank_.fetch(rank_.update(), slab_.columns_from(j, 1).data(), slab_.rows());
    const auto odd = std::find_if(column.begin(), column.end(), [](const T& value) {
      return !std::isfinite(std::real(value)) || !std::isfinite(std::imag(value));
    });
    if (odd != column.end()) {
      found = {1.0, odd - column.begin(), first_ + j};
      break;
    }
  }
  const Candidate first = heaviest(programs::gather_from_all(rank_, std::vector<Candidate>{found}));
  if (first.row < 0) {
    return std::nullopt;
  }
  return Location::in_matrix(GlobalIndex(first.row), GlobalIndex(first.column));
}

template <Scalar T>
Location InputPass<T>::worst_mirror(std::int64_t row) {
  // Column `row` of A to all ranks; its entries belong beside the rows of the same number.
  const MatrixView<T> column = rank_.workspace<T>(layout_.size(), 1);
  const std::int64_t owner = layout_.owner(GlobalIndex(row));
  if (owner == rank_.index()) {
    rank_.kernels<T>().copy(rank_.transfer(), slab_.columns_from(row - first_, 1), column);
  }
  rank_.communicator().broadcast(rank_.transfer(), programs::bytes_of(column), owner);
  const MatrixView<T> entries = rank_.workspace<T>(1, width_);
  rank_.kernels<T>().copy(rank_.transfer(), slab_.block(row, 0, 1, width_), entries);
  const std::vector<T> mirror = rank_.fetch(rank_.transfer(), column.data(), layout_.size());
  const std::vector<T> mine = rank_.fetch(rank_.transfer(), entries.data(), width_);

  Candidate found;
  for (std::int64_t j = 0; j < width_; ++j) {
    const std::complex<double> entry = mine[static_cast<std::size_t>(j)];
    const std::complex<double> other = mirror[static_cast<std::size_t>(first_ + j)];
    const double difference = std::abs(entry - std::conj(other));
    if (difference > found.weight) {
      found = {difference, row, first_ + j};
    }
  }
  const Candidate worst = heaviest(programs::gather_from_all(rank_, std::vector<Candidate>{found}));
  return Location::in_matrix(GlobalIndex(worst.row), GlobalIndex(worst.column));
}

/// The look at A of both calls, its asymmetry kept in `found`.
template <Scalar T>
InputCheck look_at_entries(InputPass<T>& pass, Findings& found) {
  InputCheck check;
  found = pass.look(1.0);
  if (found.odd) {
    if (const auto entry = pass.nonfinite_entry()) {
      check.outcome.status = Status::nonfinite_input;
      check.outcome.location = entry;
      return check;
    }
  }
  const int exponent = safe_exponent(found);
  if (exponent != 0) {
    found = pass.look(std::ldexp(1.0, exponent));
  }
  check.norm = Scaled{found.norm, -exponent}.normalised();
  return check;
}

}  // namespace

template <Scalar T>
InputCheck check_finite(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab) {
  InputPass<T> pass(rank, layout, slab);
  Findings found;
  return look_at_entries(pass, found);
}

template <Scalar T>
InputCheck check_hermitian(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab) {
  InputPass<T> pass(rank, layout, slab);
  Findings found;
  InputCheck check = look_at_entries(pass, found);
  if (check.outcome.ok() && found.asymmetric >= 0) {
    check.outcome.status = Status::not_hermitian;
    check.outcome.location = pass.worst_mirror(found.asymmetric);
  }
  return check;
}

void write_probe_weights(double* weights, std::int64_t n) {
  constexpr int bits_a_weight = 9;
  constexpr std::int64_t at_once = 64 / bits_a_weight;
  for (std::int64_t first = 0; first < n; first += at_once) {
    std::uint64_t bits = random_bits(static_cast<std::size_t>(first));
    for (std::int64_t i = first; i < std::min(first + at_once, n); ++i) {
      const double magnitude = 1.0 + static_cast<double>((bits >> 1U) % 256) / 256.0;
      weights[i] = (bits & 1U) != 0 ? magnitude : -magnitude;
      bits >>= bits_a_weight;
    }
  }
}

std::vector<double> probe_signs(std::int64_t n) {
  std::vector<double> signs(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < signs.size(); ++i) {
    signs[i] = (random_bits(i) & 1U) != 0 ? 1.0 : -1.0;
  }
  return signs;
}

std::vector<double> probe_signs(std::int64_t n, std::int64_t vectors) {
  std::vector<double> signs = probe_signs(n * vectors);
  if (n <= vectors) {  // a Hadamard matrix, as Sylvester made them
    for (std::int64_t v = 1; v < vectors; ++v) {
      for (std::int64_t i = 0; i < n; ++i) {
        const bool odd = std::popcount(static_cast<std::uint64_t>(i & v)) % 2 != 0;
        signs[static_cast<std::size_t>(v * n + i)] =
            odd ? -signs[static_cast<std::size_t>(i)] : signs[static_cast<std::size_t>(i)];
      }
    }
  }
  return signs;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                        \
  template InputCheck check_finite(mesh::Rank&, const SlabLayout&, MatrixView<const T>); \
  template InputCheck check_hermitian(mesh::Rank&, const SlabLayout&, MatrixView<const T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense
