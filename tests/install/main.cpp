#include <cstdio>
#include <cstring>
#include <shardsolve/slab_layout.hpp>
#include <shardsolve/version.hpp>

// Usage: consumer <expected version>
int main(int argc, char** argv) {
  if (argc != 2 || std::strcmp(argv[1], SHARDSOLVE_VERSION_STRING) != 0) {
    std::fprintf(stderr, "header says version %s, expected %s\n", SHARDSOLVE_VERSION_STRING,
                 argc == 2 ? argv[1] : "one argument");
    return 1;
  }
  std::printf("consumer: shardsolve %s\n", SHARDSOLVE_VERSION_STRING);
  return 0;
}
