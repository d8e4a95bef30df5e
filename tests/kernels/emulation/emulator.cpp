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

enum class State : std::uint8_t { ready, waits_for_warp, waits_for_block, done };

struct Copy {
  void* target;
  const void* source;
  std::size_t bytes;
  std::size_t zeros;  ///< of these, at the end
};

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

/// All threads of one block, and what they share.
class ThreadBlock {
 public:
  ThreadBlock(dim3 threads, std::size_t shared_bytes, const std::function<void()>& kernel)
      : kernel_(kernel),
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

  void run(const std::vector<std::size_t>& order) {
    current() = this;
    while (std::any_of(fibers_.begin(), fibers_.end(),
                       [](const Fiber& fiber) { return fiber.state != State::done; })) {
      for (const std::size_t i : order) {
        if (fibers_[i].state == State::ready) {
          resume(i);
        }
      }
      release();
    }
    current() = nullptr;
  }

  static ThreadBlock*& current() {
    thread_local ThreadBlock* block = nullptr;
    return block;
  }

  std::byte* shared() const { return shared_.get(); }
  Fiber& fiber() { return fibers_[running_]; }
  int lane() const { return static_cast<int>(running_ % lanes_a_warp); }
  Slots& slots() { return warps_[running_ / lanes_a_warp]; }

  void wait(State until) {
    fiber().state = until;
    if (_setjmp(fiber().place) == 0) {
      _longjmp(scheduler_, 1);
    }
  }

 private:
  static void begin() {
    ThreadBlock& block = *current();
    block.kernel_();
    block.fiber().state = State::done;
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
    first.uc_stack.ss_sp = stack_of(number);
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

  /// Lets go on who waits for nobody else any more. Threads that have ended are not waited for.
  void release() {
    std::size_t waiting = 0;
    std::size_t left = 0;
    bool some_go_on = false;
    for (std::size_t first = 0; first < fibers_.size(); first += lanes_a_warp) {
      const std::size_t end = std::min(first + lanes_a_warp, fibers_.size());
      std::size_t of_warp = 0;
      std::size_t left_of_warp = 0;
      for (std::size_t i = first; i < end; ++i) {
        of_warp += fibers_[i].state == State::waits_for_warp;
        waiting += fibers_[i].state == State::waits_for_block;
        left_of_warp += fibers_[i].state != State::done;
      }
      left += left_of_warp;
      if (of_warp > 0 && of_warp == left_of_warp) {
        some_go_on = true;
        set_ready(first, end);
      }
    }
    if (left > 0 && waiting == left) {
      some_go_on = true;
      set_ready(0, fibers_.size());
    }
    if (left > 0 && !some_go_on) {
      throw std::runtime_error("block " + std::to_string(blockIdx.x) + ": of " +
                               std::to_string(left) + " threads " + std::to_string(waiting) +
                               " wait for the block, the others for their warps");
    }
  }

  void set_ready(std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) {
      if (fibers_[i].state != State::done) {
        fibers_[i].state = State::ready;
      }
    }
  }

  const std::function<void()>& kernel_;
  std::vector<Fiber> fibers_;
  std::vector<Slots> warps_;
  std::unique_ptr<std::byte, Free> shared_;
  std::jmp_buf scheduler_;
  std::size_t running_ = 0;
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

}  // namespace

void set_order(Order order) { chosen_order() = order; }

void run(std::int64_t blocks, dim3 threads, std::size_t shared_bytes,
         const std::function<void()>& kernel) {
  const std::vector<std::size_t> order = in_order(std::size_t{threads.x} * threads.y * threads.z);
  for (const std::size_t block : in_order(static_cast<std::size_t>(blocks))) {
    blockIdx = {static_cast<unsigned>(block), 0, 0};
    blockDim = threads;
    ThreadBlock(threads, shared_bytes, kernel).run(order);
  }
}

std::byte* shared_memory() { return ThreadBlock::current()->shared(); }
void wait_for_block() { ThreadBlock::current()->wait(State::waits_for_block); }
void wait_for_warp() { ThreadBlock::current()->wait(State::waits_for_warp); }
Slots& slots() { return ThreadBlock::current()->slots(); }
int lane() { return ThreadBlock::current()->lane(); }

void copy_later(void* target, const void* source, std::size_t bytes, std::size_t zeros) {
  ThreadBlock::current()->fiber().copies.push_back({target, source, bytes, zeros});
}

void commit_copies() {
  Fiber& fiber = ThreadBlock::current()->fiber();
  fiber.groups.push_back(std::move(fiber.copies));
  fiber.copies.clear();
}

void wait_for_copies(std::size_t but) {
  auto& groups = ThreadBlock::current()->fiber().groups;
  for (; groups.size() > but; groups.pop_front()) {
    for (const Copy& copy : groups.front()) {
      std::memcpy(copy.target, copy.source, copy.bytes - copy.zeros);
      std::memset(static_cast<std::byte*>(copy.target) + copy.bytes - copy.zeros, 0, copy.zeros);
    }
  }
}

}  // namespace shardsolve::emulation
