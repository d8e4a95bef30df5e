// longjmp from one stack to another is what fibers are; the checking version takes it for an error.
#undef _FORTIFY_SOURCE

#include "emulator.hpp"

#include <ucontext.h>

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

thread_local uint3 threadIdx;
thread_local uint3 blockIdx;
thread_local dim3 blockDim;

namespace shardsolve::emulation {
namespace {

constexpr std::size_t stack_bytes = std::size_t{256} << 10U;
constexpr std::size_t alignment = 1024;

enum class State : std::uint8_t { ready, waits_for_warp, waits_for_block, gives_way, done };

struct Copy {
  void* target;
  const void* source;
  std::size_t bytes;
  std::size_t zeros;  ///< of these, at the end
};

void make(const Copy& copy) {
  std::memcpy(copy.target, copy.source, copy.bytes - copy.zeros);
  std::memset(static_cast<std::byte*>(copy.target) + copy.bytes - copy.zeros, 0, copy.zeros);
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

/// A thread of a block.
struct Fiber {
  std::jmp_buf place;  ///< where it goes on, once it has begun
  bool has_begun = false;
  State state = State::ready;
  uint3 index;
  std::vector<Copy> copies;              // not in a group yet
  std::deque<std::vector<Copy>> groups;  // not waited for yet
};

Order& chosen_order() {
  thread_local Order order = Order::forward;
  return order;
}

std::vector<std::size_t> in_order(std::size_t count) {
  std::vector<std::size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  if (chosen_order() == Order::backward) {
    std::reverse(numbers.begin(), numbers.end());
  } else if (chosen_order() == Order::shuffled) {
    std::shuffle(numbers.begin(), numbers.end(), std::mt19937(7));
  }
  return numbers;
}

/// All threads of one block, and what they share.
class ThreadBlock {
 public:
  /// `first_stack`: the number of its first thread's, of those that are not in use.
  ThreadBlock(std::size_t index, std::size_t first_stack, dim3 threads, std::size_t shared_bytes,
              const std::function<void()>& kernel)
      : kernel_(kernel),
        index_(index),
        first_stack_(first_stack),
        fibers_(std::size_t{threads.x} * threads.y * threads.z),
        warps_((fibers_.size() + lanes_a_warp - 1) / lanes_a_warp),
        shared_(static_cast<std::byte*>(
            std::aligned_alloc(alignment, (shared_bytes / alignment + 1) * alignment))) {
    std::memset(shared_.get(), 0xff, (shared_bytes / alignment + 1) * alignment);
    for (std::size_t i = 0; i < fibers_.size(); ++i) {
      const auto number = static_cast<unsigned>(i);
      fibers_[i].index = {number % threads.x, number / threads.x % threads.y,
                          number / threads.x / threads.y};
    }
  }

  /// A warp goes on until the others have to come too: nobody else's work is done by chance. Until
  /// all threads have ended, which is returned, or those that can go on give way to other blocks.
  /// `with_laggard`: whether the warp that lags goes on, too.
  bool run(bool with_laggard) {
    const Current while_it_runs(*this);
    blockIdx = {static_cast<unsigned>(index_), 0, 0};
    has_advanced_ = false;
    const bool lags = chosen_order() == Order::lagging;
    const std::size_t laggard = lags ? index_ % warps_.size() : warps_.size();
    for (Fiber& fiber : fibers_) {
      fiber.state = fiber.state == State::gives_way ? State::ready : fiber.state;
    }
    const std::vector<std::size_t> warps = in_order(warps_.size());
    const std::vector<std::size_t> lanes = in_order(lanes_a_warp);
    while (!all_of_block(State::done)) {
      for (const std::size_t warp : warps) {
        if (warp == laggard && !with_laggard) {
          continue;
        }
        do {
          for (const std::size_t lane : lanes) {
            const std::size_t number = warp * lanes_a_warp + lane;
            if (number < fibers_.size() && fibers_[number].state == State::ready) {
              resume(number);
            }
          }
        } while (release(State::waits_for_warp, warp * lanes_a_warp, lanes_of(warp)));
      }
      const bool tried_all = !lags || with_laggard;
      with_laggard = false;
      if (!release(State::waits_for_block, 0, fibers_.size()) && !all_of_block(State::done)) {
        if (any_of_block(State::gives_way)) {
          return false;
        }
        if (!tried_all) {
          with_laggard = true;
          continue;
        }
        throw std::runtime_error("block " + std::to_string(index_) +
                                 ": threads wait for others that wait elsewhere");
      }
    }
    return true;
  }
  /// Whether run() did more than to look in vain.
  bool has_advanced() const { return has_advanced_; }
  std::size_t threads() const { return fibers_.size(); }

  static ThreadBlock*& current() {
    thread_local ThreadBlock* block = nullptr;
    return block;
  }

  std::byte* shared() const { return shared_.get(); }
  Fiber& fiber() { return fibers_[running_]; }
  int lane() const { return static_cast<int>(running_ % lanes_a_warp); }
  void give_way(bool in_vain) { ThreadBlock::current()->wait(State::gives_way, !in_vain); }
  Slots& slots() { return warps_[running_ / lanes_a_warp]; }

  void wait(State until, bool has_advanced = true) {
    fiber().state = until;
    has_advanced_ = has_advanced_ || has_advanced;
    if (_setjmp(fiber().place) == 0) {
      _longjmp(scheduler_, 1);
    }
  }

 private:
  struct Current {
    explicit Current(ThreadBlock& block) { current() = &block; }
    ~Current() { current() = nullptr; }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
  };

  static void begin() {
    ThreadBlock& block = *current();
    block.kernel_();
    block.fiber().state = State::done;
    block.has_advanced_ = true;
    _longjmp(block.scheduler_, 1);
  }

  /// Contexts are for the first time only, as they take system calls.
  void resume(std::size_t number) {
    running_ = number;
    threadIdx = fibers_[number].index;
    if (_setjmp(scheduler_) != 0) {
      return;
    }
    if (std::exchange(fibers_[number].has_begun, true)) {
      _longjmp(fibers_[number].place, 1);
    }
    ucontext_t first;
    getcontext(&first);
    first.uc_stack.ss_sp = stack_of(first_stack_ + number);
    first.uc_stack.ss_size = stack_bytes;
    first.uc_link = nullptr;
    makecontext(&first, &ThreadBlock::begin, 0);
    setcontext(&first);
  }

  /// Kept from block to block.
  static std::byte* stack_of(std::size_t number) {
    thread_local std::vector<std::unique_ptr<std::byte[]>> stacks;
    while (stacks.size() <= number) {
      stacks.emplace_back(new std::byte[stack_bytes]);
    }
    return stacks[number].get();
  }

  std::size_t lanes_of(std::size_t warp) const {
    return std::min<std::size_t>(fibers_.size() - warp * lanes_a_warp, lanes_a_warp);
  }
  bool all_of_block(State state) const {
    return std::all_of(fibers_.begin(), fibers_.end(),
                       [state](const Fiber& fiber) { return fiber.state == state; });
  }

  bool any_of_block(State state) const {
    return std::any_of(fibers_.begin(), fibers_.end(),
                       [state](const Fiber& fiber) { return fiber.state == state; });
  }

  /// Lets these go on if all of them that have not ended wait for each other.
  bool release(State waiting, std::size_t first, std::size_t count) {
    const auto begin = fibers_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(count);
    const auto waits = [waiting](const Fiber& fiber) { return fiber.state == waiting; };
    if (std::none_of(begin, end, waits) || !std::all_of(begin, end, [&](const Fiber& fiber) {
          return waits(fiber) || fiber.state == State::done;
        })) {
      return false;
    }
    std::for_each(begin, end, [](Fiber& fiber) {
      fiber.state = fiber.state == State::done ? State::done : State::ready;
    });
    return true;
  }

  const std::function<void()>& kernel_;
  std::size_t index_;
  std::size_t first_stack_;
  bool has_advanced_ = false;
  std::vector<Fiber> fibers_;
  std::vector<Slots> warps_;
  std::unique_ptr<std::byte, Free> shared_;
  std::jmp_buf scheduler_;
  std::size_t running_ = 0;
};

}  // namespace

/// Those of the kernel that runs, by number; and how often one of them has come to meet the others.
struct Running {
  std::vector<ThreadBlock*> blocks;
  std::size_t arrivals = 0;
};
Running& running() {
  thread_local Running now;
  return now;
}

void set_order(Order order) { chosen_order() = order; }

void run(std::int64_t blocks, dim3 threads, std::size_t shared_bytes,
         const std::function<void()>& kernel) {
  blockDim = threads;
  std::vector<std::unique_ptr<ThreadBlock>> begun;
  running() = {std::vector<ThreadBlock*>(static_cast<std::size_t>(blocks)), 0};
  std::size_t stacks = 0;
  for (const std::size_t index : in_order(static_cast<std::size_t>(blocks))) {
    auto block = std::make_unique<ThreadBlock>(index, stacks, threads, shared_bytes, kernel);
    running().blocks[index] = block.get();
    if (!block->run(false)) {
      stacks += block->threads();
      begun.push_back(std::move(block));
    }
  }
  bool with_laggards = false;
  while (!begun.empty()) {
    bool has_advanced = false;
    std::erase_if(begun, [&](const std::unique_ptr<ThreadBlock>& block) {
      const bool has_ended = block->run(with_laggards);
      has_advanced = has_advanced || block->has_advanced();
      return has_ended;
    });
    if (!has_advanced && (with_laggards || chosen_order() != Order::lagging)) {
      throw std::runtime_error("blocks wait for what no block writes");
    }
    with_laggards = !has_advanced;
  }
}

std::byte* shared_memory() { return ThreadBlock::current()->shared(); }

void* in_block(void* place, int block) {
  const ThreadBlock* const other = running().blocks.at(static_cast<std::size_t>(block));
  return other->shared() + (static_cast<std::byte*>(place) - shared_memory());
}

void meet_all_blocks() {
  wait_for_block();
  if (threadIdx.x == 0) {
    const std::size_t count = running().blocks.size();
    const std::size_t all = (running().arrivals / count + 1) * count;
    ++running().arrivals;
    while (running().arrivals < all) {
      give_way(true);
    }
  }
  wait_for_block();
}
void wait_for_block() { ThreadBlock::current()->wait(State::waits_for_block); }
void wait_for_warp() { ThreadBlock::current()->wait(State::waits_for_warp); }
void give_way(bool in_vain) { ThreadBlock::current()->wait(State::gives_way, !in_vain); }
Slots& slots() { return ThreadBlock::current()->slots(); }
int lane() { return ThreadBlock::current()->lane(); }

void copy_later(void* target, const void* source, std::size_t bytes, std::size_t zeros) {
  const Copy copy{target, source, bytes, zeros};
  if (chosen_order() == Order::backward) {
    make(copy);
  } else {
    ThreadBlock::current()->fiber().copies.push_back(copy);
  }
}

void commit_copies() {
  Fiber& fiber = ThreadBlock::current()->fiber();
  fiber.groups.push_back(std::move(fiber.copies));
  fiber.copies.clear();
}

void wait_for_copies(std::size_t but) {
  auto& groups = ThreadBlock::current()->fiber().groups;
  for (; groups.size() > but; groups.pop_front()) {
    std::for_each(groups.front().begin(), groups.front().end(), make);
  }
}

}  // namespace shardsolve::emulation
