// The ladder of matrix multiplication: C = A B in single precision, n x n, in steps from one thread per element to the
// matrix units. Each step is a kernel (gemm_steps.h, gemm_async.h, gemm_bulk.h), verified, timed and compared with
// cuBLAS. Steps in plain FP32 are compared with cuBLAS in its default mode, steps in TF32 with cuBLAS in its TF32 mode.
//
// It explains the kernels of dense algebra in gpu_kernels/algebra. nvcc compiles it if installed.
#include "examples/lib/arguments.h"
#include "examples/lib/cublas.h"
#include "examples/lib/memory.h"
#include "examples/lib/origin.h"
#include "examples/lib/timing.h"
#if defined(__CUDACC__)
#include "examples/gemm/gemm_bulk.h"
#endif

using namespace milcgpu;
using namespace examples;

namespace {

struct Settings {
    std::string csv;
    int size = 4096;
};

#if defined(__CUDACC__)

using namespace gemm;

struct Step {
    int number;
    const char *what;
    bool tf32;
    std::function<void(Factors, float *, cudaStream_t)> launch;
};

template <class Kernel>
void in_tiles(Kernel kernel, int rows, int columns, int threads, size_t shared, Factors f, float *c,
              cudaStream_t stream) {
    if (shared > 0)
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
    kernel<<<dim3(f.n / rows, f.n / columns), threads, shared, stream>>>(f, c);
}
template <class Kernel> auto tiles(Kernel kernel, int side, int threads) {
    return [=](Factors f, float *c, cudaStream_t stream) { in_tiles(kernel, side, side, threads, 0, f, c, stream); };
}
template <class Tiles, class Kernel> auto ring(Kernel kernel) {
    return [=](Factors f, float *c, cudaStream_t stream) {
        in_tiles(kernel, Tiles::rows, Tiles::columns, Tiles::threads, Tiles::shared_bytes, f, c, stream);
    };
}

std::vector<Step> ladder(int architecture) {
    std::vector<Step> steps = {
        {1, "one thread an element", false,
         [](Factors f, float *c, cudaStream_t s) { plain<<<dim3(f.n / 32, f.n / 32), dim3(32, 32), 0, s>>>(f, c); }},
        {2, "tiles in shared memory", false,
         [](Factors f, float *c, cudaStream_t s) {
             shared_tiles<false, false><<<dim3(f.n / 32, f.n / 32), dim3(32, 32), 0, s>>>(f, c);
         }},
        {3, "one index a thread", false, tiles(shared_tiles<true, false>, 32, 1024)},
        {4, "no bank conflicts", false, tiles(shared_tiles<true, true>, 32, 1024)},
        {5, "4 x 1 elements a thread", false, tiles(four_rows<false>, 32, 256)},
        {6, "16-byte loads", false, tiles(four_rows<true>, 32, 256)},
        {7, "4 x 4 elements in registers", false, tiles(register_tiles<64, 4, 16, false, false, 1>, 64, 256)},
        {8, "8 x 8 elements in registers", false, tiles(register_tiles<128, 8, 8, false, false, 1>, 128, 256)},
        {9, "tiles of warps", false, tiles(register_tiles<128, 8, 8, true, false, 1>, 128, 256)},
        {10, "next tile on its way", false, tiles(register_tiles<128, 8, 8, true, true, 1>, 128, 256)},
        {11, "two buffers", false, tiles(register_tiles<128, 8, 8, true, true, 2>, 128, 256)},
        {12, "asynchronous copies", false, ring<AsyncFp32>(async_fp32)},
        {13, "matrix units by warps", true, ring<AsyncTf32>(async_tf32)}};
    if (architecture == 90)
        steps.push_back({14, "bulk copies and wgmma", true, [](Factors f, float *c, cudaStream_t stream) {
                             using T = BulkTf32;
                             cudaFuncSetAttribute(bulk_tf32, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  T::shared_bytes);
                             const CUtensorMap a = boxes_of(f.a, f.n, T::depth), b = boxes_of(f.b, f.n, T::columns);
                             bulk_tf32<<<dim3(f.n / T::rows, f.n / T::columns), T::threads, T::shared_bytes, stream>>>(
                                 a, b, f.n, c);
                         }});
    return steps;
}

// Errors measured at n = 4096, relative to the sum of |a_ik b_kj|.
double tolerance(bool tf32) { return times_measured * (tf32 ? 5.6e-5 : 1.8e-7); }

// Compares 64 x 64 elements with sums in double; every tile has some of these elements.
double error_of(const std::vector<float> &a, const std::vector<float> &b, const std::vector<float> &c, int n) {
    double worst = 0;
#pragma omp parallel for reduction(max : worst)
    for (int place = 0; place < 64 * 64; ++place) {
        const size_t i = place % 64 * (n / 64) + place * 7 % (n / 64), j = place / 64 * (n / 64) + place * 5 % (n / 64);
        double sum = 0, size = 0;
        for (int k = 0; k < n; ++k) {
            const double term = double(a[i + size_t(k) * n]) * b[k + j * n];
            sum += term, size += std::fabs(term);
        }
        const double error = std::fabs(c[i + j * n] - sum) / size;
        if (!(error <= worst))
            worst = std::isnan(error) ? HUGE_VAL : error;
    }
    return worst;
}

int climb(const Settings &settings) {
    const int n = settings.size;
    need_memory(format("three matrices of %d x %d", n, n), 12.0 * n * n);
    Device device(Backend::cuda, 0);
    const auto stream = static_cast<cudaStream_t>(device.stream());
    cudaDeviceProp gpu;
    cudaGetDeviceProperties(&gpu, 0);
    const size_t numbers = size_t(n) * n;
    std::vector<float> a(numbers), b(numbers), c(numbers);
    uint32_t state = 1;
    for (std::vector<float> *v : {&a, &b})
        for (float &x : *v)
            x = static_cast<int32_t>(state = state * 1664525u + 1013904223u) * 0x1p-31f;
    const DeviceArray<float> da(device, numbers, "A"), db(device, numbers, "B"), dc(device, numbers, "C");
    device.copy_to_device(da.data(), a.data(), da.bytes());
    device.copy_to_device(db.data(), b.data(), db.bytes());
    Wrong wrong;
    Csv csv;
    csv.open("--csv", settings.csv,
             with_card({"step", "what", "precision", "us", "gflops", "percent_of_cublas", "error"}));
    std::printf("%s\nC = A B, %d x %d, single precision\n%4s %-32s %-9s %10s %9s %11s %8s\n",
                device.description().c_str(), n, n, "step", "", "precision", "us", "GFLOPS", "% of cuBLAS", "error");

    Cublas cublas(device.stream());
    double of_cublas[2] = {0, 0}; // seconds: FP32, TF32
    const auto line = [&](const std::string &number, const char *what, bool tf32, const auto &launch) {
        device.fill_zero(dc.data(), dc.bytes());
        const double seconds = median_seconds(device, 5, 2, launch);
        if (const cudaError_t failed = cudaGetLastError())
            return wrong.add(format("step %s, %s: %s", number.c_str(), what, cudaGetErrorString(failed)));
        device.copy_to_host(c.data(), dc.data(), dc.bytes());
        const double error = error_of(a, b, c, n), gflops = 2e-9 * n * numbers / seconds;
        if (number == "cuBLAS")
            of_cublas[tf32] = seconds;
        const double percent = 100 * of_cublas[tf32] / seconds;
        const char *precision = tf32 ? "TF32" : "FP32";
        std::printf("%4s %-32s %-9s %10.1f %9.0f %11.1f %8.1e\n", number.c_str(), what, precision, seconds * 1e6,
                    gflops, percent, error);
        csv.row(number, what, precision, seconds * 1e6, gflops, percent, error, card_cells(device.description()));
        if (!(error <= tolerance(tf32)))
            wrong.add(format("step %s, %s: error %.2e, but at most %.2e is allowed", number.c_str(), what, error,
                             tolerance(tf32)));
    };
    for (const bool tf32 : {false, true})
        if (cublas && cublas.use_tf32(tf32))
            line("cuBLAS", tf32 ? "TF32 mode" : "default mode", tf32, [&] {
                cublas.multiply<float>(Cublas::plain, n, n, n, {da.data(), n, 0}, {db.data(), n, 0}, {dc.data(), n, 0});
            });
    for (const Step &step : ladder(10 * gpu.major + gpu.minor))
        line(std::to_string(step.number), step.what, step.tf32, [&] {
            step.launch({da.data(), db.data(), n}, dc.data(), stream);
        });
    csv.finish();
    return wrong.finish();
}

#endif

int run(const Settings &settings) {
    if (settings.size % 256 != 0)
        throw ArgumentError("--size must be a multiple of 256");
#if defined(__CUDACC__)
    if (Device::gpu_count() > 0)
        return climb(settings);
#endif
    throw std::runtime_error("the kernels of this program need a build with CUDA, and a GPU");
}

} // namespace

int main(int argc, char **argv) {
    Settings settings;
    Arguments arguments("gemm_ladder",
                        "times the steps to a fast matrix multiplication, and compares them with cuBLAS");
    arguments.add("size", "N", settings.size, "rows and columns of the matrices, a multiple of 256",
                  whole(256, 1 << 16));
    arguments.add("csv", "FILE", settings.csv, "write the table into this file", file_name());
    return run_program([&] { return arguments.parse(argc, argv) ? run(settings) : 0; });
}
