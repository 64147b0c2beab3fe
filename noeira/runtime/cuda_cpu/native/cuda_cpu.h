// CUDA's language for a host compiler: put before a `.cu`, which is then ordinary C++.
//
// A line `extern __shared__ T x[];` is given the name of the runtime's buffer before this is read.
#pragma once
#include <stdio.h>

#include "atomics.h"
#include "intrinsics.h"
#include "launch.h"
#include "machine.h"
#include "vectors.h"
#include "warp.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __managed__
#if NOEIRA_CHECK
// Calls are kept, so that a fault in a function can be told with the kernel's line.
#define __forceinline__ inline __attribute__((noinline))
#else
#define __forceinline__ inline __attribute__((always_inline))
#endif
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __grid_constant__
// A section of their own, so that each block can start with all of them unwritten.
#define __shared__ static __attribute__((section("noeira_shared")))
#define NOEIRA_DYNAMIC_SHARED __attribute__((visibility("hidden")))

#define threadIdx (noeira::running->index)
#define blockIdx (noeira::block_index)
#define blockDim (noeira::block_size)
#define gridDim (noeira::grid_size)
#define warpSize 32

#undef assert
#define assert(condition) \
    ((condition) ? (void)0 : noeira::fail("assertion", #condition " is false", __LINE__))
NOEIRA_INLINE void __trap(int line = __builtin_LINE()) {
    noeira::fail("trap", "ends the kernel by __trap", line);
}
