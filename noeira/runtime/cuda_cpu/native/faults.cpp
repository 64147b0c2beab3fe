// The list of faults of a launch, and the sentences about threads that wait for ever.
#include "faults.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "checker.h"

namespace noeira {

struct Fault {
    const char *kind;
    uint64_t block;
    unsigned thread;
    int line;
    const void *code, *caller;
    char text[480];
};
static Fault faults[MOST_FAULTS];
static int count;

void report(
    const char *kind, const Thread *thread, int line, const void *code, const char *format, ...) {
    // Under callers[0] is the runtime: callers[1] is where the kernel itself called a function.
    const void *caller = thread->depth > 1 ? thread->callers[1] : nullptr;
    for (int i = 0; i < count; i++) {
        const Fault &known = faults[i];
        bool same_code = line != 0 || known.code == code;
        bool same_place = known.line == line && known.caller == caller && same_code;
        if (same_place && !strcmp(known.kind, kind)) return;
    }
    if (count == MOST_FAULTS) return;
    Fault &fault = faults[count++];
    fault = {kind, machine.block, thread->number, line, code, caller, ""};
    va_list values;
    va_start(values, format);
    vsnprintf(fault.text, sizeof fault.text, format, values);
    va_end(values);
}

void retract(const char *kind, uint32_t place) {
    int kept = 0;
    for (int i = 0; i < count; i++) {
        bool meant = !strcmp(faults[i].kind, kind) && place_of(faults[i].code) == place;
        if (!meant) faults[kept++] = faults[i];
    }
    count = kept;
}

void fail(const char *kind, const char *text, int line) {
    report(kind, self(), line, nullptr, "%s", text);
    abandon();
}

void report_mask(const Thread *thread) {
    report("divergence", thread, thread->line, nullptr,
        "calls %s with mask 0x%08x, in which its own lane %u is missing",
        operation_name(thread->operation), thread->mask, thread->lane);
}

void report_mixed_warp(const Thread *one, const Thread *other) {
    report("divergence", one, one->line, nullptr,
        "waits in %s with mask 0x%08x, but thread %u of its warp waits in %s with mask 0x%08x at "
        "line %d",
        operation_name(one->operation), one->mask, other->number, operation_name(other->operation),
        other->mask, other->line);
}

void report_divergence(const Thread *one, const Thread *other) {
    report("divergence", one, one->line, nullptr,
        "waits at a barrier, but thread %u of its block waits at another one at line %d",
        other->number, other->line);
}

void report_no_memory() {
    report("memory", self(), 0, nullptr, "the host has no memory for another stack");
}

// A thread waits in a warp operation for one that waits at a barrier, or in another operation.
void report_deadlock() {
    for (unsigned i = 0; i < machine.threads; i++) {
        const Thread &thread = machine.thread[i];
        if (thread.state != IN_WARP) continue;
        for (unsigned lane = 0; lane < lanes_of(thread.warp); lane++) {
            const Thread &other = machine.thread[thread.warp * WARP + lane];
            if ((thread.mask >> lane & 1) == 0 || other.state == ENDED) continue;
            if (other.state == IN_WARP && other.mask == thread.mask) continue;
            report("deadlock", &thread, thread.line, nullptr,
                "waits in %s with mask 0x%08x for thread %u, which waits in %s at line %d",
                operation_name(thread.operation), thread.mask, other.number,
                other.state == IN_WARP ? operation_name(other.operation) : "__syncthreads",
                other.line);
            return;
        }
    }
}

void forget_faults() { count = 0; }
int fault_count() { return count; }

// A line that is known, or the place in the unit's code that tells it.
static void print_place(char *text, size_t size, int line, const void *code) {
    if (line != 0) snprintf(text, size, "line %d", line);
    else snprintf(text, size, "{0x%x}", place_of(code));
}

static size_t print_fault(char *text, size_t size, const Fault &fault) {
    char place[40], inner[80] = "";
    print_place(place, sizeof place, fault.line, fault.code);
    if (fault.caller != nullptr) {
        snprintf(inner, sizeof inner, " (in a function it calls, at %s)", place);
        print_place(place, sizeof place, 0, fault.caller);
    }
    return snprintf(text, size, "%s at %s, block %llu, thread %u: %s%s", fault.kind, place,
        (unsigned long long)fault.block, fault.thread, fault.text, inner);
}

void print_faults(char *message, size_t size) {
    size_t end = 0;
    if (size > 0) message[0] = 0;
    for (int i = 0; i < count; i++) {
        char line[700];
        size_t length = print_fault(line, sizeof line, faults[i]);
        if (i == 0 && length >= size) snprintf(message, size, "%s", line);
        if (end + length + 2 > size) return;
        if (end > 0) message[end++] = '\n';
        memcpy(message + end, line, length + 1);
        end += length;
    }
}

}  // namespace noeira
