#include "milc_glue/solve/eigen_file.h"
#include "gpu_kernels/machine/backend/host_threads.h"
#include "gpu_kernels/machine/backend/open_file.h"
#include "gpu_kernels/machine/backend/quoted.h"
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <sys/stat.h>

namespace milcgpu {

namespace {

constexpr size_t time_bytes = 64;

int32_t turned_round(int32_t number) { return int32_t(__builtin_bswap32(uint32_t(number))); }

std::string text_of(const std::array<int, 4> &n) { return format("%d x %d x %d x %d", n[0], n[1], n[2], n[3]); }

// |v|^2: NaN or infinity where one of its numbers is.
template <class Real> double norm_of(const void *data, size_t count) {
    const Real *const reals = static_cast<const Real *>(data);
    double sum = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : sum) if (count * sizeof(Real) >= few_bytes)
    for (size_t k = 0; k < count; ++k)
        sum += double(reals[k]) * reals[k];
    return sum;
}
template <class Real> size_t first_not_finite(const void *data, size_t count) {
    const Real *const reals = static_cast<const Real *>(data);
    return std::find_if(reals, reals + count, [](Real x) { return !std::isfinite(x); }) - reals;
}

} // namespace

// ---- reading

EigenFileReader::~EigenFileReader() {
    if (file_ != nullptr)
        std::fclose(file_);
}

void EigenFileReader::fail(size_t byte, const std::string &what, Status status) const {
    throw Error(status, format("%s, byte %zu: %s", quoted_name(path_).c_str(), byte, what.c_str()));
}

void EigenFileReader::read(void *to, size_t bytes) {
    const long at = std::ftell(file_);
    if (std::fread(to, 1, bytes, file_) != bytes)
        fail(size_t(at), format("%zu bytes cannot be read; check the disk", bytes));
}

void EigenFileReader::open(const std::string &path, const std::array<int, 4> &extents) {
    path_ = path;
    struct stat there;
    errno = 0;
    if (stat(path.c_str(), &there) != 0 || !S_ISREG(there.st_mode) ||
        (file_ = fdopen(open_file(path.c_str(), O_RDONLY | O_NONBLOCK), "rb")) == nullptr)
        throw Error(Status::bad_argument,
                    format("%s cannot be opened (%s); check its name and its permissions", quoted_name(path).c_str(),
                           errno != 0 ? std::strerror(errno) : "it is not a plain file"));
    const size_t size = size_t(there.st_size);
    const char *const truncated = "it is truncated or damaged: copy it again";
    if (size < head_.values_at())
        fail(size, format("the file ends inside its header; %s", truncated));
    std::array<int32_t, 4> n;
    char time[time_bytes];
    int32_t order, parity, count;
    read(&n, sizeof n), read(time, sizeof time), read(&order, 4), read(&parity, 4), read(&count, 4);
    constexpr unsigned char lime[] = {0x45, 0x67, 0x89, 0xab};
    if (std::memcmp(&n, lime, sizeof lime) == 0)
        fail(0, "the file is a QIO file (LIME), and the library reads only eigenvector files without QIO; read it with "
                "MILC (reload_parallel_ks_eigen or reload_serial_ks_eigen), or write it with a MILC without QIO "
                "(save_serial_ks_eigen)");
    if (std::equal(n.begin(), n.end(), extents.begin(), [](int32_t a, int b) { return turned_round(a) == b; }))
        fail(0, "the file was written on a machine with the other byte order; write it on a machine like this one");
    if (!std::equal(n.begin(), n.end(), extents.begin()))
        fail(0, format("the file is of a lattice of %s sites, this one has %s; or it is not a file of "
                       "eigenvectors that MILC writes without QIO",
                       text_of({n[0], n[1], n[2], n[3]}).c_str(), text_of(extents).c_str()));
    if (order != 0)
        fail(80, "the sites are in an order of their own; save the file with MILC as a serial file");
    if (parity == 3)
        fail(84, "the vectors are of both parities, and the library reads vectors of one parity; save the even ones");
    if (parity != 1 && parity != 2)
        fail(84, format("the parity is %d: must be 2 (even) or 1 (odd); %s", parity, truncated));
    head_ = {extents, parity, count, Precision::single};
    const double values = 8.0 * count, single = double(head_.vector_bytes()) * count;
    if (count < 1)
        fail(88, format("there are %d vectors; %s", count, truncated));
    if (size_t(count) > 3 * head_.sites())
        fail(88, format("there are %d vectors, and a parity of this lattice has %zu; %s", count, 3 * head_.sites(),
                        truncated));
    const double sizes[2] = {100 + values + single, 100 + values + 2 * single};
    if (double(size) != sizes[0] && double(size) != sizes[1])
        fail(size, format("the file should have %.0f bytes, or %.0f in double, for %d vectors; %s", sizes[0], sizes[1],
                          count, truncated));
    head_.real = double(size) == sizes[0] ? Precision::single : Precision::double_;
    values_.resize(size_t(count));
    read(values_.data(), 8 * values_.size());
    for (int k = 0; k < count; ++k)
        if (!std::isfinite(values_[k]))
            fail(head_.values_at() + 8 * size_t(k), format("l of vector %d is NaN or infinity; %s", k, truncated),
                 Status::nan_or_inf);
}

