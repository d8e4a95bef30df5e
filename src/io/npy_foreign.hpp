/// Arrays and files that are not read, and what their owner can do about it.
#pragma once

#include <shardsolve/dtype.hpp>

#include <string>
#include <string_view>

namespace shardsolve::io {

/// "<f4", "<f8", "<c8" or "<c16".
std::string_view descr_of(Dtype dtype);

/// The dtype that NumPy calls `descr`, "<f8" or "=f8" for float64. Throws Error(invalid_argument)
/// for any other than our four: big-endian, integers, objects, structured dtypes, ...
Dtype dtype_of_descr(std::string_view descr, const std::string& path);

/// Throws Error(invalid_argument): says what a file that begins with `head` looks like.
[[noreturn]] void reject_foreign_file(std::string_view head, const std::string& path);

}  // namespace shardsolve::io
