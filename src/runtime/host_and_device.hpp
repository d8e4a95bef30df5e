/// How functions that both the CPU and CUDA run are marked.
#pragma once

#if defined(__CUDACC__)
#define SHARDSOLVE_HOST_DEVICE __host__ __device__
/// Likewise if what they call differs: where CUDA compiles them, they are for kernels alone.
#define SHARDSOLVE_DEVICE __device__
#else
#define SHARDSOLVE_HOST_DEVICE
#define SHARDSOLVE_DEVICE
#endif
