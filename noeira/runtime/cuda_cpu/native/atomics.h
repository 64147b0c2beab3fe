// Atomics: only one CUDA thread runs at a time, so reading, changing and writing back is atomic.
#pragma once
#include "machine.h"

// Not inlined in check mode, where code inlined into a kernel would count as its plain accesses.
#if NOEIRA_CHECK
#define NOEIRA_ATOMIC_FUNCTION static __attribute__((noinline)) NOEIRA_UNSEEN
#define NOEIRA_NOTE_ATOMIC(pointer) \
    noeira::note_atomic((void *)(pointer), sizeof *(pointer), __builtin_return_address(0))
#else
#define NOEIRA_ATOMIC_FUNCTION NOEIRA_INLINE
#define NOEIRA_NOTE_ATOMIC(pointer)
#endif

namespace noeira {
// A parameter of this type takes any value that converts to T, and does not decide what T is.
template <class T> struct Same { using type = T; };
template <class T> using same = typename Same<T>::type;
}  // namespace noeira

#define NOEIRA_ATOMIC(name, result)                                                               \
    template <class T>                                                                            \
    NOEIRA_ATOMIC_FUNCTION T name(T *pointer, noeira::same<T> value) {                            \
        NOEIRA_NOTE_ATOMIC(pointer);                                                              \
        T old = *pointer;                                                                         \
        *pointer = (T)(result);                                                                   \
        return old;                                                                               \
    }
NOEIRA_ATOMIC(atomicAdd, old + value)
NOEIRA_ATOMIC(atomicSub, old - value)
NOEIRA_ATOMIC(atomicMax, old > value ? old : value)
NOEIRA_ATOMIC(atomicMin, old < value ? old : value)
NOEIRA_ATOMIC(atomicAnd, old & value)
NOEIRA_ATOMIC(atomicOr, old | value)
NOEIRA_ATOMIC(atomicXor, old ^ value)
NOEIRA_ATOMIC(atomicExch, value)
NOEIRA_ATOMIC(atomicInc, old >= value ? T(0) : T(old + 1))
NOEIRA_ATOMIC(atomicDec, old == 0 || old > value ? value : T(old - 1))
#undef NOEIRA_ATOMIC

template <class T>
NOEIRA_ATOMIC_FUNCTION T atomicCAS(
    T *pointer, noeira::same<T> expected, noeira::same<T> value) {
    NOEIRA_NOTE_ATOMIC(pointer);
    T old = *pointer;
    if (old == expected) *pointer = value;
    return old;
}
