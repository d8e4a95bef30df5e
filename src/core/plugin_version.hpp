/// What a library of ours and whoever loads it have to share.
#pragma once

#include <shardsolve/version.hpp>

#include <shardsolve_interface.hpp>
#include <string>  // and with it the name of the C++ library

namespace shardsolve::core {

/// Tables of functions and types of the C++ library stand between the two. The number is a hash of
/// the headers that say what they look like: see cmake/ShardsolveInterface.cmake.
#define SHARDSOLVE_PLUGIN_VERSION SHARDSOLVE_VERSION_STRING " (interface " SHARDSOLVE_INTERFACE ")"
#ifdef _LIBCPP_VERSION
inline constexpr const char* plugin_version = SHARDSOLVE_PLUGIN_VERSION " for libc++";
#else
inline constexpr const char* plugin_version = SHARDSOLVE_PLUGIN_VERSION " for libstdc++";
#endif
#undef SHARDSOLVE_PLUGIN_VERSION

}  // namespace shardsolve::core
