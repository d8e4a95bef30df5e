/// How functions that both the CPU and CUDA run are marked.
#pragma once

#if defined(__CUDACC__)
#define SHARDSOLVE_HOST_DEVICE __host__ __device__
/// Likewise if what they call differs: where CUDA compiles them, they are for kernels alone.
#define SHARDSOLVE_DEVICE __device__
/// Of a file's code for CUDA one copy, not one in each caller.
#define SHARDSOLVE_APART __noinline__
#else
#define SHARDSOLVE_HOST_DEVICE
#define SHARDSOLVE_DEVICE
#define SHARDSOLVE_APART
#endif
