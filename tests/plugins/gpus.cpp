// A library for GPUs that says what it was built with, SHARDSOLVE_TEST_RUNTIME, and that there is
// no GPU. It needs the cuBLAS of its CUDA, as ours do.

#include "core/plugin_version.hpp"
#include "mesh/cuda_facts.hpp"

extern "C" int SHARDSOLVE_TEST_CUBLAS();

extern "C" const char* shardsolve_cuda_version() { return shardsolve::core::plugin_version; }

extern "C" void shardsolve_cuda_facts(shardsolve::mesh::CudaFacts* facts) {
  facts->runtime = SHARDSOLVE_TEST_CUBLAS();
  facts->driver = SHARDSOLVE_TEST_RUNTIME;
  facts->architectures = "80-real";
}
