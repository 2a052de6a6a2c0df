#include "tests/cuda_faults/wrap.h"

namespace planted {

namespace {

struct State {
    long left = -1, calls = 0; // calls before the one that fails; -1: none does
    Mode mode = Mode::once;
    bool come = false;
    cudaError_t error = cudaSuccess; // of the planted call
    cudaError_t last = cudaSuccess;  // what cudaGetLastError() is to say
    const char *call = "";
} state;

cudaError_t asked_code = cudaSuccess; // set_code

cudaError_t error_for(Kind kind) {
    return asked_code != cudaSuccess ? asked_code
           : kind == Kind::allocates ? cudaErrorMemoryAllocation
                                     : cudaErrorLaunchFailure;
}

// What this call is to return instead; success: nothing, it is done.
cudaError_t due(const char *name, Kind kind) {
    ++state.calls;
    if (state.come && state.mode == Mode::ever_after &&
        (state.error != cudaErrorMemoryAllocation || kind == Kind::allocates))
        return state.last = state.error;
    if (state.left < 0 || state.left-- > 0)
        return cudaSuccess;
    state.come = true;
    state.call = name;
    return state.last = state.error = error_for(kind);
}

template <class Real, class... Arguments>
cudaError_t call(const char *name, Kind kind, Real real, Arguments... arguments) {
    const cudaError_t error = due(name, kind);
    if (error == cudaSuccess)
        return real(arguments...);
    if (kind == Kind::ends)
        real(arguments...);
    return error;
}

} // namespace

void plant(long after, Mode mode) {
    state = State();
    state.left = after;
    state.mode = mode;
}
void set_code(int code) { asked_code = static_cast<cudaError_t>(code); }
void count_only() { plant(-1, Mode::once); }
bool lift() {
    const bool come = state.come;
    state.left = -1;
    state.come = false;
    state.last = cudaSuccess;
    return come;
}
const char *failed_call() { return state.call; }
long calls() { return state.calls; }
bool was_allocation() { return state.error == cudaErrorMemoryAllocation; }

} // namespace planted

using namespace planted;

// The name may be a macro of the header, so it is expanded once more.
#define WRAP(kind, name, parameters, ...) WRAP_(kind, name, parameters, __VA_ARGS__)
#define WRAP_(kind, name, parameters, ...)                                                                             \
    extern "C" __attribute__((weak)) decltype(name) __real_##name;                                                     \
    extern "C" cudaError_t __wrap_##name parameters { return call(#name, Kind::kind, &__real_##name, __VA_ARGS__); }
#define DECLARE_REAL(name) extern "C" __attribute__((weak)) decltype(name) __real_##name

