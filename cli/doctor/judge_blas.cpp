// The BLAS that CPU devices compute with.

#include "findings.hpp"
#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace shardsolve::cli::doctor {
namespace {

bool are_of_an_old_cpu(std::string_view kernels) {
  constexpr std::array<std::string_view, 15> old{
      "Katmai",  "Coppermine",   "Northwood",  "Prescott", "Banias",
      "Core2",   "Penryn",       "Dunnington", "Nehalem",  "Athlon",
      "Opteron", "Opteron_SSE3", "Barcelona",  "Atom",     "Nano"};
  return std::any_of(old.begin(), old.end(), [&](std::string_view one) {
    return lower_case(std::string(one)) == lower_case(std::string(kernels));
  });
}

void judge_kernels(const Surroundings& s, Findings& findings) {
  if (!s.host.avx2 || !are_of_an_old_cpu(s.blas.kernels)) {
    return;
  }
  const std::string asked = value_of(s.environment, "OPENBLAS_CORETYPE");
  findings.push_back(
      {Severity::warning, "blas-old-kernels",
       fmt::format("{} uses its kernels for {} on a CPU with AVX2{}", s.blas.version,
                   s.blas.kernels,
                   asked.empty() ? "" : fmt::format(" (OPENBLAS_CORETYPE={})", asked)),
       "they are several times slower, and in OpenBLAS 0.3.21 wrong or crashing in places",
       asked.empty() ? "export OPENBLAS_CORETYPE=Haswell, or build with a newer OpenBLAS"
                     : "unset OPENBLAS_CORETYPE"});
}

/// Whether a variable keeps the BLAS at one thread.
bool is_one(const Surroundings& s, const char* variable) {
  return trimmed(value_of(s.environment, variable)) == "1";
}

void judge_shared(const Surroundings& s, Findings& findings) {
  const bool one = is_one(s, "OMP_NUM_THREADS") || is_one(s, "OPENBLAS_NUM_THREADS") ||
                   is_one(s, "MKL_NUM_THREADS") || is_one(s, "BLIS_NUM_THREADS");
  if (!s.blas.shared || one || s.job.cuda) {
    return;
  }
  findings.push_back({Severity::warning, "shared-blas-threads",
                      fmt::format("the BLAS, {}, is a shared library, and nothing sets it to one "
                                  "thread",
                                  s.blas.file),
                      "the ranks are the threads: each of their calls would start as many as there "
                      "are cores",
                      "export OPENBLAS_NUM_THREADS=1 (MKL_NUM_THREADS, BLIS_NUM_THREADS: that of "
                      "the BLAS), or build with the static OpenBLAS"});
}

}  // namespace

void judge_blas(const Surroundings& s, Findings& findings) {
  judge_kernels(s, findings);
  judge_shared(s, findings);
}

}  // namespace shardsolve::cli::doctor
