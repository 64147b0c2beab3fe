// Device functions that the host's <math.h> lacks: bits, conversions, maths with a stated rounding.
#pragma once
#include <math.h>
#include <string.h>

#include "warp.h"

// A plain read on the GPU too; a macro, so that it counts as the kernel's own, on its line.
#define __ldg(...) (*(__VA_ARGS__))
#define __ldcg(...) (*(__VA_ARGS__))
#define __ldcs(...) (*(__VA_ARGS__))

NOEIRA_INLINE float __int_as_float(int x) { return noeira::from_bits<float>((uint32_t)x); }
NOEIRA_INLINE float __uint_as_float(unsigned x) { return noeira::from_bits<float>(x); }
NOEIRA_INLINE int __float_as_int(float x) { return (int)noeira::to_bits(x); }
NOEIRA_INLINE unsigned __float_as_uint(float x) { return (unsigned)noeira::to_bits(x); }
NOEIRA_INLINE double __longlong_as_double(long long x) {
    return noeira::from_bits<double>((uint64_t)x);
}
NOEIRA_INLINE long long __double_as_longlong(double x) { return (long long)noeira::to_bits(x); }
NOEIRA_INLINE int __double2hiint(double x) { return (int)(noeira::to_bits(x) >> 32); }
NOEIRA_INLINE int __double2loint(double x) { return (int)noeira::to_bits(x); }
NOEIRA_INLINE double __hiloint2double(int high, int low) {
    return noeira::from_bits<double>((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
}

// To the nearest whole number (_rn, ties to even), towards zero (_rz), down and up; NaN gives 0 and
// what does not fit the nearest that does, as on the GPU.
namespace noeira {
template <class To, class From> NOEIRA_INLINE To whole(From x, To least, To most) {
    if (x != x) return 0;
    if (x <= (From)least) return least;
    return x >= (From)most ? most : (To)x;
}
}  // namespace noeira
#define NOEIRA_CONVERSIONS(from, name, suffix)                                                    \
    NOEIRA_INLINE int __##name##2int_r##suffix(from x) {                                          \
        return noeira::whole<int>(NOEIRA_ROUND_##suffix(x), -2147483647 - 1, 2147483647);         \
    }                                                                                             \
    NOEIRA_INLINE unsigned __##name##2uint_r##suffix(from x) {                                    \
        return noeira::whole<unsigned>(NOEIRA_ROUND_##suffix(x), 0u, 4294967295u);                \
    }                                                                                             \
    NOEIRA_INLINE long long __##name##2ll_r##suffix(from x) {                                     \
        return noeira::whole<long long>(                                                          \
            NOEIRA_ROUND_##suffix(x), -9223372036854775807ll - 1, 9223372036854775807ll);         \
    }
#define NOEIRA_ROUND_n(x) rint(x)
#define NOEIRA_ROUND_z(x) trunc(x)
#define NOEIRA_ROUND_d(x) floor(x)
#define NOEIRA_ROUND_u(x) ceil(x)
NOEIRA_CONVERSIONS(float, float, n)
NOEIRA_CONVERSIONS(float, float, z)
NOEIRA_CONVERSIONS(float, float, d)
NOEIRA_CONVERSIONS(float, float, u)
NOEIRA_CONVERSIONS(double, double, n)
NOEIRA_CONVERSIONS(double, double, z)
NOEIRA_CONVERSIONS(double, double, d)
NOEIRA_CONVERSIONS(double, double, u)
#undef NOEIRA_CONVERSIONS
NOEIRA_INLINE float __int2float_rn(int x) { return (float)x; }
NOEIRA_INLINE float __uint2float_rn(unsigned x) { return (float)x; }
NOEIRA_INLINE float __ll2float_rn(long long x) { return (float)x; }
NOEIRA_INLINE float __ull2float_rn(unsigned long long x) { return (float)x; }
NOEIRA_INLINE float __double2float_rn(double x) { return (float)x; }
NOEIRA_INLINE double __int2double_rn(int x) { return x; }
NOEIRA_INLINE double __uint2double_rn(unsigned x) { return x; }
NOEIRA_INLINE double __ll2double_rn(long long x) { return (double)x; }
NOEIRA_INLINE double __ull2double_rn(unsigned long long x) { return (double)x; }

NOEIRA_INLINE float __fadd_rn(float a, float b) { return a + b; }
NOEIRA_INLINE float __fsub_rn(float a, float b) { return a - b; }
NOEIRA_INLINE float __fmul_rn(float a, float b) { return a * b; }
NOEIRA_INLINE float __fdiv_rn(float a, float b) { return a / b; }
NOEIRA_INLINE float __frcp_rn(float a) { return 1.0f / a; }
NOEIRA_INLINE float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
NOEIRA_INLINE float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
NOEIRA_INLINE double __dadd_rn(double a, double b) { return a + b; }
NOEIRA_INLINE double __dsub_rn(double a, double b) { return a - b; }
NOEIRA_INLINE double __dmul_rn(double a, double b) { return a * b; }
NOEIRA_INLINE double __ddiv_rn(double a, double b) { return a / b; }
NOEIRA_INLINE double __drcp_rn(double a) { return 1.0 / a; }
NOEIRA_INLINE double __dsqrt_rn(double a) { return __builtin_sqrt(a); }
NOEIRA_INLINE double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
namespace noeira {
NOEIRA_INLINE float one_by_root(float x) { return 1.0f / __builtin_sqrtf(x); }
NOEIRA_INLINE double one_by_root(double x) { return 1.0 / __builtin_sqrt(x); }
}  // namespace noeira
NOEIRA_INLINE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
NOEIRA_INLINE float __fdividef(float a, float b) { return a / b; }
// Macros, because the host's library has functions of these names, a newer one at least.
#define rsqrtf(x) noeira::one_by_root((float)(x))
#define rsqrt(x) noeira::one_by_root(x)
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)

NOEIRA_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
NOEIRA_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
NOEIRA_INLINE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
NOEIRA_INLINE int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
NOEIRA_INLINE int __ffs(int x) { return __builtin_ffs(x); }
NOEIRA_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
NOEIRA_INLINE unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int i = 0; i < 32; i++) y |= (x >> i & 1u) << (31 - i);
    return y;
}
NOEIRA_INLINE int __mulhi(int a, int b) { return (int)(((int64_t)a * b) >> 32); }
NOEIRA_INLINE unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)(((uint64_t)a * b) >> 32);
}
NOEIRA_INLINE long long __mul64hi(long long a, long long b) {
    return (long long)(((__int128)a * b) >> 64);
}
NOEIRA_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
NOEIRA_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}
NOEIRA_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}

// As CUDA has them: of two whole numbers the usual conversions decide, of floats NaN loses.
namespace noeira {
template <class A, class B> using common = decltype(true ? A() : B());
template <class T> NOEIRA_INLINE T least(T a, T b) { return b < a ? b : a; }
NOEIRA_INLINE float least(float a, float b) { return __builtin_fminf(a, b); }
NOEIRA_INLINE double least(double a, double b) { return __builtin_fmin(a, b); }
template <class T> NOEIRA_INLINE T most(T a, T b) { return a < b ? b : a; }
NOEIRA_INLINE float most(float a, float b) { return __builtin_fmaxf(a, b); }
NOEIRA_INLINE double most(double a, double b) { return __builtin_fmax(a, b); }
}  // namespace noeira
template <class A, class B> NOEIRA_INLINE noeira::common<A, B> min(A a, B b) {
    return noeira::least((noeira::common<A, B>)a, (noeira::common<A, B>)b);
}
template <class A, class B> NOEIRA_INLINE noeira::common<A, B> max(A a, B b) {
    return noeira::most((noeira::common<A, B>)a, (noeira::common<A, B>)b);
}
