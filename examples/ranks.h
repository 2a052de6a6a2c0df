// Programs on several ranks (mpirun, srun), one GPU each, with a lattice that is divided over them: --grid. Each rank has
// its box. Rank 0 speaks and writes tables; where it compares with the reference, it has the whole lattice. Without
// --grid there is one rank, and none of this needs MPI.
#pragma once
#include "examples/arguments.h"
#include "examples/boxes.h"
#include "examples/origin.h"
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
    // What --grid says; {1, 1, 1, 1} is one rank. Throws ArgumentError where so many were not started.
    void start(const std::array<int, 4> &grid);

    int rank() const { return rank_; }
    int size() const { return size_; }
    bool is_first() const { return rank_ == 0; }
    std::string grid() const; // "1x1x1x2"

    // Of this rank, with messages; it holds as long as this object. Throws ArgumentError where the grid does not divide
    // the lattice into boxes that the library takes.
    milcgpu_layout layout(const reference::Lattice &whole) const;

    // All ranks call what follows, in the same order.
    void together() const; // waits for all, without a limit
    double slowest(double seconds) const;
    double sum(double value) const;
    // What rank 0 has.
    template <class Value> Value of_first(Value value) const {
        static_assert(std::is_trivially_copyable<Value>::value, "it is passed as bytes");
        broadcast(&value, sizeof value);
        return value;
    }
    // Bytes for one rank, and as many from another.
    void swap(const void *out, void *in, std::size_t bytes, int to, int from) const;
    // Does `work` on rank 0 alone. Where it throws, all do.
    void on_first(const std::function<void()> &work) const;
    // A field of the whole lattice in MILC's order, which rank 0 has, and the box of each: `reals` a site.
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
    // And back: the whole on rank 0, nothing on the others.
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

    // The end of all ranks with this rank's exit status, that of the worst. error: what went wrong here, nullptr for
    // nothing. One rank says it; where the others do not come to an end, too, they are ended.
    int end(int status, const char *error);

  private:
    void begin(); // finds out which rank of how many this is
    void broadcast(void *data, std::size_t bytes) const;
    void send(const void *data, std::size_t bytes, int to) const;
    void receive(void *data, std::size_t bytes, int from) const;
    struct Mpi;
    std::unique_ptr<Mpi> mpi_;                   // nullptr: not begun
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

} // namespace examples
