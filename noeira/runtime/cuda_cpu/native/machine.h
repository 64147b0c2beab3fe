// What a unit and the runtime know of each other: who runs, and the calls that leave the kernel.
//
// One OS thread runs all CUDA threads of a launch in turns; a CUDA thread goes on until it waits
// (at a barrier, for its warp) or ends. Blocks run one after another.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "vectors.h"

// Calls that the compiler must not take for memory accesses of the kernel.
#define NOEIRA_UNSEEN __attribute__((no_sanitize("thread")))
#define NOEIRA_INLINE static inline __attribute__((always_inline)) NOEIRA_UNSEEN
#define NOEIRA_EXPORT extern "C" __attribute__((visibility("default")))
#define NOEIRA_DYNAMIC_BYTES (227 * 1024)  // no GPU gives a block more

// Within the unit, addresses need no look-up.
#pragma GCC visibility push(hidden)
namespace noeira {

// A CUDA thread as it sees itself.
struct Place {
    uint3 index;
    unsigned number, lane, warp;
};

enum WarpOperation {
    SHUFFLE, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR, BALLOT, ANY, ALL, SYNCWARP,
    REDUCE_ADD, REDUCE_MIN, REDUCE_MAX, REDUCE_MIN_UNSIGNED, REDUCE_MAX_UNSIGNED,
    REDUCE_AND, REDUCE_OR, REDUCE_XOR
};
enum Vote { NO_VOTE, VOTE_COUNT, VOTE_AND, VOTE_OR };

extern Place *running;
extern uint3 block_index;
extern dim3 block_size, grid_size;

// Waits for all threads of the block that have not ended; gives the vote over their predicates.
int wait_for_block(Vote vote, int predicate, int line);
// Waits for the lanes in `mask`; gives what the operation makes of all their values.
uint64_t wait_for_warp(
    WarpOperation operation, unsigned mask, uint64_t value, int argument, int width, int line);
unsigned active_lanes();
// Ends the launch with a fault.
[[noreturn]] void fail(const char *kind, const char *text, int line);
// For check mode: the running thread comes to its kernel; an atomic is about to change memory.
void enter_kernel();
void note_atomic(void *pointer, size_t bytes, const void *code);

// A kernel as the launcher sees it: its name, a call with an array of its arguments' addresses,
// and where the shared variables of its unit lie.
struct Kernel {
    const char *name;
    void (*call)(void **arguments);
    char *shared, *shared_end;
};
int launch(const Kernel &kernel, void **arguments, const unsigned *grid_and_block,
    size_t shared_bytes, const int *options, char *message, size_t message_size);

}  // namespace noeira
#pragma GCC visibility pop
