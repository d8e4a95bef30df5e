/// What a library of ours and whoever loads it have to share.
#pragma once

#include <shardsolve/version.hpp>

#include <string>  // and with it the name of the C++ library

namespace shardsolve::core {

/// Interfaces with types of the C++ library stand between the two.
#ifdef _LIBCPP_VERSION
inline constexpr const char* plugin_version = SHARDSOLVE_VERSION_STRING " for libc++";
#else
inline constexpr const char* plugin_version = SHARDSOLVE_VERSION_STRING " for libstdc++";
#endif

}  // namespace shardsolve::core
