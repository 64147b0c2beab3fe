// One launch: its sizes looked at, its blocks run, its faults told.
#include <pthread.h>
#include <stdio.h>

#include "checker.h"
#include "faults.h"
#include "scheduler.h"

namespace noeira {

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

// A forked child does not have the thread that may hold the lock.
__attribute__((constructor)) static void renew_after_fork() {
    pthread_atfork(nullptr, nullptr, [] { mutex = PTHREAD_MUTEX_INITIALIZER; });
}

// What a GPU would refuse; NULL if nothing.
static const char *refusal(const unsigned *size, size_t shared_bytes) {
    uint64_t threads = (uint64_t)size[3] * size[4] * size[5];
    if (threads == 0 || threads > MOST_THREADS || size[5] > 64)
        return "a block has 1 to 1024 threads, and 64 at most in its third dimension";
    if (size[0] == 0 || size[1] == 0 || size[2] == 0 || size[0] > 0x7fffffffu || size[1] > 65535
        || size[2] > 65535)
        return "a grid has 1 to 2147483647 x 65535 x 65535 blocks";
    return shared_bytes > NOEIRA_DYNAMIC_BYTES ? "a block has 232448 bytes of shared memory at most"
                                               : nullptr;
}

static void place_threads() {
    for (unsigned i = 0; i < machine.threads; i++) {
        Thread &thread = machine.thread[i];
        thread.number = i;
        thread.lane = i % WARP;
        thread.warp = i / WARP;
        thread.index.x = i % block_size.x;
        thread.index.y = i / block_size.x % block_size.y;
        thread.index.z = i / block_size.x / block_size.y;
    }
}

static int run(const Kernel &kernel, void **arguments, const unsigned *size, size_t shared_bytes,
    const int *options, char *message, size_t message_size) {
    machine.kernel = kernel;
    machine.arguments = arguments;
    machine.order = (Order)options[0];
    machine.random = (uint64_t)(unsigned)options[1] + 1;
    machine.checking = options[2] != 0;
    machine.shared_bytes = shared_bytes;
    grid_size = dim3(size[0], size[1], size[2]);
    block_size = dim3(size[3], size[4], size[5]);
    machine.blocks = (uint64_t)size[0] * size[1] * size[2];
    machine.threads = size[3] * size[4] * size[5];
    machine.warps = (machine.threads + WARP - 1) / WARP;
    place_threads();
    forget_faults();
    if (machine.checking && !check_launch_begins()) {
        snprintf(message, message_size, "launch: the host has no memory for the checker");
        return 1;
    }
    run_grid();
    if (machine.checking) check_launch_ends();
    machine.checking = false;
    print_faults(message, message_size);
    return fault_count() > 0;
}

int launch(const Kernel &kernel, void **arguments, const unsigned *grid_and_block,
    size_t shared_bytes, const int *options, char *message, size_t message_size) {
    const char *refused = refusal(grid_and_block, shared_bytes);
    if (refused != nullptr) {
        snprintf(message, message_size, "launch: %s", refused);
        return 1;
    }
    pthread_mutex_lock(&mutex);
    int status
        = run(kernel, arguments, grid_and_block, shared_bytes, options, message, message_size);
    pthread_mutex_unlock(&mutex);
    return status;
}

}  // namespace noeira
