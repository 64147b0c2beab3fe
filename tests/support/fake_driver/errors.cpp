// What each error code is called. A real driver says no more than this, so the tests of our
// messages see no more.
#include "driver.hpp"

struct Text {
    CUresult code;
    const char *name, *words;
};
#define TEXT(code, words) {code, #code, words}
static const Text texts[] = {
    TEXT(CUDA_SUCCESS, "no error"),
    TEXT(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    TEXT(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    TEXT(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    TEXT(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    TEXT(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    TEXT(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    TEXT(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    TEXT(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    TEXT(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    TEXT(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    TEXT(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    TEXT(CUDA_ERROR_NOT_READY, "device not ready"),
    TEXT(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    TEXT(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    TEXT(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    TEXT(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
        "system has unsupported display driver / cuda driver combination"),
    TEXT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    TEXT(CUDA_ERROR_UNKNOWN, "unknown error"),
};

static const Text &find(CUresult code) {
    for (const Text &text : texts)
        if (text.code == code) return text;
    return texts[sizeof texts / sizeof *texts - 1];
}

extern "C" {
CUresult cuGetErrorName(CUresult code, const char **name) {
    *name = find(code).name;
    return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult code, const char **words) {
    *words = find(code).words;
    return CUDA_SUCCESS;
}
}
