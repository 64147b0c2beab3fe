// Who runs next: forward, in reverse or at random, until all threads of all blocks have ended.
//
// A thread that waits chooses the next one itself and goes there. A thread that begins where
// another has just ended takes over its stack, so a kernel without barriers needs one stack and
// no switch.
#include "scheduler.h"

#include <string.h>

#include "checker.h"
#include "faults.h"

namespace noeira {

Machine machine;
Place *running;
uint3 block_index;
dim3 block_size, grid_size;
extern "C" {
// Every `extern __shared__` array of a unit is this.
__attribute__((visibility("hidden"), aligned(1024))) char noeira_dynamic[NOEIRA_DYNAMIC_BYTES + 64];
}

static uint64_t random_below(uint64_t limit) {
    uint64_t x = machine.random += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return (x ^ x >> 31) % limit;
}

static void arrange(unsigned char *order, unsigned count) {
    for (unsigned i = 0; i < count; i++) order[i] = machine.order == REVERSE ? count - 1 - i : i;
    if (machine.order != RANDOM) return;
    for (unsigned i = count; i > 1; i--) {
        unsigned other = random_below(i), kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}

// A random order of blocks without a list of them: multiplying by a number without common divisor.
static void arrange_blocks() {
    machine.turn = 0;
    machine.factor = 1;
    machine.shift = 0;
    if (machine.order != RANDOM) return;
    machine.shift = random_below(machine.blocks);
    for (;;) {
        uint64_t a = machine.factor = 1 + random_below(machine.blocks), b = machine.blocks;
        while (b != 0) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) return;
    }
}

uint64_t block_of_turn(uint64_t turn) {
    uint64_t n = machine.blocks;
    if (machine.order == REVERSE) return n - 1 - turn;
    // Below 2^63: there are no more than 2^31 blocks in a launch that ends in a lifetime.
    return machine.order == RANDOM ? (turn * machine.factor + machine.shift) % n : turn;
}

static bool begin_block() {
    if (machine.turn == machine.blocks) return false;
    machine.block = block_of_turn(machine.turn++);
    block_index.x = machine.block % grid_size.x;
    block_index.y = machine.block / grid_size.x % grid_size.y;
    block_index.z = machine.block / grid_size.x / grid_size.y;
    for (unsigned i = 0; i < machine.threads; i++) machine.thread[i].state = FRESH;
    machine.ended = machine.in_block = machine.warp = machine.lane = 0;
    // All ones are NaN in every float type: what uses a value that nobody wrote shows it.
    memset(noeira_dynamic, 0xff, machine.shared_bytes);
    if (machine.kernel.shared_end > machine.kernel.shared)
        memset(machine.kernel.shared, 0xff, machine.kernel.shared_end - machine.kernel.shared);
    if (machine.checking) check_block_begins();
    arrange(machine.warp_order, machine.warps);
    arrange(machine.lane_order, lanes_of(machine.warp_order[0]));
    return true;
}

// When no warp can go on: all have ended, all wait at one barrier, or it is a fault.
static bool complete_block() {
    if (machine.ended == machine.threads) return begin_block();
    if (machine.in_block + machine.ended < machine.threads) return report_deadlock(), false;
    if (machine.differs != nullptr) {
        report_divergence(machine.first_in_block, machine.differs);
        return false;
    }
    int count = 0;
    for (unsigned i = 0; i < machine.threads; i++) {
        Thread &thread = machine.thread[i];
        if (thread.state != IN_BLOCK) continue;
        count += thread.value != 0;
        thread.state = READY;
    }
    Vote vote = machine.first_in_block->vote;
    machine.vote_result = vote == VOTE_COUNT ? count
        : vote == VOTE_AND                   ? count == (int)machine.in_block
                                             : count > 0;
    machine.in_block = machine.warp = 0;
    if (machine.checking) check_barrier();
    arrange(machine.warp_order, machine.warps);
    return true;
}

// The thread to go on with; NULL when the grid is done or a fault ends it.
static Thread *next_thread() {
    for (;;) {
        unsigned warp = machine.warp_order[machine.warp], lanes = lanes_of(warp);
        while (machine.lane < lanes) {
            Thread *thread = &machine.thread[warp * WARP + machine.lane_order[machine.lane++]];
            if (thread->state <= READY) return thread;
        }
        int released = machine.in_warp[warp] > 0 ? complete_warp(warp) : 0;
        if (released < 0) return nullptr;
        if (released == 0 && ++machine.warp == machine.warps && !complete_block()) return nullptr;
        machine.lane = 0;
        lanes = lanes_of(machine.warp_order[machine.warp]);
        if (machine.order == RANDOM || released == 0) arrange(machine.lane_order, lanes);
    }
}

// What every stack runs: one thread after another, until one that was suspended has to go on.
static void work() {
    for (;;) {
        machine.kernel.call(machine.arguments);
        Thread *ended = self();
        ended->state = ENDED;
        machine.ended++;
        Thread *next = next_thread();
        if (next != nullptr && next->state == FRESH) {
            next->stack = ended->stack;
            next->state = READY;
            running = next;
            continue;
        }
        give_stack(ended->stack);
        running = next;
        go(&ended->context, next != nullptr ? &next->context : &machine.launcher);
    }
}

static bool ready_to_go(Thread *thread) {
    if (thread->state != FRESH) return true;
    thread->stack = take_stack();
    if (thread->stack == nullptr) return report_no_memory(), false;
    prepare(&thread->context, thread->stack, work);
    thread->state = READY;
    return true;
}

static void wait() {
    Thread *from = self(), *next = next_thread();
    if (next == from) return;
    if (next == nullptr || !ready_to_go(next)) abandon();
    running = next;
    go(&from->context, &next->context);
}

void end_thread() {
    Thread *ended = self();
    ended->state = ENDED;
    machine.ended++;
    Thread *next = next_thread();
    give_stack(ended->stack);
    if (next == nullptr || !ready_to_go(next)) abandon();
    running = next;
    go(&ended->context, &next->context);
    __builtin_unreachable();
}

void abandon() {
    Context never;
    go(&never, &machine.launcher);
    __builtin_unreachable();
}

void run_grid() {
    arrange_blocks();
    memset(machine.in_warp, 0, sizeof machine.in_warp);
    if (!begin_block()) return;
    Thread *first = next_thread();
    if (ready_to_go(first)) {
        running = first;
        go(&machine.launcher, &first->context);
    }
    running = nullptr;
    give_all_stacks();
}

int wait_for_block(Vote vote, int predicate, int line) {
    Thread *thread = self();
    thread->state = IN_BLOCK;
    thread->line = line;
    thread->vote = vote;
    thread->value = predicate != 0;
    if (machine.in_block++ == 0) {
        machine.first_in_block = thread;
        machine.differs = nullptr;
    } else if (machine.differs == nullptr
        && (machine.first_in_block->line != line || machine.first_in_block->vote != vote)) {
        machine.differs = thread;
    }
    wait();
    return machine.vote_result;
}

uint64_t wait_for_warp(
    WarpOperation operation, unsigned mask, uint64_t value, int argument, int width, int line) {
    Thread *thread = self();
    thread->state = IN_WARP;
    thread->line = line;
    thread->operation = operation;
    thread->mask = mask;
    thread->value = value;
    thread->argument = argument;
    thread->width = width;
    machine.in_warp[thread->warp]++;
    if ((mask >> thread->lane & 1) == 0) {
        report_mask(thread);
        abandon();
    }
    wait();
    return thread->value;
}

unsigned active_lanes() {
    unsigned active = 0, first = running->warp * WARP;
    for (unsigned lane = 0; lane < lanes_of(running->warp); lane++)
        active |= (unsigned)(machine.thread[first + lane].state != ENDED) << lane;
    return active;
}

}  // namespace noeira
