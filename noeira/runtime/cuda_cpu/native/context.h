// Stacks to run on, and going from one to another.
#pragma once
#include <stddef.h>

namespace noeira {

// More than a function's variables may take (see FRAME_BYTES in cxx_compiler.py), so that stacks
// need no guards between them, of which a process cannot have many.
constexpr size_t STACK_BYTES = 256 * 1024;
constexpr int MOST_THREADS = 1024;

// NOEIRA_PORTABLE asks for what other processors have.
#if defined(__x86_64__) && !defined(NOEIRA_PORTABLE)
#define NOEIRA_OWN_SWITCH 1
// All that a suspended stack needs: the registers lie on it.
struct Context {
    void *top;
};
// Saves what calls must preserve, and goes on where `to` was left.
extern "C" __attribute__((visibility("hidden"))) void noeira_switch(
    Context *from, const Context *to);
inline void go(Context *from, const Context *to) { noeira_switch(from, to); }
#else
}  // namespace noeira
#include <ucontext.h>
namespace noeira {
struct Context {
    ucontext_t state;
};
inline void go(Context *from, const Context *to) { swapcontext(&from->state, &to->state); }
#endif

// Makes a context that starts `entry`, which must never return, on a stack.
void prepare(Context *context, char *stack, void (*entry)());

// A stack, and its return. No more than MOST_THREADS are out at a time. NULL without memory.
char *take_stack();
void give_stack(char *stack);
// Takes back all that are out: what ran on them never goes on.
void give_all_stacks();
// Whether an address lies on a stack.
bool on_stack(const void *pointer);

}  // namespace noeira
