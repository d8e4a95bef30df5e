// A library of another build of this version, as the program would load it.

#include <shardsolve/version.hpp>

extern "C" const char* shardsolve_old_version() {
  return SHARDSOLVE_VERSION_STRING " (interface 00000000) for libstdc++";
}
