// Every access of a checked kernel: inside what it may touch, initialised, and in order with those
// of other threads.
//
// Two accesses of different threads, one of them a write, are in order if a barrier lies between
// them, or, within a warp, a __syncwarp of both. Blocks of one launch never are, not even where
// they make an order themselves by atomics. Not seen is a pointer that walks from one static array
// into its neighbour; an index that does is.
#include "checker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"

extern "C" __attribute__((visibility("hidden"))) char noeira_dynamic[];

namespace noeira {

static uint32_t epoch, block_epoch;
// The first epoch of every block, in the order they ran.
static uint32_t *first_epochs;
static uint64_t first_epochs_room;
// What each lane knows of the clocks of its warp, its own among them.
static uint16_t clocks[MOST_WARPS][WARP][WARP];
static bool clocks_moved;
// A thread was ended: what it would have written is missing, which is no further fault.
static bool incomplete;

static void reset_clocks() {
    memset(clocks, 0, sizeof clocks);
    for (auto &warp : clocks)
        for (int lane = 0; lane < WARP; lane++) warp[lane][lane] = 1;
    clocks_moved = false;
}

bool check_launch_begins() {
    epoch = 0;
    incomplete = false;
    reset_clocks();
    return open_regions();
}

void check_launch_ends() {
    close_regions();
    free(first_epochs);
    first_epochs = nullptr;
    first_epochs_room = 0;
}

void check_block_begins() {
    block_epoch = ++epoch;
    if (clocks_moved) reset_clocks();
    if (machine.turn > first_epochs_room) {
        uint64_t room = 2 * machine.turn;
        void *larger = realloc(first_epochs, room * sizeof *first_epochs);
        if (larger == nullptr) return;
        first_epochs = (uint32_t *)larger;
        first_epochs_room = room;
    }
    first_epochs[machine.turn - 1] = epoch;
}

void check_barrier() { epoch++; }

void check_syncwarp(unsigned warp, unsigned mask) {
    uint16_t known[WARP] = {};
    for (unsigned left = mask; left != 0; left &= left - 1)
        for (int i = 0; i < WARP; i++) {
            uint16_t time = clocks[warp][__builtin_ctz(left)][i];
            known[i] = time > known[i] ? time : known[i];
        }
    for (unsigned left = mask; left != 0; left &= left - 1) {
        int lane = __builtin_ctz(left);
        memcpy(clocks[warp][lane], known, sizeof known);
        clocks[warp][lane][lane]++;
    }
    clocks_moved = true;
}

static uint64_t block_of_epoch(uint32_t wanted) {
    uint64_t low = 0, high = machine.turn;
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2;
        (first_epochs[middle] <= wanted ? low : high) = middle;
    }
    return block_of_turn(low);
}

static uint16_t own_time(const Thread *thread) {
    return clocks[thread->warp][thread->lane][thread->lane];
}

// Whether an access of another thread of this block in this epoch is in order with one now.
static bool in_order(unsigned other, uint16_t time) {
    const Thread *thread = self();
    return other / WARP == thread->warp && clocks[thread->warp][thread->lane][other % WARP] >= time;
}

static bool races_with_write(const Region &region, const Cell &cell, const Access &access) {
    if (cell.write_epoch == 0 || (cell.written == ATOMICALLY && access.atomic)) return false;
    if (cell.write_epoch < block_epoch) return !region.shared();
    if (cell.written == ATOMICALLY_AFTER_PLAINLY && access.atomic) return false;
    return cell.write_epoch == epoch && cell.writer != self()->number
        && !in_order(cell.writer, cell.write_time);
}

static bool races_with_read(const Region &region, const Cell &cell) {
    if (cell.read_epoch == 0) return false;
    if (cell.crowd == IN_THE_GRID) return true;
    if (cell.read_epoch < block_epoch) return !region.shared();
    if (cell.read_epoch != epoch) return false;
    if (cell.crowd == IN_A_BLOCK) return true;
    if (cell.reader != self()->number) return !in_order(cell.reader, cell.read_time);
    const Thread *thread = self();
    return cell.crowd == IN_A_WARP && cell.read_time == own_time(thread);
}

static void note_read(const Region &region, Cell &cell, uint32_t place) {
    const Thread *thread = self();
    uint16_t time = own_time(thread);
    if (cell.read_epoch != 0 && cell.read_epoch < block_epoch) {
        cell.crowd = region.shared() ? ALONE : IN_THE_GRID;
    } else if (cell.crowd != IN_THE_GRID) {
        if (cell.read_epoch != epoch) cell.crowd = ALONE;
        else if (cell.reader / WARP != thread->warp) cell.crowd = IN_A_BLOCK;
        else if (cell.reader != thread->number && cell.crowd != IN_A_BLOCK)
            cell.crowd = in_order(cell.reader, cell.read_time) ? ALONE : IN_A_WARP;
        else if (cell.crowd == IN_A_WARP && cell.read_time != time) cell.crowd = ALONE;
    }
    cell.read_epoch = epoch;
    cell.reader = thread->number;
    cell.read_time = time;
    cell.read_code = place;
}

static void note_write(Cell &cell, const Access &access, uint32_t place) {
    const Thread *thread = self();
    if (access.atomic) {
        // What was done plainly before stays known: others' atomics may not be in order with it.
        bool in_block = cell.write_epoch >= block_epoch;
        bool plainly = in_block && cell.written == PLAINLY;
        if (plainly && cell.write_epoch == epoch && cell.writer == thread->number) return;
        bool after = plainly || (in_block && cell.written == ATOMICALLY_AFTER_PLAINLY);
        cell.written = after ? ATOMICALLY_AFTER_PLAINLY : ATOMICALLY;
    } else {
        cell = {};
    }
    cell.write_epoch = epoch;
    cell.writer = thread->number;
    cell.write_time = own_time(thread);
    cell.write_code = place;
}

