// Stacks and their switch: own assembly where it is known, <ucontext.h> elsewhere.
#include "context.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

namespace noeira {

#if NOEIRA_OWN_SWITCH
// A jump in place of a return: the processor's guess of where a return leads would be wrong.
asm(R"(
.text
.globl noeira_switch
.hidden noeira_switch
.type noeira_switch, @function
noeira_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq (%rsi), %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmp *%rcx
.size noeira_switch, .-noeira_switch
)");

void prepare(Context *context, char *stack, void (*entry)()) {
    // Stacks start a little apart within their page, or all would share few lines of the cache.
    size_t shift = (uintptr_t)stack / STACK_BYTES * 1088 % 4096 / 64 * 64;
    void **top = (void **)(stack + STACK_BYTES - 64 - shift);
    // Six registers, then the address to start at; the word above is where a call would have put
    // its return.
    top -= 8;
    memset(top, 0, 8 * sizeof *top);
    top[6] = (void *)entry;
    context->top = top;
}
#else
void prepare(Context *context, char *stack, void (*entry)()) {
    getcontext(&context->state);
    context->state.uc_stack.ss_sp = stack;
    context->state.uc_stack.ss_size = STACK_BYTES;
    context->state.uc_link = nullptr;
    makecontext(&context->state, entry, 0);
}
#endif

static char *slab;
static int free_count, made;
static char *free_stacks[MOST_THREADS + 1];
constexpr size_t SLAB_BYTES = (MOST_THREADS + 1) * STACK_BYTES;

// A unit may be unloaded.
__attribute__((destructor)) static void unmap() {
    if (slab != nullptr) munmap(slab, SLAB_BYTES);
}

char *take_stack() {
    if (free_count > 0) return free_stacks[--free_count];
    if (slab == nullptr) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
        flags |= MAP_NORESERVE;
#endif
        void *memory = mmap(nullptr, SLAB_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (memory == MAP_FAILED) return nullptr;
        slab = (char *)memory;
    }
    return slab + STACK_BYTES * made++;
}

void give_stack(char *stack) { free_stacks[free_count++] = stack; }

void give_all_stacks() {
    free_count = 0;
    for (int i = made - 1; i >= 0; i--) give_stack(slab + STACK_BYTES * i);
}

bool on_stack(const void *pointer) {
    return slab != nullptr && (const char *)pointer >= slab
        && (const char *)pointer < slab + SLAB_BYTES;
}

}  // namespace noeira
