// The device, its attributes, and contexts.
#include "driver.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fake {

std::recursive_mutex lock;
CUresult sticky = CUDA_SUCCESS;

static pid_t initialised_in = 0;
bool initialised() { return initialised_in == getpid(); }

void complain(const std::string &text) { fprintf(stderr, "fake driver: %s\n", text.c_str()); }

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, nullptr, 10) : otherwise;
}

const Settings &settings() {
    static const Settings found = [] {
        Settings s;
        s.init = number("FAKE_CUDA_INIT", 0);
        s.devices = number("FAKE_CUDA_DEVICES", 1);
        s.version = number("FAKE_CUDA_VERSION", 13000);
        s.memory = number("FAKE_CUDA_MEMORY", 1l << 30);
        s.major = 9, s.minor = 0;
        if (const char *text = getenv("FAKE_CUDA_CAPABILITY"))
            sscanf(text, "%d.%d", &s.major, &s.minor);
        const char *order = getenv("FAKE_CUDA_ORDER");
        s.order = !order || !strcmp(order, "forward") ? 0 : !strcmp(order, "reverse") ? 1 : 2;
        return s;
    }();
    return found;
}

// CUDA C++ Programming Guide, "Compute capabilities": shared memory a block may use, less what the
// system takes.
int shared_memory_limit() {
    const int capability = settings().major * 10 + settings().minor;
    const bool large = capability == 80 || capability == 87;
    const bool larger = capability / 10 == 9 || capability / 10 == 10;
    const int kilobytes = capability == 75 ? 64 : large ? 163 : larger ? 227 : 99;
    return kilobytes << 10;
}

// The one primary context. pycuda's contexts are stacks of a thread, so ours are too.
static int primary;
static int retained = 0;
static int created = 0;  // of these, how many by cuCtxCreate
static thread_local std::vector<CUcontext> contexts;
static CUcontext handle() { return (CUcontext)&primary; }
bool current_context() { return !contexts.empty() && retained > 0; }

static int attribute(CUdevice_attribute which) {
    switch (which) {
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
            return 1024;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
            return 64;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
            return 0x7fffffff;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
            return 65535;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
            return 32;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
            return 48 << 10;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
            return shared_memory_limit();
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
            return shared_memory_limit() + 1024;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
            return 65536;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
            return settings().major == 7 ? 1024 : 2048;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
            return 4;
        case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
            return 1000000;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
            return settings().major;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
            return settings().minor;
        case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
        case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
            return 1;
        default:
            return 0;
    }
}

static CUresult device_exists(CUdevice device) {
    if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    return device >= 0 && device < settings().devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace fake

using namespace fake;

extern "C" {

CUresult cuInit(unsigned) {
    if (settings().init) return (CUresult)settings().init;
    if (settings().devices == 0) return CUDA_ERROR_NO_DEVICE;
    if (initialised_in && !initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    initialised_in = getpid();
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
    *version = settings().version;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
    if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    *count = settings().devices;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = ordinal;
    return device_exists(ordinal);
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
    snprintf(name, size, "noeira emulated device");
    return device_exists(device);
}

CUresult cuDeviceGetPCIBusId(char *name, int size, CUdevice device) {
    snprintf(name, size, "0000:%02x:00.0", device);
    return device_exists(device);
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
    *bytes = settings().memory;
    return device_exists(device);
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
    *major = settings().major, *minor = settings().minor;
    return device_exists(device);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
    *value = attribute(which);
    return device_exists(device);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    if (CUresult error = device_exists(device)) return error;
    retained++;
    *context = handle();
    return sticky;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (CUresult error = device_exists(device)) return error;
    if (retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--retained == 0) release_all_memory();
    return CUDA_SUCCESS;
}

// A context of one's own is the primary one here: nothing but the address could tell.
CUresult cuCtxCreate(CUcontext *context, CUctxCreateParams *, unsigned, CUdevice device) {
    CUresult error = cuDevicePrimaryCtxRetain(context, device);
    if (!error) contexts.push_back(*context), created++;
    return error;
}

// For contexts that were created only: a primary one is released.
CUresult cuCtxDetach(CUcontext) {
    if (created == 0) return CUDA_ERROR_INVALID_CONTEXT;
    created--;
    if (!contexts.empty()) contexts.pop_back();
    return cuDevicePrimaryCtxRelease(0);
}

CUresult cuCtxPushCurrent(CUcontext context) {
    if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    if (context != handle()) return CUDA_ERROR_INVALID_CONTEXT;
    contexts.push_back(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context) {
    if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context) *context = contexts.back();
    contexts.pop_back();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    *context = contexts.empty() ? nullptr : contexts.back();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    ENTER();
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext, unsigned *version) {
    *version = settings().version;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
    ENTER();
    return run_everything();
}

}  // extern "C"
