// cuBLAS, for comparison of matrix products. It is loaded at run time, so neither build nor link needs it. Names and
// numbers are from its reference manual, https://docs.nvidia.com/cuda/cublas. Matrices are column-major.
#pragma once
#include <complex>
#include <dlfcn.h>
#include <initializer_list>
#include <type_traits>

namespace examples {

class Cublas {
  public:
    enum Operation { plain = 0, transposed = 1, adjoint = 2 };
    using Complex = std::complex<double>;
    using ComplexFloat = std::complex<float>;

    explicit Cublas(void *stream) {
        for (const char *name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"})
            if (library_ == nullptr)
                library_ = dlopen(name, RTLD_NOW);
        int (*create)(void **) = nullptr;
        int (*set_stream)(void *, void *) = nullptr;
        if (library_ == nullptr || !find(create, "cublasCreate_v2") || !find(set_stream, "cublasSetStream_v2") ||
            create(&handle_) != 0 || set_stream(handle_, stream) != 0)
            handle_ = nullptr;
    }
    Cublas(const Cublas &) = delete;
    ~Cublas() {
        int (*destroy)(void *) = nullptr;
        if (handle_ != nullptr && find(destroy, "cublasDestroy_v2"))
            destroy(handle_);
    }
    explicit operator bool() const { return handle_ != nullptr; }

    // If true, products in single precision use the matrix units (TF32); otherwise plain FP32, which is the default.
    bool use_tf32(bool yes) {
        int (*set)(void *, int) = nullptr;
        return find(set, "cublasSetMathMode") && set(handle_, yes ? 3 : 0) == 0;
    }

    // c = op(a) b for each of `batch` matrices, `*_apart` numbers apart. op(a): m x k, b: k x n. Returns false on
    // failure.
    struct Matrices {
        const void *data;
        int rows_apart; // leading dimension
        long long apart;
    };
    template <class T>
    bool multiply(Operation op, int m, int n, int k, const Matrices &a, const Matrices &b, const Matrices &c,
                  int batch = 1) {
        const T one = 1, zero = 0;
        if (batch == 1) {
            int (*gemm)(void *, int, int, int, int, int, const T *, const void *, int, const void *, int, const T *,
                        const void *, int) = nullptr;
            return find(gemm, std::is_same<T, float>::value     ? "cublasSgemm_v2"
                              : std::is_same<T, Complex>::value ? "cublasZgemm_v2"
                                                                : "cublasCgemm_v2") &&
                   gemm(handle_, op, plain, m, n, k, &one, a.data, a.rows_apart, b.data, b.rows_apart, &zero, c.data,
                        c.rows_apart) == 0;
        }
        int (*gemm)(void *, int, int, int, int, int, const T *, const void *, int, long long, const void *, int,
                    long long, const T *, const void *, int, long long, int) = nullptr;
        return find(gemm,
                    std::is_same<T, Complex>::value ? "cublasZgemmStridedBatched" : "cublasCgemmStridedBatched") &&
               gemm(handle_, op, plain, m, n, k, &one, a.data, a.rows_apart, a.apart, b.data, b.rows_apart, b.apart,
                    &zero, c.data, c.rows_apart, c.apart, batch) == 0;
    }
    // The upper half of c = a^dag a, n x n; a: k x n.
    template <class T> bool hermitian(int n, int k, const Matrices &a, const Matrices &c) {
        using Real = typename T::value_type;
        const Real one = 1, zero = 0;
        int (*herk)(void *, int, int, int, int, const Real *, const void *, int, const Real *, const void *, int) =
            nullptr;
        const int upper = 1;
        return find(herk, std::is_same<T, Complex>::value ? "cublasZherk_v2" : "cublasCherk_v2") &&
               herk(handle_, upper, adjoint, n, k, &one, a.data, a.rows_apart, &zero, c.data, c.rows_apart) == 0;
    }

  private:
    template <class Function> bool find(Function &function, const char *name) const {
        function = reinterpret_cast<Function>(dlsym(library_, name));
        return function != nullptr;
    }
    void *library_ = nullptr, *handle_ = nullptr;
};

} // namespace examples
