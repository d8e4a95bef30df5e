// OpenBLAS looks at the CPU when it is loaded and takes the kernels made for it. A CPU that is
// newer than the library it does not know, and then it takes those of the oldest: several times
// slower, and wrong or crashing in places (0.3.21's strsm for SSE3 overruns its stack). Here it is
// asked again, with the newest kernels that the CPU's instructions allow.
//
// The linker brings OpenBLAS's calls of these two functions to us (cmake/ShardsolveBlas.cmake); the
// environment itself is not touched, and what the user says there goes first.

#ifdef SHARDSOLVE_OPENBLAS_DYNAMIC

#include <array>
#include <cstring>

// The linker's names.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
char* __real_getenv(const char* name);
void __real_gotoblas_dynamic_init();
void gotoblas_dynamic_quit();
char* gotoblas_corename();
int support_avx2();
int support_avx512();
}

namespace {

/// What OpenBLAS finds in OPENBLAS_CORETYPE where the user has said nothing; null for nothing.
const char* kernels_to_take = nullptr;

bool are_of_an_old_cpu(const char* name) {
  constexpr std::array old{"Katmai",  "Coppermine",   "Northwood",  "Prescott", "Banias",
                           "Core2",   "Penryn",       "Dunnington", "Nehalem",  "Athlon",
                           "Opteron", "Opteron_SSE3", "Barcelona",  "Atom",     "Nano"};
  for (const char* one : old) {
    if (std::strcmp(name, one) == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

extern "C" char* __wrap_getenv(const char* name) {
  char* value = __real_getenv(name);
  if (value == nullptr && kernels_to_take != nullptr &&
      std::strcmp(name, "OPENBLAS_CORETYPE") == 0) {
    return const_cast<char*>(kernels_to_take);
  }
  return value;
}

extern "C" void __wrap_gotoblas_dynamic_init() {
  __real_gotoblas_dynamic_init();
  if (__real_getenv("OPENBLAS_CORETYPE") != nullptr || support_avx2() == 0 ||
      !are_of_an_old_cpu(gotoblas_corename())) {
    return;
  }
  kernels_to_take = support_avx512() != 0 ? "SkylakeX" : "Haswell";
  gotoblas_dynamic_quit();
  __real_gotoblas_dynamic_init();
  kernels_to_take = nullptr;
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

#endif
