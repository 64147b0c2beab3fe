// Modules, functions and launches. The "cubin" is a shared library of the emulator; it exports, for
// a kernel K,
//   K__launch(addresses of the arguments, grid and block, bytes of shared memory, options, message,
//   its size) K__layout(offsets of the arguments in a packed buffer) -> how many they are
#include "driver.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace fake {

using Launch = int (*)(void **, const unsigned *, size_t, const int *, char *, size_t);
using Layout = int (*)(unsigned *);

struct Module;
struct Function {
    Launch launch;
    std::vector<unsigned> offsets;
    std::string name;
    int shared = 48 << 10;  // dynamic shared memory it may have: cuFuncSetAttribute raises it
};
struct Module {
    void *library;
    std::map<std::string, std::unique_ptr<Function>> functions;
};

static const unsigned MOST_ARGUMENTS = 1024;
static const size_t LARGEST_LAST_ARGUMENT = 8;

// The architecture of a cubin, from its header: newer compilers write it into the second byte of
// the flags.
static int cubin_architecture(const Elf64_Ehdr *header) {
    const bool newer = header->e_ident[EI_ABIVERSION] >= 8;
    return (newer ? header->e_flags >> 8 : header->e_flags) & 0xff;
}

// A cubin for another architecture is refused as a driver refuses it; one for this architecture
// cannot run here either.
static CUresult refuse_cubin(const Elf64_Ehdr *header) {
    const int architecture = cubin_architecture(header),
              device = settings().major * 10 + settings().minor;
    if (architecture / 10 != device / 10 || architecture > device)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    complain("this is a cubin: the emulated device loads what was built for target cuda-cpu");
    return CUDA_ERROR_INVALID_IMAGE;
}

// Loads a shared library that is in memory. Its file stays open, so that a debugger or addr2line
// can read it.
static void *load(const Elf64_Ehdr *header) {
    const size_t bytes = header->e_shoff + (size_t)header->e_shentsize * header->e_shnum;
    const int file = memfd_create("unit", 0);
    for (size_t done = 0; done < bytes;) {
        const ssize_t written = write(file, (const char *)header + done, bytes - done);
        if (written <= 0) return nullptr;
        done += written;
    }
    return dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
}

static std::unique_ptr<Function> find(const Module *module, const std::string &name) {
    auto launch = (Launch)dlsym(module->library, (name + "__launch").c_str());
    auto layout = (Layout)dlsym(module->library, (name + "__layout").c_str());
    if (!launch || !layout) return nullptr;
    std::vector<unsigned> offsets(MOST_ARGUMENTS);
    offsets.resize(layout(offsets.data()));
    return std::unique_ptr<Function>(new Function{launch, offsets, name});
}

// The arguments as one packed buffer: they are copied at the launch, not when the kernel runs.
static std::vector<char> packed(const Function *function, void **parameters, void **extra) {
    if (extra) {
        const char *buffer = nullptr;
        size_t bytes = 0;
        for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
            if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = (const char *)extra[i + 1];
            if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *(size_t *)extra[i + 1];
        }
        return std::vector<char>(buffer, buffer + bytes);
    }
    const auto &offsets = function->offsets;
    std::vector<char> buffer(offsets.empty() ? 0 : offsets.back() + LARGEST_LAST_ARGUMENT);
    for (size_t i = 0; i < offsets.size(); i++) {
        const size_t end = i + 1 < offsets.size() ? offsets[i + 1] : buffer.size();
        memcpy(&buffer[offsets[i]], parameters[i], end - offsets[i]);
    }
    return buffer;
}

struct Shape {
    unsigned grid_and_block[6];
    unsigned shared;
};

static bool allowed(const Shape &shape, const Function *function) {
    const unsigned *size = shape.grid_and_block;
    for (int i = 0; i < 6; i++)
        if (size[i] == 0) return false;
    return size[0] <= 0x7fffffff && size[1] <= 65535 && size[2] <= 65535 && size[5] <= 64 &&
           (unsigned long long)size[3] * size[4] * size[5] <= 1024 &&
           shape.shared <= (unsigned)function->shared;
}

static CUresult execute(const Function *function, const Shape &shape, std::vector<char> &buffer) {
    std::vector<void *> arguments;
    for (unsigned offset : function->offsets) arguments.push_back(&buffer[offset]);
    const int options[3] = {settings().order, 0, 0};
    char message[1024] = "";
    if (!function->launch(
            arguments.data(), shape.grid_and_block, shape.shared, options, message, sizeof message))
        return CUDA_SUCCESS;
    complain(function->name + ": " + message);
    return CUDA_ERROR_LAUNCH_FAILED;
}

}  // namespace fake

using namespace fake;

extern "C" {

CUresult cuModuleLoadData(CUmodule *handle, const void *image) {
    ENTER();
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG)) return CUDA_ERROR_INVALID_IMAGE;
    if (header->e_machine == EM_CUDA) return refuse_cubin(header);
    void *library = load(header);
    if (!library) {
        complain(dlerror());
        return CUDA_ERROR_INVALID_IMAGE;
    }
    *handle = (CUmodule) new Module{library, {}};
    return CUDA_SUCCESS;
}

// Nothing is compiled here, so the logs that one may ask for are empty.
CUresult cuModuleLoadDataEx(CUmodule *handle, const void *image, unsigned count,
    CUjit_option *options, void **values) {
    for (unsigned i = 0; i < count; i++) {
        const bool info = options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES;
        if (info || options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) values[i] = nullptr;
    }
    return cuModuleLoadData(handle, image);
}

CUresult cuModuleUnload(CUmodule handle) {
    ENTER();
    run_everything();
    Module *module = (Module *)handle;
    dlclose(module->library);
    delete module;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *handle, CUmodule module, const char *name) {
    ENTER();
    auto &function = ((Module *)module)->functions[name];
    if (!function) function = find((Module *)module, name);
    *handle = (CUfunction)function.get();
    return function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction handle) {
    ENTER();
    switch (which) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
            *value = 1024;
            break;
        case CU_FUNC_ATTRIBUTE_NUM_REGS:
            *value = 32;
            break;
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
            *value = settings().major * 10 + settings().minor;
            break;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            *value = ((Function *)handle)->shared;
            break;
        default:
            *value = 0;
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute which, int value) {
    ENTER();
    if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
    if (value < 0 || value > shared_memory_limit()) return CUDA_ERROR_INVALID_VALUE;
    ((Function *)handle)->shared = value;
    return CUDA_SUCCESS;
}

// pycuda calls these two before launches; neither changes a result.
CUresult cuFuncSetBlockShape(CUfunction, int, int, int) {
    ENTER();
    return CUDA_SUCCESS;
}
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) {
    ENTER();
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
    unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, CUstream stream,
    void **parameters, void **extra) {
    ENTER();
    const Function *function = (Function *)handle;
    const Shape shape{{grid_x, grid_y, grid_z, block_x, block_y, block_z}, shared};
    if (!allowed(shape, function)) return CUDA_ERROR_INVALID_VALUE;
    std::vector<char> buffer = packed(function, parameters, extra);
    if (!function->offsets.empty() && buffer.size() <= function->offsets.back())
        return CUDA_ERROR_INVALID_VALUE;
    return put(stream, [=]() mutable { return execute(function, shape, buffer); });
}

}  // extern "C"
