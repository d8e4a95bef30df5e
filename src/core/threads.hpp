/// What is said where the system has no thread to spare.
#pragma once

#include <shardsolve/error.hpp>

#include <string_view>
#include <system_error>

namespace shardsolve::core {

/// Error(device) for what std::thread has thrown; `purpose`: what the thread was for.
Error no_thread_error(std::string_view purpose, const std::system_error& thrown);

}  // namespace shardsolve::core
