// What the parts of the fake driver share: the device they play, its memory, streams and events.
//
// The library is a libcuda.so.1 whose device is the emulator: its "cubin" is the shared library
// that noeira builds from a program's .cu for the host. It exists for tests, which put it on
// LD_LIBRARY_PATH of a child process. A symbol of cuda.h that no part defines answers
// CUDA_ERROR_NOT_SUPPORTED (stubs.c, written by the build).
#pragma once
#include <cuda.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace fake {

// The device, read once from the environment (context.cpp).
struct Settings {
    int init;          // FAKE_CUDA_INIT: what cuInit answers (0)
    int devices;       // FAKE_CUDA_DEVICES: how many devices there are (1)
    int version;       // FAKE_CUDA_VERSION: the CUDA version of the driver (13000)
    int major, minor;  // FAKE_CUDA_CAPABILITY (9.0)
    size_t memory;     // FAKE_CUDA_MEMORY: bytes of device memory (1 GiB)
    int order;         // FAKE_CUDA_ORDER: forward, reverse or random order of threads and blocks
};
const Settings &settings();
// Bytes of dynamic shared memory that a block can have after cuFuncSetAttribute.
int shared_memory_limit();
// Whether the calling thread has pushed a context.
bool current_context();

// Nothing runs before somebody waits for it (streams.cpp).
using Work = std::function<CUresult()>;

struct Stream {
    unsigned flags = 0;
    std::deque<Work> waiting;
    std::vector<Work> *capture = nullptr;  // a graph that takes what is put on the stream instead
    bool blocking() const { return !(flags & CU_STREAM_NON_BLOCKING); }
};

struct Record {  // one cuEventRecord
    Stream *stream = nullptr;
    double milliseconds = 0;
    bool done = false;
};

struct Event {
    unsigned flags = 0;
    std::shared_ptr<Record> record;  // the latest
};

// The stream of a handle; nullptr if there is none.
Stream *stream_of(CUstream handle);
// Leaves work at the end of a stream.
CUresult put(CUstream handle, Work work);
// Does all that waits on a stream, and on every stream.
CUresult run(Stream *stream);
CUresult run_everything();

// When the primary context goes (memory.cpp).
void release_all_memory();

// Held during every call: the emulator runs on one thread at a time.
extern std::recursive_mutex lock;
// A failed launch: every later call answers with it, as on a device.
extern CUresult sticky;
// Whether cuInit was called, and in this process: a fork loses the device.
bool initialised();
// Says what a real driver would not, for the reader of a test's output.
void complain(const std::string &text);

// Every call that needs a context begins with this.
#define ENTER()                                                      \
    std::lock_guard<std::recursive_mutex> guard(fake::lock);         \
    if (!fake::initialised()) return CUDA_ERROR_NOT_INITIALIZED;     \
    if (!fake::current_context()) return CUDA_ERROR_INVALID_CONTEXT; \
    if (fake::sticky) return fake::sticky;

}  // namespace fake
