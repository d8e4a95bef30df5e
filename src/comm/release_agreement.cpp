#include "comm/release_agreement.hpp"

#include <algorithm>

namespace shardsolve::comm {

template <class Body>
void ReleaseAgreement::for_each_peer(Body body) const {
  for (std::int64_t rank = 0; rank < std::ssize(words_); ++rank) {
    if (rank != rank_) {
      body(rank, words_[static_cast<std::size_t>(rank)]);
    }
  }
}

void ReleaseAgreement::begin_call(std::uint32_t first) {
  first_ = first;
  own().said.reset(first);
  own().closed.reset(first);
}

void ReleaseAgreement::meet(bool frees, const Wait& wait, const std::function<void()>& close) {
  const std::uint32_t now = first_ + 1;
  own().frees = frees;
  own().said.store(now);
  bool another_frees = false;
  for_each_peer([&](std::int64_t rank, const Word& word) {
    wait(word.said, now, rank);
    another_frees = another_frees || word.frees;
  });
  if (another_frees) {
    close();
    own().closed.store(now);
  }
  if (frees) {
    for_each_peer([&](std::int64_t rank, const Word& word) { wait(word.closed, now, rank); });
  }
}

bool ReleaseAgreement::all_have_left(std::chrono::milliseconds patience) const {
  using Clock = std::chrono::steady_clock;
  using std::chrono::milliseconds;
  const auto end = Clock::now() + patience;
  bool all = true;
  for_each_peer([&](std::int64_t, const Word& word) {
    const auto rest = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    all = word.left.wait_for(1, std::max(rest, milliseconds(0))) && all;
  });
  return all;
}

}  // namespace shardsolve::comm
