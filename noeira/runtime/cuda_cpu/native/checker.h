// Check mode: what kernels may touch, and whether their accesses are in order.
#pragma once
#include "scheduler.h"

namespace noeira {

enum { INITIALISED = 1, WRITABLE = 2, SHARED = 4 };

// Memory that a kernel may touch, as the caller of a launch describes it. `written` has a byte for
// each `granule` bytes, set when one is written, and is kept by the caller from launch to launch;
// shared memory needs none.
struct Described {
    char *pointer;
    size_t bytes;
    const char *name;
    unsigned char *written;
    unsigned granule, flags;
};

// The last write and the last read of `Region::cell_bytes` bytes. An epoch is the time from one
// barrier of one block to the next; 0 is never. Threads are numbers in their block; a time is the
// thread's own clock, which __syncwarp advances. Codes are places in the unit's code.
struct Cell {
    uint32_t write_epoch, read_epoch;
    uint16_t writer, reader, write_time, read_time;
    uint32_t write_code, read_code;
    uint8_t written, crowd;
};
// How the last write was made. An atomic one conflicts with no other atomic; but a plain one before
// it in the block, which may have been in order for this block, conflicts with those of others.
enum { PLAINLY, ATOMICALLY, ATOMICALLY_AFTER_PLAINLY };
// Who has read since the last write: one thread, several of a warp, of a block, of the grid.
enum { ALONE, IN_A_WARP, IN_A_BLOCK, IN_THE_GRID };

struct Region {
    Described is;
    unsigned cell_bytes;
    Cell *cells;
    char *end() const { return is.pointer + is.bytes; }
    bool shared() const { return (is.flags & SHARED) != 0; }
};

struct Access {
    char *pointer;
    size_t bytes;
    bool reads, writes, atomic;
    const void *code;  // where in the unit
};

// Looks at an access before it is made; ends the thread where it must not be made.
void check_access(const Access &access);
// Ends the running thread before it does what it must not.
[[noreturn]] void refuse();
// Says whether any memory beyond the unit is known, and finds what an address belongs to.
bool knows_regions();
Region *region_at(const char *pointer);
Region *nearest_region(const char *pointer);
bool in_unit(const char *pointer);
// Makes the cells of a region as small as one byte, once an access needs that.
bool split_cells(Region *region);
bool open_regions();
void close_regions();

// Launches' progress.
bool check_launch_begins();
void check_launch_ends();
void check_block_begins();
void check_barrier();
void check_syncwarp(unsigned warp, unsigned mask);

// A place in the unit's code, counted from its start.
uint32_t place_of(const void *code);

}  // namespace noeira
