#include "runtime/host/spare_threads.hpp"

#include "core/floating_point.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

namespace shardsolve::runtime::host {
namespace {

/// Outlives the call, for threads that come late. `do_piece` does not: it is not looked at once all
/// pieces are taken.
class Pieces {
 public:
  Pieces(int count, const std::function<void(std::int64_t)>& do_piece)
      : count_(count), do_piece_(do_piece) {}

  void take_some() {
    for (int piece = taken_++; piece < count_; piece = taken_++) {
      try {
        do_piece_(piece);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        failure_ = std::current_exception();
      }
      if (++done_ == count_) {
        done_.notify_all();
      }
    }
  }
  void finish() {
    for (int done = done_; done < count_; done = done_) {
      done_.wait(done);
    }
    if (failure_) {
      std::rethrow_exception(failure_);
    }
  }

 private:
  const int count_;
  const std::function<void(std::int64_t)>& do_piece_;
  std::atomic<int> taken_{0};
  std::atomic<int> done_{0};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

void in_pieces(SpareThreads* spare, std::int64_t pieces,
               const std::function<void(std::int64_t)>& do_piece) {
  const std::int64_t helping =
      spare == nullptr || pieces < 2 ? 0 : std::min(spare->count(), pieces - 1);
  const core::IeeeArithmetic scope;
  if (helping <= 0) {
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      do_piece(piece);
    }
    return;
  }
  const auto all = std::make_shared<Pieces>(static_cast<int>(pieces), do_piece);
  for (std::int64_t thread = 0; thread < helping; ++thread) {
    spare->start([all] {
      const core::IeeeArithmetic of_thread;
      all->take_some();
    });
  }
  all->take_some();
  all->finish();
}

}  // namespace shardsolve::runtime::host
