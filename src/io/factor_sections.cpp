#include "io/factor_sections.hpp"

#include <shardsolve/plan.hpp>

namespace shardsolve::io {

void require_dtype(const FactorCut& cut, Dtype wanted, const std::string& path) {
  if (cut.dtype != wanted) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("the factor file '{}' holds {} but {} was asked for: load it with the "
                            "dtype that read_factor_info reports",
                            path, name(cut.dtype), name(wanted)));
  }
}

void require_memory(const FactorHeader& header, const std::string& path) {
  const std::int64_t needed = header.section_bytes();
  const std::int64_t available = available_host_memory();
  if (needed > available) {
    constexpr double gigabyte = 1e9;
    throw Error(
        ErrorKind::out_of_memory,
        fmt::format("the factor in '{}' takes {:.2f} GB of memory; {:.2f} GB are free: load "
                    "it on a larger machine, or end other programs",
                    path, static_cast<double>(needed) / gigabyte,
                    static_cast<double>(available) / gigabyte));
  }
}

}  // namespace shardsolve::io
