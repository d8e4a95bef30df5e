/// Whose call a thread is working for, so that it makes none on the same mesh, which would wait for
/// itself.
#pragma once

#include <utility>

namespace shardsolve::mesh {

class Rank;

/// While it lives, this thread works for a call of `rank`: what runs functions of the caller has
/// one.
class InsideCall {
 public:
  explicit InsideCall(const Rank& rank) : before_(std::exchange(of_thread(), &rank)) {}
  ~InsideCall() { of_thread() = before_; }
  InsideCall(const InsideCall&) = delete;
  InsideCall& operator=(const InsideCall&) = delete;

  /// The rank, or null.
  static const Rank* rank() { return of_thread(); }

 private:
  static const Rank*& of_thread() {
    static thread_local const Rank* of = nullptr;
    return of;
  }

  const Rank* before_;
};

}  // namespace shardsolve::mesh
