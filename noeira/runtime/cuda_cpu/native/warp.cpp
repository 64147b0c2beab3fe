// Warp operations: what each lane gets once all lanes of the mask are there.
#include "checker.h"
#include "faults.h"
#include "scheduler.h"

namespace noeira {

static const char *const NAMES[] = {"__shfl_sync", "__shfl_up_sync", "__shfl_down_sync",
    "__shfl_xor_sync", "__ballot_sync", "__any_sync", "__all_sync", "__syncwarp",
    "__reduce_add_sync", "__reduce_min_sync", "__reduce_max_sync", "__reduce_min_sync",
    "__reduce_max_sync", "__reduce_and_sync", "__reduce_or_sync", "__reduce_xor_sync"};

const char *operation_name(WarpOperation operation) { return NAMES[operation]; }

// The lane that a shuffle reads from; its own where that would leave its part of the warp.
static int source_lane(const Thread &thread) {
    int lane = thread.lane, width = thread.width, other = thread.argument;
    int first = lane & ~(width - 1), end = first + width;
    switch (thread.operation) {
        case SHUFFLE: return first + (other & (width - 1));
        case SHUFFLE_UP: return lane - other < first ? lane : lane - other;
        case SHUFFLE_DOWN: return lane + other >= end ? lane : lane + other;
        default: return (lane ^ other) >= end ? lane : lane ^ other;
    }
}

static uint64_t combine(WarpOperation operation, uint64_t a, uint64_t b) {
    switch (operation) {
        case REDUCE_ADD: return a + b;
        case REDUCE_MIN: return (int64_t)a < (int64_t)b ? a : b;
        case REDUCE_MAX: return (int64_t)a > (int64_t)b ? a : b;
        case REDUCE_MIN_UNSIGNED: return a < b ? a : b;
        case REDUCE_MAX_UNSIGNED: return a > b ? a : b;
        case REDUCE_AND: return a & b;
        case REDUCE_OR: return a | b;
        default: return a ^ b;
    }
}

// What all lanes get alike: of votes and reductions.
static uint64_t result(WarpOperation operation, const Thread *warp, unsigned mask) {
    uint64_t votes = 0, reduced = 0;
    bool first = true;
    for (unsigned left = mask; left != 0; left &= left - 1) {
        int lane = __builtin_ctz(left);
        uint64_t value = warp[lane].value;
        votes |= (value & 1) << lane;
        reduced = first ? value : combine(operation, reduced, value);
        first = false;
    }
    switch (operation) {
        case BALLOT: return votes;
        case ANY: return votes != 0;
        case ALL: return votes == mask;
        default: return reduced;
    }
}

static void shuffle(Thread *warp, unsigned mask) {
    uint64_t values[WARP];
    for (unsigned left = mask; left != 0; left &= left - 1)
        values[__builtin_ctz(left)] = warp[__builtin_ctz(left)].value;
    for (unsigned left = mask; left != 0; left &= left - 1) {
        Thread &thread = warp[__builtin_ctz(left)];
        int source = source_lane(thread);
        // From a lane that takes no part a GPU gives anything at all: NaN shows it.
        bool there = (unsigned)source < WARP && (mask >> source & 1) != 0;
        thread.value = there ? values[source] : ~(uint64_t)0;
    }
}

int complete_warp(unsigned number) {
    Thread *warp = &machine.thread[number * WARP];
    unsigned alive = 0, waiting = 0;
    for (unsigned lane = 0; lane < lanes_of(number); lane++) {
        alive |= (unsigned)(warp[lane].state != ENDED) << lane;
        waiting |= (unsigned)(warp[lane].state == IN_WARP) << lane;
    }
    const Thread *mixed[2] = {nullptr, nullptr};
    for (unsigned left = waiting; left != 0; left &= left - 1) {
        const Thread &one = warp[__builtin_ctz(left)];
        unsigned mask = one.mask & alive;
        if ((mask & waiting) != mask) continue;
        const Thread *different = nullptr;
        for (unsigned rest = mask; rest != 0 && different == nullptr; rest &= rest - 1) {
            const Thread &other = warp[__builtin_ctz(rest)];
            if (other.operation != one.operation || other.mask != one.mask) different = &other;
        }
        // Those of a smaller mask may get on first, and come to this one afterwards.
        if (different != nullptr) {
            if (mixed[0] == nullptr) mixed[0] = &one, mixed[1] = different;
            continue;
        }
        WarpOperation operation = one.operation;
        uint64_t all = operation > SHUFFLE_XOR ? result(operation, warp, mask) : 0;
        if (operation <= SHUFFLE_XOR) shuffle(warp, mask);
        if (operation == SYNCWARP && machine.checking) check_syncwarp(number, mask);
        for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
            Thread &thread = warp[__builtin_ctz(rest)];
            if (operation > SHUFFLE_XOR) thread.value = all;
            thread.state = READY;
        }
        int released = __builtin_popcount(mask);
        machine.in_warp[number] -= released;
        return released;
    }
    if (mixed[0] != nullptr && waiting == alive) return report_mixed_warp(mixed[0], mixed[1]), -1;
    return 0;
}

}  // namespace noeira
