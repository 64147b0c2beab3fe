// Device and pinned memory, copies and fills.
#include "driver.hpp"

#include <cstdlib>
#include <cstring>

namespace fake {

static const size_t ALIGNMENT = 512;                // what cuMemAlloc gives on devices
static std::map<char *, size_t> on_device, pinned;  // start -> bytes
static size_t used = 0;

// Whether `bytes` bytes from `at` lie in one of the blocks: a driver refuses copies that leave an
// allocation.
static bool inside(const std::map<char *, size_t> &blocks, const void *at, size_t bytes) {
    auto next = blocks.upper_bound((char *)at);
    if (next == blocks.begin()) return false;
    const auto &block = *--next;
    return (char *)at + bytes <= block.first + block.second;
}
static bool inside(CUdeviceptr at, size_t bytes) { return inside(on_device, (void *)at, bytes); }

// Fresh memory is all ones, a NaN in every float type: nobody can rely on what was there.
static char *fresh(size_t bytes) {
    char *block = (char *)aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (block) memset(block, 0xff, bytes);
    return block;
}

void release_all_memory() {
    for (auto &block : on_device) free(block.first);
    on_device.clear();
    used = 0;
}

static CUresult copy(void *to, const void *from, size_t bytes, CUstream stream) {
    return put(stream, [=] {
        memmove(to, from, bytes);
        return CUDA_SUCCESS;
    });
}

// Only between pinned and device memory is a copy left for later. From other memory of the host it
// has read all before it returns, and to such memory it has written all: that is what drivers
// promise.
static CUresult copy_in(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    if (!inside(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (inside(pinned, from, bytes)) return copy((void *)to, from, bytes, stream);
    const char *start = (const char *)from;
    return put(stream, [to, bytes, kept = std::vector<char>(start, start + bytes)] {
        memcpy((void *)to, kept.data(), bytes);
        return CUDA_SUCCESS;
    });
}

static CUresult copy_out(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    if (!inside(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
    CUresult error = copy(to, (void *)from, bytes, stream);
    if (error || inside(pinned, to, bytes)) return error;
    return cuStreamSynchronize(stream);
}

static CUresult copy_on_device(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    if (!inside(to, bytes) || !inside(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
    return copy((void *)to, (void *)from, bytes, stream);
}

template <class Unit>
CUresult fill(CUdeviceptr to, Unit value, size_t count, CUstream stream) {
    if (!inside(to, count * sizeof(Unit)) || to % sizeof(Unit)) return CUDA_ERROR_INVALID_VALUE;
    return put(stream, [=] {
        for (size_t i = 0; i < count; i++) ((Unit *)to)[i] = value;
        return CUDA_SUCCESS;
    });
}

// What follows a call that is not asynchronous.
static CUresult wait(CUresult error) { return error ? error : cuStreamSynchronize(nullptr); }

}  // namespace fake

using namespace fake;

extern "C" {

CUresult cuMemGetInfo(size_t *available, size_t *total) {
    ENTER();
    *total = settings().memory;
    *available = *total - used;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *at, size_t bytes) {
    ENTER();
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > settings().memory - used) return CUDA_ERROR_OUT_OF_MEMORY;
    char *block = fresh(bytes);
    if (!block) return CUDA_ERROR_OUT_OF_MEMORY;
    on_device[block] = bytes;
    used += bytes;
    *at = (CUdeviceptr)block;
    return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr at) {
    ENTER();
    auto block = on_device.find((char *)at);
    if (block == on_device.end()) return CUDA_ERROR_INVALID_VALUE;
    run_everything();
    used -= block->second;
    free(block->first);
    on_device.erase(block);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr *start, size_t *bytes, CUdeviceptr at) {
    ENTER();
    if (!inside(at, 1)) return CUDA_ERROR_NOT_FOUND;
    auto block = --on_device.upper_bound((char *)at);
    if (start) *start = (CUdeviceptr)block->first;
    if (bytes) *bytes = block->second;
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **at, size_t bytes, unsigned) {
    ENTER();
    char *block = bytes ? fresh(bytes) : nullptr;
    if (!block) return CUDA_ERROR_INVALID_VALUE;
    pinned[block] = bytes;
    *at = block;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocHost(void **at, size_t bytes) { return cuMemHostAlloc(at, bytes, 0); }

CUresult cuMemFreeHost(void *at) {
    ENTER();
    if (!pinned.erase((char *)at)) return CUDA_ERROR_INVALID_VALUE;
    run_everything();
    free(at);
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void *at, size_t bytes, unsigned) {
    ENTER();
    pinned[(char *)at] = bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *at) {
    ENTER();
    run_everything();
    return pinned.erase((char *)at) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream s) {
    ENTER();
    return copy_in(to, from, bytes, s);
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream s) {
    ENTER();
    return copy_out(to, from, bytes, s);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
    ENTER();
    return copy_on_device(to, from, bytes, s);
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
    ENTER();
    return wait(copy_in(to, from, bytes, nullptr));
}
CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
    ENTER();
    return wait(copy_out(to, from, bytes, nullptr));
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    ENTER();
    return copy_on_device(to, from, bytes, nullptr);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream s) {
    ENTER();
    return fill(to, value, count, s);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream s) {
    ENTER();
    return fill(to, value, count, s);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream s) {
    ENTER();
    return fill(to, value, count, s);
}
CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
    ENTER();
    return fill(to, value, count, nullptr);
}
CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
    ENTER();
    return fill(to, value, count, nullptr);
}
CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
    ENTER();
    return fill(to, value, count, nullptr);
}

}  // extern "C"
