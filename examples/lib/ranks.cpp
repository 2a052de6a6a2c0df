// Built with MPI (MILCGPU_WITH_MPI) or without.
#include "examples/lib/ranks.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#if defined(MILCGPU_WITH_MPI)
#include "milc_glue/api/milcgpu_mpi.h"
#endif

namespace examples {

struct Job::Mpi {
#if defined(MILCGPU_WITH_MPI)
    MPI_Comm lent = MPI_COMM_NULL; // lent to the library; the programs use MPI_COMM_WORLD
    milcgpu_messages messages{};
#endif
};

namespace {

// The launcher's variable about the processes that it started; fallback if no variable is set.
int launched(const std::vector<const char *> &names, int fallback) {
    for (const char *name : names)
        if (const char *value = std::getenv(name))
            return std::atoi(value);
    return fallback;
}
int launched_rank() { return launched({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}, 0); }

// From now on drops everything that this process prints, so that only one rank prints.
void be_silent() {
    if (std::freopen("/dev/null", "w", stdout) == nullptr)
        std::fclose(stdout);
}

double product(const std::array<int, 4> &grid) { return 1.0 * grid[0] * grid[1] * grid[2] * grid[3]; }

std::string by(const std::array<int, 4> &grid, const char *between) {
    std::string text = std::to_string(grid[0]);
    for (int mu = 1; mu < 4; ++mu)
        text += between + std::to_string(grid[mu]);
    return text;
}

// Thrown if rank 0 prints the error.
struct SaidByFirst : std::runtime_error {
    SaidByFirst() : std::runtime_error("rank 0 has failed") {}
};

} // namespace

std::string Job::grid() const { return extents_name(grid_); }

void Job::on_first(const std::function<void()> &work) const {
    std::exception_ptr failure;
    if (is_first())
        try {
            work();
        } catch (...) {
            failure = std::current_exception();
        }
    const bool failed = of_first(failure != nullptr);
    if (failure)
        std::rethrow_exception(failure);
    if (failed)
        throw SaidByFirst();
}

Job::Job() {
    occupy_standard_streams();
    if (launched_rank() != 0)
        be_silent();
}

Job::~Job() = default;

milcgpu_layout Job::layout(const reference::Lattice &whole) const {
    for (int mu = 0; mu < 4; ++mu)
        if (whole.n[mu] % grid_[mu] != 0 || (grid_[mu] > 1 && whole.n[mu] / grid_[mu] < 3))
            throw ArgumentError("--grid " + by(grid_, " ") + " does not divide the lattice, " + by(whole.n, " x ") +
                                ", into boxes of at least 3 sites in each cut direction");
    milcgpu_layout layout = layout_on_grid(whole.n, grid_, rank_);
    layout.messages = messages_;
    return layout;
}

void Job::start(const std::array<int, 4> &grid) {
    grid_ = grid;
    begin();
    if (product(grid) == size_)
        return;
    std::ostringstream ranks;
    ranks << product(grid);
    throw ArgumentError("--grid " + by(grid, " ") + " is for " + ranks.str() + " rank(s), but " +
                        std::to_string(size_) + " were started: mpirun -n " + ranks.str() + " PROGRAM --grid " +
                        by(grid, " ") + " (or srun)");
}

#if defined(MILCGPU_WITH_MPI)

void Job::begin() {
    if (product(grid_) == 1 && launched({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}, -1) < 0)
        return;
    MPI_Init(nullptr, nullptr);
    mpi_ = std::make_unique<Mpi>();
    int node_rank, node_size;
    milcgpu_mpi_own(MPI_COMM_WORLD, &mpi_->lent);
    milcgpu_mpi_node(MPI_COMM_WORLD, &node_rank, &node_size);
    mpi_->messages = milcgpu_mpi_messages(&mpi_->lent, node_rank, node_size);
    rank_ = mpi_->messages.rank;
    size_ = mpi_->messages.size;
    messages_ = size_ > 1 ? &mpi_->messages : nullptr;
    if (!is_first() && launched_rank() == 0)
        be_silent();
}

void Job::together() const {
    if (size_ > 1)
        MPI_Barrier(MPI_COMM_WORLD);
}

double Job::slowest(double seconds) const {
    if (size_ > 1)
        MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

double Job::sum(double value) const {
    if (size_ > 1)
        MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return value;
}

void Job::broadcast(void *data, std::size_t bytes) const {
    if (size_ > 1)
        MPI_Bcast(data, static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD);
}

namespace {

// MPI counts in int.
template <class Pass> void in_pieces(std::size_t bytes, const Pass &pass) {
    constexpr std::size_t piece = std::size_t(1) << 30;
    for (std::size_t at = 0; at < bytes; at += piece)
        pass(at, static_cast<int>(std::min(piece, bytes - at)));
}

} // namespace

void Job::send(const void *data, std::size_t bytes, int to) const {
    in_pieces(bytes, [&](std::size_t at, int count) {
        MPI_Send(static_cast<const char *>(data) + at, count, MPI_BYTE, to, 0, MPI_COMM_WORLD);
    });
}

void Job::receive(void *data, std::size_t bytes, int from) const {
    in_pieces(bytes, [&](std::size_t at, int count) {
        MPI_Recv(static_cast<char *>(data) + at, count, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    });
}

void Job::swap(const void *out, void *in, std::size_t bytes, int to, int from) const {
    in_pieces(bytes, [&](std::size_t at, int count) {
        MPI_Sendrecv(static_cast<const char *>(out) + at, count, MPI_BYTE, to, 0, static_cast<char *>(in) + at, count,
                     MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    });
}

int Job::end(int status, const char *error) {
    const auto say = [&](int rank) {
        if (error != nullptr && size_ > 1 && rank != 0)
            say_error("rank " + std::to_string(rank) + " of " + std::to_string(size_) + ": " + error);
        else if (error != nullptr)
            say_error(error);
    };
    if (!mpi_) {
        if (launched_rank() == 0)
            say(0);
        return status;
    }
    std::vector<int> all(static_cast<std::size_t>(size_));
    MPI_Request request;
    MPI_Iallgather(&status, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD, &request);
    if (is_first())
        say(0);
    int ended = 0;
    for (int look = 0; !ended && (error == nullptr || look < 200); ++look) { // after an error: at most 2 s
        MPI_Test(&request, &ended, MPI_STATUS_IGNORE);
        if (!ended)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (!is_first() && (!ended || all[0] == 0))
        say(rank_);
    if (!ended)
        milcgpu_mpi_abort(&mpi_->lent, "the other ranks did not end by themselves: all ranks are aborted");
    MPI_Comm_free(&mpi_->lent);
    MPI_Finalize();
    return *std::max_element(all.begin(), all.end());
}

#else

void Job::begin() {
    const int copies = launched({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, 1);
    if (product(grid_) > 1 || copies > 1)
        throw ArgumentError(
            "this program was built without MPI and runs on one rank only: for --grid under mpirun or srun "
            "build it with mpicc in the PATH (or make MPI=/path/to/mpicc)");
}

void Job::together() const {}
double Job::slowest(double seconds) const { return seconds; }
double Job::sum(double value) const { return value; }
void Job::broadcast(void *, std::size_t) const {}
void Job::send(const void *, std::size_t, int) const {}
void Job::receive(void *, std::size_t, int) const {}
void Job::swap(const void *, void *, std::size_t, int, int) const {}

int Job::end(int status, const char *error) {
    if (error != nullptr && launched_rank() == 0)
        say_error(error);
    return status;
}

#endif

} // namespace examples
