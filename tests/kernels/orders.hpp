/// Tests of what must not depend on whose turn it is.
#pragma once

#include "kernels/emulation/emulator.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <utility>

namespace shardsolve::testing {

/// In each order of threads and blocks.
inline void in_each_order(const std::function<void()>& test) {
  for (const auto& [order, name] : {std::pair(emulation::Order::forward, "forward"),
                                    {emulation::Order::backward, "backward"},
                                    {emulation::Order::shuffled, "shuffled"},
                                    {emulation::Order::lagging, "lagging"}}) {
    SCOPED_TRACE(name);
    emulation::set_order(order);
    test();
  }
  emulation::set_order(emulation::Order::forward);
}

}  // namespace shardsolve::testing