void EigenFileReader::next(void *vector) {
    const size_t bytes = head_.vector_bytes(), count = 6 * head_.sites(), real = real_bytes(head_.real);
    read(vector, bytes);
    sums_.add(vector, bytes);
    const bool is_double = head_.real == Precision::double_;
    const double norm = is_double ? norm_of<double>(vector, count) : norm_of<float>(vector, count);
    const int k = done_++;
    if (norm > 0 && norm < INFINITY)
        return;
    if (norm == 0)
        fail(head_.vector_at(k), format("vector %d is 0; the file is damaged: copy it again", k));
    const size_t place = is_double ? first_not_finite<double>(vector, count) : first_not_finite<float>(vector, count);
    fail(head_.vector_at(k) + std::min(place, count - 1) * real,
         format("vector %d has NaN or infinity; the file is damaged: copy it again", k), Status::nan_or_inf);
}

void EigenFileReader::finish() {
    uint32_t stored[2];
    read(stored, sizeof stored);
    if (stored[0] != sums_.sum29() || stored[1] != sums_.sum31())
        fail(head_.vector_at(0), format("the vectors have the checksum %x %x, and the file says %x %x; they are "
                                        "damaged: copy the file again",
                                        sums_.sum29(), sums_.sum31(), stored[0], stored[1]));
}

// ---- writing

void EigenFileWriter::write(const void *data, size_t bytes) {
    file_.write(data, bytes);
    if (file_.failure() != 0)
        file_.finish(); // throws
}

void EigenFileWriter::open(const std::string &path, const EigenFileHead &head, const std::vector<double> &values,
                           const std::string &time) {
    head_ = head;
    file_.open(path, double(head.bytes()));
    const std::array<int32_t, 4> n{head.extents[0], head.extents[1], head.extents[2], head.extents[3]};
    char stamp[time_bytes] = {};
    time.copy(stamp, time_bytes - 1);
    const int32_t order = 0, parity = head.parity, count = head.count;
    write(&n, sizeof n), write(stamp, sizeof stamp), write(&order, 4), write(&parity, 4), write(&count, 4);
    write(values.data(), 8 * values.size());
}

void EigenFileWriter::next(const void *vector) {
    sums_.add(vector, head_.vector_bytes());
    write(vector, head_.vector_bytes());
}

void EigenFileWriter::finish() {
    const uint32_t sums[2] = {sums_.sum29(), sums_.sum31()};
    write(sums, sizeof sums);
    file_.finish();
}

} // namespace milcgpu
