// What went wrong in a launch: noted by whoever finds it, told when the launch ends.
#pragma once
#include "scheduler.h"

namespace noeira {

constexpr int MOST_FAULTS = 20;

// Notes a fault of a thread at a line, or at an address of its code (`line` 0), unless one of that
// kind is known there. The text is one sentence; {0x12} in it is a place in the unit's code.
__attribute__((format(printf, 5, 6))) void report(
    const char *kind, const Thread *thread, int line, const void *code, const char *format, ...);

// Takes a fault back that turned out to be a consequence of another.
void retract(const char *kind, uint32_t place);

void report_mask(const Thread *thread);
void report_mixed_warp(const Thread *one, const Thread *other);
void report_divergence(const Thread *one, const Thread *other);
void report_deadlock();
void report_no_memory();

void forget_faults();
int fault_count();
// One line a fault, as much of them as has room:
//   KIND at line LINE, block BLOCK, thread THREAD: TEXT
// with {ADDRESS} for what is known as a place in the unit's code alone, counted from its start. The
// line is one of the kernel's own; if a function that it calls is meant, the text ends with that.
// In fast mode, which keeps no account of calls, it may be the function's.
void print_faults(char *message, size_t size);

}  // namespace noeira
