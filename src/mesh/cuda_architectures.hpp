/// Which GPUs a library for GPUs has code for.
#pragma once

#include <sstream>
#include <string>

namespace shardsolve::mesh {

/// Whether code for these architectures, as CMake lists them ("80-real 90-real 100", where what is
/// not real is PTX, too), runs on a GPU of this compute capability, times ten. Not on 75, whose
/// blocks have less shared memory than our kernels need. Of a word for several ("native", "all")
/// it is taken to: CUDA says so when it does not.
inline bool has_kernels(const std::string& architectures, int capability) {
  std::istringstream words(architectures);
  bool found = false;
  for (std::string word; words >> word;) {
    if (word.find_first_of("0123456789") != 0) {
      found = true;
      continue;
    }
    const int architecture = std::stoi(word);
    const bool is_ptx = word.find("-real") == std::string::npos;
    found =
        found || (architecture <= capability && (is_ptx || architecture / 10 == capability / 10));
  }
  return found && capability != 75;
}

}  // namespace shardsolve::mesh
