// Kernels for the tests of the driver's interface: 1000 numbers in blocks of 256.

extern __shared__ __align__(16) unsigned char shared[];

extern "C" __global__ void __launch_bounds__(256)
scale(const float *x, const float *factor, float *y) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < 1000) y[i] = factor[0] * x[i];
}

extern "C" __global__ void __launch_bounds__(256) reverse_block(const float *x, float *y) {
    float *kept = (float *)shared;
    kept[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = kept[255 - threadIdx.x];
}

// Half of the block waits at another barrier than the rest: a GPU hangs, the emulator says so.
extern "C" __global__ void __launch_bounds__(256) diverge(float *y) {
    if (threadIdx.x < 128) {
        __syncthreads();
    } else {
        y[threadIdx.x] = 1.0f;
        __syncthreads();
    }
}
