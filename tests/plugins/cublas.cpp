// Stands where cuBLAS of the CUDA of SHARDSOLVE_TEST_RUNTIME does: the library for GPUs of that
// CUDA needs it.

extern "C" int SHARDSOLVE_TEST_CUBLAS() { return SHARDSOLVE_TEST_RUNTIME; }
