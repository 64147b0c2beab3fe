// Barriers and warp intrinsics. Each notes the line that calls it, for reports.
#pragma once
#include <string.h>

#include "machine.h"

#define NOEIRA_LINE int line = __builtin_LINE()

namespace noeira {
template <class T> NOEIRA_INLINE uint64_t to_bits(T value) {
    static_assert(sizeof(T) <= 8, "warp intrinsics take values of at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    return bits;
}
template <class T> NOEIRA_INLINE T from_bits(uint64_t bits) {
    T value;
    memcpy((void *)&value, &bits, sizeof(T));
    return value;
}
}  // namespace noeira

NOEIRA_INLINE void __syncthreads(NOEIRA_LINE) { noeira::wait_for_block(noeira::NO_VOTE, 0, line); }
NOEIRA_INLINE int __syncthreads_count(int predicate, NOEIRA_LINE) {
    return noeira::wait_for_block(noeira::VOTE_COUNT, predicate, line);
}
NOEIRA_INLINE int __syncthreads_and(int predicate, NOEIRA_LINE) {
    return noeira::wait_for_block(noeira::VOTE_AND, predicate, line);
}
NOEIRA_INLINE int __syncthreads_or(int predicate, NOEIRA_LINE) {
    return noeira::wait_for_block(noeira::VOTE_OR, predicate, line);
}
// One OS thread sees its own writes in order: nothing to do.
NOEIRA_INLINE void __threadfence() {}
NOEIRA_INLINE void __threadfence_block() {}
NOEIRA_INLINE void __threadfence_system() {}

#define NOEIRA_SHUFFLE(name, operation, argument)                                                 \
    template <class T>                                                                            \
    NOEIRA_INLINE T name(                                                                         \
        unsigned mask, T value, argument other, int width = 32, NOEIRA_LINE) {                    \
        return noeira::from_bits<T>(noeira::wait_for_warp(                                        \
            noeira::operation, mask, noeira::to_bits(value), (int)other, width, line));           \
    }
NOEIRA_SHUFFLE(__shfl_sync, SHUFFLE, int)
NOEIRA_SHUFFLE(__shfl_up_sync, SHUFFLE_UP, unsigned)
NOEIRA_SHUFFLE(__shfl_down_sync, SHUFFLE_DOWN, unsigned)
NOEIRA_SHUFFLE(__shfl_xor_sync, SHUFFLE_XOR, int)
#undef NOEIRA_SHUFFLE

NOEIRA_INLINE unsigned __ballot_sync(unsigned mask, int predicate, NOEIRA_LINE) {
    return (unsigned)noeira::wait_for_warp(noeira::BALLOT, mask, predicate != 0, 0, 32, line);
}
NOEIRA_INLINE int __any_sync(unsigned mask, int predicate, NOEIRA_LINE) {
    return (int)noeira::wait_for_warp(noeira::ANY, mask, predicate != 0, 0, 32, line);
}
NOEIRA_INLINE int __all_sync(unsigned mask, int predicate, NOEIRA_LINE) {
    return (int)noeira::wait_for_warp(noeira::ALL, mask, predicate != 0, 0, 32, line);
}
NOEIRA_INLINE void __syncwarp(unsigned mask = 0xffffffffu, NOEIRA_LINE) {
    noeira::wait_for_warp(noeira::SYNCWARP, mask, 0, 0, 32, line);
}
NOEIRA_INLINE unsigned __activemask() { return noeira::active_lanes(); }

#define NOEIRA_REDUCE(name, operation, type, wide)                                                \
    NOEIRA_INLINE type name(unsigned mask, type value, NOEIRA_LINE) {                             \
        return (type)noeira::wait_for_warp(                                                       \
            noeira::operation, mask, (uint64_t)(wide)value, 0, 32, line);                         \
    }
NOEIRA_REDUCE(__reduce_add_sync, REDUCE_ADD, int, int64_t)
NOEIRA_REDUCE(__reduce_min_sync, REDUCE_MIN, int, int64_t)
NOEIRA_REDUCE(__reduce_max_sync, REDUCE_MAX, int, int64_t)
NOEIRA_REDUCE(__reduce_add_sync, REDUCE_ADD, unsigned, uint64_t)
NOEIRA_REDUCE(__reduce_min_sync, REDUCE_MIN_UNSIGNED, unsigned, uint64_t)
NOEIRA_REDUCE(__reduce_max_sync, REDUCE_MAX_UNSIGNED, unsigned, uint64_t)
NOEIRA_REDUCE(__reduce_and_sync, REDUCE_AND, unsigned, uint64_t)
NOEIRA_REDUCE(__reduce_or_sync, REDUCE_OR, unsigned, uint64_t)
NOEIRA_REDUCE(__reduce_xor_sync, REDUCE_XOR, unsigned, uint64_t)
#undef NOEIRA_REDUCE
