// The block that runs: its threads, what each waits for, and who goes on next.
#pragma once
#include "context.h"
#include "machine.h"

namespace noeira {

enum State : unsigned char { FRESH, READY, IN_WARP, IN_BLOCK, ENDED };
enum Order { FORWARD, REVERSE, RANDOM };
constexpr int WARP = 32, MOST_WARPS = MOST_THREADS / WARP, MOST_CALLS = 8;

struct Thread : Place {
    State state;
    Context context;
    char *stack;
    // What it waits for, and what it has to say to the others.
    int line;
    Vote vote;
    WarpOperation operation;
    unsigned mask;
    int argument, width;
    uint64_t value;
    // Where the functions it is in were called from, its kernel first; for check mode.
    unsigned depth;
    const void *callers[MOST_CALLS];
};

// All of a launch's state; one launch at a time.
struct Machine {
    Kernel kernel;
    void **arguments;
    bool checking;
    Order order;
    uint64_t random;         // state of the generator
    uint64_t blocks, turn;   // in the grid; how many have begun
    uint64_t block;          // number of the one that runs
    uint64_t factor, shift;  // the random order of blocks
    size_t shared_bytes;
    unsigned threads, warps, ended, in_block;
    int vote_result;
    Thread *differs;         // waits at another barrier than the first one there
    Thread *first_in_block;
    unsigned warp, lane;     // how far the round over warps and lanes is
    unsigned char warp_order[MOST_WARPS], lane_order[WARP];
    unsigned in_warp[MOST_WARPS];  // lanes that wait, by warp
    Context launcher;
    Thread thread[MOST_THREADS];
};
extern Machine machine;

inline Thread *self() { return static_cast<Thread *>(running); }
inline unsigned lanes_of(unsigned warp) {
    unsigned rest = machine.threads - warp * WARP;
    return rest < WARP ? rest : WARP;
}
// The number of the block that runs, or ran, as the n-th.
uint64_t block_of_turn(uint64_t turn);
// Runs all blocks.
void run_grid();
// Ends the launch at once, from within a thread.
[[noreturn]] void abandon();
// Ends the running thread, as if it had returned.
[[noreturn]] void end_thread();
// Lets one group of lanes go on that all have arrived at a warp operation; gives their number, or
// -1 after a fault.
int complete_warp(unsigned warp);
// What a person calls the operation.
const char *operation_name(WarpOperation operation);

}  // namespace noeira
