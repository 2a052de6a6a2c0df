// Programs on several ranks (mpirun, srun), one GPU each, with the lattice divided over the ranks by --grid. Each rank
// has its box. Rank 0 prints and writes tables; if it compares with the reference, it has the whole lattice. Without
// --grid a program runs on one rank and needs no MPI.
#pragma once
#include "examples/lib/arguments.h"
#include "examples/lib/boxes.h"
#include "examples/lib/origin.h"
#include <algorithm>
#include <functional>
#include <memory>

namespace examples {

class Job {
  public:
    Job();
    ~Job();
    Job(const Job &) = delete;

    static void add_grid(Arguments &arguments, std::array<int, 4> &grid) {
        arguments.add("grid", "X Y Z T", grid, "ranks in each direction, one GPU each, started by mpirun or srun",
                      whole(1, 1 << 20));
    }
    // grid: the value of --grid; {1, 1, 1, 1} is one rank. Throws ArgumentError if another number of ranks was started.
    void start(const std::array<int, 4> &grid);

    int rank() const { return rank_; }
    int size() const { return size_; }
    bool is_first() const { return rank_ == 0; }
    std::string grid() const; // "1x1x1x2"

    // The layout of this rank, with messages; it is valid as long as this object. Throws ArgumentError if the grid does
    // not divide the lattice into boxes that the library accepts.
    milcgpu_layout layout(const reference::Lattice &whole) const;

    // All ranks must call the following functions, in the same order.
    void together() const; // waits for all ranks, without a limit
    double slowest(double seconds) const;
    double sum(double value) const;
    // Returns rank 0's value.
    template <class Value> Value of_first(Value value) const {
        static_assert(std::is_trivially_copyable<Value>::value, "it is passed as bytes");
        broadcast(&value, sizeof value);
        return value;
    }
    // Sends bytes to one rank and receives as many from another.
    void swap(const void *out, void *in, std::size_t bytes, int to, int from) const;
    // Does `work` on rank 0 only. If it throws, all ranks throw.
    void on_first(const std::function<void()> &work) const;
    // Rank 0 has a field of the whole lattice in MILC's order, with `reals` per site. Each rank gets its box.
    template <class Real>
    std::vector<Real> deal(const reference::Lattice &lattice, const std::vector<Real> &whole, std::size_t reals) const {
        if (size_ == 1)
            return whole;
        std::vector<Real> box;
        for (int rank = size_ - 1; rank >= 0 && is_first(); --rank) {
            box.clear();
            for (const std::size_t place : places_of(layout_on_grid(lattice.n, grid_, rank)))
                box.insert(box.end(), whole.begin() + place * reals, whole.begin() + (place + 1) * reals);
            if (rank != 0)
                send(box.data(), box.size() * sizeof(Real), rank);
        }
        if (!is_first()) {
            box.resize(places_of(layout(lattice)).size() * reals);
            receive(box.data(), box.size() * sizeof(Real), 0);
        }
        return box;
    }
    // The reverse: returns the whole field on rank 0, nothing on the others.
    template <class Real>
    std::vector<Real> collect(const reference::Lattice &lattice, const std::vector<Real> &box,
                              std::size_t reals) const {
        if (size_ == 1)
            return box;
        if (!is_first()) {
            send(box.data(), box.size() * sizeof(Real), 0);
            return {};
        }
        std::vector<Real> whole(reals * lattice.volume()), part = box;
        for (int rank = 0; rank < size_; ++rank) {
            const auto places = places_of(layout_on_grid(lattice.n, grid_, rank));
            if (rank != 0)
                receive(part.data(), part.size() * sizeof(Real), rank);
            for (std::size_t k = 0; k < places.size(); ++k)
                std::copy_n(part.begin() + k * reals, reals, whole.begin() + places[k] * reals);
        }
        return whole;
    }

    // Ends all ranks; returns the worst exit status. error: this rank's error, nullptr for none. One rank prints the
    // error. If other ranks do not end by themselves, they are aborted.
    int end(int status, const char *error);

  private:
    void begin(); // finds this rank and the number of ranks
    void broadcast(void *data, std::size_t bytes) const;
    void send(const void *data, std::size_t bytes, int to) const;
    void receive(void *data, std::size_t bytes, int from) const;
    struct Mpi;
    std::unique_ptr<Mpi> mpi_;                   // nullptr: not started
    const milcgpu_messages *messages_ = nullptr; // nullptr: one rank
    std::array<int, 4> grid_ = {1, 1, 1, 1};
    int rank_ = 0, size_ = 1;
};

// run_program() for programs with --grid.
template <class Body> int run_on_ranks(const Body &body) {
    Job ranks;
    try {
        const int status = body(ranks);
        check_printed();
        return ranks.end(status, nullptr);
    } catch (const ArgumentError &error) {
        return ranks.end(2, error.what());
    } catch (const std::bad_alloc &) {
        return ranks.end(1, no_memory);
    } catch (const std::exception &error) {
        return ranks.end(1, error.what());
    }
}

// As above, with the settings that read() fills; read() returns false if there is nothing to run.
template <class Settings>
int run_on_ranks(int argc, char **argv, bool (*read)(int, char **, Settings &), int (*run)(const Settings &, Job &)) {
    return run_on_ranks([&](Job &ranks) {
        Settings settings;
        return read(argc, argv, settings) ? run(settings, ranks) : 0;
    });
}

} // namespace examples
