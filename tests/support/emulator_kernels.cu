// Kernels for test_emulator.py: fine ones, and ones with a mistake on the line marked `here NAME`.
extern __shared__ __align__(16) unsigned char shared[];
struct __align__(16) f32x4 { float at[4]; };
struct __align__(16) f64x2 { double at[2]; };
#define INLINE static __device__ __forceinline__
INLINE float warp_sum(float v) {
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}
INLINE f32x4 load4(const float *x) { return *(const f32x4 *)x; }  // here load4
__constant__ float weights[4] = {1.0f, 2.0f, 3.0f, 4.0f};

/* A comment with extern "C" __global__ void not_a_kernel(float *x) { in it. */
extern "C" __global__ void __launch_bounds__(256)
axpy(const float *__restrict__ x, float *__restrict__ y) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 1000) y[i] = __fmaf_rn(x[i], 2.0f, y[i]);
}

extern "C" {
__global__
void
__launch_bounds__(64, 2)
    row_sums(const float *x, float *y)  // one block a row of 100
{
    __shared__ float parts[2];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < 100; i += blockDim.x) sum += x[blockIdx.x * 100 + i];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = parts[0] + parts[1];
}
}

// C = A B of 64 x 64: tiles of 32 x 32, four columns a thread, reads of 16 bytes.
extern "C" __global__ void __launch_bounds__(256) gemm(const float *a, const float *b, float *c) {
    float (*as)[36] = (float (*)[36])shared;
    float (*bs)[32] = (float (*)[32])(shared + 32 * 36 * 4);
    const int row = threadIdx.x / 8, column = threadIdx.x % 8 * 4;
    const int top = blockIdx.x / 2 * 32, left = blockIdx.x % 2 * 32;
    float sums[4] = {};
    for (int depth = 0; depth < 64; depth += 32) {
        *(f32x4 *)&as[row][column] = load4(a + (top + row) * 64 + depth + column);
        *(f32x4 *)&bs[row][column] = load4(b + (depth + row) * 64 + left + column);
        __syncthreads();
        for (int k = 0; k < 32; k++) {
            const f32x4 right = load4(&bs[k][column]);
#pragma unroll
            for (int i = 0; i < 4; i++) sums[i] = __fmaf_rn(as[row][k], right.at[i], sums[i]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++) c[(top + row) * 64 + left + column + i] = sums[i];
}

extern "C" __global__ void histogram(const int *x, unsigned int *counts) {
    __shared__ unsigned int local[16];
    if (threadIdx.x < 16) local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < 1000; i += blockDim.x) atomicAdd(&local[__ldg(x + i) & 15], 1u);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(counts + threadIdx.x, local[threadIdx.x]);
}

// Ends early, exchanges through shared memory within a warp, reads constants and bytes.
extern "C" __global__ void mixed(const unsigned char *bytes, double *y) {
    __shared__ double turned[64];
    __shared__ unsigned char copies[64];
    if (threadIdx.x >= 64) return;
    copies[threadIdx.x] = bytes[threadIdx.x];
    turned[threadIdx.x] = 0.5;
    __syncwarp();
    const int other = threadIdx.x ^ 1;
    const double mine = turned[other] + copies[other] + weights[threadIdx.x & 3];
    __syncthreads();
    const int ahead = __syncthreads_count(mine > 100.0), any = __syncthreads_or(mine < 0.0);
    y[threadIdx.x] = mine + 1000.0 * ahead + 10000.0 * any;
}

extern "C" __global__ void intrinsics(unsigned int *y) {
    const unsigned lane = threadIdx.x, all = 0xffffffffu;
    unsigned *at = y + lane * 16;
    at[0] = __shfl_sync(all, lane, 5);
    at[1] = __shfl_up_sync(all, lane, 3u);
    at[2] = __shfl_down_sync(all, lane, 3u, 8);
    at[3] = __shfl_xor_sync(all, lane, 7);
    at[4] = __ballot_sync(all, lane % 3 == 0);
    at[5] = __any_sync(all, lane == 31) + 2 * __all_sync(all, lane < 31);
    at[6] = __reduce_add_sync(all, lane) + __reduce_max_sync(all, (int)lane - 40);
    at[7] = __umulhi(lane << 28, 1u << 8) + __popc(lane) + __clz((int)lane) + __ffs((int)lane);
    at[8] = __float_as_int(__int_as_float((int)lane));
    at[8] += (unsigned)__mul64hi((long long)lane << 40, 1ll << 30);
    at[9] = min((int)lane, 7) + max(lane, 20u) + __float2int_rn(lane * 0.5f);
    at[9] += (unsigned)rsqrtf(0.25f);
    at[10] = __double_as_longlong(__shfl_xor_sync(all, __longlong_as_double(lane), 1));
    at[11] = lane < 16 ? __reduce_or_sync(0xffffu, 1u << lane) : __ballot_sync(0xffff0000u, 1);
    at[12] = __activemask() >> lane & 1;
    const dim3 two(2, 3);
    const float4 four = make_float4(1, 2, 3, 4);
    at[13] = two.x + two.y + two.z + (unsigned)four.w + blockDim.x + gridDim.x + warpSize;
    at[14] = atomicCAS(at + 15, 0u, 9u);
    at[14] += atomicMax(at + 15, 11u) + atomicExch(at + 15, 1u);
}

extern "C" __global__ void race_in_block(float *y) {
    float *tile = (float *)shared;
    tile[threadIdx.x] = 1.0f;
    y[threadIdx.x] = tile[threadIdx.x ^ 32];  // here race_in_block
}
extern "C" __global__ void race_in_warp(float *y) {
    float *tile = (float *)shared;
    tile[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
    y[threadIdx.x] = tile[threadIdx.x ^ 1];  // here race_in_warp
}
extern "C" __global__ void race_of_blocks(float *y) {
    y[threadIdx.x] = blockIdx.x;  // here race_of_blocks
}
extern "C" __global__ void race_after_reads(float *y) {
    float *tile = (float *)shared;
    tile[threadIdx.x] = 1.0f;
    __syncthreads();
    float sum = 0.0f;
    for (int i = 0; i < 64; i++) sum += tile[i];
    tile[threadIdx.x] = sum;  // here race_after_reads
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x];
}
extern "C" __global__ void race_with_atomic(int *y) {
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    total += threadIdx.x;  // here race_with_atomic
    __syncthreads();
    if (threadIdx.x == 0) *y = total;
}
extern "C" __global__ void race_with_start(unsigned int *counts) {
    __shared__ unsigned int local[16];
    if (threadIdx.x < 16) local[threadIdx.x] = 0;  // here race_with_start
    atomicAdd(&local[threadIdx.x & 15], 1u);
    __syncthreads();
    if (threadIdx.x < 16) counts[threadIdx.x] = local[threadIdx.x];
}
extern "C" __global__ void beyond(const float *x, float *y) {
    y[threadIdx.x] = x[threadIdx.x + 1];  // here beyond
}
extern "C" __global__ void before(float *y) {
    y[(int)threadIdx.x - 1] = 0.0f;  // here before
}
extern "C" __global__ void beyond_shared(float *y) {
    y[threadIdx.x] = 0.0f;
    ((float *)shared)[threadIdx.x + 1] = 0.0f;  // here beyond_shared
}
extern "C" __global__ void beyond_array(float *y) {
    __shared__ float first[64], second[64];
    first[threadIdx.x + 1] = 0.0f;  // here beyond_array
    second[threadIdx.x] = 1.0f;
    y[threadIdx.x] = first[threadIdx.x + 1] + second[threadIdx.x];
}
extern "C" __global__ void beyond_wide(const float *x, float *y) {
    *(f32x4 *)(y + 4 * threadIdx.x) = load4(x + 4 * threadIdx.x);  // here beyond_wide
}
extern "C" __global__ void beyond_local(float *y) {
    float own[4];
    for (int i = 0; i < (int)blockDim.x; i++) own[i] = i;  // here beyond_local
    y[threadIdx.x] = own[threadIdx.x & 3];
}
extern "C" __global__ void through_null(float *workspace, float *y) {
    y[threadIdx.x] = 0.0f;
    workspace[threadIdx.x] = 0.0f;  // here through_null
}
extern "C" __global__ void unwritten_shared(float *y) {
    float *tile = (float *)shared;
    if (threadIdx.x < 63) tile[threadIdx.x] = 1.0f;
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x];  // here unwritten_shared
}
extern "C" __global__ void unwritten_output(float *y) {
    y[threadIdx.x] += 1.0f;  // here unwritten_output
}
extern "C" __global__ void writes_input(float *x, float *y) {
    y[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = 0.0f;  // here writes_input
}
extern "C" __global__ void misaligned(const float *x, float *y) {
    const f32x4 four = *(const f32x4 *)(x + 2 * (threadIdx.x & 15));  // here misaligned
    y[threadIdx.x] = four.at[0] + four.at[3];
}
extern "C" __global__ void half_written(float *y) {
    if (threadIdx.x % 2 == 0) y[threadIdx.x] = 0.0f;
}
extern "C" __global__ void diverges(float *y) {
    if (threadIdx.x < 32) __syncthreads();  // here diverges
    else {
        y[threadIdx.x] = 0.0f;
        __syncthreads();
    }
}
extern "C" __global__ void never_shuffled(float *y) {
    float v = threadIdx.x;
    if (threadIdx.x < 16) v = __shfl_xor_sync(0xffffffffu, v, 1);  // here never_shuffled
    __syncthreads();
    y[threadIdx.x] = v;
}
extern "C" __global__ void not_in_mask(float *y) {
    y[threadIdx.x] = __shfl_xor_sync(0xffffu, 1.0f, 1);  // here not_in_mask
}
extern "C" __global__ void mixed_masks(float *y) {
    y[threadIdx.x] = 0.0f;
    if (threadIdx.x < 16) __syncwarp();  // here mixed_masks
    else y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
}
extern "C" __global__ void asserts(float *y) {
    y[threadIdx.x] = 0.0f;
    assert(threadIdx.x < 60);  // here asserts
}
extern "C" __global__ void two_mistakes(const float *x, float *y) {
    float *tile = (float *)shared;
    tile[threadIdx.x] = x[threadIdx.x];
    float sum = tile[threadIdx.x ^ 33];  // here two_mistakes
    y[threadIdx.x + 1] = sum;  // here second
}
