#include "jax/calls.hpp"

#include "core/floating_point.hpp"
#include "jax/one_rank.hpp"
#include "jax/records.hpp"
#include "jax/task.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace shardsolve::jax {
namespace {

/// Up to this size one rank is faster than several are woken. Not where a tile is asked for.
std::atomic<std::int64_t> small_matrix{512};

/// Whether one rank is to do the work of several devices: on GPUs it could not reach their rows.
/// A factor that one rank has made is used by one.
bool is_for_one_rank(const Job& job, const std::vector<Seat>& seats) {
  if (job.devices == 1 || seats[0].gpu) {
    return false;
  }
  if (!job.row->record) {
    return job.n <= small_matrix && job.tile() == 0;
  }
  const auto record = read<FactorRecord>(seats[0].at(*job.row->record));
  return record.ranks == 1;
}

}  // namespace

std::int64_t Job::tile() const {
  const bool has_tile = std::any_of(row->options.begin(), row->options.end(),
                                    [](const Option& option) { return option.name == "tile"; });
  return has_tile ? option<std::int64_t>("tile") : 0;
}

std::size_t element_bytes(const CallBuffer& buffer, Dtype dtype) {
  const auto size = static_cast<std::size_t>(element_size(dtype));
  const bool is_complex = dtype == Dtype::complex64 || dtype == Dtype::complex128;
  switch (buffer.element) {
    case Element::matrix:
      return size;
    case Element::real:
      return is_complex ? size / 2 : size;
    case Element::float64:
      return sizeof(double);
    case Element::words:
      return sizeof(std::int32_t);
  }
  return 0;
}

std::vector<std::int64_t> shape_of(const CallBuffer& buffer, const Job& job) {
  switch (buffer.kind) {
    case Kind::slab:
    case Kind::columns:
      return {width_of(job), job.n};
    case Kind::rows:
      return {width_of(job)};
    case Kind::sides:
      return {job.columns, width_of(job)};
    case Kind::tall:
      return {job.unknowns, width_of(job)};
    case Kind::square:
      return {job.unknowns, job.unknowns};
    case Kind::unknowns:
      return {job.columns, job.unknowns};
    case Kind::each_unknown:
      return {job.unknowns};
    case Kind::each_side:
      return {job.columns};
    case Kind::whole:
      return {job.n};
    case Kind::small:
      return {buffer.length};
    case Kind::any:
    case Kind::vectors:
      break;
  }
  return {};
}

std::int64_t elements_of(const CallBuffer& buffer, const Job& job) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape_of(buffer, job)) {
    count *= extent;
  }
  return count;
}

std::size_t bytes_of(const CallBuffer& buffer, const Job& job) {
  return static_cast<std::size_t>(elements_of(buffer, job)) * element_bytes(buffer, job.dtype);
}

SlabLayout rows_layout(std::int64_t n, std::int64_t ranks, std::int64_t tile) {
  if (ranks < 1) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} rows are to be cut over {} ranks; at least one is needed: use a "
                            "factor as shardsolve.cho_factor returned it",
                            n, ranks));
  }
  const std::int64_t width = (n + ranks - 1) / ranks;
  std::vector<std::int64_t> boundaries;
  for (std::int64_t rank = 0; rank <= ranks; ++rank) {
    boundaries.push_back(std::min(rank * width, n));
  }
  return {std::move(boundaries), tile};
}

void set_small_matrix(std::int64_t n) { small_matrix = n; }

bool is_short(const Job& job) {
  return is_serial(job.n) && (job.ranks == 1 || job.n <= small_matrix);
}

void do_call(const Job& job, const std::vector<Seat>& seats) {
  const core::IeeeArithmetic scope;  // XLA's threads flush subnormal numbers
  const auto work = job.row->work.at(static_cast<std::size_t>(job.dtype));
  Verdict before;
  if (is_for_one_rank(job, seats)) {
    before = judge([&] {
      on_one_rank(job, seats, work);
      return Outcome{};
    });
    if (before.ok()) {
      return;
    }
  }
  Task task(job, seats, before);
  work(task);
}

}  // namespace shardsolve::jax
