// The vector types that CUDA has built in: dim3, and those of two, three and four numbers.
#pragma once

#define NOEIRA_VECTORS(type, name, two, four)                                                     \
    struct name##1 { type x; };                                                                   \
    struct __attribute__((aligned(two))) name##2 { type x, y; };                                  \
    struct name##3 { type x, y, z; };                                                             \
    struct __attribute__((aligned(four))) name##4 { type x, y, z, w; };                           \
    static inline name##1 make_##name##1(type x) { return {x}; }                                  \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                       \
    static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }            \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

// A type's name, then the alignment (bytes) of two and of four of it; those of three have that of
// one.
NOEIRA_VECTORS(signed char, char, 2, 4)
NOEIRA_VECTORS(unsigned char, uchar, 2, 4)
NOEIRA_VECTORS(short, short, 4, 8)
NOEIRA_VECTORS(unsigned short, ushort, 4, 8)
NOEIRA_VECTORS(int, int, 8, 16)
NOEIRA_VECTORS(unsigned int, uint, 8, 16)
NOEIRA_VECTORS(long, long, 16, 16)
NOEIRA_VECTORS(unsigned long, ulong, 16, 16)
NOEIRA_VECTORS(long long, longlong, 16, 16)
NOEIRA_VECTORS(unsigned long long, ulonglong, 16, 16)
NOEIRA_VECTORS(float, float, 8, 16)
NOEIRA_VECTORS(double, double, 16, 16)
#undef NOEIRA_VECTORS

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};