WRAP(begins, cudaDeviceGetAttribute, (int *v, cudaDeviceAttr a, int d), v, a, d)
WRAP(begins, cudaDeviceGetStreamPriorityRange, (int *least, int *greatest), least, greatest)
WRAP(begins, cudaDeviceEnablePeerAccess, (int d, unsigned f), d, f)
WRAP(begins, cudaEventCreateWithFlags, (cudaEvent_t * e, unsigned f), e, f)
WRAP(ends, cudaEventDestroy, (cudaEvent_t e), e)
WRAP(begins, cudaEventElapsedTime, (float *t, cudaEvent_t a, cudaEvent_t b), t, a, b)
WRAP(begins, cudaEventRecord, (cudaEvent_t e, cudaStream_t s), e, s)
WRAP(ends, cudaEventQuery, (cudaEvent_t e), e)
WRAP(ends, cudaEventSynchronize, (cudaEvent_t e), e)
WRAP(ends, cudaFree, (void *p), p)
WRAP(ends, cudaFreeAsync, (void *p, cudaStream_t s), p, s)
WRAP(ends, cudaFreeHost, (void *p), p)
WRAP(begins, cudaFuncGetAttributes, (cudaFuncAttributes * a, const void *f), a, f)
WRAP(begins, cudaFuncSetAttribute, (const void *f, cudaFuncAttribute a, int v), f, a, v)
WRAP(begins, cudaGetDevice, (int *d), d)
WRAP(begins, cudaGetDeviceCount, (int *n), n)
WRAP(begins, cudaGetDeviceProperties, (cudaDeviceProp * p, int d), p, d)
WRAP(begins, cudaGetSymbolAddress, (void **p, const void *s), p, s)
WRAP(ends, cudaGraphDestroy, (cudaGraph_t g), g)
WRAP(ends, cudaGraphExecDestroy, (cudaGraphExec_t g), g)
WRAP(begins, cudaGraphInstantiate, (cudaGraphExec_t * e, cudaGraph_t g, unsigned long long f), e, g, f)
WRAP(begins, cudaGraphLaunch, (cudaGraphExec_t g, cudaStream_t s), g, s)
WRAP(begins, cudaGraphUpload, (cudaGraphExec_t g, cudaStream_t s), g, s)
WRAP(allocates, cudaHostAlloc, (void **p, size_t n, unsigned f), p, n, f)
WRAP(begins, cudaHostGetDevicePointer, (void **p, void *h, unsigned f), p, h, f)
WRAP(begins, cudaHostRegister, (void *p, size_t n, unsigned f), p, n, f)
WRAP(ends, cudaHostUnregister, (void *p), p)
WRAP(ends, cudaIpcCloseMemHandle, (void *p), p)
WRAP(begins, cudaIpcGetMemHandle, (cudaIpcMemHandle_t * h, void *p), h, p)
WRAP(begins, cudaIpcOpenMemHandle, (void **p, cudaIpcMemHandle_t h, unsigned f), p, h, f)
WRAP(begins, cudaLaunchKernelExC, (const cudaLaunchConfig_t *c, const void *f, void **a), c, f, a)
WRAP(allocates, cudaMalloc, (void **p, size_t n), p, n)
WRAP(allocates, cudaMallocFromPoolAsync, (void **p, size_t n, cudaMemPool_t m, cudaStream_t s), p, n, m, s)
WRAP(allocates, cudaMallocHost, (void **p, size_t n), p, n)
WRAP(begins, cudaMemGetInfo, (size_t * a, size_t *b), a, b)
WRAP(begins, cudaMemPoolCreate, (cudaMemPool_t * m, const cudaMemPoolProps *p), m, p)
WRAP(ends, cudaMemPoolDestroy, (cudaMemPool_t m), m)
WRAP(begins, cudaMemPoolGetAttribute, (cudaMemPool_t m, cudaMemPoolAttr a, void *v), m, a, v)
WRAP(begins, cudaMemPoolSetAttribute, (cudaMemPool_t m, cudaMemPoolAttr a, void *v), m, a, v)
WRAP(ends, cudaMemPoolTrimTo, (cudaMemPool_t m, size_t n), m, n)
WRAP(begins, cudaMemcpy2DAsync,
     (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows, cudaMemcpyKind k,
      cudaStream_t s),
     to, to_pitch, from, from_pitch, width, rows, k, s)
WRAP(begins, cudaMemcpyAsync, (void *to, const void *from, size_t n, cudaMemcpyKind k, cudaStream_t s), to, from, n, k,
     s)
WRAP(begins, cudaMemcpyToSymbolAsync,
     (const void *to, const void *from, size_t n, size_t at, cudaMemcpyKind k, cudaStream_t s), to, from, n, at, k, s)
WRAP(begins, cudaMemsetAsync, (void *p, int v, size_t n, cudaStream_t s), p, v, n, s)
WRAP(begins, cudaPointerGetAttributes, (cudaPointerAttributes * a, const void *p), a, p)
WRAP(begins, cudaSetDevice, (int d), d)
WRAP(begins, cudaStreamBeginCapture, (cudaStream_t s, cudaStreamCaptureMode m), s, m)
WRAP(begins, cudaStreamCreateWithPriority, (cudaStream_t * s, unsigned f, int p), s, f, p)
WRAP(begins, cudaStreamCreateWithFlags, (cudaStream_t * s, unsigned f), s, f)
WRAP(ends, cudaStreamQuery, (cudaStream_t s), s)
WRAP(ends, cudaStreamDestroy, (cudaStream_t s), s)
WRAP(ends, cudaStreamSynchronize, (cudaStream_t s), s)
WRAP(begins, cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned f), s, e, f)

// Those that have to do more.
DECLARE_REAL(cudaGetLastError);
extern "C" cudaError_t __wrap_cudaGetLastError() {
    const cudaError_t real = __real_cudaGetLastError();
    due("cudaGetLastError", Kind::begins);
    const cudaError_t said = state.last != cudaSuccess ? state.last : real;
    state.last = cudaSuccess;
    return said;
}

// A capture that fails is over, without a graph.
DECLARE_REAL(cudaStreamEndCapture);
DECLARE_REAL(cudaGraphDestroy);
extern "C" cudaError_t __wrap_cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g) {
    const cudaError_t error = due("cudaStreamEndCapture", Kind::ends), real = __real_cudaStreamEndCapture(s, g);
    if (error == cudaSuccess)
        return real;
    if (real == cudaSuccess && *g != nullptr)
        __real_cudaGraphDestroy(*g);
    *g = nullptr;
    return error;
}

void planted::leave_an_error() { __real_cudaSetDevice(1 << 20); }
