/// How functions that both the CPU and CUDA run are marked.
#pragma once

#if defined(__CUDACC__)
#define SHARDSOLVE_HOST_DEVICE __host__ __device__
#else
#define SHARDSOLVE_HOST_DEVICE
#endif
