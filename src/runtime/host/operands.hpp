/// The one way that a host kernel enters a queue: its operands are announced to ThreadSanitizer.
#pragma once

#include "runtime/host/host_queue.hpp"
#include "runtime/host/thread_sanitizer.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace shardsolve::runtime::host {

/// The memory of one operand. ThreadSanitizer does not see inside the BLAS, so what a kernel reads
/// and writes is said here; a triangle without the diagonal's other side is said exactly.
struct Operand {
  enum class Part : std::uint8_t { all, lower, upper, strictly_upper };

  template <class T>
  Operand(MatrixView<T> view, Part which = Part::all)  // NOLINT(google-explicit-constructor)
      : data(const_cast<std::remove_const_t<T>*>(view.data())),
        element(sizeof(T)),
        rows(view.rows()),
        columns(view.columns()),
        stride(view.stride()),
        part(which) {}
  template <class T>
  Operand(T* first, std::int64_t count) : Operand(MatrixView<T>(first, count, 1)) {}

  void* data;
  std::int64_t element;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t stride;
  Part part;

  /// Rows of column j that belong to it.
  std::pair<std::int64_t, std::int64_t> extent(std::int64_t j) const {
    switch (part) {
      case Part::lower:
        return {j, rows};
      case Part::upper:
        return {0, j + 1};
      case Part::strictly_upper:
        return {0, j};
      case Part::all:
        break;
    }
    return {0, rows};
  }

#ifdef SHARDSOLVE_THREAD_SANITIZER
  void announce(bool write) const {
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto [begin, end] = extent(j);
      char* address = static_cast<char*>(data) + (j * stride + begin) * element;
      const auto bytes = static_cast<unsigned long>((end - begin) * element);
      if (bytes > 0) {
        write ? __tsan_write_range(address, bytes) : __tsan_read_range(address, bytes);
      }
    }
  }
#endif
};

/// Enqueues `work`, which reads and writes exactly these operands.
template <class Work>
// NOLINTNEXTLINE(performance-unnecessary-value-param): taken where it is used
void launch(Queue& queue, const WorkInfo& info, std::vector<Operand> reads,
            std::initializer_list<Operand> writes, Work work) {
#ifdef SHARDSOLVE_THREAD_SANITIZER
  static_cast<HostQueue&>(queue).launch(
      info, [reads = std::move(reads), writes = std::vector(writes), work] {
        for (const Operand& operand : reads) {
          operand.announce(false);
        }
        for (const Operand& operand : writes) {
          operand.announce(true);
        }
        // The BLAS locks its work buffers: an order between queues that no event of ours has made,
        // and that would hide where one is missing.
        AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
        work();
        AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
      });
#else
  static_cast<void>(reads);
  static_cast<void>(writes);
  static_cast<HostQueue&>(queue).launch(info, std::move(work));
#endif
}
template <class Work>
void launch(Queue& queue, const WorkInfo& info,
            [[maybe_unused]] std::initializer_list<Operand> reads,
            std::initializer_list<Operand> writes, Work work) {
#ifdef SHARDSOLVE_THREAD_SANITIZER
  launch(queue, info, std::vector(reads), writes, std::move(work));
#else
  launch(queue, info, std::vector<Operand>(), writes, std::move(work));  // which nobody reads
#endif
}

}  // namespace shardsolve::runtime::host