static const char *verb(const Access &access) {
    return access.atomic ? "changes" : access.writes ? "writes" : "reads";
}

static void report_race(
    const Region &region, const Cell &cell, const Access &access, size_t offset, bool with_write) {
    uint32_t other_epoch = with_write ? cell.write_epoch : cell.read_epoch;
    unsigned other = with_write ? cell.writer : cell.reader;
    bool same_block = other_epoch >= block_epoch;
    bool itself_too = same_block && !with_write && other == self()->number;
    // What was read too early had not been written yet.
    if (!with_write) retract("uninitialised", cell.read_code);
    else if (cell.written != PLAINLY) retract("uninitialised", cell.write_code);
    char who[64];
    if (itself_too)
        snprintf(who, sizeof who, "other threads of its warp");
    else if (same_block)
        snprintf(who, sizeof who, "thread %u", other);
    else
        snprintf(who, sizeof who, "thread %u of block %llu", other,
            (unsigned long long)block_of_epoch(other_epoch));
    report("race", self(), 0, access.code,
        "%s %s at byte %zu, which %s %s at {0x%x}; %s", verb(access), region.is.name, offset, who,
        with_write ? (cell.written == PLAINLY ? "wrote" : "changed") : "read",
        with_write ? cell.write_code : cell.read_code,
        same_block ? "there is no barrier between" : "blocks have no order");
}

// Whether all bytes of a read were written: in shared memory by this block, elsewhere ever.
static bool is_initialised(const Region &region, size_t offset, size_t bytes) {
    if ((region.is.flags & INITIALISED) != 0) return true;
    if (region.shared()) {
        size_t last = (offset + bytes - 1) / region.cell_bytes;
        for (size_t i = offset / region.cell_bytes; i <= last; i++)
            if (region.cells[i].write_epoch < block_epoch) return false;
        return true;
    }
    for (size_t i = offset / region.is.granule; i <= (offset + bytes - 1) / region.is.granule; i++)
        if (region.is.written[i] == 0) return false;
    return true;
}

// Notes an access in all its cells, after a look at what they have from other threads.
static void check_order(Region &region, size_t offset, const Access &access) {
    bool fits = offset % region.cell_bytes == 0 && access.bytes % region.cell_bytes == 0;
    if (!fits && !split_cells(&region)) return report_no_memory(), abandon();
    uint32_t place = place_of(access.code);
    for (size_t at = offset; at < offset + access.bytes; at += region.cell_bytes) {
        Cell &cell = region.cells[at / region.cell_bytes];
        if (races_with_write(region, cell, access)) report_race(region, cell, access, at, true);
        else if (access.writes && races_with_read(region, cell))
            report_race(region, cell, access, at, false);
        if (access.writes) note_write(cell, access, place);
        else note_read(region, cell, place);
    }
}

void refuse() {
    incomplete = true;
    end_thread();
}

static void report_outside(const Access &access) {
    const Region *region = nearest_region(access.pointer);
    if (access.pointer == nullptr || region == nullptr || (uintptr_t)access.pointer < 4096) {
        report("out of bounds", self(), 0, access.code, "%s %zu bytes through NULL",
            verb(access), access.bytes);
        return;
    }
    bool before = access.pointer < region->is.pointer;
    size_t distance = before ? region->is.pointer - access.pointer : access.pointer - region->end();
    report("out of bounds", self(), 0, access.code,
        "%s %zu bytes that begin %zu bytes %s of %s, which has %zu bytes", verb(access),
        access.bytes, distance, before ? "before the start" : "after the end", region->is.name,
        region->is.bytes);
}

void check_access(const Access &access) {
    if (!machine.checking || running == nullptr || access.bytes == 0) return;
    if (in_unit(access.pointer) || on_stack(access.pointer)) return;
    Region *region = region_at(access.pointer);
    if (region == nullptr) {
        bool is_shared = access.pointer >= noeira_dynamic
            && access.pointer < noeira_dynamic + NOEIRA_DYNAMIC_BYTES;
        if (!knows_regions() && !is_shared) return;
        report_outside(access);
        refuse();
    }
    const Described &is = region->is;
    size_t offset = access.pointer - is.pointer;
    if (access.bytes > is.bytes - offset) {
        report("out of bounds", self(), 0, access.code,
            "%s %zu bytes at byte %zu of %s, which has %zu bytes", verb(access), access.bytes,
            offset, is.name, is.bytes);
        refuse();
    }
    if (access.writes && (is.flags & WRITABLE) == 0) {
        report("read-only", self(), 0, access.code,
            "%s %zu bytes at byte %zu of %s, which the kernel may only read", verb(access),
            access.bytes, offset, is.name);
        refuse();
    }
    if (access.reads && !incomplete && !is_initialised(*region, offset, access.bytes))
        report("uninitialised", self(), 0, access.code,
            "reads %zu bytes at byte %zu of %s, which nobody wrote", access.bytes, offset, is.name);
    check_order(*region, offset, access);
    if (access.writes && is.written != nullptr)
        memset(is.written + offset / is.granule, 1,
            (offset + access.bytes - 1) / is.granule - offset / is.granule + 1);
}

void note_atomic(void *pointer, size_t bytes, const void *code) {
    check_access({(char *)pointer, bytes, true, true, true, code});
}

}  // namespace noeira
