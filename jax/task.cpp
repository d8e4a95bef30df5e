#include "jax/task.hpp"

namespace shardsolve::jax {

Task::Task(const Job& job, const std::vector<Seat>& seats, const Verdict& before)
    : job_(job),
      seats_(seats),
      before_(before),
      devices_(seats, job.ranks == 1 && is_serial(job.n)) {
  if (const auto& copy = job.row->copy) {
    devices_.bring(copy->from, copy->to, bytes_of(job.row->buffers.at(copy->to), job));
  }
}

SlabLayout Task::layout() {
  const std::int64_t tile =
      job_.tile() > 0 ? job_.tile() : devices_.default_tile(job_.n, job_.dtype, job_.row->routine);
  return rows_layout(job_.n, job_.ranks, tile);
}

}  // namespace shardsolve::jax
