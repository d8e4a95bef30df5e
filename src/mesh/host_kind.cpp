#include "mesh/device_kind.hpp"
#include "runtime/host/blas.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>

namespace shardsolve::mesh {
namespace {

/// The lines "key : value" of the first CPU.
std::map<std::string, std::string> first_cpu() {
  constexpr const char* blanks = " \t";
  std::map<std::string, std::string> entries;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const std::size_t colon = std::min(line.find(':'), line.size());
    const std::size_t end = line.find_last_not_of(blanks, colon == 0 ? 0 : colon - 1);
    const std::size_t begin = line.find_first_not_of(blanks, colon + 1);
    if (end != std::string::npos && begin != std::string::npos) {
      entries.emplace(line.substr(0, end + 1), line.substr(begin));
    }
  }
  return entries;
}

std::string describe() {
  auto cpu = first_cpu();
  // Virtual machines often have no more of a name than "Intel(R) Xeon(R) Processor".
  std::string kind = cpu["model name"].empty() ? "unknown CPU" : cpu["model name"];
  if (!cpu["cpu family"].empty()) {
    kind += fmt::format(" (family {}, model {})", cpu["cpu family"], cpu["model"]);
  } else if (!cpu["CPU part"].empty()) {
    kind += fmt::format(" (implementer {}, part {})", cpu["CPU implementer"], cpu["CPU part"]);
  }
  const std::string kernels = runtime::host::blas::describe().kernels;
  return kernels.empty() ? fmt::format("{}, {}", kind, SHARDSOLVE_BLAS_LIBRARY)
                         : fmt::format("{}, OpenBLAS kernels {}", kind, kernels);
}

}  // namespace

const std::string& host_kind() {
  static const std::string kind = describe();
  return kind;
}

}  // namespace shardsolve::mesh
