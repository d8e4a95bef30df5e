/// Writing to standard output and standard error.
#pragma once

#include <cstdio>
#include <string>

namespace shardsolve::cli {

/// Whether everything went out.
inline bool print(std::FILE* stream, const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), stream) == text.size() &&
         std::fflush(stream) == 0;
}

inline void print_error(const std::string& message) {
  print(stderr, "shardsolve: error: " + message + "\n");
}

/// Of an answer that is there all the same.
inline void print_warning(const std::string& message) {
  print(stderr, "shardsolve: warning: " + message + "\n");
}

}  // namespace shardsolve::cli
