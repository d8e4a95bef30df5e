// A libcuda.so.1 that knows the CUDA and shows the GPUs that SHARDSOLVE_TEST_DRIVER lists: version,
// then ten times each compute capability, as "12040 70 80".

#include <cstdlib>
#include <sstream>
#include <vector>

namespace {

std::vector<int> listed() {
  const char* const text = std::getenv("SHARDSOLVE_TEST_DRIVER");
  std::istringstream words(text == nullptr ? "" : text);
  std::vector<int> numbers;
  for (int number = 0; words >> number;) {
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

extern "C" {

int cuInit(unsigned /*flags*/) { return 0; }

int cuDriverGetVersion(int* version) {
  *version = listed().empty() ? 0 : listed().front();
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = listed().empty() ? 0 : static_cast<int>(listed().size()) - 1;
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int gpu) {
  const int capability = listed().at(static_cast<std::size_t>(gpu) + 1);
  *value = attribute == 75 ? capability / 10 : capability % 10;
  return 0;
}
}
