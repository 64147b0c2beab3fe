// The functions that compilers call in a kernel built for checking: before each access to memory
// (-fsanitize=thread), for an index outside its array and a pointer that is not aligned
// (-fsanitize=bounds,alignment), and around each function.
#include "checker.h"
#include "faults.h"

#define HOOK extern "C" __attribute__((visibility("hidden")))
#define CODE __builtin_return_address(0)

namespace noeira {
void enter_kernel() { self()->depth = 0; }

static inline void reads(void *pointer, size_t bytes, const void *code) {
    check_access({(char *)pointer, bytes, true, false, false, code});
}
static inline void writes(void *pointer, size_t bytes, const void *code) {
    check_access({(char *)pointer, bytes, false, true, false, code});
}
}  // namespace noeira

#define ACCESSES(prefix, bytes)                                                                   \
    HOOK void __tsan_##prefix##read##bytes(void *p) { noeira::reads(p, bytes, CODE); }            \
    HOOK void __tsan_##prefix##write##bytes(void *p) { noeira::writes(p, bytes, CODE); }
#define ALL_ACCESSES(prefix)                                                                      \
    ACCESSES(prefix, 1) ACCESSES(prefix, 2) ACCESSES(prefix, 4) ACCESSES(prefix, 8)               \
    ACCESSES(prefix, 16)
ALL_ACCESSES()
ALL_ACCESSES(unaligned_)
ALL_ACCESSES(volatile_)
ALL_ACCESSES(unaligned_volatile_)

HOOK void __tsan_read_range(void *p, unsigned long bytes) { noeira::reads(p, bytes, CODE); }
HOOK void __tsan_write_range(void *p, unsigned long bytes) { noeira::writes(p, bytes, CODE); }
HOOK void __tsan_init() {}

HOOK void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
    noeira::reads((void *)from, bytes, CODE);
    noeira::writes(to, bytes, CODE);
    return __builtin_memcpy(to, from, bytes);
}
HOOK void *__tsan_memmove(void *to, const void *from, size_t bytes) {
    noeira::reads((void *)from, bytes, CODE);
    noeira::writes(to, bytes, CODE);
    return __builtin_memmove(to, from, bytes);
}
HOOK void *__tsan_memset(void *to, int value, size_t bytes) {
    noeira::writes(to, bytes, CODE);
    return __builtin_memset(to, value, bytes);
}

HOOK void __tsan_func_entry(void *caller) {
    if (noeira::running == nullptr) return;
    noeira::Thread *thread = noeira::self();
    if (thread->depth < noeira::MOST_CALLS) thread->callers[thread->depth] = caller;
    thread->depth++;
}
HOOK void __tsan_func_exit() {
    if (noeira::running != nullptr) noeira::self()->depth--;
}

// As compilers lay out what they say of a place and of a type.
struct SourcePlace {
    const char *file;
    uint32_t line, column;
};
struct TypeName {
    uint16_t kind, information;
    char name[1];
};
struct BadIndex {
    SourcePlace place;
    const TypeName *array, *index;
};
struct BadPointer {
    SourcePlace place;
    const TypeName *type;
    unsigned char log_alignment, access;
};

HOOK void __ubsan_handle_out_of_bounds(BadIndex *bad, uintptr_t index) {
    if (!noeira::machine.checking || noeira::running == nullptr) return;
    noeira::report("out of bounds", noeira::self(), bad->place.line, CODE,
        "index %lld is outside an array of type %s", (long long)index, bad->array->name);
    noeira::refuse();
}
HOOK void __ubsan_handle_local_out_of_bounds() {
    if (!noeira::machine.checking || noeira::running == nullptr) return;
    noeira::report(
        "out of bounds", noeira::self(), 0, CODE, "an access lies outside its variable");
    noeira::refuse();
}
HOOK void __ubsan_handle_local_out_of_bounds_abort() {
    __ubsan_handle_local_out_of_bounds();
}
HOOK void __ubsan_handle_type_mismatch_v1(BadPointer *bad, uintptr_t pointer) {
    if (noeira::running == nullptr) return;  // looked at in every mode: a GPU would stop there
    unsigned alignment = 1u << bad->log_alignment;
    noeira::report("misaligned", noeira::self(), bad->place.line, CODE,
        "accesses %s at an address that is %u bytes past a multiple of %u", bad->type->name,
        (unsigned)(pointer % alignment), alignment);
    noeira::refuse();
}
