// From a kernel to the two functions that a unit exports for it.
#pragma once
#include "machine.h"

extern "C" {
// Put there by the linker: the ends of the section with the unit's shared variables, if it has one.
extern char __start_noeira_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_noeira_shared[] __attribute__((weak, visibility("hidden")));
}

namespace noeira {
template <class... All> struct Types {};
template <class T> struct Bare { using type = T; };
template <class T> struct Bare<const T> { using type = T; };

// Takes the arguments from the array one by one, then calls.
template <class Kernel, class... Taken>
NOEIRA_INLINE void call(Kernel kernel, void **, Types<>, Taken... taken) {
    kernel(taken...);
}
template <class Kernel, class First, class... Rest, class... Taken>
NOEIRA_INLINE void call(Kernel kernel, void **arguments, Types<First, Rest...>, Taken... taken) {
    using Value = typename Bare<First>::type;
    call(kernel, arguments + 1, Types<Rest...>(), taken..., *(Value *)*arguments);
}
template <class... All> NOEIRA_INLINE void call_kernel(void (*kernel)(All...), void **arguments) {
    call(kernel, arguments, Types<All...>());
}

// Where each argument starts in a packed buffer of them.
template <class... All> static inline int layout(void (*)(All...), unsigned *offsets) {
    unsigned end = 0;
    int count = 0;
    ((end = (end + alignof(All) - 1) / alignof(All) * alignof(All), offsets[count++] = end,
         end += sizeof(All)), ...);
    (void)end;
    return count;
}
}  // namespace noeira

#if NOEIRA_CHECK
// Tells that the unit was built for checking, and where it lies in memory.
NOEIRA_EXPORT const char noeira_checked = 1;
#define NOEIRA_ENTER() noeira::enter_kernel()
#ifdef __clang__
// Some versions leave copies of structures to the library's functions, where they would go unseen.
asm(".set memcpy, __tsan_memcpy\n.set memmove, __tsan_memmove\n.set memset, __tsan_memset");
#endif
#else
#define NOEIRA_ENTER()
#endif

// K__launch runs the kernel K; options = {order: 0 forward, 1 reverse, 2 random; seed; check}.
// Gives 0, or 1 with what went wrong in `message`. K__layout gives the number of arguments.
#define NOEIRA_KERNEL(K)                                                                          \
    static NOEIRA_UNSEEN void K##__call(void **arguments) {                                       \
        NOEIRA_ENTER();                                                                           \
        noeira::call_kernel(K, arguments);                                                        \
    }                                                                                             \
    NOEIRA_EXPORT int K##__launch(void **arguments, const unsigned *grid_and_block,               \
        size_t shared_bytes, const int *options, char *message, size_t message_size) {            \
        noeira::Kernel kernel = {                                                                 \
            #K, K##__call, __start_noeira_shared, __stop_noeira_shared};                          \
        return noeira::launch(kernel, arguments, grid_and_block, shared_bytes, options, message,  \
            message_size);                                                                        \
    }                                                                                             \
    NOEIRA_EXPORT int K##__layout(unsigned *offsets) { return noeira::layout(K, offsets); }
